"""plan(): the least-error noise for a sensitivity set and a promise."""

import contextlib
import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import get_args

import numpy as np
from numpy.typing import ArrayLike

from inid.arguments import Floats, choice, shown, shown_entry
from inid.errors import ArgumentError, RangeError
from inid.mechanisms import GAUSSIAN, LAPLACE, Mechanism, MechanismChoice, NoiseChoice, log2_least_error
from inid.numbers.sums import log2
from inid.planning.calibration import DELTA_WORTH, calibrated, follows_curve, is_too_little, proved, searched_shapes
from inid.planning.laplace_bounds import most_by_signs, most_epsilon
from inid.planning.noise_plan import NoisePlan
from inid.planning.staircase_plan import least_staircase, serves, staircase_plan
from inid.promises import ApproxDP, Budget, PureDP
from inid.sets import Allocation, Cells, Sensitivity, read_order

_BASELINES: tuple[Allocation, ...] = ("iid", "spr")
_RAISED = 1e-6  # of log2 of an error: a proof that raises scales by more
_CLEARLY = 1e-9  # of log2 of an error, beyond its rounding


def plan(
    sensitivity: Sensitivity,
    budget: Budget,
    *,
    mechanism: NoiseChoice = "auto",
    allocation: Allocation = "optimal",
    weights: ArrayLike | None = None,
    tolerance: ArrayLike | None = None,
    order: float = 2,
) -> NoisePlan:
    """Plan the least-error noise that keeps a promise: independent Gaussian, independent Laplace, or block staircase.

    Statement (Theorems 1 and 2 of the paper; E1 to E4 for sets other than a box): among all vectors of independent
    Gaussian (Laplace) noise that keep the promise on this sensitivity set, the one planned has the least expected error
    sum alpha_i^p E|T_i|^p (up to the factor `suboptimality`). For boxes and partitions noise that is drawn jointly in
    blocks of coordinates is planned as well (`inid.planning.staircase_plan`), and taken where its error is less.
    Guarantee: the plan has passed its own `verify()`.

    Laplace noise whose scales a delta would lower by less than 1 % is planned without it: under ApproxDP(1.0, 1e-6) the
    plan's `budget` is then PureDP(1.0), a stronger promise, and three such plans fit in a ledger of (3, 1e-6).

    Args:
        sensitivity: How far one person can move the answer.
        budget: The promise.
        mechanism: "gaussian", "laplace", "staircase" (drawn jointly for blocks of the coordinates of a box or of
            partitions), or "auto" for the one with the smallest expected error.
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
    >>> p.mechanism, p.std.round(2), round(p.error, 1)
    ('staircase', array([ 4.  , 11.99]), 159.8)
    >>> inid.plan(inid.Sensitivity.box([1.0, 3.0]), inid.PureDP(epsilon=0.5), mechanism="laplace").scales.round(2)
    array([6.16, 8.88])
    """
    choice("mechanism", mechanism, get_args(NoiseChoice))
    alpha, p = _read(sensitivity, budget, allocation, weights, tolerance, order)
    if mechanism == "staircase":
        return staircase_plan(sensitivity, budget, allocation=allocation, weights=alpha, order=p)
    best = plan_independent(sensitivity, budget, mechanism=mechanism, allocation=allocation, weights=alpha, order=p)
    if mechanism != "auto" or best.log2_error == -math.inf or not serves(sensitivity, budget, p):
        return best
    try:
        most = best.log2_error
        joint = least_staircase(sensitivity, budget, allocation=allocation, weights=alpha, order=p, most=most)
    except RangeError:  # a sensitivity near the ends of the floats
        return best
    return best if joint is None or not joint.log2_error < best.log2_error - _CLEARLY else joint


