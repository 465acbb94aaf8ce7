"""Distributions on a lattice of losses: the discretised privacy-loss distributions of subsampled steps.

An atom of P-mass A at the loss l is moved onto the two neighbouring lattice points so that its P-mass and its Q-mass
A exp(-l) stay what they were: that is the piecewise-linear interpolation of the hockey-stick curve in exp(epsilon)
("connect the dots", Doroshenko et al. 2022), whose pair dominates. For a lower bound atoms move down instead.

Rounding always has a side: an upper lattice gets masses and losses that are too large by their error bounds, a lower
one too small; delta, a sum of increasing functions of the loss with positive weights, follows suit, and so does every
composition.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from inid.numbers.rounding import ELEMENTARY, UNIT

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Atoms:
    """A finite measure of losses: P-masses at points."""

    losses: Floats
    masses: Floats

    @cached_property
    def _logs(self) -> Floats:
        with np.errstate(divide="ignore"):
            return np.log(self.masses)

    def _tilted(self, order: float) -> tuple[float, Floats, float]:
        """(log M(a), masses exp(a loss) / M(a), their relative rounding error in l1)."""
        logs = self._logs + order * self.losses
        top = float(logs.max())
        weights = np.exp(logs - top)
        total = _blocked_sum(weights)
        weights /= total
        # Each exponent a * loss and log(mass) is off by a few UNIT of its size, hence the weighted mean size.
        sizes = np.where(weights > 0, np.abs(logs), 0.0) + (2 * order) * np.abs(self.losses)
        spread = ELEMENTARY * (4 + float(weights @ sizes) + abs(top)) + UNIT * _sum_error(weights.size)
        return top + math.log(total), weights, spread

    def log_moment(self, order: float) -> float:
        """The logarithm of the sum of masses times exp(a loss), rounded to nearest."""
        logs = self._logs + order * self.losses
        top = float(logs.max())
        return top + math.log(float(np.exp(logs - top).sum()))

    def moment_slack(self, order: float) -> float:
        """A bound on the rounding error of `log_moment`."""
        log, _, spread = self._tilted(order)
        return spread + ELEMENTARY * abs(log)


@dataclass(frozen=True, eq=False)
class Lattice(Atoms):
    """Atoms at offset + (first + i) * spacing, with spacing = 2 pi / (step * size) for one contour's step."""

    first: int
    offset: float
    size: int

    def along_line(self, order: float, step: float, nodes: int) -> tuple[Floats, Floats, Floats]:
        """log|phi|, arg phi and their error bounds at a + i j step, j = 0 .. nodes, for phi = M(a + iu) / M(a).

        phi is the Fourier transform of the tilted masses, periodic in j with period `size` up to the offset's phase:
        one FFT of the folded masses holds all of it. Rounding: in a Cooley-Tukey FFT of length n every input reaches
        every output along one path of at most log2(n) butterflies, each of which adds a relative error of at most
        8 UNIT (Higham 2002, section 24.1: gamma_4 + twiddle error, both below 8 UNIT), so each output is off by at
        most 8 UNIT log2(n) times the l1 norm of the input, which is 1 here.
        """
        _, weights, spread = self._tilted(order)
        folded = np.bincount(np.arange(self.first, self.first + weights.size) % self.size, weights, self.size)
        from scipy import fft  # here: `import inid` needs none of it

        half = fft.rfft(folded)
        j = np.arange(nodes + 1) % self.size
        mirrored = j > self.size // 2
        values = half[np.where(mirrored, self.size - j, j)]
        absolute = spread + 8 * UNIT * math.log2(self.size) + UNIT * (weights.size / self.size + 4)
        modulus = np.maximum(np.abs(values), 2 * absolute)  # smaller ones are not resolved: their error bound is 1
        phases = np.where(mirrored, -1.0, 1.0) * np.angle(values)  # sign: exp(+iu loss), see below
        heights = step * np.arange(nodes + 1)
        errors = 2 * absolute / modulus + ELEMENTARY * heights * abs(self.offset)
        # rfft sums exp(-2 pi i jk / size) = exp(-i u_j loss_k): conjugate.
        return np.log(modulus), heights * self.offset - phases, errors


