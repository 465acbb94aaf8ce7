"""Each error term is needed: without it the bound is on the wrong side somewhere."""

import math

import numpy as np
import pytest

from inid.curves import Loss, Transform, aim, along_line, delta_bounds, draw, nodes_for, screen, short, total

ONE = Transform(np.array([1.0]), np.array([1.0]), 0.0)


def one_ratio(epsilon):
    return -math.expm1((epsilon - 1) / 2)


@pytest.mark.parametrize("strength", [1e-4, 1e-2, 0.3])
@pytest.mark.parametrize("epsilon", [0.0, 0.4, 0.9, 0.999])
def test_smoothing_is_pessimistic_and_its_loss_is_bounded(strength, epsilon):
    target = aim(ONE, epsilon)
    smoothing = strength / target.order**2
    contour = draw(ONE, epsilon, target.order, target.step, smoothing, 2 * nodes_for(ONE, smoothing, target.step))
    scale, value, error = contour.smoothed(epsilon)
    smoothed = math.exp(scale) * value
    truth = one_ratio(epsilon)
    assert smoothed > truth  # the smoothed curve itself, without any error term, is above
    assert contour.lower(epsilon) <= truth <= contour.upper(epsilon)
    assert math.exp(scale) * error < 1e-6 * truth


def test_truncation_without_its_term_falls_below_the_truth():
    target = aim(ONE, 0.4)
    below = 0
    for nodes in range(2, 60):
        contour = draw(ONE, 0.4, target.order, target.step, 1e-7, nodes)
        scale, value, _ = contour.smoothed(0.4)
        below += math.exp(scale) * value < one_ratio(0.4)
        assert contour.upper(0.4) >= one_ratio(0.4)
        assert contour.lower(0.4) <= one_ratio(0.4)
    assert below > 10


def test_aliasing_is_one_sided_and_bounded():
    for period in (1.5, 2.0, 3.0):
        step = short(2 * math.pi / period)
        contour = draw(ONE, 0.4, 1.0, step, 1e-5, math.ceil(6 / (math.sqrt(1e-5) * step)))
        scale, value, error = contour.smoothed(0.4)
        excess = math.exp(scale) * (value - error) - one_ratio(0.4)
        assert excess > 1e-3  # the sum alone is no lower bound
        assert excess <= contour.aliasing(0.4) + 1e-5
        assert contour.lower(0.4) <= one_ratio(0.4) <= contour.upper(0.4)


def test_rounding_terms_grow_with_the_number_of_ratios_and_stay_small():
    few = draw(Transform(np.array([1e-3]), np.array([1e3]), 0.0), 0.2, 100.0, 20.0, 1e-8, 100)
    many = draw(Transform(np.array([1e-6]), np.array([1e9]), 0.0), 0.2, 100.0, 20.0, 1e-8, 100)
    assert 0 < few.errors[0] < many.errors[0] < 1e-7


def test_nodes_against_the_complex_formula():
    ratios, counts = np.array([0.3, 2.0, 50.0, 1e-9]), np.array([2.0, 1.0, 1.0, 1e6])
    nodes, order, step = 40, 1.7, 0.25
    logs, phases, errors = np.zeros(nodes), np.zeros(nodes), np.zeros(nodes)
    assert along_line(order, step, logs, phases, errors, ratios, counts, -1e9).all()
    s = order + 1j * step * np.arange(nodes)[:, None]
    z = 1 + s / (2 * s + 1) * np.expm1(-(2 * s + 1) * ratios)
    exact = np.log(z) @ counts - np.log(z[0]).real @ counts
    np.testing.assert_allclose(logs, exact.real, atol=1e-9)
    np.testing.assert_allclose(np.exp(1j * phases), np.exp(1j * exact.imag), atol=1e-9)
    assert (errors < 1e-9).all()


def test_the_quick_bound_is_above_the_logarithm_and_close():
    ratios = np.geomspace(1e-3, 3.0, 64)
    for counts in (np.ones(64), np.arange(1.0, 65.0)):
        nodes, order, step = 500, 4.0, 0.7
        logs, phases, errors = np.zeros(nodes), np.zeros(nodes), np.zeros(nodes)
        along_line(order, step, logs, phases, errors, ratios[:20], counts[:20], -1e9)  # few ratios: no screening
        references = np.log1p(order / (2 * order + 1) * np.expm1(-(2 * order + 1) * ratios))
        bounds = screen(order, step, np.zeros(nodes), ratios[:20], counts[:20], references[:20], -1e9)
        assert (bounds >= logs).all()
        np.testing.assert_allclose(bounds, logs, rtol=1e-3, atol=1e-5)


def test_dropping_nodes_changes_nothing_that_matters(monkeypatch):
    ratios = np.geomspace(1e-3, 0.1, 200)
    with_screen = delta_bounds(Loss(ratios), 1.5)
    monkeypatch.setitem(along_line.__globals__, "_SCREENED", 10**9)
    without = delta_bounds(Loss(ratios), 1.5)
    assert with_screen == pytest.approx(without, rel=1e-9)


def test_the_sum_of_ratios_keeps_a_hundred_bits():
    high, low, error = total(np.array([0.1, 1e-20]), np.array([3.0, 7.0]))
    from fractions import Fraction

    exact = 3 * Fraction(0.1) + 7 * Fraction(1e-20)
    assert abs(exact - Fraction(high) - Fraction(low)) <= Fraction(error)
    assert error < 1e-30


@pytest.mark.parametrize("exponent", [-30, 0, 40])
def test_multiples_of_the_step_are_exact(exponent):
    from fractions import Fraction

    step = short(math.pi * 10.0**exponent)
    for j in (3, 999_999, 2**20 - 1):
        assert Fraction(step * j) == j * Fraction(step)
