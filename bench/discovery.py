"""Keys that nobody listed: one noisy count for threshold and answer, against half the promise for each.

The usual way finds keys with one half of mu^2 (or epsilon) and counts them anew with the other. Here one noisy count is
both. Keys that are kept, and the root mean square error of their counts, at the same promise, on combinations of
columns of Adult and NHANES; means of five runs. Data: INID_DATA, a folder with adult.csv.gz and nhanes1.csv.gz.
"""

import math
import os
from pathlib import Path

import numpy as np
import pandas as pd

import inid
from bench._result_table import ResultTable
from inid import tables

__all__ = ["main"]

DATA = Path(os.environ.get("INID_DATA", "data"))
RUNS = 5
DELTA = 1e-8
CASES = (
    ("adult.csv.gz", ("age", "hours_per_week")),
    ("adult.csv.gz", ("education", "occupation", "native_country")),
    ("nhanes1.csv.gz", ("age", "sex", "race")),
)
PROMISES = (
    ("gaussian", inid.GaussianDP(0.25), inid.GaussianDP(0.25 / math.sqrt(2))),
    ("laplace", inid.PureDP(1.0), inid.PureDP(0.5)),
)


def _found(table: tables.Table, budget: inid.GaussianDP | inid.PureDP) -> dict[object, float]:
    query = table.select_partitions("key", delta=DELTA)
    return {row.keys["key"]: row.estimate for row in query.release(query.plan(budget)).answers}


def _anew(table: tables.Table, keys: list[str], budget: inid.GaussianDP | inid.PureDP) -> list[float]:
    if not keys:
        return []
    query = table.statistics(count=True, by={"key": keys})
    return [row.estimate for row in query.release(query.plan(budget)).answers]


def main() -> None:
    """Print one line per case."""
    columns = ("", "keys", "promise", "kept here", "half and half", "error here", "half and half")
    title = "Partition selection: keys kept, and root mean square error of their counts"
    with ResultTable(
        "tables-partition-selection", title, columns, peers="half of the promise to find keys, half to count them",
        command="python -m bench.discovery",
    ) as lines:  # fmt: skip
        compare(lines)


def compare(lines: ResultTable) -> None:
    """Add a line per case."""
    for name, columns in CASES:
        frame = pd.read_csv(DATA / name)[list(columns)].astype(str).agg("/".join, axis=1).to_frame("key")
        exact, table = frame["key"].value_counts(), tables.Table(frame)
        for noise, whole, half in PROMISES:
            kept: list[list[int]] = [[], []]
            errors: list[list[float]] = [[], []]
            for _ in range(RUNS):
                ours, theirs = _found(table, whole), list(_found(table, half))
                pairs = (list(ours), list(ours.values())), (theirs, _anew(table, theirs, half))  # type: ignore[arg-type]
                for at, (keys, values) in enumerate(pairs):
                    kept[at].append(len(keys))
                    errors[at].append(float(np.sqrt(np.mean(np.square(np.array(values) - exact[keys].to_numpy())))))
            (one, two), (first, second) = map(np.mean, kept), map(np.mean, errors)
            where = f"{name.partition('.')[0]}, {', '.join(columns)}"
            figures = (f"{one:.0f}", f"{two:.0f}", f"{first:.2f}", f"{second:.2f}")
            lines.add(where, f"{len(exact):,}", noise, *figures)


if __name__ == "__main__":
    main()