def connected(losses: Floats, masses: Floats, spacing: float, size: int, under: Literal["P", "Q"] = "P") -> Lattice:
    """The upper lattice of atoms: each split onto its two neighbours, P-mass and Q-mass kept; rounded upwards.

    `masses` are P-masses, or Q-masses when `under` says so: of a P-mass the upper neighbour gets the share
    (1 - exp(-d)) / (1 - exp(-h)), d the distance from the lower neighbour, of a Q-mass (exp(d) - 1) / (exp(h) - 1).
    """
    # Upwards: the atom's own loss (a few UNIT), and the lattice, whose spacing 2 pi / (step size) is irrational.
    raised = losses + 16 * UNIT * np.abs(losses)
    index = np.floor(raised / spacing)
    index = np.where(raised < index * spacing, index - 1, index)
    inside = np.clip(raised - index * spacing, 0.0, spacing)
    sign = -1.0 if under == "P" else 1.0
    share = np.minimum(np.expm1(sign * inside) / math.expm1(sign * spacing) * (1 + 4 * ELEMENTARY), 1.0)
    first = int(index.min())
    place = (index - first).astype(np.int64)
    length = int(place.max()) + 2
    heavier = masses * (1 + 4 * ELEMENTARY)
    spread = np.bincount(place, heavier * (1 - share), length) + np.bincount(place + 1, heavier * share, length)
    crowded = 2 * int(np.bincount(place).max())  # terms of the longest sum
    return _lattice(spread * (1 + UNIT * (crowded + 8)), first, spacing, 0.0, size)


def rounded_down(losses: Floats, masses: Floats, spacing: float, size: int) -> Lattice:
    """The lower lattice of atoms: each moved down to the next point of the lattice shifted by the best common offset.

    Moving P-mass to a smaller loss can only decrease delta. Atoms that lie at about the same place of their cells lose
    almost nothing; the offset that keeps the mean loss largest is found among the atoms' own places.
    """
    lowered = losses - 16 * UNIT * np.abs(losses) - 16 * UNIT * spacing
    place = lowered / spacing
    rest = place - np.floor(place)
    order = np.argsort(rest)
    passed = np.concatenate(
        ([0.0], np.cumsum(masses[order])[:-1])
    )  # the mass that an offset just reached leaves behind
    best = float(rest[order][int(np.argmax(rest[order] - passed / masses.sum()))]) * (1 - 1e-12)
    index = np.floor(place - best)
    index = np.where(best * spacing + index * spacing > lowered, index - 1, index)
    first = int(index.min())
    spread = np.bincount((index - first).astype(np.int64), masses * (1 - 4 * ELEMENTARY))
    return _lattice(spread * (1 - UNIT * (masses.size + 8)), first, spacing, best * spacing, size)


def _blocked_sum(values: Floats) -> float:
    """A sum in about sqrt(n) blocks, whose rounding error is at most `_sum_error(n)` UNIT in any order of summation."""
    length = math.isqrt(values.size) + 1
    full = values.size - values.size % length
    return float(values[:full].reshape(-1, length).sum(axis=1).sum() + values[full:].sum())


def _sum_error(number: int) -> int:
    return 2 * math.isqrt(number) + 8


def _lattice(masses: NDArray[np.floating[Any]], first: int, spacing: float, offset: float, size: int) -> Lattice:
    losses = offset + spacing * np.arange(first, first + masses.size, dtype=np.float64)
    return Lattice(losses, masses.astype(np.float64), first, offset, size)


# One coordinate's privacy loss, cell by cell: the probabilities of intervals of the loss under P and under Q.

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
    """log(1 + q (e^l - 1)), without overflow."""
    with np.errstate(divide="ignore", invalid="ignore", under="ignore"):
        small = np.log1p(rate * np.expm1(np.minimum(losses, _LARGE)))
        large = losses + math.log(rate) + np.log1p((1 - rate) / rate * np.exp(-np.maximum(losses, _LARGE)))
    return np.where(losses > _LARGE, large, small)


def restored(losses: Floats, rate: float) -> Floats:
    """The inverse of `amplified`; minus infinity at and below its infimum log(1 - q)."""
    inside = np.expm1(np.minimum(losses, _LARGE)) / rate
    with np.errstate(divide="ignore", invalid="ignore", under="ignore"):
        small = np.where(inside > -1, np.log1p(np.maximum(inside, -1)), -math.inf)
        large = losses - math.log(rate) + np.log1p(-(1 - rate) * np.exp(-np.maximum(losses, _LARGE)))
    return np.where(losses > _LARGE, large, small)
