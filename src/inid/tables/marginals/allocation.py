"""How the budget is shared between the blocks: least weighted sum (M4), least maximum (M5)."""

from typing import NamedTuple

import numpy as np

from inid.tables.marginals.basis import Floats
from inid.tables.marginals.workload import Workload

__all__ = ["Allocation", "least_maximum", "least_sum"]

_FLOOR = 1e-280  # of the largest weight: what is smaller would leave the floats and decides nothing
_ROUNDS = 2000


class Allocation(NamedTuple):
    """Variances of the blocks for mu = 1, and how near to the optimum they are.

    Attributes:
        s: s_B for mu = 1; for another promise they are divided by mu^2.
        value: The objective for mu = 1: the weighted sum, or the largest v_A / tolerance_A^2.
        within: The objective is at most this factor above the least that any Gaussian mechanism can have.
    """

    s: Floats
    value: float
    within: float


def least_sum(workload: Workload, weights: Floats) -> Allocation:
    """The least sum of weights_A times the variances of all cells of A (M4).

    Statement: s_B = sqrt(rho_B / V_B) * sum sqrt(rho V) minimises sum_B V_B s_B under sum_B rho_B / s_B <= 1, by the
    Cauchy-Schwarz inequality; the value is (sum_B sqrt(rho_B V_B))^2. Among all Gaussian mechanisms none does better:
    averaging a mechanism over the permutations of each attribute's values costs nothing (the inverse is operator
    convex), and what is left is diagonal in these blocks.

    >>> from inid.tables.marginals.workload import workload_of
    >>> round(least_sum(workload_of([2], [(0,)]), np.ones(1)).value, 12)  # one histogram: variance 1 per cell
    2.0
    """
    costs = workload.costs(np.maximum(weights, _FLOOR * float(weights.max())))
    roots = np.sqrt(workload.norms * costs)
    total = float(roots.sum())
    return Allocation(np.sqrt(workload.norms / costs) * total, total**2, 1.0)


def least_maximum(workload: Workload, tolerance: Floats, *, gap: float = 1e-4) -> Allocation:
    """The least maximum over the asked tables of v_A / tolerance_A^2 (M5).

    Statement: for any weights w >= 0 that sum to 1, the value of `least_sum` with w_A / (cells_A tolerance_A^2) is a
    lower bound (a maximum is at least any average). The rule w <- w (v / tolerance^2)^2, renormalised, raises it; the
    least maximum met on the way over the best bound is the factor `within`.

    Args:
        workload: What is asked.
        tolerance: The error that is tolerable in each table.
        gap: Stop when `within` is at most 1 + gap.

    >>> from inid.tables.marginals.workload import workload_of
    >>> found = least_maximum(workload_of([2, 3], [(0,), (1,)]), np.ones(2))
    >>> bool(found.within <= 1.0001), round(found.value, 3)
    (True, 1.565)
    """
    square = np.square(tolerance)
    weights = np.full(len(workload.tables), 1 / len(workload.tables))
    best, bound = None, 0.0
    for _ in range(_ROUNDS):
        found = least_sum(workload, weights / (workload.cells * square))
        ratios = workload.variances(found.s) / square
        bound = max(bound, found.value)
        most = float(ratios.max())
        if best is None or most < best.value:
            best = Allocation(found.s, most, most / bound)
        best = best._replace(within=max(1.0, best.value / bound))
        if best.within <= 1 + gap:
            break
        weights = np.maximum(weights * np.square(ratios / most), _FLOOR)
        weights /= weights.sum()
    assert best is not None  # noqa: S101 - there is at least one round
    return best
