"""The first look at a target of counts or durations: how far up it reaches, then its mean.

Targets t lie in [0, 1], in units of a public bound. The bound is often far above most of them, and noise grows with it.

**Cells.** So the numbers of rows in cells are released first: t from 1/2 to 1, from 1/4 to 1/2, and so on by halves,
and in the last one everything below. A row is in one cell, so all numbers together have the norm 1, however many cells
there are; a replaced row leaves one and enters another, which is sqrt(2), or 2 in l1 norm. A row of weight u in [0, 1]
counts u times, and moves no further.

**Limit.** The numbers say where to cut: at the L = 2^-j where what cutting changes and the noise of the next release,
as means over the rows, have the least sum of squares. Noise goes to 0 as the budget grows, and then nothing is cut.

**Mean.** The sum of z = 2 min(t / L, 1) - 1 is released next. Whatever L is, z lies in [-1, 1], so one row moves the
sum by at most 1 (2 when it is replaced): each step keeps the part of the promise that was planned for it beforehand,
and sums of mu^2 (of epsilon) hold for steps that depend on earlier ones (E7).
"""

import math
from collections.abc import Callable

import numpy as np
from scipy.special import log_ndtr

from inid.arguments import Floats
from inid.learn.column_moments import exact_columns, exact_entries
from inid.learn.constant_part import constant_part
from inid.learn.objective import Looked
from inid.learn.public_units import Units
from inid.promises import Budget

__all__ = ["CELLS", "likely_mean", "limit_of", "look_at_target", "look_parts"]

CELLS = 11
_PART, _MOST, _MOST_CELLS = 0.02, 0.3, 0.15  # of mu^2, or of epsilon: for the mean, and at most for the cells
_MIDDLE = 0.75  # of a cell's upper end: where its rows are thought to be
_NOISE = 2.0  # times the noise in the mean: what cutting is weighed against, since gradients have more of it
_KEPT = 0.5  # of the sum of the targets that cells show, at least: less would lose the mean itself
_LEAST = 1e-3  # of the limit: the mean that is thought of at least
_FAR = 30.0  # standard deviations: further from 0 a normal law is as good as cut, or lost


def look_parts(budget: Budget, rows: int | None, *, laplace: bool) -> tuple[float, float]:
    """What parts of the plan the cells and the mean take: more where rows and budget are few, by public facts."""
    part = constant_part(budget, rows, 1, laplace=laplace, least=_PART, most=_MOST)
    return min(part, _MOST_CELLS), part


def look_at_target(
    target: Floats, weights: Floats | None, draw: Callable[[Floats, int], Floats], noise: Floats, rows: float
) -> Looked:
    """Release the cells, then the mean.

    Args:
        target: t; what is outside [0, 1] is held to it, and NaN counts as 0.
        weights: u of each row, None for 1.
        draw: Adds noise to numbers, of which the first has the place given among those of the look.
        noise: The noise's standard deviation in each number: the cells, then the sum.
        rows: The number of rows, or the sum of weights, as known.
    """
    each = np.ones(len(target)) if weights is None else weights
    held = np.where(np.isnan(target), 0.0, np.clip(target, 0.0, 1.0))
    cell = np.clip(-np.frexp(np.maximum(held, 0.5**CELLS))[1], 0, CELLS - 1)
    counts = np.array([exact_entries(np.where(cell == at, each, 0.0))[0] for at in range(CELLS)])
    spread = float(noise[CELLS]) / rows / 2
    limit = limit_of(draw(counts, 0) / rows, float(noise[0]) / rows, spread)
    z = (2 * np.minimum(held / limit, 1.0) - 1) * each
    ends = np.ones(1)
    total = exact_columns(z[:, None], Units.of(-ends, ends, None, centre=True, scale=True), count=False)[:1]
    return Looked(rows, likely_mean((1 + float(draw(total, CELLS)[0]) / rows) / 2, spread), limit)


def limit_of(shares: Floats, spread: float, noise: float) -> float:
    """L, a power of two.

    Args:
        shares: The released parts of the rows in each cell, from the largest targets on.
        spread: The noise's standard deviation in each; what it alone would show is no reason to keep a cell.
        noise: The same in the mean of min(t / L, 1).

    >>> limit_of(np.array([0.0, 0.0, 0.3, 0.7]), 1e-3, 1e-3)
    0.25
    >>> limit_of(np.array([0.01, 0.0, 0.3, 0.69]), 1e-6, 1e-6)
    1.0
    """
    ends = np.exp2(-np.arange(len(shares)))
    sums = np.maximum(shares - spread, 0.0) * _MIDDLE * ends
    lost = np.array([(sums * np.maximum(1 - end / (_MIDDLE * ends), 0.0)).sum() for end in ends])
    ends, lost = (one[lost <= _KEPT * sums.sum()] for one in (ends, lost))
    return float(ends[np.argmin(lost**2 + (_NOISE * noise * ends) ** 2)])


def likely_mean(found: float, spread: float) -> float:
    """The mean, in [0, 1], that a noisy one suggests if every mean above 0 is as likely beforehand.

    That is the mean of the normal law about `found` with this spread, cut at 0. It is never far below its noise, where
    the logarithm, at which models start, would be lost.

    >>> likely_mean(0.2, 1e-3), round(likely_mean(0.0, 0.1), 4), round(likely_mean(-0.2, 0.1), 4)
    (0.2, 0.0798, 0.0373)
    """
    z = found / spread if spread > 0 else math.inf
    if -_FAR < z < _FAR:
        found = (z + math.exp(-z * z / 2 - float(log_ndtr(z))) / math.sqrt(2 * math.pi)) * spread
    return min(max(found, _LEAST), 1.0)
