"""What rows add to sums, in three forms that most sums are made of.

Every engine can run them as expressions; one that works column by column may compute many of them at once instead.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from inid.fixed_point import Grid
from inid.tables.engines.guarded import optional

if TYPE_CHECKING:
    from inid.tables.engines.base import Engine


@dataclass(frozen=True)
class Present:
    """Whether all of these columns of numbers, given by their names in the query and in the table, have a value.

    Without columns every row counts.
    """

    columns: tuple[tuple[str, str], ...]

    def expression(self, engine: "Engine") -> Any:
        """The same as an expression of truths."""
        nw = optional("narwhals")
        if not self.columns:
            return nw.col("one") == 1
        here = [~engine.present(name, column).is_null() for name, column in self.columns]
        return here[0] if len(here) == 1 else nw.all_horizontal(*here, ignore_nulls=False)


@dataclass(frozen=True)
class OnGrid:
    """A column of numbers on its grid, before the grid's shift; with a condition, after it and 0 where it fails."""

    name: str
    column: str
    grid: Grid
    usual: float
    condition: str | None = None
    shift: int = 0

    def expression(self, engine: "Engine") -> Any:
        """The same as an expression of whole numbers."""
        grid = self.grid
        clipped = engine.held(self.name, self.column, (grid.lower, grid.upper), self.usual)
        return _where(engine.truncated(clipped * grid.factor - grid.offset), self.condition, self.shift)


@dataclass(frozen=True)
class Product:
    """The product of two columns of whole numbers; with a condition, less a shift, and 0 where it fails."""

    first: str
    second: str
    condition: str | None = None
    shift: int = 0

    def expression(self, engine: "Engine") -> Any:
        """The same as an expression of whole numbers."""
        nw = optional("narwhals")
        return _where(nw.col(self.first) * nw.col(self.second), self.condition, self.shift)


Term = Present | OnGrid | Product


def _where(value: Any, condition: str | None, shift: int) -> Any:
    nw = optional("narwhals")
    if condition is None:
        return value - shift if shift else value
    return (value - shift) * nw.col(condition).cast(nw.Int64)
