"""Coordinate descent on the two problems of Section VI-A: what is tuned, measured and compared (Figures 5, 6; Table V).

The problems are those of the authors of DP-CD (Mangold et al. 2022): epsilon = 1, delta = 1/N^2, raw columns, start at
0, no intercept. California: (1/2N) |Xw - y|^2 + |w|_1. Electricity: mean logistic loss + |w|^2 / 2N.

Three allocations of the same budget over the steps: "DP-CD" (an equal split, the original), "improved DP-CD" (the
paper's, which weighs errors of all parameters alike), and "curvature" (ours: an error t in parameter i costs
M_i t^2 / 2).
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit
from sklearn.linear_model import Lasso

import inid
from experiments.study import Study
from inid import learn
from inid.noise import add_noise

__all__ = [
    "CURVATURE", "METHODS", "PASSES", "READINGS", "Problem", "Tuned", "bounded", "fresh_errors", "passes_of",
    "planned_loss", "problem", "tuned",
]  # fmt: skip

PASSES = (2, 5, 10, 20, 50)
METHODS: dict[str, dict[str, Any]] = {"DP-CD": {"allocation": "spr"}, "improved DP-CD": {"weights": None}}
READINGS = METHODS | {"improved DP-CD, noise on gradients": {"on_gradients": True}}
CURVATURE: dict[str, Any] = {"weights": "curvature"}


@dataclass(frozen=True)
class Problem:
    """A regression problem, its objective and its optimum.

    Attributes:
        kind: "lasso" or "logistic".
        bounds: The largest size of each column, given as public.
        smoothness: M_i.
        least: The smallest objective.
        start: The relative error of w = 0.
    """

    kind: str
    X: np.ndarray
    y: np.ndarray
    bounds: np.ndarray
    smoothness: np.ndarray
    least: float
    start: float

    @property
    def promise(self) -> inid.ApproxDP:
        """The paper's: epsilon = 1, delta = 1/N^2."""
        return inid.ApproxDP(epsilon=1.0, delta=float(f"{len(self.X) ** -2.0:.3g}"))

    def error(self, w: np.ndarray) -> float:
        """(objective - least) / least, in percent."""
        return 100 * (_objective(self.kind, self.X, self.y, w) / self.least - 1)

    def descend(self, budget: inid.Budget | None = None, *, on_gradients: bool = False, **settings: Any) -> float:
        """The error of one private descent, under replacement unless said otherwise.

        `on_gradients` is the second reading of improved DP-CD, which no estimator offers: see `_descend_on_gradients`.
        """
        if on_gradients:
            return self.error(_descend_on_gradients(self, budget or self.promise, **settings))
        common: dict[str, Any] = {
            "budget": budget or self.promise,
            "bounds": (-self.bounds, self.bounds),
            "smoothness": self.smoothness,
            "neighbours": "replace",
            "units": "data",
            "fit_intercept": False,
        }
        if self.kind == "lasso":
            size = float(np.abs(self.y).max())
            common |= {"alpha": 1.0, "bounds_y": (-size, size), "solver": "coordinate_descent"}
            return self.error(learn.PrivateLasso(**(common | settings)).fit(self.X, self.y).coef_)
        common |= {"C": 1.0, "classes": (-1.0, 1.0)}
        return self.error(learn.PrivateLogisticRegression(**(common | settings)).fit(self.X, self.y).coef_[0])

    def moments(self, **settings: Any) -> float:
        """The error of one release of second moments and an exact LASSO on them."""
        common: dict[str, Any] = {"alpha": 1.0, "budget": self.promise, "bounds_y": (0.0, float(self.y.max()))}
        common["fit_intercept"] = False
        return self.error(learn.PrivateLasso(**(common | settings)).fit(self.X, self.y).coef_)


