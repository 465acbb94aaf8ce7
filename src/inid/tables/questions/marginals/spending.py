"""What neighbours spend on the blocks of a workload, for given rates w_B = 1 / s_B: never below the truth (M2, M7, M8).

Statement. A row at a cell x that adds u_k to channel k moves block B of that channel by the squared length u_k^2 rho_B.
Two rows at cells that differ in the attributes D, one taken away and one put in, move it by
rho_B (u_k^2 + u'_k^2 - 2 u_k u'_k g_BD), g_BD = prod over B and D of -1/(n_i - 1), 1 where B and D are disjoint. Why:
the residuals of the two cells have the inner product rho_B g_BD, since one attribute's have 1 - 1/n where it agrees and
-1/n where it differs.

* add_remove, zero_out: the sum over contributions of the largest state's sum_B w_B u^2 rho_B.
* replace: the largest over D, D empty included (only the numbers change), of the sum over contributions of the largest
  pair of states. For counts, with one state, that is M7's 2 rho_B (1 - g_BD); for a number |v| <= c it is M8's
  2 c^2 (sum_B rho_B w_B + |sum_B rho_B g_BD w_B|), at v' = v or v' = -v. States suffice, since what is spent is convex
  in (u, u') and every row lies in the hull of the states; each contribution is taken at its worst by itself, since rows
  are free to combine.
* replace, where a row can vanish: the larger of both.

Three shortcuts are too small: M7's 2 rho_B (1 - g_BD) c^2 for numbers (a change of the number alone is forgotten),
leaving out D empty, and M7 alone where a row can vanish.
"""

from collections.abc import Iterator
from itertools import combinations, combinations_with_replacement

import numpy as np

from inid.tables.questions.marginals.basis import Floats
from inid.tables.questions.marginals.workload import Contribution, Workload

__all__ = ["alone", "spending"]

_UP = 1 + 2.0**-48  # more than the rounding of the few operations before it
_UP_OF_SUMS = 1 + 2.0**-44  # more than that of a sum of positive numbers, by which the worst pair is chosen
_MOST_SUBSETS = 1 << 16  # sets D of attributes that are looked at one by one


def spending(work: Workload, rates: Floats, neighbours: str, *, vanishing: bool) -> Iterator[Floats]:
    """Vectors of terms, rounded up: each sums to what a kind of neighbours spends, and the largest sum counts."""
    if neighbours != "replace" or vanishing:
        yield alone(work, rates)
    if neighbours == "replace":
        base = work.spreads * rates * _UP
        choices = [_Choices(work, made) for made in work.contributions]
        for lowest, highest in _products(work):
            yield np.concatenate([made.worst(base, lowest, highest) for made in choices])


def alone(work: Workload, rates: Floats) -> Floats:
    """What one row more or less spends."""
    base = work.spreads * rates * _UP
    parts = []
    for made in work.contributions:
        own = [np.flatnonzero(work.blocks[:, 0] == channel) for channel in made.channels]
        found = [
            np.concatenate([base[at] * (u * u) for at, u in zip(own, state, strict=True)]) for state in made.states
        ]
        parts.append(_largest(found))
    return np.concatenate(parts) * _UP


class _Choices:
    """The pairs of states of a contribution, each as what it makes of its blocks."""

    def __init__(self, work: Workload, made: Contribution) -> None:
        own = [np.flatnonzero(work.blocks[:, 0] == channel) for channel in made.channels]
        self.at = np.concatenate(own)
        pairs = set()
        for one, two in combinations_with_replacement(made.states, 2):
            # What counts of a pair: u^2 + u'^2 and 2 u u' of each channel.
            pairs.add(tuple((u * u + v * v, 2 * u * v) for u, v in zip(one, two, strict=True)))
        lengths = [part.size for part in own]
        self.pairs = [
            tuple(np.repeat([entry[side] for entry in pair], lengths) for side in (0, 1)) for pair in sorted(pairs)
        ]

    def worst(self, base: Floats, lowest: Floats, highest: Floats) -> Floats:
        """The terms of the pair that spends most, for products g_BD between two limits."""
        low, high = lowest[self.at], highest[self.at]
        found = [base[self.at] * (squares - np.minimum(twice * low, twice * high)) for squares, twice in self.pairs]
        return _largest(found) * _UP


def _largest(found: list[Floats]) -> Floats:
    if len(found) == 1:
        return found[0]
    return max(found, key=lambda terms: float(terms.sum())) * _UP_OF_SUMS


def _products(work: Workload) -> Iterator[tuple[Floats, Floats]]:
    """g_BD of every block for each set D of attributes in which two rows can differ; where these are too many, limits.

    For every D, g_BD is 1 on the empty block; elsewhere it is at most 1, and at least -1/(n - 1) for the smallest n.
    """
    inside = work.blocks[:, 1:]
    used = sorted({int(i) for i in inside.ravel() if i >= 0})
    if 1 << len(used) > _MOST_SUBSETS:
        sizes = np.append(np.asarray(work.sizes, dtype=np.float64), np.inf)
        least = sizes[inside].min(axis=1, initial=np.inf)
        ones = np.ones(len(work.blocks))
        yield np.where(np.isfinite(least), -1 / (np.where(np.isfinite(least), least, 2.0) - 1), 1.0), ones
        return
    sizes = np.append(np.asarray(work.sizes, dtype=np.float64), 2.0)
    factors = -1 / (sizes[inside] - 1)
    for number in range(len(used) + 1):
        for chosen in combinations(used, number):
            differs = np.zeros(len(work.sizes) + 1, dtype=bool)
            differs[list(chosen)] = True  # the padding -1 reads the last, which never differs
            found = np.where(differs[inside], factors, 1.0).prod(axis=1)
            yield found, found
