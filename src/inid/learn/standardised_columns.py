"""What a descent makes of its first look at the columns: centres, constants of smoothness, and smaller thresholds.

**Smaller thresholds.** A plan made beforehand has noise for gradients as large as the public bounds allow. Most columns
lie in a small part of their bounds, and so do their gradients. So once the mean square of a column is released, its
threshold is halved as long as it stays above k standard deviations (`clipping_width`), and the noise of its sums is
halved with it.

Why that is private. The sum of column i's gradients, clipped to C_i, gets noise of scale s_i. In units of the threshold
one record moves the sum by 1 (by 2 when it is replaced), and the noise has the scale s_i / C_i. Both are the same for
C_i / 2 and s_i / 2, so whatever the look has released, each step keeps the privacy that the plan counts for it, and
sums of mu^2 (of epsilon) hold for steps that depend on earlier ones (E7). A half is a power of two: thresholds stay
whole multiples of their steps, without a rounding.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from inid.arguments import Floats
from inid.fixed_point import fixed_columns
from inid.learn.clipped_gradients import FEATURE_BITS
from inid.learn.clipping_width import deviations
from inid.learn.column_moments import likely_columns
from inid.learn.public_units import Units

__all__ = ["Standardised", "standardised"]

_LEAST, _FACTOR = 0.7, 0.2  # of standard deviations: k = 0.2 s^(1/4), but not below 0.7
_SMALLEST = 2.0**-10  # of a threshold: a column may be constant


@dataclass(frozen=True)
class Standardised:
    """What a look has led to.

    Attributes:
        smoothness: M_i, the constant column's last.
        units: The units of the columns, centred at their means where there is an intercept.
        kept: The part of a coefficient that a step keeps, likewise.
        smaller: What thresholds and noise are multiplied by: powers of two, at most 1.
        variances: Of the columns, in these units (mean squares where there is no intercept).
    """

    smoothness: Floats
    units: Units
    kept: Floats
    smaller: Floats
    variances: Floats


def standardised(
    look: Floats,
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
) -> Standardised:
    """Centre the columns at their means, take M_i from the variances, and thresholds from both.

    M_i is not below what keeps the noise of a pass small: a step moves z_i w_i by noise / (N M_i) at most, and a pass
    moves their sum by about the root of the number of columns times that.

    Args:
        look: The released means of the columns, then their mean squares.
        noise: The noise's standard deviation in each.
        ends: The bounds of the columns.
        units: Their units.
        hot: Which of them are one-hot; they stay as they are, since 0 must stay 0 and a 1 is as large as its bound.
        intercept: Whether there is one.
        curvature: The second derivative of the loss.
        spread: The standard deviation of the noise in a sum of gradients over the number of rows, column by column.
        damping: By how much the noise of one pass is held, which includes the root of the number of columns.
        steep: Whether the loss may be steeper than `curvature` says, as that of a count or a duration: then the noise
            that a step is held by is that of the larger threshold.
        shrink: Whether thresholds may become smaller.
    """
    mean, square = likely_columns(look, noise)
    if intercept:
        mean = np.where(hot, 0.0, mean)
        square = np.maximum(square - mean**2, 0.0)
        centre = units.centre + units.unit * mean
        low, high = ((end - centre) / units.unit for end in ends)
        units = Units(centre, units.unit, fixed_columns(low, high, FEATURE_BITS, centre=False))
    constant = [1.0] * intercept
    smaller = np.ones(len(spread))
    if shrink:
        k = deviations(1 / float(np.median(spread)), least=_LEAST, factor=_FACTOR)
        size = np.clip(k * np.sqrt(square + noise[len(square) :]), _SMALLEST, 1.0)
        smaller = np.append(np.where(hot, 1.0, np.exp2(np.ceil(np.log2(size)))), constant)
    M = curvature * np.append(square, constant)
    held = np.maximum(M, damping * spread * (1.0 if steep else smaller))
    return Standardised(held, units, 1 - M / held, smaller, square)
