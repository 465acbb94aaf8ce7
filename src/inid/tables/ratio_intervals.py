"""Fieller's intervals of a ratio of two noisy sums: the ratios that a test with the exact law does not reject.

Statement: let S and N be noisy sums with independent noise and exact values S* = r N*. The interval of S / N holds r
with at least the stated probability, whatever S* and N* are.

Why: S - r N is noise alone, of a law that is known for each r, so that r is in {r : |S - r N| <= Q(r)} with the stated
probability, where Q(r) is the quantile of the absolute noise. The interval holds all of this set inside the public
range. It also holds r = 0 where N* and S* are both 0, since S - 0 N is noise alone as well.

*The set is an interval where N > q*, q the quantile of the noise of N by itself; elsewhere it is not bounded, and the
whole public range is taken. For |S - r N| falls with slope N up to r = S / N and rises with slope N from there, and the
slope of Q is at most q in size. So their difference has one root on either side of S / N. That the slope is at most q:

- Gaussian: Q(r) = z sqrt(s^2 + r^2 n^2) and q = z n.
- Two Laplace noises of scales a (of S) and b |r|. Let Q(a, b) be the quantile at the failure probability exp(-L), and
  a < b = 1, which is no restriction (a quantile is homogeneous). Put tau = Q (1 - a) / a and F = exp(-tau). The closed
  form in `laplace_sums`, differentiated, gives

      dQ/da = (2 a (1 - F) - Q (1 - a^2) F) / ((1 - a^2) (1 - a F)),    dQ/db = Q - a dQ/da.

  Both are at least 0, as P(|sum| > t) rises with each scale, and both are at most L:
  * dQ/da <= Q / (1 + a), since this is (1 - F) / (1 + F) = tanh(tau / 2) <= tau / 2; and Q <= (1 + a) L, since
    1 + c <= 1 + a Q / (1 + a) <= exp(a Q / (1 + a)) in exp(-L) = exp(-Q) (1 + c).
  * dQ/db <= L, that is a dQ/da >= log(1 + c): it is enough that a dQ/da >= c = a^2 (1 - F) / (1 - a^2), which is
    (e^tau - 1) + a (1 - e^-tau) >= tau (1 + a). Both sides are linear in a; at a = 0 it is e^tau - 1 >= tau, at a = 1
    it is 2 sinh(tau) >= 2 tau.
  As the second scale is b |r|, the slope of Q in r is at most b L = q.
- Sums of more Laplace noises: quantiles of symmetric log-concave laws are convex in the direction (Meyer and Reisner
  1991 for convex bodies, Bobkov 2010 for log-concave measures), and the slope of a convex Q is at most its limit, q.

*Where the interval lies wholly beyond the public range*, the noise was larger than the stated probability allows for,
and nothing is known of the ratio: the whole range is taken. Cut to the range, the interval would be a single point,
which says the opposite. A wider interval holds the exact value no less often.

What is added to Q for the rounding of released numbers to their grids, half a step of S and |r| half steps of N, has
the slope of what is added to q.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from inid.arguments import Floats

__all__ = ["gaussian_ends", "held_ends", "searched_ends"]

_HALVINGS = 60
_ROUNDINGS = 1e-9  # of the range: ends without noise may be beyond it by their rounding


def held_ends(lower: Floats, upper: Floats, least: Floats | float, most: Floats | float) -> tuple[Floats, Floats]:
    """An interval cut to a public range; the whole range where nothing of the interval is inside.

    >>> held_ends(np.array([-3.0, 2.0]), np.array([-1.0, 9.0]), 0.0, 5.0)
    (array([0., 2.]), array([5., 5.]))
    """
    slack = _ROUNDINGS * (most - least)
    beyond = (upper < least - slack) | (lower > most + slack)
    low, high = np.clip(lower, least, most), np.clip(upper, least, most)
    return np.where(beyond, least, low), np.where(beyond, most, high)


def gaussian_ends(
    sums: tuple[Floats, Floats | float],
    numbers: tuple[Floats, Floats | float],
    z: float,
    bounds: tuple[float, float],
) -> tuple[Floats, Floats]:
    """The roots of (S - r N)^2 = z^2 (s^2 + r^2 n^2), held to the bounds.

    The bounds where N <= z n, and where no ratio between the roots is inside.

    Args:
        sums: S and its standard deviation s.
        numbers: N and its standard deviation n.
        z: The quantile of one standard Gaussian noise.
        bounds: The public range of the ratio.
    """
    (total, s), (number, n) = sums, numbers
    low, high = bounds
    square = np.square(number) - np.square(z * n)
    inside = np.square(s * number) + np.square(n * total) - np.square(z * s * n)
    root, product = z * np.sqrt(np.maximum(inside, 0.0)), total * number
    bounded = number > z * n
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        ends = [np.where(bounded, (product + sign * root) / square, end) for sign, end in ((-1, low), (1, high))]
    return held_ends(ends[0], ends[1], low, high)


def searched_ends(
    total: Floats,
    number: Floats,
    least: Floats | float,
    beyond: Callable[[Floats, Floats], NDArray[np.bool_]],
    bounds: tuple[float, float],
) -> tuple[Floats, Floats]:
    """The same for any law, by halving: either end stays on the side of the rejected ratios.

    Args:
        total: S.
        number: N.
        least: The quantile of the noise of N: where N is not above it, the ends are the bounds.
        beyond: Whether a distance |S - r N| is beyond Q(r); called with distances and ratios.
        bounds: The public range of the ratio.
    """
    bounded = number > least
    ratio = np.divide(total, number, out=np.zeros_like(total), where=bounded)
    own = np.clip(ratio, *bounds)
    # Nothing is inside where S / N is beyond the bounds and the nearest of them is rejected.
    outside = np.abs(ratio - own) > _ROUNDINGS * (bounds[1] - bounds[0])
    bounded = bounded & ~(outside & beyond(np.abs(total - own * number), own))
    outer = np.stack([np.full_like(own, bound) for bound in bounds])
    far, near = outer, np.stack([own, own])
    for _ in range(_HALVINGS):  # of both ends at once
        middle = far / 2 + near / 2
        out = beyond(np.abs(total - middle * number), middle)
        far, near = np.where(out, middle, far), np.where(out, near, middle)
    lower, upper = np.where(bounded, far, outer)
    return lower, upper
