"""Settings of DuckDB under which no row changes how others are read.

DuckDB simplifies conditions by what statistics say of a column, and those of a Parquet file leave NaN out, whoever
wrote it. Taken at their word, a column of NaN beside one number needs no clipping and lacks no value: one person would
decide how everybody else's rows are read. No expression is safe from that (statistics pass through casts, arithmetic
and most functions), so the step of the optimizer that uses them is off, demonstrably, wherever a query of ours runs.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from threading import RLock
from typing import Any

from inid.errors import ArgumentError
from inid.tables.engines.guarded import EngineError, optional

_STEP = "statistics_propagation"
# Where rows of the database itself come from.
_OWN = {"SEQ_SCAN", "INDEX_SCAN", "TABLE_SCAN", "COLUMN_DATA_SCAN", "CHUNK_SCAN", "DUMMY_SCAN", "EMPTY_RESULT"}
_OWN |= {"EXPRESSION_SCAN", "DELIM_SCAN", "CTE_SCAN", "REC_CTE_SCAN", "RECURSIVE_CTE_SCAN", "RANGE", "GENERATE_SERIES"}
_OWN |= {"UNNEST", "REPEAT"}
_ARROW = {"PYTHON_ARROW_SCAN", "ARROW_SCAN", "ARROW_SCAN_DUMB"}  # Arrow's rows have types of their own
ONE_AT_A_TIME = RLock()  # the setting belongs to a whole database: two queries must not restore it for each other


def connect() -> Any:
    """An embedded DuckDB of one's own: it writes nothing to the terminal and believes no statistics."""
    duckdb = optional("duckdb")
    connection = duckdb.connect()
    with suppress(duckdb.Error):  # in a notebook without widgets it cannot be set, because there is none
        connection.execute("SET enable_progress_bar = false")
    connection.execute(f"SET disabled_optimizers = '{_STEP}'")
    return connection


def require_own_catalogue(relation: Any) -> bool:
    """Refuse a database in which one of our words may mean something else, and rows that DuckDB reads from outside.

    DuckDB looks for a function, or an operator, in the schema of the connection before it takes its own. What it reads
    from files and frames has types that follow from some of the values, or stops at a value: `Table` reads them itself.
    Returns whether there are rows of Arrow's, whose far times in a zone stop a query.
    """
    every = relation.query("inid_relation", "SELECT function_name, internal FROM system.main.duckdb_functions()")
    names: dict[bool, set[str]] = {True: set(), False: set()}
    for name, internal in every.fetchall():
        names[bool(internal)].add(name.lower())
    if names[True] & names[False]:
        raise ArgumentError(
            "the DuckDB database has a macro with the name of a function of DuckDB's, which our queries would call: "
            "drop or rename it."
        )
    plan = relation.query("inid_relation", "EXPLAIN (FORMAT JSON) FROM inid_relation").fetchall()
    sources = {one for _, text in plan for root in json.loads(text) for one in _sources(root)}
    for function in sorted(sources):
        if function not in _OWN | _ARROW:
            raise ArgumentError(
                f"the DuckDB relation reads rows from outside the database ({function}), where one value may decide "
                "the types of all: pass the frame or the path of the file itself, or CREATE TABLE ... AS and pass "
                "that table."
            )
    return bool(sources & _ARROW)


def _sources(node: Mapping[str, Any]) -> Iterator[str]:
    """What the leaves of a plan are."""
    children = node.get("children") or ()
    if not children:
        yield str(node.get("extra_info", {}).get("Function", node["name"])).strip().upper()
    for child in children:
        yield from _sources(child)


@contextmanager
def without_statistics(relation: Any) -> Iterator[None]:
    """Turn that step off in the database of a relation of the user's while a query runs; then restore the setting."""

    def asked(statement: str) -> Any:
        return relation.query("inid_relation", statement)

    def disabled() -> str:
        ((found,),) = asked("SELECT system.main.current_setting('disabled_optimizers')").fetchall()
        return str(found or "")

    with ONE_AT_A_TIME:
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
