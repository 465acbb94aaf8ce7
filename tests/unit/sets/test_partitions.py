"""Partitions: one box in one of several cells, their records, and the staircase noise that they allow (J4)."""

import itertools
import json
import math
import pickle
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import inid
from inid.noise import BlockLaw
from inid.planning import StaircasePlan
from inid.planning.staircase_law import product_below
from inid.planning.staircase_plan import ratio_up, staircase_plan

S = inid.Sensitivity


def test_a_set_is_recorded_bit_for_bit():
    s = S.partitions([[1.0, 0.1], [3.0]], cells=[4, 1], moves=[3, 1], labels=["a", "b", "c"], neighbours="replace")
    assert s.dimension == 9
    assert (
        s.profile.tolist() == [3.0] * 4 + [math.nextafter(0.1 * 3, 1)] * 4 + [3.0] or s.profile[4] >= Fraction(0.1) * 3
    )
    assert S.from_dict(json.loads(json.dumps(s.to_dict()))) == s == pickle.loads(pickle.dumps(s))  # noqa: S301
    others = [
        S.partitions([[1.0, 0.1], [3.0]], cells=[4, 1], moves=[2, 1], neighbours="replace"),
        S.partitions([[1.0], [0.1], [3.0]], cells=[4, 4, 1], moves=[3, 3, 1], neighbours="replace"),
        S.partitions([[1.0, 0.1], [3.0]], cells=[5, 1], moves=[3, 1], neighbours="replace"),
    ]
    assert len({s.fingerprint, *(other.fingerprint for other in others)}) == 4
    assert s not in others


@pytest.mark.parametrize(
    ("boxes", "options"),
    [
        ([], {}),
        ([1.0, 2.0], {}),
        ([[1.0], [-1.0]], {}),
        ([[1.0]], {"cells": 0}),
        ([[1.0]], {"cells": [2, 3]}),
        ([[1.0]], {"moves": 0}),
        ([[1.0]], {"moves": 1.5}),
        ([[math.nan]], {}),
        ([[1.0, 2.0]], {"labels": ["a", "a"]}),
    ],
)
def test_arguments_are_read(boxes, options):
    with pytest.raises(inid.ArgumentError):
        S.partitions(boxes, **{"cells": 2, **options})


def changed(record, **fields):
    return {**record, **fields}


def test_a_changed_record_is_refused():
    record = S.partitions([[1.0, 2.0], [3.0]], cells=[4, 1]).to_dict()
    for fields in (
        {"boxes": [1, 2]},
        {"boxes": [3]},
        {"boxes": [2]},
        {"moves": [1]},
        {"moves": [0, 1]},
        {"counts": None},
    ):
        with pytest.raises(inid.RecordError):
            S.from_dict(changed(record, **fields))
    with pytest.raises(inid.RecordError):
        S.from_dict({name: value for name, value in record.items() if name != "moves"})


@pytest.mark.parametrize(
    ("mechanism", "promise"),
    [
        ("laplace", inid.PureDP(1.0)),  # Gaussian noise keeps no pure promise
        *itertools.product(["laplace", "gaussian"], [inid.GaussianDP(0.5), inid.ApproxDP(1.0, 1e-6)]),
    ],
)
def test_independent_noise_is_that_of_groups_in_l1_norms(mechanism, promise):
    """Gaussian and Laplace noise gain nothing from the cell: the worst differences have all moves in one."""
    s = S.partitions([[1.0, 50.0], [2.0]], cells=[4, 3], moves=[2, 1])
    groups = S.groups([4, 4, 3], l1=[2.0, 100.0, 2.0])
    one, other = (inid.plan(x, promise, mechanism=mechanism) for x in (s, groups))
    assert one.scales.tolist() == other.scales.tolist()
    one.verify()


# J4 by brute force: every difference that a person can make, and what it costs in steps of the blocks.


def changes(boxes, cells, moves):
    """Every difference of whole numbers: in each partition a sum of moves, each within the box of one cell."""
    every = []
    for limits, number, many in zip(boxes, cells, moves, strict=True):
        inside = [
            (cell, step) for cell in range(number) for step in itertools.product(*(range(-a, a + 1) for a in limits))
        ]
        own = set()
        for chosen in itertools.combinations_with_replacement(inside, many):
            total = np.zeros((len(limits), number), dtype=int)
            for cell, step in chosen:
                total[:, cell] += step
            own.add(tuple(total.ravel().tolist()))
        every.append(own)
    return [sum(parts, ()) for parts in itertools.product(*every)]


def cost(plan, change):
    """The epsilon that a difference costs: of each block in each cell as many times as steps are crossed."""
    starts, total = np.cumsum([0, *plan.boxes.cells.tolist()]), 0.0
    for numbers, law in plan.drawn:
        for cell in range(int(plan.boxes.cells[numbers[0]])):
            steps = (
                math.ceil(abs(change[starts[number] + cell]) / (a * plan.grid[number]))
                for number, a in zip(numbers, law.reaches, strict=True)
            )
            total += law.rate * max(steps)
    return total


