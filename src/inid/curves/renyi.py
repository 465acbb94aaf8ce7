"""Renyi divergence of a release, from the same closed-form transforms."""

import numpy as np

from inid import arguments
from inid.curves.contour import Transform
from inid.curves.losses import PrivacyLoss, flatten
from inid.errors import ArgumentError
from inid.numbers.rounding import UNIT, above

__all__ = ["renyi"]


@np.errstate(under="ignore")
def renyi(loss: PrivacyLoss, order: float) -> float:
    """An upper bound on the Renyi divergence of a given order between the two sides of the dominating pair.

    Statement: R_a = a mu^2 / 2 + sum of log M_e(a-1) / (a-1) over the Laplace ratios (E7), rounded up by an explicit
    bound on the rounding error. Assumes order a > 1. Guarantee: never below the exact value, under the rounding model
    of `curves.rounding`; sums over releases bound the divergence of their adaptive composition at the same order.
    Bad input, and a subsampled step with a rate below 1, raise ArgumentError.

    >>> from inid.curves import Loss
    >>> 2.0 < renyi(Loss(mu=1.0), 4.0) < 2.0 + 1e-12
    True
    """
    order = arguments.real("order", order, above=1, cure="pass a Renyi order greater than 1, for example order=8")
    flat = flatten(loss)
    if flat.steps:
        raise ArgumentError(
            "loss must not hold a subsampled step: charge it through its (epsilon, delta) curve instead."
        )
    transform = Transform(np.asarray(flat.ratios), flat.counts, 0.0)
    if not flat.ratios.size:
        return above(order * flat.variance / 2) if flat.variance > 0 else 0.0
    shifted = order - 1
    # (a-1) is exact down to a rounding of UNIT * a, which moves log M by at most that times the sum of the ratios.
    slack = transform.moment_slack(shifted) + 2 * UNIT * order * transform.distance(0.0)[0]
    part = above(max(transform.log_moment(shifted) + slack, 0.0) / shifted)
    return min(part, above(transform.distance(0.0)[0])) + above(order * flat.variance / 2)
