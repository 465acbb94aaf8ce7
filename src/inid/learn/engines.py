"""The moments of a table that stays in its engine (pandas, Polars, DuckDB, PyArrow, Spark): one query of whole sums.

The mapping of `fixed_point` in the engine's own expressions: the same bounds, the same steps, the same exact sums. Only
ties may round the other way, which moves no bound.
"""

from typing import Any

import numpy as np

from inid.arguments import Floats, shown
from inid.errors import ArgumentError
from inid.fixed_point import Columns
from inid.tables import Table
from inid.tables.engines import Role, guarded, optional

__all__ = ["bounded_columns", "row_count", "table_moments"]


def bounded_columns(table: Table, bounds: object, neighbours: str) -> tuple[list[str], tuple[list[float], list[float]]]:
    """The columns that the table states bounds for, in that order, and the bounds.

    Raises:
        ArgumentError: The estimator states bounds too, one of the two means another relation than replacement (for a
            table the number of rows is secret under "add_remove", unlike for an array), the table counts persons of
            several rows, or it fills missing values in its own way.
    """
    if bounds is not None:
        raise ArgumentError("bounds must be left out for a Table: it states the bounds of its columns itself.")
    if not table.neighbours == neighbours == "replace":
        raise ArgumentError(
            f"a Table for learn is divided by its exact number of rows, which is public under replacement only; the "
            f"table has neighbours={shown(table.neighbours)}, the estimator {shown(neighbours)}: pass "
            'neighbours="replace" to both.'
        )
    if table.person is not None:
        raise ArgumentError('a Table for learn must have unit="row": aggregate the rows of each person first.')
    if table.missing:
        raise ArgumentError("a Table for learn must not fill missing values: they count as the middle of the bounds.")
    lower, upper = zip(*table.bounds.values(), strict=True)
    return list(table.bounds), (list(lower), list(upper))


def row_count(table: Table) -> int:
    """The number of rows, which estimators treat as public."""
    nw = optional("narwhals")
    name = next(iter(table.bounds))
    frame = table.source.columns({"any": (name, "raw")}).with_columns(one=nw.lit(1, dtype=nw.Int64))
    query = frame.select(nw.col("one").sum().cast(nw.Int64))
    ((count,),) = guarded(lambda: table.source.rows(query), "count the rows")
    if not count:
        raise ArgumentError("the table has no rows: moments need at least one.")
    return int(count)


def table_moments(table: Table, columns: Columns, *, mean: bool) -> Floats:
    """The exact moments of the bounded columns, as `second_moments.exact_moments` orders them.

    Raises:
        EngineError: The engine failed.
    """
    (sums,) = guarded(lambda: table.source.rows(_query(table, columns, mean)), "run the query")
    i, j = np.triu_indices(columns.step.size)
    steps = np.append(columns.step[i] * columns.step[j], columns.step) if mean else columns.step[i] * columns.step[j]
    return np.array([float(total) for total in sums]) * steps


def _query(table: Table, columns: Columns, mean: bool) -> Any:
    nw = optional("narwhals")
    wanted: dict[str, tuple[str, Role]] = {f"x{at}": (name, "number") for at, name in enumerate(table.bounds)}
    middles = np.rint((columns.least + columns.most) / 2)
    scaled, whole = [], []
    for at, name in enumerate(wanted):
        value = nw.col(name)
        # Missing values go before clipping, and clipping before flooring: engines disagree about NaN, and stop at
        # whole numbers beyond 64 bits.
        here = ~(value.is_null() | value.is_nan())
        steps = (value - float(columns.centre[at])) * float(1 / columns.step[at])
        middle = nw.lit(float(middles[at]), dtype=nw.Float64)
        scaled.append(nw.when(here).then(steps).otherwise(middle).alias(name))
        held = value.clip(float(columns.least[at]), float(columns.most[at]))
        whole.append((held + 0.5).floor().cast(nw.Int64).alias(name))
    frame = table.source.columns(wanted).with_columns(*scaled).with_columns(*whole)
    names = list(wanted)
    i, j = np.triu_indices(len(names))
    products = [(nw.col(names[a]) * nw.col(names[b])).sum() for a, b in zip(i.tolist(), j.tolist(), strict=True)]
    totals = [*products, *(nw.col(name).sum() for name in names)] if mean else products
    # DuckDB sums into 128 bits, which would become decimals or floats outside.
    return frame.select(*(total.cast(nw.Int64).alias(f"sum{at}") for at, total in enumerate(totals)))
