"""The obvious call: estimators with default parameters and round public bounds, on eight datasets, beside their peers.

Writes results/bench/learn-scores.md: for each dataset, model and epsilon the mean of six seeds, each of which draws
another fifth of the rows to hold out. Beside it stand the same model without privacy, the best constant, and, where
INID_BENCH_PYTHON names an interpreter that can import them, diffprivlib's models and interpret's DP-EBM.

    python -m bench.learn_defaults                     every dataset
    python -m bench.learn_defaults adult diabetes      some of them
    python -m bench.learn_defaults --record new.json   keeps every score, seed by seed
    python -m bench.learn_defaults --compare old.json new.json

The last prints the mean difference of paired seeds and its standard error: "worse" is a loss of more than two.
The datasets are looked for in INID_DATA, or in shared/data beside the project.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_wine
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import r2_score, roc_auc_score
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import inid
from bench._public_facts import ADULT, ADULT_CATEGORIES, CALIFORNIA, CANCER, DIABETES, NHANES, WINE
from bench._result_table import ResultTable
from bench.learn import DATA, DAYS, california, electricity
from inid import learn, testing

EPSILONS, SEEDS = (0.5, 1.0, 3.0, 10.0), range(6)
DELTA = 1e-6


@dataclass(frozen=True)
class Task:
    """A dataset with what is public about it.

    Attributes:
        X: One row per person; text columns only where there are categories.
        y: The target, or labels.
        bounds: (lower, upper) of the columns that hold numbers.
        ends: (low, high) of a target; None for labels.
        categories: The public categories of text columns.
    """

    X: pd.DataFrame
    y: np.ndarray
    bounds: tuple[np.ndarray, np.ndarray]
    ends: tuple[float, float] | None = None
    categories: dict[str, list[str]] | None = None

    @property
    def encoded(self) -> np.ndarray:
        """The columns as numbers; categories one-hot, after the numbers."""
        numbers = self.X.drop(columns=[*(self.categories or ())]).to_numpy(float)
        marks = [self.X[[name]].to_numpy() == np.array([known]) for name, known in (self.categories or {}).items()]
        return np.hstack([numbers, *marks]).astype(float)

    @property
    def ranges(self) -> tuple[np.ndarray, np.ndarray]:
        """The bounds of the columns of `encoded`."""
        more = sum(len(known) for known in (self.categories or {}).values())
        return np.append(self.bounds[0], np.zeros(more)), np.append(self.bounds[1], np.ones(more))


def ends_of(pairs: Any) -> tuple[np.ndarray, np.ndarray]:
    low, high = np.array([*pairs.values()] if isinstance(pairs, dict) else np.transpose(pairs), float).T
    return low, high


def adult() -> Task:
    frame = pd.read_csv(DATA / "adult.csv.gz", keep_default_na=False)
    y = (frame["income"] == ">50K").to_numpy().astype(int)
    return Task(frame[[*ADULT, *ADULT_CATEGORIES]], y, ends_of(ADULT), categories=ADULT_CATEGORIES)


def housing() -> Task:
    X, y = california()
    return Task(pd.DataFrame(X), y, ends_of(CALIFORNIA), (0, 5))


def nhanes(target: str) -> Callable[[], Task]:
    def read() -> Task:
        frame = pd.read_csv(DATA / "nhanes1.csv.gz")
        left_out = ("systolic_bp", "pulse_pressure") if target == "systolic_bp" else ()
        columns = {name: ends for name, ends in NHANES.items() if name not in left_out}
        y = frame[target].to_numpy()
        return Task(frame[[*columns]], y, ends_of(columns), (50, 250) if left_out else None)

    return read


def prices() -> Task:
    X, up = electricity()
    return Task(pd.DataFrame(X), (up > 0).astype(int), (np.zeros(8), np.array(DAYS[1])))


def bundled(load: Callable[..., Any], bounds: Any, ends: tuple[float, float] | None = None) -> Callable[[], Task]:
    def read() -> Task:
        X, y = load(return_X_y=True, **({"scaled": False} if load is load_diabetes else {}))
        return Task(pd.DataFrame(X), y, ends_of(bounds), ends)

    return read


TASKS: dict[str, Callable[[], Task]] = {
    "adult": adult,
    "california": housing,
    "nhanes pressure": nhanes("systolic_bp"),
    "nhanes died": nhanes("died"),
    "electricity": prices,
    "diabetes": bundled(load_diabetes, DIABETES, (0, 400)),
    "cancer": bundled(load_breast_cancer, CANCER),
    "wine": bundled(load_wine, WINE),
    "digits": bundled(load_digits, ([0] * 64, [16] * 64)),
}
PLAIN = {
    "PrivateRidge": Ridge(),
    "PrivateLasso": Ridge(),
    "PrivateLogisticRegression": make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000)),
    "PrivateGaussianNB": GaussianNB(),
}


def split(rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    order = np.random.default_rng(seed).permutation(rows)
    return order[: rows * 4 // 5], order[rows * 4 // 5 :]


def quality(task: Task, test: np.ndarray, model: Any, X: Any) -> float:
    """R^2 of a regressor, AUC for two classes, accuracy for more."""
    truth = task.y[test]
    if task.ends is not None:
        return float(r2_score(truth, model.predict(X)))
    if len(np.unique(task.y)) == 2:
        return float(roc_auc_score(truth, model.predict_proba(X)[:, 1]))
    return float((model.predict(X) == truth).mean())


def best_constant(task: Task, train: np.ndarray, test: np.ndarray) -> float:
    """What a model scores that knows the mean of the target, or the most frequent class, and nothing else."""
    if task.ends is not None:
        return float(r2_score(task.y[test], np.full(len(test), task.y[train].mean())))
    counts = np.bincount(task.y[train])
    return 0.5 if len(counts) == 2 else float((task.y[test] == counts.argmax()).mean())


def private(task: Task, name: str, budget: inid.Budget) -> Any:
    """The obvious call."""
    more: dict[str, Any] = {} if task.ends is None else {"bounds_y": task.ends}
    if task.ends is None:
        more["classes"] = tuple(np.unique(task.y).tolist())
    if not hasattr(learn, "PublicCategories"):  # a version without encoders, and with another name for bounds
        return getattr(learn, name)(budget=budget, bounds=task.ranges, **more)
    if task.categories is None:
        return getattr(learn, name)(budget=budget, bounds=task.bounds, **more)
    numbers = [column for column in task.X if column not in task.categories]
    pairs = dict(zip(numbers, zip(*task.bounds, strict=True), strict=True))
    encoder = learn.PublicCategories(task.categories, bounds=pairs)
    return make_pipeline(encoder, getattr(learn, name)(budget=budget, bounds=encoder.get_bounds_out(), **more))


def scores(task: Task, name: str) -> dict[str, list[float]]:
    """Scores by epsilon, one for each seed; "plain" and "constant" beside them, and the seconds of a fit."""
    found: dict[str, list[float]] = {"plain": [], "constant": [], "seconds": []}
    X = task.X if hasattr(learn, "PublicCategories") else task.encoded
    part = (lambda rows: X.iloc[rows]) if isinstance(X, pd.DataFrame) else (lambda rows: X[rows])
    for seed in SEEDS:
        train, test = split(len(task.y), seed)
        plain = PLAIN[name].fit(task.encoded[train], task.y[train])
        found["plain"].append(quality(task, test, plain, task.encoded[test]))
        found["constant"].append(best_constant(task, train, test))
        for epsilon in EPSILONS:
            model = private(task, name, inid.ApproxDP(epsilon, DELTA))
            start = time.perf_counter()
            with testing.unsafe_seed(1000 * seed + round(10 * epsilon)), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model.fit(part(train), task.y[train])
            found["seconds"].append(time.perf_counter() - start)
            found.setdefault(f"{epsilon:g}", []).append(quality(task, test, model, part(test)))
    return found


def peers(task: Task) -> dict[str, dict[str, list[float]]]:
    """The same scores of peers, by an interpreter that can import them; nothing where there is none."""
    python = os.environ.get("INID_BENCH_PYTHON")
    if python is None:
        return {}
    halves = [split(len(task.y), seed) for seed in SEEDS]
    low, high = task.ranges
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "data.npz"
        ends = {} if task.ends is None else {"ends": np.array(task.ends, float)}
        np.savez(
            place, X=task.encoded, y=task.y, low=low, high=high, epsilons=EPSILONS,
            train=np.array([one for one, _ in halves]), test=np.array([two for _, two in halves]), **ends,
        )  # fmt: skip
        script = Path(__file__).with_name("_learn_peers.py")
        ran = subprocess.run([python, str(script), str(place)], capture_output=True, text=True, check=False)
    if ran.returncode:
        print(ran.stderr.strip().splitlines()[-1:], file=sys.stderr)
        return {}
    found: dict[str, dict[str, list[float]]] = json.loads(ran.stdout.splitlines()[-1])
    return found


def compare(old: dict[str, Any], new: dict[str, Any]) -> None:
    """Paired seeds: mean difference, its standard error, and a word where it is a loss of more than two of them."""
    print("| dataset, model | epsilon | before | now | difference | standard error | |\n" + "| --- " * 7 + "|")
    for name, scored in new.items():
        for epsilon in (f"{one:g}" for one in EPSILONS):
            if name not in old or epsilon not in scored:
                continue
            gaps = [two - one for one, two in zip(old[name][epsilon], scored[epsilon], strict=True)]
            mean, error = statistics.mean(gaps), statistics.stdev(gaps) / len(gaps) ** 0.5
            before, now = statistics.mean(old[name][epsilon]), statistics.mean(scored[epsilon])
            word = "worse" if mean < -2 * error else ""
            print(f"| {name} | {epsilon} | {before:.3f} | {now:.3f} | {mean:+.4f} | {error:.4f} | {word} |")


def show(table: ResultTable, name: str, scored: dict[str, list[float]]) -> None:
    cells = []
    for epsilon in (f"{one:g}" for one in EPSILONS):
        each = scored.get(epsilon, [])
        cells.append(f"{statistics.mean(each):.3f} ({min(each):.3f})" if each else "")
    plain, constant = (f"{statistics.mean(scored[one]):.3f}" if one in scored else "" for one in ("plain", "constant"))
    table.add(name, constant, plain, *cells)


def main() -> None:
    arguments = sys.argv[1:]
    if "--compare" in arguments:
        old, new = (json.loads(Path(one).read_text()) for one in arguments[1:3])
        return compare(old, new)
    record = Path(arguments.pop(arguments.index("--record") + 1)) if "--record" in arguments else None
    wanted = tuple(one for one in arguments if not one.startswith("--")) or ("",)
    title = f"Scores at the first try, delta = {DELTA:g}, mean (worst) of {len(SEEDS)} seeds: R^2, AUC or accuracy"
    columns = ("", "constant", "not private", *(f"epsilon = {epsilon:g}" for epsilon in EPSILONS))
    peers_named = "scikit-learn, not private; diffprivlib (pure DP) and DP-EBM where there is an interpreter for them"
    kept: dict[str, Any] = {}
    with ResultTable(
        "learn-scores" if wanted == ("",) else "learn-scores-some",
        title,
        columns,
        peers=peers_named,
        command="python -m bench.learn_defaults",
    ) as table:
        for title, read in TASKS.items():
            if not title.startswith(wanted):
                continue
            task = read()
            regressors = ("PrivateRidge", "PrivateLasso")
            names = regressors if task.ends is not None else ("PrivateLogisticRegression", "PrivateGaussianNB")
            for name in names:
                kept[f"{title}, {name}"] = scores(task, name)
                show(table, f"{title}, {name}", kept[f"{title}, {name}"])
            for name, scored in peers(task).items():
                kept[f"{title}, {name}"] = scored
                show(table, f"{title}, {name}", scored)
            if record is not None:
                record.write_text(json.dumps(kept, indent=1))
    return None


if __name__ == "__main__":
    main()
