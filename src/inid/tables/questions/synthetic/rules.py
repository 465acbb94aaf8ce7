"""Rules that every synthetic row keeps: public conditions as masks over levels, and values in bins that keep them.

Rules are stated and never checked on data, so they cost nothing: they say which rows are made of what was released. A
row keeps a rule where `Table.where` of its text would keep the row; a comparison with something missing is false.

A rule is a mask: which combinations of levels of its columns keep it. A combination of bins does where some of up to 64
even values of each bin do, and numbers in bins are then drawn until all rules hold. Before any charge one row that
keeps all of them is searched for; rules that leave none are refused.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from inid.arguments import shown
from inid.errors import ArgumentError
from inid.tables import expressions as node
from inid.tables.expressions import Condition, Expression, expression, leaves
from inid.tables.questions.synthetic.columns import Codes, InBins, LevelColumn
from inid.tables.questions.synthetic.level_space import Mask

_Truths = NDArray[np.bool_]
_Values = NDArray[Any]

_PER_BIN = (64, 32, 16, 8, 4, 2, 1)  # values of each bin that are tried
_MOST_CELLS = 2**18  # combinations of values of one rule
_MOST_STEPS = 10_000  # of the search for a first row
_LIKELY_DRAWS, _TRIED_DRAWS = 20, 200


@dataclass(frozen=True, eq=False)
class Rules:
    """Rules over some columns."""

    columns: tuple[LevelColumn, ...]
    conditions: tuple[Condition, ...]

    @property
    def texts(self) -> list[str]:
        """The rules as they are stated."""
        return [str(condition) for condition in self.conditions]

    @cached_property
    def _places(self) -> dict[str, int]:
        return {column.name: at for at, column in enumerate(self.columns)}

    def _columns_of(self, condition: Condition) -> tuple[int, ...]:
        return tuple(sorted({self._places[name] for name, _ in leaves(condition)}))

    @cached_property
    def _tried(self) -> dict[int, list[_Values]]:
        """For each column of a rule and each of its levels the values that are tried."""
        several = [self._columns_of(condition) for condition in self.conditions]
        for number in _PER_BIN:
            tried = {at: self.columns[at].tried(number) for at in sorted({at for used in several for at in used})}
            counts = {at: sum(map(len, values)) for at, values in tried.items()}
            large = [at for at, used in enumerate(several) if prod(counts[one] for one in used) > _MOST_CELLS]
            if not large:
                return tried
        raise ArgumentError(
            f"the rule {shown(self.texts[large[0]])} has more than {_MOST_CELLS:,} combinations of levels: use fewer "
            "columns in one rule, or fewer levels."
        )

    @cached_property
    def _fine(self) -> list[Mask]:
        """The masks over the values that are tried: of all rules whose columns are among those of a larger one."""
        levels = {at: np.concatenate(values) for at, values in self._tried.items()}
        masks: list[Mask] = []
        for condition in sorted(self.conditions, key=lambda one: -len(self._columns_of(one))):
            columns = self._columns_of(condition)
            axes = np.ix_(*(np.arange(len(levels[at])) for at in columns))
            values = {self.columns[at].name: levels[at][axis] for at, axis in zip(columns, axes, strict=True)}
            mask = np.broadcast_to(truths(condition, values), [len(levels[at]) for at in columns])
            around = next((at for at, other in enumerate(masks) if set(columns) <= set(other.columns)), None)
            if around is None:
                masks.append(Mask(columns, mask))
                continue
            larger = masks[around]
            axes_inside = tuple(at for at, one in enumerate(larger.columns) if one not in columns)
            masks[around] = Mask(larger.columns, larger.allowed & np.expand_dims(mask, axes_inside))
        return masks

    @cached_property
    def masks(self) -> list[Mask]:
        """Which combinations of levels keep the rules, one mask for rules of the same columns."""
        by_columns = []
        for mask in self._fine:
            allowed = mask.allowed
            for axis, at in enumerate(mask.columns):
                starts = np.cumsum([0, *map(len, self._tried[at])])[:-1]
                allowed = np.logical_or.reduceat(allowed, starts, axis=axis)
            by_columns.append(Mask(mask.columns, allowed))
        return by_columns

    @cached_property
    def first_row(self) -> dict[int, tuple[int, Any]]:
        """A level and a value of each column of a rule, which keep all rules.

        Raises:
            ArgumentError: No row keeps them, or none was found.
        """
        every = {at: np.ones(sum(map(len, values)), dtype=bool) for at, values in self._tried.items()}
        solution = _search(self._fine, every, [_MOST_STEPS])
        if solution is None:
            raise ArgumentError(
                "the rules leave no row: no combination of levels keeps all of "
                f"{'; '.join(self.texts)}. Take one of them back."
            )
        row = {}
        for at, place in solution.items():
            levels = np.repeat(np.arange(len(self._tried[at])), [*map(len, self._tried[at])])
            row[at] = int(levels[place]), np.concatenate(self._tried[at])[place]
        return row

    @property
    def first_levels(self) -> dict[int, int]:
        """Its levels."""
        return {at: level for at, (level, _) in self.first_row.items()}

    def kept(self, values: Sequence[_Values]) -> _Truths:
        """Which rows of values, column by column, keep all rules."""
        named = {column.name: column_values for column, column_values in zip(self.columns, values, strict=True)}
        return np.asarray(np.logical_and.reduce([truths(condition, named) for condition in self.conditions]))

    def values(
        self, codes: Codes, rng: np.random.Generator, inside: Mapping[int, InBins] = MappingProxyType({})
    ) -> list[_Values]:
        """Values of rows whose levels keep the masks: numbers in bins are drawn until every rule holds.

        First as the bin's values are thought to lie, then among the values that were tried. A row for which that
        fails, since next to no values of its bins keep the rules together, becomes one of the others, and so do its
        codes.
        """
        values = [column.drawn(codes[:, at], rng, inside.get(at)) for at, column in enumerate(self.columns)]
        binned = [at for at in self._tried if self.columns[at].bins is not None]
        off = np.flatnonzero(~self.kept(values))
        for draw in range(_TRIED_DRAWS):
            if not off.size:
                return values
            for at in binned:
                column_codes = codes[off, at]
                values[at][off] = (
                    self.columns[at].drawn(column_codes, rng, inside.get(at))
                    if draw < _LIKELY_DRAWS
                    else _one_of(self._tried[at], column_codes, rng)
                )
            off = off[~self.kept([column_codes[off] for column_codes in values])]
        good = np.setdiff1d(np.arange(len(codes)), off)
        if good.size:
            taken = rng.choice(good, off.size)
            for at, column_codes in enumerate(values):
                column_codes[off], codes[off, at] = column_codes[taken], codes[taken, at]
            return values
        for at, (level, value) in self.first_row.items():
            values[at][:], codes[:, at] = value, level
        return values


def _one_of(tried: Sequence[_Values], codes: Codes, rng: np.random.Generator) -> _Values:
    """One of the values of each level, at random."""
    counts = np.array([*map(len, tried)])
    starts = np.cumsum(counts) - counts
    places = starts[codes] + (rng.random(codes.size) * counts[codes]).astype(np.intp)
    return np.asarray(np.concatenate(tried)[places])


def read_rules(columns: tuple[LevelColumn, ...], stated: object) -> Rules | None:
    """Rules as they are stated: conditions or their texts. None where there are none.

    Raises:
        ArgumentError: One is no condition, names another column, reads one as something that it is not, or the rules
            leave no row.
    """
    if stated is None or (isinstance(stated, Sequence) and not isinstance(stated, (str, bytes)) and not stated):
        return None
    if isinstance(stated, (str, bytes)) or not isinstance(stated, Sequence):
        raise ArgumentError('rules must be a list of conditions: ["education <= age - 5"].')
    rules = Rules(columns, tuple(_read(columns, at, one) for at, one in enumerate(stated)))
    for mask in rules.masks:
        if not mask.allowed.any():
            names = " and ".join(columns[at].name for at in mask.columns)
            raise ArgumentError(f"the rules leave no row: no combination of levels of {names} keeps those of them.")
    rules.first_row  # noqa: B018 - it refuses rules that leave no row
    return rules


def _read(columns: Sequence[LevelColumn], at: int, stated: object) -> Condition:
    condition = expression(stated) if isinstance(stated, str) else stated
    if not isinstance(condition, Condition):
        raise ArgumentError(
            f"rules[{at}] must be a condition, got {shown(stated)}: for example \"not (job == 'none' and pay > 0)\"."
        )
    known = {column.name: column for column in columns}
    for name, role in sorted(leaves(condition)):
        if name not in known:
            raise ArgumentError(f"rules[{at}] names {name!r}, which is no column of the synthetic rows.")
        if role not in known[name].roles:
            raise ArgumentError(
                f"rules[{at}] reads {name!r} as {_ROLES[role]}, and its levels are {known[name].kind_of_levels}: "
                f"compare it with what it holds{_MISSING if role == 'number' else ''}."
            )
    return condition


_ROLES = {
    "number": "a number",
    "int": "a whole number",
    "str": "a text",
    "bool": "a truth",
    "day": "a date",
    "year": "a date",
}
_MISSING = ", and ask is_missing(column, 'text') or is_missing(column, 'truth') of texts and truths"


def _search(masks: Sequence[Mask], domains: Mapping[int, _Truths], left: list[int]) -> dict[int, int] | None:
    """A value of each column that all masks allow, by trial where more than one is left; None if there is none."""
    narrowed = _narrowed(masks, dict(domains))
    if narrowed is None:
        return None
    free = {at: domain for at, domain in narrowed.items() if domain.sum() > 1}
    if not free:
        return {at: int(domain.argmax()) for at, domain in narrowed.items()}
    column = min(free, key=lambda at: int(free[at].sum()))
    for value in np.flatnonzero(free[column]).tolist():
        left[0] -= 1
        if left[0] < 0:
            raise ArgumentError("no row that keeps all rules was found, and there may be none: state fewer of them.")
        only = np.arange(free[column].size) == value
        solution = _search(masks, {**narrowed, column: only}, left)
        if solution is not None:
            return solution
    return None


def _narrowed(masks: Sequence[Mask], domains: dict[int, _Truths]) -> dict[int, _Truths] | None:
    """The values that each mask allows together with some of the others' (arc consistency, Mackworth 1977)."""
    waiting = list(range(len(masks)))
    while waiting:
        mask = masks[waiting.pop()]
        places = [np.flatnonzero(domains[at]) for at in mask.columns]
        allowed = mask.allowed[np.ix_(*places)]
        for axis, at in enumerate(mask.columns):
            others = tuple(other for other in range(allowed.ndim) if other != axis)
            still = allowed.any(axis=others)
            if not still.any():
                return None
            if not still.all():
                possible = np.zeros(domains[at].size, dtype=bool)
                possible[places[axis][still]] = True
                domains[at] = possible
                waiting += [other for other, one in enumerate(masks) if at in one.columns and other not in waiting]
    return domains


