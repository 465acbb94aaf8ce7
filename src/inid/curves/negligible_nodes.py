"""A quick upper bound on |Z| at many equally spaced nodes, so that only the few that matter are computed with care.

With many ratios almost every node far from the real axis is negligible, but each has to be *shown* to be. The bound
needs no accuracy, only a side: |Z|^2 = |1-w|^2 + |w|^2 d^2 + 2 d Re(conj(1-w) w exp(-2iue)), d = exp(-(2a+1)e),
w = s/(2s+1), where the unit circle's points come from two short tables by one multiplication, and the rounding error is
added.
"""

import math

import numpy as np
from numpy.typing import NDArray

from inid.numbers.rounding import ELEMENTARY

__all__ = ["screen"]

Floats = NDArray[np.float64]

_BLOCK = 32  # nodes of one block
_CHUNK = 16  # ratios looked at together
_FACTORS = 256  # ratios looked at in all
_SLAB = 1 << 15


def screen(
    order: float, step: float, logs: Floats, ratios: Floats, counts: Floats, references: Floats, floor: float
) -> Floats:
    """Upper bounds on logs + sum of counts (log|Z(a + i j step)| - references) over some of the ratios, j = 0, 1, ...

    `references` hold log Z(a) >= log|Z(a + iu)|, so leaving ratios out keeps the bound. Blocks of nodes that have all
    fallen below `floor` are not followed further.

    Rounding: the four products and the tables are exact to ELEMENTARY and the angles u e to a relative 4 UNIT, so the
    computed |Z|^2, whose parts are at most 1, is off by at most ELEMENTARY (2 + u e); that is added. Sums and
    logarithms are covered by the last line, which moves every bound towards 0 by a millionth of itself and
    a millionth more.
    """
    bounds = np.concatenate((logs, np.full(-logs.size % _BLOCK, -math.inf))).reshape(-1, _BLOCK)
    u = step * np.arange(bounds.size, dtype=np.float64).reshape(bounds.shape)
    scale = (2 * order + 1) ** 2 + 4 * u * u
    keep, swing = ((order + 1) ** 2 + u * u) / scale, (order * order + u * u) / scale  # |1-w|^2 and |w|^2
    cross_real, cross_imaginary = (order * (order + 1) + u * u) / scale, u / scale  # conj(1-w) w
    inner = step * np.arange(_BLOCK, dtype=np.float64)
    for at in range(0, min(ratios.size, _FACTORS), _CHUNK):
        e, n = ratios[at : at + _CHUNK], counts[at : at + _CHUNK]
        decay = np.exp(-(2 * order + 1) * e)
        alive = np.flatnonzero((bounds >= floor).any(axis=1))
        if not alive.size:
            break
        cosine, sine = np.cos(2 * np.multiply.outer(inner, e)), np.sin(2 * np.multiply.outer(inner, e))
        same = n.min() == n.max()
        reference = float(n @ references[at : at + _CHUNK]) * (
            1 + 8 * ELEMENTARY
        )  # negative: this makes the bound larger
        rows = max(1, _SLAB // (_BLOCK * e.size))
        for begin in range(0, alive.size, rows):
            some = alive[begin : begin + rows]
            start = 2 * np.multiply.outer(u[some, 0], e)
            first, second = np.cos(start)[:, None, :], np.sin(start)[:, None, :]
            real, imaginary = first * cosine - second * sine, second * cosine + first * sine
            # exp(-2iue) = real - i imaginary
            turned = cross_real[some, :, None] * real + cross_imaginary[some, :, None] * imaginary
            square = keep[some, :, None] + decay * (swing[some, :, None] * decay + 2 * turned)
            square += ELEMENTARY * (2 + u[some, -1:, None] * e)
            if same:
                product = np.maximum(np.multiply.reduce(square, axis=2), 1e-300)
                bounds[some] += float(n[0]) * 0.5 * np.log(product) - reference
            else:
                bounds[some] += 0.5 * (np.log(square) @ n) - reference
    return bounds.reshape(-1)[: logs.size] * (1 - 1e-6) + 1e-6
