"""Which strategy a stream takes: the one with the least error of what is wanted, independent periods among them."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from inid.arguments import Floats
from inid.mechanisms import MechanismName
from inid.numbers.series import binomial_series, square_root_coefficients
from inid.tables.streams.strategies import Strategy, Toeplitz, Want, scaled_toeplitz, scaled_tree

__all__ = ["Choice", "choose_strategy", "independent_periods"]

_POWERS = tuple(at / 20 for at in range(1, 21))
_DAMPINGS = (*(1 - 10 ** -(0.3 + at / 3) for at in range(14)), 1.0)
_TRIED = 6  # of many strategies whose error is known but for rounding, so many are made and compared


@dataclass(frozen=True, eq=False)
class Choice:
    """The strategy that was chosen, and independent periods beside it.

    Attributes:
        strategy: The one with the least error of what is wanted.
        independent: The same noise without correlation.
        want: For what it was chosen.
        window: How many periods are in a window.
        error: The root mean square of the standard deviations of all wanted sums, in units of one release's noise.
        independent_error: The same of independent periods.
    """

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
    """The strategy with the least root mean square error of all wanted sums.

    Args:
        periods: How many there are.
        contributes: In how many of them one person is at most.
        mechanism: "gaussian", or "laplace" under pure DP.
        want: What is to be accurate.
        window: How many periods a wanted window has.

    >>> made = choose_strategy(12, 1, "gaussian")
    >>> round(made.error, 2), round(made.gain, 2)
    (1.62, 1.57)
    >>> choose_strategy(12, 12, "gaussian").strategy.name
    'independent periods'
    """
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
        from scipy.signal import fftconvolve  # it takes a while to load

        own = np.zeros(periods)
        own[::window] = binomial_series(1.0, -0.5, len(own[::window]))
        both = fftconvolve(own, square_root_coefficients(periods))[:periods]
        yield scaled_toeplitz(both, 1, "gaussian", even=True)
        yield scaled_toeplitz(binomial_series(1 - 1 / (4 * window), 0.5, periods), 1, "gaussian", even=True)


def _families(periods: int, contributes: int, want: Want, window: int) -> Iterator[Strategy]:
    """(1 - a x)^-g, which does not grow: of all, the few with the least error before rounding."""
    length = periods if want == "totals" else window
    found = []
    for power in _POWERS:
        for damping in _DAMPINGS:
            several = _moving_sums(binomial_series(damping, power, periods), contributes)
            weights = _moving_sums(binomial_series(damping, -power, periods), length)
            error = _rms(np.sqrt(np.square(weights).cumsum()))
            found.append((error * float(np.linalg.norm(several)), damping, power))
    for _, damping, power in sorted(found)[:_TRIED]:
        yield scaled_toeplitz(binomial_series(damping, power, periods), contributes, "gaussian")


def _moving_sums(series: Floats, length: int) -> Floats:
    """The sums over the last so many coefficients."""
    sums = np.cumsum(series)
    found = sums.copy()
    found[length:] -= sums[: max(sums.size - length, 0)]
    return found


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