def plan_independent(
    sensitivity: Sensitivity,
    budget: Budget,
    *,
    mechanism: MechanismChoice = "auto",
    allocation: Allocation = "optimal",
    weights: ArrayLike | None = None,
    tolerance: ArrayLike | None = None,
    order: float = 2,
) -> NoisePlan:
    """`plan`, of Gaussian or Laplace noise: for answers whose coordinates are read one by one."""
    choice("mechanism", mechanism, get_args(MechanismChoice))
    alpha, p = _read(sensitivity, budget, allocation, weights, tolerance, order)
    drafting = _Drafting(sensitivity, budget, allocation, alpha, p)
    least = drafting.least_proved
    if mechanism != "auto":
        return least(drafting.drafts(Mechanism.named(mechanism)))
    if isinstance(budget, PureDP):
        return least(drafting.drafts(LAPLACE))
    try:
        drafts = drafting.drafts(GAUSSIAN)
    except RangeError:
        return least(drafting.drafts(LAPLACE))
    if drafting.laplace_may_be_less(drafts[0].log2_error):
        with contextlib.suppress(RangeError):
            drafts += drafting.drafts(LAPLACE)
    return least(drafts)


def _read(
    sensitivity: object, budget: object, allocation: object, weights: object, tolerance: object, order: object
) -> tuple[Floats | None, float]:
    """The weights and the order of the error, once all arguments are read."""
    if not isinstance(sensitivity, Sensitivity):
        raise ArgumentError(
            f"sensitivity must be a Sensitivity, got {shown(sensitivity)}: wrap bounds as inid.Sensitivity.box([...])."
        )
    if not isinstance(budget, Budget):
        raise ArgumentError(
            f"budget must be a promise such as inid.ApproxDP(epsilon=1.0, delta=1e-6), got {shown(budget)}: name it."
        )
    choice("allocation", allocation, get_args(Allocation))
    return _read_alpha(sensitivity, weights, tolerance), read_order(order)


