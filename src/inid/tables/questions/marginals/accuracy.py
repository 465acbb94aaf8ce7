"""Tolerances of statistics by tables, and the cheapest noise that meets them."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from itertools import chain

import numpy as np
from scipy.special import ndtri

from inid.arguments import Floats, listed, real, shown
from inid.errors import ArgumentError, RangeError, Words
from inid.mechanisms.gaussian import epsilon_of
from inid.planning.accuracy import CheapestPlan, cheapest, epsilon_spent
from inid.promises import ApproxDP, Budget, GaussianDP, PureDP
from inid.tables.plan import rows_assumed, sizes_missing
from inid.tables.questions.marginals.plan import MarginalsPlan, planned
from inid.tables.questions.marginals.question import MarginalsQuestion
from inid.tables.questions.marginals.table_answers import half_width, one_cell
from inid.tables.questions.marginals.table_statistics import TableStatistic

_CURE = "for example tolerance={('race',): 5, 'mean(income)': 500}"


def read_tolerances(question: MarginalsQuestion, tolerance: object) -> Floats:
    """One tolerance per statistic; where none is stated, what one person at a bound moves it by.

    That is 1 for a count, half the width of the bounds for a sum, and that over the guessed rows of a cell for a mean.
    Keys are a table of counts (a tuple of columns, or the one column), "count", "mean(income)" (all its tables), or a
    pair of the two, ("mean(income)", ("sex",)); the pair counts where several fit.
    """
    counts = len(question.tables)
    numbers = question.statistics[counts:] if question.summed else ()
    usuals = np.append(np.ones(counts), [_usual(question, statistic) for statistic in numbers])
    return np.array(
        [
            usual if aim is None else aim
            for usual, aim in zip(usuals, named_tolerances(question, tolerance), strict=True)
        ]
    )


def named_tolerances(question: MarginalsQuestion, tolerance: object) -> list[float | None]:
    """The stated tolerance of each statistic by a table; None where nobody named it."""
    tolerances: list[float | None] = [None] * question.asked
    if tolerance is None:
        return tolerances
    if not isinstance(tolerance, Mapping):
        raise ArgumentError(f"tolerance must be a dictionary by table, got {shown(tolerance)}: {_CURE}.")
    names: dict[str, list[int]] = {}
    tables: dict[tuple[str, frozenset[str]], int] = {}
    for at, statistic in enumerate(question.statistics):
        names.setdefault(statistic.name, []).append(at)
        tables[statistic.name, frozenset(statistic.table)] = at
    read = {key: real(f"tolerance[{key!r}]", value, above=0, cure=_CURE) for key, value in tolerance.items()}
    for key in sorted(read, key=lambda key: not (isinstance(key, str) and key in names)):  # whole statistics first
        if isinstance(key, str) and key in names:
            for at in names[key]:
                tolerances[at] = read[key]
            continue
        place = _pair(key)
        if place not in tables:
            raise ArgumentError(
                f"tolerance names {shown(key)}, which is no asked table: {_CURE}.",
                code="tolerance_unknown",
                key=Words(_text(key)),
                known=Words(listed([_text((one.name, one.table)) for one in question.statistics])),
            )
        tolerances[tables[place]] = read[key]
    return tolerances


def _text(key: object) -> str:
    """A key as commands and files write it: sex*age, or mean(income) by sex*age."""
    if isinstance(key, tuple) and len(key) == 2 and isinstance(key[1], tuple):
        name, table = key
        return "*".join(table) if name == "count" else f"{name} by {'*'.join(table)}" if table else str(name)
    return "*".join(map(str, key)) if isinstance(key, tuple) else str(key)


def _pair(key: object) -> tuple[str, frozenset[str]] | None:
    if isinstance(key, str):
        return "count", frozenset([key])
    if not isinstance(key, tuple):
        return None
    if len(key) == 2 and isinstance(key[0], str) and isinstance(key[1], tuple):
        return key[0], frozenset(key[1])
    return ("count", frozenset(key)) if all(isinstance(column, str) for column in key) else None


def _usual(question: MarginalsQuestion, statistic: TableStatistic) -> float:
    """The tolerance of a mean or a sum for which none is stated."""
    half = question.summed[statistic.column].grid.half
    return half / question.cell_rows(statistic.table) if statistic.kind == "mean" else half


# Accuracy first: the least budget with which every statistic by tables is within its tolerance.

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
    question = _careful(question)
    plans = [_laplace(question, limits, gamma, delta)]
    if delta is not None:
        plans.append(_gaussian(question, limits, gamma, ApproxDP(0.0, delta).delta))
    first, others, reason = cheapest(plans, delta)
    assumed = f" {rows_assumed(question.assumed_rows)}" if question.means and question.rows is None else ""
    sized = max(chain.from_iterable(question.means.values()), key=len, default=())
    if sized and not assumed:
        groups = question.groups_in_words(question.levels_of(sized))
        assumed = f" This is for {groups}; in smaller groups the errors are larger."
    return MarginalsAccuracy(first, others, reason + assumed)


def _careful(question: MarginalsQuestion) -> MarginalsQuestion:
    """The same question, planned for the smallest stated group and for means at a bound; refused without sizes."""
    for name, tables in question.means.items():
        for table in tables:
            known = question.group_rows is not None and question.group_rows.is_known(table)
            if table and not known:
                raise sizes_missing(f"mean({name})", table)
    return replace(question, cautious=True)


def _gaussian(question: MarginalsQuestion, limits: Floats, failure: float, delta: float) -> MarginalsPlan:
    targets = limits / (-float(ndtri(failure / 2)) * _GRID)

    def most(trial: MarginalsPlan) -> float:
        return float((np.array([table.std for table in trial.tables]) / targets).max())

    def plan(budget: Budget) -> MarginalsPlan:
        trial = planned(question, budget, objective="max", tolerance=targets, mechanism="gaussian")
        return _with_tolerances(trial, limits)

    mu = most(plan(GaussianDP(1.0)))
    return _first(plan, most, (ApproxDP(epsilon_of(mu * room, delta), delta) for room in (_ROOM, _ROOM**1000)))


def _laplace(question: MarginalsQuestion, limits: Floats, failure: float, delta: float | None) -> MarginalsPlan:
    def plan(budget: Budget) -> MarginalsPlan:
        return planned(question, budget, objective="max", tolerance=limits, mechanism="laplace")

    def most(trial: MarginalsPlan) -> float:
        return float((_quantiles(trial, failure) / limits).max())

    epsilon = most(plan(PureDP(1.0))) * _ROOM
    pure = _first(plan, most, (PureDP(epsilon * room) for room in (1.0, _ROOM**1000)))
    if delta is None:
        return pure
    # Under a delta the same scales cost less; the least epsilon is found by halving.
    low, high = 0.0, epsilon_spent(pure)
    best = plan(ApproxDP(high, delta))
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        trial = plan(ApproxDP(middle, delta))
        if most(trial) <= 1:
            high, best = middle, trial
        else:
            low = middle
    return best


def _first(
    plan: Callable[[Budget], MarginalsPlan], most: Callable[[MarginalsPlan], float], budgets: Iterable[Budget]
) -> MarginalsPlan:
    for budget in budgets:
        trial = plan(budget)
        if most(trial) <= 1:
            return trial
    raise RangeError("no budget was found for this accuracy: accept a larger tolerance.")


def _with_tolerances(chosen: MarginalsPlan, limits: Floats) -> MarginalsPlan:
    """The same plan, with the tolerances that were stated."""
    return replace(chosen, numbers=replace(chosen.numbers, tolerance=limits))


def _quantiles(chosen: MarginalsPlan, failure: float) -> Floats:
    """How far each statistic is off with this probability, by its own law (of a mean, to first order)."""
    question, factors = chosen.question, []
    for entry in chosen.tables:
        attributes = tuple(sorted(question.numbers(entry.columns)))
        one = one_cell(question, attributes)
        channels = {(channel, *attributes): slope * one for channel, slope in question.parts(entry.statistic)}
        factors.append(half_width(question, chosen.noise, 1 - failure, entry.std, channels))
    return np.array(factors)
