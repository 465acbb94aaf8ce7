"""One coordinate's privacy loss, cell by cell: the probabilities of intervals of the loss under P and under Q."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from inid.numbers.rounding import ELEMENTARY, UNIT

__all__ = ["Component", "GaussianPart", "LaplacePart", "amplified", "restored"]

Floats = NDArray[np.float64]
Cells = tuple[Floats, Floats, Floats, Floats]

_LARGE = 30.0


@dataclass(frozen=True)
class LaplacePart:
    """One Laplace ratio e: atoms at -e and e, and under P the density exp((l - e)/2) / 4 between them."""

    ratio: float

    @property
    def span(self) -> tuple[float, float]:
        """Where the losses lie."""
        return -self.ratio, self.ratio

    @property
    def unbounded(self) -> bool:
        """Whether there are losses outside the span."""
        return False

    @property
    def mean(self) -> float:
        """The mean loss under P: e - 1 + exp(-e)."""
        return self.ratio + math.expm1(-self.ratio)

    @property
    def variance(self) -> float:
        """A bound on the variance of the loss."""
        return self.ratio**2

    @property
    def atoms(self) -> tuple[Floats, Floats, Floats]:
        """Losses with positive probability, and their probabilities under P and under Q."""
        small = 0.5 * math.exp(-self.ratio)
        return np.array([-self.ratio, self.ratio]), np.array([small, 0.5]), np.array([0.5, small])

    def cells(self, edges: Floats) -> Cells:
        """P-mass and Q-mass strictly between consecutive edges, and bounds on their errors."""
        left, length = edges[:-1], np.diff(edges)
        p = 0.5 * np.exp((left - self.ratio) / 2) * np.expm1(length / 2)
        q = -0.5 * np.exp(-(left + self.ratio) / 2) * np.expm1(-length / 2)
        rate = ELEMENTARY * (4 + self.ratio)  # a difference of two floats is off by one UNIT only
        return p, q, rate * p, rate * q


@dataclass(frozen=True)
class GaussianPart:
    """A Gaussian part mu: the loss is N(mu^2/2, mu^2) under P and N(-mu^2/2, mu^2) under Q."""

    mu: float
    reach: float

    @property
    def span(self) -> tuple[float, float]:
        """The losses that are resolved: `reach` standard deviations around both means."""
        wide = self.mu * self.reach + self.mu * self.mu / 2
        return -wide, wide

    @property
    def unbounded(self) -> bool:
        """Whether there are losses outside the span."""
        return True

    @property
    def mean(self) -> float:
        """The mean loss under P."""
        return self.mu * self.mu / 2

    @property
    def variance(self) -> float:
        """The variance of the loss."""
        return self.mu * self.mu

    @property
    def atoms(self) -> None:
        """No loss has positive probability."""
        return

    def cells(self, edges: Floats) -> Cells:
        """P-mass and Q-mass between consecutive edges, and bounds on their errors."""
        p, p_error = self._between(edges, -self.mu / 2)
        q, q_error = self._between(edges, self.mu / 2)
        return p, q, p_error, q_error

    def _between(self, edges: Floats, shift: float) -> tuple[Floats, Floats]:
        z = edges / self.mu + shift
        # Differences are taken between tails on the same side, the small ones where there is a choice.
        flip = z[:-1] > 0
        first = ndtr(np.where(flip, -z[1:], z[:-1]))
        second = ndtr(np.where(flip, -z[:-1], z[1:]))
        # ndtr is exact to ELEMENTARY; an argument off by t moves it by a relative (|z| + 1) t at most.
        with np.errstate(invalid="ignore"):
            size = np.where(np.isfinite(z), (np.abs(z) + 1) * (np.abs(edges) / self.mu + abs(shift)), 0.0)
        error = (first + second) * (ELEMENTARY * 2 + 8 * UNIT * np.maximum(size[1:], size[:-1]))
        return second - first, error


Component = LaplacePart | GaussianPart


def amplified(losses: Floats, rate: float) -> Floats:
    """log(1 + q (e^l - 1)), without overflow.

    >>> amplified(np.array([0.0, 1000.0]), 0.5)
    array([  0.        , 999.30685282])
    """
    with np.errstate(divide="ignore", invalid="ignore", under="ignore"):
        small = np.log1p(rate * np.expm1(np.minimum(losses, _LARGE)))
        large = losses + math.log(rate) + np.log1p((1 - rate) / rate * np.exp(-np.maximum(losses, _LARGE)))
    return np.where(losses > _LARGE, large, small)


def restored(losses: Floats, rate: float) -> Floats:
    """The inverse of `amplified`; minus infinity at and below its infimum log(1 - q).

    >>> restored(amplified(np.array([-1.0, 2.0]), 0.25), 0.25).round(12)
    array([-1.,  2.])
    """
    inside = np.expm1(np.minimum(losses, _LARGE)) / rate
    with np.errstate(divide="ignore", invalid="ignore", under="ignore"):
        small = np.where(inside > -1, np.log1p(np.maximum(inside, -1)), -math.inf)
        large = losses - math.log(rate) + np.log1p(-(1 - rate) * np.exp(-np.maximum(losses, _LARGE)))
    return np.where(losses > _LARGE, large, small)
