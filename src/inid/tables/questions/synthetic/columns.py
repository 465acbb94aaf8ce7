"""The columns of synthetic rows: public levels, how an engine finds the level of a value, and values of a level.

A column has public keys, or public bins of a number. Where the table has a cell for what is unknown, one more level
stands for that and for what is missing; in rows it is a missing value, and never the value that somebody had.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from inid.errors import ArgumentError, Words
from inid.tables.engines import Engine
from inid.tables.engines.made_columns import MadeColumn, is_categorical
from inid.tables.expressions import Numeric, col, when
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

    def formula(self) -> Numeric:
        """The place of the bin of a number; missing where the number is, unless it has a fill value."""
        assert self.bins is not None  # noqa: S101 - keys need none
        inner, value = self.bins.edges[1:-1], col(self.name)

        def place(low: int, high: int) -> Numeric | float:
            """Halves of halves: an engine nests few conditions for many bins."""
            if low == high:
                return float(low)
            middle = (low + high) // 2
            return when(value < inner[middle], place(low, middle), place(middle + 1, high))

        level = place(0, len(inner)) + 0 * value  # a product with something missing is missing
        if self.fill is None:
            return level
        return when(value.is_missing(), float(np.searchsorted(inner, self.fill, side="right")), level)

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

    def drawn(self, codes: Codes, rng: np.random.Generator) -> NDArray[Any]:
        """A value of each level: its key, or a number of its bin at random; NaN or None for what is unknown."""
        if self.bins is None:
            return np.asarray(self._key_values[codes])
        edges = np.array(self.bins.edges)
        at = np.minimum(codes, self.stated - 1)
        low, high = edges[at], edges[at + 1]
        drawn = low + (high - low) * rng.random(codes.size)
        if self.whole:  # those in the bin, which has its lower edge but not its upper one
            most = np.where(at == self.stated - 1, high, high - 1)
            drawn = np.floor(low + (most - low + 1) * rng.random(codes.size))
        return np.where(codes < self.stated, drawn, np.nan)

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
        name = f"{column.name} by bins"
        while name in source.schema:
            name += "'"
        view = view.with_columns({name: column.formula()})
        keys[name] = tuple(range(column.stated))
    return view, Domains(keys, "cell" if columns[0].other else "drop")
