"""Features of a person: what each one's rows come to, as one row a person.

*Statement.* The table of features has one row for each person who has a row, and each row depends on the rows of that
person alone: how many there are, sums, means, extremes, whether a condition holds in one of them, the value they share.
*Guarantee.* Whatever one person does with their rows, one row of this table changes, appears or vanishes, and every
feature lies within its public bounds. Questions of it limit a person to one row besides, so that the sensitivity is
that of one row even if an engine told two ids apart that are one.

Values are moved to bounds and rounded to a public power of two before they are added, as whole numbers in doubles:
their sums are exact, the same in every order and on every engine, and stop nothing. A sum of more rows than the table
promises may lose digits, and still lies within its bounds.
"""

import builtins
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, cast, get_args

from inid.arguments import choice, shown
from inid.errors import ArgumentError
from inid.tables.expressions import (
    Arithmetic,
    Branch,
    Column,
    Comparison,
    Condition,
    Constant,
    Expression,
    Missing,
    Numeric,
    Rounded,
    as_number,
    expression,
    maximum,
    minimum,
)
from inid.tables.facts import Bounds, read_bounds

if TYPE_CHECKING:
    from inid.tables.view import View

FeatureKind = Literal["sum", "count", "mean", "min", "max", "any", "same"]
How = Literal["sum", "present", "rows", "min", "max", "same"]
PartRole = Literal["number", "str", "int"]

_BITS = 52  # of a double that holds a sum of whole numbers
_FARTHEST = 2.0**400  # beyond, steps of a grid are no normal floats
_WRITTEN = re.compile(r"\s*(\w+)\((.*)\)\s*(?:in\s+(\S+)\s*:\s*(\S+)\s*)?", re.DOTALL)


@dataclass(frozen=True)
class Feature:
    """An aggregate of all rows of a person. Made by `tables.sum`, `tables.count` and others."""

    kind: FeatureKind
    value: Expression | None = None
    bounds: Bounds | None = None

    def __post_init__(self) -> None:
        choice("a feature", self.kind, get_args(FeatureKind))
        if (self.kind in ("any", "same")) != (self.bounds is None):
            raise ArgumentError(
                f"{self.kind} has no bounds: leave them out."
                if self.bounds is not None
                else f"{self.kind} needs public bounds: state the least and the largest that one person may come to."
            )
        if self.bounds is not None and not builtins.max(map(abs, self.bounds)) < _FARTHEST:
            raise ArgumentError(f"the bounds of a {self.kind} are beyond 2^400: change the column's unit.")
        if self.kind == "same" and not isinstance(self.value, Column):
            raise ArgumentError("same takes the name of a column, whose value is the same in all rows of a person.")
        if self.kind == "any" and not isinstance(self.value, Condition):
            raise ArgumentError("any takes a condition: compare a column with something.")
        if self.kind == "count" and not (self.value is None or isinstance(self.value, Condition)):
            raise ArgumentError("count takes nothing, for all rows, or a condition.")

    @property
    def column(self) -> str | None:
        """The column that it reads as it is."""
        return self.value.name if isinstance(self.value, Column) else None

    @property
    def usual(self) -> float | None:
        """The fill value of a sum or a count, which is never missing for a person with a row."""
        if self.bounds is None or self.kind not in ("sum", "count"):
            return None
        return builtins.min(builtins.max(0.0, self.bounds[0]), self.bounds[1])

    def filled(self, fill: float) -> "Feature":
        """The same with a public number where a row has none."""
        column = cast("Column", self.value)
        return replace(self, value=Branch(Missing(column, "number"), Constant(fill), column))

    def __str__(self) -> str:
        inside = "" if self.value is None else str(self.value)
        limits = "" if self.bounds is None else f" in {self.bounds[0]:.17g}:{self.bounds[1]:.17g}"
        return f"{self.kind}({inside}){limits}"


def _bounded(kind: FeatureKind, value: "Numeric | str", bounds: tuple[float, float]) -> Feature:
    return Feature(kind, _number(value), read_bounds({kind: bounds})[kind])


