"""Exactly Laplace or Gaussian noise, rounded to a public grid; the only place that draws randomness.

Start reading at `add_noise` in `grid_noise`.
"""

from inid.noise.compiled_draws import available
from inid.noise.exact_draws import Draw, Uniform, below_rest, draw, draw_tail, noisy_argmax, round_sum
from inid.noise.grid_noise import (
    GRID_BITS,
    LARGEST_SCALE,
    SMALLEST_SCALE,
    add_noise,
    effective_scales,
    grid,
    limits,
    noisy,
    noisy_steps,
)
from inid.noise.law_tables import Law, Layout, decay, density, law
from inid.noise.prepared_noise import PreparedNoise
from inid.noise.source import RandomSource, SharedSource, current_source, source_in_use
from inid.noise.staircase import BlockLaw, StepTable, add_block_noise, draw_blocks, step_table, uniform_within

__all__ = ["RandomSource", "add_noise", "current_source", "effective_scales", "grid", "limits"]
