"""The rules by which Laplace noise keeps ZCDP and GaussianDP, against mpmath; and plans against the baselines."""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import inid
from inid.curves import Loss, delta_bounds
from inid.mechanisms import norm_in_gaussian, profile
from inid.planning import dominated, most_by_signs, most_epsilon, mu_squared_above
from internals import module_with

_spread = module_with("inid.planning", "mu_squared_above")._spread

S = inid.Sensitivity


def divergence(order, ratio):
    """The Renyi divergence of one Laplace ratio."""
    a, e = mpmath.mpf(order), mpmath.mpf(ratio)
    inside = a / (2 * a - 1) * mpmath.exp((a - 1) * e) + (a - 1) / (2 * a - 1) * mpmath.exp(-a * e)
    return mpmath.log(inside) / (a - 1)


def curve(ratios, epsilon):
    """delta(epsilon) of one or two Laplace ratios, by integrating over the outputs."""
    mpmath.mp.dps = 20
    first, *rest = ratios

    def one(e, level):
        return mpmath.mpf(max(0.0, -math.expm1((level - e) / 2))) if level > -e else 1 - mpmath.exp(level)

    if not rest:
        return one(first, epsilon)
    # The loss of the second coordinate at x under Laplace(0, 1) against Laplace(e, 1), then delta of the first.
    e = rest[0]

    def inner(x):
        loss = abs(x - e) - abs(x)
        left = epsilon - loss
        value = one(first, left) if left > -first else 1 - mpmath.exp(left)
        return value * mpmath.exp(-abs(x)) / 2

    return mpmath.quad(inner, [-40, 0, e / 2, e, 40])


@pytest.mark.parametrize("ratio", [1e-6, 0.01, 0.3, 1.0, 3.0, 20.0])
def test_the_divergence_of_laplace_noise_is_at_most_what_zcdp_is_charged(ratio):
    """D_a(e) <= min(e, a e^2/2) for all a > 1, and the limit a -> 1 is the divergence of the lower bound."""
    mpmath.mp.dps = 40
    for order in [1 + 1e-9, 1.001, 1.5, 2, 3, 10, 100, 1e4, 1e8]:
        found = divergence(order, ratio)
        assert found <= mpmath.mpf(ratio) * (1 + mpmath.mpf(10) ** -20)
        assert found <= mpmath.mpf(order) * mpmath.mpf(ratio) ** 2 / 2
    limit = mpmath.mpf(ratio) - 1 + mpmath.exp(-mpmath.mpf(ratio))
    assert abs(divergence(1 + mpmath.mpf(10) ** -15, ratio) / limit - 1) < 1e-9


def test_zcdp_of_many_equal_coordinates_spends_their_sum_of_squares():
    made = inid.plan(S.box([1.0] * 100), inid.ZCDP(0.5), mechanism="laplace")
    assert made.scales == pytest.approx(np.full(100, 10.0), rel=1e-12)
    assert made.certificate.statement.endswith("sum d_i^2 / beta_i^2 <= 2 rho")
    assert made.certificate.decided_by == "integers"
    assert 1 <= made.suboptimality < 1.04  # the divergence itself allows no more than 1.7 % smaller scales
    one = inid.plan(S.box([1.0]), inid.ZCDP(8.0), mechanism="laplace")
    assert one.scales[0] == pytest.approx(1 / 8)  # epsilon <= rho is the better rule here


def test_a_broken_zcdp_plan_does_not_pass():
    made = inid.plan(S.box([1.0, 2.0, 7.0]), inid.ZCDP(0.5), mechanism="laplace")
    record = made.to_dict()
    record["scales"] = [scale * (1 - 1e-9) for scale in record["scales"]]
    with pytest.raises(inid.GuaranteeError):
        inid.NoisePlan.from_dict(record).verify()


