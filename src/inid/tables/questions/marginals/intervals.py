"""Intervals of what is made of noisy tables: linear combinations by their exact law, means by Fieller's (M8, M10).

Of noise on the tables (Laplace), the law after least squares follows from what each noisy cell counts in an estimate.
"""

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from inid.planning import NoisePlan
from inid.tables.laplace_sums import quantile
from inid.tables.questions.marginals.basis import Floats, analyse, synthesise
from inid.tables.questions.marginals.least_squares import precisions
from inid.tables.questions.marginals.question import MarginalsQuestion
from inid.tables.questions.marginals.workload import Workload
from inid.tables.ratio_intervals import gaussian_ends, searched_ends

__all__ = ["Channels", "Noisy", "coefficients", "fieller", "half_width", "one_cell", "ratio_width"]

Channels = Mapping[
    tuple[int, ...], Floats
]  # of a table (its channel, then its attributes, ascending): what cells count

_ROUNDING = 1 + 2.0**-12  # values lie on a grid of at most 2^-12 scales: its error adds less than this to a deviation
_RATIOS = 9  # ratios at which the law of S - r N is looked at; between them its quantile is below the straight line


class Noisy(NamedTuple):
    """A noisy number in every cell of a table, with the standard deviation of its noise."""

    value: Floats
    std: float


def one_cell(question: MarginalsQuestion, attributes: tuple[int, ...]) -> Floats:
    """Coefficients of the first cell of a table: by symmetry those of any other have the same law."""
    one = np.zeros(tuple(question.workload.sizes[i] for i in attributes))
    one[(0,) * one.ndim] = 1.0
    return one


def half_width(question: MarginalsQuestion, noise: NoisePlan, level: float, std: float, wanted: Channels) -> float:
    """Half the width of the interval of a linear combination: the quantile of its noise, exact under either kind.

    Args:
        question: What was asked.
        noise: Its noise.
        level: The probability with which the interval is to hold the exact value.
        std: The standard deviation of the combination.
        wanted: The combination.
    """
    if noise.mechanism == "gaussian":
        return -float(ndtri((1 - level) / 2)) * std * _ROUNDING
    return _laplace_width(_laplace_scales(question, noise, wanted), level)


def _laplace_scales(question: MarginalsQuestion, noise: NoisePlan, wanted: Channels) -> Floats:
    scales = question.scales(noise)
    parts = coefficients(question.workload, math.sqrt(2.0) * scales, wanted)
    return np.concatenate([(part * scale).reshape(-1) for part, scale in zip(parts, scales, strict=True)])


def _laplace_width(scales: Floats, level: float) -> float:
    """The width, which no rounding error may decide: coefficients that cancel leave one here and 0 elsewhere.

    Scales of at most 2^-40 of the largest one, a, are rounding errors or as good as those; two of 2^-40 a stand for all
    of them, and where there are none. Why that is right: k of them move a probability by less than k 2^-78 (a second
    derivative of the law, at most 1 / a^2, times their variance), and with two the law is always summed up, on the safe
    side, and never taken in closed form.
    """
    unit = float(np.abs(scales).max()) * 2.0**-40
    if unit == 0:
        return 0.0
    counted = np.abs(scales)[np.abs(scales) > unit]  # equal ones differ in their last bits: rounded up, they are equal
    return quantile(np.append(np.ceil(counted / unit) * unit, [unit, unit]), level) * _ROUNDING


def ratio_width(
    question: MarginalsQuestion, noise: NoisePlan, level: float, above: Channels, below: Channels, ratios: Floats
) -> Floats:
    """Half-widths of S - r N under Laplace noise, for several r: S and N are linear combinations of other channels."""
    first, second = (_laplace_scales(question, noise, wanted) for wanted in (above, below))
    return np.array([_laplace_width(first + r * second, level) for r in ratios.tolist()])


def fieller(
    question: MarginalsQuestion,
    noise: NoisePlan,
    level: float,
    sums: Noisy,
    numbers: Noisy,
    bounds: tuple[float, float],
    parts: tuple[Channels, Channels],
) -> tuple[Floats, Floats]:
    """The interval of S / N, cell by cell (Fieller, as in `ratio_intervals`).

    Args:
        question: What was asked.
        noise: Its noise.
        level: The probability.
        sums: S.
        numbers: N.
        bounds: The range of the ratio.
        parts: What S and N of the first cell are made of, for the law of Laplace noise.
    """
    if noise.mechanism == "gaussian":
        z = -float(ndtri((1 - level) / 2)) * _ROUNDING
        return gaussian_ends(sums, numbers, z, bounds)
    knots = np.linspace(0.0, max(map(abs, bounds)), _RATIOS)
    widths = ratio_width(question, noise, level, *parts, knots)
    least = _laplace_width(_laplace_scales(question, noise, parts[1]), level)

    def beyond(distances: Floats, ratios: Floats) -> NDArray[np.bool_]:
        # The quantile is the same for r and -r and convex in r, so that straight lines between knots are not below it.
        return np.asarray(distances > np.interp(np.abs(ratios), knots, widths))

    return searched_ends(sums.value, numbers.value, least, beyond, bounds)


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
