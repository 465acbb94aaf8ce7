"""The charge of a whole promise: it fits an empty ledger of that promise, no other, and its parts never exceed it.

Sums are exact, of the decimals that were promised. Each rule has a twin without it, on which the same check fails.
"""

import math
from dataclasses import replace
from fractions import Fraction

import pandas as pd
import pytest

import inid
from inid import tables
from inid.accounting import JointCharge
from inid.numbers import decimal_fraction
from inid.planning import divide, whole_of
from inid.tables.questions.synthetic import SHARES, parts_of
from internals import module_with
from published_people import publication

admission = module_with("inid.accounting", "priced")
costs = module_with("inid.accounting", "costs")
division = module_with("inid.planning", "Division")
three_steps = module_with("inid.tables.questions.synthetic", "Steps")

LINE = inid.Sensitivity.box([1.0])
APPROX = inid.ApproxDP(1.0, 1e-6)


def floats_as_they_are(number):
    """The twin of a decimal: the exact value of the float that is nearest to it."""
    return Fraction(float(number))


def thirds_fit(monkeypatch, *, twin):
    """Whether an empty ledger of 0.3 takes three questions of 0.1 each."""
    with monkeypatch.context() as patch:
        if twin:
            patch.setattr(costs, "decimal_fraction", floats_as_they_are)
        tenths = tuple(inid.plan(LINE, inid.PureDP(0.1)) for _ in range(3))
        try:
            charge = JointCharge(inid.PureDP(0.3), tenths, "add_remove")
        except inid.GuaranteeError:
            return False
        return inid.Ledger(total=inid.PureDP(0.3)).can_afford(charge)


def test_three_times_a_tenth_fit_three_tenths(monkeypatch):
    assert thirds_fit(monkeypatch, twin=False)
    assert not thirds_fit(monkeypatch, twin=True)


def test_a_publication_of_three_equal_questions_fits_three_tenths_and_gives_each_a_tenth():
    t = publication().queries["people"].table
    pub = tables.Publication(**{name: t.statistics(count=True) for name in ("a", "b", "c")})
    plan = pub.plan(inid.PureDP(0.3))
    assert [one.budget for one in plan.plans.values()] == [inid.PureDP(0.1)] * 3
    ledger = inid.Ledger(total=inid.PureDP(0.3))
    pub.release(plan, ledger)
    assert ledger.remaining().epsilon == 0


def synthetic():
    frame = pd.DataFrame({"a": ["x", "y"] * 20, "b": [1, 2, 2, 1] * 10, "c": [0.5, 1.5] * 20})
    t = tables.Table(frame, domains={"a": ["x", "y"], "b": [1, 2]}, bins={"c": [0, 1, 2]})
    return t.synthesize()


CHARGES = {
    "publication": lambda: publication().plan(APPROX),
    "publication, Gaussian": lambda: publication().plan(APPROX, mechanism="gaussian"),
    "synthetic": lambda: synthetic().plan(APPROX),
}
EARLIER = {
    "Laplace": lambda: inid.plan(LINE, inid.PureDP(1e-9)),
    "Gaussian": lambda: inid.plan(LINE, inid.GaussianDP(1e-9)),
    "zCDP": lambda: inid.plan(LINE, inid.ZCDP(1e-12)),
    "steps": lambda: inid.subsample(inid.plan(LINE, inid.GaussianDP(1e-6)), rate=0.001, steps=1),
    "parts": lambda: JointCharge(inid.GaussianDP(1e-9), (inid.GaussianDP(1e-9),), "add_remove"),
}


