"""mu_0 and every conversion between promises against mpmath: on the safe side, and tight."""

import itertools
import math

import mpmath
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from mpmath import mpf

import inid
from example_counts import examples
from referees import gaussian_profile, upper_tail

EPSILONS = [0.0, 1e-6, 1e-3, 0.1, 1.0, 10.0, 100.0]
DELTAS = [1e-300, 1e-100, 1e-20, 1e-6, 0.01, 0.5]


def decimal(number):
    """The number that the user wrote, not the float next to it."""
    return mpf(repr(float(number)))


def digits(delta):
    return int(60 - 2.2 * math.log10(delta))


def check_mu(epsilon, delta):
    mu = inid.ApproxDP(epsilon, delta).mu
    with mpmath.workdps(digits(delta)):
        target = decimal(delta)
        assert gaussian_profile(decimal(epsilon), mpf(mu), digits(delta)) <= target  # safe
        above = mpf(mu) * (1 + mpf(10) ** -13)
        assert gaussian_profile(decimal(epsilon), above, digits(delta)) > target  # right to 1e-13


@pytest.mark.parametrize(("epsilon", "delta"), list(itertools.product(EPSILONS, DELTAS)))
def test_mu_is_right_to_thirteen_digits_and_safe_on_a_grid(epsilon, delta):
    check_mu(epsilon, delta)


@examples(some=15, many=40)
@given(st.floats(-6, 2).map(lambda x: 10.0**x), st.floats(-300, math.log10(0.5)).map(lambda x: 10.0**x))
@example(1e-6, 0.5)
@example(100.0, 0.4999999999999999)
def test_mu_is_right_to_thirteen_digits_and_safe_anywhere(epsilon, delta):
    check_mu(epsilon, delta)


@pytest.mark.parametrize("delta", [1e-300, 1e-6, 0.3, 0.5])
def test_mu_at_epsilon_zero_is_the_closed_form(delta):
    with mpmath.workdps(400):
        root = 2 * mpmath.sqrt(2) * mpmath.erfinv(decimal(delta))
        mu = mpf(inid.ApproxDP(0.0, delta).mu)
        assert root * (1 - mpf(10) ** -15) < mu <= root


@pytest.mark.parametrize("delta", [0.9, 0.999999, 1 - 2**-53])
def test_mu_is_safe_and_tight_for_any_delta_below_one(delta):
    for epsilon in (0.0, 1e-6, 1.0, 100.0):
        mu = mpf(inid.ApproxDP(epsilon, delta).mu)
        assert gaussian_profile(decimal(epsilon), mu) <= decimal(delta)
        assert gaussian_profile(decimal(epsilon), mu * (1 + mpf(10) ** -13)) > decimal(delta)


@settings(max_examples=40)
@given(st.floats(-3, 1.5).map(lambda x: 10.0**x), st.floats(-30, -1).map(lambda x: 10.0**x))
def test_gaussian_to_approx_is_safe_and_tight(mu, delta):
    epsilon = inid.GaussianDP(mu).to_approx(delta).epsilon
    with mpmath.workdps(digits(delta)):
        assert gaussian_profile(decimal(epsilon), decimal(mu), digits(delta)) <= decimal(delta)
        if epsilon > 0:
            below = decimal(epsilon) * (1 - mpf(10) ** -13)
            assert gaussian_profile(below, decimal(mu), digits(delta)) > decimal(delta)


@settings(max_examples=40)
@given(st.floats(-6, 2).map(lambda x: 10.0**x), st.floats(-30, -0.1).map(lambda x: 10.0**x))
@example(1.0, 0.5)
def test_pure_to_approx_is_randomised_responses_own_curve(pure, delta):
    """delta(eps') = (e^eps - e^eps') / (1 + e^eps) for the worst eps-DP mechanism, randomised response."""
    found = inid.PureDP(pure).to_approx(delta).epsilon
    with mpmath.workdps(120):
        eps = decimal(pure)
        curve = lambda x: (mpmath.exp(eps) - mpmath.exp(x)) / (1 + mpmath.exp(eps))  # noqa: E731
        assert curve(decimal(found)) <= decimal(delta)
        if found > 0:
            assert curve(decimal(found) * (1 - mpf(10) ** -13) - mpf(10) ** -18) > decimal(delta)


