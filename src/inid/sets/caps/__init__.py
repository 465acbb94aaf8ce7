"""Caps on the l1 and l2 norm of a whole difference (E2): what they leave of a box, or of a set of groups.

`profile` has the effective profiles with a closed form, `knapsack` the one that is searched for; `suprema` bounds what
given scales spend, by weak duality with the `multipliers`; `envelope` has the worst ratios for a Laplace curve.
"""

import numpy as np

from inid.arguments import Floats
from inid.mechanisms import Exponent
from inid.numbers.sums import Counts, log2, log2_sum
from inid.sets.caps.envelope import ratios
from inid.sets.caps.knapsack import hull_profile
from inid.sets.caps.profile import one_cap_profile, two_cap_profile, waterfill
from inid.sets.caps.suprema import supremum

__all__ = ["Binding", "binding", "log_profile", "one_cap_profile", "ratios", "solved", "supremum", "waterfill"]

Binding = list[tuple[int, float]]  # (norm, log2 of the cap) of the caps that exclude a part of the set, by norm


def binding(l1: float | None, l2: float | None, limits: Floats, counts: Counts | None) -> Binding:
    """The caps that the limits do not keep to by themselves.

    >>> binding(2.0, 9.0, np.array([1.0, 4.0]), None)
    [(1, 1.0)]
    """
    found = []
    for norm, cap in ((1, l1), (2, l2)):
        if cap is not None and cap > 0 and log2_sum(norm * log2(limits), counts) / norm > np.log2(cap):
            found.append((norm, float(np.log2(cap))))
    return found


def solved(exponent: Exponent, caps: Binding) -> bool:
    """Whether the effective profile is known in closed form: not for both caps, nor for an l1 cap and exponent 2."""
    return len(caps) < 2 if exponent == 1 else all(norm == 2 for norm, _ in caps)


def log_profile(
    exponent: Exponent, caps: Binding, limits: Floats, weights: Floats, order: float, counts: Counts | None
) -> Floats:
    """log2 of the effective profile of a box with these caps; where it is not known, of a valid one inside the hull."""
    if solved(exponent, caps):
        norm, cap = caps[0]
        return one_cap_profile(exponent, limits, weights, order, counts, norm=norm, cap=cap)
    some = np.isfinite(limits)  # rows that nobody moves take no part in the search
    bounds, times = dict(caps), None if counts is None else counts[some]
    profile = np.full(limits.size, -np.inf)
    if exponent == 2:
        profile[some] = hull_profile(limits[some], weights[some], order, times, bounds[1], bounds.get(2))
    else:
        profile[some] = two_cap_profile(limits[some], weights[some], order, times, bounds[1], bounds[2])
    return profile