def _descend_on_gradients(task: Problem, budget: inid.Budget, *, passes: int, clip: float, step: float) -> np.ndarray:
    """Improved DP-CD with noise where DP-CD has it: lambda_i = 2 C_i / N on gradient i, all gradients weighed alike.

    All noise is drawn beforehand, which makes no difference to its law; sums are plain floating-point sums.
    """
    M, rows = task.smoothness, len(task.X)
    bounds = clip * np.sqrt(M / M.sum())
    box = inid.Sensitivity.box(2 * bounds, counts=[passes] * len(M), neighbours="replace")
    scales = inid.plan(box, budget, mechanism="gaussian").scales.reshape(len(M), passes).T
    noise = add_noise(np.zeros(scales.size), scales.ravel(), "gaussian").reshape(scales.shape)
    columns, w = np.ascontiguousarray(task.X.T), np.zeros(len(M))
    state = -task.y if task.kind == "lasso" else np.zeros(rows)
    positive = task.y > 0
    for drawn in noise:
        for i, column in enumerate(columns):
            slopes = state if task.kind == "lasso" else expit(state) - positive
            gradient = (np.clip(column * slopes, -bounds[i], bounds[i]).sum() + drawn[i]) / rows
            moved = w[i] - step / M[i] * gradient
            if task.kind == "lasso":
                moved = math.copysign(max(abs(moved) - step / M[i], 0.0), moved)
            else:
                moved /= 1 + step / M[i] / rows
            state = state + column * (moved - w[i])
            w[i] = moved
    return w


def _objective(kind: str, X: np.ndarray, y: np.ndarray, w: np.ndarray) -> float:
    if kind == "lasso":
        return float(np.mean((X @ w - y) ** 2) / 2 + np.abs(w).sum())
    return float(np.mean(np.logaddexp(0, -y * (X @ w))) + w @ w / (2 * len(X)))


def problem(study: Study, name: str) -> Problem:
    """The problem on "california" or "electricity", solved without privacy."""
    data = study.dataset(name)
    X, y, zero = data.X, data.y, np.zeros(data.X.shape[1])
    bounds, squares = np.abs(X).max(axis=0), (X**2).mean(axis=0)
    if name == "california":
        best = Lasso(alpha=1.0, fit_intercept=False, tol=1e-12, max_iter=10**6).fit(X, y).coef_
        least, start = (_objective("lasso", X, y, w) for w in (best, zero))
        return Problem("lasso", X, y, bounds, squares, least, 100 * (start / least - 1))

    def slope(w: np.ndarray) -> np.ndarray:
        return -X.T @ (y * expit(-y * (X @ w))) / len(X) + w / len(X)

    options = {"maxiter": 10_000, "ftol": 1e-15, "gtol": 1e-12}
    found = minimize(lambda w: _objective("logistic", X, y, w), zero, jac=slope, method="L-BFGS-B", options=options)
    start = _objective("logistic", X, y, zero)
    return Problem("logistic", X, y, bounds, squares / 4, float(found.fun), 100 * (start / found.fun - 1))


def grid(study: Study) -> tuple[np.ndarray, np.ndarray]:
    """The thresholds C and step sizes tau that are tried first: half decades."""
    clips = 10.0 ** np.arange(*study.pick((-2.0, 6.1, 0.5), (-1.0, 5.1, 1.0)))
    steps = 10.0 ** np.arange(*study.pick((-2.0, 1.1, 0.5), (-1.0, 0.1, 1.0)))
    return clips, steps


def _finer(clip: float, step: float, *, fast: bool) -> list[tuple[float, float]]:
    """Around the best of the first grid: eighths (fast: halves) of a decade, steps by a factor of 1.8."""
    around = (-0.5, 0.5) if fast else (-0.375, -0.25, -0.125, 0.125, 0.25, 0.375)
    steps = (1.0,) if fast else (10**-0.25, 1.0, 10**0.25)
    return [(clip * 10**a, step * b) for a in (*around, 0.0) for b in steps if (a, b) != (0.0, 1.0)]