# Conditions on arrays, as `expressions` defines them: total, and the same as on every engine.


def truths(condition: Condition, values: Mapping[str, _Values]) -> _Truths:
    """Where a condition holds. Numbers are floats with NaN for missing; texts and truths are objects, None missing."""
    with np.errstate(all="ignore"):
        return np.asarray(_truth(condition, values), dtype=bool)


def _truth(condition: Expression, values: Mapping[str, _Values]) -> Any:
    match condition:
        case node.Both(left, right):
            return _truth(left, values) & _truth(right, values)
        case node.Either(left, right):
            return _truth(left, values) | _truth(right, values)
        case node.Not(inner):
            return ~_truth(inner, values)
        case node.Member(column, keys):
            return np.logical_or.reduce([values[column.name] == key for key in keys]).astype(bool)
        case node.Missing(column):
            return _is_missing(values[column.name])
        case node.Comparison(operator, left, str() | bool() as right):
            assert isinstance(left, node.Column)  # noqa: S101 - as expressions are made
            left_values = values[left.name]
            equal = (left_values == right).astype(bool)
            return equal if operator == "==" else ~equal & ~_is_missing(left_values)
        case node.Comparison(operator, left, right):
            one, two = _number(left, values), _number(right, values)
            return _COMPARED[operator](one, two) & ~np.isnan(one) & ~np.isnan(two)
    raise TypeError("a condition of no known kind")


