"""Independent answers that the library is held to: suprema by enumeration, in rationals or 60 digits, never by duality.

Nothing here imports the library's mathematics; a sensitivity set is read through its public attributes only.
"""

import itertools
from fractions import Fraction

import mpmath
import numpy as np

mpmath.mp.dps = 60


def rational(values):
    return [Fraction(float(v)) for v in values]


def expanded(sensitivity, scales):
    """One limit, scale and row number per coordinate."""
    counts = sensitivity.counts
    times = np.ones(sensitivity.limits.size, dtype=int) if counts is None else counts
    rows = np.repeat(np.arange(sensitivity.limits.size), times)
    scales = np.asarray(scales, dtype=float)
    if scales.size != rows.size:
        scales = np.repeat(scales, times)
    return np.asarray(sensitivity.limits)[rows], scales, rows


def supremum(sensitivity, mechanism, scales):
    """The least upper bound of what the scales spend, lowered by 1e-45 relative so that its own rounding never matters.

    With both caps and Gaussian noise it is the largest value at points of the set that were looked at: a lower bound.
    """
    return _supremum(sensitivity, mechanism, scales) * (1 - mpmath.mpf(10) ** -45)


def _supremum(sensitivity, mechanism, scales):
    limits, scales, rows = expanded(sensitivity, scales)
    if sensitivity.kind == "ellipsoid":
        ratios = [mpf(r / s) for r, s in zip(rational(limits), rational(scales), strict=True) if r > 0]
        if mechanism == "gaussian":
            return max((r**2 for r in ratios), default=mpmath.mpf(0))
        return mpmath.sqrt(mpmath.fsum(r**2 for r in ratios))
    if sensitivity.kind in ("groups", "ball"):
        return _groups(sensitivity, mechanism, scales, rows)
    moved = limits > 0
    w = [1 / s for s in rational(scales[moved])]
    return capped_box(mechanism, rational(limits[moved]), w, _fraction(sensitivity.l1), _fraction(sensitivity.l2))


def _groups(sensitivity, mechanism, scales, rows):
    limits, w = [], []
    for g, limit in enumerate(sensitivity.limits.tolist()):
        inside = rational(scales[rows == g])
        if limit == 0:
            continue
        limits.append(Fraction(limit))
        if mechanism == "gaussian" or sensitivity.norm == 1:
            w.append(max(1 / s for s in inside))
        else:  # the direction 1/beta has the l2 norm
            w.append(mpmath.sqrt(mpmath.fsum(mpf(1 / s) ** 2 for s in inside)))
    caps = {1: None, 2: None} | {sensitivity.norm: _fraction(sensitivity.total)}
    return capped_box(mechanism, limits, w, caps[1], caps[2])


def capped_box(mechanism, limits, w, l1, l2):
    """The largest sum of (w d)^2 or of w d with 0 <= d <= limits and the caps, over the points where one can lie."""
    if 0 in (l1, l2):
        return mpmath.mpf(0)
    if l1 is None and l2 is None:
        return mpmath.fsum(_value(mechanism, x, d) for x, d in zip(w, limits, strict=True))
    limits = [min([d] + [cap for cap in (l1, l2) if cap is not None]) for d in limits]
    if mechanism == "gaussian":
        if l1 is None:
            return mpf(_filled(limits, w, l2))
        return _knapsack(limits, w, l1, l2)
    return _capped_linear(limits, w, l1, l2)


def _filled(limits, w, l2):
    """Gaussian noise, l2 cap: squares fill the cap from the smallest scale upwards."""
    left, total = l2**2, 0
    for x, d in sorted(zip(w, limits, strict=True), reverse=True):
        used = min(d**2, left)
        total += used * x**2
        left -= used
    return total


def _knapsack(limits, w, l1, l2):
    """Gaussian noise, l1 cap: every set of coordinates at their limits and one more with what is left.

    With an l2 cap too, each such point is shrunk to fit it: a lower bound.
    """
    best = mpmath.mpf(0)
    number = len(limits)
    for chosen in itertools.product((0, 1), repeat=number):
        left = l1 - sum(d for d, c in zip(limits, chosen, strict=True) if c)
        if left < 0:
            continue
        for last in range(number):
            point = [d if c else 0 for d, c in zip(limits, chosen, strict=True)]
            if not chosen[last]:
                point[last] = min(left, limits[last])
            value = sum((x * d) ** 2 for x, d in zip(w, point, strict=True))
            norm = sum(d**2 for d in point)
            if l2 is not None and norm > l2**2:
                value *= l2**2 / norm
            best = max(best, mpf(value))
    return best


