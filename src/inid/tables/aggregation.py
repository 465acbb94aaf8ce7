"""What an engine adds up: one value for every kind of question, which every engine runs alike.

A row has a key in each column of keys: one of a public list, a level of a grid, or whatever stands there. A row without
one leaves (or counts in a cell for others). Of each person the first rows that are left count, by the person's order,
then by what they add, then by their keys: rows that tie in all of these add the same. What counts is grouped, any
number of times, and whole numbers are added up in each cell. Nothing but these sums leaves the engine.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from inid.fixed_point import Grid
from inid.tables.facts import Bins, Categories, Key, Person
from inid.tables.view import View

Integers = NDArray[np.int64]
KeyKind = Literal["str", "int", "bool"]


def key_kind(keys: Sequence[Key]) -> KeyKind:
    """What keys are, all of them alike."""
    return "str" if isinstance(keys[0], str) else "bool" if isinstance(keys[0], bool) else "int"


@dataclass(frozen=True)
class PublicKeys:
    """A column by its public keys, in order."""

    column: str
    keys: tuple[Key, ...]
    cell: bool = False

    @property
    def kind(self) -> KeyKind:
        """What the keys are."""
        return key_kind(self.keys)

    @property
    def size(self) -> int:
        """How many cells the column has."""
        return len(self.keys) + self.cell

    @cached_property
    def places(self) -> dict[Key, int]:
        """The cell of each key."""
        return {key: at for at, key in enumerate(self.keys)}


@dataclass(frozen=True)
class GridKeys:
    """A column of numbers by their level on a grid; rows without a number leave, where nothing fills it."""

    column: str
    grid: Grid

    @property
    def size(self) -> int:
        """How many levels there are."""
        return self.grid.most - self.grid.least + 1


@dataclass(frozen=True)
class FoundKeys:
    """A column by whatever keys of a kind stand there; texts that engines read differently are none."""

    column: str
    kind: KeyKind


KeyColumn = PublicKeys | GridKeys | FoundKeys


@dataclass(frozen=True)
class Rows:
    """1 in each row; or in those that have a number in all of these columns."""

    present: tuple[str, ...] = ()


@dataclass(frozen=True)
class People:
    """1 in the first row of each person in each cell."""


@dataclass(frozen=True)
class Value:
    """A number as whole steps of its grid from the middle; 0 in rows that miss one of the columns in `present`."""

    column: str
    grid: Grid
    present: tuple[str, ...] = ()


@dataclass(frozen=True)
class Pair:
    """The product of two such numbers, less a shift; 0 in rows that miss one of the columns in `present`."""

    columns: tuple[str, str]
    grids: tuple[Grid, Grid]
    shift: int
    present: tuple[str, ...] = ()


@dataclass(frozen=True)
class Inside:
    """1 in rows that lie in one cell of a histogram, and have a number in all columns of `present`."""

    column: str
    cells: Bins | Categories
    at: int
    present: tuple[str, ...] = ()


Term = Rows | People | Value | Pair | Inside


class Grouping(NamedTuple):
    """One table: the names of its keys, and the positions of the terms that are added up in its cells."""

    keys: tuple[str, ...]
    terms: tuple[int, ...]


class Totals(NamedTuple):
    """What was added up."""

    sums: Integers
    keys: tuple[Key, ...] = ()


@dataclass(frozen=True)
class Aggregation:
    """Rows that are limited once, and added up by any number of groupings."""

    keys: Mapping[str, KeyColumn]
    terms: tuple[Term, ...]
    groupings: tuple[Grouping, ...]
    fill: Mapping[str, object] = field(default_factory=dict)
    person: Person | None = None
    keys_per_person: int | None = None
    view: View = field(default_factory=View)

    @property
    def whole(self) -> Grouping:
        """The grouping by all keys, with all terms."""
        return Grouping(tuple(self.keys), tuple(range(len(self.terms))))
