"""Bounds of subsampled steps: never worse than no sampling, monotone in the noise, quick, and upper bounds alone."""

import itertools
import math
import time

import numpy as np
import pytest
from mpmath import mp, mpf
from scipy.special import ndtr

import inid
from inid.curves import (
    Composed,
    DirectedCurve,
    Loss,
    Subsampled,
    certified_delta,
    certified_epsilon,
    delta_bounds,
    directed_curves,
    epsilon_bounds,
    flatten,
    least_noise_multiplier,
)

RUNS = [
    (1e-4, 0.5, 1),
    (1e-4, 0.5, 100),
    (1e-3, 0.9, 30),
    (1e-2, 0.5, 100),
    (0.1, 0.99, 2),
    (1.0, 0.5, 3),
    (8.0, 0.3, 2),
]


@pytest.mark.parametrize(("mu", "rate", "steps"), RUNS)
@pytest.mark.parametrize("delta", [1e-3, pytest.param(1e-10, marks=pytest.mark.slow)])
def test_sampling_never_costs_more_than_taking_everybody(mu, rate, steps, delta):
    for one in (Loss(mu=mu), Loss([mu])):
        sampled, whole = Subsampled(one, rate, steps), Subsampled(one, 1.0, steps)
        epsilon = certified_epsilon(sampled, delta)
        assert epsilon <= certified_epsilon(whole, delta)
        for at in (0.0, epsilon):
            assert certified_delta(sampled, at) <= certified_delta(whole, at)


@pytest.mark.parametrize(
    ("rate", "steps", "delta"), [(0.5, 100, 1e-10), (0.01, 1000, 1e-5), (0.9, 3, 1e-6), (1e-3, 1, 1e-4)]
)
def test_more_noise_costs_less(rate, steps, delta):
    mus = np.geomspace(1e-4, 2.0, 6)
    epsilons = np.array([certified_epsilon(Subsampled(Loss(mu=float(mu)), rate, steps), delta) for mu in mus])
    assert (np.diff(epsilons) >= -2e-4 * epsilons[1:]).all()


def test_a_hundred_plans_with_little_in_each():
    """0.43 before, from one far loss that ruled every moment; the Gaussian limit says 0.003."""
    found = certified_epsilon(Subsampled(Loss(mu=1e-4), 0.5, 100), 1e-10)
    limit = certified_epsilon(Loss(mu=0.5 * 1e-4 * math.sqrt(100)), 1e-10)
    assert limit <= found <= 1.01 * limit


@pytest.mark.parametrize("mu", [1e-4, 0.3, 3.0])
@pytest.mark.parametrize("rate", [1e-3, 0.5, 0.999])
def test_one_step_is_amplified_exactly(mu, rate):
    for epsilon in (0.0, mu / 3, 2 * mu):
        with mp.workdps(40):
            q, a = mpf(rate), mp.exp(mpf(epsilon))

            def curve(x):
                z = mp.log(x) / mu
                return mp.ncdf(mpf(mu) / 2 - z) - x * mp.ncdf(-mpf(mu) / 2 - z)

            remove = q * curve(1 + (a - 1) / q)
            rest = 1 - a * (1 - q)
            add = rest * curve(a * q / rest) if rest > 0 else mpf(0)
            low, high = delta_bounds(Subsampled(Loss(mu=mu), rate), epsilon)
            assert add <= remove
            assert mpf(low) <= remove <= mpf(high)
            assert high - low <= 1e-9 * high + 1e-300
        if 1e-300 < high < 1:
            below, above = epsilon_bounds(Subsampled(Loss(mu=mu), rate), high)
            assert below <= epsilon * (1 + 1e-12)
            assert above >= epsilon * (1 - 1e-12)


def test_a_promise_of_half_the_people_a_hundred_times():
    """737.6 after 138 seconds before."""
    start = time.process_time()
    multiplier = least_noise_multiplier(0.1, 1e-10, 0.5, 100)
    assert time.process_time() - start < 10
    assert 271 < multiplier < 271.3
    run = Subsampled(Loss(mu=1 / multiplier), 0.5, 100)
    assert certified_delta(run, 0.1) <= 1e-10
    assert 0.0999 < certified_epsilon(run, 1e-10) <= 0.1


@pytest.mark.parametrize("mechanism", ["gaussian", "laplace"])
@pytest.mark.parametrize(
    ("epsilon", "delta", "rate", "steps"),
    [
        (0.01, 1e-3, 0.001, 1),  # a math domain error before: no noise at all keeps it
        (0.01, 1e-4, 0.001, 1),
        (10.0, 5e-5, 1e-4, 1000),
        (1.0, 1e-6, 1.0, 7),
        (0.1, 1e-12, 0.3, 2),
        (3.0, 1e-5, 0.02, 300),
    ],
)
def test_the_least_noise_is_certified_and_nearly_least(epsilon, delta, rate, steps, mechanism):
    multiplier = least_noise_multiplier(epsilon, delta, rate, steps, mechanism)

    def run(z):
        return Subsampled(Loss(mu=1 / z) if mechanism == "gaussian" else Loss([1 / z]), rate, steps)

    assert certified_delta(run(multiplier), epsilon) <= delta
    assert certified_epsilon(run(multiplier), delta) <= epsilon
    if delta < rate:  # otherwise no noise at all would do
        assert certified_delta(run(multiplier / 1.001), epsilon) > delta


