"""Estimators: utility (means and standard errors over repeated fits) and speed, beside plain NumPy and diffprivlib.

Writes results/bench/learn-*.md: all, or those named, `python -m bench.learn lasso logistic pca peers speed`. The
datasets are looked for in INID_DATA, or in shared/data beside the project. diffprivlib lives in an environment of its
own: set INID_BENCH_PYTHON to an interpreter that can import it.

Thresholds, step sizes and smoothness constants of coordinate descent are given as public and were chosen beforehand, as
in the paper. Bounds at the 99th percentile are given as public as well.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import importlib.util
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.special import expit
from sklearn.linear_model import Lasso, LinearRegression, LogisticRegression

import inid
from bench._result_table import ResultTable
from inid import learn

DATA = Path(os.environ.get("INID_DATA") or Path(__file__).resolve().parents[2] / "shared" / "data")
TARGET = (0.0, 5.00001)
DAYS = (0.0, [1.0, 7.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0])

PEER = """
import sys, time, warnings
import numpy as np
from diffprivlib import models
warnings.simplefilter("ignore")
d = np.load(sys.argv[1])
lower, upper = d["lower"], d["upper"]
def report(name, fits, runs):
    start = time.perf_counter()
    scores = [fits() for _ in range(runs)]
    seconds = (time.perf_counter() - start) / runs
    print(name, np.median(scores), np.mean(scores), np.std(scores, ddof=1) / runs ** 0.5, seconds, sep="\\t")
X, y = np.clip(d["cal"], lower, upper), np.clip(d["price"], 0, 5.00001)
def linear():
    m = models.LinearRegression(epsilon=1.0, bounds_X=(lower, upper), bounds_y=(0, 5.00001)).fit(X, y)
    return np.mean((X @ m.coef_.ravel() + m.intercept_ - y) ** 2) / d["mse"] - 1
E, t = d["elec"], d["up"]
def logistic():
    m = models.LogisticRegression(epsilon=1.0, data_norm=np.sqrt(56.0), C=1.0, fit_intercept=False, max_iter=1000)
    w = m.fit(E, t).coef_.ravel()
    loss = np.mean(np.logaddexp(0, -t * (E @ w))) + 0.5 / len(E) * (w @ w)
    return loss / d["loss"] - 1
P, U = d["rows"], d["basis"]
def pca():
    m = models.PCA(10, epsilon=1.0, data_norm=1.0, centered=True).fit(P)
    V = m.components_.T
    return np.linalg.norm(U - V @ (V.T @ U)) / np.linalg.norm(U)
