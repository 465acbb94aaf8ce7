"""The public levels of an ordered column, and the count of each, by groups, as an engine makes them.

Levels are keys that are stated in their order, or a grid between public bounds.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from inid.arguments import Floats
from inid.errors import ArgumentError
from inid.fixed_point import Grid
from inid.tables.facts import Bounds, Key, read_bounds, read_keys

__all__ = ["MOST_LEVELS", "Levels"]


@dataclass(frozen=True)
class Levels:
    """The levels of a column.

    Attributes:
        column: The column.
        keys: Its values in their order; empty where values are rounded to a grid.
        bounds: The public bounds of the grid; None where there are keys.
    """

    column: str
    keys: tuple[Key, ...] = ()
    bounds: Bounds | None = None

    def __post_init__(self) -> None:
        if len(self.keys) > MOST_LEVELS:
            raise ArgumentError(
                f"{self.column!r} has {len(self.keys):,} ordered values, at most {MOST_LEVELS} are served: state "
                "bounds instead, or coarser values."
            )
        if len(self.keys) == 1 or bool(self.keys) == (self.bounds is not None):
            raise ArgumentError(f"{self.column!r} needs at least two ordered values, or public bounds.")

    @property
    def grid(self) -> Grid | None:
        """The grid to which values are rounded, whose step is a power of two; None where there are keys."""
        return None if self.bounds is None else Grid.of(self.column, self.bounds, MOST_LEVELS)

    @property
    def size(self) -> int:
        """How many levels there are."""
        grid = self.grid
        return len(self.keys) if grid is None else grid.most - grid.least + 1

    @property
    def step(self) -> float:
        """How far apart the levels of a grid are; 0 for keys, which are exact."""
        grid = self.grid
        return 0.0 if grid is None else grid.step

    @property
    def values(self) -> Floats | None:
        """The levels as numbers; None where they are texts.

        >>> Levels("age", bounds=(0.0, 100.0)).values[:3]
        array([0.   , 0.125, 0.25 ])
        """
        grid = self.grid
        if grid is not None:
            found = grid.middle + grid.step * np.arange(grid.least, grid.most + 1)
            return np.clip(found, grid.lower, grid.upper)
        if isinstance(self.keys[0], str):
            return None
        return np.array([float(key) for key in self.keys])

    @property
    def names(self) -> tuple[str, ...]:
        """What the levels are called."""
        values = self.values
        return tuple(map(str, self.keys)) if self.keys or values is None else tuple(f"{v:.12g}" for v in values)

    def to_dict(self) -> dict[str, Any]:
        """A JSON-safe dictionary."""
        return {"keys": list(self.keys), "bounds": None if self.bounds is None else list(self.bounds)}

    @classmethod
    def from_dict(cls, column: str, record: Any) -> "Levels":
        """The levels that `to_dict` described."""
        if record["bounds"] is not None:
            return cls(column, bounds=read_bounds({column: record["bounds"]})[column])
        return cls(column, read_keys(f"levels of {column}", record["keys"]))


MOST_LEVELS = 1024
