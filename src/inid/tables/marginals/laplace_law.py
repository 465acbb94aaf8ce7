"""Quantiles of sums of independent Laplace noises: what least squares makes of noise on the tables (M10)."""

import math
from collections.abc import Mapping
from functools import lru_cache

import numpy as np

from inid.tables.marginals.basis import Floats, analyse, synthesise
from inid.tables.marginals.least_squares import precisions
from inid.tables.marginals.workload import Workload

__all__ = ["coefficients", "quantile"]

_POINTS = 2**14
_WIDTH = 60.0  # standard deviations after which the law is taken to repeat: what is left there is below 1e-17
_ROUNDS = 60


def coefficients(workload: Workload, tau: Floats, wanted: Mapping[tuple[int, ...], Floats]) -> list[Floats]:
    """What each noisy cell of each asked table counts in the least-squares estimate of a linear combination.

    Statement: with G_B the residual of the combination's coefficients in block B, cell y of table A counts
    sum_B s_B (C^T diag(1/q) G_B)_y / prod_{A minus B} n_i / tau_A^2. Why: the estimate is T P^-1 L^T D^-1 y, with
    P = L^T D^-1 L = diag(1 / s_B).

    Args:
        workload: What was asked.
        tau: The standard deviation of the noise in the cells of each table.
        wanted: The combination: for each table (its channel, then its attributes, ascending), what its cells count.
    """
    exact = precisions(workload, tau)
    blocks = {(at, *workload.attributes(block)): block for block, at in enumerate(workload.blocks[:, 0].tolist())}
    gathered: dict[int, Floats] = {}
    for (channel, *attributes), counts in wanted.items():
        for (own, *inside), block in blocks.items():
            if own == channel and set(inside) <= set(attributes):
                others = tuple(at for at, i in enumerate(attributes) if i not in inside)
                spread = math.prod(workload.sizes[attributes[at]] for at in others)
                part = analyse(counts.sum(axis=others)) / spread
                gathered[block] = gathered[block] + part if block in gathered else part
    found = [np.zeros(tuple(workload.sizes[i] for i in table if i >= 0)) for table in workload.tables[:, 1:].tolist()]
    for table, block in zip(workload.table_of.tolist(), workload.block_of.tolist(), strict=True):
        if block in gathered:
            whole = [int(i) for i in workload.tables[table, 1:] if i >= 0]
            axes = tuple(whole.index(i) for i in workload.attributes(block))
            part = synthesise(gathered[block], found[table].shape, axes)
            found[table] += part / (exact[block] * tau[table] ** 2)
    return found


def quantile(scales: Floats, level: float) -> float:
    """A t with P(|sum of independent Laplace noises of these scales| <= t) >= level, and hardly more.

    Gil-Pelaez: P(|X| <= t) = (2 / pi) int sin(ut) / u phi(u) du, phi(u) = prod 1 / (1 + scales^2 u^2), by the
    trapezoidal rule. What the rule leaves out beyond its last point is at most phi there over pi, and is taken off.

    >>> round(quantile(np.array([1.0]), 0.95), 3)  # -log(0.05)
    2.996
    """
    sizes, times = np.unique(np.abs(scales[scales != 0]), return_counts=True)
    return _quantile(tuple(sizes.tolist()), tuple(times.tolist()), level) if sizes.size else 0.0


@lru_cache(maxsize=256)  # tables of the same shape have the same law
@np.errstate(under="ignore")  # the law of many noises vanishes far out
def _quantile(scales: tuple[float, ...], numbers: tuple[int, ...], level: float) -> float:
    sizes, times = np.array(scales), np.array(numbers)
    spread = math.sqrt(2 * float((np.square(sizes) * times).sum()))
    step = 2 * math.pi / (_WIDTH * spread)
    points = step * np.arange(1, _POINTS + 1)
    logs = np.zeros(_POINTS)
    for size, number in zip(sizes.tolist(), times.tolist(), strict=True):
        logs -= number * np.log1p(np.square(size * points))
    phi = np.exp(logs)
    left = float(phi[-1]) / math.pi

    def inside(t: float) -> float:
        return step * t / math.pi + 2 / math.pi * float((np.sin(points * t) / points * phi).sum()) * step - left

    low, high = 0.0, _WIDTH / 4 * spread
    for _ in range(_ROUNDS):
        middle = (low + high) / 2
        low, high = (low, middle) if inside(middle) >= level else (middle, high)
    return high
