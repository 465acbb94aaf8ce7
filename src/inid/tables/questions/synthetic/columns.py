"""The columns of synthetic rows: public levels, how an engine finds the level of a value, and values of a level.

A column has public keys, or public bins of a number. Where the table has a cell for what is unknown, one more level
stands for that and for what is missing; in rows it is a missing value, and never the value that somebody had.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from inid.arguments import Floats
from inid.errors import ArgumentError, Words
from inid.tables.engines import Engine
from inid.tables.engines.made_columns import MadeColumn, is_categorical
from inid.tables.expressions import Condition, Numeric, col, when
from inid.tables.facts import OTHER, Bins, Domains, Key, read_keys
from inid.tables.table import Table
from inid.tables.view import View

Codes = NDArray[np.int32]


@dataclass(frozen=True)
class LevelColumn:
    """One column."""

    name: str
    keys: tuple[Key, ...] = ()
    bins: Bins | None = None
    fill: float | None = None
    other: bool = True

    @property
    def whole(self) -> bool:
        """Whether its numbers come out whole: where all edges are, whatever type a frame has chosen by its values."""
        return self.bins is not None and all(abs(edge) < 2**53 and edge.is_integer() for edge in self.bins.edges)

    @property
    def stated(self) -> int:
        """How many levels are stated."""
        return len(self.keys) if self.bins is None else len(self.bins.edges) - 1

    @property
    def size(self) -> int:
        """How many levels there are."""
        return self.stated + self.other

    @property
    def levels(self) -> list[Key]:
        """What the levels are called, as in tables of counts."""
        words: list[Key] = list(self.keys) if self.bins is None else list(self.bins.names)
        return [*map(str, words), OTHER] if self.other else words

    @property
    def edges(self) -> tuple[float, ...]:
        """The edges of its bins."""
        assert self.bins is not None  # noqa: S101 - keys have none
        return self.bins.edges

    @cached_property
    def ends(self) -> tuple[Floats, Floats]:
        """The smallest and the largest value of each bin, which has its lower edge but, unless last, not its upper."""
        low, high = np.array(self.edges[:-1]), np.array(self.edges[1:])
        return low, high - self.whole * (np.arange(high.size) < high.size - 1)

    @property
    def numbers_in_bins(self) -> Floats:
        """How many values each bin has: infinitely many where they are not whole."""
        low, high = self.ends
        return high - low + 1 if self.whole else np.full(low.size, np.inf)

    @cached_property
    def middles(self) -> tuple[Floats, Floats]:
        """The middle of each bin, and half of its width: 1/2 where it has one value."""
        low, high = self.ends
        return low / 2 + high / 2, np.maximum(high / 2 - low / 2, 0.5 * self.whole)

    def value(self) -> Numeric:
        """The number; missing where it is, unless it has a fill value."""
        return col(self.name) if self.fill is None else when(self.is_missing(), self.fill, col(self.name))

    def is_missing(self) -> Condition:
        """Whether the number is missing."""
        return col(self.name).is_missing()

    def by_bin(self, part: Callable[[int], Numeric | float]) -> Numeric:
        """A number that depends on the bin of a row's number, whatever where that is missing."""
        inner, value = self.edges[1:-1], self.value()

        def halves(low: int, high: int) -> Numeric | float:
            """Halves of halves: an engine nests few conditions for many bins."""
            if low == high:
                return part(low)
            middle = (low + high) // 2
            return when(value < inner[middle], halves(low, middle), halves(middle + 1, high))

        return halves(0, len(inner)) + 0 * value  # a product with something missing is missing

    def formula(self) -> Numeric:
        """The place of the bin of a number; missing where the number is, unless it has a fill value."""
        return self.by_bin(float)

    @property
    def roles(self) -> frozenset[str]:
        """As what an expression may read it."""
        if self.bins is not None:
            return frozenset({"number", "int"} if self.whole else {"number"})
        if isinstance(self.keys[0], str):
            return frozenset({"str"})
        return frozenset({"bool"} if isinstance(self.keys[0], bool) else {"number", "int"})

    @property
    def kind_of_levels(self) -> str:
        """What its levels are, in words."""
        if self.bins is not None:
            return "bins of numbers"
        kinds = {"str": "texts", "bool": "truths"}
        return next((kinds[role] for role in self.roles if role in kinds), "whole numbers")

    @property
    def _key_values(self) -> NDArray[Any]:
        """Its keys as expressions read them, and what is missing."""
        numbers, missing = "number" in self.roles, [None] * self.other
        return np.array([*self.keys, *missing], dtype=np.float64 if numbers else object)

    def tried(self, number: int) -> list[NDArray[Any]]:
        """For each level up to so many of its values, at even distances; NaN or None for what is unknown."""
        if self.bins is None:
            return [self._key_values[at : at + 1] for at in range(self.size)]
        values_tried = []
        for at, (low, high) in enumerate(pairwise(self.bins.edges)):
            if not self.whole:
                values_tried.append(low + (high - low) * np.arange(number) / number)
                continue
            most = high if at == self.stated - 1 else high - 1
            values_tried.append(np.unique(np.floor(np.linspace(low, most, min(number, int(most - low) + 1)))))
        return values_tried + [np.array([np.nan])] * self.other

    def drawn(self, codes: Codes, rng: np.random.Generator, inside: "InBins | None" = None) -> NDArray[Any]:
        """A value of each level: its key, or a number of its bin at random; NaN or None for what is unknown."""
        if self.bins is None:
            return np.asarray(self._key_values[codes])
        values = InBins(self, self.middles[0]) if inside is None else inside
        return np.where(codes < self.stated, values.drawn(np.minimum(codes, self.stated - 1), rng), np.nan)

    def made(self, codes: Codes, drawn: NDArray[Any], schema: Mapping[str, Any]) -> MadeColumn:
        """Levels and the values that were drawn of them as a column; categories are the public ones."""
        if self.bins is None:
            kinds: dict[type, Literal["int", "bool", "str"]] = {bool: "bool", int: "int", str: "str"}
            texts = isinstance(self.keys[0], str) and is_categorical(schema, self.name)
            words = np.array([*self.keys, *[None] * self.other], dtype=object)
            categories = tuple(map(str, self.keys)) if texts else None
            return MadeColumn(list(words[codes]), kinds[type(self.keys[0])], categories)
        known = codes < self.stated
        numbers: list[Any] = np.where(known, drawn, 0).astype(np.int64 if self.whole else np.float64).tolist()
        values = [value if is_known else None for value, is_known in zip(numbers, known.tolist(), strict=True)]
        return MadeColumn(values, "int" if self.whole else "float")

    def to_dict(self) -> dict[str, Any]:
        """A JSON-safe dictionary."""
        edges = None if self.bins is None else list(self.bins.edges)
        facts = {"keys": list(self.keys), "edges": edges, "fill": self.fill}
        return {"name": self.name, **facts, "other": self.other}

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> "LevelColumn":
        """The column that `to_dict` described."""
        name, other = record["name"], record["other"]
        if not (isinstance(name, str) and name and isinstance(other, bool)):
            raise ArgumentError("the column of a record must have a name, and a level for what is unknown or none.")
        if record["edges"] is None:
            return cls(name, read_keys(name, record["keys"]), other=other)
        edges = tuple(float(edge) for edge in record["edges"])
        if len(edges) < 3 or not all(low < high for low, high in pairwise(edges)):
            raise ArgumentError("the bins of a record must lie between increasing edges.")
        fill = None if record["fill"] is None else float(record["fill"])
        return cls(name, bins=Bins(edges), fill=fill, other=other)


