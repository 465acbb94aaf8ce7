"""Accuracy first: the least budget with which every statistic by tables is within its tolerance."""

from collections.abc import Callable, Iterable
from dataclasses import replace

import numpy as np
from scipy.special import ndtri

from inid.arguments import Floats, real, shown
from inid.errors import ArgumentError, RangeError
from inid.mechanisms.gaussian import epsilon_of
from inid.planning.accuracy import CheapestPlan, cheapest, epsilon_spent
from inid.promises import ApproxDP, Budget, GaussianDP, PureDP
from inid.tables.plan import rows_assumed
from inid.tables.questions.marginals.intervals import half_width, one_cell
from inid.tables.questions.marginals.plan import MarginalsPlan, planned
from inid.tables.questions.marginals.question import MarginalsQuestion
from inid.tables.questions.marginals.tolerances import read_tolerances

__all__ = ["MarginalsAccuracy", "plan_marginals_for_accuracy"]

_ROOM = 1 + 1e-9  # calibration ends on the safe side of a root: as much more of the budget makes up for it
_GRID = 1 + 2.0**-12  # values lie on a grid of at most 2^-12 scales
_HALVINGS = 12


class MarginalsAccuracy(CheapestPlan[MarginalsPlan]):
    """The cheapest plan with which each statistic is within its tolerance, by `MarginalsQuery.plan_for_accuracy`."""


def plan_marginals_for_accuracy(
    question: MarginalsQuestion, tolerance: object, *, failure: float, delta: float | None
) -> MarginalsAccuracy:
    """The cheapest noise with which every statistic is within its tolerance; see `MarginalsQuery.plan_for_accuracy`.

    Gaussian noise: every std is in proportion to 1 / mu, so that the largest std / (tolerance / z) at mu = 1 is the mu
    that is needed, and the least maximum of it the least mu (M5). Laplace noise: the same with 1 / epsilon and the
    quantile of each statistic's own law.
    """
    gamma = real("failure", failure, above=0, cure="pass a probability such as failure=0.05")
    if not gamma < 1:
        raise ArgumentError(f"failure must be a probability below 1, got {shown(failure)}: pass 0.05, say.")
    limits = read_tolerances(question, tolerance)
    made = [_laplace(question, limits, gamma, delta)]
    if delta is not None:
        made.append(_gaussian(question, limits, gamma, ApproxDP(0.0, delta).delta))
    first, found, reason = cheapest(made, delta)
    assumed = f" {rows_assumed(question.assumed_rows)}" if question.means and question.rows is None else ""
    return MarginalsAccuracy(first, found, reason + assumed)


def _gaussian(question: MarginalsQuestion, limits: Floats, failure: float, delta: float) -> MarginalsPlan:
    wanted = limits / (-float(ndtri(failure / 2)) * _GRID)

    def most(made: MarginalsPlan) -> float:
        return float((np.array([table.std for table in made.tables]) / wanted).max())

    def plan(budget: Budget) -> MarginalsPlan:
        made = planned(question, budget, objective="max", tolerance=wanted, mechanism="gaussian")
        return _with_tolerances(made, limits)

    mu = most(plan(GaussianDP(1.0)))
    return _first(plan, most, (ApproxDP(epsilon_of(mu * room, delta), delta) for room in (_ROOM, _ROOM**1000)))


def _laplace(question: MarginalsQuestion, limits: Floats, failure: float, delta: float | None) -> MarginalsPlan:
    def plan(budget: Budget) -> MarginalsPlan:
        return planned(question, budget, objective="max", tolerance=limits, mechanism="laplace")

    def most(made: MarginalsPlan) -> float:
        return float((_quantiles(made, failure) / limits).max())

    epsilon = most(plan(PureDP(1.0))) * _ROOM
    pure = _first(plan, most, (PureDP(epsilon * room) for room in (1.0, _ROOM**1000)))
    if delta is None:
        return pure
    # Under a delta the same scales cost less; the least epsilon is found by halving.
    low, high = 0.0, epsilon_spent(pure)
    best = plan(ApproxDP(high, delta))
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        made = plan(ApproxDP(middle, delta))
        if most(made) <= 1:
            high, best = middle, made
        else:
            low = middle
    return best


def _first(
    plan: Callable[[Budget], MarginalsPlan], most: Callable[[MarginalsPlan], float], budgets: Iterable[Budget]
) -> MarginalsPlan:
    for budget in budgets:
        made = plan(budget)
        if most(made) <= 1:
            return made
    raise RangeError("no budget was found for this accuracy: accept a larger tolerance.")


def _with_tolerances(made: MarginalsPlan, limits: Floats) -> MarginalsPlan:
    """The same plan, with the tolerances that were stated."""
    return replace(made, numbers=replace(made.numbers, tolerance=limits))


def _quantiles(made: MarginalsPlan, failure: float) -> Floats:
    """How far each statistic is off with this probability, by its own law (of a mean, to first order)."""
    question, found = made.question, []
    for entry in made.tables:
        attributes = tuple(sorted(question.numbers(entry.columns)))
        one = one_cell(question, attributes)
        wanted = {(channel, *attributes): slope * one for channel, slope in question.parts(entry.statistic)}
        found.append(half_width(question, made.noise, 1 - failure, entry.std, wanted))
    return np.array(found)
