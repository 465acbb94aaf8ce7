"""Lattices: both measures are kept, tails are never dropped, and each side is needed."""

import itertools
import math

import numpy as np
import pytest

from inid.curves import (
    Aim,
    Composed,
    GaussianPart,
    LaplacePart,
    Loss,
    Subsampled,
    amplified,
    certified_epsilon,
    connected,
    delta_bounds,
    epsilon_bounds,
    largest,
    lattices,
    restored,
    rounded_down,
)
from internals import module_with


@pytest.mark.parametrize("under", ["P", "Q"])
def test_connecting_the_dots_keeps_both_masses(under):
    losses, masses = np.array([-0.63, 0.1, 0.77, 3.2]), np.array([0.2, 0.3, 0.4, 0.1])
    lattice = connected(losses, masses, 0.25, 64, under)
    sign = -1 if under == "P" else 1
    assert lattice.masses.sum() == pytest.approx(1.0, abs=1e-12)
    assert lattice.masses @ np.exp(sign * lattice.losses) == pytest.approx(masses @ np.exp(sign * losses), rel=1e-12)
    assert lattice.masses.sum() >= 1.0


def test_rounding_down_never_raises_a_loss():
    losses, masses = np.array([-0.63, 0.1, 0.77, 3.2]), np.array([0.2, 0.3, 0.4, 0.1])
    lattice = rounded_down(losses, masses, 0.25, 64)
    for threshold in np.linspace(-1, 4, 101):
        assert lattice.masses[lattice.losses > threshold].sum() <= masses[losses > threshold].sum()
    assert lattice.masses.sum() == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize(
    "part", [LaplacePart(0.7), LaplacePart(1e-9), GaussianPart(0.8, 12.0), GaussianPart(1e-7, 12.0)]
)
def test_cells_of_the_loss_add_up_under_both_measures(part):
    low, high = part.span
    inner = np.linspace(low, high, 999)
    edges = np.concatenate(([-math.inf], inner, [math.inf])) if part.unbounded else inner
    p, q, p_error, q_error = part.cells(edges)
    p_atoms = q_atoms = 0.0
    if part.atoms is not None:
        p_atoms, q_atoms = part.atoms[1].sum(), part.atoms[2].sum()
    assert p.sum() + p_atoms == pytest.approx(1.0, abs=1e-11)
    assert q.sum() + q_atoms == pytest.approx(1.0, abs=1e-11)
    assert (p_error >= 0).all()
    assert (q_error >= 0).all()
    inside = p[1:-1] > 1e-30
    ratio = np.log(p[1:-1][inside] / q[1:-1][inside])
    slack = 1e-4 * high
    assert (ratio >= edges[1:-2][inside] - slack).all()
    assert (ratio <= edges[2:-1][inside] + slack).all()


def test_the_map_of_losses_and_its_inverse():
    losses = np.array([-40.0, -1.0, -1e-9, 0.0, 1e-9, 1.0, 29.9, 30.1, 700.0, 5000.0])
    for rate in (1e-3, 0.5, 1.0):
        there = amplified(losses, rate)
        assert (np.diff(there) >= 0).all()
        np.testing.assert_allclose(restored(there, rate)[1:], losses[1:], rtol=1e-10, atol=1e-22)
    assert amplified(np.array([-math.inf]), 0.25)[0] == math.log1p(-0.25)


def test_a_dropped_tail_would_make_the_bound_wrong():
    step = Subsampled(Loss(mu=1.0), 0.05, 1)
    epsilon = math.log1p(0.05 * math.expm1(4.0))
    truth = 0.05 * float(_gaussian(4.0, 1.0))
    # The tail is cut early here, and its mass must come back as an infinite loss.
    (found,), infinite = lattices((step,), "remove", Aim(5.0, 0.5, 0.0, reach=4.0), 1e-4, upper=True)
    lattice = found[0]
    finite = float(lattice.masses @ np.maximum(-np.expm1(epsilon - lattice.losses), 0.0))
    assert finite < truth <= finite + infinite


