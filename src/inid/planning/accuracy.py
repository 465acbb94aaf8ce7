"""Accuracy first: what does it cost to be within a tolerance, and which noise is the cheaper one?"""

import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from inid.arguments import Floats, real, shown
from inid.errors import ArgumentError, GuaranteeError, RangeError
from inid.mechanisms import GAUSSIAN, LAPLACE, Mechanism
from inid.mechanisms.gaussian import epsilon_of
from inid.mechanisms.laplace import least_epsilon
from inid.noise.grid_noise import GRID_BITS
from inid.numbers.decimals import decimal_up
from inid.numbers.sums import root_up
from inid.planning.calibration import DELTA_WORTH
from inid.planning.curve import epsilon_of_delta
from inid.planning.noise_plan import NoisePlan
from inid.promises import ApproxDP, Budget, PureDP
from inid.sets import Cells, Sensitivity

_HALF_STEP = 2.0 ** -(GRID_BITS + 1)  # of a scale: the grid of a release is at most 2^-GRID_BITS of it


class _Plan(Protocol):
    @property
    def mechanism(self) -> str:
        """The kind of noise."""
        ...

    @property
    def budget(self) -> Budget:
        """The promise."""
        ...


PlanT = TypeVar("PlanT", bound=_Plan)


@dataclass(frozen=True)
class CheapestPlan(Generic[PlanT]):
    """The cheapest plan that reaches a wanted accuracy, what else would, and why this one.

    Attributes:
        plan: The cheapest; its budget is what the accuracy costs.
        alternatives: Every plan that was found to reach the accuracy, the cheapest first.
        reason: One sentence.
    """

    plan: PlanT
    alternatives: tuple[PlanT, ...]
    reason: str

    def __str__(self) -> str:
        costs = "\n".join(f"  {p.mechanism:<8}  {p.budget}" for p in self.alternatives)
        return f"{self.reason}\n{costs}"


class AccuracyPlan(CheapestPlan[NoisePlan]):
    """The cheapest plan with which every coordinate is within its tolerance. Made by `plan_for_accuracy`."""


def plan_for_accuracy(
    sensitivity: Sensitivity, tolerance: ArrayLike | None, *, failure: float = 0.05, delta: float | None = None
) -> AccuracyPlan:
    """The least budget with which every coordinate is within its tolerance, each with probability 1 - failure.

    Laplace noise needs beta_i = tolerance_i / ln(1/failure), Gaussian noise sigma_i = tolerance_i / Q^-1(failure/2),
    less the half step by which a released value is rounded to its grid, at most 2^-13 of the scale. The cost is the
    supremum over the sensitivity set. The two are compared by their epsilon at the same delta.

    Args:
        sensitivity: How far one person can move the answer.
        tolerance: One positive number per coordinate (or run): the largest error that is acceptable.
        failure: The probability, per coordinate, of exceeding it.
        delta: The delta at which to compare. Without one, only Laplace noise under pure DP is considered.

    Raises:
        ArgumentError: An argument is malformed.
        RangeError: The cost is not a positive float.

    >>> import inid
    >>> s = inid.Sensitivity.box([1.0, 1.0, 400.0])
    >>> a = inid.plan_for_accuracy(s, tolerance=[10, 5, 4000], failure=0.05, delta=1e-6)
    >>> a.plan.mechanism, round(a.plan.budget.to_dict()["epsilon"], 3)
    ('laplace', 1.198)
    >>> print(a.reason)
    Laplace noise is the cheaper: epsilon = 1.19834 at delta = 1e-06, against 2.15589 for Gaussian noise.
    """
    if not isinstance(sensitivity, Sensitivity):
        raise ArgumentError(
            f"sensitivity must be a Sensitivity, got {shown(sensitivity)}: wrap bounds as inid.Sensitivity.box([...])."
        )
    limits = sensitivity.read_weights(tolerance, "tolerance")
    if limits is None:
        raise ArgumentError("tolerance must be given: pass the largest acceptable error of each coordinate.")
    gamma = real("failure", failure, above=0, cure="pass a probability such as failure=0.05")
    if not gamma < 1:
        raise ArgumentError(f"failure must be a probability below 1, got {shown(failure)}: pass 0.05, say.")
    kinds = (LAPLACE,) if delta is None else (LAPLACE, GAUSSIAN)
    return AccuracyPlan(*cheapest([_costed(sensitivity, kind, gamma, limits, delta) for kind in kinds], delta))


