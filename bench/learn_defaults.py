"""Estimators as a new user calls them: default parameters and round public bounds, on four datasets and a small one.

Prints the tables of docs/learn/scores.md, or the parts named by the beginnings of their rows, `simple` and `few`:
`python -m bench.learn_defaults California "Adult, six" few`. The datasets are looked for in INID_DATA, or in
shared/data beside the project. diffprivlib lives in an environment of its own: set INID_BENCH_PYTHON to an interpreter
that can import it.
"""

import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.datasets import load_diabetes
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import roc_auc_score

import inid
from bench.learn import DATA, DAYS, california, electricity
from inid import learn

ADULT = {
    "age": (0, 100), "fnlwgt": (0, 1_500_000), "education_num": (0, 20), "capital_gain": (0, 100_000),
    "capital_loss": (0, 5_000), "hours_per_week": (0, 100),
}  # fmt: skip
CALIFORNIA = ([0, 0, 0, 0, 0, 0, 32, -125], [15, 60, 20, 5, 10_000, 10, 42, -114])
NHANES = {
    "age": (0, 100), "diastolic_bp": (0, 200), "poverty_index": (0, 1000), "race": (1, 3),
    "sedimentation_rate": (0, 100), "serum_albumin": (2, 6), "serum_cholesterol": (0, 800), "serum_iron": (0, 400),
    "serum_magnesium": (0, 3), "serum_protein": (4, 12), "sex": (1, 2), "systolic_bp": (0, 300), "tibc": (0, 800),
    "ts": (0, 100), "white_blood_cells": (0, 50), "bmi": (10, 80), "pulse_pressure": (0, 200),
}  # fmt: skip


DIABETES = ([0, 1, 10, 50, 50, 0, 0, 0, 2, 50], [100, 2, 60, 150, 400, 300, 120, 12, 7, 150])

# One file of data and bounds; the medians and the worst of as many runs for each epsilon, a line for each.
PEER = """
import sys, warnings
import numpy as np
from diffprivlib import models
warnings.simplefilter("ignore")
d = np.load(sys.argv[1])
low, high, runs = d["low"], d["high"], int(d["runs"])
def hold(X):
    return np.clip(X, low, high)
def scaled(X):
    return (hold(X) - low) / (high - low)
def auc(y, s):
    order = np.argsort(s, kind="mergesort")
    _, place, count = np.unique(s[order], return_inverse=True, return_counts=True)
    rank = np.empty(len(s)); rank[order] = (np.cumsum(count) - (count - 1) / 2)[place]
    up = y == 1
    return (rank[up].sum() - up.sum() * (up.sum() + 1) / 2) / (up.sum() * (~up).sum())
for epsilon in d["epsilons"]:
    found = []
    for _ in range(runs):
        if "ends" in d:
            m = models.LinearRegression(epsilon=epsilon, bounds_X=(low, high), bounds_y=tuple(d["ends"]))
            m.fit(hold(d["X"]), np.clip(d["y"], *d["ends"]))
            p = np.clip(m.predict(hold(d["T"])).ravel(), *d["ends"])
            found.append(1 - ((d["t"] - p) ** 2).sum() / ((d["t"] - d["t"].mean()) ** 2).sum())
        else:
            m = models.LogisticRegression(epsilon=epsilon, data_norm=len(low) ** 0.5, max_iter=1000)
            m.fit(scaled(d["X"]), d["y"])
            right = (m.predict(scaled(d["T"])) == d["t"]).mean()
            found.append(right if "accuracy" in d else auc(d["t"], m.decision_function(scaled(d["T"]))))
    print(np.median(found), np.min(found), flush=True)
"""
# The library's own test of a simple model (test_simple of its logistic regression, 60 rows, epsilon = 2): right at both
# ends of the data, in how many of 300 fits.
SIMPLE = """
import sys, warnings
import numpy as np
from diffprivlib.models import LogisticRegression
warnings.simplefilter("ignore")
d = np.load(sys.argv[1])
right = 0
for epsilon in d["epsilons"]:
    right = 0
    for seed in range(300):
        m = LogisticRegression(epsilon=epsilon, data_norm=1.0, random_state=seed).fit(d["X"], d["y"])
        right += (m.predict([[-1.0]])[0] == 0) and (m.predict([[1.0]])[0] == 1)
    print(right, 300)
"""


