"""Seconds of a fit beside those of a named peer, in turns and in one run: processor time, medians, ratios.

Ridge on California beside scikit-learn's, logistic regression on Adult and Electricity beside diffprivlib's (on columns
scaled to [0, 1] beforehand; Adult as one-hot columns), which lives in an environment of its own: set INID_BENCH_PYTHON
to an interpreter that can import it. Adult is also fitted from its strings, by `PublicCategories` and the classifier.
Then logistic and Poisson regression of a million made-up rows of ten columns, the latter beside scikit-learn's.

    python -m bench.learn_speed
    python -m bench.learn_speed million           some of electricity, adult, million
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import statistics
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.linear_model import PoissonRegressor, Ridge

import inid
from bench._result_table import ResultTable
from bench.learn import seconds
from bench.learn_defaults import TASKS, Task, private
from inid import learn

BUDGET = inid.ApproxDP(1.0, 1e-6)
TURNS = 7

# Fits once for every line that it reads, and answers with the seconds.
PEER = """
import sys, time, warnings
import numpy as np
from diffprivlib.models import LogisticRegression
warnings.simplefilter("ignore")
d = np.load(sys.argv[1])
X, y = (np.clip(d["X"], d["low"], d["high"]) - d["low"]) / (d["high"] - d["low"]), d["y"]
for line in sys.stdin:
    model = LogisticRegression(epsilon=1.0, data_norm=len(d["low"]) ** 0.5, max_iter=1000)
    start = time.process_time()
    model.fit(X, y)
    print(time.process_time() - start, flush=True)
"""


def in_turns(ours: list[Callable[[], object]], theirs: Callable[[], float]) -> list[float]:
    """Median seconds of each of ours, and of theirs last; the first turn of each is not counted."""
    turns = [[*(seconds(one) for one in ours), theirs()] for _ in range(TURNS + 1)][1:]
    return [statistics.median(column) for column in zip(*turns, strict=True)]


def show(table: ResultTable, name: str, peer: str, one: float, two: float) -> None:
    table.add(name, f"{one:.4f}", peer, f"{two:.4f}", f"{one / two:.2f}")


def ridge(table: ResultTable) -> None:
    task = TASKS["california"]()
    X, plain = task.encoded, Ridge()
    model = learn.PrivateRidge(budget=BUDGET, bounds=task.bounds, bounds_y=task.ends)
    one, two = in_turns([lambda: model.fit(X, task.y)], lambda: seconds(lambda: plain.fit(X, task.y)))
    show(table, "ridge, California", "scikit-learn", one, two)


def million() -> tuple[Task, np.ndarray]:
    """A million rows with labels, and counts for them."""
    rng, w = np.random.default_rng(0), np.linspace(-1, 1, 10)
    X = rng.uniform(0, 1, (10**6, 10))
    labels = (rng.random(len(X)) < 1 / (1 + np.exp(-(X - 0.5) @ w * 3))).astype(int)
    counts = rng.poisson(np.exp(0.5 + (X - 0.5) @ w)).astype(float)
    return Task(pd.DataFrame(X), labels, (np.zeros(10), np.ones(10))), counts


def poisson(table: ResultTable, task: Task, counts: np.ndarray) -> None:
    X, plain = task.encoded, PoissonRegressor()
    model = learn.PrivatePoissonRegressor(budget=BUDGET, bounds=task.bounds, bounds_y=(0, 30))
    one, two = in_turns([lambda: model.fit(X, counts)], lambda: seconds(lambda: plain.fit(X, counts)))
    show(table, "Poisson, million", "scikit-learn", one, two)


def logistic(table: ResultTable, title: str, task: Task) -> None:
    python = os.environ.get("INID_BENCH_PYTHON")
    if not python:
        print(f"{title}: skipped, INID_BENCH_PYTHON names no interpreter that has diffprivlib.")
        return
    low, high = task.ranges
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "data.npz"
        np.savez(place, X=task.encoded, y=task.y, low=low, high=high)
        with subprocess.Popen(
            [python, "-c", PEER, str(place)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as peer:
            _beside(table, title, task, peer)


def _beside(table: ResultTable, title: str, task: Task, peer: "subprocess.Popen[str]") -> None:
    asked, answers = peer.stdin, peer.stdout
    if asked is None or answers is None:
        raise RuntimeError("the peer has no pipes")

    def theirs() -> float:
        asked.write("fit\n")
        asked.flush()
        return float(answers.readline())

    X, low_high = task.encoded, task.ranges
    numbers = learn.PrivateLogisticRegression(budget=BUDGET, bounds=low_high, classes=(0, 1))
    ours: list[Callable[[], object]] = [lambda: numbers.fit(X, task.y)]
    if task.categories is not None:
        strings = private(task, "PrivateLogisticRegression", BUDGET)
        ours.append(lambda: strings.fit(task.X, task.y))
    *found, two = in_turns(ours, theirs)
    asked.close()
    for name, one in zip((f"logistic, {title}", f"logistic, {title} from strings"), found, strict=False):
        show(table, name, "diffprivlib", one, two)


def main() -> None:
    warnings.simplefilter("ignore")
    with ResultTable(
        "learn-speed-peers",
        "Whole fits with defaults at epsilon = 1, in turns",
        ("", "seconds", "peer", "seconds", "ratio"),
        peers="scikit-learn, not private; diffprivlib",
        command="python -m bench.learn_speed",
    ) as table:
        ridge(table)
        titles = sys.argv[1:] or ["electricity", "adult", "million"]
        for title in [one for one in titles if one in TASKS]:
            logistic(table, title, TASKS[title]())
        if "million" in titles:
            task, counts = million()
            logistic(table, "million", task)
            poisson(table, task, counts)


if __name__ == "__main__":
    main()
