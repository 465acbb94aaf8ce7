"""E8's numbers, and the repair of noisy matrices."""

import numpy as np
import pytest

import inid
from inid import learn
from inid.fixed_point import fixed_columns
from inid.learn import Moments, Units, moment_sets, nearest_psd, plan_moments
from inid.testing import unsafe_seed

ONE = inid.GaussianDP(mu=1.0)


def planned(low, high, *, relation, centre=False, allocation="optimal", constant=None):
    units = Units.of(np.asarray(low, float), np.asarray(high, float), 1000, centre=centre, scale=False)
    return plan_moments(
        units,
        ONE,
        rows=1000,
        costs=np.ones(units.size.size),
        constant=1.0 if constant is None else constant,
        mean=constant is not None,
        neighbours=relation,
        mechanism="gaussian",
        allocation=allocation,
    ).noise


def frobenius(noise, width):
    variance = noise.scales**2
    i, j = np.triu_indices(width)
    return float((variance * np.where(i == j, 1, 2)).sum())


def test_rows_of_unit_norm_cost_5050_against_10000_for_iid_noise():
    """E8: M = 100, Frobenius error."""
    X = np.zeros((10, 100))
    for allocation, cost in (("optimal", 5050), ("iid", 10_000)):
        noise = learn.PrivatePCA(2, budget=ONE, row_norm=1.0, allocation=allocation, center=False).fit(X).plan_
        assert frobenius(noise, 100) == pytest.approx(cost, rel=1e-6)
    replaced = learn.PrivatePCA(2, budget=ONE, row_norm=1.0, neighbours="replace", center=False).fit(X).plan_
    assert frobenius(replaced, 100) == pytest.approx(2 * 5050, rel=1e-6)


def test_a_box_of_products_is_used_when_a_row_is_removed():
    noise = planned([-1, -1], [1, 3], relation="zero_out")
    assert noise.sensitivity.kind == "box"
    np.testing.assert_array_equal(noise.sensitivity.limits, [1, 3, 9])


def test_one_signed_columns_keep_their_products_under_replacement():
    columns = fixed_columns(np.array([0.0, 0.0]), np.array([2.0, 5.0]), 20, centre=False)
    box = moment_sets(columns, np.ones(3), "replace", mean=False)[0]
    np.testing.assert_allclose(box.limits, [4, 10, 25])


def test_the_ellipsoid_halves_the_error_of_symmetric_columns_under_replacement():
    noise = planned([-1] * 10, [1] * 10, relation="replace")
    assert noise.sensitivity.kind == "ellipsoid"
    # Per entry the box moves by 2 off the diagonal (and 1 on it).
    box = inid.Sensitivity.box([1.0 if i == j else 2.0 for i, j in zip(*np.triu_indices(10), strict=True)])
    weights = np.where(np.equal(*np.triu_indices(10)), 1, np.sqrt(2))
    ratio = noise.error / inid.plan(box, ONE, mechanism="gaussian", weights=weights).error
    assert 0.4 < ratio < 0.6


def test_centring_shrinks_the_error_tenfold_for_columns_in_the_unit_interval():
    away = planned([0] * 10, [1] * 10, relation="replace").error
    centred = planned([0] * 10, [1] * 10, relation="replace", centre=True).error
    assert centred < away / 5


def test_moments_about_another_point_are_those_of_shifted_columns():
    rng = np.random.default_rng(0)
    Z, point = rng.normal(size=(50, 3)), np.array([1.0, -2.0, 5.0])
    made = Moments(Z.T @ Z / 50, Z.mean(axis=0), np.full((3, 3), 0.1), np.full(3, 0.2), 50.0, release=None)
    shifted = Z + point
    np.testing.assert_allclose(made.about(point).second, shifted.T @ shifted / 50)
    np.testing.assert_allclose(made.about(-made.first).second, np.cov(Z.T, bias=True), atol=1e-12)
    assert made.about(point).spread[0, 1] == pytest.approx(np.sqrt(0.1**2 + (1 + 4) * 0.2**2))


