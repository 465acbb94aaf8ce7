"""Renyi divergences of subsampled steps, in integers: against quadrature in 40 digits, in both directions."""

import math
from fractions import Fraction

import mpmath as mp
import pytest

from inid.curves import (
    Composed,
    Loss,
    Subsampled,
    renyi,
    renyi_laplace,
    renyi_subsampled_gaussian,
    renyi_subsampled_laplace,
)
from inid.errors import ArgumentError


def gaussian_divergences(order, mu, rate):
    """(removal, addition) by quadrature."""
    mu, rate = mp.mpf(mu), mp.mpf(rate)
    mixture = lambda x: 1 - rate + rate * mp.exp(mu * x - mu**2 / 2)  # noqa: E731
    points = [-30, -10, 0, mu, order * mu, order * mu + 10, order * mu + 40]
    remove = mp.quad(lambda x: mp.npdf(x) * mixture(x) ** order, points)
    add = mp.quad(lambda x: mp.npdf(x) * mixture(x) ** (1 - order), points)
    return mp.log(remove) / (order - 1), mp.log(add) / (order - 1)


def laplace_divergences(order, ratio, rate):
    """The same for Laplace noise, whose ratio of densities is constant outside [0, e]."""
    e, rate = mp.mpf(ratio), mp.mpf(rate)
    mixture = lambda x: 1 - rate + rate * mp.exp(abs(x) - abs(x - e))  # noqa: E731
    points = [-mp.inf, 0, e, mp.inf]
    remove = mp.quad(lambda x: mp.exp(-abs(x)) / 2 * mixture(x) ** order, points)
    add = mp.quad(lambda x: mp.exp(-abs(x)) / 2 * mixture(x) ** (1 - order), points)
    return mp.log(remove) / (order - 1), mp.log(add) / (order - 1)


@pytest.mark.parametrize("order", [2, 5, 64])
@pytest.mark.parametrize("mu", [0.01, 0.3, 1.0, 3.0])
@pytest.mark.parametrize("rate", [1e-4, 0.01, 0.5, 1.0])
def test_subsampled_gaussian_bounds_both_directions_and_is_tight_for_removal(order, mu, rate):
    with mp.workdps(40):
        remove, add = gaussian_divergences(order, mu, rate)
        found = renyi_subsampled_gaussian(order, mu, rate)
        exact = mp.mpf(found.numerator) / found.denominator
        assert exact >= remove * (1 - mp.mpf(10) ** -15)
        assert exact >= add * (1 - mp.mpf(10) ** -15)
        assert exact <= remove * (1 + mp.mpf(10) ** -10) + mp.mpf(10) ** -28


@pytest.mark.parametrize("order", [2, 3, 64])
@pytest.mark.parametrize("ratio", [0.01, 0.5, 4.0])
@pytest.mark.parametrize("rate", [1e-4, 0.1, 0.7, 1.0])
def test_subsampled_laplace_bounds_both_directions_and_is_tight_for_removal(order, ratio, rate):
    with mp.workdps(40):
        remove, add = laplace_divergences(order, ratio, rate)
        found = renyi_subsampled_laplace(order, ratio, rate)
        exact = mp.mpf(found.numerator) / found.denominator
        assert exact >= remove * (1 - mp.mpf(10) ** -15)
        assert exact >= add * (1 - mp.mpf(10) ** -15)
        assert exact <= remove * (1 + mp.mpf(10) ** -10) + mp.mpf(10) ** -28
        if rate == 1.0:
            assert found == renyi_laplace(order, ratio)


@pytest.mark.parametrize(("mu", "rate"), [(Fraction(1, 3), Fraction(1, 7)), (Fraction(2), Fraction(1, 1000))])
@pytest.mark.parametrize("order", [2, 4, 100, 600])
def test_the_binomial_sum_is_never_undercut(order, mu, rate):
    """The formula itself at 400 digits: the rational is above it, by less than 1e-30."""
    with mp.workdps(400):
        q, m = mp.mpf(rate.numerator) / rate.denominator, mp.mpf(mu.numerator) / mu.denominator
        terms = [
            mp.binomial(order, k) * (1 - q) ** (order - k) * q**k * mp.exp(m * m * k * (k - 1) / 2)
            for k in range(order + 1)
        ]
        exact = mp.log(mp.fsum(terms)) / (order - 1)
        found = renyi_subsampled_gaussian(order, mu, rate)
        value = mp.mpf(found.numerator) / found.denominator
        assert 0 <= value - exact < mp.mpf(10) ** -30


def test_rate_one_is_the_plain_divergence():
    found = renyi_subsampled_gaussian(8, Fraction(1, 2), Fraction(1))
    assert 0 <= found - 1 < Fraction(1, 10**30)


def test_divergences_grow_with_the_rate_and_with_mu():
    rates = [renyi_subsampled_gaussian(6, 1.0, Fraction(k, 20)) for k in range(1, 21)]
    mus = [renyi_subsampled_gaussian(6, Fraction(k, 10), Fraction(1, 20)) for k in range(1, 30)]
    assert rates == sorted(rates)
    assert mus == sorted(mus)


def test_a_composition_with_subsampled_steps_has_a_renyi_divergence_at_whole_orders():
    step = Loss([0.3, 0.2], [2, 1], mu=0.4)
    whole = renyi(step, 5)
    assert renyi(Subsampled(step, 0.999999, 1), 5) == pytest.approx(whole, rel=1e-4)
    both = renyi(Composed((Subsampled(step, 0.1, 7), Loss(mu=1.0))), 5)
    assert both == pytest.approx(7 * renyi(Subsampled(step, 0.1), 5) + 2.5, rel=1e-12)
    with pytest.raises(ArgumentError, match="whole number"):
        renyi(Subsampled(step, 0.1, 7), 2.5)


@pytest.mark.parametrize(
    ("order", "mu", "rate"),
    [(1, 1.0, 0.1), (2.5, 1.0, 0.1), (2, -1.0, 0.1), (2, math.nan, 0.1), (2, 1.0, 0.0), (2, 1.0, 1.5)],
)
def test_bad_arguments_are_refused(order, mu, rate):
    with pytest.raises(ArgumentError):
        renyi_subsampled_gaussian(order, mu, rate)
