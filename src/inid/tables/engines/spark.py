"""Spark. The charge happens once, in the driver, however often Spark repeats a part of its work.

Sums by groups, and how many values there are of each, take one pass over the rows (see `grid_sums`).

Spark writes Java code for a query, which the JVM compiles only up to 8,000 bytes of a method: beyond, a query takes
many times as long. So what is written for a column is short, and many columns are added up in several queries, of rows
that are settled first.

LEAST passes over null and takes NaN for larger than every number (so Spark documents both), hence a missing value adds
what the upper bound adds, which comes off again. FLOOR makes integers of doubles without the checks of a cast; what it
cuts is not negative.

Queries are made of SQL text, all sums of one in a single expression: each step of an expression that is put together in
Python is a call of the JVM, and those of twenty columns take as long as a pass over a million rows.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from inid.errors import ArgumentError
from inid.tables.engines.base import Build, Engine, schema_of
from inid.tables.engines.grid_sums import GridSums, Integers, number_columns, numbers_on_grids, put_together
from inid.tables.engines.guarded import guarded, optional
from inid.tables.engines.made_columns import MadeColumn
from inid.tables.engines.roles import FIRST_DAY, LAST_DAY, Role, is_text
from inid.tables.engines.terms import OnGrid
from inid.tables.facts import Bounds

_NOTHING = {"number": "DOUBLE", "day": "DOUBLE", "year": "DOUBLE", "str": "STRING", "bool": "BOOLEAN"}
_TOGETHER = 8  # sums by groups in one query
_WITHOUT_GROUPS = 40  # sums over all rows: without the keys their code stays within what the JVM compiles for longer


@dataclass(frozen=True)
class _Parts:
    """Sums by the same groups, in several queries of one frame, each after its keys."""

    frame: Any
    query: Callable[[Any, Sequence[str]], Any]
    names: Sequence[str]
    keys: int
    most: int

    def _queries(self, frame: Any) -> list[Any]:
        starts = range(0, len(self.names), self.most)
        return [self.query(frame, self.names[at : at + self.most]) for at in starts]

    def collect_schema(self) -> Any:
        return [query.collect_schema() for query in self._queries(self.frame)]

    def rows(self, *, settled: bool) -> list[tuple[Any, ...]]:
        """One row per group; a group that a query does not return has no rows, which all queries see alike."""
        several = len(self.names) > self.most and not settled
        frame = optional("narwhals").from_native(settled_rows(self.frame.to_native())) if several else self.frame
        groups: dict[tuple[Any, ...], list[tuple[Any, ...]]] = {}
        for query in self._queries(frame):
            for row in query.collect().iter_rows():
                groups.setdefault(row[: self.keys], []).append(row[self.keys :])
        return [(*keys, *(value for part in parts for value in part)) for keys, parts in groups.items()]


def _answers_alike(frame: Any) -> bool:
    """Whether Spark knows of nothing random in how a frame is computed; Spark Connect does not say."""
    java = getattr(frame, "_jdf", None)
    return java is None or bool(java.queryExecution().analyzed().deterministic())


_FUNCTIONS = re.compile(
    r'"class":"[^"]*(UDF|UDAF|UDTF|InPandas|InArrow|MapElements|MapPartitions|Aggregator|ApplyFunction)'
)


def _calls_functions(frame: Any) -> bool:
    """Whether a frame is computed by functions of the user's: Spark calls them as often as their values are used.

    One that draws at random, and is not marked so, would be one value for a filter and another one for a key.
    """
    java = getattr(frame, "_jdf", None)
    return java is not None and bool(_FUNCTIONS.search(java.queryExecution().analyzed().toJSON()))


_INFERRING = "spark.sql.sources.partitionColumnTypeInference.enabled"


def _require_stated_types(frame: Any) -> None:
    """Refuse files whose types follow from values or from names of folders, and readers that stop at a value.

    Spark Connect does not say what is read.
    """
    java = getattr(frame, "_jdf", None)
    if java is None:
        return
    leaves = java.queryExecution().analyzed().collectLeaves()
    for at in range(leaves.size()):
        leaf, infers = leaves.apply(at), False
        reader = leaf.getClass().getSimpleName()
        if reader == "LogicalRelation" and leaf.relation().getClass().getSimpleName() == "HadoopFsRelation":
            files, stated = (
                leaf.relation(),
                leaf.catalogTable().isDefined(),
            )  # a table of the catalogue states its types
            kind, settings, folders = files.fileFormat().toString(), _lower_case(files), files.partitionSchema()
        elif reader == "DataSourceV2Relation" and _superclass(leaf.table()) == "FileTable":
            files, stated = leaf.table(), False
            kind, settings, folders = files.formatName(), _lower_case(leaf), files.fileIndex().partitionSchema()
        else:
            continue
        if kind.upper() == "CSV":
            infers = settings.get("inferschema") == "true"
        elif kind.upper() in ("JSON", "XML"):
            infers = not stated
        if infers or settings.get("mode") == "failfast":
            raise ArgumentError(
                f"the Spark frame reads {kind.upper()} files whose types follow from values, or whose reader stops at "
                "one: write them as Parquet, or make a table of the catalogue that states its columns (CSV: a schema "
                "without inferSchema, in a mode other than FAILFAST, is enough)."
            )
        texts = all(field.dataType().simpleString() == "string" for field in folders.fields())
        if not (stated or texts) and str(frame.sparkSession.conf.get(_INFERRING)).lower() == "true":
            raise ArgumentError(
                "Spark inferred types from the names of folders, in which 007 and 7 are one number: set "
                f"{_INFERRING} to false before the files are read, or make a table of the catalogue that states its "
                "columns."
            )


def _superclass(java: Any) -> str:
    return str(java.getClass().getSuperclass().getSimpleName())


def _lower_case(relation: Any) -> dict[str, str]:
    """The options of a reader in lower case; a relation of the first kind has Scala's map of them."""
    if relation.getClass().getSimpleName() != "HadoopFsRelation":
        return {key.lower(): value.lower() for key, value in relation.options().asCaseSensitiveMap().items()}
    options, entries = {}, relation.options().iterator()
    while entries.hasNext():
        entry = entries.next()
        options[entry._1().lower()] = entry._2().lower()  # noqa: SLF001 - a public name of Scala's
    return options


