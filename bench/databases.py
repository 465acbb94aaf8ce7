"""Private sums of 20 columns by 10 groups in PostgreSQL, against the database's own clipped sums of the same columns.

Set INID_BENCH_POSTGRES to the address of a server where a table may be made (2 GB for 10^7 rows), or a server of the
tests' kind is started. They are timed in turn, so that a busy machine slows all, in wall-clock time and
without parallel workers: the least of each counts. "filled" adds up the same rows as the plain sums; "omitted"
also counts the values of each column, as the plain statement with counts does.
"""

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import ibis
import psycopg

from inid import tables

COLUMNS = [f"x{at}" for at in range(20)]
LOW, HIGH = 0.0, 100.0
ROWS = int(float(os.environ.get("INID_BENCH_ROWS", "1e7")))
REPEATS = 3
ALONE = "-c max_parallel_workers_per_gather=0"


def address() -> str:
    if "INID_BENCH_POSTGRES" in os.environ:
        return os.environ["INID_BENCH_POSTGRES"]
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
    from postgres_server import postgres_server

    return postgres_server().url


def filled(connection: psycopg.Connection) -> None:
    made = ", ".join(f"random() * 120 - 10 AS {name}" for name in COLUMNS)
    connection.execute("DROP TABLE IF EXISTS inid_bench")
    connection.execute(
        f"CREATE UNLOGGED TABLE inid_bench AS SELECT CAST(i % 10 AS bigint) AS g, {made} "  # noqa: S608
        f"FROM generate_series(1, {ROWS}) AS i"
    )
    connection.execute("VACUUM ANALYZE inid_bench")


def main() -> None:
    url = address()
    with psycopg.connect(url, autocommit=True, options=ALONE) as connection:
        filled(connection)
        clipped = ", ".join(f"sum(least(greatest({name}, {LOW}), {HIGH}))" for name in COLUMNS)
        counts = ", ".join(f"count({name})" for name in COLUMNS)
        own = f"SELECT g, {clipped} FROM inid_bench GROUP BY g"  # noqa: S608
        both = f"SELECT g, {clipped}, {counts} FROM inid_bench GROUP BY g"  # noqa: S608
        data = ibis.connect(f"{url}?options={quote(ALONE)}").table("inid_bench")
        bounds = dict.fromkeys(COLUMNS, (LOW, HIGH))
        groups = {"g": list(range(10))}
        asked = {
            "filled": tables.Table(data, bounds=bounds, missing=dict.fromkeys(COLUMNS, LOW)).query(
                sum=COLUMNS, by=groups
            ),
            "omitted": tables.Table(data, bounds=bounds).query(sum=COLUMNS, by=groups),
        }
        work: dict[str, Callable[[], object]] = {
            "own": lambda: connection.execute(own).fetchall(),
            "own and counts": lambda: connection.execute(both).fetchall(),
            **{name: query.exact_sums for name, query in asked.items()},
        }
        least = dict.fromkeys(work, float("inf"))
        for _ in range(REPEATS):
            for name, run in work.items():
                start = time.perf_counter()
                run()
                least[name] = min(least[name], time.perf_counter() - start)
        connection.execute("DROP TABLE inid_bench")
    print(f"PostgreSQL, {ROWS:.0e} rows, 20 columns by 10 groups: own clipped sums {least['own']:.1f} s")
    print(f"  filled / own clipped sums:             {least['filled'] / least['own']:.2f}")
    print(f"  omitted / own clipped sums:            {least['omitted'] / least['own']:.2f}")
    print(f"  omitted / own clipped sums and counts: {least['omitted'] / least['own and counts']:.2f}")


if __name__ == "__main__":
    main()
