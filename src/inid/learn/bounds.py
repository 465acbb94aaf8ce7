"""Bounds of columns, one-hot groups among them, and other public numbers that an estimator takes.

A row has at most one 1 among the columns of a one-hot group, so it moves at most one of any sums over them: the norm of
a group is 1, however many categories there are. Estimators plan with that and enforce it: whatever X holds, a row's
entries in a group are read as *which of them is 1*, none if there are none or several (`codes`).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from inid.arguments import Floats, choice, real, shown, shown_entry
from inid.errors import ArgumentError
from inid.learn.inputs import read_rows
from inid.promises import Budget

Groups = tuple[tuple[int, int], ...]  # (first, after the last) column of each
_LARGEST, _LEAST = 1e100, 1e-100  # squares and fourth powers of bounds stay within the floats
_AFFORDED = 1e-3  # of the variance: the noise that is no reason to clip


@dataclass(frozen=True)
class EncodedBounds:
    """Bounds of encoded columns, to be passed as `bounds` to an estimator.

    Attributes:
        names: The names of the columns.
        lower: Their lower bounds.
        upper: Their upper bounds.
        groups: (first, after the last) place of the columns of each one-hot group, whose bounds are 0 and 1.

    Raises:
        ArgumentError: They are no such columns: of different numbers, groups that share a column, say.

    >>> EncodedBounds(("age", "sex_F", "sex_M"), (0, 0, 0), (3, 1, 1), ((1, 3),)).row_norm == 10**0.5
    True
    """

    names: tuple[str, ...]
    lower: tuple[float, ...]
    upper: tuple[float, ...]
    groups: Groups = ()

    def __post_init__(self) -> None:
        check_encoded(self)

    @property
    def row_norm(self) -> float:
        """The largest l2 norm of a row, for `PrivatePCA`: a group adds 1, whatever its number of columns."""
        grouped = {at for first, last in self.groups for at in range(first, last)}
        sizes = [max(abs(a), abs(b)) for a, b in zip(self.lower, self.upper, strict=True)]
        return math.sqrt(len(self.groups) + sum(size**2 for at, size in enumerate(sizes) if at not in grouped))


def check_encoded(bounds: EncodedBounds) -> None:
    """Raise where encoded bounds contradict themselves; noise is planned by them, so they are read before each fit."""
    cure = "pass what PublicCategories.get_bounds_out gives"
    for name in ("names", "lower", "upper", "groups"):
        value = getattr(bounds, name)
        if not isinstance(value, tuple) or (name != "groups" and len(value) != len(bounds.names)):
            raise ArgumentError(
                f"EncodedBounds: {name} must be a tuple{'' if name == 'groups' else ' with one entry for each name'}, "
                f"got {shown(value)}: {cure}."
            )
    taken: set[int] = set()
    for at, group in enumerate(bounds.groups):
        pair = isinstance(group, tuple) and len(group) == 2 and all(isinstance(end, Integral) for end in group)
        if not pair or not 0 <= group[0] < group[1] <= len(bounds.names):
            raise ArgumentError(
                f"EncodedBounds: groups[{at}] must be two whole numbers, 0 <= first < after the last <= "
                f"{len(bounds.names)}, got {shown(group)}: {cure}."
            )
        columns = range(int(group[0]), int(group[1]))
        if not taken.isdisjoint(columns):
            raise ArgumentError(f"EncodedBounds: groups[{at}], {shown(group)}, has a column of another group: {cure}.")
        taken.update(columns)
        for column in columns:
            if not (bounds.lower[column] == 0 and bounds.upper[column] == 1):
                raise ArgumentError(
                    f"EncodedBounds: column {column} is one-hot, so its bounds must be 0 and 1, got "
                    f"{shown((bounds.lower[column], bounds.upper[column]))}: {cure}."
                )


def one_hot_groups(bounds: object) -> Groups:
    """The one-hot groups that bounds state; none for any other bounds."""
    if not isinstance(bounds, EncodedBounds):
        return ()
    check_encoded(bounds)
    return tuple((int(first), int(last)) for first, last in bounds.groups)


def outside_groups(width: int, groups: Groups) -> NDArray[np.bool_]:
    """Whether each column is in no group."""
    outside = np.ones(width, bool)
    for first, last in groups:
        outside[first:last] = False
    return outside


def group_sizes(width: int, groups: Groups) -> Floats:
    """How many categories the group of each column has; 1 for a column of no group."""
    sizes = np.ones(width)
    for first, last in groups:
        sizes[first:last] = last - first
    return sizes


def codes(values: Floats, group: tuple[int, int]) -> NDArray[np.intp]:
    """Which column of a group is 1, row by row; their number where none is, or several are.

    An entry counts as 1 from 1/2 on. Each row is read by itself, and any row has one code.
    """
    marks = (values[:, slice(*group)] >= 0.5).astype(np.float64)  # NaN is not
    size = marks.shape[1]
    # Whole numbers: exact in whatever order BLAS adds. Of a single mark the sum of places is its place.
    count, place = (marks @ np.column_stack([np.ones(size), np.arange(size)])).T
    return np.asarray(np.where(count == 1, place, size), dtype=np.intp)


def enforce_one_hot(values: Floats, groups: Groups) -> Floats:
    """The rows with the columns of each group replaced by what `codes` reads."""
    return one_hot_with_codes(values, groups)[0]


def one_hot_with_codes(values: Floats, groups: Groups) -> tuple[Floats, list[NDArray[np.intp]]]:
    """The rows clipped to the groups, and the codes of each group."""
    if not groups:
        return values, []
    copy, places = np.array(values), [codes(values, group) for group in groups]
    for (first, last), code in zip(groups, places, strict=True):
        copy[:, first:last] = code[:, None] == np.arange(last - first)
    return copy, places


# (lower, upper), each one number for all columns or a list of one per column; or a pair for each column's name.
Bounds = tuple[ArrayLike, ArrayLike] | Sequence[ArrayLike] | Mapping[str, tuple[float, float]] | EncodedBounds


def read_budget(budget: object) -> Budget:
    """The promise of an estimator; there is no default for it."""
    if not isinstance(budget, Budget):
        raise ArgumentError(
            f"budget must be a promise such as inid.ApproxDP(epsilon=1.0, delta=1e-6), got {shown(budget)}: name it."
        )
    return budget


def read_bounds(
    name: str, bounds: Bounds | None, features: int, names: Sequence[str] | None = None
) -> tuple[Floats, Floats]:
    """(lower, upper) as two arrays of one number per column; scalars hold for every column."""
    cure = "pass (lower, upper) from public knowledge, each a number or a list of one number per column"
    if bounds is None:
        raise ArgumentError(f"{name} must be given, and is never read from the data: {cure}.")
    if isinstance(bounds, EncodedBounds):
        bounds = _encoded(name, bounds, features, names)
    elif isinstance(bounds, Mapping):
        bounds = _by_name(name, bounds, names)
    elif features != 2 and _is_list_of_pairs(bounds, features):
        bounds = tuple(zip(*bounds, strict=True))
    if isinstance(bounds, (str, bytes)) or not hasattr(bounds, "__len__") or len(bounds) != 2:
        raise ArgumentError(f"{name} must be a pair, got {shown(bounds)}: {cure}.")
    if features == 2 and _are_two_pairs(bounds):
        raise ArgumentError(
            f"{name} for two columns can be read in two ways, got {shown(bounds)}: as (lower, upper), or as a pair for "
            "each column. Pass a tuple of two lists, ([lower, lower], [upper, upper]), or a mapping from each column's "
            "name to its pair."
        )
    ends = []
    for word, end in zip(("lower", "upper"), bounds, strict=True):
        try:
            numbers = np.array(end, dtype=np.float64)
        except (TypeError, ValueError):
            raise ArgumentError(f"{name}: {word} must hold numbers, got {shown(end)}: {cure}.") from None
        if numbers.shape not in ((), (features,)):
            raise ArgumentError(f"{name}: {word} has shape {numbers.shape}, the data have {features} columns: {cure}.")
        ends.append(np.broadcast_to(numbers, (features,)).copy())
    lower, upper = ends
    size = np.maximum(np.abs(lower), np.abs(upper))
    sound = (lower < upper) & (size <= _LARGEST) & (size >= _LEAST)
    if not sound.all():
        at = int(np.argmin(sound))
        where = name if features == 1 else f"{name} of column {at}"
        if lower[at] == upper[at]:
            raise ArgumentError(
                f"{where} must have lower < upper, got the same for both: a column that has one "
                "value for everybody says nothing of anybody, so drop it, or pass wider bounds."
            )
        given = bounds if isinstance(bounds, (list, tuple)) else ends
        low, high = (shown_entry(one, end, at) for one, end in zip(given, ends, strict=True))
        raise ArgumentError(
            f"{where} must be finite with lower < upper and of a size within "
            f"[{_LEAST:g}, {_LARGEST:g}], got ({low}, {high}): {cure}."
        )
    return lower, upper


def _encoded(
    name: str, bounds: EncodedBounds, features: int, names: Sequence[str] | None
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """The ends of encoded columns, if the data have these columns."""
    check_encoded(bounds)
    if len(bounds.names) != features or (names is not None and [*names] != [*bounds.names]):
        raise ArgumentError(
            f"{name} are those of {len(bounds.names)} encoded columns, {shown([*bounds.names])}, and the data have "
            f"{features if names is None else shown([*names])}: pass what the encoder makes, and nothing beside it."
        )
    return bounds.lower, bounds.upper


def _is_list_of_pairs(bounds: Any, features: int) -> bool:
    """Whether there is a pair for each column; with two columns that could be (lower, upper) as well."""
    return hasattr(bounds, "__len__") and len(bounds) == features and all(np.shape(pair) == (2,) for pair in bounds)


def _are_two_pairs(bounds: Any) -> bool:
    """Whether the bounds of two columns may be a pair for each; two lists, or arrays, in a tuple are not mistaken."""
    if not all(np.shape(end) == (2,) for end in bounds):
        return False
    return not isinstance(bounds, tuple) or all(isinstance(end, tuple) for end in bounds)


def _by_name(name: str, bounds: Mapping[str, Any], names: Sequence[str] | None) -> tuple[list[Any], list[Any]]:
    """Bounds by the names of columns, in the order of the data."""
    if names is None:
        raise ArgumentError(
            f"{name} is a mapping, but the columns have no names: pass a data frame, or (lower, upper)."
        )
    if set(names) != set(bounds):
        missing, other = sorted(set(names) - set(bounds)), sorted(map(str, set(bounds) - set(names)))
        raise ArgumentError(
            f"{name} must have one pair for each column of the data; missing {shown(missing)}, unknown {shown(other)}."
        )
    pairs = [bounds[one] for one in names]
    if not all(hasattr(pair, "__len__") and len(pair) == 2 for pair in pairs):
        raise ArgumentError(f"{name} must map each column to a pair: pass {{'age': (0, 100)}}, say.")
    return [pair[0] for pair in pairs], [pair[1] for pair in pairs]


def read_columns(columns: Any, width: int, names: Sequence[str] | None) -> list[int]:
    """Some columns, by place or by name, as places."""
    known: dict[Any, int] = {at: at for at in range(width)}
    known |= {name: at for at, name in enumerate(() if names is None else names)}
    try:
        places = [known[one] for one in columns]
    except (KeyError, TypeError):
        raise ArgumentError(
            f"columns must be places below {width} or names of columns, got {shown(columns)}: pass [0, 2], say."
        ) from None
    if len({*places}) < len(places):
        raise ArgumentError(f"columns names a column twice: {shown(columns)}.")
    return places


def read_sizes(name: str, value: ArrayLike, features: int) -> Floats:
    """One positive public number per column, a scalar for all of them."""
    cure = "pass one positive number per column, from public knowledge"
    try:
        numbers = np.array(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise ArgumentError(f"{name} must hold numbers, got {shown(value)}: {cure}.") from None
    if numbers.shape not in ((), (features,)):
        raise ArgumentError(f"{name} has shape {numbers.shape}, the data have {features} columns: {cure}.")
    sound = (numbers >= _LEAST**2) & (numbers <= _LARGEST**2)
    if not sound.all():
        at = int(np.argmin(sound))
        got = shown_entry(value, numbers.reshape(-1), at)
        raise ArgumentError(f"{name}[{at}] must be a finite number greater than 0, got {got}: {cure}.")
    return np.broadcast_to(numbers, (features,)).copy()


def read_smoothness(value: ArrayLike, width: int) -> Floats | float | None:
    """None for "bounds", a fraction as a float, constants as an array."""
    if isinstance(value, str):
        choice("smoothness", value, ("bounds",))
        return None
    if np.ndim(value) == 0:
        cure = 'pass "bounds", one number per column, or the fraction of the budget to spend, such as 0.1'
        fraction = real("smoothness", value, above=0, cure=cure)
        if not fraction < 1:
            raise ArgumentError(f"smoothness must be a fraction below 1, got {shown(value)}: {cure}.")
        return fraction
    return read_sizes("smoothness", value, width)


def read_moderate(name: str, value: object) -> float:
    """A positive number of a size that floats have room for."""
    number = real(name, value, above=0, cure=f"pass a positive number, for example {name}=1.0")
    if not 1e-50 < number < 1e50:
        raise ArgumentError(f"{name} must lie between 1e-50 and 1e50, got {shown(value)}: use other units.")
    return number


def clip_to_bounds(X: Floats, lower: Floats, upper: Floats, groups: Groups = ()) -> Floats:
    """X within its bounds, as a fit reads it: values outside are clipped, NaN is the middle; groups are one-hot."""
    with np.errstate(all="ignore"):
        rows = enforce_one_hot(np.ascontiguousarray(X), groups)  # first: an entry that is missing is no category
        clipped = np.clip(rows, lower, upper)  # predictions do not depend on the layout in memory
        return np.where(np.isnan(clipped), lower / 2 + upper / 2, clipped)


def bounds_of(frame: Any) -> dict[str, tuple[float, float]] | tuple[Floats, Floats]:
    """The bounds of a *public* frame: last year's published table, a data dictionary, a synthetic sample.

    Never of the data to be protected: their extremes are somebody's values.

    Args:
        frame: A data frame, which gives a mapping from each column's name to (least, greatest), or a plain array, which
            gives (lower, upper).

    Raises:
        ArgumentError: A column has no two different finite numbers.

    >>> bounds_of(np.array([[0.0, 5.0], [1.0, 9.0]]))
    (array([0., 5.]), array([1., 9.]))
    """
    values = read_rows(frame).floats()
    with np.errstate(all="ignore"):
        finite = np.where(np.isfinite(values), values, np.nan)
        lower, upper = np.fmin.reduce(finite), np.fmax.reduce(finite)
    names = getattr(frame, "columns", None)
    lower, upper = read_bounds("the frame's extremes", (lower, upper), values.shape[1])
    if names is None:
        return lower, upper
    pairs = zip(lower.tolist(), upper.tolist(), strict=True)
    return {str(name): pair for name, pair in zip(names, pairs, strict=True)}


def deviations(signal: float, *, least: float, factor: float) -> float:
    """How many standard deviations are kept: `factor` times signal^(1/4), within limits.

    Beyond k standard deviations lies at most 1/k^2 of the rows, and what clipping them changes falls like 1/k^2; the
    noise grows like k^2 / signal. The two balance at signal^(1/4). Heavier tails would be clipped by a huge budget in
    vain, so the noise may always be a thousandth of the variance.
    """
    room: float = max(signal, 0.0)
    return max(least, factor * math.sqrt(math.sqrt(room)), math.sqrt(_AFFORDED * room))
