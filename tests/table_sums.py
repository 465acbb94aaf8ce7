"""Exact sums of a small table on any engine, for the attacks on how engines read rows."""

import duckdb
import pyarrow as pa

from inid import tables

__all__ = ["BOUNDS", "enumerated", "relation_of", "sums"]

BOUNDS = {"x": (0, 10)}


def sums(data, *, bounds=BOUNDS, unit="row", missing="omit", **asked):
    query = tables.Table(data, bounds=bounds, unit=unit, missing=missing).statistics(**(asked or {"sum": ["x"]}))
    return (query.exact_sums() * query.units).tolist()


def enumerated(rows):
    """A DuckDB type whose values stand in the order in which they first appear."""
    connection = duckdb.connect()
    words = ", ".join(f"'{word}'" for word in dict.fromkeys(word for _, word, _ in rows))
    connection.execute(f"CREATE TYPE word AS ENUM ({words})")
    connection.execute("CREATE TABLE people (u INTEGER, o word, x DOUBLE)")
    connection.executemany("INSERT INTO people VALUES (?, ?, ?)", rows)
    return connection.table("people")


def relation_of(frame):
    """A pandas frame as a relation of DuckDB's, which takes Arrow's types as they are."""
    return duckdb.from_arrow(pa.Table.from_pandas(frame, preserve_index=False))
