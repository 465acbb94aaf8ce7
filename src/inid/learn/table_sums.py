"""A table's rows as the estimators read them, inside the engine: whole numbers of public steps, and their sums."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from inid.accounting import Ledger
from inid.arguments import shown
from inid.errors import ArgumentError
from inid.learn.base import read_relation
from inid.learn.public_units import Units
from inid.sets import Neighbours
from inid.tables import Table
from inid.tables.engines import Engine, Role, optional

_KINDS: dict[type, Role] = {str: "str", bool: "bool", int: "int"}


def check_table(table: Table, bounds: object, names: Sequence[str]) -> tuple[list[float], list[float]]:
    """The bounds that the table states for the columns."""
    table.source.require_frames()
    if bounds is not None:
        raise ArgumentError("bounds must be left out for a Table: it states the bounds of its columns itself.")
    if table.person is not None:
        raise ArgumentError('a Table for learn must have unit="row": aggregate the rows of each person first.')
    if table.missing:
        raise ArgumentError("a Table for learn must not fill missing values: they count as the middle of the bounds.")
    if not names:
        raise ArgumentError("the table states no bounds for any column: state them for those to learn from.")
    unknown = [name for name in names if name not in table.bounds]
    if unknown:
        raise ArgumentError(f"the table states no bounds for {shown(unknown[0])}: it has them for {[*table.bounds]}.")
    if table.max_rows > 2**36:
        raise ArgumentError(f"a Table for learn must have max_rows of at most 2^36, got {table.max_rows}: lower it.")
    lower, upper = zip(*(table.bounds[name] for name in names), strict=True)
    return list(lower), list(upper)


@dataclass(frozen=True)
class TableRows:
    """Some columns of a table under a relation."""

    table: Table
    names: tuple[str, ...]
    relation: Neighbours
    rows: int | None

    @classmethod
    def of(cls, table: Table, names: Sequence[str], neighbours: object, ledger: Ledger | None) -> "TableRows":
        """The relation: the table's, else the estimator's, else the ledger's, else "add_remove"."""
        table.check_ledger_unit(ledger)
        relation = _relation(table, neighbours, ledger)
        table = table.under(relation)  # where the number of rows is public, none may be left out
        if relation != "add_remove" and table.rows_can_vanish:
            raise ArgumentError(
                f"a filtered table has a number of rows that depends on people, and neighbours={shown(relation)} takes "
                'it for public: use neighbours="add_remove", for the table and the ledger.'
            )
        return cls(table, tuple(names), relation, None if relation == "add_remove" else _row_count(table))

    def sums(self, build: Callable[[Engine], Any]) -> NDArray[np.int64]:
        """Sums of whole numbers, in one query. The sum over no rows is no number, and counts as 0."""
        (totals,) = self.table.source.run_query(build)
        return np.array([0 if total is None else int(total) for total in totals], dtype=np.int64)

    def by_class(self, label: str, classes: Sequence[Any], units: Units) -> NDArray[np.int64]:
        """Sums, squares and number of the rows of each class: a row for each."""
        nw, width = optional("narwhals"), len(self.names)

        def build(source: Engine) -> Any:
            frame = whole_columns(source, self.names, units, label=(label, _KINDS[type(classes[0])]))
            frame = frame.with_columns(block=_first([nw.col("label") == one for one in classes], rest=len(classes)))
            values = [nw.col(f"x{at}") for at in range(width)]
            return _block_sums(frame, len(classes), [*values, *(value * value for value in values)])

        return self.sums(build).reshape(len(classes), 2 * width + 1)

    def second_moments(self, norm: float, step: float) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The upper triangle of the sum of x x^T, and the sum of x, of rows shortened to a norm, in whole steps.

        Missing values count as 0. Rounding moves an entry by half a step and a little more, which `norm` has room for.
        """
        nw, width = optional("narwhals"), len(self.names)
        i, j = np.triu_indices(width)

        def build(source: Engine) -> Any:
            roles: dict[str, tuple[str, Role]] = {f"x{at}": (name, "number") for at, name in enumerate(self.names)}
            shrunk, zero = [], nw.lit(0.0, dtype=nw.Float64)
            for name, column in zip(roles, self.names, strict=True):
                value = nw.col(name)
                here = ~(value.is_null() | value.is_nan())
                shrunk.append(nw.when(here).then(value.clip(*self.table.bounds[column])).otherwise(zero).alias(name))
            frame, columns = source.columns(roles).with_columns(*shrunk), [nw.col(name) for name in roles]
            square = columns[0] * columns[0]
            for column in columns[1:]:
                square = square + column * column
            frame = frame.with_columns(length=square.sqrt())
            long = nw.col("length") > norm
            shrink = nw.when(long).then(nw.lit(norm, dtype=nw.Float64) / nw.col("length")).otherwise(nw.lit(1.0))
            frame = frame.with_columns(shrink=shrink)
            integers = [
                ((column * nw.col("shrink") * float(1 / step)) + 0.5).floor().cast(nw.Int64) for column in columns
            ]
            frame = frame.with_columns(*(one.alias(name) for one, name in zip(integers, roles, strict=True)))
            totals = [columns[a] * columns[b] for a, b in zip(i.tolist(), j.tolist(), strict=True)] + columns
            totals.append(nw.lit(1, dtype=nw.Int64) + 0 * columns[0])
            return frame.select(*(total.sum().cast(nw.Int64).alias(f"sum{at}") for at, total in enumerate(totals)))

        sums = self.sums(build)
        return sums[: i.size], sums[i.size :]

    def check_label(self, label: str, classes: Sequence[Any]) -> None:
        """Refuse a column of labels that is unknown, or classes of another type than its own."""
        if len({type(one) for one in classes}) != 1 or type(classes[0]) not in _KINDS:
            raise ArgumentError("classes must be all strings, all whole numbers or all truth values, for a Table.")
        self.table.source.require_keys("y", label, classes)

    def by_cluster(self, centres: NDArray[np.float64], units: Units) -> NDArray[np.int64]:
        """Sums and number of the rows nearest to each centre: a row for each. Every row is near to exactly one."""
        nw, (clusters, width), step = optional("narwhals"), centres.shape, units.grid.step

        def build(source: Engine) -> Any:
            frame, far = whole_columns(source, self.names, units), []
            for k, centre in enumerate(centres):
                parts = [
                    (nw.col(f"x{at}").cast(nw.Float64) * float(step[at]) - float(centre[at])) * float(units.unit[at])
                    for at in range(width)
                ]
                total = parts[0] * parts[0]
                for part in parts[1:]:
                    total = total + part * part
                far.append(total.alias(f"far{k}"))
            frame = frame.with_columns(*far)
            frame = frame.with_columns(least=nw.min_horizontal(*(f"far{k}" for k in range(clusters))))
            nearest = [nw.col(f"far{k}") <= nw.col("least") for k in range(clusters - 1)]
            frame = frame.with_columns(block=_first(nearest, rest=clusters - 1))
            return _block_sums(frame, clusters, [nw.col(f"x{at}") for at in range(width)])

        return self.sums(build).reshape(clusters, width + 1)


def _first(conditions: Sequence[Any], rest: int) -> Any:
    """The place of the first condition that holds, `rest` where none does: one place for each row."""
    nw = optional("narwhals")
    place = nw.lit(rest, dtype=nw.Int64)
    for at, condition in reversed([*enumerate(conditions)]):
        place = nw.when(condition).then(nw.lit(at, dtype=nw.Int64)).otherwise(place)
    return place


def _block_sums(frame: Any, blocks: int, terms: Sequence[Any]) -> Any:
    """For each block the sums of the terms, and the number, of the rows whose `block` it is."""
    nw, totals = optional("narwhals"), []
    for at in range(blocks):
        here = nw.when(nw.col("block") == at).then(nw.lit(1, dtype=nw.Int64)).otherwise(nw.lit(0, dtype=nw.Int64))
        totals += [*(term * here for term in terms), here]
    return frame.select(*(total.sum().cast(nw.Int64).alias(f"sum{at}") for at, total in enumerate(totals)))


def whole_columns(source: Engine, columns: Sequence[str], units: Units, **more: tuple[str, Role]) -> Any:
    """A frame of the columns x0, x1, ... as whole numbers of the units' steps, and `one`, which is 1."""
    nw = optional("narwhals")
    roles: dict[str, tuple[str, Role]] = {f"x{at}": (name, "number") for at, name in enumerate(columns)}
    mapping = units.mapping
    middles = np.rint((mapping.least + mapping.most) / 2)
    scaled, integers = [], []
    for at, name in enumerate(roles):
        value = nw.col(name)
        # Missing values go before clipping, and clipping before flooring: engines disagree about NaN, and stop at
        # whole numbers beyond 64 bits.
        here = ~(value.is_null() | value.is_nan())
        steps = (value - float(mapping.centre[at])) * float(1 / mapping.step[at])
        middle = nw.lit(float(middles[at]), dtype=nw.Float64)
        scaled.append(nw.when(here).then(steps).otherwise(middle).alias(name))
        clipped = value.clip(float(mapping.least[at]), float(mapping.most[at]))
        integers.append((clipped + 0.5).floor().cast(nw.Int64).alias(name))
    frame = source.columns(roles | more).with_columns(*scaled)
    return frame.with_columns(*integers, one=nw.lit(1, dtype=nw.Int64))


def _relation(table: Table, neighbours: object, ledger: Ledger | None) -> Neighbours:
    if table.neighbours is None:
        return table.relation if neighbours is None and ledger is None else read_relation(neighbours, ledger)
    of_table = table.neighbours
    if neighbours is not None and read_relation(neighbours, ledger) != of_table:
        raise ArgumentError(
            f"the table has neighbours={shown(of_table)}, the estimator {shown(neighbours)}: leave neighbours out of "
            "the estimator, or make the table with the other relation."
        )
    return of_table


def _row_count(table: Table) -> int:
    """The number of rows, where the relation makes it public."""
    nw = optional("narwhals")
    name = next(iter(table.bounds))

    def query(source: Engine) -> Any:
        frame = source.columns({"any": (name, "raw")}).with_columns(one=nw.lit(1, dtype=nw.Int64))
        return frame.select(nw.col("one").sum().cast(nw.Int64))

    ((count,),) = table.source.run_query(query, "count the rows")
    if not count:
        raise ArgumentError("the table has no rows: moments need at least one.")
    return int(count)