_NONE = np.zeros(0)


@dataclass(frozen=True, eq=False)
class InBins:
    """The values in the bins of a column: heaps with their shares of a bin's rows, and the mean of all others."""

    column: LevelColumn
    means: Floats
    heaps: Floats = field(default_factory=lambda: _NONE)
    bins: NDArray[np.intp] = field(default_factory=lambda: _NONE.astype(np.intp))
    shares: Floats = field(default_factory=lambda: _NONE)

    def drawn(self, at: Codes, rng: np.random.Generator) -> Floats:
        """A number of each of these bins: a heap, or evenly below the mean, or evenly above it."""
        (low, high), mean = (ends[at] for ends in self.column.ends), self.means[at]
        below, place = rng.random((2, at.size))
        if self.column.whole:
            last = np.minimum(np.floor(mean), np.maximum(high - 1, low))  # of the numbers that count as below
            part = (last + 1 + high - 2 * mean) / (high - low + 1)
            under = np.floor(low + (last - low + 1) * place)
            drawn = np.where(below < part, under, np.minimum(np.floor(last + 1 + (high - last) * place), high))
        else:
            under, over = low + (mean - low) * place, mean + (high - mean) * place
            drawn = np.where(below < (high - mean) / (high - low), under, np.minimum(over, np.nextafter(high, low)))
        if not self.heaps.size:
            return np.asarray(drawn)
        ends = np.cumsum(self.shares)
        before = np.append(0.0, ends)[np.searchsorted(self.bins, at)]
        points = before + rng.random(at.size)
        after = np.append(0.0, ends)[np.searchsorted(self.bins, at, side="right")]
        place_of_heap = np.minimum(np.searchsorted(ends, points, side="right"), ends.size - 1)
        return np.asarray(np.where(points < after, self.heaps[place_of_heap], drawn))