SMALL = [
    ([[1, 2]], [2], [1]),
    ([[1, 2]], [3], [2]),
    ([[1, 1], [1]], [2, 2], [2, 2]),
    ([[1, 3], [2]], [2, 1], [1, 1]),
    ([[1]], [4], [3]),
]


@pytest.mark.parametrize(("boxes", "cells", "moves"), SMALL)
@pytest.mark.parametrize("epsilon", [0.3, 3.0])
def test_no_change_of_a_person_costs_more_than_the_promise_and_one_costs_all_of_it(boxes, cells, moves, epsilon):
    s = S.partitions([list(map(float, box)) for box in boxes], cells, moves=moves)
    for weights in (None, np.geomspace(1, 100, sum(map(len, boxes)))):
        plan = inid.plan(s, inid.PureDP(epsilon), mechanism="staircase", weights=weights)
        worst = max(cost(plan, change) for change in changes(boxes, cells, moves))
        assert worst <= epsilon * (1 + 1e-12)
        assert worst >= epsilon * (1 - 1e-12)  # and nothing is left over
        plan.verify()


def of_blocks(s, epsilon, drawn):
    """A plan of stated blocks of whole numbers, whatever it is worth."""
    return StaircasePlan.of(s, inid.PureDP(epsilon), "optimal", 2.0, None, drawn, np.ones(s.limits.size))


def law(reaches, epsilon):
    return BlockLaw(tuple(reaches), (0,) * len(reaches), ratio_up(Fraction(str(epsilon))))


def test_wrong_forms_are_refused_and_would_break_the_promise():
    """J4: sensitivities times m at the whole epsilon; replace at epsilon; groups in l1 norms at one epsilon."""
    two_rows = S.partitions([[1.0, 2.0]], cells=[2], moves=[2])
    moves = changes([[1, 2]], [2], [2])
    right = of_blocks(two_rows, 1.0, [((0, 1), law([1, 2], 0.5))])
    right.verify()
    assert max(cost(right, change) for change in moves) <= 1 + 1e-12
    # m a_i at epsilon: one row in each of two cells crosses a step in each.
    wrong = of_blocks(two_rows, 1.0, [((0, 1), law([2, 4], 1.0))])
    assert max(cost(wrong, change) for change in moves) == pytest.approx(2.0)
    with pytest.raises(inid.GuaranteeError, match="product"):
        wrong.verify()
    # Replace at epsilon: out of one cell and into another.
    replaced = S.partitions([[1.0]], cells=[2], moves=[2], neighbours="replace")
    wrong = of_blocks(replaced, 1.0, [((0,), law([1], 1.0))])
    assert max(cost(wrong, change) for change in [(1, -1), (-1, 1), (0, 0)]) == pytest.approx(2.0)
    with pytest.raises(inid.GuaranteeError, match="product"):
        wrong.verify()
    # Groups in l1 norms let a person move one number in one cell and another number in another.
    groups = [
        (a, b, c, d)
        for a, b, c, d in itertools.product((-1, 0, 1), repeat=4)
        if abs(a) + abs(b) <= 1 >= abs(c) + abs(d)
    ]
    joint = of_blocks(S.partitions([[1.0, 1.0]], cells=[2]), 1.0, [((0, 1), law([1, 1], 1.0))])
    joint.verify()
    assert max(cost(joint, change) for change in changes([[1, 1]], [2], [1])) <= 1 + 1e-12
    assert max(cost(joint, change) for change in groups) == pytest.approx(2.0)
    with pytest.raises(inid.ArgumentError, match="for boxes and partitions"):
        inid.plan(S.groups([2, 2], l1=[1.0, 1.0]), inid.PureDP(1.0), mechanism="staircase")
    # Two histograms are two partitions, also with as many bins: no block may hold numbers of both.
    apart = S.partitions([[1.0], [1.0]], cells=[2, 2])
    with pytest.raises(inid.GuaranteeError, match="one partition"):
        of_blocks(apart, 1.0, [((0, 1), law([1, 1], 1.0))]).verify()
    # A total beside cells shares epsilon with them.
    beside = S.partitions([[1.0], [1.0]], cells=[2, 1])
    with pytest.raises(inid.GuaranteeError, match="product"):
        of_blocks(beside, 1.0, [((0,), law([1], 1.0)), ((1,), law([1], 1.0))]).verify()


def test_noise_in_steps_of_two_shows_no_parity():
    """J4, linear maps: noise 2 T on a whole number would show whether it is even. Answers are rounded first."""
    plan = staircase_plan(S.box([1.0]), inid.PureDP(1.0), steps=np.array([2.0]))
    assert [law.reaches for _, law in plan.drawn] == [(1,)]
    draws = {value: inid.release(np.full(1, value), plan).values[0] for value in (3.0, 4.0, 5.0)}
    assert all(drawn % 2 == 0 for drawn in draws.values())
    with inid.testing.unsafe_no_noise():
        rounded = {value: inid.release(np.full(1, value), plan).values[0] for value in draws}
    assert rounded == {3.0: 4.0, 4.0: 4.0, 5.0: 6.0}  # neighbours are one step apart at most
    wrong = {value: value + drawn - rounded[value] for value, drawn in draws.items()}  # the same noise, not rounded
    assert [drawn % 2 for drawn in wrong.values()] == [1, 0, 1]


