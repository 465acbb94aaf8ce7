"""What a descent releases before its first step: sums and squares of the columns, a summary of the target.

**Smaller thresholds.** A plan made beforehand has noise for gradients as large as the public bounds allow, and most
columns lie in a small part of their bounds. So once the mean square of a column is released, its threshold is halved as
long as it stays above k standard deviations (`deviations`), and the noise of its sums is halved with it. Why that is
private: in units of the threshold C_i one record moves the sum by 1 (by 2 when it is replaced), and the noise has the
scale s_i / C_i. Both are the same for C_i / 2 and s_i / 2, so each step keeps the privacy that the plan counts for it,
and sums of mu^2 (of epsilon) hold for steps that depend on earlier ones (E7). A half is a power of two: thresholds stay
whole multiples of their steps.

**Target.** Targets t lie in [0, 1], in units of a public bound that is often far above most of them. The numbers of
rows in cells come first: t from 1/2 to 1, from 1/4 to 1/2, and so on. A row is in one cell, so all numbers together
have the norm 1; a replaced row leaves one and enters another, which is sqrt(2), or 2 in l1 norm. A row of weight u in
[0, 1] counts u times. Then the sum of z = 2 min(t / L, 1) - 1, for a limit L that the cells suggest. Whatever L is, z
lies in [-1, 1], so one row moves the sum by at most 1 (2 when it is replaced): each release keeps its share of the
promise (E7).

**Calibration.** Clipped slopes and few passes leave predictions that are too small or too large on the whole. The mean
of exp(x.w + b) needs the law of x, so it does not follow from what was released. After the descent the sum of z is
released for the predictions in place of the targets, clipped to L as they are, and predictions are multiplied by the
quotient of the two means. A prediction depends on its own row and on released numbers, so the same bounds hold.
"""

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr

from inid.accounting import Ledger
from inid.arguments import Floats, choice
from inid.fixed_point import fixed_columns
from inid.learn.base import read_relation
from inid.learn.bounds import Bounds, deviations, read_bounds, read_budget
from inid.learn.budget_splitting import intercept_share
from inid.learn.descent.clipped_gradients import FEATURE_BITS
from inid.learn.descent.objective import PreliminaryRelease
from inid.learn.inputs import Matrix, read_rows
from inid.learn.public_units import (
    MOST_ROWS,
    Units,
    cover_answers,
    exact_columns,
    exact_entries,
    posterior_column_means,
)
from inid.noise import current_source
from inid.planning import plan
from inid.promises import Budget
from inid.releasing import release
from inid.sets import Allocation, Neighbours, Sensitivity

_LEAST_DEVIATIONS, _DEVIATIONS = 0.7, 0.2  # of standard deviations: k = 0.2 s^(1/4), but not below 0.7
_SMALLEST = 2.0**-10  # of a threshold: a column may be constant
CELLS = 11
_PART, _MOST, _MOST_CELLS = 0.03, 0.3, 0.15  # of mu^2, or of epsilon: for the mean, and at most for the cells
_CALIBRATION = 0.03  # likewise, for the mean of the predictions
_MIDDLE = 0.75  # of a cell's upper end: where its rows are assumed to be
_NOISE = 2.0  # times the noise in the mean: what cutting is weighed against, since gradients have more of it
_KEPT = 0.5  # of the sum of the targets that cells show, at least: less would lose the mean itself
_LEAST_MEAN = 1e-3  # of the limit: the mean that is assumed at least
_FAR = 30.0  # standard deviations: further from 0 a normal law is as good as cut, or lost


@dataclass(frozen=True)
class StandardisedColumns:
    """What the preliminary release of columns has led to."""

    smoothness: Floats
    units: Units
    contraction: Floats  # of an error, by one step
    smaller: Floats
    variances: Floats
    means: tuple[Floats, Floats]  # in units of the bounds, as measured, and their noise: NaN where one-hot


