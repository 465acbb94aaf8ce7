"""Noise of the exact law on a public grid, and the one door through which randomness enters.

Start reading at `noise.add_noise`; `tables` says how a law is drawn, `exact` decides what the first bits do not.
"""

from inid.noise.adding import add_noise
from inid.noise.grids import effective_scales, grid, limits
from inid.noise.source import RandomSource, current_source

__all__ = ["RandomSource", "add_noise", "current_source", "effective_scales", "grid", "limits"]
