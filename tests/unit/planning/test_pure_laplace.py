"""Laplace noise that a delta would hardly help is planned, proved and charged as pure DP: the splits people try fit."""

import pickle
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import inid
from inid.accounting import Ledger
from inid.mechanisms import LAPLACE
from inid.numbers import decimal_fraction
from inid.planning import calibrated

BOX = inid.Sensitivity.box
SETS = {
    "one number": BOX([2.5]),
    "box": BOX([1.0, 3.0, 40.0]),
    "equal box": BOX([1.0] * 12),
    "run-length box": BOX([1.0, 20.0], counts=[50, 3]),
    "replace": BOX([1.0, 3.0], neighbours="replace"),
    "caps": BOX([1.0, 3.0, 4.0, 0.5], l1=5.0, l2=4.2),
    "ball": inid.Sensitivity.ball(dimension=20, l1=1.5),
    "groups": inid.Sensitivity.groups(sizes=[4, 1, 9], l1=[1.0, 2.0, 0.5]),
}
PROMISES = [(1.0, 1e-6), (0.5, 5e-7), (0.1, 1e-9), (3.0, 1e-3), (0.3, 0.02), (8.0, 1e-5)]
CASES = [(name, promise) for name in SETS for promise in PROMISES]


def laplace(s, epsilon, delta, **more):
    return inid.plan(s, inid.ApproxDP(epsilon, delta), mechanism="laplace", **more)


@pytest.mark.parametrize(("name", "promise"), CASES, ids=str)
def test_a_delta_is_used_where_it_lowers_scales_by_a_hundredth_and_nowhere_else(name, promise):
    made = laplace(SETS[name], *promise)
    pure = inid.plan(SETS[name], inid.PureDP(promise[0]), mechanism="laplace")
    made.verify()
    if made.budget == inid.ApproxDP(*promise):
        assert made.error <= 0.99**2 * pure.error
        return
    assert made == pure
    assert made.stated == inid.ApproxDP(*promise)
    assert made.spent <= decimal_fraction(promise[0])
    with pytest.raises(inid.GuaranteeError):  # no scales of this shape that are lower by more than 1 % keep the promise
        replace(made, budget=made.stated, run_scales=0.989 * made.run_scales).verify()


def test_both_kinds_occur_among_these_cases():
    kinds = {type(laplace(SETS[name], *promise).budget) for name, promise in CASES[:12]}
    assert kinds == {inid.PureDP, inid.ApproxDP}


@pytest.mark.parametrize("order", [1, 2, 3.5])
def test_other_orders_and_allocations_are_split_alike(order):
    for allocation in ("optimal", "iid", "spr"):
        made = laplace(SETS["box"], 1.0, 1e-6, order=order, allocation=allocation)
        assert (made.budget, made.allocation) == (inid.PureDP(1.0), allocation)


@pytest.mark.parametrize(
    ("total", "part", "times"),
    [
        ((3, 1e-6), (1, 1e-6), 3),
        ((1, 1e-6), (0.5, 5e-7), 2),
        ((0.3, 1e-6), (0.1, 1e-6), 3),
        ((2, 1e-9), (0.2, 1e-10), 10),
    ],
    ids=str,
)
@pytest.mark.parametrize("name", ["one number", "box", "replace"])
def test_splits_that_people_try_fit_and_one_more_does_not(total, part, times, name):
    made = laplace(SETS[name], *part)
    with Ledger(total=inid.ApproxDP(*total), neighbours=made.sensitivity.neighbours) as ledger:
        for _ in range(times):
            ledger.charge(made)
        assert decimal_fraction(ledger.spent().epsilon) == times * decimal_fraction(part[0]) == Fraction(str(total[0]))
        with pytest.raises(inid.BudgetError):
            ledger.charge(made)


def test_noise_that_is_calibrated_at_epsilon_but_proved_for_the_delta_does_not_fit():
    """Such a twin keeps (epsilon, delta), but its roundings may spend more than epsilon, which pure DP forbids."""
    random, over = np.random.default_rng(7), 0
    for _ in range(60):
        made = laplace(BOX(random.uniform(0.1, 10, size=random.integers(2, 6))), 1.0, 1e-6)
        assert made.budget == inid.PureDP(1.0)
        assert _fits_three_times(made)
        (shape,) = made.sensitivity.shapes(1, "optimal", 0.0, 2.0, made.cells)
        scales = calibrated(made.sensitivity, made.budget, LAPLACE, shape, made.cells)
        twin = replace(made, budget=made.stated, run_scales=scales)
        twin.verify()
        if twin.spent > 1:
            over += 1
            assert not _fits_three_times(twin)
    assert over > 0


def _fits_three_times(made):
    ledger = Ledger(total=inid.ApproxDP(3, 1e-6))
    for _ in range(3):
        if not ledger.can_afford(made):
            return False
        ledger.charge(made)
    return True


@pytest.mark.parametrize("delta", [1e-6, 1e-9])
@pytest.mark.parametrize("name", ["one number", "box", "replace", "caps", "ball", "groups"])
def test_what_an_accuracy_costs_buys_it_back(name, delta):
    """`plan_for_accuracy` and `plan` agree on when a delta is of use: the cost, asked for, gives no larger an error."""
    s = SETS[name]
    tolerance = 5.0 * s.reach
    found = inid.plan_for_accuracy(s, tolerance, failure=0.05, delta=delta)
    made = next(p for p in found.alternatives if p.mechanism == "laplace")
    epsilon = made.budget.epsilon
    assert made.budget == inid.PureDP(epsilon)
    assert made.spent <= decimal_fraction(epsilon)
    assert inid.NoisePlan.from_dict(made.to_dict()) == made
    again = inid.plan(s, inid.ApproxDP(epsilon, delta), mechanism="laplace", tolerance=tolerance)
    assert again.budget == made.budget
    assert again.error <= made.error * (1 + 1e-9)
    for total in (made.budget, made.stated):
        Ledger(total=total, neighbours=s.neighbours).charge(made)


def test_baselines_keep_the_promise_that_was_asked_for():
    made = inid.plan(SETS["box"], inid.ApproxDP(1.0, 1e-6), mechanism="laplace")
    assert made.budget == inid.PureDP(1.0)
    rows = {(row.mechanism, row.allocation): row.error for row in made.compare().rows}
    gaussian = inid.plan(SETS["box"], inid.ApproxDP(1.0, 1e-6), mechanism="gaussian", allocation="iid")
    assert rows["gaussian", "iid"] == gaussian.error
    assert pickle.loads(pickle.dumps(made)).stated == made.stated  # noqa: S301 - our own
    stored = inid.NoisePlan.from_dict(made.to_dict())  # a record holds what is proved
    assert (stored, stored.stated) == (made, inid.PureDP(1.0))
