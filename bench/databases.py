"""Private sums of 20 columns by 10 groups in PostgreSQL and DuckDB, against the database's own clipped sums.

The peer is what one would write by hand, `sum(least(greatest(x, 0), 100))` of the same columns by the same groups, in
doubles; "own by cases" clips by a CASE instead, and "own and counts" also counts the values of each column. Ours are
whole numbers: "filled" adds up the same rows as the plain sums; "omitted" leaves missing values out, and counts. All
run in turn, on a new connection each, so that a busy machine slows all; the least of each counts. Printed are ratios
of processor time (of the server's processes, or of DuckDB in this one) and of wall-clock time. PostgreSQL runs without
parallel workers, with its compiler (jit) and without.

A server of the tests' kind is started; 10^7 rows take 2 GB there, and 2 GB in DuckDB. INID_BENCH_ROWS sets the rows,
INID_BENCH_REPEATS how often all run, INID_BENCH_DATABASE (duckdb or postgres) the only one.
"""

import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import duckdb
import ibis
import psycopg

from inid import tables

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
from postgres_server import Server, postgres_server

COLUMNS = [f"x{at}" for at in range(20)]
LOW, HIGH = 0.0, 100.0
MOST = 1.5
PAIRS = [("filled", "own"), ("filled", "own by cases"), ("omitted", "own"), ("omitted", "own by cases")]
PAIRS += [("omitted", "own and counts")]
ROWS = int(float(os.environ.get("INID_BENCH_ROWS", "1e7")))
REPEATS = int(os.environ.get("INID_BENCH_REPEATS", "3"))

CLIPPED = ", ".join(f"sum(least(greatest({name}, {LOW}), {HIGH}))" for name in COLUMNS)
CASES = ", ".join(f"sum(CASE WHEN {x} < {LOW} THEN {LOW} WHEN {x} > {HIGH} THEN {HIGH} ELSE {x} END)" for x in COLUMNS)
COUNTS = ", ".join(f"count({name})" for name in COLUMNS)
OWN = f"SELECT g, {CLIPPED} FROM inid_bench GROUP BY g"  # noqa: S608
CASED = f"SELECT g, {CASES} FROM inid_bench GROUP BY g"  # noqa: S608
BOTH = f"SELECT g, {CLIPPED}, {COUNTS} FROM inid_bench GROUP BY g"  # noqa: S608
MADE = ", ".join(f"random() * 120 - 10 AS {name}" for name in COLUMNS)


def asked(data: ibis.Table) -> dict[str, Callable[[], object]]:
    bounds, groups = dict.fromkeys(COLUMNS, (LOW, HIGH)), {"g": list(range(10))}
    filled = tables.Table(data, bounds=bounds, missing=dict.fromkeys(COLUMNS, LOW))
    omitted = tables.Table(data, bounds=bounds)
    return {
        "filled": filled.statistics(sum=COLUMNS, by=groups).exact_sums,
        "omitted": omitted.statistics(sum=COLUMNS, by=groups).exact_sums,
    }


def timed(title: str, work: dict[str, Callable[[], object]], spent: Callable[[], float]) -> None:
    """Run all in turn, and print each one's ratio to the database's own sums."""
    processor, wall = ({name: float("inf") for name in work} for _ in range(2))
    for _ in range(REPEATS):
        for name, run in work.items():
            before, start = spent(), time.perf_counter()
            run()
            wall[name] = min(wall[name], time.perf_counter() - start)
            processor[name] = min(processor[name], spent() - before)
    print(f"{title}, {ROWS:.0e} rows, 20 columns by 10 groups: {processor['own']:.1f} s of processor for own sums")
    for name, peer in PAIRS:
        ratios = (processor[name] / processor[peer], wall[name] / wall[peer])
        print(f"  {f'{name} / {peer}':28} processor {ratios[0]:.2f}  wall {ratios[1]:.2f} (at most {MOST})", flush=True)


def server_seconds(server: Server, kept: set[str]) -> float:
    """The processor time of connections that have ended: the server's own process counts its children.

    Args:
        server: The server.
        kept: The children that stay; the others have to end first.
    """
    while children(server) - kept:
        time.sleep(0.05)
    fields = Path(f"/proc/{pid(server)}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[13]) + int(fields[14])) / os.sysconf("SC_CLK_TCK")


def pid(server: Server) -> str:
    folder = Path(server.control[server.control.index("-D") + 1])
    return (folder / "postmaster.pid").read_text().split()[0]


def children(server: Server) -> set[str]:
    return {*Path(f"/proc/{pid(server)}/task/{pid(server)}/children").read_text().split()}


def on_postgres() -> None:
    server = postgres_server()
    with psycopg.connect(server.url, autocommit=True) as con:
        some = f"SELECT CAST(i % 10 AS bigint) AS g, {MADE} FROM generate_series(1, {ROWS // 10}) AS i"  # noqa: S608
        con.execute(f"CREATE TEMPORARY TABLE tenth AS {some}")
        con.execute(
            "CREATE UNLOGGED TABLE inid_bench WITH (autovacuum_enabled = off) AS "
            "SELECT tenth.* FROM tenth, generate_series(1, 10)"
        )
        con.execute("ANALYZE inid_bench")
        con.execute("SELECT count(*) FROM inid_bench")  # the first scan of new rows writes to their pages
    for jit in ("on", "off"):
        options = f"-c max_parallel_workers_per_gather=0 -c jit={jit}"

        def run(statement: str, options: str = options) -> None:
            with psycopg.connect(server.url, autocommit=True, options=options) as con:
                con.execute(statement).fetchall()

        work: dict[str, Callable[[], object]] = {"own": lambda run=run: run(OWN)}  # type: ignore[misc]
        work["own by cases"] = lambda run=run: run(CASED)  # type: ignore[misc]
        work["own and counts"] = lambda run=run: run(BOTH)  # type: ignore[misc]
        work |= asked(ibis.connect(f"{server.url}?options={quote(options)}").table("inid_bench"))
        kept = children(server)
        timed(f"PostgreSQL, jit {jit}", work, lambda kept=kept: server_seconds(server, kept))  # type: ignore[misc]


def on_duckdb(folder: str) -> None:
    con = ibis.duckdb.connect(f"{folder}/bench.duckdb")
    con.con.execute(f"CREATE TABLE inid_bench AS SELECT i % 10 AS g, {MADE} FROM range({ROWS}) AS t(i)")  # noqa: S608
    work: dict[str, Callable[[], object]] = {
        "own": lambda: con.con.cursor().execute(OWN).fetchall(),
        "own by cases": lambda: con.con.cursor().execute(CASED).fetchall(),
        "own and counts": lambda: con.con.cursor().execute(BOTH).fetchall(),
        **asked(con.table("inid_bench")),
    }
    timed(f"DuckDB {duckdb.__version__}", work, time.process_time)


def main() -> None:
    only = os.environ.get("INID_BENCH_DATABASE", "")
    if only != "postgres":
        with tempfile.TemporaryDirectory() as folder:
            on_duckdb(folder)
    if only != "duckdb":
        on_postgres()


if __name__ == "__main__":
    main()
