"""Many tables at once: planning, the error beside an equal split, a release beside the engine's own group-bys.

The peer of every error is the equal split, planned in the same run; that of the release is the engine's own group-by of
the same pairs, one after the other, as a program without this library would run them.
"""

import time
from collections.abc import Callable
from itertools import combinations
from typing import Any

import numpy as np

import inid
from inid.tables import Table
from inid.tables.marginals.allocation import least_maximum
from inid.tables.marginals.workload import workload_of

ADULT = (100, 100, 100, 99, 85, 42, 16, 15, 9, 7, 6, 5, 2, 2)
CENSUS = (2, 116, 63, 2, 8)
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
    query = empty(ADULT, 10**5).query(marginals=3)
    plan, spent = timed(lambda: query.plan(BUDGET, mechanism="gaussian"))
    _, proved = timed(plan.verify)
    print(f"Adult, 14 columns, all 364 tables over 3: plan {spent:.2f} s, verify {proved:.2f} s (limit 10 s together)")
    query, asked = timed(lambda: empty((10,) * 100).query(marginals=2))
    plan, spent = timed(lambda: query.plan(BUDGET, mechanism="gaussian"))
    ratio = plan.tables[0].std / plan.tables[0].spr
    print(
        f"100 columns of ten, 4,950 tables: query {asked:.2f} s, plan {spent:.2f} s (limit 1 s), "
        f"std {plan.tables[0].std:.1f}, {ratio:.2f} of the equal split's"
    )
    # More cells than a release takes: the budget shared between the blocks, as far as planning differs by tables.
    wide = list(combinations(range(100), 3))
    shared, spent = timed(lambda: least_maximum(workload_of([10] * 100, wide), np.ones(len(wide))))
    print(f"100 columns of ten, 161,700 tables: shared in {spent:.2f} s (limit 3 s), within {shared.within:.6f}")
    tables = [t for k in (0, 1, 2, 3) for t in combinations([f"c{at}" for at in range(5)], k)]
    plan = empty(CENSUS).query(marginals=tables).plan(BUDGET, mechanism="gaussian")
    most = max(entry.std for entry in plan.tables)
    print(f"census 2x116x63x2x8, up to 3 columns: std {most:.2f}, {most / plan.tables[0].spr:.3f} of the equal split's")


def release() -> None:
    import duckdb
    import pyarrow as pa

    rng = np.random.default_rng(0)
    rows, names = 10**5, [f"c{at}" for at in range(100)]
    data = pa.table({name: rng.integers(0, 10, rows) for name in names})
    domains = {name: range(10) for name in names}

    def private() -> None:
        query = Table(data, domains=domains, other="drop", max_rows=10**6).query(marginals=2)
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
        f"all 4,950 pairs of 100 columns, 1e5 rows, DuckDB: {ours:.1f} s end to end (limit 10), {ours / theirs:.2f} of "
        f"the {theirs:.1f} s of DuckDB's own group-bys"
    )


def main() -> None:
    planning()
    release()


if __name__ == "__main__":
    main()