@dataclass(frozen=True)
class Tuned:
    """The best setting for one number of passes.

    Attributes:
        lowest: The mean over the trials by which it was chosen, which flatters.
        trials: Those trials.
        fresh: New runs at the same setting, which do not.
    """

    clip: float
    step: float
    lowest: float
    trials: np.ndarray
    fresh: np.ndarray


def tuned(study: Study, task: Problem, method: str) -> dict[int, Tuned]:
    """The lowest mean of five trials over the grid, for each number of passes, and fresh runs at the winner."""
    clips, steps = grid(study)
    passes, trials, fresh = passes_of(study), study.pick(5, 2), study.pick(50, 4)
    rows: dict[tuple[float, float], np.ndarray] = {}

    def attempt(clip: float, step: float) -> None:
        def trial(seed: int) -> list[float]:
            del seed  # the noise is seeded around us
            return [bounded(task.descend(passes=count, clip=clip, step=step, **READINGS[method])) for count in passes]

        rows[clip, step] = study.sample(trials, trial, method=method, clip=clip, step=step, passes=list(passes))

    pairs = [(_six(clip), _six(step)) for clip in clips for step in steps]
    with study.progress(f"{method}, first grid", len(pairs) * trials):
        for pair in pairs:
            attempt(*pair)
    winners = {min(rows, key=lambda pair: rows[pair][:, i].mean()) for i in range(len(passes))}
    more = {(_six(a), _six(b)) for winner in winners for a, b in _finer(*winner, fast=study.fast)} - rows.keys()
    with study.progress(f"{method}, finer grid", len(more) * trials):
        for pair in sorted(more):
            attempt(*pair)
    found = {}
    with study.progress(f"{method}, fresh runs", len(passes) * fresh):
        for i, count in enumerate(passes):
            clip, step = min(rows, key=lambda pair: rows[pair][:, i].mean())
            values = rows[clip, step][:, i]
            again = fresh_errors(study, task, fresh, f"fresh {method}", READINGS[method], clip, step, count)
            found[count] = Tuned(clip, step, float(values.mean()), values, again)
    return found


def fresh_errors(
    study: Study, task: Problem, runs: int, what: str, method: dict[str, Any], clip: float, step: float, passes: int
) -> np.ndarray:
    """Errors of fresh runs at one setting, in percent."""

    def trial(seed: int) -> float:
        del seed
        return bounded(task.descend(passes=passes, clip=clip, step=step, **method))

    return study.sample(runs, trial, what=what, clip=clip, step=step, passes=passes)


def passes_of(study: Study) -> tuple[int, ...]:
    """The numbers of passes that a study compares."""
    return study.pick(PASSES, (2, 10))


def _six(value: float) -> float:
    return float(f"{value:.6g}")


def bounded(error: float) -> float:
    """Descents that diverge count as an error of 1e12 percent."""
    return min(error, 1e12) if np.isfinite(error) else 1e12


def planned_loss(task: Problem) -> dict[str, float]:
    """Curvature-weighted noise, sum of M_i times the variance on parameter i, relative to DP-CD's: by plans alone.

    Two readings of "improved DP-CD": noise on the parameters with lambda_i = 2 tau C_i / (M_i N), as printed, and noise
    on the gradients with lambda_i = 2 C_i / N, as in DP-CD itself.
    """
    M = task.smoothness
    clips = np.sqrt(M / M.sum())

    def loss(sensitivity: np.ndarray, cost: np.ndarray, **settings: Any) -> float:
        plan = inid.plan(inid.Sensitivity.box(sensitivity), task.promise, mechanism="gaussian", **settings)
        return float((cost * plan.scales**2).sum())

    base = loss(clips / M, M, allocation="spr")
    return {
        "noise on parameters (as printed)": loss(clips / M, M) / base,
        "noise on gradients": loss(clips, 1 / M) / base,
        "curvature weights (ours)": loss(clips / M, M, weights=np.sqrt(M)) / base,
    }
