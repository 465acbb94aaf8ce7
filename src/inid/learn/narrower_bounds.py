"""Narrower bounds for the columns of a linear model: a first look finds where they lie, and the same plan pays for it.

Round public bounds are often several times wider than the data, and the noise in a product of two columns grows with
the product of their widths. So the plan of a linear model has two parts. The first releases the sum and the sum of
squares of every column, in units in which the public bounds are -1 and 1. The second releases the moments of columns
that are clipped anew, to k standard deviations about the mean that the first part found, or to the public bounds where
these are narrower.

Why it is private. In its new unit every column lies in [-1, 1] again, whatever the first part said: the change of the
second part lies in one set S_2 that does not depend on it, that of the first in S_1. So whatever the first part
released, the change of both lies in S_1 x S_2, for which the plan is made. The second part depends on the first one's
noise, which sums of mu^2 (of epsilon, for Laplace noise on a box) allow for (E7).

How narrow. k is `clipping_width.deviations`, in which s is the number of rows over the noise of one product: more data
or budget clip less. A column whose public bounds lie within that many standard deviations of its mean is not clipped at
all.
"""

import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from inid.accounting import Ledger
from inid.arguments import Floats
from inid.learn.clipping_width import deviations
from inid.learn.encoded_bounds import no_group
from inid.learn.moment_sources import MomentSource
from inid.learn.public_units import Units
from inid.learn.second_moments import MomentPlan, Moments, as_moments
from inid.noise import add_noise
from inid.releasing import charge

__all__ = ["narrowed", "release_narrowed"]

_NARROWEST = 2.0**-10  # of half the public bounds: a column may be constant
_LEAST, _FACTOR = 2.0, 0.6  # of standard deviations: k = 0.6 s^(1/4), but not below 2


def release_narrowed(
    source: MomentSource, planned: MomentPlan, public: Units, ledger: Ledger | None, label: str
) -> tuple[Moments, Units]:
    """Charge, look for narrower bounds, release the moments within them.

    Args:
        source: The columns.
        planned: The plan of both parts.
        public: The units of the public bounds.
        ledger: Where the cost is charged.
        label: What is charged for.

    Returns:
        The moments, and the units they are in.
    """
    noise, width, layout = planned.noise, public.size.size, planned.layout
    seen = no_group(width, planned.groups)  # one-hot columns lie where their bounds are
    paid = charge(noise, ledger, label)
    spread = noise.scales * (1.0 if noise.mechanism == "gaussian" else math.sqrt(2))
    first = layout.i.size
    exact = source.columns(public)
    look = add_noise(exact[: 2 * width][np.tile(seen, 2)], noise.scales[first:], noise.mechanism, paid.source)
    rows, counted = float(source.rows or 0), np.empty(0)
    if planned.count:
        counted = add_noise(exact[-1:], noise.scales[first - 1 : first], noise.mechanism, paid.source)
        rows = max(float(counted[0]), 1.0)
    products = np.append(seen, False)  # of two columns, the constant being none
    signal = rows / float(np.median(spread[:first][products[layout.i] & products[layout.j]]))
    with np.errstate(all="ignore"):  # whatever the caller has set, what was paid for must not be lost
        units = narrowed(public, look / rows, spread[first:] / rows, signal, source.rows, seen)
    answer = source.answer(units, mean=True, count=False)
    moments = add_noise(answer, noise.scales[: answer.size], noise.mechanism, paid.source)
    made = paid.release(np.concatenate([moments, counted, look]))
    return as_moments(made, replace(planned, units=units)), units


def narrowed(
    public: Units,
    means: Floats,
    spread: Floats,
    signal: float,
    rows: int | None,
    seen: NDArray[np.bool_] | None = None,
) -> Units:
    """The units of columns within k standard deviations of their means, and within the public bounds.

    Args:
        public: The units of the public bounds.
        means: The released means of the columns, then those of their squares, in these units.
        spread: The noise's standard deviation in each of them.
        signal: s, the number of rows over the noise of one product.
        rows: The number of rows, None if it is secret.
        seen: The columns that were looked at, all by default; others keep their bounds and are not centred.

    >>> public = Units.of(np.array([0.0]), np.array([100.0]), 1000, centre=True, scale=True)
    >>> units = narrowed(public, np.array([0.2, 0.05]), np.zeros(2), 1.0, 1000)
    >>> units.centre.round(6).tolist(), units.unit.round(6).tolist()
    ([60.0], [10.0])
    """
    seen = np.ones(public.size.size, bool) if seen is None else seen
    width = int(seen.sum())
    mean, square = np.clip(means[:width], -1.0, 1.0), np.clip(means[width:], 0.0, 1.0)
    # An error e in the mean square is one of e in the variance, and one in the mean moves the window: room for both.
    variance = np.maximum(square - mean**2, 0.0) + spread[width:]
    reach = np.maximum(deviations(signal, least=_LEAST, factor=_FACTOR) * np.sqrt(variance), _NARROWEST)
    low, high = np.zeros_like(public.size), np.ones_like(public.size)
    low[seen], high[seen] = np.maximum(mean - reach, -1.0), np.minimum(mean + reach, 1.0)
    lower, upper = public.centre + public.unit * low, public.centre + public.unit * high
    apart = lower < upper  # but for bounds so close that floats have nothing between them
    lower = np.where(apart, lower, public.centre - public.unit)
    return Units.of(lower, np.where(apart, upper, public.centre + public.unit), rows, centre=seen, scale=True)