def _capped_linear(limits, w, l1, l2):
    """Laplace noise: the optimum has each coordinate at 0, at its limit, or free; each choice has a closed form."""
    w = [mpf(x) for x in w]
    limits = [mpf(d) for d in limits]
    cap1 = mpmath.inf if l1 is None else mpf(l1)
    cap2 = mpmath.inf if l2 is None else mpf(l2) ** 2
    best = mpmath.mpf(0)
    slack = mpmath.mpf(10) ** -50
    for state in itertools.product("0<=", repeat=len(w)):
        fixed = [d if s == "=" else mpmath.mpf(0) for d, s in zip(limits, state, strict=True)]
        free = [i for i, s in enumerate(state) if s == "<"]
        room1, room2 = cap1 - mpmath.fsum(fixed), cap2 - mpmath.fsum(d**2 for d in fixed)
        if room1 < 0 or room2 < 0:
            continue
        for point in _stationary([w[i] for i in free], room1, room2):
            d = list(fixed)
            for i, x in zip(free, point, strict=True):
                d[i] = x
            inside = all(-slack * m <= x <= m * (1 + slack) for x, m in zip(d, limits, strict=True))
            fits = mpmath.fsum(d) <= cap1 * (1 + slack) and mpmath.fsum(x**2 for x in d) <= cap2 * (1 + slack)
            if inside and fits:
                best = max(best, mpmath.fsum(x * y for x, y in zip(w, d, strict=True)))
    return best


def _stationary(w, room1, room2):
    """Where w.d is stationary on the caps that may bind (none free: the empty point)."""
    if not w:
        yield []
        return
    norm = mpmath.sqrt(mpmath.fsum(x**2 for x in w))
    if room2 != mpmath.inf:
        yield [x / norm * mpmath.sqrt(room2) for x in w]
    if room1 != mpmath.inf and len(w) == 1:
        yield [room1]
    if mpmath.inf not in (room1, room2) and len(w) > 1:
        mean = mpmath.fsum(w) / len(w)
        spread = mpmath.fsum((x - mean) ** 2 for x in w)
        left = room2 - room1**2 / len(w)
        if spread == 0:
            yield [room1 / len(w)] * len(w)  # every point with this sum is as good; this one has the least norm
        elif left >= 0:
            yield [room1 / len(w) + (x - mean) * mpmath.sqrt(left / spread) for x in w]


def _value(mechanism, w, d):
    return mpf(w * d) ** 2 if mechanism == "gaussian" else mpf(w * d)


def mpf(value):
    return mpmath.mpf(value.numerator) / value.denominator if isinstance(value, Fraction) else mpmath.mpf(value)


def _fraction(cap):
    return None if cap is None else Fraction(cap)


def noise_error(mechanism, scales, weights, order):
    """sum of alpha^p E|T|^p, in 60 digits."""
    p = mpmath.mpf(order)
    if mechanism == "laplace":
        constant = mpmath.gamma(p + 1)
    else:
        constant = 2 ** (p / 2) * mpmath.gamma((p + 1) / 2) / mpmath.sqrt(mpmath.pi)
    terms = ((mpmath.mpf(a) * mpmath.mpf(s)) ** p for a, s in zip(map(float, weights), map(float, scales), strict=True))
    return constant * mpmath.fsum(terms)


def upper_tail(x):
    """Q(x), the standard normal survival function."""
    return mpmath.erfc(x / mpmath.sqrt(2)) / 2


def gaussian_profile(epsilon, mu, digits=None):
    """phi_eps(mu), with digits to spare for the cancellation."""
    with mpmath.workdps(digits or 400):
        epsilon, mu = mpmath.mpf(epsilon), mpmath.mpf(mu)
        low, high = epsilon / mu - mu / 2, epsilon / mu + mu / 2
        return upper_tail(low) - mpmath.exp(epsilon) * upper_tail(high)
