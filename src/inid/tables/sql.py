"""The columns of a DuckDB relation as SQL, each typed for its role, and the connections that run it.

DuckDB simplifies conditions by what statistics say of a column, and those of a Parquet file leave NaN out, whoever
wrote it. Taken at their word, a column of NaN beside one number needs no clipping and lacks no value: one person would
decide how everybody else's rows are read. No expression is safe from that (statistics pass through casts, arithmetic
and most functions), so the step of the optimizer that uses them is off, demonstrably, wherever a query of ours runs.
"""

import csv
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Lock
from typing import Any

from inid.tables.guards import EngineError, optional
from inid.tables.roles import Role, is_text

__all__ = ["connect", "first_names", "parsed", "plain", "without_statistics"]

_STEP = "statistics_propagation"
_ONE_AT_A_TIME = Lock()  # the setting belongs to a whole database: two queries must not restore it for each other


def connect() -> Any:
    """An embedded DuckDB of one's own: it writes nothing to the terminal and believes no statistics."""
    connection = optional("duckdb").connect()
    connection.execute("SET enable_progress_bar = false")
    connection.execute(f"SET disabled_optimizers = '{_STEP}'")
    return connection


@contextmanager
def without_statistics(relation: Any) -> Iterator[None]:
    """Turn that step off in the database of a relation of the user's while a query runs; then restore the setting.

    Raises:
        EngineError: It stays on.
    """

    def asked(statement: str) -> Any:
        return relation.query("inid_relation", statement)

    def disabled() -> str:
        ((found,),) = asked("SELECT current_setting('disabled_optimizers')").fetchall()
        return str(found or "")

    with _ONE_AT_A_TIME:
        before = disabled()
        if _STEP in before:
            yield
            return
        with suppress(optional("duckdb").Error):  # a locked configuration, say
            asked(f"SET disabled_optimizers = '{before + ',' if before else ''}{_STEP}'")
        if _STEP not in disabled():
            raise EngineError(
                "the optimizer of your DuckDB connection may leave out the clipping of values, and it cannot be told "
                f"not to: run SET disabled_optimizers = '{_STEP}' before it is locked, or pass the path of the file."
            )
        try:
            yield
        finally:
            with suppress(optional("duckdb").Error):  # in a transaction that has failed nothing can be set
                asked(f"SET disabled_optimizers = '{before}'")


def plain(column: str, role: Role, kind: Any) -> str:
    """SQL that reads a typed column for its role. Texts are compared letter by letter, whatever their collation.

    Under a collation that takes "f" for "F" a group would be called by either, whichever row comes first.
    """
    name = _quoted(column)
    if role == "str" or (role in ("person", "order") and is_text(kind)):
        return f'CAST({name} AS VARCHAR) COLLATE "binary"'
    if kind.is_float() and role in ("number", "person", "order"):
        return f"CASE WHEN isnan({name}) THEN NULL ELSE CAST({name} AS DOUBLE) END"
    return f"CAST({name} AS DOUBLE)" if role == "number" else name


def parsed(column: str, role: Role) -> str:
    """SQL that reads a column of text for its role; what does not parse is missing.

    The trim is more than tidiness: DuckDB turns a bare TRY_CAST of a CSV column into the type of the column itself, and
    then a value that does not parse stops the query.
    """
    name = _quoted(column)
    text = f"trim({name})"
    if role == "number":
        words = f"CASE lower({text}) WHEN 'true' THEN 1.0 WHEN 'false' THEN 0.0 END"
        return f"coalesce(TRY_CAST({text} AS DOUBLE), {words}::DOUBLE)"
    if role == "int":
        # The cast alone would round 1.7 to 2.
        return f"CASE WHEN regexp_full_match({text}, '[+-]?[0-9]+([.]0*)?') THEN TRY_CAST({text} AS BIGINT) END"
    if role == "bool":
        return f"TRY_CAST({text} AS BOOLEAN)"
    if role == "order":  # NaN is missing, as in a column of numbers
        return f"CASE WHEN isnan(TRY_CAST({text} AS DOUBLE)) THEN NULL ELSE {name} END"
    return name


def first_names(connection: Any, path: str, delimiter: str) -> list[str]:
    """The names in the first line of a CSV file, compressed or not; no other line has a say in them."""
    lines = connection.execute(
        "SELECT line FROM read_csv(?, auto_detect=false, header=false, columns={'line': 'VARCHAR'}, "
        "delim='\x1f', quote='', escape='', strict_mode=false, ignore_errors=true) LIMIT 1",
        [path],
    ).fetchall()
    return next(csv.reader([lines[0][0].removeprefix("\ufeff")], delimiter=delimiter), []) if lines else []


def _quoted(column: str) -> str:
    return '"' + column.replace('"', '""') + '"'