def test_a_plan_of_fewer_moves_does_not_verify_for_more():
    plan = inid.plan(S.partitions([[1.0, 5.0]], cells=[3], moves=[2]), inid.PureDP(1.0), mechanism="staircase")
    wider = S.partitions([[1.0, 5.0]], cells=[3], moves=[3])
    with pytest.raises(inid.GuaranteeError):
        replace(plan, sensitivity=wider).verify()
    fewer = S.partitions([[1.0, 5.0]], cells=[300], moves=[1])
    replace(plan, sensitivity=fewer).verify()


@pytest.mark.parametrize("ratio", [None, Fraction(2**60 - 1, 2**60)])
def test_a_forged_record_of_huge_powers_is_decided_at_once(ratio):
    """An exact power of 2^40 would never end; a ratio so near 1 that the promise holds all the same is proved."""
    record = inid.plan(S.partitions([[1.0, 5.0]], cells=[3], moves=[2]), inid.PureDP(1.0), mechanism="staircase")
    record = record.to_dict()
    record["sensitivity"] |= {"moves": [2**40]}
    if ratio is None:
        with pytest.raises(inid.GuaranteeError, match="product"):
            inid.NoisePlan.from_dict(record).verify()
        return
    record["blocks"][0]["rho"] = str(ratio)
    proved = inid.NoisePlan.from_dict(record)
    assert proved.verify().spent == pytest.approx(2.0**-20)
    record["budget"]["epsilon"] = 0.9 * 2.0**-20
    with pytest.raises(inid.InidError):
        inid.NoisePlan.from_dict(record).verify()


def test_a_product_of_many_long_ratios_stays_short_and_below_the_exact_one():
    """A record may hold 4,096 ratios of 1,000 digits; their exact product would take minutes."""
    many = [Fraction(10**999 + 2 * at, 10**999 + 2 * at + 1) ** 2 for at in range(50)] + [Fraction(1, 3)] * 50
    product = exact = Fraction(1)
    for one in many:
        product, exact = product_below(product, one), exact * one
        assert product <= exact <= product * (1 + Fraction(1, 2**2000))
        assert product.denominator.bit_length() <= 2600


def test_every_cell_has_noise_of_its_own_law():
    """Deviations are those planned in every cell, and numbers of one block but different cells are independent."""
    s = S.partitions([[1.0, 4.0]], cells=[20_000])
    plan = inid.plan(s, inid.PureDP(1.0), mechanism="staircase")
    with inid.testing.unsafe_seed(3):
        values = inid.release(np.zeros(40_000), plan).values.reshape(2, -1)
    planned = plan.scales.reshape(2, -1)[:, 0]
    assert values.std(axis=1) == pytest.approx(planned, rel=0.03)
    sizes = np.abs(values)
    assert np.corrcoef(sizes[0], sizes[1])[0, 1] > 0.1  # one block: large together
    assert abs(np.corrcoef(sizes[0][1:], sizes[1][:-1])[0, 1]) < 0.04


def test_several_moves_are_bounded_by_the_sum_of_their_epsilons():
    plan = inid.plan(S.partitions([[1.0]], cells=[3], moves=[2]), inid.PureDP(1.0), mechanism="staircase")
    (loss,) = plan.losses
    assert loss.epsilon == pytest.approx(1.0)
    assert float(loss.chance) >= 1 / (1 + math.exp(-1.0))  # randomised response
    assert float(plan.mu_squared) >= inid.PureDP(1.0).to_gaussian().mu ** 2 * (1 - 1e-9)
    assert plan.delta(0.0) >= (1 - math.exp(-1.0)) / (1 + math.exp(-1.0)) * (1 - 1e-9)


def test_totals_over_cells_count_that_each_cell_is_drawn_anew():
    """A total of one number over cells, and of both numbers of one cell, against 20,000 draws."""
    plan = inid.plan(S.partitions([[1.0, 1.0]], cells=[5]), inid.PureDP(1.0), mechanism="staircase")
    many = inid.plan(S.partitions([[1.0, 1.0]], cells=[20_000 * 5]), inid.PureDP(1.0), mechanism="staircase")
    with inid.testing.unsafe_seed(5):
        noise = inid.release(np.zeros(200_000), many).values.reshape(2, -1, 5)
        release = inid.release(np.zeros(10), plan)
    for weights, sums in (
        ([1.0] * 5 + [0.0] * 5, noise[0].sum(axis=1)),
        ([1.0, 0, 0, 0, 0, 1.0, 0, 0, 0, 0], noise[:, :, 0].sum(axis=0)),
    ):
        low, high = release.interval_of_sum(weights, 0.9)
        held = float((np.abs(sums) <= (high - low) / 2).mean())
        assert 0.9 - 7 * math.sqrt(0.09 / 20_000) <= held <= 0.9 + 7 * math.sqrt(0.09 / 20_000)