def _gaussian(epsilon, mu):
    from scipy.special import ndtr

    return ndtr(-(epsilon / mu - mu / 2)) - math.exp(epsilon) * ndtr(-(epsilon / mu + mu / 2))


def test_rounding_to_the_nearest_point_would_make_the_bound_wrong():
    losses, masses = np.array([0.74]), np.array([1.0])
    upper = connected(losses, masses, 0.5, 8)
    nearest = np.round(losses / 0.5) * 0.5
    x = 0.6
    truth = -math.expm1(x - 0.74)
    assert float(masses @ np.maximum(-np.expm1(x - nearest), 0)) < truth
    assert float(upper.masses @ np.maximum(-np.expm1(x - upper.losses), 0)) >= truth


def test_both_directions_matter():
    # Removal is the worse direction at moderate epsilon; its losses are bounded below, those of addition above.
    loss = Subsampled(Loss(mu=1.0), 0.1, 1)
    assert delta_bounds(loss, 2.0)[1] > 0
    assert delta_bounds(Subsampled(Loss([0.5]), 0.1, 3), 3 * math.log1p(0.1 * math.expm1(0.5)) * 1.0001) == (0.0, 0.0)


def test_composition_with_subsampled_parts_is_monotone():
    one = Subsampled(Loss(mu=0.8), 0.02, 200)
    two = Composed((one, Loss([0.1] * 3)))
    three = Composed((two, Subsampled(Loss([0.5]), 0.1, 10)))
    answers = [epsilon_bounds(loss, 1e-5) for loss in (one, two, three)]
    for smaller, larger in itertools.pairwise(answers):
        assert smaller[0] < larger[1]
        assert smaller[1] < larger[0]
    assert all(high - low < 0.01 * high for low, high in answers)


@pytest.mark.slow
def test_many_coordinates_in_one_subsampled_step():
    low, high = epsilon_bounds(Subsampled(Loss(np.geomspace(1e-3, 0.05, 300)), 0.05, 20), 1e-5)
    assert 0 < low <= high < 1.3 * low


def test_a_very_rare_participation_costs_little():
    low, high = delta_bounds(Subsampled(Loss(mu=1.0), 1e-6, 10), 0.0)
    assert low <= 10 * 1e-6 * _gaussian(0.0, 1.0) * (1 + 1e-6)
    assert high >= 3e-6 * _gaussian(0.0, 1.0)
    assert high < 2e-5


@pytest.mark.parametrize("direction", ["remove", "add"])
@pytest.mark.parametrize(("ratios", "rate", "steps"), [([1.0], 0.01, 3), ([0.1], 0.1, 5), ([0.5, 0.3], 0.5, 2)])
def test_losses_that_weigh_nothing_get_no_points_near_the_largest_loss(direction, ratios, rate, steps):
    step = Subsampled(Loss(ratios), rate, steps)
    top = largest((step,), direction)
    for order in (4e3 / top, 1e4 / top):
        aim = Aim(order, step=order / 8, log_delta=-25.0)
        for upper in (True, False):
            ((lattice, _),), _ = lattices((step,), direction, aim, 5e-5, upper=upper)
            assert lattice.masses.size < 20_000
            assert top / steps - 2 * 2 * np.pi / (aim.step * lattice.size) < lattice.losses[-1]


def test_an_epsilon_next_to_the_largest_loss_needs_no_contour(monkeypatch):
    steps = [Subsampled(Loss([e]), q, n) for e in (0.1, 1.0, 3.0) for q in (0.1, 0.9) for n in (2, 5)]
    before = [certified_epsilon(step, 1e-14) for step in steps]

    def drawn(*_):
        raise AssertionError("a contour was drawn")

    monkeypatch.setattr(module_with("inid.curves", "DirectedCurve"), "draw", drawn)
    assert [certified_epsilon(step, 1e-14) for step in steps] == before