def computed_name(name: str, taken: Iterable[str]) -> str:
    """A name for a computed column that no other has, be it in other letters: it would take the other's place."""
    others = {one.casefold() for one in taken}
    while name.casefold() in others:
        name += "'"
    return name


def read_level_columns(table: Table, asked: object) -> tuple[LevelColumn, ...]:
    """The columns that are asked for, or all that have public keys or bins."""
    known = dict.fromkeys([*table.domains.keys, *table.bins])
    names = list(known) if asked is None else asked
    if isinstance(names, (str, bytes)) or not isinstance(names, Sequence):
        raise ArgumentError("columns must be a list of columns, or None for all: ['age', 'sex'].")
    for at, name in enumerate(names):
        if not isinstance(name, str) or name not in known or name in names[:at]:
            raise ArgumentError(
                f"columns[{at}] must be a column with public keys or bins, named once: state Table(domains=..., "
                "bins=...).",
                code="synthetic_column",
                number=Words(at + 1),
            )
        if name in table.domains.keys and name in table.bins:
            raise ArgumentError(f"{name!r} has public keys and bins: state one of them.")
    if len(names) < 2:
        raise ArgumentError(
            "synthetic rows need two columns or more with public keys or bins: state Table(domains=..., bins=...).",
            code="synthetic_columns",
        )
    return tuple(_column(table, name) for name in names)


def _column(table: Table, name: str) -> LevelColumn:
    other, fill = table.domains.other == "cell", table.missing.get(name)
    if name in table.domains.keys:
        return LevelColumn(name, table.domains.keys[name], other=other)
    if isinstance(fill, (str, bool)):
        raise ArgumentError(f"missing[{name!r}] must be a number, since the column has bins of numbers.")
    number = None if fill is None else float(fill)  # type: ignore[arg-type]
    return LevelColumn(name, bins=table.bins[name], fill=number, other=other)


def coded_view(source: Engine, columns: Sequence[LevelColumn]) -> tuple[View, Domains]:
    """The view with a computed column for the place of each bin, and the domains of all columns in their order."""
    view, keys = source.view, dict[str, tuple[Key, ...]]()
    for column in columns:
        if column.bins is None:
            keys[column.name] = column.keys
            continue
        name = computed_name(f"{column.name} by bins", source.schema)
        view = view.with_columns({name: column.formula()})
        keys[name] = tuple(range(column.stated))
    return view, Domains(keys, "cell" if columns[0].other else "drop")
