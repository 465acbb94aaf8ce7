"""The steps of a coordinate descent: noisy sums of gradients in, coefficients out."""

import math

import numpy as np

from inid.arguments import Floats
from inid.learn.clipped_gradients import Gradients, short
from inid.noise.prepared_noise import PreparedNoise

__all__ = ["descend"]

_FARTHEST = 2.0**300  # no coefficient times its column's size goes beyond, so no product of floats overflows


def descend(
    gradients: Gradients,
    drawn: PreparedNoise,
    passes: int,
    *,
    averaged: int,
    moves: Floats,
    sizes: Floats,
    l1: Floats,
    l2: Floats,
) -> Floats:
    """Proximal coordinate steps: w_i becomes prox(w_i - moves_i * noisy sum of gradients).

    The mean of what the last passes found, `averaged` of them: each has noise of its own, so the mean has less.
    (An l1 penalty makes zeros, which a mean would lose.)
    """
    count = len(moves)
    farthest = (_FARTHEST / sizes).tolist()
    steps, room, one, two = moves.tolist(), sizes.tolist(), (moves * l1[:count]).tolist(), (moves * l2[:count]).tolist()
    # `w` is where the gradients are taken, and within rounding of `found`, which the proximal steps give.
    w, found, total = [0.0] * count, [0.0] * count, np.zeros(count)
    for step, i in enumerate([*range(count)] * passes):
        moved = w[i] - steps[i] * drawn.add(gradients.sum(i))
        moved = math.copysign(max(abs(moved) - one[i], 0.0), moved) / (1 + two[i])
        found[i] = min(max(-farthest[i], moved), farthest[i])  # in this order NaN becomes a number as well
        by = short(found[i] - w[i], room[i])
        gradients.move(i, by)
        w[i] += by
        if i == count - 1 and step >= count * (passes - averaged):
            total += np.array(found) / averaged
    return total
