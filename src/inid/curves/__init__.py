"""The privacy curve of one release, or of several fixed in advance: certified bounds and a fast estimate.

Describe what is released with `Loss`, `Subsampled` and `Composed`; ask with `certified_delta` and `certified_epsilon`
(upper bounds: the guarantee), `delta_bounds` and `epsilon_bounds` (from both sides), or `delta_estimate` and
`epsilon_estimate` (for searching, no guarantee). `renyi` bounds the Renyi divergence. Start reading in `bounds`.

    description         what is released
    bounds              the public functions
    closed_forms        one ratio, Gaussian noise, one subsampled step
    directed_curve      one direction (removal, addition) and its contours
    contour             inversion of the transform along a line, every error term
    saddle_point        where to draw the line
    laplace_transform   the transform of Laplace losses; negligible_nodes: a quick bound on it
    ratio_groups        a million ratios become a thousand
    subsampling         subsampled steps as discretised distributions, with loss_cells and lattice
    renyi               Renyi divergences
    noise_multiplier    the least noise that keeps a promise over subsampled steps

The rounding model stands in `inid.numbers.rounding`.
"""

from inid.curves.bounds import (
    certified_delta,
    certified_epsilon,
    delta_bounds,
    delta_estimate,
    each_level,
    epsilon_bounds,
    epsilon_estimate,
)
from inid.curves.description import Composed, Loss, PrivacyLoss, Subsampled
from inid.curves.noise_multiplier import least_noise_multiplier
from inid.curves.renyi import renyi, renyi_laplace, renyi_subsampled_gaussian, renyi_subsampled_laplace

__all__ = [
    "Composed",
    "Loss",
    "PrivacyLoss",
    "Subsampled",
    "certified_delta",
    "certified_epsilon",
    "delta_bounds",
    "delta_estimate",
    "each_level",
    "epsilon_bounds",
    "epsilon_estimate",
    "least_noise_multiplier",
    "renyi",
    "renyi_laplace",
    "renyi_subsampled_gaussian",
    "renyi_subsampled_laplace",
]