def theirs(script: str, **data: object) -> list[str]:
    """What diffprivlib's models score, a cell for each line printed; nothing where there is no such interpreter."""
    python = os.environ.get("INID_BENCH_PYTHON", sys.executable)
    with tempfile.TemporaryDirectory() as folder:
        np.savez(Path(folder) / "data.npz", **data)
        ran = subprocess.run(
            [python, "-c", script, str(Path(folder) / "data.npz")], capture_output=True, text=True, check=False
        )
    if ran.returncode:
        print(ran.stderr.strip().splitlines()[-1:], file=sys.stderr)
        return []
    pairs = [line.split() for line in ran.stdout.split("\n") if line]
    return [f"{float(a):.3f} ({float(b):.3f})" if float(a) > -100 else f"{float(a):.1e}" for a, b in pairs]


def classifications() -> dict[str, tuple[np.ndarray, np.ndarray, tuple[np.ndarray, np.ndarray]]]:
    """Features, labels and round public bounds."""
    adult = pd.read_csv(DATA / "adult.csv.gz").drop(columns="split")
    over = (adult.pop("income") == ">50K").to_numpy().astype(int)
    raw, (low, high) = adult[[*ADULT]].to_numpy(float), np.array([*ADULT.values()], float).T
    groups = pd.get_dummies(adult.drop(columns=[*ADULT])).to_numpy(float)
    ones = np.ones(groups.shape[1])
    E, up = electricity()
    nhanes = pd.read_csv(DATA / "nhanes1.csv.gz")
    days = np.zeros(8), np.array(DAYS[1])
    return {
        "Adult, six numbers": (raw, over, (low, high)),
        "Adult, one-hot": (np.hstack([raw, groups]), over, (np.append(low, 0 * ones), np.append(high, ones))),
        "Electricity": (E, (up > 0).astype(int), days),
        "NHANES, died": (nhanes[[*NHANES]].to_numpy(float), nhanes["died"].to_numpy(),
                         tuple(np.array([*NHANES.values()], float).T)),
    }  # fmt: skip


def simple() -> None:
    """diffprivlib's own test of a logistic regression, 60 rows of one column: how many of 300 fits pass."""
    hours = [0.5, 0.75, 1, 1.25, 1.5, 1.75, 1.75, 2, 2.25, 2.5, 2.75, 3, 3.25, 3.5, 4, 4.25, 4.5, 4.75, 5, 5.5] * 3
    X = (np.array(hours)[:, None] - 3) / 2.5
    y = np.array([0, 0, 0, 0, 0, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 1, 1, 1, 1, 1] * 3)
    epsilons = (0.5, 1.0, 2.0)
    print(f"\ndiffprivlib's own simple test, epsilon in {epsilons}, right at both ends, of 300 fits\n")
    for name, promise in (("delta = 1e-6", lambda e: inid.ApproxDP(e, 1e-6)), ("pure", inid.PureDP)):
        counts = []
        for epsilon in epsilons:
            model = learn.PrivateLogisticRegression(budget=promise(epsilon), bounds_X=(-1, 1), classes=(0, 1))
            counts.append(sum(model.fit(X, y).predict([[-1.0], [1.0]]).tolist() == [0, 1] for _ in range(300)))
        print(f"inid, {name}:", *counts, flush=True)
    print("diffprivlib, pure:", *theirs(SIMPLE, X=X, y=y, epsilons=epsilons))


def few_rows() -> None:
    """Adult with 2,000 rows to learn from, epsilon = 1: AUC and accuracy."""
    for name in ("Adult, six numbers", "Adult, one-hot"):
        X, y, (low, high) = classifications()[name]
        order = np.random.default_rng(1).permutation(len(y))
        a, b = order[:2000], order[2000:12000]
        runs = 20 if X.shape[1] < 50 else 5
        print(f"\n{name}, 2,000 rows, epsilon = 1: AUC and accuracy, median (worst) of {runs}\n")
        for title, budget in (("delta = 1e-6", inid.ApproxDP(1.0, 1e-6)), ("pure", inid.PureDP(1.0))):
            model = learn.PrivateLogisticRegression(budget=budget, bounds_X=(low, high), classes=(0, 1))
            found = []
            for _ in range(runs):
                scores = model.fit(X[a], y[a]).decision_function(X[b])
                found.append((roc_auc_score(y[b], scores), float(((scores > 0) == y[b]).mean())))
            cells = [f"{statistics.median(one):.3f} ({min(one):.3f})" for one in zip(*found, strict=True)]
            print(f"inid, {title}:", *cells, flush=True)
        common = {"X": X[a], "y": y[a], "T": X[b], "t": y[b], "low": low, "high": high, "runs": runs, "epsilons": [1.0]}
        print("diffprivlib, pure:", *theirs(PEER, **common), *theirs(PEER, accuracy=1, **common))