def _number(value: object) -> Numeric:
    """A column or a formula; a condition is 0 or 1."""
    value_read = expression(value) if isinstance(value, str) else value
    if isinstance(value_read, Condition):
        return Branch(value_read, Constant(1.0), Constant(0.0))
    return as_number(value_read)


def sum(value: "Numeric | str", *, bounds: tuple[float, float]) -> Feature:  # noqa: A001 - what users look for
    """The sum of a column, or of a formula, over the rows of a person, moved into bounds; 0 where no row has a value.

    A single row counts at most what the table's bounds of the column say, else the larger of these bounds, in size.

    >>> from inid import tables
    >>> print(tables.sum("cost", bounds=(0, 500)))
    sum(cost) in 0:500
    """
    return _bounded("sum", value, bounds)


def mean(value: "Numeric | str", *, bounds: tuple[float, float]) -> Feature:
    """The mean over the rows of a person that have a value, each moved into bounds; missing without one."""
    return _bounded("mean", value, bounds)


def min(value: "Numeric | str", *, bounds: tuple[float, float]) -> Feature:  # noqa: A001
    """The least value of a person, moved into bounds; missing without one."""
    return _bounded("min", value, bounds)


def max(value: "Numeric | str", *, bounds: tuple[float, float]) -> Feature:  # noqa: A001
    """The largest value of a person, moved into bounds; missing without one."""
    return _bounded("max", value, bounds)


def count(condition: "Condition | str | None" = None, *, bounds: tuple[float, float]) -> Feature:
    """How many rows a person has, or for how many a condition holds, moved into bounds."""
    condition_read = expression(condition) if isinstance(condition, str) else condition
    return Feature("count", condition_read, read_bounds({"count": bounds})["count"])


def any(condition: "Condition | str") -> Feature:  # noqa: A001
    """Whether a condition holds in one of the rows of a person."""
    return Feature("any", expression(condition) if isinstance(condition, str) else condition)


def same(column: str) -> Feature:
    """The value of a column of texts or whole numbers, where all rows of a person that have one agree; else missing."""
    return Feature("same", Column(column) if isinstance(column, str) and column else column)  # type: ignore[arg-type]


def read_feature(name: str, value: object) -> Feature:
    """A feature, or its text.

    >>> str(read_feature("spent", "sum(cost * 2) in 0:500"))
    'sum(cost * 2) in 0:500'
    """
    if isinstance(value, Feature):
        return value
    cure = "write sum(cost) in 0:500 or same(sex), for example"
    match = _WRITTEN.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise ArgumentError(f"the feature {name!r} is none, got {shown(value)}: {cure}.")
    kind, inside, low, high = match.groups()
    try:
        limits = None if low is None else (float(low), float(high))
    except ValueError:
        raise ArgumentError(f"the bounds of the feature {name!r} are no numbers: {cure}.") from None
    makers: dict[str, Any] = {"sum": sum, "mean": mean, "min": min, "max": max}
    if kind in makers and limits is not None and inside.strip():
        return cast("Feature", makers[kind](inside, bounds=limits))
    if kind == "count" and limits is not None:
        return count(inside if inside.strip() else None, bounds=limits)
    if kind == "any" and limits is None and inside.strip():
        return any(inside)
    if kind == "same" and limits is None:
        return Feature("same", expression(inside))
    raise ArgumentError(f"the feature {name!r} is none, got {shown(value)}: {cure}.")


@dataclass(frozen=True)
class Part:
    """A column that is made of the rows of a person: from which one, read as what, and how."""

    column: str
    role: PartRole
    how: How


