"""The audit's bound holds with the confidence it states, and finds leaks."""

import math

import numpy as np
import pytest
from scipy import stats

from inid.errors import ArgumentError
from inid.testing import audit_epsilon
from internals import module_with

_bound = module_with("inid.testing", "Audit")._bound


def test_bounds_are_clopper_and_pearson():
    hits, false_alarms, size = 700, 40, 1000
    with np.errstate(under="ignore"):  # SciPy 1.13's own
        low = stats.binomtest(hits, size).proportion_ci(0.98, "exact").low
        high = stats.binomtest(false_alarms, size).proportion_ci(0.98, "exact").high
    found = _bound(np.array([700.0]), size, np.array([40.0]), size, 0.05, 0.98)
    assert found[0] == pytest.approx(math.log((low - 0.05) / high), rel=1e-9)


@pytest.mark.parametrize(("hits", "alarms"), [(0.0, 0.0), (0.0, 10.0), (10.0, 10.0), (10.0, 0.0)])
def test_extreme_counts_give_numbers(hits, alarms):
    found = _bound(np.array([hits]), 10, np.array([alarms]), 10, 0.0, 0.99)
    assert not np.isnan(found[0])
    assert (found[0] > 0) == (hits == 10.0 and alarms == 0.0)


@pytest.mark.parametrize("shift", [0.0, 1.0, 3.0])
def test_the_bound_rarely_exceeds_the_truth(shift):
    """Of 100 seeded audits at confidence 0.9, more than 30 overshoot with probability below 1e-8."""
    rng = np.random.default_rng(11)
    overshoots = sum(
        audit_epsilon(rng.laplace(shift, 1.0, 2000), rng.laplace(0.0, 1.0, 2000), confidence=0.9).epsilon > shift
        for _ in range(100)
    )
    assert overshoots <= 30


def test_a_leak_is_found_from_any_side():
    rng = np.random.default_rng(12)
    wide, narrow = rng.laplace(0.0, 1.0, 40_000), rng.laplace(2.0, 1.0, 40_000)
    for one, two in ((wide, narrow), (narrow, wide), (-wide, -narrow), (-narrow, -wide)):
        assert 1.6 < audit_epsilon(one, two).epsilon <= 2.0


def test_disjoint_outputs_give_a_large_bound():
    found = audit_epsilon(np.ones(10_000), np.zeros(10_000))
    assert found.epsilon > 6


def test_delta_is_granted():
    rng = np.random.default_rng(13)
    one, two = rng.normal(0.5, 1.0, 40_000), rng.normal(0.0, 1.0, 40_000)
    assert audit_epsilon(one, two, delta=0.5).epsilon == 0.0
    assert audit_epsilon(one, two, delta=0.01).epsilon < audit_epsilon(one, two).epsilon


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        (([1.0], [1.0] * 9), "first"),
        (([1.0] * 9, [math.nan] * 9), "second"),
        (([1.0] * 9, [[1.0] * 9]), "second"),
    ],
)
def test_malformed_samples_are_refused(arguments, match):
    with pytest.raises(ArgumentError, match=match):
        audit_epsilon(*arguments)


@pytest.mark.parametrize("wrong", [{"delta": -0.1}, {"confidence": 0.0}, {"confidence": 1.0}, {"confidence": math.nan}])
def test_malformed_levels_are_refused(wrong):
    with pytest.raises(ArgumentError):
        audit_epsilon(np.zeros(10), np.ones(10), **wrong)
