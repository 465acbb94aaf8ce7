"""Properties of certified curves that hold whatever the ratios."""

import math

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from example_counts import examples
from inid.curves import Composed, Loss, Subsampled, delta_bounds, delta_estimate, epsilon_bounds, renyi

RATIOS = st.lists(st.floats(1e-12, 50.0), min_size=1, max_size=6)
MIXED = st.builds(lambda ratios, mu: Loss(ratios, mu=mu), RATIOS, st.one_of(st.just(0.0), st.floats(1e-6, 3.0)))
QUICK = settings(max_examples=40, deadline=None)


@QUICK
@given(MIXED, st.floats(0.0, 60.0))
def test_bounds_are_ordered_probabilities(loss, epsilon):
    low, high = delta_bounds(loss, epsilon)
    assert 0 <= low <= high <= 1
    if loss.mu == 0 and epsilon > loss.total * (1 + 1e-12):
        assert (low, high) == (0.0, 0.0)


@QUICK
@given(MIXED, st.floats(0.0, 20.0), st.floats(0.0, 5.0))
def test_delta_falls_with_epsilon(loss, epsilon, more):
    assert delta_bounds(loss, epsilon + more)[0] <= delta_bounds(loss, epsilon)[1]


@examples(some=15, many=40)
@given(RATIOS, st.randoms(use_true_random=False), st.floats(0.0, 20.0))
def test_order_and_repetition_do_not_matter(ratios, random, epsilon):
    shuffled = list(ratios)
    random.shuffle(shuffled)
    assert delta_bounds(Loss(ratios), epsilon) == delta_bounds(Loss(shuffled), epsilon)
    twice = Composed((Loss(ratios), Loss(ratios)))
    assert delta_bounds(twice, epsilon) == delta_bounds(Loss(ratios, [2] * len(ratios)), epsilon)


@QUICK
@given(MIXED, MIXED, st.floats(0.0, 20.0))
def test_one_more_release_never_helps(first, second, epsilon):
    assert delta_bounds(first, epsilon)[0] <= delta_bounds(Composed((first, second)), epsilon)[1]


@QUICK
@given(RATIOS, st.floats(0.0, 1.0), st.floats(1.0, 1.5))
def test_larger_and_more_concentrated_ratios_are_worse(ratios, share, factor):
    epsilon = share * sum(ratios)
    assert delta_bounds(Loss(ratios), epsilon)[0] <= delta_bounds(Loss([factor * e for e in ratios]), epsilon)[1]
    concentrated = delta_bounds(Loss([math.fsum(ratios)]), epsilon)
    spread = delta_bounds(Loss([math.fsum(ratios) / len(ratios)], [len(ratios)]), epsilon)
    assert spread[0] <= delta_bounds(Loss(ratios), epsilon)[1] * (1 + 1e-12)
    assert delta_bounds(Loss(ratios), epsilon)[0] <= concentrated[1] * (1 + 1e-9) + 1e-14


@QUICK
@given(MIXED, st.floats(-12.0, -0.1))
def test_epsilon_inverts_delta_on_the_safe_side(loss, exponent):
    delta = 10.0**exponent
    low, high = epsilon_bounds(loss, delta)
    assert 0 <= low <= high
    if math.isfinite(high):
        assert delta_bounds(loss, high)[0] <= delta
    if low > 0:
        assert delta_bounds(loss, low)[1] >= delta


@QUICK
@given(MIXED, st.floats(0.0, 20.0), st.floats(1.01, 60.0))
def test_the_renyi_bound_is_looser(loss, epsilon, order):
    a = order - 1
    log = a * (renyi(loss, order) - epsilon) + a * math.log(a / order) - math.log(order)
    assert delta_bounds(loss, epsilon)[0] <= math.exp(min(log, 0.0)) * (1 + 1e-9)


@QUICK
@given(MIXED, st.floats(0.0, 20.0))
def test_the_estimate_lies_near_the_bounds(loss, epsilon):
    low, high = delta_bounds(loss, epsilon)
    assert low * 0.99 - 1e-13 <= delta_estimate(loss, epsilon) <= high * 1.01 + 1e-13


@settings(max_examples=15, deadline=None)
@given(
    st.one_of(st.floats(0.01, 2.0).map(lambda e: Loss([e])), st.floats(0.05, 2.0).map(lambda m: Loss(mu=m))),
    st.floats(0.001, 0.9),
    st.integers(1, 300),
    st.floats(0.0, 3.0),
)
def test_subsampling_amplifies_and_stays_ordered(loss, rate, steps, epsilon):
    low, high = delta_bounds(Subsampled(loss, rate, steps), epsilon)
    assert 0 <= low <= high <= 1
    whole = delta_bounds(Subsampled(loss, 1.0, steps), epsilon)
    assert low <= whole[1]


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 2**32 - 1), st.floats(1e-9, 1e-3))
def test_many_ratios_are_bounded_tightly(seed, delta):
    ratios = np.random.default_rng(seed).lognormal(0, 1, 3000) * 1e-3
    low, high = epsilon_bounds(Loss(ratios), delta)
    assert 0 < low <= high <= low * (1 + 1e-4)
