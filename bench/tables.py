"""Private sums of 20 columns against the engine's own clipped sums of the same columns, and against peers.

Every line is a ratio of wall-clock times in one run. The large table is Parquet, made on the spot; the peers' is as
large as they can take. Peers live in an environment of their own: set INID_BENCH_PYTHON to an interpreter that can
import them.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

COLUMNS = [f"c{at}" for at in range(20)]
LOW, HIGH = 5.0, 95.0
ROWS = int(float(os.environ.get("INID_BENCH_ROWS", "1e7")))
PEER_ROWS = 10**6

# One engine per process, so that peak memory is that of one query. The two are timed in turn, so that a busy machine
# slows both, and the least time of each counts.
WORK = """
import resource, sys, time
path, engine, alone = sys.argv[1:4]
columns, low, high = [f"c{at}" for at in range(20)], 5.0, 95.0
import inid
from inid import tables
if engine == "duckdb":
    import duckdb
    duckdb.sql("SET enable_progress_bar = false")
    data = path
    sums = ", ".join(f"sum(least(greatest({c}, {low}), {high}))" for c in columns)
    plain = lambda: duckdb.sql(f"SELECT {sums} FROM read_parquet('{path}')").fetchall()
else:
    import polars as pl
    data = pl.scan_parquet(path)
    plain = lambda: data.select(pl.col(columns).clip(low, high).sum()).collect(engine="streaming")
bounds = dict.fromkeys(columns, (low, high))
def private(missing):
    query = tables.Table(data, bounds=bounds, missing=missing).statistics(sum=columns)
    plan = query.plan(inid.ApproxDP(1.0, 1e-6))
    return lambda: query.release(plan)
contest = {"filled": private(dict.fromkeys(columns, low)), "omitted": private("omit")}
if alone == "no":
    contest["plain"] = plain
times = {}
for _ in range(7 if alone == "no" else 1):
    for name, work in contest.items():
        start = time.perf_counter()
        work()
        times.setdefault(name, []).append(time.perf_counter() - start)
least = {name: min(found) for name, found in times.items()}
base = least.get("plain", 1.0)
memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(least["filled"] / base, least["omitted"] / base, memory)
"""

OPENDP = """
import sys, time, polars as pl, opendp.prelude as dp
dp.enable_features("contrib")
frame = pl.scan_parquet(sys.argv[1]).collect().lazy()
columns = [f"c{at}" for at in range(20)]
def work():
    context = dp.Context.compositor(
        data=frame, privacy_unit=dp.unit_of(contributions=1), privacy_loss=dp.loss_of(epsilon=1.0, delta=1e-6),
        split_evenly_over=1, margins=[dp.polars.Margin(max_length=10**6)],
    )
    query = context.query().select([pl.col(c).fill_nan(5.0).fill_null(5.0).dp.sum(bounds=(5.0, 95.0)) for c in columns])
    return query.release().collect()
times = []
for _ in range(2):
    start = time.perf_counter()
    work()
    times.append(time.perf_counter() - start)
print(min(times))
"""

DIFFPRIVLIB = """
import sys, time, polars as pl
from diffprivlib import tools
values = pl.read_parquet(sys.argv[1]).to_numpy()
start = time.perf_counter()
for at in range(values.shape[1]):
    tools.sum(values[:, at], epsilon=1.0 / 20, bounds=(5.0, 95.0))
print(time.perf_counter() - start)
"""


def make(path: Path, rows: int) -> None:
    import duckdb

    columns = ", ".join(f"random() * 100 AS {name}" for name in COLUMNS)
    duckdb.connect().execute(f"COPY (SELECT {columns} FROM range({rows})) TO '{path}' (FORMAT parquet)")  # noqa: S608


def measured(path: Path, engine: str, alone: str) -> tuple[float, float, float]:
    """The ratios of the private release, with missing values filled and omitted, and peak memory in MiB."""
    command = [sys.executable, "-c", WORK, str(path), engine, alone]
    filled, omitted, memory = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    return float(filled), float(omitted), float(memory)


def against_peer(name: str, code: str, path: Path, own: float) -> None:
    python = os.environ.get("INID_BENCH_PYTHON")
    if not python:
        print(f"{name}: skipped, set INID_BENCH_PYTHON to an interpreter that can import it")
        return
    done = subprocess.run([python, "-c", code, str(path)], capture_output=True, text=True, check=False)
    if done.returncode:
        print(f"{name}: skipped, {(done.stderr.strip().splitlines() or ['it failed'])[-1][:100]}")
        return
    print(f"{name}, 20 sums of {PEER_ROWS:.0e} rows: {float(done.stdout) / own:.1f} times the time of inid")


def timed(work: Callable[[], object]) -> float:
    times = []
    for _ in range(3):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        large, small = Path(folder) / "large.parquet", Path(folder) / "small.parquet"
        make(small, ROWS // 10)
        make(large, ROWS)
        for engine, limit in (("duckdb", 1.5), ("polars", 2.0)):
            filled, omitted, _ = measured(large, engine, "no")
            *_, memory = measured(large, engine, "yes")
            *_, tenth = measured(small, engine, "yes")
            print(f"{engine}, {ROWS:.0e} rows x 20: {filled:.2f} times its own clipped sums (at most {limit})")
            print(f"  {omitted:.2f} times with missing values omitted and each column's values counted, the default")
            print(f"  peak memory {memory:.0f} MiB, {memory / tenth:.2f} times that of a tenth of the rows")
        peers = Path(folder) / "peers.parquet"
        make(peers, PEER_ROWS)
        import polars as pl

        import inid
        from inid import tables

        frame = pl.read_parquet(peers)
        table = tables.Table(frame, bounds=dict.fromkeys(COLUMNS, (LOW, HIGH)), missing=dict.fromkeys(COLUMNS, LOW))
        query = table.statistics(sum=COLUMNS)
        own = timed(lambda: query.release(query.plan(inid.ApproxDP(1.0, 1e-6))))
        against_peer("OpenDP's Polars context", OPENDP, peers, own)
        against_peer("diffprivlib's loop", DIFFPRIVLIB, peers, own)


if __name__ == "__main__":
    main()