_SUMS_TOGETHER = 20  # sums in one query
_SUMS = "sums"  # the column of a query that holds all of them


def settled_rows(frame: Any) -> Any:
    """The rows of a frame, computed once and kept: what is lost of them stops a query, and is not computed again.

    (What a cache has lost is computed again, and may then be something else.)
    """
    return frame.localCheckpoint(eager=True)


class SparkSums(GridSums):
    """The sums of plain terms on Spark."""

    def _parts(self) -> list[dict[str, OnGrid]]:
        every = list(numbers_on_grids(self.terms).items())
        return [dict(every[at : at + _SUMS_TOGETHER]) for at in range(0, len(every), _SUMS_TOGETHER)]

    def _others(self) -> list[list[str]]:
        """Columns that are counted but not added up."""
        added_up = {term.name for term in numbers_on_grids(self.terms).values()}
        others = [name for name in number_columns(self.terms) if name not in added_up]
        return [others[at : at + _SUMS_TOGETHER] for at in range(0, len(others), _SUMS_TOGETHER)]

    def collect_schema(self) -> Any:
        """The types of the queries, without a look at the rows."""
        return [
            *(self._sums(self.frame, part).schema for part in self._parts()),
            *(self._counts(self.frame, part).schema for part in self._others()),
        ]

    def rows(self, *, settled: bool) -> list[tuple[Any, ...]]:
        """One row per group; a group that a query does not return has no rows, which all queries see alike."""
        several = len(self._parts()) + len(self._others()) > 1 and not settled
        frame = settled_rows(self.frame) if several else self.frame
        places: dict[tuple[Any, ...], int] = {}
        sums: dict[str, Integers] = {}
        values: dict[str, Integers] = {}
        rows = np.zeros(0, dtype=np.int64)
        for part in self._parts():
            rows, *numbers = self._found(self._sums(frame, part), places)
            sums |= dict(zip(part, numbers, strict=False))
            values |= dict(zip((term.name for term in part.values()), numbers[len(part) :], strict=True))
        for names in self._others():
            values |= dict(zip(names, self._found(self._counts(frame, names), places), strict=True))
        for name, term in numbers_on_grids(self.terms).items():
            missing = rows - values[term.name]
            sums[name] = sums[name] - missing * (term.grid.most + term.grid.below)
        totals = put_together(self.terms, rows, values, sums)
        return [(*key, *(int(total[at]) for total in totals)) for key, at in places.items()]

    def _found(self, query: Any, places: dict[tuple[Any, ...], int]) -> list[Integers]:
        """The sums of a query, one entry per group; groups are numbered as they come."""
        lines = [(tuple(keys), tuple(sums)) for *keys, sums in query.collect()]
        for keys, _ in lines:
            places.setdefault(keys, len(places))
        counts = np.zeros((len(lines[0][1]) if lines else self._width(query), len(places)), dtype=np.int64)
        for keys, sums in lines:  # the sum over no rows is null
            counts[:, places[keys]] = [value or 0 for value in sums]
        return list(counts)

    def _width(self, query: Any) -> int:
        return len(query.schema[_SUMS].dataType)

    def _by_groups(self, frame: Any, sums: Sequence[str]) -> Any:
        struct = optional("pyspark.sql.functions", "spark").expr(f"struct({', '.join(sums)})").alias(_SUMS)
        return (frame.groupBy(*self.groups) if self.groups else frame).agg(struct)

    def _sums(self, frame: Any, part: Mapping[str, OnGrid]) -> Any:
        """By group the number of rows, the sum of each term, and how many values its column has."""
        sums = [f"sum({_place(term)})" for term in part.values()]
        return self._by_groups(frame, ["count(1)", *sums, *(_count(term.name) for term in part.values())])

    def _counts(self, frame: Any, names: Sequence[str]) -> Any:
        """By group how many values each column has."""
        return self._by_groups(frame, [_count(name) for name in names])


