"""The moments of a table that stays in its engine (pandas, Polars, DuckDB, PyArrow, Spark): one query of whole sums.

The mapping of `public_units` in the engine's own expressions: the same bounds, the same steps, the same exact sums.
Only ties may round the other way, which moves no bound.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from inid.accounting import Ledger
from inid.arguments import Floats, shown
from inid.errors import ArgumentError
from inid.learn.base import read_relation
from inid.learn.public_units import MOST_ROWS, Units
from inid.learn.second_moments import in_units
from inid.sets import Neighbours
from inid.tables import Table
from inid.tables.engines import Engine, Role, optional

__all__ = ["check_table", "row_count", "table_moments", "table_relation"]


def table_relation(table: Table, neighbours: object, ledger: Ledger | None) -> Neighbours:
    """The relation of a fit: the table's, else the estimator's, else the ledger's, else that of tables ("add_remove").

    Raises:
        ArgumentError: The estimator names another than the table.
    """
    if table.neighbours is None:
        return table.relation if neighbours is None and ledger is None else read_relation(neighbours, ledger)
    own = table.neighbours
    if neighbours is not None and read_relation(neighbours, ledger) != own:
        raise ArgumentError(
            f"the table has neighbours={shown(own)}, the estimator {shown(neighbours)}: leave neighbours out of the "
            "estimator, or make the table with the relation wanted."
        )
    return own


def check_table(table: Table, bounds: object, names: Sequence[str]) -> tuple[list[float], list[float]]:
    """The bounds that the table states for the columns.

    Raises:
        ArgumentError: The estimator states bounds too, the table states none for a column, counts persons of several
            rows, or fills missing values in its own way.
    """
    if bounds is not None:
        raise ArgumentError("bounds must be left out for a Table: it states the bounds of its columns itself.")
    if table.person is not None:
        raise ArgumentError('a Table for learn must have unit="row": aggregate the rows of each person first.')
    if table.view.drops_rows:  # the number of rows that a filter keeps is not public
        raise ArgumentError("a Table for learn must count every row: filter the rows before the table is made.")
    if table.missing:
        raise ArgumentError("a Table for learn must not fill missing values: they count as the middle of the bounds.")
    unknown = [name for name in names if name not in table.bounds]
    if unknown:
        raise ArgumentError(f"the table states no bounds for {shown(unknown[0])}: it has them for {[*table.bounds]}.")
    if table.max_rows > 2**36:
        raise ArgumentError(f"a Table for learn must have max_rows of at most 2^36, got {table.max_rows}: lower it.")
    lower, upper = zip(*(table.bounds[name] for name in names), strict=True)
    return list(lower), list(upper)


def row_count(table: Table) -> int:
    """The number of rows, where the relation makes it public."""
    nw = optional("narwhals")
    name = next(iter(table.bounds))

    def query(source: Engine) -> Any:
        frame = source.columns({"any": (name, "raw")}).with_columns(one=nw.lit(1, dtype=nw.Int64))
        return frame.select(nw.col("one").sum().cast(nw.Int64))

    ((count,),) = table.source.run(query, "count the rows")
    if not count:
        raise ArgumentError("the table has no rows: moments need at least one.")
    return int(count)


def table_moments(table: Table, names: Sequence[str], units: Units, *, mean: bool, count: bool) -> Floats:
    """The exact moments of the named columns, as `second_moments.exact_moments` orders them.

    Raises:
        EngineError: The engine failed.
    """
    (found,) = table.source.run(lambda source: _query(source, names, units))
    # The sum over no rows is no number. Whole numbers of 13 bits fill 64 bits beyond 2^36 rows only.
    whole = np.array([0 if total is None else int(total) for total in found], dtype=np.int64)
    width, rows = len(names), int(whole[-1])
    products = width * (width + 1) // 2
    return in_units(whole[:products], whole[products:-1], min(rows, MOST_ROWS), units, mean=mean, count=count)


def _query(source: Engine, columns: Sequence[str], units: Units) -> Any:
    nw = optional("narwhals")
    wanted: dict[str, tuple[str, Role]] = {f"x{at}": (name, "number") for at, name in enumerate(columns)}
    mapping = units.mapping
    middles = np.rint((mapping.least + mapping.most) / 2)
    scaled, whole = [], []
    for at, name in enumerate(wanted):
        value = nw.col(name)
        # Missing values go before clipping, and clipping before flooring: engines disagree about NaN, and stop at
        # whole numbers beyond 64 bits.
        here = ~(value.is_null() | value.is_nan())
        steps = (value - float(mapping.centre[at])) * float(1 / mapping.step[at])
        middle = nw.lit(float(middles[at]), dtype=nw.Float64)
        scaled.append(nw.when(here).then(steps).otherwise(middle).alias(name))
        held = value.clip(float(mapping.least[at]), float(mapping.most[at]))
        whole.append((held + 0.5).floor().cast(nw.Int64).alias(name))
    frame = source.columns(wanted).with_columns(*scaled).with_columns(*whole, one=nw.lit(1, dtype=nw.Int64))
    names = [*wanted]
    i, j = np.triu_indices(len(names))
    products = [(nw.col(names[a]) * nw.col(names[b])).sum() for a, b in zip(i.tolist(), j.tolist(), strict=True)]
    totals = [*products, *(nw.col(name).sum() for name in [*names, "one"])]
    # DuckDB sums into 128 bits, which would become decimals or floats outside.
    return frame.select(*(total.cast(nw.Int64).alias(f"sum{at}") for at, total in enumerate(totals)))
