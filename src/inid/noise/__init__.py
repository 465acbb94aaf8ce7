"""Exactly Laplace or Gaussian noise, rounded to a public grid; the only place that draws randomness.

Start reading at `add_noise`.

    grid_noise       add_noise: values plus noise, rounded to the grid; its step and the limits, from the scale alone
    source           random bits: AES in counter mode, keyed by the operating system
    law_tables       the two tables of whole numbers from which a distribution is drawn
    density          the two densities, enclosed between integers
    vector_draws     whole arrays in floating point, where floats can decide
    compiled_draws   the same loops compiled, when numba is installed
    exact_draws      whole numbers of any length, where floats cannot decide
    long_noise       noise on numbers that no float holds, in whole grid steps
    prepared_noise   noise drawn ahead of the values it is for
    noisy_argmax     which of many noisy scores is the largest, decided exactly
"""

from inid.noise.grid_noise import add_noise, effective_scales, grid, limits
from inid.noise.source import RandomSource, current_source

__all__ = ["RandomSource", "add_noise", "current_source", "effective_scales", "grid", "limits"]