@pytest.mark.parametrize("kind", CHARGES)
def test_the_whole_promise_fits_an_empty_ledger_of_it_and_none_that_was_charged_anything(kind, monkeypatch):
    plan = CHARGES[kind]()
    empty = inid.Ledger(total=APPROX)
    assert empty.can_afford(plan)
    started = []
    for make in EARLIER.values():
        ledger = inid.Ledger(total=APPROX)
        ledger.charge(make())
        assert not ledger.can_afford(plan)
        with pytest.raises(inid.BudgetError):
            ledger.charge(plan)
        assert len(ledger.history()) == 1
        started.append(ledger)
    empty.charge(plan)
    for make in EARLIER.values():
        assert not empty.can_afford(make())
    # The twin does not ask whether there were charges: the promise would be given a second time.
    real = admission.admitted
    monkeypatch.setattr(
        module_with("inid.accounting", "Ledger"),
        "admitted",
        lambda settings, seen, charge: real(settings, replace(seen, charges=0, sums=settings.terms.nothing), charge),
    )
    for ledger in started:
        ledger.charge(plan)
        assert len(ledger.history()) == 2


PROMISES = [
    *(inid.PureDP(epsilon) for epsilon in (0.1, 0.3, 0.7, 1.0, 2.2, 1e-5)),
    *(inid.ApproxDP(epsilon, 1e-6) for epsilon in (0.1, 0.3, 1.0, 3.0)),
    *(inid.GaussianDP(mu) for mu in (0.1, 0.3, 0.7, 1.1)),
    *(inid.ZCDP(rho) for rho in (0.005, 0.1, 0.3)),
]


def most_spent(cases):
    """The largest part of a promise that its parts spend, as an exact fraction."""
    found = Fraction(0)
    for promise, parts in cases:
        family = "laplace" if isinstance(parts[0], inid.PureDP) else "gaussian"
        spent = sum(
            (decimal_fraction(one.epsilon) if family == "laplace" else decimal_fraction(one.mu) ** 2 for one in parts),
            Fraction(0),
        )
        found = max(found, spent / whole_of(promise, family))
    return found


def divided():
    """Every promise, in every family that keeps it, among two to seven questions of uneven errors."""
    for promise in PROMISES:
        for family in ("laplace", "gaussian"):
            if (family == "laplace") == isinstance(promise, (inid.GaussianDP, inid.ZCDP)):
                continue
            if family == "gaussian" and isinstance(promise, inid.PureDP):
                continue
            for k in range(2, 8):
                errors = [math.exp(at * 1.7) for at in range(k)]
                yield promise, divide(promise, family, errors).parts
                yield promise, divide(promise, family, [1.0] * k).parts
                yield promise, divide(promise, family, [None] * k, shares=[Fraction(1, k)] * k).parts


def stepped():
    return [(promise, parts_of(promise)) for promise in PROMISES if not isinstance(promise, inid.PureDP)]


@pytest.mark.parametrize("cases", [divided, stepped])
def test_what_is_spent_is_at_most_the_promise_as_fractions(cases, monkeypatch):
    assert Fraction(999_999, 10**6) < most_spent(cases()) <= 1
    # The twin rounds its parts to the nearest float.
    monkeypatch.setattr(division, "decimal_down", float)
    for module in (division, three_steps):
        monkeypatch.setattr(module, "decimal_root_down", math.sqrt)
    assert most_spent(cases()) > 1


def test_a_charge_above_its_promise_by_less_than_a_float_shows_is_refused(monkeypatch):
    promise = inid.GaussianDP(0.3)
    parts = [inid.GaussianDP(math.sqrt(0.09 * float(share))) for share in SHARES]
    over = sum(decimal_fraction(one.mu) ** 2 for one in parts) - Fraction(9, 100)
    if over <= 0:  # the next float
        parts[0] = inid.GaussianDP(math.nextafter(parts[0].mu, 1))
    with pytest.raises(inid.GuaranteeError, match="do not keep"):
        JointCharge(promise, tuple(parts), "add_remove")
    monkeypatch.setattr(JointCharge, "_prove", _proved_in_floats)
    JointCharge(promise, tuple(parts), "add_remove")  # the twin does not see it


def _proved_in_floats(charge):
    if not math.fsum(part.mu**2 for part in charge.parts) <= charge.promise.mu**2 * (1 + 1e-12):
        raise inid.GuaranteeError("they do not keep it.")
