"""The moments of a table that stays in its engine (pandas, Polars, DuckDB, PyArrow, Spark): one query of whole sums.

The mapping of `public_units` in the engine's own expressions: the same bounds, the same steps, the same exact sums.
Only ties may round the other way, which moves no bound.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from inid.arguments import Floats
from inid.learn.public_units import MOST_ROWS, Units, exact_floats
from inid.learn.second_moments import in_units
from inid.learn.table_rows import TableRows, whole_columns
from inid.tables.engines import Engine, optional

__all__ = ["table_columns", "table_moments"]


def table_moments(rows: TableRows, units: Units, *, mean: bool, count: bool) -> Floats:
    """The exact moments of the columns, as `second_moments.exact_moments` orders them.

    Raises:
        EngineError: The engine failed.
    """
    nw, width = optional("narwhals"), len(rows.names)
    i, j = np.triu_indices(width)

    def build(source: Engine) -> Any:
        columns = [nw.col(f"x{at}") for at in range(width)]
        totals = [columns[a] * columns[b] for a, b in zip(i.tolist(), j.tolist(), strict=True)]
        totals += [*columns, nw.col("one")]
        return _totals(whole_columns(source, rows.names, units), totals)

    whole = rows.sums(build)  # whole numbers of 13 bits fill 64 bits beyond 2^36 rows only
    return in_units(whole[: i.size], whole[i.size : -1], min(int(whole[-1]), MOST_ROWS), units, mean=mean, count=count)


def table_columns(rows: TableRows, units: Units) -> Floats:
    """The exact sums, sums of squares and number of rows, as `column_moments.exact_columns` orders them.

    Raises:
        EngineError: The engine failed.
    """
    nw, width = optional("narwhals"), len(rows.names)

    def build(source: Engine) -> Any:
        columns = [nw.col(f"x{at}") for at in range(width)]
        totals = [*columns, *(column * column for column in columns), nw.col("one")]
        return _totals(whole_columns(source, rows.names, units), totals)

    whole, step = rows.sums(build), units.grid.step
    return np.asarray(exact_floats(whole) * np.concatenate([step, step**2, [1.0]]))


def _totals(frame: Any, terms: Sequence[Any]) -> Any:
    """The sum of each term, as whole numbers: DuckDB sums into 128 bits, which would become decimals or floats."""
    nw = optional("narwhals")
    return frame.select(*(term.sum().cast(nw.Int64).alias(f"sum{at}") for at, term in enumerate(terms)))
