"""Intervals of what is made of noisy tables: linear combinations by their exact law, means by Fieller's (M8, M10)."""

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

from inid.arguments import Floats
from inid.planning import NoisePlan
from inid.tables.marginals.laplace_law import coefficients, quantile
from inid.tables.marginals.question import MarginalsQuestion

__all__ = ["Channels", "Noisy", "fieller", "half_width", "one_cell", "ratio_width"]

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
    unit = float(np.abs(scales).max()) * 2.0**-40  # equal ones differ in their last bits: rounded up, they are equal
    return quantile(np.ceil(np.abs(scales) / unit) * unit, level) * _ROUNDING if unit > 0 else 0.0


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
    """The ends of {r in the bounds : |S - r N| <= the quantile of the noise of S - r N}, cell by cell (Fieller).

    Statement: S - r N, at the exact ratio r = S* / N*, is noise alone, of a known law, so that the set holds r with the
    stated probability, whatever the exact numbers are. Where the set is no bounded interval (N is lost in its noise),
    it is the whole range. S and N have independent noise.

    Args:
        question: What was asked.
        noise: Its noise.
        level: The probability.
        sums: S.
        numbers: N.
        bounds: The range of the ratio.
        parts: What S and N of the first cell are made of, for the law of Laplace noise.
    """
    low, high = bounds
    if noise.mechanism == "gaussian":
        z = -float(ndtri((1 - level) / 2)) * _ROUNDING
        square = np.square(numbers.value) - (z * numbers.std) ** 2
        inside = np.square(sums.std * numbers.value) + np.square(numbers.std * sums.value)
        root = z * np.sqrt(np.maximum(inside - (z * sums.std * numbers.std) ** 2, 0.0))
        product, bounded = sums.value * numbers.value, square > 0
        with np.errstate(all="ignore"):
            ends = [np.where(bounded, (product + sign * root) / square, end) for sign, end in ((-1, low), (1, high))]
        return np.clip(ends[0], low, high), np.clip(ends[1], low, high)
    knots = np.linspace(0.0, max(abs(low), abs(high)), _RATIOS)
    widths = ratio_width(question, noise, level, *parts, knots)
    # The quantile is the same for r and -r and convex in r, so that straight lines between knots are not below it. With
    # them |S - r N| less the quantile is straight between these points, one of which is S / N: its roots are exact,
    # however narrow the interval is.
    points = np.unique(np.clip(np.concatenate([-knots, knots, [low, high]]), low, high))
    with np.errstate(all="ignore"):
        own = np.nan_to_num(np.clip(sums.value / numbers.value, low, high), nan=low)
    shape = (*own.shape, points.size)
    ratios = np.sort(np.concatenate([np.broadcast_to(points, shape), own[..., None]], axis=-1), axis=-1)
    reach = np.interp(np.abs(ratios), knots, widths)
    apart = np.abs(sums.value[..., None] - ratios * numbers.value[..., None]) - reach
    return _first_root(apart, ratios), _first_root(apart[..., ::-1], ratios[..., ::-1])


def _first_root(apart: Floats, ratios: Floats) -> Floats:
    """Where a function first is at most 0, by straight lines between its points; else where it is least."""
    inside = apart <= 0
    first = np.where(inside.any(axis=-1), inside.argmax(axis=-1), apart.argmin(axis=-1))
    before = np.maximum(first - 1, 0)
    here, there = (np.take_along_axis(apart, at[..., None], axis=-1)[..., 0] for at in (first, before))
    start, end = (np.take_along_axis(ratios, at[..., None], axis=-1)[..., 0] for at in (first, before))
    with np.errstate(all="ignore"):
        share = np.where((there > 0) & (here <= 0), here / (here - there), 0.0)
    return np.asarray(start + share * (end - start))
