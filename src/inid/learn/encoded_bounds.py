"""The geometry of encoded columns: bounds of each, and which of them are one column of categories, one-hot.

A row has at most one 1 among the columns of a group, so one row moves at most one of any sums over them: the norm of a
group is 1, however many categories there are. Estimators plan with that, and hold the data to it: whatever X holds, a
row's entries in a group are read as *which of them is 1*, none if there are none or several (`codes`).
"""

import math
from dataclasses import dataclass
from numbers import Integral

import numpy as np
from numpy.typing import NDArray

from inid.arguments import Floats, shown
from inid.errors import ArgumentError

__all__ = [
    "EncodedBounds",
    "Groups",
    "categories_beside",
    "check_encoded",
    "codes",
    "held_and_codes",
    "held_to_groups",
    "no_group",
    "one_hot_groups",
]

Groups = tuple[tuple[int, int], ...]  # (first, after the last) column of each


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
    """Raise where encoded bounds contradict themselves; noise is planned by them, so they are read before each fit.

    Raises:
        ArgumentError: They do; those of an unpickled object may.
    """
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


def no_group(width: int, groups: Groups) -> NDArray[np.bool_]:
    """Whether each column is in no group.

    >>> no_group(4, ((1, 3),)).tolist()
    [True, False, False, True]
    """
    found = np.ones(width, bool)
    for first, last in groups:
        found[first:last] = False
    return found


def categories_beside(width: int, groups: Groups) -> Floats:
    """How many categories the group of each column has; 1 for a column of no group.

    >>> categories_beside(4, ((1, 3),)).tolist()
    [1.0, 2.0, 2.0, 1.0]
    """
    found = np.ones(width)
    for first, last in groups:
        found[first:last] = last - first
    return found


def codes(values: Floats, group: tuple[int, int]) -> NDArray[np.intp]:
    """Which column of a group is 1, row by row; their number where none is, or several are.

    An entry counts as 1 from 1/2 on. Each row is read by itself, and any row has one code.

    >>> codes(np.array([[0.0, 1.0], [1.0, 0.0], [0.0, np.nan], [1.0, 1.0]]), (0, 2)).tolist()
    [1, 0, 2, 2]
    """
    marks = (values[:, slice(*group)] >= 0.5).astype(np.float64)  # NaN is not
    size = marks.shape[1]
    # Whole numbers: exact in whatever order BLAS adds. Of a single mark the sum of places is its place.
    count, place = (marks @ np.column_stack([np.ones(size), np.arange(size)])).T
    return np.asarray(np.where(count == 1, place, size), dtype=np.intp)


def held_to_groups(values: Floats, groups: Groups) -> Floats:
    """The rows with the columns of each group replaced by what `codes` reads."""
    return held_and_codes(values, groups)[0]


def held_and_codes(values: Floats, groups: Groups) -> tuple[Floats, list[NDArray[np.intp]]]:
    """The rows held to the groups, and the codes of each group."""
    if not groups:
        return values, []
    held, found = np.array(values), [codes(values, group) for group in groups]
    for (first, last), code in zip(groups, found, strict=True):
        held[:, first:last] = code[:, None] == np.arange(last - first)
    return held, found
