"""Intervals of weighted sums: against sums over all outcomes, and against draws."""

import math
from fractions import Fraction

import numpy as np
import pytest

import inid
from inid.planning import StaircasePlan, half_width, staircase_plan
from inid.testing import unsafe_seed


def whole(limits, epsilon, **options):
    """A plan for whole numbers."""
    limits = np.array(limits, float)
    return staircase_plan(inid.Sensitivity.box(limits), inid.PureDP(epsilon), steps=np.ones(limits.size), **options)


def law_of_sum(plan, reach):
    """P(sum = s) of whole noises, by convolution of exact laws of blocks, each a mixture over k of uniform sums."""
    total = {0: 1.0}
    for numbers, law in plan.drawn:
        weights = [law.volume(k) * law.rho**k for k in range(reach)]
        block = {}
        for k, weight in enumerate(weights):
            sums = {0: Fraction(1)}
            for at in range(len(numbers)):
                radius = law.reaches[at] * k + law.offsets[at]
                sums = {
                    s: sum(sums.get(s - t, 0) for t in range(-radius, radius + 1)) / (2 * radius + 1)
                    for s in range(min(sums) - radius, max(sums) + radius + 1)
                }
            for s, chance in sums.items():
                block[s] = block.get(s, 0.0) + float(chance * weight / sum(weights))
        total = {
            s: sum(total.get(s - t, 0.0) * p for t, p in block.items())
            for s in range(min(total) + min(block), max(total) + max(block) + 1)
        }
    return total


@pytest.mark.parametrize(("limits", "epsilon", "reach"), [([1], 8.0, 5), ([1, 1], 3.0, 12), ([1, 1, 1], 2.5, 14)])
@pytest.mark.parametrize("allocation", ["optimal", "spr"])
def test_sums_of_whole_numbers_have_the_least_width_of_their_level(limits, epsilon, reach, allocation):
    """J6: exact laws of the sum, by convolution."""
    plan = whole(limits, epsilon, allocation=allocation)
    chances = law_of_sum(plan, reach)
    missing = 1 - sum(chances.values())
    for level in (0.5, 0.8, 0.95, 0.99):
        width = half_width(plan, np.ones(len(limits)), level)
        held = [sum(p for s, p in chances.items() if abs(s) <= w) for w in (width, width - 1)]
        assert width == round(width)
        assert held[0] + missing >= level - 1e-12
        assert held[1] < level + 1e-6


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
@pytest.mark.parametrize("size", [1, 2, 3, 40])
def test_sums_of_any_numbers_hold_as_often_as_stated(epsilon, size):
    """Draws: 40,000 of each; an interval one tenth shorter is caught."""
    rng = np.random.default_rng(size)
    limits, weights = np.exp(rng.normal(0, 1, size)), rng.uniform(-1, 2, size)
    promise = inid.PureDP(epsilon)
    for mechanism in ("staircase", "laplace"):
        plan = inid.plan(inid.Sensitivity.box(limits), promise, mechanism=mechanism)
        drawn = np.abs(plan.sample(40_000, rng) @ weights)
        for level in (0.5, 0.9, 0.99):
            width, error = half_width(plan, weights, level), 5 * math.sqrt(level * (1 - level) / 40_000)
            held = (drawn <= width).mean()
            assert level - error <= held <= level + error + 0.006
        assert (drawn <= 0.9 * half_width(plan, weights, 0.9)).mean() < 0.9


def test_many_cells_cost_no_more_than_one_kind_of_block():
    """A thousand blocks of one law: a sum that is nearly normal."""
    plan = whole([1.0, 1.0], 1.0)
    (numbers, law) = plan.drawn[0]
    drawn = tuple(((at, at + 1), law) for at in range(0, 2000, 2))
    box = inid.Sensitivity.box(np.ones(2000))
    many = StaircasePlan.of(box, inid.PureDP(1.0), "optimal", 2, None, drawn, np.ones(2000))
    deviation = math.sqrt(1000) * math.sqrt(2) * plan.scales[0]
    assert half_width(many, np.ones(2000), 0.95) == pytest.approx(1.96 * deviation, rel=5e-3)
    assert half_width(many, np.where(np.arange(2000) < 2, 1.0, 0.0), 0.95) == half_width(plan, np.ones(2), 0.95)
    assert half_width(many, np.zeros(2000), 0.95) == 0.0
    assert len(numbers) == 2


@pytest.mark.parametrize("mechanism", ["gaussian", "laplace", "staircase"])
def test_a_release_has_intervals_of_its_totals(mechanism):
    plan = inid.plan(inid.Sensitivity.box([1.0, 2.0, 4.0]), inid.ApproxDP(1.0, 1e-6), mechanism=mechanism)
    exact, weights = np.array([10.0, 20.0, 30.0]), [1.0, -1.0, 0.5]
    with unsafe_seed(4):
        ends = np.array([inid.release(exact, plan).interval_of_sum(weights, 0.9) for _ in range(600)])
    held = (ends[:, 0] <= exact @ weights) & (exact @ weights <= ends[:, 1])
    assert abs(held.mean() - 0.9) < 5 * math.sqrt(0.09 / 600)
    alone = inid.release(exact, plan)
    low, high = alone.interval_of_sum([0.0, 1.0, 0.0])
    assert (high - low) / 2 == pytest.approx(float(np.subtract(*alone.interval()[::-1])[1]) / 2, rel=0.01)


@pytest.mark.parametrize(
    ("weights", "level"), [([1.0], 0.9), ([1.0, math.nan, 1.0], 0.9), ([1.0] * 3, 1.0), ("abc", 0.9)]
)
def test_malformed_sums_are_refused(weights, level):
    release = inid.release([1.0, 2.0, 3.0], inid.plan(inid.Sensitivity.box([1.0] * 3), inid.PureDP(1.0)))
    with pytest.raises(inid.ArgumentError):
        release.interval_of_sum(weights, level)
