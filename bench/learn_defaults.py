"""Estimators as a new user calls them: default parameters and round public bounds, on four datasets.

Prints the first table of docs/learn.md. The datasets are looked for in INID_DATA, or in shared/data beside the project.
"""

import statistics
from collections.abc import Callable

import numpy as np
import pandas as pd
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


def main() -> None:
    """What the obvious call gives: default parameters, round bounds, a fifth of the rows held out, medians of runs."""
    epsilons, runs = (0.5, 1.0, 3.0), 20
    head_row = " | ".join(f"epsilon = {e:g}" for e in epsilons)
    print(f"\nDefaults only, delta = 1e-6\n\n| | not private | {head_row} |\n| --- | --- | --- | --- | --- |")

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
    }  # fmt: skip
    for name, (X, y, bounds, ends) in regressions.items():
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
    for name, (X, y, bounds) in classifications().items():
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


def _held_out(rows: int) -> tuple[np.ndarray, np.ndarray]:
    order = np.random.default_rng(0).permutation(rows)
    return order[: rows * 4 // 5], order[rows * 4 // 5 :]


if __name__ == "__main__":
    main()