report("linear", linear, 20)
report("logistic", logistic, 20)
report("pca", pca, 20)
"""


def california() -> tuple[np.ndarray, np.ndarray]:
    table = pd.read_csv(DATA / "california_housing.csv.gz").to_numpy()
    return table[:, :8], table[:, 8]


def electricity() -> tuple[np.ndarray, np.ndarray]:
    table = pd.read_csv(DATA / "electricity.csv.gz")
    return table.drop(columns="class").to_numpy(float), np.where(table["class"] == "UP", 1.0, -1.0)


def one_sided(X: np.ndarray, percentile: float) -> tuple[np.ndarray, np.ndarray]:
    """From 0 to a percentile of the size, on the side where the column lies."""
    ends = np.sign(np.median(X, axis=0)) * np.percentile(np.abs(X), percentile, axis=0)
    return np.minimum(ends, 0.0), np.maximum(ends, 0.0)


def lasso_objective(X: np.ndarray, y: np.ndarray, w: np.ndarray) -> float:
    return float(np.mean((X @ w - y) ** 2) / 2 + np.abs(w).sum())


def logistic_objective(X: np.ndarray, y: np.ndarray, w: np.ndarray) -> float:
    return float(np.mean(np.logaddexp(0, -y * (X @ w))) + (w @ w) / (2 * len(X)))


def promise(rows: int, epsilon: float = 1.0) -> inid.ApproxDP:
    return inid.ApproxDP(epsilon=epsilon, delta=float(f"{rows**-2.0:.3g}"))


def scored(table: ResultTable, name: str, score: Callable[[], float], runs: int, unit: float = 100.0) -> float:
    """Add a line: mean and standard error over runs."""
    values = [unit * score() for _ in range(runs)]
    mean, error = statistics.fmean(values), statistics.stdev(values) / runs**0.5
    table.add(name, f"{mean:.4g}", f"{error:.2g}", runs)
    return mean


def utility(name: str, title: str, column: str, peers: str) -> ResultTable:
    """A table of means and standard errors over repeated fits."""
    columns = ("", column, "standard error", "runs")
    return ResultTable(f"learn-{name}", title, columns, peers=peers, command=f"python -m bench.learn {name}")


def lasso() -> None:
    X, y = california()
    best = Lasso(alpha=1.0, fit_intercept=False, tol=1e-12, max_iter=10**6).fit(X, y).coef_
    least = lasso_objective(X, y, best)
    bounds, squares = one_sided(X, 99), (X**2).mean(axis=0)
    common = {"alpha": 1.0, "budget": promise(len(X)), "bounds_y": TARGET, "fit_intercept": False}

    def fit(**more: object) -> float:
        return lasso_objective(X, y, learn.PrivateLasso(**(common | more)).fit(X, y).coef_) / least - 1

    title = "LASSO on California, raw, epsilon = 1, delta = 1/N^2"
    with utility("lasso", title, "relative error, %", "DP-CD (an equal split)") as table:
        for relation in ("zero_out", "replace"):
            for allocation in ("optimal", "spr", "iid"):
                runs = 200 if allocation != "iid" else 20
                named = {"bounds": bounds, "neighbours": relation, "allocation": allocation}
                scored(table, f"moments, {allocation}, {relation}", lambda named=named: fit(**named), runs)
            paid = np.append(squares, (y**2).mean())
            named = {"bounds": bounds, "neighbours": relation, "weights": paid}
            scored(table, f"moments, optimal, mean squares known, {relation}", lambda named=named: fit(**named), 200)
            descent = {
                "solver": "coordinate_descent",
                "bounds": (X.min(axis=0), X.max(axis=0)),
                "smoothness": squares,
                "clip": 10_000.0,
                "passes": 50,
                "units": "data",
                "neighbours": relation,
            }
            variants = {
                "SPR": {"allocation": "spr"},
                "curvature": {},
                "as printed (weights=None)": {"weights": None},
                "curvature, 10 % of epsilon for M": {"smoothness": 0.1, "bounds": bounds},
            }
            for name, more in variants.items():
                named = descent | more
                scored(table, f"coordinate descent, {name}, {relation}", lambda named=named: fit(**named), 60)


def logistic() -> None:
    X, y = electricity()
    best = LogisticRegression(C=1.0, fit_intercept=False, tol=1e-12, max_iter=10_000).fit(X, y).coef_[0]
    least = logistic_objective(X, y, best)
    common = {"budget": promise(len(X)), "bounds": DAYS, "classes": (-1.0, 1.0), "clip": 7.0, "passes": 50}
    common |= {"smoothness": (X**2).mean(axis=0) / 4, "units": "data", "fit_intercept": False}

    def fit(**more: object) -> float:
        model = learn.PrivateLogisticRegression(**(common | more)).fit(X, y)
        return logistic_objective(X, y, model.coef_[0]) / least - 1

    title = "Logistic regression on Electricity, raw, epsilon = 1, delta = 1/N^2"
    with utility("logistic", title, "relative error, %", "DP-CD (an equal split)") as table:
        for relation in ("zero_out", "replace"):
            variants = {
                "SPR": {"allocation": "spr"},
                "curvature": {},
                "as printed (weights=None)": {"weights": None},
                "curvature, 10 % of epsilon for M": {"smoothness": 0.1},
            }
            for name, more in variants.items():
                named = more | {"neighbours": relation}
                scored(table, f"coordinate descent, {name}, {relation}", lambda named=named: fit(**named), 20)


def spiked(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """The fully random model: unit rows in a random subspace of 10 of 100 dimensions."""
    basis = np.linalg.qr(rng.normal(size=(100, 10)))[0]
    rows = rng.normal(size=(1000, 10)) @ basis.T
    return rows / np.linalg.norm(rows, axis=1, keepdims=True), basis


def pca() -> None:
    rng = np.random.default_rng(0)
    title = "PCA, M = 100, N = 1000, rank 10, delta = 1e-6: subspace recovery error"
    with utility("pca", title, "SRE", "i.i.d. noise; the paper's element-wise clipping") as table:
        for epsilon in (1.0, 2.0, 5.0):
            means = {}
            variants = {
                "i.n.i.d. (E8)": {},
                "i.i.d.": {"allocation": "iid"},
                "the paper's element-wise clipping": {"clipping": "elementwise"},
                "Laplace, pure": {"mechanism": "laplace", "budget": inid.PureDP(epsilon)},
            }
            for name, more in variants.items():

                def score(more: dict[str, object] = more, epsilon: float = epsilon) -> float:
                    X, basis = spiked(rng)
                    common = {
                        "n_components": 10,
                        "row_norm": 1.0,
                        "center": False,
                        "budget": inid.ApproxDP(epsilon, 1e-6),
                    }
                    model = learn.PrivatePCA(**(common | more))
                    return learn.subspace_recovery_error(model.fit(X).components_.T, basis)

                means[name] = scored(table, f"{name}, epsilon = {epsilon:g}", score, 50, 1.0)
            ratio = means["i.n.i.d. (E8)"] / means["i.i.d."]
            table.add(f"ratio i.n.i.d. / i.i.d., epsilon = {epsilon:g}", f"{ratio:.3f}", "", "")


def peers() -> None:
    """The same data and epsilon as diffprivlib's models, which promise pure DP."""
    X, y = california()
    lower, upper = np.percentile(X, [1, 99], axis=0)
    C = np.clip(X, lower, upper)
    exact = LinearRegression().fit(C, y)
    mse = float(np.mean((exact.predict(C) - y) ** 2))
    E, up = electricity()
    best = LogisticRegression(C=1.0, fit_intercept=False, tol=1e-12, max_iter=10_000).fit(E, up).coef_[0]
    loss = logistic_objective(E, up, best)
    rows, basis = spiked(np.random.default_rng(1))
    theirs = _their_rows(
        {
            "cal": X, "price": y, "lower": lower, "upper": upper, "mse": mse,
            "elec": E, "up": up, "loss": loss, "rows": rows, "basis": basis,
        }
    )  # fmt: skip

    def linear(budget: inid.Budget) -> float:
        model = learn.PrivateLinearRegression(budget, bounds=(lower, upper), bounds_y=TARGET).fit(X, y)
        return float(np.mean((model.predict(C) - y) ** 2)) / mse - 1

    def logit(budget: inid.Budget) -> float:
        model = learn.PrivateLogisticRegression(budget=budget, bounds=DAYS, clip=7.0, classes=(-1, 1), units="data")
        model.set_params(
            fit_intercept=False,
            smoothness=(E**2).mean(axis=0) / 4,
            passes=50 if isinstance(budget, inid.ApproxDP) else 20,
        )
        return logistic_objective(E, up, model.fit(E, up).coef_[0]) / loss - 1

    def components(budget: inid.Budget) -> float:
        model = learn.PrivatePCA(10, budget=budget, row_norm=1.0, center=False).fit(rows)
        return learn.subspace_recovery_error(model.components_.T, basis)

    columns = ("", "median", "mean", "standard error", "seconds per fit")
    title, command = "Estimators beside diffprivlib, epsilon = 1", "python -m bench.learn peers"
    with ResultTable("learn-peers", title, columns, peers="diffprivlib (pure DP)", command=command) as table:
        for name, what, fit, size in (
            ("linear", "linear regression, California, excess mean squared error", linear, len(X)),
            ("logistic", "logistic regression, Electricity, excess objective", logit, len(E)),
            ("pca", "PCA, SRE", components, len(rows)),
        ):
            for label, budget in (("delta = 1/N^2", promise(size)), ("pure", inid.PureDP(1.0))):
                start = time.perf_counter()
                values = [fit(budget) for _ in range(20)]
                seconds = (time.perf_counter() - start) / 20
                row = statistics.median(values), statistics.fmean(values), statistics.stdev(values) / 20**0.5, seconds
                table.add(f"{what}: inid, {label}", *(f"{number:.3g}" for number in row))
            if name in theirs:
                row = theirs[name]
                table.add(f"{what}: diffprivlib, pure", *(f"{number:.3g}" for number in row))


