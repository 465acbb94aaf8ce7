"""Poisson subsampling: one and two steps in closed form and by quadrature."""

import math

import pytest
from mpmath import mp, mpf

from inid.curves import Loss, Subsampled, delta_bounds, epsilon_bounds


def _base_curve(loss, x):
    """H(P, Q) at x = exp(epsilon) of one Laplace ratio or of a Gaussian part, for every x > 0."""
    if x <= 0:
        return mpf(1) - x
    epsilon = mp.log(x)
    if loss.mu > 0:
        m = mpf(loss.mu)
        return mp.ncdf(-(epsilon / m - m / 2)) - x * mp.ncdf(-(epsilon / m + m / 2))
    e = mpf(float(loss.ratios[0]))
    if epsilon >= e:
        return mpf(0)
    return -mp.expm1((epsilon - e) / 2) if epsilon > -e else 1 - x


def _step_curve(step, direction, epsilon):
    q, x = mpf(step.rate), mp.exp(epsilon)
    if direction == "remove":
        return q * _base_curve(step.loss, 1 + (x - 1) / q) if x > 1 - q else 1 - x
    c = 1 - x * (1 - q)
    return c * _base_curve(step.loss, x * q / c) if c > 0 else mpf(0)


def _two_steps(step, direction, epsilon):
    """The curve of two steps: the expectation of the one-step curve at epsilon - loss, over the first step's loss."""
    q = mpf(step.rate)

    def loss(l):
        return mp.log1p(q * mp.expm1(l)) if direction == "remove" else -mp.log1p(q * mp.expm1(-l))

    def value(l):
        return _step_curve(step, direction, epsilon - loss(l))

    def weight(l):  # of the step's first measure, relative to P
        return (1 - q) * mp.exp(-l) + q if direction == "remove" else mpf(1)

    kinks = []
    if step.loss.mu > 0:
        m = mpf(step.loss.mu)

        def density(l):
            return mp.npdf((l - m * m / 2) / m) / m

        edges = [-14 * m, -4 * m, 0, 4 * m, 14 * m]
        return mp.quad(lambda l: value(l) * weight(l) * density(l), edges)
    e = mpf(float(step.loss.ratios[0]))
    for sign in (-1, 1):  # where the second step's loss sits on an atom
        x = mp.exp(epsilon - loss(sign * e))
        at = mp.log1p((x - 1) / q) if direction == "remove" and x > 1 - q else None
        if direction == "add" and 1 / x > 1 - q:
            at = -mp.log1p((1 / x - 1) / q)
        if at is not None and -e < at < e:
            kinks.append(at)
    edges = sorted([-e, e, mpf(0), *kinks])
    inner = mp.quad(lambda l: value(l) * weight(l) * mp.exp((l - e) / 2) / 4, edges)
    return inner + value(e) * weight(e) / 2 + value(-e) * weight(-e) * mp.exp(-e) / 2


STEPS = [(Loss([0.5]), 0.02), (Loss([3.0]), 0.3), (Loss(mu=1.0), 0.05), (Loss(mu=0.3), 0.5), (Loss([1e-6]), 0.1)]


@pytest.mark.parametrize(("loss", "rate"), STEPS)
@pytest.mark.parametrize("share", [0.0, 0.3, 0.8])
@pytest.mark.parametrize("steps", [1, 2])
def test_one_and_two_subsampled_steps_are_enclosed(loss, rate, share, steps):
    top = math.log1p(rate * math.expm1(loss.total + 3 * loss.mu))
    epsilon = share * top * steps
    step = Subsampled(loss, rate, steps)
    with mp.workdps(25):
        curve = _step_curve if steps == 1 else _two_steps
        truth = max(curve(step, direction, mpf(epsilon)) for direction in ("remove", "add"))
        low, high = delta_bounds(step, epsilon)
        assert low <= truth * (1 + mpf("1e-15"))
        assert truth <= high * (1 + mpf("1e-15"))
        assert high <= truth * mpf(1.001) + mpf("1e-14")
        assert low >= truth * mpf(0.98) - mpf("1e-14")


def test_subsampled_vectors_agree_with_the_one_dimensional_case_and_with_rate_one():
    # An l1 ball's single ratio seen as a vector with a negligible second coordinate goes through the convolution.
    single = delta_bounds(Subsampled(Loss([0.5]), 0.02, 500), 0.8)
    vector = delta_bounds(Subsampled(Loss([0.5, 1e-9]), 0.02, 500), 0.8)
    assert vector[0] <= single[1]
    assert single[0] <= vector[1] <= single[1] * 1.005
    whole = delta_bounds(Subsampled(Loss([0.1, 0.2]), 1.0, 3), 0.5)
    assert whole == delta_bounds(Loss([0.1, 0.2], [3, 3]), 0.5)
    nearly = delta_bounds(Subsampled(Loss([0.1, 0.2]), 1 - 1e-9, 3), 0.5)
    assert nearly[0] <= whole[1]
    assert whole[0] * (1 - 1e-6) <= nearly[1] <= whole[1] * 1.01


def test_the_reference_case_of_subsampled_laplace():
    low, high = epsilon_bounds(Subsampled(Loss([0.5]), 0.02, 5000), 1e-5)
    assert low < high < 2.7625  # amplifying pure DP gives 3.98
    assert high - low < 2e-4


@pytest.mark.parametrize(("ratio", "rate"), [(0.1, 0.1), (0.5, 0.5), (1.0, 0.01), (3.0, 0.3)])
@pytest.mark.parametrize("delta", [1e-5, 1e-9, 1e-13])
def test_two_steps_near_their_largest_loss_are_enclosed(ratio, rate, delta):
    step = Subsampled(Loss([ratio]), rate, 2)

    def exact(epsilon):
        return max(_two_steps(step, direction, mpf(epsilon)) for direction in ("remove", "add"))

    with mp.workdps(30):
        low, high = epsilon_bounds(step, delta)
        assert high <= 2 * math.log1p(rate * math.expm1(ratio)) * (1 + 1e-13)
        assert exact(high) <= mpf(delta)
        assert exact(low) >= mpf(delta)
        assert exact(high * (1 - 1e-6)) > mpf(delta)  # there is little above the least epsilon
        least, most = delta_bounds(step, high * (1 - 1e-4))
        truth = exact(high * (1 - 1e-4))
        assert mpf(least) <= truth <= mpf(most) <= 1.001 * truth