@pytest.mark.parametrize("pure", [1e-12, 1e-6, 0.1, 1.0, 5.0, 50.0, 600.0])
def test_pure_to_gaussian_covers_randomised_response_and_no_more(pure):
    """eps-DP is mu-GDP exactly when the trade-off 1/(1 + e^eps) at its kink lies above Q(mu/2)."""
    mu = inid.PureDP(pure).to_gaussian().mu
    with mpmath.workdps(400):
        kink = 1 / (1 + mpmath.exp(decimal(pure)))
        assert upper_tail(decimal(mu) / 2) <= kink
        assert upper_tail(decimal(mu) * (1 - mpf(10) ** -13) / 2) > kink


@pytest.mark.parametrize("mu", [1e-12, 1e-6, 0.1, 1.0, 5.0, 30.0])
def test_laplace_noise_under_gaussian_dp_spends_what_is_safe_and_tight(mu):
    """Laplace noise that spends e has delta(eps) <= 1 - e^((eps - e)/2) on every set: at most phi_eps(mu)."""
    spent = mpf(inid.GaussianDP(mu).laplace_epsilon)
    with mpmath.workdps(400):
        for part in (0, 0.001, 0.1, 0.3, 0.5, 0.7, 0.9, 0.99):
            epsilon = spent * mpf(part)
            assert 1 - mpmath.exp((epsilon - spent) / 2) <= gaussian_profile(epsilon, decimal(mu))
        more = spent * (1 + mpf(10) ** -13)
        assert 1 - mpmath.exp(-more / 2) > gaussian_profile(0, decimal(mu))  # more would break it at epsilon 0


@pytest.mark.parametrize("kind", [inid.PureDP, inid.GaussianDP])
@pytest.mark.parametrize("number", [0.1, 0.3, 1.0, 7.7, 1e-100])
def test_zcdp_of_pure_and_gaussian_is_half_the_square(kind, number):
    rho = kind(number).to_zcdp().rho
    wanted = decimal(number) ** 2 / 2
    assert wanted <= decimal(rho) <= wanted * (1 + mpf(10) ** -15)


@pytest.mark.parametrize("rho", [1e-4, 0.1, 1.0, 20.0])
@pytest.mark.parametrize("delta", [1e-12, 1e-6, 0.01])
def test_zcdp_to_approx_is_the_best_renyi_order(rho, delta):
    """inf over a > 1 of a rho + log(1 - 1/a) - (log delta + log a)/(a - 1); never below what Gaussian noise needs."""
    found = decimal(inid.ZCDP(rho).to_approx(delta).epsilon)

    def bound(a):
        return a * decimal(rho) + mpmath.log(1 - 1 / a) - (mpmath.log(decimal(delta)) + mpmath.log(a)) / (a - 1)

    grid = [1 + mpf(10) ** (mpf(k) / 20) for k in range(-60, 100)]
    near = min(grid, key=bound)
    finer = min(bound(1 + (near - 1) * mpf(10) ** (mpf(k) / 4000)) for k in range(-200, 201))
    assert max(finer * (1 - mpf(10) ** -6), 0) <= found <= max(finer * (1 + mpf(10) ** -5), 0)
    mu = math.sqrt(2 * rho)
    assert found >= inid.GaussianDP(mu).to_approx(delta).epsilon * (1 - 1e-12)


@settings(max_examples=40)
@given(st.floats(-6, 2).map(lambda x: 10.0**x), st.floats(-300, -0.05).map(lambda x: 10.0**x))
@example(0.0, 0.25)
def test_laplace_noise_under_approximate_dp_spends_epsilon_minus_two_log(epsilon, delta):
    found = inid.ApproxDP(epsilon, delta).laplace_epsilon
    with mpmath.workdps(400):
        limit = decimal(epsilon) - 2 * mpmath.log(1 - decimal(delta))
        assert limit * (1 - mpf(10) ** -15) <= mpf(found) <= limit
