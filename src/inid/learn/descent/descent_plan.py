"""The noise plan of a coordinate descent: how far one record moves the sums of all steps, and how they share a promise.

**Columns of numbers.** One record moves each of the L sums of column i by at most C_i (2 C_i when it is replaced): a
box.

**One-hot columns.** A record is in at most one of the m columns of a group, and a pass visits each once. So the record
moves the sums of that column alone, by at most C each: the m L sums lie in a ball of radius C sqrt(L) in l2 norm, C L
in l1 norm, and m categories need the noise of one column. A replaced record leaves one column and enters another,
sqrt(2) C a pass, or stays and changes its gradient, 2 C a pass; in l1 norm at most 2 C. Which column it is does not
depend on what was released, so these bounds are fixed for each pair of neighbours, and sums of mu^2 (of epsilon) hold
for steps that depend on earlier ones (E7).

Any other column is a group of its own: its box C_i, L times, lies in the ball of radius C_i sqrt(L), at the same cost.
Of the preliminary release a group has the sums alone, since 0 and 1 are their squares: norm 1; when replaced sqrt(2),
or 2 in l1 norm.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from inid.arguments import Floats
from inid.learn.bounds import Groups
from inid.learn.descent.preliminary_release import CELLS
from inid.learn.public_units import column_reach
from inid.mechanisms import MechanismChoice
from inid.planning import NoisePlan, plan_independent
from inid.promises import Budget
from inid.sets import Allocation, Neighbours, Sensitivity

_COUNT = 0.02  # of what the gradients cost, for the number of rows where it is secret
_MANY, _MOST_PASSES = 50, 500
_PER_PASS = 2000  # rows over noise, for each pass beyond 50
_UP = 1 + 2.0**-48  # more than the rounding of the few operations that make a radius


@dataclass(frozen=True)
class Steps:
    """What a descent releases, as far as it is public."""

    bounds: Floats
    weights: Floats
    width: int
    groups: Groups
    passes: int
    column_share: float | None
    target: tuple[float, ...] | None
    count: bool
    neighbours: Neighbours

    @property
    def blocks(self) -> list[tuple[int, int]]:
        """(first, after the last) column of each group, and of each column that is in none."""
        return blocks_of(len(self.bounds), self.groups)

    def alone(self, total: float, *, pure: bool) -> list[tuple[int, float, float]]:
        """(size, norm, weight) of what else is released, where the sums of gradients cost `whole`."""
        parts = []
        if self.target is not None:
            replaced = self.neighbours == "replace"
            norm = 1.0 if not replaced else 2.0 if pure else math.sqrt(2) * _UP
            cells, *means = (part / (1 - sum(self.target)) * total for part in self.target)
            one = 2.0 if replaced else 1.0
            parts = [(CELLS, norm, cells / (norm * math.sqrt(CELLS))), *((1, one, mean / one) for mean in means)]
        return parts + [(1, 1.0, _COUNT * total)] * self.count


def blocks_of(columns: int, groups: Groups) -> list[tuple[int, int]]:
    """The columns in blocks."""
    inside = {at for first, last in groups for at in range(first, last)}
    return sorted([*groups, *((at, at + 1) for at in range(columns) if at not in inside)])


def signal_of(budget: Budget, mechanism: str, rows: int, columns: int, groups: Groups, outputs: int) -> float:
    """The number of rows over the noise of one pass at the whole budget; m one-hot columns count sqrt(m)."""
    count = outputs * sum(math.sqrt(last - first) for first, last in blocks_of(columns, groups))
    return rows * (budget.laplace_epsilon / count if mechanism == "laplace" else budget.gaussian_mu / math.sqrt(count))


def passes_for(signal: float) -> int:
    """Passes by the rows over the noise of one pass; beyond 50 only a huge budget gains by more."""
    passes = max(min(0.5 * math.sqrt(signal), _MANY), signal / _PER_PASS)
    return round(min(max(passes, 1), _MOST_PASSES))


def plan_steps(
    steps: Steps, budget: Budget, mechanism: MechanismChoice, allocation: Allocation
) -> tuple[NoisePlan, NDArray[np.intp]]:
    """The plan of all steps, and the row of it that each number's noise is in.

    The numbers are the sums of gradients, one for each column; the preliminary sums of columns and of their squares;
    what is released of the target; the number of rows where it is private. Weights give all but the first a fixed share
    of what optimal Gaussian noise costs: weight times sensitivity (of a group: times the root of its size).
    """
    if steps.groups or steps.target is not None:
        return _plan_groups(steps, budget, mechanism, allocation)
    replaced, width = steps.neighbours == "replace", steps.width
    reach = steps.bounds * (2 if replaced else 1)
    counts, weights = [steps.passes] * len(steps.bounds), steps.weights
    total = float((weights * reach).sum()) * steps.passes
    if steps.column_share is not None:
        sums = column_reach(width, steps.neighbours)
        share = steps.column_share / (1 - steps.column_share) * total / (2 * width)
        reach, weights = np.append(reach, sums), np.append(weights, share / sums)
        counts += [1] * (2 * width)
    for size, norm, weight in steps.alone(total, pure=mechanism == "laplace"):
        reach, weights, counts = np.append(reach, norm), np.append(weights, weight), [*counts, size]
    box = Sensitivity.box(reach, counts=counts, neighbours=steps.neighbours)
    plan = plan_independent(box, budget, mechanism=mechanism, allocation=allocation, weights=weights)
    return plan, np.arange(len(reach))


def _plan_groups(
    steps: Steps, budget: Budget, mechanism: MechanismChoice, allocation: Allocation
) -> tuple[NoisePlan, NDArray[np.intp]]:
    """The plan where some columns are one-hot, or a target has cells: every block is a group of coordinates."""
    pure, replaced, passes, width = mechanism == "laplace", steps.neighbours == "replace", steps.passes, steps.width
    sizes: list[int] = []
    norms: list[float] = []
    weights: list[float] = []
    rows: list[int] = []  # of each number
    for first, last in steps.blocks:
        most = float(steps.bounds[first:last].max()) * (2 if replaced else 1)
        rows += [len(sizes)] * (last - first)
        sizes.append(passes * (last - first))
        norms.append(most * passes if pure else most * math.sqrt(passes) * _UP)
        weights.append(float(steps.weights[first:last].mean()))
    costs = [w * norm * math.sqrt(size) for w, norm, size in zip(weights, norms, sizes, strict=True)]
    total = sum(costs) * (1 / math.sqrt(passes) if pure else 1.0)  # an l1 norm of L passes has another root of L
    if steps.column_share is not None:
        squares = np.zeros(width, np.intp)
        inner = [block for block in steps.blocks if block[1] <= width]
        share = steps.column_share / (1 - steps.column_share) * total / sum(
            2.0 if last - first == 1 else math.sqrt(last - first) for first, last in inner
        )  # fmt: skip
        one_sum, one_square = column_reach(1, steps.neighbours)
        for first, last in inner:
            rows += [len(sizes)] * (last - first)
            squares[first:last] = len(sizes)
            hot = (first, last) in steps.groups
            norm = float(one_sum) if not hot else (1.0 if not replaced else 2.0 if pure else math.sqrt(2) * _UP)
            sizes, norms, weights = [*sizes, last - first], [*norms, norm], [*weights, share / norm]
        for at, _ in (block for block in inner if block not in steps.groups):
            squares[at] = len(sizes)
            sizes, norms, weights = [*sizes, 1], [*norms, float(one_square)], [*weights, share / float(one_square)]
        rows += squares.tolist()
    for size, norm, weight in steps.alone(total, pure=pure):
        rows += [len(sizes)] * size
        sizes, norms, weights = [*sizes, size], [*norms, norm], [*weights, weight]
    l1, l2 = (norms, None) if pure else (None, norms)
    everything = Sensitivity.groups(sizes=sizes, l1=l1, l2=l2, neighbours=steps.neighbours)
    plan = plan_independent(everything, budget, mechanism=mechanism, allocation=allocation, weights=weights)
    return plan, np.asarray(rows, dtype=np.intp)