_COMPARED = {
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
    "==": np.equal,
    "!=": np.not_equal,
}


def _is_missing(values: _Values) -> _Truths:
    return np.asarray(np.isnan(values) if values.dtype.kind == "f" else values == np.array(None), dtype=bool)


def _number(value: object, values: Mapping[str, _Values]) -> _Values:
    numbers = np.asarray(_numbers(value, values), dtype=np.float64)
    return np.clip(numbers, -node.MOST, node.MOST)


def _numbers(value: object, values: Mapping[str, _Values]) -> Any:
    match value:
        case node.Constant(number):
            return number
        case node.Column(name):
            return values[name]
        case node.Rounded(function, inner):
            return (np.abs if function == "abs" else np.floor)(_number(inner, values))
        case node.Branch(condition, yes, no):
            return np.where(_truth(condition, values), _number(yes, values), _number(no, values))
        case node.Arithmetic(operator, left, right):
            one, two = _number(left, values), _number(right, values)
            if operator == "/":
                return np.where(np.abs(two) < 1 / node.MOST, np.nan, one / two)
            return _JOINED[operator](one, two)
    raise ArgumentError("rules compare numbers, texts and truths: a text that a condition chooses cannot be compared.")


_JOINED = {"+": np.add, "-": np.subtract, "*": np.multiply, "min": np.minimum, "max": np.maximum}
