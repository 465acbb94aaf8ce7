"""How the budget is shared between the blocks: least weighted sum (M4, M8), least maximum (M5)."""

from typing import NamedTuple

import numpy as np

from inid.arguments import Floats
from inid.tables.questions.marginals.workload import Workload

_FLOOR = 1e-280  # of the largest weight: what is smaller would leave the floats and decides nothing
_ROUNDS = 2000


class Allocation(NamedTuple):
    """Variances of the blocks for mu = 1, and how near to the optimum they are."""

    s: Floats
    value: float
    within: float


def least_sum(workload: Workload, weights: Floats) -> Allocation:
    """The least sum of the weights times the variances of all cells of the statistics (M4, M8).

    Statement: with squared lengths n_B, s_B = sqrt(n_B / V_B) * sum sqrt(n V) minimises sum_B V_B s_B under
    sum_B n_B / s_B <= 1, by the Cauchy-Schwarz inequality; the value is (sum_B sqrt(n_B V_B))^2. For counts
    n_B = rho_B. Among all Gaussian mechanisms none does better: averaging a mechanism over the permutations of
    each attribute's values costs nothing (the inverse is operator convex), and what is left is diagonal in these
    blocks. The lengths of columns are those of `_lengths`.
    """
    costs = workload.costs(np.maximum(weights, _FLOOR * float(weights.max())))
    lengths = _lengths(workload, costs)
    roots = np.sqrt(lengths * costs)
    total = float(roots.sum())
    return Allocation(np.sqrt(lengths / costs) * total, total**2, 1.0)


def _lengths(workload: Workload, costs: Floats) -> Floats:
    """The squared lengths n_B against which the blocks are to be planned: those of the worst mixture of rows.

    Statement: a column that is never missing has n_B = c^2 rho_B. Of one that may be missing, a row that has it spends
    sum_B rho_B ((1 - t)^2 / s_pB + c^2 / s_vB), one that lacks it sum_B rho_B t^2 / s_pB, and the larger counts. That
    is the largest mixture L of the two, with n_pB = (L (1 - t)^2 + (1 - L) t^2) rho_B and n_vB = L c^2 rho_B. Smallest
    error and largest mixture can be exchanged (convex in s, linear in L), and (sum sqrt(n V))^2 is largest at
    L = c^2 Q^2 t^2 / ((2t - 1)^2 P^2 + (2t - 1) c^2 Q^2), P and Q the sums of sqrt(rho V) over the two channels; or at
    L = 1 where that is beyond 1 or t <= 1/2.
    """
    channel, rho = workload.blocks[:, 0], workload.spreads
    squares = np.square(workload.reach)
    for contribution in workload.contributions:
        if len(contribution.channels) > 1:
            present, number = contribution.channels
            offset, reach = -contribution.states[-1][0], contribution.states[0][1]
            sums = [float(np.sqrt((rho * costs)[channel == at]).sum()) for at in contribution.channels]
            lack, have = 2 * offset - 1, reach * sums[1]
            below = lack > 0 and have**2 * offset**2 < lack**2 * sums[0] ** 2 + lack * have**2
            mixture = have**2 * offset**2 / (lack**2 * sums[0] ** 2 + lack * have**2) if below else 1.0
            squares[present] = mixture * (1 - offset) ** 2 + (1 - mixture) * offset**2
            squares[number] = mixture * reach**2
    return np.asarray(rho * squares[channel])


def least_maximum(workload: Workload, tolerance: Floats, *, gap: float = 1e-4) -> Allocation:
    """The least maximum over the asked statistics of v / tolerance^2 (M5).

    Statement: for any weights w >= 0 that sum to 1, the value of `least_sum` with w / (cells tolerance^2) is a
    lower bound (a maximum is at least any average). The rule w <- w (v / tolerance^2)^2, renormalised, raises it; the
    least maximum met on the way over the best bound is the factor `within`.
    """
    square = np.square(tolerance)
    weights = np.full(square.size, 1 / square.size)
    best, bound = None, 0.0
    for _ in range(_ROUNDS):
        value = least_sum(workload, weights / (workload.statistic_cells * square))
        ratios = workload.variances(value.s) / square
        bound = max(bound, value.value)
        most = float(ratios.max())
        if best is None or most < best.value:
            best = Allocation(value.s, most, most / bound)
        best = best._replace(within=max(1.0, best.value / bound))
        if best.within <= 1 + gap:
            break
        weights = np.maximum(weights * np.square(ratios / most), _FLOOR)
        weights /= weights.sum()
    assert best is not None  # noqa: S101 - there is at least one round
    return best