def main() -> None:
    """What the obvious call gives: default parameters, round bounds, a fifth of the rows held out, medians of runs."""
    epsilons, runs = (0.5, 1.0, 3.0), 20
    wanted = tuple(sys.argv[1:]) or ("",)
    head_row = " | ".join(f"epsilon = {e:g}" for e in epsilons)
    print(f"\nDefaults only, delta = 1e-6 (diffprivlib: pure)\n\n| | not private | {head_row} |")
    print("| --- | --- | --- | --- | --- |")

    def peer(X: np.ndarray, y: np.ndarray, train: np.ndarray, test: np.ndarray, bounds: tuple, **more: object) -> None:
        low, high = (np.broadcast_to(np.asarray(end, float), X.shape[1]) for end in bounds)
        cells = theirs(
            PEER, X=X[train], y=y[train], T=X[test], t=y[test], low=low, high=high, epsilons=epsilons,
            runs=runs if X.shape[1] < 50 else 5, **more,
        )  # fmt: skip
        print("| diffprivlib | | " + " | ".join(cells or ["not installed"] * 3) + " |", flush=True)

    def row(name: str, plain: float, score: Callable[[inid.Budget], float], runs: int = runs) -> None:
        cells = []
        for epsilon in epsilons:
            found = [score(inid.ApproxDP(epsilon, 1e-6)) for _ in range(runs)]
            cells.append(f"{statistics.median(found):.3f} ({min(found):.3f})")
        print(f"| {name} | {plain:.3f} | " + " | ".join(cells) + " |", flush=True)

    X, y = california()
    nhanes = pd.read_csv(DATA / "nhanes1.csv.gz")
    pressure = {name: ends for name, ends in NHANES.items() if name not in ("systolic_bp", "pulse_pressure")}
    regressions = {
        "California": (X, y, tuple(np.array(CALIFORNIA, float)), (0, 5)),
        "NHANES, blood pressure": (nhanes[[*pressure]].to_numpy(float), nhanes["systolic_bp"].to_numpy(float),
                                   tuple(np.array([*pressure.values()], float).T), (50, 250)),
        "diabetes (353 rows)": (*load_diabetes(return_X_y=True, scaled=False), tuple(np.array(DIABETES, float)),
                                (0, 400)),
    }  # fmt: skip
    for name, (X, y, bounds, ends) in regressions.items():
        if not name.startswith(wanted):
            continue
        train, test = _held_out(len(y))
        plain = Ridge().fit(X[train], y[train]).score(X[test], y[test])
        for kind, more in {"PrivateRidge": {}, "PrivateLasso": {"alpha": 1e-3, "solver": "coordinate_descent"}}.items():
            model = getattr(learn, kind)(bounds_X=bounds, bounds_y=ends, **more)
            row(
                f"{name}, {kind}{', by descent' if more else ''}, R^2", plain,
                lambda budget, m=model, X=X, y=y, a=train, b=test: m.set_params(budget=budget).fit(X[a], y[a]).score(
                    X[b], y[b]
                ),
            )  # fmt: skip
        peer(X, y, train, test, bounds, ends=ends)
    for name, (X, y, bounds) in classifications().items():
        if not name.startswith(wanted):
            continue
        train, test = _held_out(len(y))
        scaled = (X - X[train].mean(axis=0)) / (X[train].std(axis=0) + 1e-12)
        plain = LogisticRegression(max_iter=2000).fit(scaled[train], y[train]).decision_function(scaled[test])
        model = learn.PrivateLogisticRegression(bounds_X=bounds, classes=(0, 1))
        row(
            f"{name}, AUC", roc_auc_score(y[test], plain),
            lambda budget, m=model, X=X, y=y, a=train, b=test: roc_auc_score(
                y[b], m.set_params(budget=budget).fit(X[a], y[a]).decision_function(X[b])
            ),
            runs if X.shape[1] < 50 else 5,
        )  # fmt: skip
        peer(X, y, train, test, bounds)
    if "simple".startswith(wanted):
        simple()
    if "few".startswith(wanted):
        few_rows()


def _held_out(rows: int) -> tuple[np.ndarray, np.ndarray]:
    order = np.random.default_rng(0).permutation(rows)
    return order[: rows * 4 // 5], order[rows * 4 // 5 :]


if __name__ == "__main__":
    main()