@dataclass(frozen=True)
class PersonFeatures:
    """The features of each person, and the rows that they are made of.

    Attributes:
        person: The column that tells people apart.
        features: The features by name.
        rows: The view of the rows: which of them count, and their computed columns.
        limits: What one row adds at most to a sum, in size, by feature.
        roles: What the columns of `same` hold.
        bits: How fine values are: sums have steps of 2^-bits of what one row adds at most.
    """

    person: str
    features: Mapping[str, Feature]
    rows: "View"
    limits: Mapping[str, Bounds]
    roles: Mapping[str, PartRole]
    bits: int

    @property
    def row_view(self) -> "View":
        """The view of the rows, with a column more for each number that is added up or compared."""
        formulas: dict[str, Expression] = {}
        for name, feature in self.features.items():
            if feature.kind in ("sum", "mean"):
                low, high = self.limits[name]
                limited = minimum(maximum(cast("Numeric", feature.value), low), high)
                half = Arithmetic("+", Arithmetic("*", limited, Constant(self._factor(name))), Constant(0.5))
                formulas[_row(name)] = Rounded("floor", half)
            elif feature.kind in ("min", "max"):
                formulas[_row(name)] = cast("Numeric", feature.value)
            elif feature.value is not None and feature.kind != "same":
                formulas[_row(name)] = Branch(cast("Condition", feature.value), Constant(1.0), Constant(0.0))
        return self.rows.with_columns(formulas)

    def _factor(self, name: str) -> float:
        """The power of two by which a value is multiplied before it is rounded."""
        _, exponent = math.frexp(builtins.max(map(abs, self.limits[name])))
        return math.ldexp(1.0, self.bits - exponent)

    @property
    def parts(self) -> dict[str, Part]:
        """What is made of the rows of a person, column by column."""
        by_name: dict[str, Part] = {}
        for name, feature in self.features.items():
            if feature.kind == "same":
                by_name[name] = Part(cast("Column", feature.value).name, self.roles[name], "same")
            elif feature.kind == "count" and feature.value is None:
                by_name[_part(name)] = Part(self.person, "number", "rows")
            else:
                hows: dict[str, How] = {"min": "min", "max": "max", "any": "max"}
                by_name[_part(name)] = Part(_row(name), "number", hows.get(feature.kind, "sum"))
            if feature.kind == "mean":
                by_name[_number_of(name)] = Part(_row(name), "number", "present")
        return by_name

    @property
    def formulas(self) -> dict[str, Expression]:
        """How features follow from these columns; one that is the same in all rows is such a column itself."""
        by_name: dict[str, Expression] = {}
        for name, feature in self.features.items():
            part = Column(_part(name))
            if feature.kind == "any":
                by_name[name] = Comparison(">=", part, Constant(0.5))
                continue
            if feature.bounds is None:
                continue
            value: Numeric = part
            if feature.kind == "sum":
                value = Branch(
                    Missing(part, "number"), Constant(0.0), Arithmetic("/", part, Constant(self._factor(name)))
                )
            elif feature.kind == "count":
                value = Branch(Missing(part, "number"), Constant(0.0), part)
            elif feature.kind == "mean":
                mean_steps = Arithmetic("/", part, Column(_number_of(name)))
                value = Arithmetic("/", mean_steps, Constant(self._factor(name)))
            by_name[name] = minimum(maximum(value, feature.bounds[0]), feature.bounds[1])
        return by_name

    def to_dict(self) -> dict[str, Any]:
        """A JSON-safe dictionary, of which `from_dict` makes the same."""
        return {
            "person": self.person,
            "features": {name: str(feature) for name, feature in self.features.items()},
            "limits": {name: list(limits) for name, limits in self.limits.items()},
            "roles": dict(self.roles),
            "bits": self.bits,
            "rows": self.rows.to_dict(),
        }

    def lines(self) -> list[str]:
        """What a plan prints of it."""
        return [*self.rows.lines(), *(f"of each {self.person}, {name}: {one}" for name, one in self.features.items())]


def bits_for(max_rows: int) -> int:
    """How fine values may be, so that the rows of a table add up to whole numbers that doubles hold."""
    return _BITS - math.ceil(math.log2(builtins.max(max_rows, 2)))


def _row(name: str) -> str:
    return f"{name} of a row"


def _part(name: str) -> str:
    return f"{name} of the rows"


def _number_of(name: str) -> str:
    return f"{name} of how many"
