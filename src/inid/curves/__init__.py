"""The privacy curve of one release, or of several fixed in advance: certified bounds and a fast estimate.

`Loss`, `Subsampled` and `Composed` describe what is released; `bounds` has the functions that answer: start there.
"""

from inid.curves.bounds import (
    DirectedCurve,
    certified_delta,
    certified_epsilon,
    delta_bounds,
    delta_estimate,
    directed_curves,
    each_level,
    epsilon_bounds,
    epsilon_estimate,
)
from inid.curves.contour import Aim, Transform, aim, draw, nodes_for, short
from inid.curves.description import Composed, Loss, PrivacyLoss, Subsampled, flatten, merged, spread_and_mean
from inid.curves.laplace_transform import along_line, screen, total
from inid.curves.lattice import GaussianPart, LaplacePart, amplified, connected, restored, rounded_down
from inid.curves.noise_multiplier import least_noise_multiplier
from inid.curves.renyi import renyi, renyi_laplace, renyi_subsampled_gaussian, renyi_subsampled_laplace
from inid.curves.subsampling import largest, lattices

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
