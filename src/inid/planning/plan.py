"""plan(): the least-error independent noise for a sensitivity set and a promise."""

import math
from collections.abc import Callable
from typing import TypeVar, get_args

import numpy as np

from inid.arguments import Floats, choice, shown
from inid.errors import ArgumentError, RangeError
from inid.mechanisms import Mechanism, MechanismName
from inid.numbers.logarithms import log2
from inid.planning.calibration import calibrated, proved
from inid.planning.noise_plan import NoisePlan
from inid.promises import ApproxDP, Budget, PureDP
from inid.sets import Allocation, Sensitivity, read_order

__all__ = ["plan"]

_T = TypeVar("_T")


def plan(
    sensitivity: Sensitivity,
    budget: Budget,
    *,
    mechanism: str = "auto",
    allocation: str = "optimal",
    weights: object = None,
    tolerance: object = None,
    order: float = 2,
) -> NoisePlan:
    """Plan the least-error independent noise that keeps a promise.

    Statement (Theorems 1 and 2 of the paper; E1 to E4 for sets other than a box): among all vectors of independent
    Gaussian (Laplace) noise that keep the promise on this sensitivity set, the one returned has the least expected
    error sum alpha_i^p E|T_i|^p (up to the factor `within`). Correlated noise may do better. Guarantee: the plan has
    passed its own `verify()`.

    Args:
        sensitivity: How far one person can move the answer.
        budget: The promise.
        mechanism: "gaussian", "laplace", or "auto" for the one with the smaller expected error.
        allocation: "optimal"; "iid" (the same noise everywhere) and "spr" (noise proportional to sensitivity, an equal
            split of the budget) are the baselines.
        weights: alpha, what one unit of error in each coordinate costs; all 1 when left out.
        tolerance: The error that you could live with in each coordinate: weights of 1/tolerance. Not with `weights`.
        order: p of the error; 2 is (weighted) total variance, 1 mean absolute error.

    Returns:
        The plan: scales, shares, expected error, certificate.

    Raises:
        ArgumentError: An argument is malformed.
        BudgetError: The mechanism cannot keep this promise.
        RangeError: A scale would not be a normal float.

    >>> import inid
    >>> p = inid.plan(inid.Sensitivity.box([1.0, 3.0]), inid.PureDP(epsilon=0.5))
    >>> p.mechanism, p.scales.round(2), round(p.error, 1)
    ('laplace', array([6.16, 8.88]), 233.8)
    """
    if not isinstance(sensitivity, Sensitivity):
        raise ArgumentError(
            f"sensitivity must be a Sensitivity, got {shown(sensitivity)}: wrap bounds as inid.Sensitivity.box([...])."
        )
    if not isinstance(budget, Budget):
        raise ArgumentError(
            f"budget must be a promise such as inid.ApproxDP(epsilon=1.0, delta=1e-6), got {shown(budget)}: name it."
        )
    choice("mechanism", mechanism, ("auto", *get_args(MechanismName)))
    choice("allocation", allocation, get_args(Allocation))
    alpha = _read_alpha(sensitivity, weights, tolerance)
    p = read_order(order)

    def draft(name: MechanismName, *, follow_curve: bool = True) -> NoisePlan:
        return _draft(sensitivity, budget, Mechanism.named(name), allocation, alpha, p, follow_curve=follow_curve)  # type: ignore[arg-type]

    names: list[MechanismName] = ["gaussian", "laplace"] if mechanism == "auto" else [mechanism]  # type: ignore[list-item]
    if mechanism == "auto" and isinstance(budget, PureDP):
        names = ["laplace"]
    if mechanism == "auto" and isinstance(budget, ApproxDP):
        drafts = _in_range(lambda name: draft(name, follow_curve=False), names)
        if len(drafts) == 2 and _may_win(drafts[1], drafts[0]):
            drafts[1] = draft("laplace")
    else:
        drafts = _in_range(draft, names)
    best = _least(drafts)
    scales, certificate = proved(sensitivity, budget, best.law, best.row_scales, best.cells)
    made = NoisePlan(sensitivity, budget, best.mechanism, best.allocation, p, alpha, scales)
    made.__dict__["certificate"] = certificate  # what the cached property would compute again
    return made


def _draft(
    sensitivity: Sensitivity,
    budget: Budget,
    mechanism: Mechanism,
    allocation: Allocation,
    weights: Floats | None,
    order: float,
    *,
    follow_curve: bool,
) -> NoisePlan:
    """The calibrated plan of least error among the candidate shapes, not yet proved."""
    cells = sensitivity.cells(sensitivity.limits.size if weights is None else weights.size)
    logs: Floats | float = 0.0 if weights is None else log2(weights)

    def made(shape: Floats) -> NoisePlan:
        scales = calibrated(sensitivity, budget, mechanism, shape, cells, follow_curve=follow_curve)
        return NoisePlan(sensitivity, budget, mechanism.name, allocation, order, weights, scales)

    return _least(_in_range(made, sensitivity.shapes(mechanism.exponent, allocation, logs, order, cells)))


def _in_range(make: Callable[[_T], NoisePlan], candidates: list[_T]) -> list[NoisePlan]:
    """The drafts of all candidates whose scales are normal floats; an error only when there is none."""
    drafts: list[NoisePlan] = []
    outside: RangeError | None = None
    for candidate in candidates:
        try:
            drafts.append(make(candidate))
        except RangeError as error:
            outside = error
    if not drafts and outside is not None:
        raise outside
    return drafts


def _may_win(laplace: NoisePlan, gaussian: NoisePlan) -> bool:
    """Whether Laplace noise could still beat Gaussian noise once it follows its privacy curve.

    By the central limit theorem n small ratios e act like one Gaussian parameter sqrt(sum e^2), which tells how far the
    scales can shrink; over a wide grid of budgets and profiles the true factor was never below 0.81 of that.
    """
    budget = laplace.budget
    counts = laplace.cells.counts
    shares = np.square(laplace.row_shares)  # of epsilon: the ratios are epsilon times these
    root = math.sqrt(float(shares.sum() if counts is None else shares @ counts))
    shrink = min(0.8 * root * (budget.laplace_epsilon / budget.gaussian_mu), 1.0)
    return laplace.log2_error + laplace.order * math.log2(max(shrink, 1e-300)) < gaussian.log2_error


def _least(drafts: list[NoisePlan]) -> NoisePlan:
    return drafts[0] if len(drafts) == 1 else min(drafts, key=lambda draft: draft.log2_error)


def _read_alpha(sensitivity: Sensitivity, weights: object, tolerance: object) -> Floats | None:
    if weights is not None and tolerance is not None:
        raise ArgumentError("weights and tolerance must not both be given: a tolerance t is a weight of 1/t.")
    if tolerance is None:
        return sensitivity.read_weights(weights)
    limits = sensitivity.read_weights(tolerance, "tolerance")
    if limits is None:
        return None
    with np.errstate(over="ignore"):
        alpha = 1.0 / limits
    if not (alpha < math.inf).all():
        at = int(np.argmin(alpha < math.inf))
        raise ArgumentError(f"tolerance[{at}] must not be subnormal, got {shown(float(limits[at]))}: use another unit.")
    alpha.flags.writeable = False
    return alpha
