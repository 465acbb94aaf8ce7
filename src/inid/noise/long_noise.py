"""Noise on numbers of any length, in whole grid steps: for sums over time, which float64 does not hold exactly."""

from collections.abc import Sequence
from fractions import Fraction
from typing import Literal

from inid.arguments import Floats
from inid.noise.exact_draws import draw, grid_exponent, nearest_steps
from inid.noise.grid_noise import GRID_BITS, check_scales
from inid.noise.law_tables import law
from inid.noise.source import RandomSource

__all__ = ["noisy_steps"]


def noisy_steps(
    values: Sequence[Fraction], scales: Floats, mechanism: Literal["laplace", "gaussian"], source: RandomSource
) -> list[int]:
    """What `add_noise` releases, as numbers of steps of `grid(scales)`, for exact numbers that no float need hold.

    Entry i, times its grid step, is the multiple nearest to values[i] + T_i with T_i of the exact continuous law. The
    values are neither rounded nor held to a limit before: the result is a function of what the textbook mechanism
    releases, and inherits its guarantee.

    Args:
        values: Numbers whose denominators are powers of two.
        scales: One positive number for each.
        mechanism: "laplace" or "gaussian".
        source: Where randomness comes from.

    >>> import numpy as np
    >>> from inid.noise import current_source
    >>> found = noisy_steps([Fraction(2**80)], np.array([1.0]), "gaussian", current_source())
    >>> abs(found[0] - 2**92) < 2**20
    True
    """
    table = law(mechanism)
    found = []
    for value, scale in zip(values, check_scales(scales).tolist(), strict=True):
        if source.silent:
            found.append(_on_grid(value, grid_exponent(scale, GRID_BITS)))
        else:
            found.append(nearest_steps(value, scale, draw(table, source), GRID_BITS))
    return found


def _on_grid(value: Fraction, exponent: int) -> int:
    """The nearest step without noise, for tests: halves go up."""
    scaled = value / Fraction(2) ** exponent
    return (scaled + Fraction(1, 2)).__floor__()
