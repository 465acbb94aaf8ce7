"""The privacy curve of one release, or of several fixed in advance: certified bounds and a fast estimate.

Describe what is released with `Loss`, `Subsampled` and `Composed`; ask with `delta_bounds` and `epsilon_bounds`
(certified) or `delta_estimate` and `epsilon_estimate` (for searching). `renyi` bounds the Renyi divergence. Start
reading in `bounds`.

    losses       what is released
    bounds       the public functions
    contour      inversion along a line, every error term
    laplace      the transform of Laplace losses; screening: a quick bound on it
    grouping     a million ratios become a thousand
    components, subsampling, lattice     subsampled steps as discretised distributions
    aiming       where to draw a contour
    rounding     the rounding model
"""

from inid.curves.bounds import delta_bounds, delta_estimate, epsilon_bounds, epsilon_estimate
from inid.curves.losses import Composed, Loss, PrivacyLoss, Subsampled
from inid.curves.renyi import renyi, renyi_laplace, renyi_subsampled_gaussian, renyi_subsampled_laplace

__all__ = [
    "Composed",
    "Loss",
    "PrivacyLoss",
    "Subsampled",
    "delta_bounds",
    "delta_estimate",
    "epsilon_bounds",
    "epsilon_estimate",
    "renyi",
    "renyi_laplace",
    "renyi_subsampled_gaussian",
    "renyi_subsampled_laplace",
]
