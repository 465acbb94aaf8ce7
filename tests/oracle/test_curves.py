"""Certified curves against exact formulas in 40 digits and more, and against dp_accounting."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp, mpc, mpf

from inid.curves import (
    Composed,
    Loss,
    Subsampled,
    Transform,
    connected,
    delta_bounds,
    delta_estimate,
    directed_curves,
    draw,
    epsilon_bounds,
    epsilon_estimate,
    flatten,
    renyi,
)

THOUSAND = np.geomspace(1e-3, 1, 1000) / np.geomspace(1e-3, 1, 1000).sum() * 10


def exact_delta(groups, epsilon, digits=50):
    """delta(epsilon) of Laplace ratios given as (ratio, count), by expanding the product of their loss distributions.

    exp(-L/2) dP of one ratio is exp(-e/2) times (atoms of 1/2 at -e and e, density 1/4 between). With D the derivative
    that is exp(-e/2) [shift(e) (1/2 - 1/(4D)) + shift(-e) (1/2 + 1/(4D))], so a product is a sum of powers of 1/D at
    shifted points: piecewise polynomials, integrated against (1 - exp(epsilon - l)) exp(l/2) in closed form.
    """
    number = sum(n for _, n in groups)
    with mp.workdps(digits + 2 * number):
        groups = [(mpf(e), n) for e, n in groups]
        epsilon, half, quarter = mpf(epsilon), mpf(1) / 2, mpf(1) / 4
        total = mpf(0)
        for minus in itertools.product(*[range(n + 1) for _, n in groups]):
            point = mp.fsum(e * (n - 2 * k) for (e, n), k in zip(groups, minus, strict=True))
            if point <= epsilon:
                continue
            weight = mp.fprod(mp.binomial(n, k) for (_, n), k in zip(groups, minus, strict=True))
            m = sum(minus)
            plus = [
                mp.binomial(number - m, i) * half ** (number - m - i) * (-quarter) ** i for i in range(number - m + 1)
            ]
            other = [mp.binomial(m, i) * half ** (m - i) * quarter**i for i in range(m + 1)]
            powers = [mpf(0)] * (number + 1)
            for (i, x), (j, y) in itertools.product(enumerate(plus), enumerate(other)):
                powers[i + j] += x * y
            length = point - epsilon
            value = powers[0] * (mp.exp(point / 2) - mp.exp(epsilon - point / 2))
            falling, rising = (_moments(sign * half, length, number) for sign in (-1, 1))
            for j in range(1, number + 1):
                both = mp.exp(point / 2) * falling[j - 1] - mp.exp(epsilon - point / 2) * rising[j - 1]
                value += powers[j] * (-1) ** j * both
            total += weight * value
        return total * mp.exp(-mp.fsum(e * n for e, n in groups) / 2)


def _moments(rate, length, number):
    """The integrals of t^(j-1)/(j-1)! exp(rate t) over [0, length], j = 1 .. number."""
    current = (mp.exp(rate * length) - 1) / rate
    found, power = [current], mpf(1)
    for j in range(2, number + 1):
        power *= length / (j - 1)
        current = (power * mp.exp(rate * length) - current) / rate
        found.append(current)
    return found


def fourier_delta(ratios, counts, mu, epsilon, digits=40):
    """delta(epsilon) by the trapezoidal rule for the inversion integral in many digits.

    Needs an integrand that decays (a Gaussian part or many ratios). Aliasing and truncation are below 1e-30 relative.
    """
    with mp.workdps(digits):
        groups = [(mpf(float(e)), mpf(float(n))) for e, n in zip(ratios, counts, strict=True)]
        mu, epsilon = mpf(mu), mpf(epsilon)

        def log_term(s):
            value = mu**2 * (s * s + s) / 2 - s * epsilon
            for e, n in groups:
                value += n * (s * e + mp.log(1 + s / (2 * s + 1) * mp.expm1(-(2 * s + 1) * e)))
            return value

        def height(t):
            return mp.re(log_term(mp.exp(t))) - t - mp.log1p(mp.exp(t))

        low, high = mpf(-25), mpf(25)
        for _ in range(40):
            first, second = low + (high - low) / 3, high - (high - low) / 3
            low, high = (low, second) if height(first) < height(second) else (first, high)
        order = mp.exp(low)
        level = mp.re(log_term(order))
        step = 2 * mp.pi * order / (75 - min(level, 0) * 2)
        total, j = mpf(1) / (2 * order * (order + 1)), 0
        while True:
            j += 1
            s = mpc(order, j * step)
            term = mp.exp(log_term(s) - level) / (s * (s + 1))
            total += mp.re(term)
            if abs(term) * j < mpf(10) ** -33 * abs(total):
                return total * mp.exp(level) * step / mp.pi


def check(loss, epsilon, truth, tightness=1e-3):
    low, high = delta_bounds(loss, epsilon)
    assert mpf(low) <= truth <= mpf(high)
    if truth >= mpf("1e-12"):
        assert high <= truth * (1 + mpf(tightness))
        assert low >= truth * (1 - mpf(tightness))
    return low, high


FEW = [
    ([(1.0, 2)], [0.0, 0.5, 1.0, 1.9, 1.999999]),
    ([(1.0, 1), (0.3, 1)], [0.0, 0.2, 0.7, 1.0, 1.2999]),
    ([(0.3, 2), (0.5, 1), (0.7, 1), (1.1, 1)], [0.0, 0.1, 1.0, 2.5, 2.89]),
    ([(0.1, 20)], [0.0, 0.5, 0.6, 1.0, 1.8, 1.99]),
    ([(0.05, 3), (2.0, 2)], [0.0, 0.1, 1.0, 4.0, 4.1]),
    ([(1e-12, 2)], [0.0, 1e-12, 1.9e-12]),
    ([(1e-12, 20)], [0.0, 5e-12, 1e-11]),
    ([(1e-8, 40)], [0.0, 1e-7, 2e-7]),
    ([(50.0, 3)], [0.0, 80.0, 140.0, 149.0]),
    ([(50.0, 1), (1e-12, 1)], [0.0, 10.0, 49.9, 50.0]),
    ([(50.0, 1), (1e-10, 3)], [49.0, 50.0]),
    ([(50.0, 1), (1e-3, 10)], [0.0, 49.0, 50.0, 50.005]),
]


@pytest.mark.parametrize(("groups", "epsilon"), [(groups, x) for groups, places in FEW for x in places])
def test_few_equal_tiny_and_huge_ratios_are_enclosed_within_a_thousandth(groups, epsilon):
    loss = Loss([e for e, _ in groups], [n for _, n in groups])
    truth = exact_delta(groups, epsilon)
    check(loss, epsilon, truth)
    assert delta_estimate(loss, epsilon) == pytest.approx(float(truth), rel=3e-3, abs=1e-12)


@pytest.mark.parametrize(("ratio", "epsilon"), [(1.5, 0.5), (1e-12, 0.0), (50.0, 49.0), (0.3, 0.2999999)])
def test_one_ratio_is_the_closed_form(ratio, epsilon):
    with mp.workdps(50):
        truth = -mp.expm1((mpf(epsilon) - mpf(ratio)) / 2)
        low, high = check(Loss([ratio]), epsilon, truth)
        assert high / low < 1 + 1e-8  # one float of epsilon aside
        delta = float(truth)
        below, above = epsilon_bounds(Loss([ratio]), delta)
        root = mpf(ratio) + 2 * mp.log1p(-mpf(delta))
        assert below <= root <= above <= root + 1e-13 * (1 + ratio)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(st.floats(1e-3, 8.0), st.integers(1, 3)), min_size=1, max_size=3, unique_by=lambda pair: pair[0]
    ),
    st.floats(0.0, 1.0, exclude_max=True),
)
def test_random_small_vectors_are_enclosed(groups, share):
    total = sum(e * n for e, n in groups)
    epsilon = share * total
    if epsilon >= total * (1 - 1e-9) or sum(n for _, n in groups) == 1:
        return
    loss = Loss([e for e, _ in groups], [n for _, n in groups])
    truth = exact_delta(groups, epsilon)
    low, high = check(loss, epsilon, truth)
    below, above = epsilon_bounds(loss, float(truth))
    assert below <= epsilon * (1 + 1e-14) + 1e-300
    assert above >= epsilon * (1 - 1e-14)
    assert 0 <= low <= high <= 1


@pytest.mark.parametrize("epsilon", [0.03, 0.06, 0.09, 0.0985])
def test_small_deltas_of_a_hundred_equal_ratios(epsilon):
    truth = exact_delta([(1e-3, 100)], epsilon)
    low, high = delta_bounds(Loss([1e-3], [100]), epsilon)
    assert low <= truth <= high
    assert high <= truth * mpf(1.002)


@pytest.mark.parametrize(
    ("ratios", "mu", "epsilon", "size"),
    [
        ([0.1] * 5, 0.1, 0.4, -3),
        ([0.1] * 5, 0.1, 1.9, -48),
        ([0.1] * 5, 0.1, 2.7, -108),
        ([0.1] * 5, 0.1, 4.2, -300),
        ([1.0, 0.2], 0.5, 1.0, -2),
        ([1e-9] * 3, 1e-9, 2e-9, -12),
        ([50.0], 1.0, 45.0, -1),
    ],
)
def test_laplace_with_gaussian_down_to_the_smallest_deltas(ratios, mu, epsilon, size):
    truth = fourier_delta(ratios, [1] * len(ratios), mu, epsilon)
    assert abs(mp.log10(truth) - size) < 12
    low, high = delta_bounds(Loss(ratios, mu=mu), epsilon)
    assert low <= truth <= high
    assert high <= truth * (1 + mpf("1e-3"))
    assert low >= truth * (1 - mpf("1e-3"))


@pytest.mark.parametrize(("mu", "epsilon"), [(1.0, 0.0), (1.0, 1.0), (0.2, 5.0), (1e-9, 1e-9), (3.0, 40.0), (0.1, 3.0)])
def test_gaussian_only_is_the_closed_form(mu, epsilon):
    with mp.workdps(60):
        m, x = mpf(mu), mpf(epsilon)
        truth = mp.ncdf(-(x / m - m / 2)) - mp.exp(x) * mp.ncdf(-(x / m + m / 2))
        low, high = delta_bounds(Loss(mu=mu), epsilon)
        assert low <= truth <= high
        assert high <= truth * (1 + mpf("1e-6"))
    split = Composed((Loss(mu=0.6 * mu), Loss(mu=0.8 * mu)))
    low, high = delta_bounds(split, epsilon)
    assert low <= truth <= high <= truth * (1 + mpf("1e-6"))


@pytest.mark.slow
def test_a_thousand_different_ratios():
    truth = fourier_delta(THOUSAND, np.ones(1000), 0, 2, digits=30)
    assert abs(truth / mpf("1.10318148e-4") - 1) < 1e-8
    loss = Loss(THOUSAND)
    low, high = check(loss, 2.0, truth, tightness=1e-4)
    assert delta_estimate(loss, 2.0) == pytest.approx(float(truth), rel=1e-6)
    below, above = epsilon_bounds(loss, 1e-6)
    assert below < 2.641692454 < above < 2.641692454 * (1 + 1e-5)
    assert epsilon_estimate(loss, 1e-6) == pytest.approx(2.641692454, rel=1e-7)
    assert low < high


def test_grouped_ratios_enclose_the_ungrouped_curve(monkeypatch):
    monkeypatch.setitem(directed_curves.__globals__, "_MOST_RATIOS", 50)
    values, counts = np.geomspace(1e-4, 1.2e-4, 200), np.full(200, 300)
    loss = Loss(values, counts)
    curve = directed_curves(flatten(loss))[0]
    assert curve.below.ratios.size < 70 < curve.above.ratios.size < 190
    truth = fourier_delta(values, counts, 0, 0.15, digits=35)
    check(loss, 0.15, truth)


def test_grouping_the_wrong_way_would_break_the_bound():
    values = np.geomspace(1e-6, 1e-4, 3000)
    truth = delta_bounds(Loss(values, np.full(3000, 300)), 0.05)
    curve = directed_curves(flatten(Loss(values, np.full(3000, 300))))[0]
    target = curve.aimed_at(0.05)
    upper = curve.upper_contour(target, 0.05)
    lower = curve.lower_contour(target, upper)
    assert lower.upper(0.05) < upper.upper(0.05)  # means instead of spreads: a smaller delta
    rounded_down = Loss(values * (1 - 1e-4), np.full(3000, 300))
    assert delta_bounds(rounded_down, 0.05)[1] < truth[0]
    rounded_up = Loss(values * (1 + 1e-4), np.full(3000, 300))
    assert delta_bounds(rounded_up, 0.05)[0] > truth[1] * (
        1 + 1e-4
    )  # first order: what grouping by majorization avoids


def test_dp_accounting_agrees():
    import dp_accounting as dp
    from dp_accounting.pld import pld_privacy_accountant

    def peer(event, delta):
        accountant = pld_privacy_accountant.PLDAccountant()
        accountant.compose(event)
        return accountant.get_epsilon(delta)

    cases = [
        (Subsampled(Loss(mu=1.0), 0.01, 1000), dp.GaussianDpEvent(1.0), 0.01, 1000, 1e-5),
        (Subsampled(Loss(mu=1 / 1.1), 0.004, 5000), dp.GaussianDpEvent(1.1), 0.004, 5000, 1e-6),
        (Subsampled(Loss([0.5]), 0.02, 5000), dp.LaplaceDpEvent(2.0), 0.02, 5000, 1e-5),
    ]
    for loss, event, rate, steps, delta in cases:
        theirs = peer(dp.SelfComposedDpEvent(dp.PoissonSampledDpEvent(rate, event), steps), delta)
        low, high = epsilon_bounds(loss, delta)
        assert low <= theirs  # theirs is pessimistic
        assert high == pytest.approx(theirs, rel=3e-4)
    mixed = Composed((Loss([0.2], [5]), Loss(mu=0.25 * math.sqrt(3))))
    events = [dp.SelfComposedDpEvent(dp.LaplaceDpEvent(5.0), 5), dp.SelfComposedDpEvent(dp.GaussianDpEvent(4.0), 3)]
    theirs = peer(dp.ComposedDpEvent(events), 1e-6)
    low, high = epsilon_bounds(mixed, 1e-6)
    assert low <= theirs
    assert high == pytest.approx(theirs, rel=3e-4)
    assert high == pytest.approx(2.61, abs=0.005)


@pytest.mark.parametrize("order", [1.001, 1.5, 2.0, 32.0, 1e4])
@pytest.mark.parametrize("ratios", [[0.5], [1e-9] * 3, [50.0, 0.1], [1e-3] * 100])
def test_renyi_is_above_the_exact_divergence_and_close(ratios, order):
    with mp.workdps(60):
        a = mpf(order)
        s = a - 1
        total = a * mpf(0.25) ** 2 / 2
        for e in map(mpf, ratios):
            total += mp.log(((s + 1) * mp.exp(s * e) + s * mp.exp(-(s + 1) * e)) / (2 * s + 1)) / s
        found = renyi(Loss(ratios, mu=0.25), order)
        assert total <= found <= total * (1 + mpf("1e-9"))
        assert renyi(Loss(ratios), order) >= total - a * mpf(0.25) ** 2 / 2


def test_each_term_of_a_contour_is_exact_to_its_stated_error():
    ratios, counts = np.geomspace(1e-4, 3.0, 12), np.array([1e9, 1e6, 1e5, 1e3, 50, 9, 5, 3, 2, 1, 1, 1])
    transform = Transform(ratios, counts, 1e-3)
    epsilon, order, step, smoothing = 13.0, 0.0078125, 0.00390625, 2.0**-12
    contour = draw(transform, epsilon, order, step, smoothing, 60)
    assert 1e-16 < contour.errors.min() < contour.errors.max() < 1e-4
    with mp.workdps(60):

        def log_term(s):
            value = (mpf(transform.variance) + mpf(smoothing)) * (s * s + s) / 2 - s * mpf(epsilon)
            for e, n in zip(map(mpf, ratios.tolist()), map(mpf, counts.tolist()), strict=True):
                value += n * (s * e + mp.log(1 + s / (2 * s + 1) * mp.expm1(-(2 * s + 1) * e)))
            return value

        level = log_term(mpf(order))
        assert abs(level - mpf(contour.level)) <= contour.level_slack
        for height, term, error in zip(contour.heights, contour.terms, contour.errors, strict=True):
            exact = mp.exp(log_term(mpc(order, float(height))) - level)
            assert abs(mpc(complex(term)) - exact) <= mp.expm1(error) * abs(mpc(complex(term)))


def test_the_fft_of_a_lattice_is_exact_to_its_stated_error():
    rng = np.random.default_rng(5)
    size, step, order = 64, 0.5, 1.5
    spacing = 2 * math.pi / (step * size)
    lattice = connected(rng.normal(0.2, 1.5, 200), rng.dirichlet(np.ones(200)), spacing, size)
    logs, phases, errors = lattice.along_line(order, step, 150)
    assert errors.max() < 1e-9
    with mp.workdps(40):
        h = 2 * mp.pi / (mpf(step) * size)
        places = [(lattice.first + i) * h for i in range(lattice.masses.size)]
        masses = [mpf(float(m)) for m in lattice.masses]
        base = mp.fsum(m * mp.exp(order * l) for m, l in zip(masses, places, strict=True))
        assert abs(mp.log(base) - lattice.log_moment(order)) <= lattice.moment_slack(order)
        for j in (0, 1, 17, 32, 33, 63, 64, 130):
            s = mpc(order, j * step)
            exact = mp.fsum(m * mp.exp(s * l) for m, l in zip(masses, places, strict=True)) / base
            found = mp.exp(mpc(float(logs[j]), float(phases[j])))
            assert abs(found - exact) <= mp.expm1(float(errors[j])) * abs(found)
