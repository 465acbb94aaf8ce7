"""How unequal a sensitivity profile is, and what that inequality is worth (Sections IV and V of the paper)."""

import math

import numpy as np

from inid.arguments import Floats
from inid.mechanisms import Mechanism
from inid.numbers.rational_sums import Counts
from inid.sets.allocation import log2, log2_sum

__all__ = ["gini", "majorizes", "mean_to_max", "mse_reduction"]


@np.errstate(under="ignore")
def gini(values: Floats, counts: Counts | None = None) -> float:
    """The Gini coefficient sum_ij |x_i - x_j| / (2 K sum x), in K log K.

    0 when all entries are equal, 1 - 1/K when one entry is everything; 0 for a profile of zeros.

    >>> gini(np.array([0.0, 0.0, 0.0, 1.0]))
    0.75
    """
    order = np.argsort(values, kind="stable")
    top = float(values[order[-1]])
    if top == 0:
        return 0.0
    x = values[order] / top
    times = np.ones(x.size) if counts is None else counts[order].astype(np.float64)
    # sum_ij |x_i - x_j| = 2 sum_i x_i (how many are below - how many are above), runs counted at their middle
    below = np.cumsum(times) - times
    size = float(times.sum())
    return float(((2 * below + times - size) * times) @ x) / (size * float(x @ times))


@np.errstate(under="ignore")
def mean_to_max(values: Floats, counts: Counts | None = None) -> float:
    """Nu = |lambda|_1 / (K max lambda), the paper's measure of disparity (Theorem 3): 1 for equal entries, 1/K for one.

    The MSE of optimal noise is O(nu^2) times that of i.i.d. noise. A profile of zeros has nu = 1.

    >>> mean_to_max(np.array([1.0, 2.0, 3.0]))
    0.6666666666666666
    """
    top = float(values.max())
    if top == 0:
        return 1.0
    scaled = values / top
    return float(scaled.mean() if counts is None else scaled @ counts / counts.sum())


def majorizes(a: Floats, b: Floats, *, tolerance: float = 1e-12) -> bool:
    """Whether a majorizes b: equal sums, and the l largest entries of a sum to at least those of b for every l.

    Sums are compared up to a relative tolerance, since equal sums of floats seldom are equal to the last bit.

    >>> majorizes(np.array([3.0, 1.0]), np.array([2.0, 2.0]))
    True
    """
    top = max(float(np.abs(a).max()), float(np.abs(b).max())) or 1.0
    partial_a, partial_b = np.cumsum(-np.sort(-a / top)), np.cumsum(-np.sort(-b / top))
    slack = tolerance * max(abs(float(partial_a[-1])), abs(float(partial_b[-1])), 1.0)
    return bool((partial_a >= partial_b - slack).all() and abs(float(partial_a[-1] - partial_b[-1])) <= slack)


@np.errstate(under="ignore")
def mse_reduction(
    values: Floats, mechanism: Mechanism, *, baseline: str = "iid", counts: Counts | None = None
) -> float:
    """The MSE of a baseline over that of optimal noise, for a box (Table I of the paper).

    Gaussian: K |lambda|_2^2 / |lambda|_1^2 for both baselines. Laplace: K |lambda|_1^2 / (sum lambda^(2/3))^3 for
    i.i.d. noise and K^2 |lambda|_2^2 / (sum lambda^(2/3))^3 for the equal split ("spr").

    >>> round(mse_reduction(np.arange(1.0, 21.0), "gaussian"), 4)
    1.3016
    """
    logs = log2(values)
    size = math.log2(values.size if counts is None else int(counts.sum()))
    if mechanism == "gaussian":
        return float(2.0 ** (size + log2_sum(2 * logs, counts) - 2 * log2_sum(logs, counts)))
    optimal = 3 * log2_sum(2 / 3 * logs, counts)
    if baseline == "spr":
        return float(2.0 ** (2 * size + log2_sum(2 * logs, counts) - optimal))
    return float(2.0 ** (size + 2 * log2_sum(logs, counts) - optimal))