@pytest.mark.parametrize("ratio", [1e-12, 1e-9, 1e-3, 0.1, 1.0, 5.0, 40.0])
def test_one_ratio_is_root_half_pi_gdp(ratio):
    """2 Q(mu/2) <= exp(-e/2) at mu = e / norm_in_gaussian(1), which is exact as e goes to 0."""
    mpmath.mp.dps = 40
    mu = mpmath.mpf(ratio) / mpmath.mpf(norm_in_gaussian(Fraction(1)))
    assert mpmath.erfc(mu / 2 / mpmath.sqrt(2)) <= mpmath.exp(-mpmath.mpf(ratio) / 2)


def test_gaussian_dp_of_many_equal_coordinates_follows_the_curve():
    made = inid.plan(S.box([1.0] * 100), inid.GaussianDP(1.0), mechanism="laplace")
    assert 9.843 < made.scales[0] < 9.86
    assert made.certificate.decided_by == "rounding model"
    loss = Loss(np.array([1 / made.scales[0]]), np.array([100.0]))
    for epsilon in (0.0, 0.05, 0.3, 1.0, 2.0, 4.0):
        assert delta_bounds(loss, epsilon)[0] <= profile(epsilon, 1.0)
    smaller = Loss(np.array([1 / (made.scales[0] * 0.999)]), np.array([100.0]))
    assert delta_bounds(smaller, 0.0)[0] > profile(0.0, 1.0)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.floats(0.02, 2.0), min_size=2, max_size=2), st.floats(0.9, 1.2))
def test_domination_never_accepts_what_mpmath_refuses(ratios, room):
    """At mu where the total variations are equal, times a room around 1: a verdict of True holds at every epsilon."""
    values = np.array(ratios)
    distance = float(curve(ratios, 0.0))
    mu = float(2 * mpmath.sqrt(2) * mpmath.erfinv(distance)) * room
    if not dominated((values, np.ones(2, dtype=np.int64)), Fraction(mu)):
        return
    for epsilon in np.linspace(0.0, values.sum(), 9):
        assert float(curve(ratios, float(epsilon))) <= profile(float(epsilon), mu) * (1 + 1e-9)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.floats(1e-6, 3.0), min_size=25, max_size=60), st.integers(1, 5))
def test_spreading_ratios_gives_a_curve_that_lies_above(ratios, times):
    values, counts = np.array(ratios), np.full(len(ratios), times)
    wide, held = _spread(values, counts)
    assert held.sum() <= counts.sum()
    first, second = np.sort(np.repeat(wide, held.astype(int)))[::-1], np.sort(np.repeat(values, counts))[::-1]
    first = np.append(first, np.zeros(second.size - first.size))
    assert (np.cumsum(first) >= np.cumsum(second) * (1 - 1e-12)).all()  # weak majorization (E5)


def test_sums_of_squares_bound_the_exact_parameter_of_each_ratio():
    mpmath.mp.dps = 30
    ratios = np.array([1e-5, 0.2, 1.7])
    exact = sum((2 * mpmath.sqrt(2) * mpmath.erfinv(1 - mpmath.exp(-mpmath.mpf(e) / 2))) ** 2 for e in ratios.tolist())
    found = mu_squared_above((ratios, np.ones(3, dtype=np.int64)))
    assert exact <= mpmath.mpf(found.numerator) / found.denominator <= exact * (1 + mpmath.mpf(10) ** -6)


@pytest.mark.parametrize("budget", [inid.ApproxDP(1.0, 1e-6), inid.GaussianDP(1.0), inid.ZCDP(0.5)], ids=str)
@pytest.mark.parametrize("number", [2, 7, 300])
def test_no_ratios_that_keep_a_promise_sum_to_more_than_the_bound(budget, number):
    """Random ratio vectors of total E_m break the promise; so does the vector of equal ones."""
    total = most_epsilon(budget, number)
    rng = np.random.default_rng(number)
    for spread in (0.0, 0.3, 2.0):
        ratios = np.exp(spread * rng.normal(size=number))
        ratios *= total * (1 + 1e-6) / ratios.sum()
        if isinstance(budget, inid.ApproxDP):
            assert delta_bounds(Loss(ratios), budget.epsilon)[1] > budget.delta
        else:
            limit = budget.rho if isinstance(budget, inid.ZCDP) else budget.mu**2 / 2
            assert float(np.sum(ratios + np.expm1(-ratios))) > limit