def cheapest(plans: Sequence[PlanT], delta: float | None) -> tuple[PlanT, tuple[PlanT, ...], str]:
    """The cheapest of plans that reach an accuracy, all of them by their cost, and why: see `CheapestPlan`."""
    ordered = tuple(sorted(plans, key=epsilon_spent))
    first, words = ordered[0], [one.mechanism.capitalize() for one in ordered]
    reached = f"{words[0]} noise reaches it at epsilon = {epsilon_spent(first):g}"
    if delta is None:
        return first, ordered, f"{reached}; name a delta to consider Gaussian noise."
    if len(ordered) == 1:
        return first, ordered, f"{reached} and delta = {delta!r}."
    reason = f"{words[0]} noise is the cheaper: epsilon = {epsilon_spent(first):g} at delta = {delta!r}, "
    return first, ordered, f"{reason}against {epsilon_spent(ordered[1]):g} for {words[1]} noise."


def _costed(
    sensitivity: Sensitivity, mechanism: Mechanism, failure: float, tolerance: Floats, delta: float | None
) -> NoisePlan:
    """The plan whose noise exceeds the tolerance with no more than this probability, with the least budget it keeps."""
    with np.errstate(over="ignore", divide="ignore"):
        scales, weights = tolerance / (mechanism.quantile(failure) + _HALF_STEP), 1.0 / tolerance
    cells = sensitivity.cells(scales.size)
    if not (scales.min() >= sys.float_info.min and scales.max() < math.inf and weights.max() < math.inf):
        raise RangeError("a scale would not be a normal float: use another unit for the tolerance, or another failure.")
    moved = cells.spread(sensitivity.reach) > 0
    scales = np.where(moved, scales, 0.0)
    scales.flags.writeable = False
    weights.flags.writeable = False
    for budget in _budgets(sensitivity, mechanism, scales, cells, delta):
        promise = budget if delta is None or isinstance(budget, ApproxDP) else ApproxDP(budget.epsilon, delta)
        plan = NoisePlan(sensitivity, budget, mechanism.name, "tolerance", 2.0, weights, scales, promise)
        try:
            plan.verify()
        except GuaranteeError:
            continue
        return plan
    raise GuaranteeError("no proof was found for the cost of this accuracy; please report the arguments.")


def _budgets(
    sensitivity: Sensitivity, mechanism: Mechanism, scales: Floats, cells: Cells, delta: float | None
) -> Iterator[PureDP | ApproxDP]:
    """The least budget that these scales keep, as far as it can be proved: the first that verifies."""
    spent = sensitivity.supremum(mechanism.exponent, scales, cells)
    if spent == 0:
        raise ArgumentError("sensitivity is 0 everywhere: nobody moves the answer, and it costs nothing.")
    if not spent < Fraction(sys.float_info.max):
        raise RangeError("the cost exceeds the largest float: accept a larger tolerance.")
    if delta is None:
        yield PureDP(decimal_up(spent, "epsilon"))
        return
    level = ApproxDP(0.0, delta).delta  # reads it
    if mechanism is GAUSSIAN:
        yield ApproxDP(epsilon_of(root_up(spent), level), level)
        return
    pure = decimal_up(spent, "epsilon")
    # The curve is certified at the epsilon that it gives, but for roundings in the last digits; pure DP always is.
    _, least = epsilon_of_delta(sensitivity, mechanism, scales, cells, level)
    if not least < DELTA_WORTH * pure:  # as `plan` would plan it: under pure DP
        yield PureDP(pure)
    for room in (0.0, 1e-9, 1e-6):
        yield ApproxDP(least * (1 + room), level)
    yield ApproxDP(least_epsilon(level, spent), level)


def epsilon_spent(plan: _Plan) -> float:
    """The epsilon of a plan's promise."""
    return float(plan.budget.to_dict()["epsilon"])
