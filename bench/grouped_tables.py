"""Means by groups against the engine's own clipped sums by the same groups: 20 columns, 10 groups, 3 million rows.

Every line is a ratio of wall-clock times in one run, the least of several each, with the most that it may be. Spark is
asked with 2 to 100 columns, without groups, by two tables and with missing values as well, because the code that it
writes for many sums at once outgrows what the JVM compiles. pandas works in memory, on a million rows, against its
plain means by groups.

All of Spark takes long. A part of it, with files that are kept from one run to the next:

    python -m bench.grouped_tables spark --kinds one --columns 20 50 --folder /tmp/tables
"""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROWS = int(float(os.environ.get("INID_BENCH_GROUPED_ROWS", "3e6")))
IN_MEMORY = 10**6
COLUMNS = 100
LIMITS = {"duckdb": 1.5, "polars": 1.3, "pandas": 2.5, "spark": 2.5}
SPARK = [2, 5, 10, 20, 50, 100]
KINDS = {
    "one": "by 10 groups",
    "none": "without groups",
    "two": "by two tables of 10",
    "gaps": "by 10 groups, a tenth of the values missing",
}

# One engine per process. The two are timed in turn, so that a busy machine slows both, and the least time counts.
WORK = """
import sys, time
path, engine, kind, number, times = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5])
columns, low, high = [f"c{at}" for at in range(number)], 5.0, 95.0
keys = [f"k{at}" for at in range(10)]
groups = {"none": [], "one": ["g"], "two": ["g", "h"], "gaps": ["g"]}[kind]
import inid
from inid import tables
if engine == "duckdb":
    import duckdb
    duckdb.sql("SET enable_progress_bar = false")
    data = path
    sums = ", ".join(f"sum(least(greatest({c}, {low}), {high}))" for c in columns)
    plain = lambda: [duckdb.sql(f"SELECT g, {sums} FROM read_parquet('{path}') GROUP BY g").fetchall() for g in groups]
elif engine == "polars":
    import polars as pl
    data = pl.scan_parquet(path)
    clipped = pl.col(columns).clip(low, high).sum()
    plain = lambda: [data.group_by(g).agg(clipped).collect(engine="streaming") for g in groups]
elif engine == "pandas":
    import pandas as pd
    data = pd.read_parquet(path, columns=[*groups, *columns])
    plain = lambda: [data.groupby(g)[columns].mean() for g in groups]
else:
    from pyspark.sql import SparkSession, functions as F
    made = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    made = made.config("spark.sql.shuffle.partitions", "4").config("spark.ui.showConsoleProgress", "false")
    spark = made.config("spark.driver.memory", "3g").config("spark.log.level", "OFF").getOrCreate()
    data = spark.read.parquet(path)
    clipped = [F.sum(F.greatest(F.least(F.col(c), F.lit(high)), F.lit(low))) for c in columns]
    plain = lambda: [(data.groupBy(g) if g else data).agg(*clipped).collect() for g in groups or [None]]
table = tables.Table(
    data, bounds=dict.fromkeys(columns, (low, high)), domains=dict.fromkeys(groups, keys), other="drop"
)
if kind == "two":
    query = table.marginals([(g,) for g in groups], mean={c: [(g,) for g in groups] for c in columns})
else:
    query = table.statistics(mean=columns, by=dict.fromkeys(groups, keys))
plan = query.plan(inid.GaussianDP(1.0))
contest = {"plain": plain, "private": lambda: query.release(plan)}
found = {name: [] for name in contest}
for _ in range(times):
    for name, work in contest.items():
        start = time.perf_counter()
        work()
        found[name].append(time.perf_counter() - start)
print(min(found["private"]) / min(found["plain"]))
"""


def make(path: Path, rows: int, columns: int, *, gaps: bool) -> None:
    import duckdb

    keys = ", ".join(f"'k' || floor(random() * 10)::INT AS {name}" for name in ("g", "h"))
    number = "CASE WHEN random() > 0.1 THEN random() * 100 END" if gaps else "random() * 100"
    numbers = ", ".join(f"{number} AS c{at}" for at in range(columns))
    duckdb.connect().execute(f"COPY (SELECT {keys}, {numbers} FROM range({rows})) TO '{path}' (FORMAT parquet)")  # noqa: S608


def ratio(path: Path, engine: str, kind: str, columns: int, times: int) -> float:
    """How many times longer the release takes than the engine's own sums."""
    command = [sys.executable, "-c", WORK, str(path), engine, kind, str(columns), str(times)]
    done = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    return float(done[-1])


def made(folder: Path, rows: int, columns: int, *, gaps: bool = False) -> Path:
    """The file of so many rows and columns in a folder; both are made where they are not there yet."""
    path = folder / f"{rows}x{columns}{'_gaps' if gaps else ''}.parquet"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        make(path, rows, columns, gaps=gaps)
    return path


def measure(folder: Path, engines: list[str], kinds: list[str], numbers: list[int]) -> None:
    for engine in engines:
        limit = LIMITS[engine]
        if engine != "spark":
            rows = IN_MEMORY if engine == "pandas" else ROWS
            found = ratio(made(folder, rows, 20), engine, "one", 20, 20)
            own = "plain means" if engine == "pandas" else "clipped sums"
            print(f"{engine}, 20 means by 10 groups, {rows:.0e} rows: {found:.2f} times its {own} (at most {limit})")
            continue
        for kind in kinds:
            for columns in numbers:
                path = made(folder, ROWS, 20 if columns <= 20 else COLUMNS, gaps=kind == "gaps")
                found = ratio(path, engine, kind, columns, 3)
                what = f"spark, {columns} means {KINDS[kind]}, {ROWS:.0e} rows"
                print(f"{what}: {found:.2f} times (at most {limit})", flush=True)


def main() -> None:
    read = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    read.add_argument("engines", nargs="*", default=list(LIMITS), metavar="ENGINE", help="default: all")
    read.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS), help="of groups, for Spark")
    read.add_argument("--columns", nargs="+", type=int, default=SPARK, metavar="N", help="for Spark")
    read.add_argument("--folder", type=Path, help="where files are kept; default: nowhere")
    asked = read.parse_args()
    if asked.folder is not None:
        measure(asked.folder, asked.engines, asked.kinds, asked.columns)
        return
    with tempfile.TemporaryDirectory() as folder:
        measure(Path(folder), asked.engines, asked.kinds, asked.columns)


if __name__ == "__main__":
    main()