def standardise_columns(
    column_means: Floats,
    noise: Floats,
    ends: tuple[Floats, Floats],
    units: Units,
    hot: NDArray[np.bool_],
    *,
    intercept: bool,
    curvature: float,
    spread: Floats,
    damping: float,
    steep: bool,
    shrink: bool,
) -> StandardisedColumns:
    """Centre the columns at their means, take M_i from the variances, and thresholds from both.

    M_i is not below what keeps the noise of a pass small: a step moves z_i w_i by noise / (N M_i) at most, and a pass
    moves their sum by about the root of the number of columns times that.
    """
    mean, square = posterior_column_means(column_means, noise)
    spreads = np.where(hot | (not intercept), math.nan, noise[: len(square)])  # without a centre -1 and 1 are no bounds
    means = column_means[: len(square)], spreads
    if intercept:
        mean = np.where(hot, 0.0, mean)
        square = np.maximum(square - mean**2, 0.0)
        centre = units.centre + units.unit * mean
        low, high = ((end - centre) / units.unit for end in ends)
        units = Units(centre, units.unit, fixed_columns(low, high, FEATURE_BITS, centre=False))
    constant = [1.0] * intercept
    smaller = np.ones(len(spread))
    if shrink:
        k = deviations(1 / float(np.median(spread)), least=_LEAST_DEVIATIONS, factor=_DEVIATIONS)
        size = np.clip(k * np.sqrt(square + noise[len(square) :]), _SMALLEST, 1.0)
        smaller = np.append(np.where(hot, 1.0, np.exp2(np.ceil(np.log2(size)))), constant)
    M = curvature * np.append(square, constant)
    floor = np.maximum(M, damping * spread * (1.0 if steep else smaller))
    return StandardisedColumns(floor, units, 1 - M / floor, smaller, square, means)


def target_shares(budget: Budget, rows: int | None, *, laplace: bool, intercept: bool) -> tuple[float, ...]:
    """The shares of the plan that cells, mean and calibration take: more where rows and budget are few (in public)."""
    part = intercept_share(budget, rows, 1, laplace=laplace, least=_PART, most=_MOST)
    return (min(part, _MOST_CELLS), part, *[_CALIBRATION] * intercept)


def release_target_summary(
    target: Floats, weights: Floats | None, draw: Callable[[Floats, int], Floats], noise: Floats, rows: float
) -> PreliminaryRelease:
    """Release the cells, then the mean."""
    shares = np.where(np.isnan(target), 0.0, np.clip(target, 0.0, 1.0))
    cell = np.clip(-np.frexp(np.maximum(shares, 0.5**CELLS))[1], 0, CELLS - 1)
    if weights is None:
        counts = np.bincount(cell, minlength=CELLS).astype(np.float64)
    else:
        counts = np.array([exact_entries(np.where(cell == at, weights, 0.0))[0] for at in range(CELLS)])
    spread = float(noise[CELLS]) / rows / 2
    limit = truncation_limit(draw(counts, 0) / rows, float(noise[0]) / rows, spread)
    total = draw(signed_sum(shares / limit, weights), CELLS)
    return PreliminaryRelease(rows, posterior_mean((1 + float(total[0]) / rows) / 2, spread), limit, spread)


def signed_sum(entries: Floats, weights: Floats | None) -> Floats:
    """The exact sum of u (2 min(t, 1) - 1) for entries t >= 0 of weights u in [0, 1]; one entry moves it by 1 at most.

    A replaced entry moves it by 2 at most. NaN counts as the middle.
    """
    ends = np.ones(1)
    z = (2 * np.minimum(entries, 1.0) - 1) * (1.0 if weights is None else weights)
    return exact_columns(z[:, None], Units.of(-ends, ends, None, centre=True, scale=True), count=False)[:1]


def calibration(preliminary: PreliminaryRelease, total: float, noise: float, doubt: float) -> float:
    """What predictions are multiplied by: the released mean of the target over that of the predictions.

    Both means have noise, of standard deviations s and t. Before the quotient is known, its logarithm is taken for
    normal of variance `doubt`, so it is multiplied by doubt / (doubt + (s^2 + t^2) / mean^2): it changes little where
    the noise says more than a descent that is usually right on the whole.
    """
    mean = posterior_mean((1 + total / preliminary.rows) / 2, noise)
    trust = doubt / (doubt + (noise**2 + preliminary.spread**2) / mean**2)
    return float((preliminary.mean / mean) ** trust)


def truncation_limit(shares: Floats, spread: float, noise: float) -> float:
    """L, a power of two: where what truncation loses and the noise of the mean have the least sum of squares."""
    ends = np.exp2(-np.arange(len(shares)))
    sums = np.maximum(shares - spread, 0.0) * _MIDDLE * ends
    lost = np.array([(sums * np.maximum(1 - end / (_MIDDLE * ends), 0.0)).sum() for end in ends])
    ends, lost = (one[lost <= _KEPT * sums.sum()] for one in (ends, lost))
    return float(ends[np.argmin(lost**2 + (_NOISE * noise * ends) ** 2)])


def posterior_mean(measured: float, spread: float) -> float:
    """The mean, in [0, 1], that a noisy one suggests if every mean above 0 is as likely beforehand.

    That is the mean of the normal law about `found`, cut at 0. It is never far below its noise, where the logarithm, at
    which models start, would be lost.
    """
    z = measured / spread if spread > 0 else math.inf
    if -_FAR < z < _FAR:
        measured = (z + math.exp(-z * z / 2 - float(log_ndtr(z))) / math.sqrt(2 * math.pi)) * spread
    return min(max(measured, _LEAST_MEAN), 1.0)


