"""Bounds that nobody knows: a first, small release that finds where a column's values lie.

A stated range 10 to 100 times too wide makes every sum as noisy as its widest value. A noisy histogram on a public
scale (powers of the square root of 2, of either sign, within the stated range) costs little: one row lies in one bin.
The bins whose noisy count is certainly above 0 say where the values are, and the bounds are the outer edges of these.

It is an ordinary release, charged like any other, with its own plan and certificate; the bounds are post-processing of
it. So they can be used as public facts in the queries that follow. What lies beyond them is clipped there: a few rows,
too few to be told from the noise.
"""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from inid.errors import ArgumentError
from inid.promises import Budget
from inid.tables.facts import Bounds
from inid.tables.result import Result
from inid.tables.table import Table

if TYPE_CHECKING:
    from inid.accounting import Ledger

_OCTAVES = 20  # from the largest size that is stated down to a millionth of it
_WORTH = 0.1  # an end is moved only where that narrows the range by a tenth: every move may clip a few rows
_FALSE_ALARM = 0.05  # the probability that any empty bin looks as if it were not


@dataclass(frozen=True)
class EstimatedBounds:
    """Bounds of a column, found by a release."""

    column: str
    lower: float
    upper: float
    result: Result = field(repr=False)

    @property
    def bounds(self) -> Bounds:
        """The two of them, as `Table(bounds=...)` takes them."""
        return self.lower, self.upper

    def apply(self, table: Table) -> Table:
        """The same table with these bounds for the column."""
        return table.with_bounds({self.column: self.bounds})


def log_edges(bounds: Bounds) -> list[float]:
    """Public edges inside a stated range: its ends, 0, and powers of the root of 2 below its largest size."""
    low, high = bounds
    largest = max(abs(low), abs(high))
    sizes = [largest * 2.0 ** (-at / 2) for at in range(2 * _OCTAVES + 1)]
    inside = {edge for size in sizes for edge in (size, -size) if low < edge < high}
    return sorted({low, high, *inside, *([0.0] if low < 0 < high else [])})


def estimate_bounds(
    table: Table, column: str, budget: Budget, ledger: "Ledger | None" = None, *, label: str = ""
) -> EstimatedBounds:
    """Find narrower bounds for a column, as an explicit first release for a small part of the budget.

    A tenth of what is there (of epsilon, or of mu squared) is a good share. *When not to use it:* where the range is
    known, state it; where the largest values are what matters, they are what is clipped.

    Args:
        table: The table; it states a range for the column that certainly holds it, however wide.
        column: The column.
        budget: The promise of this release.
        ledger: Where the cost is charged. Without one nobody keeps count.
        label: A name for the ledger's history.

    Returns:
        The bounds; the stated ones where no bin stands out from the noise.

    Raises:
        ArgumentError: The column has no stated range; nothing was charged.
        BudgetError: The ledger refuses; the engine was not asked.

    >>> import inid, numpy, pandas
    >>> frame = pandas.DataFrame({"income": numpy.linspace(20_000, 90_000, 5000)})
    >>> wide = Table(frame, bounds={"income": (0, 10_000_000)})
    >>> found = estimate_bounds(wide, "income", inid.PureDP(epsilon=0.5))
    >>> found.lower <= 20_000, 90_000 <= found.upper < 200_000
    (True, True)
    >>> narrow = found.apply(wide)
    """
    if column not in table.bounds:
        raise ArgumentError(
            f"{column!r} has no stated range: state Table(bounds={{{column!r}: (low, high)}}), as wide as you like."
        )
    stated = table.bounds[column]
    edges = log_edges(stated)
    query = table.statistics(histogram={column: edges})
    result = query.release(query.plan(budget, ledger=ledger), ledger, label=label)
    low, _ = result.release.interval(1 - 2 * _FALSE_ALARM / (len(edges) - 1))
    occupied = [at for at, end in enumerate(low.tolist()) if end > 0]
    if not occupied:
        return EstimatedBounds(column, *stated, result)
    lower, upper = edges[occupied[0]], edges[occupied[-1] + 1]
    worth = _WORTH * (upper - lower)
    narrowed = stated[0] if lower - stated[0] <= worth else lower, stated[1] if stated[1] - upper <= worth else upper
    return EstimatedBounds(column, *narrowed, result)
