"""Spark. The charge happens once, in the driver, however often Spark repeats a part of its work."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from inid.errors import ArgumentError
from inid.tables.engines.base import Build, schema_of
from inid.tables.engines.grid_sums import are_plain
from inid.tables.engines.guarded import guarded, optional
from inid.tables.engines.roles import FIRST_DAY, LAST_DAY, Role, is_text
from inid.tables.engines.spark_sums import SparkSums, settled_rows
from inid.tables.engines.sql_engine import SqlEngine

__all__ = ["Spark"]


_TOGETHER = 8  # sums by groups in one query
_WITHOUT_GROUPS = 40  # sums over all rows: without the keys their code stays within what the JVM compiles for longer


@dataclass(frozen=True)
class _Parts:
    """Sums by the same groups, in several queries of one frame, each after its keys.

    Attributes:
        frame: The rows.
        query: Makes the query of some sums.
        names: The sums.
        keys: How many columns of keys there are.
        most: How many sums there are in one query.
    """

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
        found: dict[tuple[Any, ...], list[tuple[Any, ...]]] = {}
        for query in self._queries(frame):
            for row in query.collect().iter_rows():
                found.setdefault(row[: self.keys], []).append(row[self.keys :])
        return [(*keys, *(value for part in parts for value in part)) for keys, parts in found.items()]


def _answers_alike(frame: Any) -> bool:
    """Whether Spark knows of nothing random in how a frame is computed; Spark Connect does not say."""
    java = getattr(frame, "_jdf", None)
    return java is None or bool(java.queryExecution().analyzed().deterministic())


class Spark(SqlEngine):
    """A Spark frame.

    Spark reads "a.b" as a field of a struct and takes "x" for "X", so that a name can mean another column, or two.
    Columns are renamed by their places first, and called by these names.
    """

    computes_anew = True

    def __init__(self, frame: Any) -> None:
        names = guarded(lambda: list(frame.columns), "read the columns")
        if not guarded(lambda: _answers_alike(frame), "read the plan"):
            raise ArgumentError(
                "the Spark frame computes something at random whenever it is read, so that it holds no certain rows: "
                "pass frame.localCheckpoint(), or write it to a file and read that."
            )
        if not hasattr(frame, "localCheckpoint"):
            raise ArgumentError(
                "this Spark cannot keep the rows of a frame for several queries: use version 4 with Spark Connect."
            )
        self._session = frame.sparkSession
        places = [f"column_{at}" for at in range(len(names))]
        self._frame = guarded(lambda: frame.toDF(*places), "read the columns")
        super().__init__(schema_of(optional("narwhals").from_native(self._frame), names))
        self._places = dict(zip(names, places, strict=True))

    def typed_columns(self, wanted: Mapping[str, tuple[str, Role]]) -> Any:
        return optional("narwhals").from_native(self._frame.selectExpr(*self._typed(wanted)))

    def counted_rows(self, wanted: Mapping[str, tuple[str, Role]]) -> Any:
        if self.view:
            return super().counted_rows(wanted)
        return optional("narwhals").from_native(self._frame.selectExpr(*self._typed(wanted), "1L AS one"))

    def _typed(self, wanted: Mapping[str, tuple[str, Role]]) -> list[str]:
        """Columns as SQL text: put together in Python each step would be a call of the JVM."""
        return [f"{self._sql(column, role)} AS {new}" for new, (column, role) in wanted.items()]

    def _sql(self, column: str, role: Role) -> str:
        value = self._places[column]
        if role in ("day", "year"):
            date = f"CAST({value} AS DATE)"
            number = f"CAST({'unix_date' if role == 'day' else 'year'}({date}) AS DOUBLE)"
            return f"CASE WHEN unix_date({date}) BETWEEN {FIRST_DAY} AND {LAST_DAY} THEN {number} END"
        if role in ("person", "order") and is_text(self.schema[column]):
            role = "str"
        # Texts may have a collation, which a cast to plain text takes off.
        kind = {"number": "DOUBLE", "str": "STRING", "int": "BIGINT"}.get(role)
        return value if kind is None else f"CAST({value} AS {kind})"

    def truncated(self, expression: Any) -> Any:
        return expression.cast(optional("narwhals").Int64)  # cuts fractions off

    def rows(self, query: Any, *, settled: bool = False) -> list[tuple[Any, ...]]:
        if isinstance(query, _Parts | SparkSums):
            return query.rows(settled=settled)
        return list(query.collect().iter_rows())

    def run_several(self, build: Build, queries: Sequence[Callable[[Any], Any]]) -> list[list[tuple[Any, ...]]]:
        if len(queries) == 1:
            return super().run_several(build, queries)

        def results() -> list[list[tuple[Any, ...]]]:
            kept = self.kept(build(self))
            return [self.rows(query(kept), settled=True) for query in queries]

        return guarded(results, "run the queries")

    def kept(self, frame: Any) -> Any:
        return optional("narwhals").from_native(settled_rows(frame.to_native()))

    # The code that Spark writes for many sums at once outgrows what the JVM compiles, which makes it ten times slower.
    # So there are several queries, of rows that are settled first: a frame that is read again may answer differently.

    def totals(self, frame: Any, terms: Mapping[str, Any]) -> Any:
        if are_plain(terms):
            return SparkSums(frame.to_native(), [], terms)
        every = super().totals
        return _Parts(
            frame, lambda rows, part: every(rows, {name: terms[name] for name in part}), list(terms), 0, _WITHOUT_GROUPS
        )

    def group_totals(self, frame: Any, groups: Sequence[str], terms: Mapping[str, Any]) -> Any:
        if are_plain(terms):
            return SparkSums(frame.to_native(), groups, terms)
        return super().group_totals(frame, groups, terms)

    def added_up(self, frame: Any, groups: Sequence[str], names: Sequence[str], *, limited: bool = False) -> Any:
        every = super().added_up
        if limited:
            return every(frame, groups, names, limited=True)
        return _Parts(frame, lambda rows, part: every(rows, groups, part), names, len(groups), _TOGETHER)

    def answer(self, columns: Mapping[str, list[Any]]) -> Any:
        names = {float: "double", int: "bigint", bool: "boolean"}
        types = [names.get(type(column[0]) if column else str, "string") for column in columns.values()]
        schema = ", ".join(f"`{name}` {kind}" for name, kind in zip(columns, types, strict=True))
        return self._session.createDataFrame(list(zip(*columns.values(), strict=True)), schema=schema)
