"""What an accuracy of several queries costs: what each needs by itself, added up.

Each query's own plan for accuracy spends mu_i^2 (Gaussian noise) or epsilon_i (Laplace noise), and those are fixed in
advance, so that all of it spends their sum. A query that takes a share s_i of the whole has s_i / (1 - sum of shares)
of that sum. Every part keeps its own scales, and with them its accuracy.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

from inid.errors import ArgumentError, GuaranteeError, RangeError, Words
from inid.mechanisms import MechanismName
from inid.mechanisms.gaussian import epsilon_of
from inid.numbers.decimals import decimal_down, decimal_fraction, decimal_root_down, decimal_up
from inid.numbers.sums import root_up
from inid.planning import NoisePlan
from inid.planning.accuracy import CheapestPlan, cheapest
from inid.promises import ApproxDP, Budget, GaussianDP, PureDP
from inid.tables.plan import Plan
from inid.tables.publication.plan import PublicationPlan
from inid.tables.publication.publication import served_families, taken_by
from inid.tables.query import Query

__all__ = ["cheapest_publication"]

_ROOMS = (1.0, 1 + 2.0**-50, 1 + 1e-12, 1 + 1e-9, 1 + 1e-6)  # what a promise may lie above what its noise spends


def cheapest_publication(
    queries: Mapping[str, Query[Any, Any]],
    tolerance: Mapping[str, Any],
    shares: Sequence[Fraction | None],
    *,
    failure: float,
    delta: float | None,
) -> CheapestPlan[PublicationPlan]:
    """See `Publication.plan_for_accuracy`."""
    stated = dict(zip(queries, shares, strict=True))
    for name, query in queries.items():
        if not query.question.knows_accuracy and stated[name] is None:
            raise ArgumentError(
                f"the cost of an accuracy is not known for {name} ({query.question.asked_as}): state the part of the "
                f'promise that it takes, share={{{name!r}: "1/10"}}.',
                code="share_missing",
                question=Words(name),
            )
    taken = taken_by(queries)
    if delta is not None and not delta > taken:
        raise ArgumentError(f"found keys take delta={taken:g} beside their noise: name a larger delta.")
    families = served_families(queries, shares, ("laplace",) if delta is None else ("gaussian", "laplace"))
    made = [_planned(queries, tolerance, stated, family, failure, delta) for family in families]
    return CheapestPlan(*cheapest(made, delta))


def _planned(
    queries: Mapping[str, Query[Any, Any]],
    tolerance: Mapping[str, Any],
    shares: Mapping[str, Fraction | None],
    family: MechanismName,
    failure: float,
    delta: float | None,
) -> PublicationPlan:
    known = {
        name: _for_accuracy(query, tolerance[name], family, failure, delta)
        for name, query in queries.items()
        if shares[name] is None
    }
    spent = sum((_amount(plan.budget) for plan in known.values()), Fraction(0))
    taken = sum((share for share in shares.values() if share is not None), Fraction(0))
    whole = spent / (1 - taken)
    plans: dict[str, Plan] = {}
    for name, query in queries.items():
        share = shares[name]
        plans[name] = known[name] if share is None else _shared(query, share * whole, family, tolerance[name])
    beside = taken_by(queries)
    return _under_a_promise(queries, plans, whole, family, beside, delta)


def _for_accuracy(
    query: Query[Any, Any], tolerance: Any, family: MechanismName, failure: float, delta: float | None
) -> Plan:
    """The query's own plan, its promise stated in the currency in which parts add up."""
    if family == "laplace":
        return query.plan_for_accuracy(tolerance, failure=failure).plan  # type: ignore[no-any-return]
    found = query.plan_for_accuracy(tolerance, failure=failure, delta=delta)
    plan = next(one for one in found.alternatives if one.mechanism == "gaussian")
    noise: NoisePlan = plan.noise
    mu = root_up(Fraction(noise.certificate.spent))
    for room in _ROOMS:
        fields = noise.mechanism, noise.allocation, noise.order, noise.weights, noise.row_scales
        made = NoisePlan(noise.sensitivity, GaussianDP(mu * room), *fields)
        try:
            made.verify()
        except GuaranteeError:
            continue
        return replace(plan, noise=made)  # type: ignore[no-any-return]
    raise RangeError("no budget was found for this accuracy: accept a larger tolerance.")


def _shared(query: Query[Any, Any], amount: Fraction, family: MechanismName, tolerance: Any) -> Plan:
    part: Budget = PureDP(decimal_down(amount)) if family == "laplace" else GaussianDP(decimal_root_down(amount))
    options: dict[str, Any] = {"mechanism": family} if "mechanism" in query.question.options else {}
    options |= {} if tolerance is None else {"tolerance": tolerance}
    return query.plan(part, **options)  # type: ignore[no-any-return]


def _under_a_promise(
    queries: Mapping[str, Query[Any, Any]],
    plans: Mapping[str, Plan],
    whole: Fraction,
    family: MechanismName,
    taken: float,
    delta: float | None,
) -> PublicationPlan:
    """The plan under the least promise that its charge is proved to keep."""
    for room in _ROOMS:
        promise = _promise(whole * Fraction(room), family, taken, delta)
        equal = {name: query.question.equal(promise, questions=len(queries)) for name, query in queries.items()}
        made = PublicationPlan(promise, family, plans, equal, taken)
        try:
            made.charge  # noqa: B018 - it proves the promise
        except GuaranteeError:
            continue
        return made
    raise RangeError("no promise was found for this accuracy: accept larger tolerances.")


def _promise(whole: Fraction, family: MechanismName, taken: float, delta: float | None) -> PureDP | ApproxDP:
    if family == "laplace":
        epsilon = decimal_up(whole, "epsilon")
        return PureDP(epsilon) if not taken else ApproxDP(epsilon, delta or taken)
    rest = decimal_down(decimal_fraction(delta or 0.0) - decimal_fraction(taken))
    return ApproxDP(epsilon_of(math.sqrt(float(whole)), rest), delta or rest)


def _amount(budget: Budget) -> Fraction:
    """What a part spends: epsilon, or mu^2."""
    if isinstance(budget, GaussianDP):
        return decimal_fraction(budget.mu) ** 2
    return decimal_fraction(float(budget.to_dict()["epsilon"]))