@pytest.mark.parametrize(
    "budget", [inid.ApproxDP(1.0, 1e-6), inid.ApproxDP(6.0, 1e-3), inid.ApproxDP(0.1, 0.05)], ids=str
)
@pytest.mark.parametrize("number", [2, 7, 60, 1200])
def test_signs_alone_say_what_equal_ratios_cannot_sum_to(budget, number):
    total = most_by_signs(budget, number)
    assert delta_bounds(Loss([total / number], [number]), budget.epsilon)[0] > budget.delta
    if number >= 60:
        assert total <= 1.02 * most_epsilon(budget, number)
    assert most_by_signs(budget, 5000) == math.inf  # too many to add up


def test_signs_that_are_taken_for_more_than_they_say_are_caught(monkeypatch):
    """The whole ratio in place of half of it, as if the side of one centre were that of the middle."""
    budget, number = inid.ApproxDP(1.0, 1e-6), 60
    total = most_by_signs.__wrapped__(budget, number)

    class Wrong:
        def __getattr__(self, name):
            return getattr(math, name)

        def exp(self, miss):
            return math.exp(2 * miss + math.log(2))

    monkeypatch.setattr(module_with("inid.planning", "most_epsilon"), "math", Wrong())
    wrong = most_by_signs.__wrapped__(budget, number)
    assert wrong < total
    assert delta_bounds(Loss([wrong / number], [number]), budget.epsilon)[1] < budget.delta


@pytest.mark.parametrize("allocation", ["optimal", "iid", "spr"])
def test_laplace_noise_that_cannot_win_is_not_calibrated(monkeypatch, allocation):
    """Many coordinates of different sensitivities: what the bounds leave open would take ten looks at the curve."""
    sensitivity, budget = S.box(np.linspace(1.0, 3.0, 200)), inid.ApproxDP(1.0, 1e-6)
    both = [inid.plan(sensitivity, budget, allocation=allocation, mechanism=word) for word in ("gaussian", "laplace")]
    monkeypatch.setattr(module_with("inid.planning", "follows_curve"), "shrink_factor", None)
    monkeypatch.setattr(module_with("inid.planning", "most_epsilon"), "shrink_factor", None)
    made = inid.plan(sensitivity, budget, allocation=allocation)
    assert made.scales.tolist() == both[0].scales.tolist()
    assert both[0].error < both[1].error


@pytest.mark.parametrize("allocation", ["iid", "spr"])
@pytest.mark.parametrize("limits", [[1.0, 40.0], [1.0] * 12, [0.0, 1.0, 2.0, 3.0], [1e-3, *[5.0] * 40]], ids=len)
def test_baselines_take_the_noise_of_smaller_error(allocation, limits):
    for budget in (inid.ApproxDP(1.0, 1e-6), inid.ApproxDP(4.0, 1e-2)):
        made = inid.plan(S.box(limits), budget, allocation=allocation)
        errors = [
            inid.plan(S.box(limits), budget, allocation=allocation, mechanism=word).log2_error
            for word in ("gaussian", "laplace", "staircase")
        ]
        assert min(errors) <= made.log2_error <= min(errors) + 1e-9


@pytest.mark.parametrize("rho", [1e-6, 0.02, 0.5, 3.0])
def test_the_sum_of_ratios_that_zcdp_affords_diverges_by_no_more(rho):
    """One ratio of that sum has the largest divergence, which is at most order times rho at every order."""
    budget = inid.ZCDP(rho)
    largest = max(math.sqrt(2 * rho), rho)
    assert budget.admits("laplace", Fraction(largest * (1 - 1e-9)))
    mpmath.mp.dps = 30
    for share in np.linspace(0.9, 2.0, 12):
        ratio = largest * float(share)
        if budget.admits("laplace", Fraction(ratio)):
            assert all(divergence(order, ratio) <= order * mpmath.mpf(str(rho)) for order in (1.01, 1.5, 2, 8, 100))
        else:
            assert share >= 1
    assert not budget.admits("laplace", Fraction(largest * 1.2))
