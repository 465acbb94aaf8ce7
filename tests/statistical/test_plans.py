"""Audits of whole plans: for fifty random ones, what an attacker can prove never exceeds what was promised."""

import numpy as np
import pytest

import inid
from inid.noise import add_noise
from inid.testing import audit_epsilon, unsafe_seed
from statistical.false_alarms import AUDIT_CONFIDENCE

RUNS = 40_000


def random_plan(seed, mechanism):
    rng = np.random.default_rng(seed)
    limits = np.exp(rng.uniform(-3, 3, rng.integers(1, 7)))
    epsilon = round(float(rng.uniform(0.3, 2.0)), 3)
    pure = mechanism == "laplace" and seed % 2
    budget = inid.PureDP(epsilon) if pure else inid.ApproxDP(epsilon, round(float(rng.uniform(0.005, 0.05)), 4))
    return inid.plan(inid.Sensitivity.box(limits), budget, mechanism=mechanism, order=float(rng.choice([1.0, 2.0])))


def audited(plan, shrink=1.0, seed=0, runs=RUNS):
    """The audit of the corner of the box, by the log-likelihood ratio."""
    scales, corner = plan.scales, plan.sensitivity.profile
    shape = (runs, scales.size)
    drawn = []
    with unsafe_seed(seed):
        for centre in (corner, 0 * corner):
            values, widths = np.broadcast_to(centre, shape).ravel(), np.broadcast_to(shrink * scales, shape).ravel()
            drawn.append(add_noise(values, widths, plan.mechanism).reshape(shape))
    if plan.mechanism == "laplace":
        one, two = (((np.abs(x) - np.abs(x - corner)) / scales).sum(axis=1) for x in drawn)
    else:
        one, two = (((x - corner / 2) * corner / scales**2).sum(axis=1) for x in drawn)
    delta = getattr(plan.budget, "delta", 0.0)
    return audit_epsilon(one, two, delta=delta, confidence=AUDIT_CONFIDENCE).epsilon


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
def test_the_audited_epsilon_of_random_plans_never_exceeds_the_promise(mechanism):
    close = []
    for seed in range(25):
        plan = random_plan(seed, mechanism)
        found = audited(plan, seed=900 + seed)
        assert found <= plan.budget.epsilon
        close.append(found / plan.budget.epsilon)
    assert np.median(close) > 0.5  # the audit is not vacuous


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
def test_plans_with_noise_twenty_per_cent_too_small_are_caught(mechanism):
    budget = inid.PureDP(1.0) if mechanism == "laplace" else inid.ApproxDP(0.5, 0.1)
    plan = inid.plan(inid.Sensitivity.box([1.0, 4.0]), budget, mechanism=mechanism)
    assert audited(plan, seed=950, runs=400_000) <= budget.epsilon
    assert audited(plan, shrink=0.8, seed=951, runs=400_000) > budget.epsilon