def _count(name: str) -> str:
    return f"count(CASE WHEN {name} IS NOT NULL AND NOT isnan({name}) THEN 1 END)"


def _place(term: OnGrid) -> str:
    grid = term.grid
    clipped = f"greatest(least({term.name}, {grid.upper!r}D), {grid.lower!r}D)"
    return f"floor({clipped} * {grid.factor!r}D - ({grid.offset!r}D))"


class Spark(Engine):
    """A Spark frame.

    Spark reads "a.b" as a field of a struct and takes "x" for "X", so that a name can mean another column, or two.
    Columns are renamed by their places first, and called by these names.
    """

    computes_anew = True
    one_pass = SparkSums

    def __init__(self, frame: Any) -> None:
        names = guarded(lambda: list(frame.columns), "read the columns")
        if not guarded(lambda: _answers_alike(frame), "read the plan"):
            raise ArgumentError(
                "the Spark frame computes something at random whenever it is read, so that it holds no certain rows: "
                "pass frame.localCheckpoint(), or write it to a file and read that."
            )
        if guarded(lambda: _calls_functions(frame), "read the plan"):
            raise ArgumentError(
                "the Spark frame calls a function of yours, several times for one row, so that a random one would make "
                "several values of it: pass frame.localCheckpoint(), or write it to a file and read that."
            )
        guarded(lambda: _require_stated_types(frame), "read the plan")
        if not hasattr(frame, "localCheckpoint"):
            raise ArgumentError(
                "this Spark cannot keep the rows of a frame for several queries: use version 4 with Spark Connect."
            )
        self._session = frame.sparkSession
        places = [f"column_{at}" for at in range(len(names))]
        self._frame = guarded(lambda: frame.toDF(*places), "read the columns")
        super().__init__(schema_of(optional("narwhals").from_native(self._frame), names))
        self._places = dict(zip(names, places, strict=True))
        kinds = zip(names, self._frame.schema.fields, strict=True)
        self.empty = frozenset(name for name, field in kinds if field.dataType.typeName() == "void")

    def typed_columns(self, selection: Mapping[str, tuple[str, Role]]) -> Any:
        return optional("narwhals").from_native(self._frame.selectExpr(*self._typed(selection)))

    def counted_rows(self, selection: Mapping[str, tuple[str, Role]]) -> Any:
        if self.view or self.kept_columns is not None:
            return super().counted_rows(selection)
        return optional("narwhals").from_native(self._frame.selectExpr(*self._typed(selection), "1L AS one"))

    def _typed(self, selection: Mapping[str, tuple[str, Role]]) -> list[str]:
        """Columns as SQL text: put together in Python each step would be a call of the JVM."""
        return [f"{self._sql(column, role)} AS {new}" for new, (column, role) in selection.items()]

    def _sql(self, column: str, role: Role) -> str:
        value = self._places[column]
        if column in self.empty:
            return f"CAST(NULL AS {_NOTHING.get(role, 'BIGINT')})"
        if role in ("day", "year"):
            date = f"CAST({value} AS DATE)"
            number = f"CAST({'unix_date' if role == 'day' else 'year'}({date}) AS DOUBLE)"
            return f"CASE WHEN unix_date({date}) BETWEEN {FIRST_DAY} AND {LAST_DAY} THEN {number} END"
        if role in ("person", "order") and is_text(self.schema[column]):
            role = "str"
        if role == "str":
            # A cast takes a collation off. A text that is not UTF-8 would stop Python where it is to have it.
            return f"try_validate_utf8(CAST({value} AS STRING))"
        kind = {"number": "DOUBLE", "int": "BIGINT"}.get(role)
        return value if kind is None else f"CAST({value} AS {kind})"

    def held(self, name: str, column: str, bounds: Bounds, usual: float) -> Any:
        # A ladder of conditions takes half the time of GREATEST and LEAST: most rows stop at the first.
        nw, (low, high) = optional("narwhals"), bounds
        value = nw.col(name)
        above = (value > high) & ~value.is_nan() if self.may_hold_nan(column) else value > high
        missing = nw.lit(min(max(usual, low), high), dtype=nw.Float64)
        beyond = nw.when(value < low).then(nw.lit(low)).otherwise(nw.when(above).then(nw.lit(high)).otherwise(missing))
        return nw.when((value >= low) & (value <= high)).then(value).otherwise(beyond)

    def rows(self, query: Any, *, settled: bool = False) -> list[tuple[Any, ...]]:
        if isinstance(query, _Parts | SparkSums):
            return query.rows(settled=settled or self.kept_columns is not None)
        return list(query.collect().iter_rows())

    def run_several(self, build: Build, queries: Sequence[Callable[[Any], Any]]) -> list[list[tuple[Any, ...]]]:
        if len(queries) == 1:
            return super().run_several(build, queries)

        def results() -> list[list[tuple[Any, ...]]]:
            stored = self.kept(build(self))
            return [self.rows(query(stored), settled=True) for query in queries]

        return guarded(results, "run the queries")

    def kept(self, frame: Any) -> Any:
        return optional("narwhals").from_native(settled_rows(frame.to_native()))

    # The code that Spark writes for many sums at once outgrows what the JVM compiles, which makes it ten times slower.
    # So there are several queries, of rows that are settled first: a frame that is read again may answer differently.

    def totals(self, frame: Any, terms: Mapping[str, Any]) -> Any:
        every = super().totals
        return _Parts(
            frame, lambda rows, part: every(rows, {name: terms[name] for name in part}), list(terms), 0, _WITHOUT_GROUPS
        )

    def added_up(self, frame: Any, groups: Sequence[str], names: Sequence[str], *, limited: bool = False) -> Any:
        every = super().added_up
        if limited:
            return every(frame, groups, names, limited=True)
        return _Parts(frame, lambda rows, part: every(rows, groups, part), names, len(groups), _TOGETHER)

    def answer(self, columns: Mapping[str, list[Any]]) -> Any:
        names = {float: "double", int: "bigint", bool: "boolean"}
        first = (next((value for value in values if value is not None), "") for values in columns.values())
        return self._answered(columns, [names.get(type(value), "string") for value in first])

    def made_rows(self, columns: Mapping[str, MadeColumn]) -> Any:
        names = {"float": "double", "int": "bigint", "bool": "boolean", "str": "string"}
        kinds = [names[column.kind] for column in columns.values()]
        return self._answered({name: column.values for name, column in columns.items()}, kinds)

    def _answered(self, columns: Mapping[str, list[Any]], kinds: Sequence[str]) -> Any:
        schema = ", ".join(f"`{name}` {kind}" for name, kind in zip(columns, kinds, strict=True))
        return self._session.createDataFrame(list(zip(*columns.values(), strict=True)), schema=schema)
