"""Each guard of a publication has a twin without it, in which the promise or a number is harmed."""

import copy
import json
from dataclasses import replace
from fractions import Fraction
from functools import cached_property

import pytest

import inid
from inid import tables
from inid.numbers import decimal_fraction
from inid.tables import ErrorTargets, PublicationPlan, proved, record_digest
from internals import module_with
from published_people import publication

division = module_with("inid.planning", "Division")
parts = module_with("inid.tables", "Publication")

MU = inid.GaussianDP(0.4)
APPROX = inid.ApproxDP(1.0, 1e-6)


def part(plan, name):
    return decimal_fraction(plan.plans[name].budget.mu) ** 2


def std(plan, label):
    return next(number.std for number in plan.plans["pay"].planned_numbers() if number.label == label)


def test_without_the_limit_of_an_equal_split_a_loose_tolerance_hurts_its_number_and_its_query(monkeypatch):
    pub = publication()
    usual = pub.plan(MU)
    labels = [number.label for number in usual.plans["pay"].planned_numbers()]
    pay = {"pay": {"mean(pay)": 2 * usual.equal["pay"][labels.index("mean(pay)")]}}
    cells = {"people": {("sex", "band"): 1e9}}
    held = pub.plan(MU, tolerance=pay), pub.plan(MU, tolerance=cells)

    def without(named, equal):
        stated = [own if limit is None else limit for limit, own in zip(named, equal, strict=True)]
        return ErrorTargets(stated, stated)

    monkeypatch.setattr(parts, "targets_of", without)
    twins = pub.plan(MU, tolerance=pay), pub.plan(MU, tolerance=cells)
    assert std(held[0], "mean(pay)") == pytest.approx(std(usual, "mean(pay)"), rel=1e-9)
    assert std(twins[0], "mean(pay)") > 1.05 * std(usual, "mean(pay)")
    assert part(held[1], "people") == part(usual, "people") > 1.05 * part(twins[1], "people")


def test_without_the_even_half_a_query_starves(monkeypatch):
    pub, fair = publication(), decimal_fraction(MU.mu) ** 2 / 4
    stated = {"importance": {"people": 1e6}, "mechanism": "gaussian"}
    held = pub.plan(MU, **stated)

    def without(promise, mechanism, errors, importance, shares):
        made = division.divide(promise, mechanism, errors, importance, shares)
        even = made.total / len(errors)
        amounts = [2 * decimal_fraction(one.mu) ** 2 - even for one in made.parts]
        return replace(made, parts=tuple(division._part(one, mechanism, 0) for one in amounts))

    monkeypatch.setattr(parts, "divide", without)
    twin = pub.plan(MU, **stated)
    assert min(part(held, name) for name in held.plans) >= fair / 2 * Fraction(999, 1000)
    assert min(part(twin, name) for name in twin.plans) < fair / 4


def test_charged_one_by_one_the_parts_do_not_fit_the_promise_that_they_keep_together():
    pub = publication()
    plan = pub.plan(APPROX, mechanism="gaussian")
    pub.release(plan, inid.Ledger(total=APPROX))
    ledger = inid.Ledger(total=APPROX)
    with pytest.raises(inid.BudgetError):  # noqa: PT012 - the last of them at the latest
        for name, query in pub.queries.items():
            query.release(plan.plans[name], ledger)


def test_a_share_that_is_not_taken_from_the_others_is_refused_by_the_charge():
    pub = publication()
    shared, usual = pub.plan(MU, share={"ages": "1/2"}, mechanism="gaussian"), pub.plan(MU, mechanism="gaussian")
    assert replace(shared).charge
    with pytest.raises(inid.InidError):
        replace(shared, plans={**usual.plans, "ages": shared.plans["ages"]}).charge  # noqa: B018 - made here


def test_plans_that_were_exchanged_after_the_charge_was_proved_are_not_released_under_it():
    pub = publication()
    plan = pub.plan(APPROX)
    louder = pub.queries["people"].plan(inid.ApproxDP(20.0, 1e-6))

    def spent(made):
        """What is released under one charge of 1."""
        assert made.charge
        made.plans["people"] = louder
        return pub.release(made, inid.Ledger(total=APPROX))["people"].release.plan.budget

    with pytest.raises(inid.GuaranteeError):
        spent(replace(plan, plans=dict(plan.plans)))
    with pytest.raises(inid.GuaranteeError):
        replace(plan, plans={**plan.plans, "people": louder}).verify()

    class Kept(PublicationPlan):  # the twin proves its charge once
        charge = cached_property(PublicationPlan.charge.fget)

    twin = Kept(plan.budget, plan.mechanism, dict(plan.plans), plan.equal)
    assert spent(twin) == louder.budget


def test_the_promise_of_the_costliest_query_does_not_hold_for_all_of_them():
    t = publication().queries["pay"].table
    pub = tables.Publication(a=t.statistics(count=True), b=t.statistics(count=True))
    found = pub.plan_for_accuracy({"a": {"count": 10}, "b": {"count": 20}}).plan
    largest = max((one.budget for one in found.plans.values()), key=lambda budget: budget.epsilon)
    assert replace(found).charge
    with pytest.raises(inid.InidError):
        replace(found, budget=largest).charge  # noqa: B018 - made here


def test_proofs_of_the_parts_alone_take_a_record_whose_parts_were_not_charged():
    pub = publication()
    record = json.loads(json.dumps(pub.release(pub.plan(APPROX), inid.Ledger(total=APPROX)).to_dict()))

    def other_part(made):
        made["results"]["ages"] = made["results"]["pay"]

    def smaller_promise(made):
        made["charge"]["promise"]["epsilon"] = 0.5

    def swapped(made):
        made["names"] = made["names"][::-1]

    for change in (other_part, smaller_promise, swapped):
        forged = copy.deepcopy(record)
        change(forged)
        forged["digest"] = record_digest(forged)
        assert all(proved(own) for own in forged["results"].values())  # the twin: nothing is wrong with any of them
        with pytest.raises((inid.RecordError, inid.GuaranteeError)):
            tables.verify_result(forged)
