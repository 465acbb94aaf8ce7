"""Settings of DuckDB under which no row changes how others are read.

DuckDB simplifies conditions by what statistics say of a column, and those of a Parquet file leave NaN out, whoever
wrote it. Taken at their word, a column of NaN beside one number needs no clipping and lacks no value: one person would
decide how everybody else's rows are read. No expression is safe from that (statistics pass through casts, arithmetic
and most functions), so the step of the optimizer that uses them is off, demonstrably, wherever a query of ours runs.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import RLock
from typing import Any

from inid.tables.engines.guarded import EngineError, optional

__all__ = ["ONE_AT_A_TIME", "connect", "without_statistics"]

_STEP = "statistics_propagation"
ONE_AT_A_TIME = RLock()  # the setting belongs to a whole database: two queries must not restore it for each other


def connect() -> Any:
    """An embedded DuckDB of one's own: it writes nothing to the terminal and believes no statistics."""
    duckdb = optional("duckdb")
    connection = duckdb.connect()
    with suppress(duckdb.Error):  # in a notebook without widgets it cannot be set, because there is none
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