def test_without_an_intercept_the_better_of_two_public_centres_is_taken():
    X, y = np.full((100, 3), 0.5), np.full(100, 0.5)
    common = {"budget": ONE, "fit_intercept": False}
    one_sided = learn.PrivateRidge(bounds=(0, 1), bounds_y=(0, 1), **common).fit(X, y)
    assert one_sided.plan_.dimension == 10 + 4  # about the middle, with the means
    symmetric = learn.PrivateRidge(bounds=(-1, 1), bounds_y=(-1, 1), **common).fit(X, y)
    assert symmetric.plan_.dimension == 10


def test_a_repaired_matrix_is_positive_definite_and_a_sound_one_is_kept():
    rng = np.random.default_rng(1)
    size = np.array([1.0, 10.0, 1e4, 1e-3])
    broken = rng.normal(size=(4, 4)) * np.outer(size, size)
    broken = broken + broken.T
    repaired = nearest_psd(broken, size, 0.1 * np.outer(size, size))
    scaled = repaired / np.outer(size, size)
    values = np.linalg.eigvalsh(scaled)
    assert values[0] == pytest.approx(0.1 * 2, rel=1e-6)  # half of twice the root of a row of four variances
    sound = np.diag([1.0, 1e-9, 1.0, 1.0]) * np.outer(size, size)
    np.testing.assert_allclose(nearest_psd(sound, size, np.zeros((4, 4))), sound, rtol=1e-9)


def test_a_wholly_negative_matrix_becomes_its_noise():
    assert (np.abs(nearest_psd(-np.eye(2), np.ones(2), np.zeros((2, 2)))) < 1e-12).all()
    np.testing.assert_allclose(nearest_psd(-np.eye(2), np.ones(2), np.ones((2, 2))), np.sqrt(2) * np.eye(2), atol=1e-9)


@pytest.mark.parametrize("weights", [None, "curve", [1.0], [1.0, -1.0], [np.nan, 1.0]])
def test_malformed_weights_are_refused(weights):
    with pytest.raises(inid.ArgumentError, match="weights"):
        learn.PrivateMoments(ONE, bounds=(0, 1), weights=weights).fit(np.zeros((5, 2)))


def test_pca_refuses_what_it_cannot_do():
    X = np.zeros((10, 3))
    for bad in (
        {"n_components": 4}, {"n_components": 0}, {"row_norm": None}, {"row_norm": 0}, {"row_norm": np.nan},
        {"row_norm": 1e60},
        {"clipping": "columns", "center": False}, {"clipping": "elementwise", "center": True}, {"neighbours": "x"},
    ):  # fmt: skip
        with pytest.raises(inid.ArgumentError, match=next(iter(bad)) if len(bad) == 1 else "clipping"):
            learn.PrivatePCA(**({"budget": ONE, "row_norm": 1.0} | bad)).fit(X)
    with pytest.raises(inid.ArgumentError, match="U_hat"):
        learn.subspace_recovery_error(np.eye(3), np.eye(4))


def test_pca_ratio_of_independent_to_identical_noise_is_that_of_the_theory():
    rng = np.random.default_rng(0)
    errors = {"optimal": [], "iid": []}
    for at in range(6):
        basis = np.linalg.qr(rng.normal(size=(100, 10)))[0]
        X = rng.normal(size=(1000, 10)) @ basis.T
        for allocation, found in errors.items():
            model = learn.PrivatePCA(
                10, budget=inid.ApproxDP(1.0, 1e-6), row_norm=1.0, allocation=allocation, center=False
            )
            with unsafe_seed(at):
                model.fit(X)
            found.append(learn.subspace_recovery_error(model.components_.T, basis))
    assert 0.66 < np.mean(errors["optimal"]) / np.mean(errors["iid"]) < 0.76