def _their_rows(arrays: dict[str, object]) -> dict[str, tuple[float, ...]]:
    python = os.environ.get("INID_BENCH_PYTHON")
    if not python:
        print("diffprivlib: skipped, INID_BENCH_PYTHON names no interpreter that has it.")
        return {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "data.npz"
        np.savez(path, **arrays)
        run = subprocess.run([python, "-c", PEER, str(path)], capture_output=True, text=True, check=False)
    if run.returncode:
        print(f"diffprivlib: skipped, {python} failed: {(run.stderr.strip().splitlines() or ['no message'])[-1]}")
    lines = [line.split("\t") for line in run.stdout.splitlines()]
    return {name: tuple(map(float, numbers)) for name, *numbers in lines}


def seconds(call: Callable[[], object]) -> float:
    """Time of this process, which on a shared machine is not counted while others run."""
    start = time.process_time()
    call()
    return time.process_time() - start


def median_seconds(call: Callable[[], object], repeats: int = 5) -> float:
    call()
    return statistics.median(seconds(call) for _ in range(repeats))


def plain_descent(X: np.ndarray, y: np.ndarray, smoothness: np.ndarray, passes: int, *, logit: bool) -> np.ndarray:
    """The same passes without clipping, noise or bounds."""
    X = np.asfortranarray(X)
    w, state = np.zeros(X.shape[1]), np.zeros(len(X)) if logit else -y
    for _ in range(passes):
        for i in range(len(w)):
            column = X[:, i]
            gradient = column @ (expit(state) - y if logit else state) / len(X)
            moved = w[i] - gradient / smoothness[i]
            state += column * (moved - w[i])
            w[i] = moved
    return w


def speed() -> None:
    X = np.random.default_rng(0).uniform(-1.2, 1.2, size=(10**6, 50))

    def plain() -> np.ndarray:
        clipped = np.clip(X, -1, 1)
        return clipped.T @ clipped

    ours = median_seconds(lambda: learn.PrivateMoments(inid.ApproxDP(1.0, 1e-6), bounds=(-1, 1)).fit(X), 3)
    theirs = median_seconds(plain, 3)
    columns = ("", "private, s", "plain NumPy, s", "ratio")
    title, command = "Private fits beside the same work in plain NumPy", "python -m bench.learn speed"
    with ResultTable("learn-speed-numpy", title, columns, peers="plain NumPy, not private", command=command) as table:
        table.add("moments, N = 10^6, M = 50", f"{ours:.3f}", f"{theirs:.3f}", f"{ours / theirs:.2f}")
        class_and_cluster_speed(table)
        paths = {"NumPy only": "0"} | ({"numba": "1"} if importlib.util.find_spec("numba") else {})
        for path, switch in paths.items():
            os.environ["INID_COMPILED"] = switch
            if path == "numba":
                importlib.import_module("numba")  # a fit uses the compiled loop where numba has been loaded
            for rows in (20_000, 200_000):
                for logit in (False, True):
                    descent_speed(table, rows, path, logit=logit)


def class_and_cluster_speed(table: ResultTable) -> None:
    """Naive Bayes and k-means beside the same sums of clipped columns in plain NumPy, in turns."""
    rng = np.random.default_rng(0)
    X, labels, budget = rng.uniform(-1.2, 1.2, size=(200_000, 10)), rng.integers(0, 3, 200_000), promise(200_000)

    def by_class() -> list[np.ndarray]:
        clipped = np.clip(X, -1, 1)
        parts = [clipped[labels == one] for one in range(3)]
        return [np.concatenate([part.sum(axis=0), (part**2).sum(axis=0), [len(part)]]) for part in parts]

    def lloyd() -> np.ndarray:
        clipped, centres = np.clip(X, -1, 1), np.linspace(-1, 1, 8)[:, None] * np.ones(10)
        for _ in range(8):
            near = np.stack([((clipped - one) ** 2).sum(axis=1) for one in centres]).argmin(axis=0)
            centres = np.stack([clipped[near == k].mean(axis=0) if (near == k).any() else centres[k] for k in range(8)])
        return centres

    bayes = learn.PrivateGaussianNB(budget, bounds=(-1, 1), classes=range(3))
    for name, ours, theirs in (
        ("naive Bayes, 3 classes", lambda: bayes.fit(X, labels), by_class),
        ("k-means, 8 clusters, 8 rounds", learn.PrivateKMeans(8, budget=budget, bounds=(-1, 1)).fit, lloyd),
    ):
        fit = ours if name[0] == "n" else (lambda f=ours: f(X))
        pairs = [(seconds(fit), seconds(theirs)) for _ in range(5)]
        one, two = (statistics.median(column) for column in zip(*pairs, strict=True))
        table.add(f"{name}, N = 200,000, M = 10", f"{one:.3f}", f"{two:.3f}", f"{one / two:.2f}")


def descent_speed(table: ResultTable, rows: int, path: str, *, logit: bool) -> None:
    """One row: a private fit beside the same passes in plain NumPy, in turns, so that a busy machine slows both."""
    X = np.random.default_rng(0).uniform(-1, 1, size=(rows, 8))
    y, smoothness = X.sum(axis=1), np.full(8, 1 / 3)
    common = {"budget": promise(rows), "bounds": (-1, 1), "passes": 50, "units": "data", "fit_intercept": False}
    if logit:
        y, smoothness = (y > 0).astype(float), smoothness / 4
        model = learn.PrivateLogisticRegression(smoothness=smoothness, classes=(0, 1), **common)
    else:
        common |= {"bounds_y": (-8, 8), "smoothness": smoothness}
        model = learn.PrivateLasso(0.0, solver="coordinate_descent", **common)
    ours, theirs = [], []
    for _ in range(8 if rows > 50_000 else 30):
        ours.append(seconds(lambda: model.fit(X, y)))
        theirs.append(seconds(lambda: plain_descent(X, y, smoothness, 50, logit=logit)))
    one, two = statistics.median(ours[1:]), statistics.median(theirs[1:])
    name = "logistic" if logit else "least squares"
    table.add(f"{name}, 50 passes, N = {rows}, M = 8, {path}", f"{one:.4f}", f"{two:.4f}", f"{one / two:.2f}")


PARTS = {"lasso": lasso, "logistic": logistic, "pca": pca, "peers": peers, "speed": speed}


def main() -> None:
    for name in [word for word in sys.argv[1:] if word in PARTS] or PARTS:
        PARTS[name]()


if __name__ == "__main__":
    main()
