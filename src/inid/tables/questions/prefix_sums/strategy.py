"""Integer strategies for prefixes: what is released instead of counts, and how far one row moves it (M9).

A strategy is an integer matrix S of full column rank. Released is S x with independent noise of one scale, x the counts
of the levels; every prefix is then estimated by B S x with B = A (S^T S)^-1 S^T and A the lower triangle of ones. Any S
is private with the radius of its columns, computed from its integers; which S is best is a matter of accuracy only.

*Toeplitz*: entries round(2^8 binom(2k, k) / 4^k): the square root of A as a Toeplitz matrix, in whole numbers. It is
the best here under Gaussian noise: 5.6 per prefix at n = 100 and mu = 1, against 50.5 for counts. Rounded entries
change the norm of a column, so the radius is computed from the rounded ones, never from the root.
*Tree*: counts of the levels, of blocks of f levels, of blocks of f blocks and so on: better in the l1 norm.
*Counts*: the levels themselves, for a few of them.

How far one row moves S x. It adds a column of S: the radius is the largest norm of a column. Replacing it subtracts one
column and adds another: in one cell of a group-by at most the largest |S e_x - S e_y|, from the integers of S^T S; in
two cells, which share no number, the root of the sum of two squared norms (l2), or their sum (l1). Entries are not
negative, so that the second is at least the first, and a row that vanishes moves less than either. A person's m rows
move S x at most m times as far.
"""

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from inid.arguments import Floats
from inid.mechanisms import Mechanism, MechanismName
from inid.noise import grid
from inid.tables.intervals import clipped_ends

if TYPE_CHECKING:
    from inid.tables.questions.prefix_sums.choice import ChosenLevels

_KINDS: dict[str, tuple[str, ...]] = {
    "gaussian": ("toeplitz", "counts"),
    "laplace": ("counts", "tree4", "tree8", "tree16", "tree32"),
}
_BITS = 8


@dataclass(frozen=True, eq=False)
class Strategy:
    """One strategy for n levels."""

    kind: str
    matrix: NDArray[np.int64]
    prefixes: Floats
    variances: Floats

    def radius(self, norm: int, *, replace: bool, cells: int) -> float:
        """How far one row moves the released numbers at most, as a float that is not below it."""
        if norm == 1:
            most = int(self.matrix.sum(axis=0).max())
            return float(2 * most if replace else most)
        exact = self.matrix.astype(np.float64)  # sums of at most 1024 squares of 8 bits: floats hold them exactly
        squares = np.square(exact).sum(axis=0)
        most = int(squares.max())
        if replace and cells > 1:
            most = 2 * most
        elif replace:
            most = max(most, int((squares[:, None] + squares[None, :] - 2 * (exact.T @ exact)).max()))
        return math.nextafter(math.sqrt(most), math.inf)


@lru_cache(maxsize=32)
def strategy(kind: str, size: int) -> Strategy:
    """A strategy by name."""
    matrix = _matrix(kind, size)
    workload = np.tril(np.ones((size, size)))
    if matrix.shape[0] == size:
        prefixes = np.linalg.solve(matrix.T.astype(np.float64), workload.T).T
    else:
        exact = matrix.astype(np.float64)
        prefixes = np.linalg.solve(exact.T @ exact, workload.T).T @ exact.T
    for array in (matrix, prefixes):
        array.flags.writeable = False
    return Strategy(kind, matrix, np.asarray(prefixes, dtype=np.float64), np.square(prefixes).sum(axis=1))


@lru_cache(maxsize=64)
def best_strategy(size: int, mechanism: MechanismName, *, replace: bool, cells: int) -> Strategy:
    """The strategy with the least mean variance of prefixes: a choice from public facts alone."""
    norm = 2 if mechanism == "gaussian" else 1

    def error(kind: str) -> float:
        candidate = strategy(kind, size)
        return candidate.radius(norm, replace=replace, cells=cells) ** 2 * float(candidate.variances.mean())

    fitting = [kind for kind in _KINDS[mechanism] if not kind.startswith("tree") or int(kind[4:]) < size]
    return strategy(min(fitting, key=error), size)