def test_answers_never_compute_a_lower_bound(monkeypatch):
    def refused(*_):
        raise AssertionError("nobody asked for a lower bound")

    monkeypatch.setattr(DirectedCurve, "lower_contour", refused)
    plan = inid.plan(inid.Sensitivity.box([1.0, 2.0]), inid.ApproxDP(1.0, 1e-6), mechanism="laplace")
    run = inid.subsample(plan, rate=0.1, steps=5)
    assert plan.delta(1.0) <= 1e-6
    assert plan.epsilon(1e-6) <= 1.0
    assert 0 < run.delta(run.epsilon(1e-6)) <= 1e-6
    assert inid.compose(plan, run).epsilon(1e-6) > plan.epsilon(1e-6)
    with pytest.raises(AssertionError, match="nobody"):
        run.delta_bounds(0.5)


@pytest.mark.parametrize("upper", [True, False])
def test_a_lattice_stays_small_where_losses_reach_far_down(upper):
    """One asked for 116 GiB: addition has losses of minus thousands where the common ones are a ten-thousandth."""
    run = Subsampled(Loss(mu=100.0), 1e-4, 10**5)
    for curve in directed_curves(flatten(run)):
        ((lattice, _),) = curve._side(curve.aimed_at(10.0), 5e-5, upper=upper).lattices
        assert lattice.masses.size < 1 << 22


@pytest.mark.parametrize("direction", [0, 1])
@pytest.mark.parametrize(("mu", "rate", "steps"), [(1e-3, 0.5, 50), (0.5, 0.3, 4), (100.0, 1e-4, 10**5), (3.0, 0.9, 2)])
def test_each_direction_bounds_its_own_moments_from_above(mu, rate, steps, direction):
    """Tails that move to a floor, to a top or to infinity leave no moment of the upper lattice below the truth."""
    curve = directed_curves(flatten(Subsampled(Loss(mu=mu), rate, steps)))[direction]
    target = curve.aimed_at(0.01)
    transform = curve._side(target, 5e-5, upper=True)
    ((lattice, _),) = transform.lattices
    x = np.linspace(-40 - mu, 40 + 2 * mu, 400_001)
    density = np.exp(-x * x / 2) / math.sqrt(2 * math.pi)
    shifted = np.exp(-((x - mu) ** 2) / 2) / math.sqrt(2 * math.pi)
    mixture = (1 - rate) * density + rate * shifted
    first, second = (mixture, density) if curve.direction == "remove" else (density, mixture)
    with np.errstate(divide="ignore", invalid="ignore"):
        losses = np.where(first > 0, np.log(first) - np.log(second), -math.inf)
    for threshold in np.minimum(np.quantile(lattice.losses, [0.1, 0.5, 0.9, 0.99]), 600.0):
        exact = np.trapezoid(np.where(losses > threshold, first - math.exp(threshold) * second, 0.0), x)
        bound = lattice.masses @ np.maximum(-np.expm1(threshold - lattice.losses), 0.0) + transform.infinite
        assert bound >= exact * (1 - 1e-6) - 1e-12


def test_curves_of_arrays_are_arrays_that_never_increase():
    step = Subsampled(Loss(mu=0.7), 0.05, 30)
    epsilons = np.array([[0.5, 0.1], [1.0, 0.5000001]])
    deltas = certified_delta(step, epsilons)
    assert deltas.shape == (2, 2)
    assert deltas[0, 1] >= deltas[0, 0] >= deltas[1, 1] >= deltas[1, 0] > 0
    assert deltas[0, 1] == certified_delta(step, 0.1)
    plan = inid.plan(inid.Sensitivity.box([1.0, 3.0]), inid.PureDP(1.0))
    both = inid.compose(plan, plan)
    for curve in (plan, both):
        found = curve.epsilon([1e-3, 1e-6, 1e-9])
        assert isinstance(curve.epsilon(1e-3), float)
        assert (np.diff(found) >= 0).all()
        assert curve.delta(found).shape == (3,)
        assert (curve.delta(found) <= [1e-3, 1e-6, 1e-9]).all()
    with pytest.raises(inid.InidError, match="delta"):
        both.epsilon([1e-3, 1.0])
    with pytest.raises(inid.InidError, match="epsilon"):
        both.delta([0.1, math.nan])


def test_mixed_releases_with_subsampled_steps_are_below_their_unsampled_curve():
    parts = (Loss([0.2, 0.1]), Loss(mu=0.3))
    for mu, rate in itertools.product((1e-4, 0.5), (0.01, 0.6)):
        sampled = Composed((*parts, Subsampled(Loss(mu=mu), rate, 20)))
        whole = Composed((*parts, Subsampled(Loss(mu=mu), 1.0, 20)))
        assert certified_epsilon(Composed(parts), 1e-6) * (1 - 1e-4) <= certified_epsilon(sampled, 1e-6)
        assert certified_epsilon(sampled, 1e-6) <= certified_epsilon(whole, 1e-6)


def test_being_in_no_sample_bounds_delta():
    loud = Subsampled(Loss(mu=1e3), 1e-4, 5)
    assert certified_delta(loud, 1.0) <= 5e-4
    assert certified_epsilon(loud, 5.1e-4) == 0.0
    assert certified_delta(loud, 0.0) >= 0.999 * float(1 - ndtr(-3)) * 4.99e-4
