"""Intervals for the coefficients of least squares and ridge, by a parametric bootstrap over the known noise.

Statement. The coefficients w of exact moments solve (G + P) w = c, P being the penalty. From noisy G + E and c + e the
estimate v solves (G + E + P) v = c + e, so v - w = (G + P)^-1 (e - E v), exactly. The law of E and e is public, so
errors are drawn from it (and from that of a sample's moments, if asked). Each draw taken off the released moments is
what the exact ones may have been, G among them, and says by how much v would then be off; the quantiles of that make
the interval. Where noise is large, so that a draw leaves no G that could be one, it is repaired as a release is.

Why not to first order, with G as released: a G that noise made too large then makes the intervals too short (measured
with the error of the rows, three columns, 5,000 rows, epsilon = 1: 92 % instead of 95). Why not solve noisier equations
anew for each draw: raised eigenvalues hold the solutions of very noisy equations together, and their spread says little
of the error (77 to 92 % on ten columns and 20,000 rows).
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from inid.arguments import Floats, real, shown
from inid.errors import ArgumentError
from inid.learn.noise_splitting import disturbed
from inid.learn.normal_equations import Equations, Normal, least_squares

__all__ = ["coefficient_bounds"]

_DRAWS = 400


def coefficient_bounds(
    equations: Equations, penalty: Callable[[Normal], Floats | float], level: float, *, sampling: bool, laplace: bool
) -> tuple[Floats, Floats]:
    """The ends of the intervals, in public units, a row for each target.

    Args:
        equations: The released moments.
        penalty: P of one target's equations, its diagonal.
        level: The probability of each interval.
        sampling: Whether the sampling error of the rows counts too.
        laplace: Whether the noise is Laplace's.
    """
    inside = real("level", level, above=0, cure="pass a probability such as 0.95")
    if not inside < 1:
        raise ArgumentError(f"level must be a probability below 1, got {shown(level)}: pass 0.95, say.")
    width, normals = equations.width, equations.normal()
    found = np.array([least_squares(one, penalty(one)) for one in normals])
    released = equations.covariance(equations.moments).second
    errors = np.zeros((_DRAWS, *found.shape))
    drawn = disturbed(equations.moments, _DRAWS, noise=True, sampling=sampling, laplace=laplace)
    for at, (_, likely) in enumerate(drawn):
        error = released - equations.covariance(likely).second
        moved = error[width:, :width] - found @ error[:width, :width]
        for k, normal in enumerate(replace(equations, moments=likely).normal()):
            hessian = normal.gram + penalty(normal) * np.eye(width)
            errors[at, k] = np.linalg.lstsq(hessian, moved[k], rcond=None)[0]
    # Of n draws, one more falls between the k-th and the l-th smallest with probability (l - k) / (n + 1).
    low, high = np.quantile(errors, [(1 - inside) / 2, (1 + inside) / 2], axis=0, method="weibull")
    return found - high, found - low