def _matrix(kind: str, size: int) -> NDArray[np.int64]:
    if kind == "toeplitz":
        entries, root = [], 1.0
        for k in range(size):
            entries.append(round(root * 2**_BITS))
            root *= (2 * k + 1) / (2 * k + 2)
        column = np.array([0] * (size - 1) + entries, dtype=np.int64)
        rows = np.arange(size)
        return np.asarray(column[rows[:, None] - rows[None, :] + size - 1])
    blocks = [np.eye(size, dtype=np.int64)]
    width = int(kind[4:]) if kind.startswith("tree") else size + 1
    while width < size:
        blocks.append((np.arange(size)[None, :] // width == np.arange(-(-size // width))[:, None]).astype(np.int64))
        width *= int(kind[4:])
    return np.concatenate(blocks)


# From noisy numbers to prefixes, shares and quantiles, with intervals: all of it post-processing.
#
# *Quantiles.* The p-quantile is the first level t with P(t) >= p N, P(t) the prefix and N the last one. What is
# tested is D(t) = P(t) - p N, one linear combination of the noise, and not the ratio P / N. The exact quantile q has
# D(q) >= 0 and D(q - 1) < 0. So with probability `level` at least, both noisy numbers are on the right side of z
# deviations, and q is among the t with D(t) >= -z s_t and D(t - 1) <= z s_(t - 1): the interval from the first such t
# to the last covers q at least as often as it says, for each quantile. All intervals together hold less often.
#
# *Shares.* P(t) / N lies where |P(t) - f N| <= z s(P(t) - f N): a quadratic in f (Fieller), cut to [0, 1]. Under
# Laplace noise P(t) and N each get half of the failure probability, and the extremes of their ratio count.
#
# *Estimates.* N, the last prefix, is the best linear estimate of the number of rows. With it held fixed, the others
# are the nearest (least squares) with 0 <= F_1 <= ... <= F_m = N: the isotonic fit of the first m - 1, cut to [0, N].
# If the fit could move F_m as well it would lift it, since noise above a flat end pulls it up and nothing pulls it
# down: shares would be too low and upper quantiles too high. As it is, levels in reverse order under the same noise
# give the mirror image: rows above a level are estimated as those up to one are. A total below 1 is held to 1, as in
# every ratio. So much of its noise is then known, and each prefix is corrected by its regression on it, cov(P, N) /
# var(N): the mirror stays. A quantile is where F reaches p N. It is about as often too high as too low; where rows
# are sparse, errors outwards are the larger ones.
#
# *Scales.* To first order a share f has the noise of (P - f N) / N.A quantile is at most t where the noise leaves
# D(t) >= 0. Were F exact, and the noise in D(t) normal, that has probability Phi(D(t) / s_t); the standard deviation
# under these probabilities, made rising where s_t varies, is the quantile's.
#
# *Laplace noise.* A combination with coefficients c exceeds t with probability at most exp(-s t) / prod(1 - s^2 c^2)
# for every s below 1 / max |c| (Chernoff): the least t over a list of s is a bound, a little wide.

Positions = NDArray[np.intp]
_SLOPES = np.concatenate([np.linspace(0.02, 0.9, 30), 1 - np.geomspace(0.09, 1e-6, 20)])
_FAR = 10.0  # standard deviations: what lies beyond has no part in a scale


@dataclass(frozen=True, eq=False)
class Prefixes:
    """The prefixes of one table: one row per group."""

    strategy: Strategy
    values: Floats
    scale: float
    mechanism: MechanismName
    level: float
    chosen: "ChosenLevels | None" = None

    @cached_property
    def counts(self) -> Floats:
        """The estimated prefixes: unbiased, and not held to anything."""
        return self.values @ self.strategy.prefixes.T

    def cumulative(self) -> tuple[Floats, Floats, Floats, Floats]:
        """The running counts, the two ends of their intervals, and the scale of their noise."""
        reach, scale = self._reach(1 - self.level), self.scale * np.sqrt(self.strategy.variances)
        return self.counts, self.counts - reach, self.counts + reach, np.broadcast_to(scale, self.counts.shape)

    def shares(self) -> tuple[Floats, Floats, Floats, Floats]:
        """The distribution function F / N, the two ends of its intervals, and the scale of its noise."""
        value = self.monotone / self._total
        low, high = self._ratios() if self.mechanism == "laplace" else self._fieller()
        scale = self._scale_of_difference(value) / self._total
        return value, np.minimum(low, value), np.maximum(high, value), scale

    def quantiles(self, probability: float, at: int = 0) -> tuple[Positions, Positions, Positions]:
        """The positions of the p-quantile, the probability at place `at`, of each group, and the ends of intervals."""
        tested = self.counts - probability * self.counts[:, -1:]
        reach = self._reach(1 - self.level, probability)
        position = self._reached(probability * self._total) if self.chosen is None else self.chosen.coarse[:, at]
        below = np.concatenate([np.full((len(tested), 1), -np.inf), (tested - reach)[:, :-1]], axis=1)
        possible = (tested >= -reach) & (below <= 0)
        possible[np.arange(len(tested)), position] = True
        last = possible.shape[1] - 1 - possible[:, ::-1].argmax(axis=1)
        return position, possible.argmax(axis=1), last

    def quantile_scales(self, probability: float, levels: Floats, at: int = 0) -> Floats:
        """The scale of the noise in the p-quantile of each group, to first order, in the unit of the levels."""
        unit = Mechanism.named(self.mechanism).deviation
        if self.chosen is not None:
            return self.chosen.deviations(self.monotone, at, levels) / unit
        deviation = unit * self._scale_of_difference(probability)
        apart = (self.monotone - probability * self._total)[:, :-1] / deviation[:-1]
        reached = ndtr(np.clip(apart, -_FAR, _FAR))
        rising = np.maximum.accumulate(reached, axis=1) + np.minimum.accumulate(reached[:, ::-1], axis=1)[:, ::-1]
        chances = np.diff(rising / 2, axis=1, prepend=0.0, append=1.0)
        errors = levels - chances @ levels[:, None]
        return np.asarray(np.sqrt(np.sum(chances * np.square(errors), axis=1)) / unit)

    @cached_property
    def _total(self) -> Floats:
        """The estimated number of rows of each group, held to at least 1."""
        return np.maximum(self.counts[:, -1:], 1.0)

    @cached_property
    def monotone(self) -> Floats:
        """The nearest prefixes that do not fall, from 0 up to the total: each group by itself."""
        from scipy.optimize import isotonic_regression

        rows, last = self.strategy.prefixes, self.strategy.prefixes[-1]
        corrected = self.counts + (self._total - self.counts[:, -1:]) * (rows @ last / (last @ last))
        fitted = np.array([isotonic_regression(row).x for row in corrected[:, :-1]])
        return np.concatenate([np.clip(fitted, 0.0, self._total), self._total], axis=1)

    def _reached(self, targets: Floats) -> Positions:
        """The first level of each group at which F is at least so many rows; the last one where none is."""
        enough = self.monotone >= targets
        return np.asarray(np.where(enough.any(axis=1), enough.argmax(axis=1), enough.shape[1] - 1))

    def _scale_of_difference(self, shares: Floats | float) -> Floats:
        """The scale of one noise with the standard deviation of that in P(t) - f N, for each level, with its own f."""
        rows, last = self.strategy.prefixes, self.strategy.prefixes[-1]
        squares = self.strategy.variances - 2 * shares * (rows @ last) + np.square(shares) * float(last @ last)
        return np.asarray(self.scale * np.sqrt(np.maximum(squares, 0.0)))

    def _reach(self, failure: float, probability: float = 0.0) -> Floats:
        """How far the noise in P(t) - p N reaches, on either side, but for this probability in all."""
        return self.scale * _unit_reach(self.strategy, self.mechanism, failure, probability)

    def _fieller(self) -> tuple[Floats, Floats]:
        rows, last = self.strategy.prefixes, self.strategy.prefixes[-1]
        z = -float(ndtri((1 - self.level) / 2)) * self.scale * (1 + 1e-3)  # more than half a step of the grid
        total = self.counts[:, -1:]
        a = np.square(total) - z**2 * float(last @ last)
        b = self.counts * total - z**2 * (rows @ last)
        c = np.square(self.counts) - z**2 * self.strategy.variances
        root = np.sqrt(np.maximum(np.square(b) - a * c, 0.0))
        with np.errstate(divide="ignore", invalid="ignore"):
            low, high = (b - root) / a, (b + root) / a
        sure = (a > 0) & (total > 0)
        return clipped_ends(np.where(sure, low, 0.0), np.where(sure, high, 1.0), 0.0, 1.0)

    def _ratios(self) -> tuple[Floats, Floats]:
        reach = self._reach((1 - self.level) / 2)
        fewest, most = (np.maximum(self.counts[:, -1:] + sign * reach[-1], 1.0) for sign in (-1, 1))
        low, high = self.counts - reach, self.counts + reach
        return clipped_ends(np.where(low > 0, low / most, 0.0), high / fewest, 0.0, 1.0)


@lru_cache(maxsize=256)
def _unit_reach(strategy: Strategy, mechanism: MechanismName, failure: float, probability: float) -> Floats:
    """The same for noise of scale 1, the rounding to its grid included."""
    coefficients = strategy.prefixes - probability * strategy.prefixes[-1]
    rounding = float(grid([1.0])[0]) * np.abs(coefficients).sum(axis=1)  # a step of the grid is at most this
    if mechanism == "gaussian":
        return np.asarray(-float(ndtri(failure / 2)) * np.sqrt(np.square(coefficients).sum(axis=1)) + rounding)
    most = np.abs(coefficients).max(axis=1)
    unit = np.square(coefficients / np.where(most > 0, most, 1.0)[:, None])
    bounds = [(math.log(2 / failure) - np.log1p(-(u**2) * unit).sum(axis=1)) / u for u in _SLOPES.tolist()]
    return np.asarray(np.min(bounds, axis=0) * most + rounding)
