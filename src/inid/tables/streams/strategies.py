"""Strategies of a stream: which whole-number combination of its periods each release is made of.

A stream of T periods with exact numbers x_1, ..., x_T releases u = C x + z, z fresh noise, C = S / 2^bits with S a
public lower triangular matrix of whole numbers. So what was released is never revised, and x^ = C^-1 u = x + C^-1 z has
noise that is correlated over time: later noise takes back part of the earlier.

**What one person costs** (T2, T3). In each period a person adds a vector of the period's set, for which the noise of
the period's plan spends at most mu^2 (Gaussian) or epsilon (Laplace). A person who is in at most k periods moves the
releases by sums over k columns of C. In units of the noise the sum of squares is at most mu^2 times

    r^2 = max over k columns of the sum over pairs of them of |<C_i, C_j>|

by Cauchy-Schwarz in the period's own norm, whatever vectors the periods have; and the sum of absolute values is at most
epsilon times k max_j |C_j|_1. Each strategy is scaled until r^2, or that number, is at most 1, which `verify` proves in
whole numbers. Then the stream as a whole keeps the promise of its period's plan.

**Lost releases.** Where a release is lost the stream goes on as if it began anew: later ones leave out the periods
before. That replaces entries of S by 0. Lengths of columns only shrink by it, and where all entries are at least 0, so
do products.

Two kinds of them:

`Toeplitz`: S[t, j] = c_(t-j) m_j. With c the root of the running sum and m_j such that all columns have one length it
is near the optimum for totals (1 % to 1.5 %). c = (1, 0, 0, ...) are independent periods.
*k columns.* For c not negative and not growing, the largest sum is that of the first k columns: let p_1 < ... < p_k be
any columns and q_l = l - 1. For l < m, <C_p_l, C_p_m> = sum over r from 0 to T - 1 - p_m of c_r c_(r + p_m - p_l), and
as q_m <= p_m and q_m - q_l <= p_m - p_l the same sum for q has more terms, none smaller. With multipliers m_j the
largest of them bounds all, since no entry is negative.

`Tree`: release t is the sum of the last b^v periods, b^v the largest power of the base that divides t. A total over t
periods is a sum of as many releases as t has units in its digits, and a period is in one release per level at most.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, Literal

import numpy as np

from inid.arguments import Floats
from inid.errors import GuaranteeError
from inid.mechanisms import MechanismName
from inid.numbers.sums import binomial_series, reciprocal, square_root_coefficients

Want = Literal["totals", "windows", "periods"]

_COEFFICIENT_BITS = 12  # 8 bits cost a thousandth of a per cent of error already
_MOST_SUMS = 1000  # whose mean error is taken, of strategies for which all would take long
_SCALE_BITS = 14  # of the factor by which a strategy is brought to length 1


@dataclass(frozen=True)
class Strategy(ABC):
    """A public lower triangular matrix of whole numbers, over 2^bits."""

    periods: int
    bits: int

    @abstractmethod
    def measurement_weights(self, at: int) -> list[int]:
        """The whole numbers by which the periods 0, ..., `at` enter the release of period `at`; the last is not 0."""

    @abstractmethod
    def reconstruction_weights(self, at: int) -> Floats:
        """By what the releases 0, ..., `at` enter the estimate of period `at`, where none was lost."""

    @abstractmethod
    def length(self, contributes: int, mechanism: MechanismName) -> Fraction:
        """r^2 of Gaussian noise, k max_j |C_j|_1 of Laplace noise: at most so much of a period's promise is spent."""

    def verify(self, contributes: int, mechanism: MechanismName) -> Fraction:
        """Prove that people who are in at most so many periods cost no more than the plan of one period promises."""
        spent = self.length(contributes, mechanism)
        if not spent <= 1:
            raise GuaranteeError(
                f"the strategy of the stream spends {float(spent):.6g} of its promise on somebody who is in "
                f"{contributes} periods: plan the stream anew."
            )
        return spent

    def spread(self, want: Want, window: int = 1) -> Floats:
        """The standard deviations of all sums of the workload, in units of the noise of one release, if none is lost.

        Totals after each period, sums over each `window` periods in a row (fewer at the beginning), or single periods.
        """
        return self._walk(want, window, 1)

    def error(self, want: Want, window: int = 1) -> float:
        """The root mean square of these standard deviations."""
        return math.sqrt(float(np.square(self.spread(want, window)).mean()))

    def _walk(self, want: Want, window: int, every: int) -> Floats:
        """The standard deviations of every so many-th of the sums, the middle one of as many, release by release."""
        length = {"totals": self.periods, "windows": window, "periods": 1}[want]
        weights, noise_levels = np.zeros(self.periods), []
        for at in range(self.periods):
            self._add_measurement(weights, at, 1.0)
            if at >= length:
                self._add_measurement(weights, at - length, -1.0)
            if at % every == every // 2:
                noise_levels.append(math.sqrt(float(weights[: at + 1] @ weights[: at + 1])))
        return np.array(noise_levels)

    def _add_measurement(self, weights: Floats, at: int, sign: float) -> None:
        weights[: at + 1] += sign * self.reconstruction_weights(at)

    @property
    @abstractmethod
    def name(self) -> str:
        """What it is, in words."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """A JSON-safe dictionary, of which `strategy_from_dict` makes the same strategy."""


@dataclass(frozen=True)
class Toeplitz(Strategy):
    """S[t, j] = coefficients[t - j] * multipliers[j]."""

    coefficients: tuple[int, ...]
    multipliers: tuple[int, ...]

    def measurement_weights(self, at: int) -> list[int]:
        turned = self.coefficients[at::-1] if at else self.coefficients[:1]
        return [c * m for c, m in zip(turned, self.multipliers[: at + 1], strict=True)]

    def reconstruction_weights(self, at: int) -> Floats:
        return self._inverse[self.periods - 1 - at :] * (2.0**self.bits / self.multipliers[at])

    @cached_property
    def _inverse(self) -> Floats:
        """The reciprocal series, its last coefficient first: the weights of a period are then plain slices of it."""
        inverse = reciprocal(np.array(self.coefficients, dtype=np.float64))
        return np.ascontiguousarray(inverse[::-1])

    @property
    def is_independent(self) -> bool:
        """Whether each release is of its own period alone."""
        return not any(self.coefficients[1:])

    def spread(self, want: Want, window: int = 1) -> Floats:
        """See `Strategy.spread`; without a walk over all for single periods, and where all columns are alike."""
        factors = 2.0**self.bits / np.array(self.multipliers, dtype=np.float64)
        series = self._inverse[::-1]
        if want != "periods":
            if len(set(self.multipliers)) > 1:
                return super().spread(want, window)
            series = series.cumsum()
            if want == "windows":
                series[window:] -= series[: max(series.size - window, 0)].copy()
        return np.asarray(np.sqrt(np.square(series).cumsum()) * factors)

    def error(self, want: Want, window: int = 1) -> float:
        """See `Strategy.error`; of many periods whose columns differ, over some of the sums, evenly spread.

        Neighbouring sums differ by little, so that a thousand of them have the mean of all to three digits.
        """
        every = max(1, self.periods // _MOST_SUMS)
        if want == "periods" or every == 1 or len(set(self.multipliers)) == 1:
            return super().error(want, window)
        return math.sqrt(float(np.square(self._walk(want, window, every)).mean()))

    def _add_measurement(self, weights: Floats, at: int, sign: float) -> None:
        from scipy.linalg.blas import daxpy

        factor = sign * 2.0**self.bits / self.multipliers[at]
        daxpy(self._inverse, weights, n=at + 1, a=factor, offx=self.periods - 1 - at)

    def length(self, contributes: int, mechanism: MechanismName) -> Fraction:
        """See `Strategy.length` and the proof above."""
        if mechanism == "laplace":
            longest = max(self.multipliers) * sum(map(abs, self.coefficients))
            return Fraction(contributes * longest, 2**self.bits)
        if contributes == 1:
            ends = _running([c * c for c in self.coefficients])
            columns = (m * m * end for m, end in zip(self.multipliers, reversed(ends), strict=True))
            return Fraction(max(columns), 4**self.bits)
        if not all(one >= other >= 0 for one, other in zip(self.coefficients, self.coefficients[1:], strict=False)):
            raise GuaranteeError("coefficients of a strategy for several periods of a person must not grow.")
        sums = _running(list(self.coefficients))
        several = [end - (sums[at - contributes] if at >= contributes else 0) for at, end in enumerate(sums)]
        return Fraction(max(self.multipliers) ** 2 * sum(s * s for s in several), 4**self.bits)

    @property
    def name(self) -> str:
        return "independent periods" if self.is_independent else "correlated over time"

    def to_dict(self) -> dict[str, Any]:
        lists = {"coefficients": list(self.coefficients), "multipliers": list(self.multipliers)}
        return {"kind": "toeplitz", "periods": self.periods, "bits": self.bits, **lists}


@dataclass(frozen=True)
class Tree(Strategy):
    """Release t, counted from 1, is a multiple of the sum of the last b^v periods, b^v the largest power dividing t."""

    base: int
    multiplier: int

    def measurement_weights(self, at: int) -> list[int]:
        node_size = self._size(at + 1)
        return [0] * (at + 1 - node_size) + [self.multiplier] * node_size

    def reconstruction_weights(self, at: int) -> Floats:
        """See `Strategy.reconstruction_weights`: the release less those that make up the earlier periods in it."""
        weights = np.zeros(at + 1)
        weights[at] = 1.0
        inside, first = at, at + 1 - self._size(at + 1)
        while inside > first:
            weights[inside - 1] = -1.0
            inside -= self._size(inside)
        return weights * (2.0**self.bits / self.multiplier)

    def spread(self, want: Want, window: int = 1) -> Floats:
        """See `Strategy.spread`; a total is made of as many releases as its number has units in its digits."""
        if want != "totals":
            return super().spread(want, window)
        rest, units = np.arange(1, self.periods + 1), np.zeros(self.periods)
        while rest.any():
            units += rest % self.base
            rest = rest // self.base
        return np.asarray(np.sqrt(units) * (2.0**self.bits / self.multiplier))

    def length(self, contributes: int, mechanism: MechanismName) -> Fraction:
        """See `Strategy.length`: k columns are at most k times as long as the longest."""
        most, levels = contributes * self.multiplier, 1
        while self.base**levels <= self.periods:
            levels += 1
        if mechanism == "laplace":
            return Fraction(most * levels, 2**self.bits)
        return Fraction(most * most * levels, 4**self.bits)

    def _size(self, number: int) -> int:
        size = 1
        while number % (size * self.base) == 0:
            size *= self.base
        return size

    @property
    def name(self) -> str:
        return f"a tree of base {self.base}"

    def to_dict(self) -> dict[str, Any]:
        fields = {"base": self.base, "multiplier": self.multiplier}
        return {"kind": "tree", "periods": self.periods, "bits": self.bits, **fields}


def scaled_toeplitz(series: Floats, contributes: int, mechanism: MechanismName, *, even: bool = False) -> Toeplitz:
    """The strategy of a series, its first coefficient 1, rounded to whole numbers and brought to length 1."""
    coefficients = tuple(int(c) for c in np.rint(series * 2.0**_COEFFICIENT_BITS).tolist())
    if not any(coefficients[1:]):
        coefficients = (1, *coefficients[1:])
    size = len(coefficients)
    if even:
        ends = _running([c * c for c in coefficients])
        bits = math.isqrt(ends[-1]).bit_length() + _SCALE_BITS
        return Toeplitz(size, bits, coefficients, tuple(math.isqrt(4**bits // end) for end in reversed(ends)))
    one = Toeplitz(size, 0, coefficients, (1,) * size)
    bits, factor = _to_length_one(one.length(contributes, mechanism), mechanism)
    return Toeplitz(size, bits, coefficients, (factor,) * size)


def scaled_tree(periods: int, base: int, contributes: int) -> Tree:
    """A tree for Laplace noise, brought to length 1."""
    bits, factor = _to_length_one(Tree(periods, 0, base, 1).length(contributes, "laplace"), "laplace")
    return Tree(periods, bits, base, factor)


def strategy_from_dict(record: dict[str, Any]) -> Strategy:
    """The strategy that `to_dict` described; nothing is proved of it yet."""
    periods, bits = int(record["periods"]), int(record["bits"])
    if record["kind"] == "tree":
        tree = Tree(periods, bits, int(record["base"]), int(record["multiplier"]))
        if not (tree.base >= 2 and tree.multiplier > 0):  # lengths are those of such trees
            raise ValueError("the strategy is no tree.")
        return tree
    coefficients, multipliers = (tuple(map(int, record[name])) for name in ("coefficients", "multipliers"))
    if not (record["kind"] == "toeplitz" and len(coefficients) == len(multipliers) == periods and coefficients[0]):
        raise ValueError("the strategy does not have one measurement for each period.")
    if min(multipliers) <= 0:  # the largest of them bounds all
        raise ValueError("a multiplier of the strategy is not positive.")
    return Toeplitz(periods, bits, coefficients, multipliers)


def _to_length_one(length: Fraction, mechanism: MechanismName) -> tuple[int, int]:
    """Bits and the largest whole factor f with which f / 2^bits brings a whole length (squared, if Gaussian) to 1."""
    total = length.numerator
    if mechanism == "laplace":
        bits = total.bit_length() + _SCALE_BITS
        return bits, 2**bits // total
    bits = math.isqrt(total).bit_length() + _SCALE_BITS
    return bits, math.isqrt(4**bits // total)


def _running(values: Sequence[int]) -> list[int]:
    sums, total = [], 0
    for value in values:
        total += value
        sums.append(total)
    return sums


# Which strategy a stream takes: the one with the least error of the workload, independent periods among them.

_POWERS = tuple(at / 20 for at in range(1, 21))
_DAMPINGS = (*(1 - 10 ** -(0.3 + at / 3) for at in range(14)), 1.0)
_TRIED = 6  # of many strategies whose error is known but for rounding, so many are made and compared


@dataclass(frozen=True, eq=False)
class Choice:
    """The strategy that was chosen, and independent periods beside it."""

    strategy: Strategy
    independent: Toeplitz
    want: Want
    window: int
    error: float
    independent_error: float

    @property
    def gain(self) -> float:
        """How many times larger the error of independent periods is."""
        return self.independent_error / self.error


def choose_strategy(
    periods: int, contributes: int, mechanism: MechanismName, want: Want = "totals", window: int = 1
) -> Choice:
    """The strategy with the least root mean square error of the workload."""
    independent = independent_periods(periods, contributes, mechanism)
    candidates: Iterator[Strategy]
    if mechanism == "laplace":
        candidates = _trees(periods, contributes)
    elif contributes == 1:
        candidates = _even_columns(periods, want, window)
    else:
        candidates = _families(periods, contributes, want, window)
    first = (independent.error(want, window), independent)
    best: tuple[float, Strategy] = first
    for candidate in () if want == "periods" else candidates:  # independent noise is the best for single periods
        error = candidate.error(want, window)
        if error < best[0]:
            best = (error, candidate)
    return Choice(best[1], independent, want, window, best[0], first[0])


def independent_periods(periods: int, contributes: int, mechanism: MechanismName) -> Toeplitz:
    """Noise for each period by itself."""
    alone = np.zeros(periods)
    alone[0] = 1.0
    return scaled_toeplitz(alone, contributes, mechanism)


def _even_columns(periods: int, want: Want, window: int) -> Iterator[Strategy]:
    """The root of the running sum; for windows also the root of the window's own sum, and damped ones."""
    yield scaled_toeplitz(square_root_coefficients(periods), 1, "gaussian", even=True)
    if want == "windows" and window < periods:
        # sqrt((1 - x^w) / (1 - x)), whose square is the series of sums over w periods.
        from scipy.signal import fftconvolve

        column = np.zeros(periods)
        column[::window] = binomial_series(1.0, -0.5, len(column[::window]))
        both = fftconvolve(column, square_root_coefficients(periods))[:periods]
        yield scaled_toeplitz(both, 1, "gaussian", even=True)
        yield scaled_toeplitz(binomial_series(1 - 1 / (4 * window), 0.5, periods), 1, "gaussian", even=True)


