"""Many tables at once: planning, the error beside an equal split, a release beside the engine's own group-bys.

The peer of every error is the equal split, planned in the same run; that of the release is the engine's own group-by of
the same pairs, one after the other, as a program without this library would run them. Tidy tables are measured on
Adult: adult.csv.gz is looked for in INID_DATA, or in shared/data beside the project. Parts can be named:
`python bench/marginals.py planning release`.
"""

import os
import sys
import time
from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

import inid
from inid.tables import Table
from inid.tables.questions.marginals import least_maximum

ADULT = (100, 100, 100, 99, 85, 42, 16, 15, 9, 7, 6, 5, 2, 2)
CENSUS = (2, 116, 63, 2, 8)
DATA = Path(os.environ.get("INID_DATA") or Path(__file__).resolve().parents[2] / "shared" / "data")
BUDGET = inid.ApproxDP(epsilon=1.0, delta=1e-6)


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    start = time.perf_counter()
    found = work()
    return found, time.perf_counter() - start


def empty(sizes: tuple[int, ...], max_rows: int = 10**6) -> Table:
    """A table without rows: planning looks at public facts alone."""
    import pyarrow as pa

    columns = {f"c{at}": pa.array([], pa.int64()) for at in range(len(sizes))}
    domains = {f"c{at}": range(n) for at, n in enumerate(sizes)}
    return Table(pa.table(columns), domains=domains, other="drop", max_rows=max_rows)


def planning() -> None:
    query = empty(ADULT, 10**5).marginals(3)
    plan, spent = timed(lambda: query.plan(BUDGET, mechanism="gaussian"))
    _, proved = timed(plan.verify)
    print(f"Adult, 14 columns, all 364 tables over 3: plan {spent:.2f} s, verify {proved:.2f} s (limit 10 s together)")
    for number, tables, limit in ((2, "4,950", 1), (3, "161,700", 3)):
        table = empty((10,) * 100)
        query, asked = timed(lambda table=table, number=number: table.marginals(number))
        plan, spent = timed(lambda query=query: query.plan(BUDGET, mechanism="gaussian"))
        _, proved = timed(plan.verify)
        std, equal = float(plan.numbers.std.max()), float(plan.numbers.spr.max())
        print(
            f"100 columns of ten, {tables} tables: query {asked:.2f} s, plan {spent:.2f} s (limit {limit} s), "
            f"verify {proved:.2f} s, std {std:.1f}, {std / equal:.2f} of the equal split's"
        )


def census() -> None:
    """Every table of up to three of five columns, with the total and without it."""
    names = [f"c{at}" for at in range(len(CENSUS))]
    for least, which in ((1, "1 to 3 columns"), (0, "1 to 3 columns and the total")):
        tables = [table for k in range(least, 4) for table in combinations(names, k)]
        plan = empty(CENSUS).marginals(tables).plan(BUDGET, mechanism="gaussian")
        within = least_maximum(plan.question.workload, np.ones(len(tables))).within
        most = float(plan.numbers.std.max())
        print(
            f"census 2x116x63x2x8, {len(tables)} tables over {which}: std {most:.2f}, "
            f"{most / float(plan.numbers.spr[0]):.4f} of the equal split's (limit 0.67); its square is within "
            f"{within - 1:.0e} of the least that any Gaussian mechanism has"
        )


def tidy() -> None:
    """Tables of three of eleven columns of Adult: the mean over tables of the L1 distance to the exact one over N."""
    import pandas as pd

    people = pd.read_csv(DATA / "adult.csv.gz")
    frame = people[
        ["workclass", "education", "marital_status", "occupation", "relationship", "race", "sex", "native_country"]
    ].copy()
    frame["age"] = np.minimum(people["age"], 90)
    frame["hours"] = (people["hours_per_week"] - 1) // 5
    frame["income"] = people["income"]
    domains = {name: sorted(frame[name].unique().tolist()) for name in frame} | {"age": range(17, 91)}
    query = Table(frame, domains=domains, other="drop", max_rows=10**5).marginals(3)
    for draw in range(3):
        result = query.release(query.plan(BUDGET))
        _, spent = timed(lambda result=result: result.marginal(*query.question.tables[0], tidy=True))
        distances = {True: [], False: []}
        for table in query.question.tables:
            exact = np.zeros(tuple(len(domains[name]) for name in table))
            places = [pd.Index(list(domains[name])).get_indexer(frame[name]) for name in table]
            np.add.at(exact, tuple(places), 1)
            for tidied, found in distances.items():
                made = result.marginal(*table, tidy=tidied)["estimate"].to_numpy()
                found.append(np.abs(made - exact.reshape(-1)).sum() / len(frame))
        print(
            f"Adult, 11 columns, {len(query.question.tables)} tables over 3, release {draw + 1}: L1/N "
            f"{np.mean(distances[True]):.3f} tidied in {spent:.1f} s (limit 0.25), {np.mean(distances[False]):.2f} raw"
        )


def release() -> None:
    import duckdb
    import pyarrow as pa

    rng = np.random.default_rng(0)
    rows, names = 10**5, [f"c{at}" for at in range(100)]
    data = pa.table({name: rng.integers(0, 10, rows) for name in names})
    domains = {name: range(10) for name in names}

    def private() -> None:
        query = Table(data, domains=domains, other="drop", max_rows=10**6).marginals(2)
        query.release(query.plan(BUDGET)).marginal("c0", "c1")

    def plain() -> None:
        connection = duckdb.connect()
        connection.register("people", data)
        connection.execute("CREATE TABLE kept AS SELECT * FROM people")
        for one, two in combinations(names, 2):
            connection.execute(f"SELECT {one}, {two}, count(*) FROM kept GROUP BY ALL").fetchall()  # noqa: S608

    _, ours = timed(private)
    _, theirs = timed(plain)
    print(
        f"all 4,950 pairs of 100 columns, 1e5 rows, DuckDB: {ours:.1f} s end to end (limit 10 s), {ours / theirs:.2f} "
        f"of the {theirs:.1f} s of DuckDB's own group-bys"
    )


def main() -> None:
    parts = {"planning": planning, "census": census, "release": release, "tidy": tidy}
    for name in sys.argv[1:] or parts:
        parts[name]()


if __name__ == "__main__":
    main()
