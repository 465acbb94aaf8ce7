"""Narrower bounds, attacked through the public fit: whatever the first look says, neighbours keep the promise."""

import random
from fractions import Fraction

import numpy as np
import pytest

import inid
from inid import learn
from inid.testing import unsafe_seed
from internals import module_with

narrower_bounds = module_with("inid.learn", "release_narrowed")

LOW, HIGH = np.array([-3.0, 0.0, -1.0]), np.array([7.0, 1e-90, 2.0])  # two columns, then the target
BUDGETS = [inid.PureDP(1.0), inid.ApproxDP(1.0, 1e-6), inid.GaussianDP(1.0), inid.ZCDP(0.5)]
LOOKS = [-1e6, -3.0, 0.0, 0.3, 3.0, 1e6]
ROWS = 3


def wild_row(choose):
    ends = zip(LOW, HIGH, strict=True)
    return [choose.choice([low, high, (low + high) / 2, np.nan, np.inf, -np.inf, 1e308, 5e-324]) for low, high in ends]


class ForcedLook:
    """Stands for the noise: the first numbers released are the attacker's, and what was asked for is kept."""

    def __init__(self, look, count):
        self.look, self.count, self.exact, self.scales = look, count, [], []

    def __call__(self, values, scales, _mechanism, _source):
        self.exact.append(np.array(values))
        self.scales.append(np.array(scales))
        if len(self.exact) == 1:
            return self.look.copy()
        return np.array([self.count]) if len(values) == 1 else np.zeros_like(values)

    def in_order(self, parts):
        look, *counted, moments = parts
        return np.concatenate([moments, *counted, look])


def released(data, relation, budget, look, count, monkeypatch):
    """The exact answers behind one fit, in the order of its plan, and the plan."""
    forced = ForcedLook(look, count)
    monkeypatch.setattr(narrower_bounds, "add_noise", forced)
    model = learn.PrivateRidge(budget=budget, neighbours=relation, bounds=(LOW[:2], HIGH[:2]), bounds_y=(-1, 2))
    model.fit(data[:, :2], data[:, 2])
    np.testing.assert_array_equal(forced.in_order(forced.scales), model.plan_.scales)
    return [Fraction(x) for x in forced.in_order(forced.exact).tolist()], model.plan_


@pytest.mark.parametrize("relation", ["add_remove", "replace"])
@pytest.mark.parametrize("budget", BUDGETS, ids=lambda one: one.kind)
def test_no_look_lets_neighbours_leave_the_promise(relation, budget, monkeypatch):
    choose = random.Random(f"{relation} {budget}")  # noqa: S311 - data for a test
    most = Fraction(0)
    for _ in range(25):
        data = np.array([wild_row(choose) for _ in range(ROWS)])
        other = data[1:] if relation == "add_remove" else np.vstack([wild_row(choose), data[1:]])
        look, count = np.array(choose.choices(LOOKS, k=6)), choose.choice([-5.0, 0.0, 3.0, 1e9])
        one, plan = released(data, relation, budget, look, count, monkeypatch)
        two, same = released(other, relation, budget, look, count, monkeypatch)
        np.testing.assert_array_equal(plan.scales, same.scales)
        parts = [abs(a - b) / Fraction(s) for a, b, s in zip(one, two, plan.scales.tolist(), strict=True)]
        most = max(most, sum(parts) if plan.mechanism == "laplace" else sum(part**2 for part in parts))
    if plan.mechanism == "laplace":
        assert most <= 1
    else:
        assert most <= Fraction(budget.mu if budget.kind == "ApproxDP" else 1) ** 2 * (1 + Fraction(1, 2**40))
    assert most > 0


def held_numbers(value, seen):
    """Every number that an object holds, however deep."""
    if id(value) in seen or isinstance(value, (str, bytes, type)):
        return
    seen.add(id(value))
    if isinstance(value, np.ndarray):
        yield from value.ravel().tolist() if value.dtype.kind in "iuf" else ()
    elif isinstance(value, (int, float)):
        yield float(value)
    elif isinstance(value, dict):
        for entry in value.values():
            yield from held_numbers(entry, seen)
    elif isinstance(value, (list, tuple)):
        for entry in value:
            yield from held_numbers(entry, seen)
    else:
        yield from held_numbers(getattr(value, "__dict__", {}), seen)


@pytest.mark.parametrize(("relation", "secret"), [("add_remove", True), ("zero_out", False)])
def test_a_fitted_model_keeps_no_exact_number(relation, secret):
    data = np.random.default_rng(0).uniform(2, 3, size=(1009, 2))
    model = learn.PrivateRidge(budget=inid.PureDP(1.0), neighbours=relation, bounds=(0, 10), bounds_y=(0, 10))
    with unsafe_seed(1):  # noise comes as near to an exact number by chance in one of some thousand fits
        model.fit(data[:, :1], data[:, 1])
    numbers = set(held_numbers(model, set()))
    assert (1009.0 not in numbers) is secret  # public under zero_out, where the search must find it
    units = (data - 5) / 5
    exact = [*units.sum(axis=0), *(units**2).sum(axis=0), units.prod(axis=1).sum(), *data.mean(axis=0)]
    assert min(abs(one - two) for one in numbers for two in exact) > 1e-5
