"""Nineteen quantiles of a column by groups, and one median, against diffprivlib and OpenDP, at the same pure epsilon.

Mean absolute error over the quantiles, in the column's unit, for columns of Adult and NHANES. The peers answer one
quantile at a time by an exponential mechanism, so each gets a nineteenth of epsilon, and all of it for one median;
groups are disjoint and need no split. Peers live in an
environment of their own: set INID_BENCH_PYTHON to an interpreter that can import them. Data: INID_DATA, a folder with
adult.csv.gz and nhanes1.csv.gz.

`python -m bench.quantiles --list` numbers the cases, `--case 3` runs one (a minute or less), `--runs 10` repeats more.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd

import inid
from inid import tables

MANY = [round(0.05 * k, 2) for k in range(1, 20)]
ASKED = {"19 quantiles": MANY, "median": [0.5]}
EPSILON = 1.0
DATA = Path(os.environ.get("INID_DATA", "data"))
CASES = (
    ("adult.csv.gz", "age", "sex", (0, 100)),
    ("adult.csv.gz", "hours_per_week", "sex", (0, 100)),
    ("adult.csv.gz", "age", "race", (0, 100)),
    ("nhanes1.csv.gz", "systolic_bp", "sex", (50, 300)),
    ("nhanes1.csv.gz", "serum_cholesterol", "sex", (0, 1000)),
    ("nhanes1.csv.gz", "bmi", "race", (10, 80)),
)

PEERS = """
import json, sys
import numpy as np
job = json.load(sys.stdin)
low, high = job["bounds"]
each = job["epsilon"] / len(job["p"])
found = {}
try:
    from diffprivlib.tools import quantile
    found["diffprivlib"] = [
        [[float(quantile(np.array(v), p, epsilon=each, bounds=(low, high))) for p in job["p"]] for v in job["groups"]]
        for _ in range(job["runs"])
    ]
except Exception as error:
    found["diffprivlib"] = repr(error)
try:
    import opendp.prelude as dp
    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.symmetric_distance()
    candidates = np.linspace(low, high, 801).tolist()
    def made(p, scale):
        return dp.m.make_private_quantile(*space, dp.max_divergence(), candidates, p, scale)
    ready = [made(p, dp.binary_search_param(lambda s: made(p, s), d_in=1, d_out=each)) for p in job["p"]]
    found["OpenDP"] = [[[float(one(v)) for one in ready] for v in job["groups"]] for _ in range(job["runs"])]
except Exception as error:
    found["OpenDP"] = repr(error)
print(json.dumps(found))
"""


def main() -> None:
    """Print the mean error of each contestant, group by group, and the ratio to ours."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--list", action="store_true", help="number the cases, and run none")
    parser.add_argument("--case", type=int, choices=range(1, len(CASES) + 1), help="run this one only")
    parser.add_argument("--runs", type=int, default=5, help="releases that the means are over")
    chosen = parser.parse_args()
    for number, case in enumerate(CASES, 1):
        if chosen.list:
            print(number, *case)
        elif chosen.case in (None, number):
            for what, probabilities in ASKED.items():
                _compare(what, probabilities, chosen.runs, *case)


def _compare(
    what: str, probabilities: list[float], runs: int, name: str, column: str, by: str, bounds: tuple[int, int]
) -> None:
    python = os.environ.get("INID_BENCH_PYTHON", sys.executable)
    frame = pd.read_csv(DATA / name)
    keys = [key if isinstance(key, str) else int(key) for key in sorted(frame[by].unique().tolist())]
    groups = [frame.loc[frame[by] == key, column].astype(float).clip(*bounds).tolist() for key in keys]
    exact = np.array([np.quantile(group, probabilities, method="inverted_cdf") for group in groups])
    table = tables.Table(frame, bounds={column: bounds})
    errors = {"inid": _ours(table.quantiles({column: probabilities}, by={by: keys}), exact, runs)}
    job = {"groups": groups, "p": probabilities, "bounds": bounds, "epsilon": EPSILON, "runs": runs}
    peers = subprocess.run(
        [python, "-W", "ignore", "-c", PEERS], input=json.dumps(job), capture_output=True, text=True, check=True
    )
    for peer, made in json.loads(peers.stdout).items():
        if isinstance(made, str):
            print(f"{peer}: not compared ({made[:200]})")
        else:
            errors[peer] = np.abs(np.array(made) - exact).mean(axis=(0, 2))
    for at, key in enumerate(keys):
        ours = float(errors["inid"][at])  # 0 where every answer was exact
        ratios = {who: f" ({error[at] / ours:.2f} x)" if ours else "" for who, error in errors.items()}
        parts = [f"{who} {error[at]:.4g}{ratios[who]}" for who, error in errors.items()]
        print(f"{what}: {name} {column} {by}={key} ({len(groups[at]):,} rows): {', '.join(parts)}", flush=True)


def _ours(query: tables.Query, exact: np.ndarray, runs: int) -> np.ndarray:
    plan = query.plan(inid.PureDP(EPSILON))
    errors = []
    for _ in range(runs):
        rows = query.release(plan).answers
        found = np.array([row.estimate for row in rows]).reshape(exact.shape)
        errors.append(np.abs(found - exact).mean(axis=1))
    return np.mean(errors, axis=0)


if __name__ == "__main__":
    main()
