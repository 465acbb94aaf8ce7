"""The transform of Laplace privacy losses, and what follows from it in closed form.

One ratio e has the loss L in [-e, e] with E_P exp(s L) = M_e(s) = exp(s e) Z_e(s),
Z_e(s) = 1 + s/(2s+1) (exp(-(2s+1) e) - 1)  (E5). Written so, nothing cancels for small e, nothing overflows for large.
"""

import math

import numpy as np
from numpy.typing import NDArray

from inid.numbers.rounding import ELEMENTARY, UNIT, above, below

# A quick upper bound on |Z| at many equally spaced nodes, so that only the few that matter are computed with care.
#
# With many ratios almost every node far from the real axis is negligible, but each has to be *shown* to be. The bound
# needs no accuracy, only a side: |Z|^2 = |1-w|^2 + |w|^2 d^2 + 2 d Re(conj(1-w) w exp(-2iue)), d = exp(-(2a+1)e), w =
# s/(2s+1), where the unit circle's points come from two short tables by one multiplication, and the rounding error is
# added.

Floats = NDArray[np.float64]

_BLOCK = 32  # nodes of one block
_CHUNK = 16  # ratios looked at together
_FACTORS = 256  # ratios looked at in all
_SLAB = 1 << 15  # entries of one temporary array: a few fit in the cache


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
        count = max(1, _SLAB // (_BLOCK * e.size))
        for begin in range(0, alive.size, count):
            some = alive[begin : begin + count]
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


_FIRST_CHUNK = 8
_SCREENED = 32  # with more ratios than this, most nodes are settled by a quick bound


def _log_factor(order: float, ratios: Floats) -> Floats:
    """The logarithms of Z_e(a) for real a > 0, one per ratio; they are negative."""
    return np.log1p(order / (2 * order + 1) * np.expm1(-(2 * order + 1) * ratios))


def log_factor(order: float, ratios: Floats, counts: Floats) -> float:
    """The sum of log Z_e(a) for real a > 0, rounded to nearest: log E_P exp(a L) less a times the sum of the ratios.

    >>> round(log_factor(1.0, np.array([0.5]), np.array([1.0])) + 0.5, 6)
    0.200304
    """
    return float(counts @ _log_factor(order, ratios))


def factor_slack(order: float, ratios: Floats, counts: Floats) -> float:
    """A bound on the rounding error of `log_factor`, by the argument given in `along_line` at u = 0."""
    if not ratios.size:
        return 0.0
    weights = counts * _reach(order, ratios)
    return float(weights @ np.exp(-2 * _log_factor(order, ratios))) * _rate(ratios.size) * (order + 1)


def total(ratios: Floats, counts: Floats) -> tuple[float, float, float]:
    """The sum of the ratios as high + low to about 100 bits, and a bound on its error.

    Each ratio is split into two halves of at most 27 bits, whose products with counts below 2^26 are exact; `fsum`
    rounds once.

    >>> total(np.array([1.0, 1e-20]), np.array([3.0, 1.0]))
    (3.0, 1e-20, 1.1102230246251565e-36)
    """
    wide = ratios * (2.0**27 + 1)
    upper = wide - (wide - ratios)
    products = (counts * upper).tolist() + (counts * (ratios - upper)).tolist()
    high = math.fsum(products)
    low = math.fsum([*products, -high])
    inexact = counts >= 2.0**26
    error = 2 * UNIT * float(counts[inexact] @ ratios[inexact]) if inexact.any() else 0.0
    return high, low, error * (1 + 1e-6) + UNIT * abs(low)


def _reach(order: float, ratios: Floats) -> Floats:
    return np.minimum(ratios, 0.8 / (order + 1))


def _rate(terms: int) -> float:
    return 3.001 * (4 * ELEMENTARY + terms * UNIT)


def along_line(
    order: float,
    step: float,
    logs: Floats,
    phases: Floats,
    errors: Floats,
    ratios: Floats,
    counts: Floats,
    floor: float,
) -> NDArray[np.bool_]:
    """At u = 0, step, ... add log|Z(a + iu)| - log Z(a) to `logs`, arg Z(a + iu) to `phases`, their error to `errors`.

    Every factor satisfies |Z(a + iu)| <= Z(a), so a node whose running sum has fallen below `floor` can only fall
    further: it is left there, logs + errors already an upper bound. Returns which nodes were computed in full.

    Errors: E = exp(-(2s+1)e) - 1 has |E| <= min(2, |2s+1| e) and is computed to an absolute
    ELEMENTARY (|E| + d |s| e), where the second part comes from the rounded angle u e and d = exp(-(2a+1)e). Both
    together are at most 3 (|s| + 1) r with r = min(e, 0.8/(a+1)), because x exp(-x) <= 0.37. Z = 1 + wE with
    |w| <= 1/2, so |Z|^2 is computed to an absolute error of 3 ELEMENTARY (|s| + 1) r, and log|Z| and arg Z to twice
    that over the computed |Z|^2 (kept above 1e-15, where this bound exceeds 1 and so says nothing). A dot product of G
    terms, each at most 3 (|s| + 1) r / |Z|^2, adds G UNIT times their sum.
    """
    alive = np.ones(logs.size, dtype=np.bool_)
    if not ratios.size:
        return alive
    heights = step * np.arange(logs.size, dtype=np.float64)
    rank = np.argsort(-counts * np.minimum(1.0, (2 * order + 1) * ratios), kind="stable")  # the strongest dampers first
    factors = _log_factor(order, ratios)
    if ratios.size > _SCREENED:
        bounds = screen(order, step, logs, ratios[rank], counts[rank], factors[rank], floor)
        alive = bounds >= floor
        logs[~alive] = bounds[~alive]
    reach = _reach(order, ratios)
    rate = _rate(ratios.size) * (np.hypot(order, heights) + 1)
    at, chunk = 0, _FIRST_CHUNK
    while at < rank.size:
        part = rank[at : at + chunk]
        at, chunk = at + chunk, min(2 * chunk, _SLAB)
        nodes = np.flatnonzero(alive)
        if not nodes.size:
            break
        e, n = ratios[part], counts[part]
        reference = float(n @ factors[part])
        count = max(1, _SLAB // part.size)
        for begin in range(0, nodes.size, count):
            some = nodes[begin : begin + count]
            real, imaginary = _weighted(order, heights[some], e)
            square = np.maximum(real * (2 + real) + imaginary * imaginary, 1e-15 - 1)  # |Z|^2 - 1
            logs[some] += 0.5 * (np.log1p(square) @ n) - reference
            phases[some] += np.arctan2(imaginary, 1 + real) @ n
            errors[some] += rate[some] * (np.reciprocal(1 + square) @ (n * reach[part]))
        alive[nodes] = logs[nodes] >= floor
    return alive


def _weighted(order: float, u: Floats, e: Floats) -> tuple[Floats, Floats]:
    """Real and imaginary parts of s/(2s+1) (exp(-(2s+1) e) - 1), s = a + iu: one row per node, one column per ratio."""
    scale = (2 * order + 1) ** 2 + 4 * u * u
    weight_real = ((order * (2 * order + 1) + 2 * u * u) / scale)[:, None]
    weight_imaginary = (u / scale)[:, None]
    decay, drop = np.exp(-(2 * order + 1) * e), np.expm1(-(2 * order + 1) * e)
    angle = np.multiply.outer(u, e)
    sine = np.sin(angle)
    twice = 2 * decay * sine
    real = drop - twice * sine  # exp(-x) cos(2ue) - 1 without cancellation
    imaginary = -twice * np.cos(angle)
    return weight_real * real - weight_imaginary * imaginary, weight_real * imaginary + weight_imaginary * real


def one_ratio_delta(epsilon: float, ratio: float) -> tuple[float, float]:
    """Bounds around the curve of a single ratio, delta = 1 - exp((eps - e)/2) for eps < e and 0 above (exact, E5).

    >>> low, high = one_ratio_delta(0.5, 1.5)
    >>> low < 1 - math.exp(-0.5) < high
    True
    """
    if epsilon >= ratio:
        return 0.0, 0.0
    value = -math.expm1((epsilon - ratio) / 2)  # the difference of two floats has a relative error of one UNIT
    return below(value), min(1.0, above(value))


def one_ratio_epsilon(delta: float, ratio: float) -> tuple[float, float]:
    """Bounds around e + 2 log(1 - delta), the epsilon of a single ratio.

    >>> low, high = one_ratio_epsilon(1e-3, 1.5)
    >>> low < 1.5 + 2 * math.log1p(-1e-3) < high
    True
    """
    if delta >= 1:
        return 0.0, 0.0
    gain = -2 * math.log1p(-delta)
    slack = ELEMENTARY * (ratio + gain)
    return max(0.0, ratio - gain - slack), max(0.0, ratio - gain + slack)
