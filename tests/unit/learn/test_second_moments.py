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


def moments_of(columns, mechanism, *, relation="zero_out", epsilon=1.0, preliminary=True):
    """The plan of a linear model's moments of so many columns and a target."""
    ends = np.ones(columns + 1)
    rows = None if relation == "add_remove" else 10_000
    units = Units.of(-ends, ends, rows, centre=True, scale=True)
    return plan_moments(
        units, inid.PureDP(epsilon), rows=rows, costs=ends, constant=1.0, mean=True, neighbours=relation,
        mechanism=mechanism, allocation="optimal", targets=1, preliminary=preliminary,
    ).noise  # fmt: skip


@pytest.mark.parametrize("relation", ["zero_out", "add_remove", "replace"])
def test_staircase_noise_takes_a_fifth_of_the_squared_error_of_laplace_noise(relation):
    """J4 on E8's boxes: the 72 numbers of a ridge regression with 8 columns, in its own weights."""
    for epsilon in (1.0, 5.0):
        plan, laplace = (moments_of(8, name, relation=relation, epsilon=epsilon) for name in ("auto", "laplace"))
        assert plan.mechanism == "staircase"
        assert plan.dimension == 72 + (relation == "add_remove")
        assert plan.error < 0.21 * laplace.error
        first = 54
        assert all((np.array(block.numbers) < first).all() or min(block.numbers) >= first for block in plan.blocks)
        assert (plan.std < laplace.std).all()


def test_under_replacement_the_least_of_box_and_ellipsoid_is_taken():
    for columns in (1, 3, 8):
        plans = {name: moments_of(columns, name, relation="replace", preliminary=False) for name in ("auto", "laplace")}
        box = moments_of(columns, "staircase", relation="replace", preliminary=False)
        assert plans["auto"].error == min(plans["laplace"].error, box.error)
        assert plans["laplace"].sensitivity.kind == "ellipsoid"
        assert box.sensitivity.kind == "box"


def test_baselines_and_other_promises_have_independent_noise_unless_staircase_noise_is_asked_for():
    assert planned([-1, -1], [1, 1], relation="zero_out", constant=1.0).mechanism == "gaussian"
    data = np.random.default_rng(0).uniform(-1, 1, (200, 2))
    for mechanism, allocation, noise in (
        ("auto", "optimal", "staircase"), ("auto", "iid", "laplace"), ("auto", "spr", "laplace"),
        ("staircase", "spr", "staircase"), ("staircase", "iid", "staircase"), ("laplace", "optimal", "laplace"),
    ):  # fmt: skip
        moments = learn.PrivateMoments(inid.PureDP(1.0), bounds=(-1, 1), mechanism=mechanism, allocation=allocation)
        assert moments.fit(data).plan_.mechanism == noise
    approximate = learn.PrivateMoments(inid.ApproxDP(1.0, 1e-6), bounds=(-1, 1), mechanism="staircase").fit(data)
    assert approximate.plan_.budget == inid.PureDP(1.0)


@pytest.mark.parametrize("model", [learn.PrivatePCA(1), learn.PrivateLasso(solver="coordinate_descent")])
def test_estimators_that_draw_numbers_one_by_one_refuse_staircase_noise(model):
    data = np.random.default_rng(0).uniform(-1, 1, (200, 2))
    model.set_params(budget=inid.PureDP(1.0), bounds=(-1, 1), mechanism="staircase")
    if hasattr(model, "bounds_y"):
        model.set_params(bounds_y=(-1, 1))
    with pytest.raises(inid.ArgumentError, match="mechanism must be one of"):
        model.fit(data, data[:, 0])


def test_more_moments_than_blocks_are_planned_for_have_laplace_noise():
    data = np.zeros((300, 91))
    moments = learn.PrivateMoments(inid.PureDP(1.0), bounds=(-1, 1)).fit(data)
    assert moments.plan_.mechanism == "laplace"


def test_a_report_says_what_each_block_holds():
    data = np.random.default_rng(0).uniform(-1, 1, (5000, 3))
    model = learn.PrivateRidge(budget=inid.PureDP(5.0), bounds=(-1, 1), bounds_y=(-1, 1))
    report = model.fit(data[:, :2], data[:, 2]).report()
    assert "noise: staircase; 15 numbers released" in report
    assert "block of 6 preliminary release" in report
    spent = [line for line in report.splitlines() if "block of" in line]
    assert sum(float(line.split()[-1].rstrip("%")) for line in spent) == pytest.approx(100, abs=0.2)
    assert "expected error of each" in report


def test_draws_for_intervals_have_the_law_of_the_noise():
    """Numbers of one block are uncorrelated, but large together; those of two blocks are independent."""
    noise = moments_of(3, "auto")
    drawn = noise.sample(40_000, np.random.default_rng(1)) / noise.std
    np.testing.assert_allclose(drawn.var(axis=0), 1.0, atol=0.07)
    correlations = np.corrcoef(drawn.T) - np.eye(noise.dimension)
    assert abs(correlations).max() < 0.03
    squares = np.corrcoef((drawn**2).T)
    block = {number: at for at, one in enumerate(noise.blocks) for number in one.numbers}
    for i in range(noise.dimension):
        for j in range(i):
            assert (squares[i, j] > 0.04) == (block[i] == block[j])


@pytest.mark.parametrize("relation", ["zero_out", "add_remove", "replace"])
def test_the_scaler_draws_its_sums_and_squares_jointly_under_a_pure_promise(relation):
    """One row within the bounds moves no block farther than a step; Laplace noise has twice the squared error."""
    low, high = np.array([0.0, -1.0]), np.array([4.0, 1.0])
    rows = np.random.default_rng(3).uniform(low, high, (50, 2))
    plans = {
        name: learn.PrivateStandardScaler(inid.PureDP(1.0), bounds=(low, high), neighbours=relation, mechanism=name)
        .fit(rows)
        .plan_
        for name in ("auto", "laplace")
    }
    assert plans["auto"].mechanism == "staircase"
    assert plans["auto"].error < 0.5 * plans["laplace"].error
    assert plans["auto"].sensitivity == plans["laplace"].sensitivity
    plans["auto"].verify()