@dataclass(frozen=True)
class _Drafting:
    """What a plan is made for; drafts are calibrated and not yet proved."""

    sensitivity: Sensitivity
    budget: Budget
    allocation: Allocation
    weights: Floats | None
    order: float

    @cached_property
    def cells(self) -> Cells:
        return self.sensitivity.cells(self.sensitivity.limits.size if self.weights is None else self.weights.size)

    @cached_property
    def logs(self) -> Floats | float:
        return 0.0 if self.weights is None else log2(self.weights)

    def drafts(self, mechanism: Mechanism) -> list[NoisePlan]:
        """One plan per candidate shape whose scales are normal floats, the least error first.

        Laplace noise whose scales a delta would lower by less than 1 % is planned under pure DP, and costs the epsilon
        that was asked for; along the curve it would cost a little more than that, for next to nothing.
        """
        calibrated = self.calibrated_drafts(mechanism)
        if mechanism is not LAPLACE or not isinstance(self.budget, ApproxDP) or not self.budget.epsilon > 0:
            return calibrated
        try:
            pure = replace(self, budget=PureDP(self.budget.epsilon)).calibrated_drafts(mechanism)
        except RangeError:
            return calibrated
        if not pure[0].log2_error - calibrated[0].log2_error < -self.order * math.log2(DELTA_WORTH):
            return calibrated
        return [replace(draft, stated=self.budget) for draft in pure]

    def calibrated_drafts(self, mechanism: Mechanism) -> list[NoisePlan]:
        """`drafts`, under this promise alone."""
        drafts: list[NoisePlan] = []
        outside: RangeError | None = None
        for shape in self._shapes(mechanism):
            try:
                scales = calibrated(self.sensitivity, self.budget, mechanism, shape, self.cells)
            except RangeError as error:
                outside = error
                continue
            drafts.append(
                NoisePlan(
                    self.sensitivity, self.budget, mechanism.name, self.allocation, self.order, self.weights, scales
                )
            )
        if not drafts and outside is not None:
            raise outside
        return drafts if len(drafts) == 1 else sorted(drafts, key=lambda draft: draft.log2_error)

    def _shapes(self, mechanism: Mechanism) -> list[Floats]:
        """The shapes among which the plan is sought: one where the least-error shape is known for this promise."""
        s, arguments = self.sensitivity, (self.allocation, self.logs, self.order, self.cells)
        shapes = s.shapes(mechanism.exponent, *arguments)
        if self.allocation != "optimal" or mechanism is GAUSSIAN or isinstance(self.budget, PureDP):
            return shapes
        if follows_curve(s, self.budget, mechanism):
            # A single ratio is bounded exactly by its sum, as under pure DP.
            return shapes if s.corner_size <= 1 else searched_shapes(s, self.budget, *arguments[1:])
        # Each rule of the promise (`calibration`) has its own least-error shape, and no other shape does better by it.
        return shapes + (s.shapes(2, *arguments) if self.budget.laplace_norm is not None else [])

    def laplace_may_be_less(self, log2_error: float) -> bool:
        """Whether Laplace noise that keeps the promise might have a smaller error; what costs least is asked first."""
        size = self.sensitivity.corner_size
        if size == 0:
            return True
        if isinstance(self.budget, ApproxDP) and size > 1:
            if self.allocation != "optimal":
                facts = (self.sensitivity, self.budget, self.logs, self.order, self.cells)
                return not is_too_little(self._only_shape, log2_error, *facts)
            if not self._log2_least_laplace(most_by_signs(self.budget, size)) < log2_error:
                return False
        return self._log2_least_laplace(most_epsilon(self.budget, size)) < log2_error

    def _log2_least_laplace(self, most: float) -> float:
        """log2 of an error below which no Laplace noise that spends at most this can go; -inf where none is known."""
        if not 0 < most < math.inf:
            return -math.inf
        if self.allocation == "optimal":
            profile = self.sensitivity.log_profile(1, self.logs, self.order, self.cells)
            least = log2_least_error(LAPLACE, 1, profile, self.logs, self.order, self.cells.counts)
            return least - self.order * math.log2(most)
        try:
            scales = calibrated(self.sensitivity, PureDP(most), LAPLACE, self._only_shape, self.cells)
        except RangeError:
            return -math.inf
        return LAPLACE.log2_error(log2(scales), self.logs, self.order, self.cells.counts)

    def least_proved(self, drafts: list[NoisePlan]) -> NoisePlan:
        """The plan of least error, with its proof. A proof may raise scales, so that another draft is less.

        Along the curve of a GaussianDP promise it may raise them by up to a quarter, and no optimum is proved: then the
        baselines are proved as well, so that no optimal plan is worse than they are.
        """
        best: NoisePlan | None = None
        waiting = sorted(drafts, key=lambda one: one.log2_error)
        while waiting and (best is None or waiting[0].log2_error < best.log2_error):
            draft = waiting.pop(0)
            scales, certificate = proved(draft.sensitivity, draft.budget, draft.law, draft.run_scales, draft.cells)
            candidate = replace(draft, allocation=self.allocation, run_scales=scales)
            candidate.__dict__["certificate"] = certificate  # what the cached property would compute again
            if candidate.log2_error > draft.log2_error + _RAISED and draft.allocation == self.allocation == "optimal":
                for name in _BASELINES:
                    with contextlib.suppress(RangeError):
                        waiting += replace(self, allocation=name).drafts(draft.law)
                waiting.sort(key=lambda one: one.log2_error)
            if best is None or candidate.log2_error < best.log2_error:
                best = candidate
        if best is None:  # pragma: no cover - drafts are never empty
            raise AssertionError
        return best

    @property
    def _only_shape(self) -> Floats:
        """The shape of a baseline, a fresh array."""
        (shape,) = self.sensitivity.shapes(1, self.allocation, self.logs, self.order, self.cells)
        return shape


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
        raise ArgumentError(
            f"tolerance[{at}] must not be subnormal, got {shown_entry(tolerance, limits, at)}: use another unit."
        )
    alpha.flags.writeable = False
    return alpha