def _families(periods: int, contributes: int, want: Want, window: int) -> Iterator[Strategy]:
    """(1 - a x)^-g, which does not grow: of all, the few with the least error before rounding."""
    length = periods if want == "totals" else window
    families = []
    for power in _POWERS:
        for damping in _DAMPINGS:
            several = _moving_sums(binomial_series(damping, power, periods), contributes)
            weights = _moving_sums(binomial_series(damping, -power, periods), length)
            error = _rms(np.sqrt(np.square(weights).cumsum()))
            families.append((error * float(np.linalg.norm(several)), damping, power))
    for _, damping, power in sorted(families)[:_TRIED]:
        yield scaled_toeplitz(binomial_series(damping, power, periods), contributes, "gaussian")


def _moving_sums(series: Floats, length: int) -> Floats:
    """The sums over the last so many coefficients."""
    sums = np.cumsum(series)
    moving = sums.copy()
    moving[length:] -= sums[: max(sums.size - length, 0)]
    return moving


def _trees(periods: int, contributes: int) -> Iterator[Strategy]:
    """For each number of levels the trees of the least bases that have no more, and of some a little larger."""
    bases: set[int] = set()
    for levels in range(2, periods.bit_length() + 1):
        least = 2
        while least**levels <= periods:
            least += 1
        bases |= {least, least + 1, least + 2, least * 9 // 8, least * 5 // 4}
    for base in sorted(bases):
        yield scaled_tree(periods, base, contributes)


def _rms(deviations: Floats) -> float:
    return math.sqrt(float(np.square(deviations).mean()))
