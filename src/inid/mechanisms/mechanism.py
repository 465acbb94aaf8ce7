"""The two kinds of noise as values, and the formulas that they share.

What scales s_i spend on a sensitivity set S is the supremum over S of sum_i (|d_i| / s_i)^q: mu squared for Gaussian
noise (exponent q = 2), epsilon for Laplace noise (q = 1). With a_i = alpha_i lambda_i the least-error scales of a box
are proportional to a_i^(q/(p+q)) / alpha_i, and their error is c_p (sum_i a_i^(qp/(p+q)))^((p+q)/q) over the p-th power
of mu or epsilon (Theorems 1 and 2 of the paper, with weights alpha and any order p >= 1).

The exponent is that of what is spent. It is the noise's own, except where a promise bounds Laplace noise by the sum of
squares (`inid.promises.ZCDP`): then the scales have the shape of q = 2 and only the constant c_p is Laplace noise's.
"""

import math
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from scipy.special import ndtri

from inid.arguments import Floats, choice
from inid.numbers.sums import Counts, log2_sum

__all__ = [
    "GAUSSIAN", "LAPLACE", "Exponent", "Mechanism", "MechanismChoice", "MechanismName", "NoiseChoice",
    "NoiseName", "log2_least_error",
    "optimal_shape",
]  # fmt: skip

MechanismName = Literal["gaussian", "laplace"]
MechanismChoice = Literal["auto", "gaussian", "laplace"]
NoiseName = Literal["gaussian", "laplace", "staircase"]  # staircase noise is drawn jointly, and is not a `Mechanism`
NoiseChoice = Literal["auto", "gaussian", "laplace", "staircase"]
Exponent = Literal[1, 2]


@dataclass(frozen=True)
class Mechanism:
    """A kind of noise."""

    name: MechanismName
    exponent: Exponent
    scale: str
    variance: float

    @property
    def deviation(self) -> float:
        """The standard deviation at scale 1."""
        return math.sqrt(self.variance)

    @staticmethod
    def named(name: object) -> "Mechanism":
        """The mechanism of a name."""
        return GAUSSIAN if choice("mechanism", name, get_args(MechanismName)) == "gaussian" else LAPLACE

    def log2_moment(self, order: float) -> float:
        """log2 of E|T|^p for noise of scale 1.

        >>> GAUSSIAN.log2_moment(2), LAPLACE.log2_moment(2)
        (0.0, 1.0)
        """
        laplace = self.exponent == 1
        if order > 100:  # beyond the range of gamma itself
            shift, argument = (0.0, order + 1) if laplace else (order / 2 - math.log2(math.pi) / 2, (order + 1) / 2)
            return shift + math.lgamma(argument) / math.log(2)
        if laplace:
            return math.log2(math.gamma(order + 1))
        if order == 2:  # the terms below cancel in the reals but not quite in floats, and this is the variance
            return 0.0
        return order / 2 + math.log2(math.gamma((order + 1) / 2) / math.sqrt(math.pi))

    def log2_error(self, scales: Floats, weights: Floats | float, order: float, counts: Counts | None) -> float:
        """log2 of sum_i alpha_i^p E|T_i|^p, from the logarithms of scales and weights; -inf without noise."""
        return self.log2_moment(order) + log2_sum(order * (scales + weights), counts)

    def quantile(self, failure: float) -> float:
        """What noise of scale 1 exceeds in absolute value with this probability: ln(1/f), or Q^-1(f/2), rounded up."""
        if self.exponent == 1:
            return -math.log(failure) * (1 + 2.0**-50)
        return -float(ndtri(failure / 2)) * (1 + 2.0**-49)


GAUSSIAN = Mechanism("gaussian", 2, "sigma", 1.0)
LAPLACE = Mechanism("laplace", 1, "beta", 2.0)


def optimal_shape(
    exponent: Exponent, profile: Floats, weights: Floats | float, order: float, out: Floats | None = None
) -> Floats:
    """log2 of the least-error scales of a box up to a common factor: a_i^(q/(p+q)) / alpha_i, a_i = alpha_i lambda_i.

    All arguments are base-2 logarithms; `weights` may be 0 for equal weights, and `out` the profile itself.

    >>> 2 ** optimal_shape(1, np.log2([1.0, 8.0]), 0.0, 2.0)
    array([1., 2.])
    """
    power = exponent / (order + exponent)
    shape: Floats = np.multiply(profile, power, out=out)
    if isinstance(weights, np.ndarray):
        shape += (power - 1) * weights
    return shape


def log2_least_error(
    mechanism: Mechanism,
    exponent: Exponent,
    profile: Floats,
    weights: Floats | float,
    order: float,
    counts: Counts | None,
) -> float:
    """log2 of the least error on a box of this profile when 1 is spent: c_p (sum_i a_i^(qp/(p+q)))^((p+q)/q).

    >>> 2 ** log2_least_error(GAUSSIAN, 2, np.log2([1.0, 3.0]), 0.0, 2.0, None)
    16.0
    """
    power = exponent * order / (order + exponent)
    outer = (order + exponent) / exponent
    return mechanism.log2_moment(order) + outer * log2_sum(power * (profile + weights), counts)