class NotPrivateWarning(UserWarning):
    """Plain numbers, without a mark, were drawn by a test's source: they promise nothing."""


def estimate_smoothness(
    X: Any,
    *,
    budget: Budget,
    bounds: Bounds,
    weights: Literal["relative"] | None = "relative",
    allocation: Literal["optimal", "spr", "iid"] = "optimal",
    neighbours: Neighbours | None = None,
    ledger: Ledger | None = None,
) -> Floats:
    """A private estimate of the mean square of each column, by Laplace noise.

    Pass it as `smoothness` of a least-squares model (a quarter of it for a logistic one), or as `weights` of
    `PrivateMoments`.

    Args:
        X: One row per person.
        budget: What the estimate may spend.
        bounds: (lower, upper) of the columns, public; values outside are clipped, NaN counts as the middle.
        weights: "relative" to the public bounds, or None for errors in the columns' own units.
        allocation: "optimal", "spr" (the paper's equal split) or "iid".
        neighbours: "zero_out", "add_remove" or "replace"; None takes the ledger's relation, else "zero_out".
        ledger: Where the cost is charged, before the data are looked at.

    Returns:
        One positive number per column, between the noise's scale and the square of the bound. An array says nothing of
        how it was made, so one made by a test's source says so by a `NotPrivateWarning`: what is made from it is not
        private either, whatever `private_` says there.

    >>> import inid
    >>> X = np.linspace(0, 1, 20_000).reshape(10_000, 2)
    >>> estimate = estimate_smoothness(X, budget=inid.PureDP(1.0), bounds=(0, 1))
    >>> bool(abs(estimate - 1 / 3).max() < 0.05)
    True
    """
    relation = read_relation(neighbours, ledger)
    data = read_rows(X, empty=relation == "add_remove")
    rows = None if relation == "add_remove" else data.shape[0]
    lower, upper = read_bounds("bounds", bounds, data.shape[1], getattr(X, "columns", None))
    if weights is not None:
        choice("weights", weights, ("relative",))
    units = Units.of(lower, upper, rows, centre=False, scale=False)
    squares = mean_squares(data, units, read_budget(budget), weights is not None, allocation, relation, ledger)
    if not current_source().private:
        warnings.warn(
            "this estimate of smoothness was made by a test's source and is not private, and nothing in the array says "
            "so: use it in tests only, and make another one outside unsafe_seed and unsafe_no_noise for anything else.",
            NotPrivateWarning,
            stacklevel=2,
        )
    return squares


def mean_squares(
    data: Matrix,
    units: Units,
    budget: Budget,
    relative: bool,
    allocation: Allocation,
    neighbours: Neighbours,
    ledger: Ledger | None,
) -> Floats:
    """The mean squares of columns that have been read by type and shape: the constants M_i, but for the curvature.

    One row moves the sum of squares of column i by at most B_i^2 (zero_out, add_remove) or by the width of the range of
    x_i^2 (replace): a box. Under add_remove the number of rows is one more coordinate, which moves by 1. The paper
    splits the budget equally. The error that matters is relative, since the step size is 1/M_i, and relative to the
    public bounds the planned split *is* the equal one.
    """
    columns, secret = units.grid, neighbours == "add_remove"
    squares = columns.size**2
    most = squares
    if neighbours == "replace":
        straddles = (columns.low <= 0) & (columns.high >= 0)
        most = most - np.where(straddles, 0.0, np.minimum(columns.low**2, columns.high**2))
    count = [1.0] * secret
    box = Sensitivity.box(np.append(most, count), neighbours=neighbours)
    inverse = np.append(1 / squares, count) if relative else None
    noise = plan(box, budget, mechanism="laplace", allocation=allocation, weights=inverse)
    noise = cover_answers(noise, (MOST_ROWS if secret else data.shape[0]) * np.append(squares, count))

    def answer() -> Floats:
        return exact_columns(data.floats(), units, count=secret)[squares.size :]

    noisy = release(answer, noise, ledger, label="smoothness constants")
    rows = max(float(noisy.values[-1]), 1.0) if secret else float(data.shape[0])
    measured, scales = noisy.values[: squares.size] / rows, noise.scales[: squares.size] / rows
    # An estimate below its own noise is noise; one above the square of the bound cannot be.
    return np.asarray(np.clip(measured, np.minimum(scales, squares), squares))
