"""A private choice: charged before it looks, exact, and what it refuses."""

import math

import numpy as np
import pytest

import inid
from inid.releasing import plan_selection, select
from inid.testing import unsafe_no_noise, unsafe_seed

PLAN = plan_selection(1.0, inid.PureDP(epsilon=1.0))


def test_the_charge_comes_before_the_look():
    ledger = inid.Ledger(total=inid.PureDP(epsilon=1.5))
    select([1.0, 5.0], PLAN, ledger, label="largest group")
    looked = []
    with pytest.raises(inid.BudgetError):
        select(lambda: looked.append(1) or [1.0, 5.0], PLAN, ledger, candidates=2)
    assert not looked
    assert [line.label for line in ledger.history()] == ["largest group"]


def test_it_costs_what_laplace_noise_on_one_number_costs():
    laplace = inid.plan(inid.Sensitivity.box([1.0]), inid.PureDP(epsilon=1.0))
    for total in (inid.PureDP(3.0), inid.ApproxDP(3.0, 1e-6), inid.GaussianDP(2.0), inid.ZCDP(1.0)):
        ours, other = inid.Ledger(total=total), inid.Ledger(total=total)
        ours.charge(PLAN)
        other.charge(laplace)
        assert str(ours.spent) == str(other.spent)


@pytest.mark.parametrize(
    ("scores", "keywords"),
    [
        ([], {}),
        ([1.0, 2.0], {"candidates": 3}),
        ([[1.0], [2.0]], {}),
        (lambda: [1.0], {}),
        (lambda: [1.0], {"candidates": 0}),
        (["a", "b"], {}),
    ],
)
def test_what_is_malformed_is_refused_before_the_charge(scores, keywords):
    ledger = inid.Ledger(total=inid.PureDP(epsilon=1.5))
    with pytest.raises(inid.ArgumentError):
        select(scores, PLAN, ledger, **keywords)
    assert not ledger.history()


def test_a_plan_of_something_else_is_refused():
    other = inid.plan(inid.Sensitivity.box([1.0, 2.0]), inid.PureDP(epsilon=1.0))
    with pytest.raises(inid.ArgumentError, match="plan of a choice"):
        select([1.0, 2.0], other)
    with pytest.raises(inid.ArgumentError, match="score_range"):
        plan_selection(0.0, inid.PureDP(epsilon=1.0))


def test_odd_scores_are_held_to_public_limits():
    with unsafe_no_noise():
        assert select([math.nan, -1.0], PLAN).index == 0
        assert select([math.inf, 1.0], PLAN).index == 0
        assert select([2.0, 2.0, 1.0], PLAN).index == 0
    with unsafe_seed(1):
        assert select([-math.inf, 2.0**60, -3], PLAN).index == 1


def test_the_shortfall_holds_as_often_as_it_says():
    scores = np.zeros(20)
    scores[3] = 2.0
    with unsafe_seed(5):
        made = [select(scores, PLAN) for _ in range(2000)]
    below = [2.0 - scores[one.index] <= one.shortfall(0.9) for one in made]
    assert np.mean(below) >= 0.9
    assert made[0].shortfall(0.9) == pytest.approx(math.log(20 / 0.1))
    assert not made[0].private
    assert made[0].to_dict()["index"] == made[0].index
