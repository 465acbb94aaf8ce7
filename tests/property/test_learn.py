"""One person changes, and what is released moves by no more than the plan assumed, for any values at all."""

from fractions import Fraction
from functools import partial
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import inid
from inid import learn, testing
from inid.learn import (
    FEATURE_BITS,
    Gradients,
    LogisticLoss,
    Objective,
    SquaredLoss,
    StepTable,
    Units,
    feature_grid,
    grid_thresholds,
    short,
)
from internals import module_with

column_moments = module_with("inid.learn", "column_reach")
clipped_gradients = module_with("inid.learn", "worth_compiling")
coordinate_descent = module_with("inid.learn", "Descent")
_PoissonLoss = module_with("inid.learn", "PrivatePoissonRegressor")._PoissonLoss
moment_sources = module_with("inid.learn", "MomentSource")
pca = module_with("inid.learn", "PrivatePCA")
scaling = module_with("inid.learn", "BoundsScaler")
second_moments = module_with("inid.learn", "exact_moments")
smoothness = module_with("inid.learn", "NotPrivateWarning")

BUDGET = inid.ApproxDP(epsilon=1.0, delta=1e-6)
NASTY = [np.nan, np.inf, -np.inf, 1e308, -1e308, 5e-324, -0.0, 1e300]
ENTRIES = st.one_of(st.floats(-10, 10), st.floats(), st.sampled_from(NASTY))
RELATIONS = st.sampled_from(["zero_out", "add_remove", "replace"])
FEW = settings(max_examples=40, deadline=None)


@st.composite
def neighbours(draw, columns):
    """(X, the same with one row changed), of any floats."""
    rows = draw(st.integers(1, 6))
    X = np.array(draw(st.lists(ENTRIES, min_size=rows * columns, max_size=rows * columns))).reshape(rows, columns)
    other = X.copy()
    other[draw(st.integers(0, rows - 1))] = draw(st.lists(ENTRIES, min_size=columns, max_size=columns))
    return X, other


@st.composite
def intervals(draw, columns):
    ends = [sorted(draw(st.tuples(st.floats(-9, 9), st.floats(-9, 9)))) for _ in range(columns)]
    lower, upper = np.array(ends).T
    return lower, np.maximum(upper, lower + 0.01)


def assert_inside(difference, sensitivity):
    if sensitivity.kind == "box":
        assert (np.abs(difference) <= sensitivity.profile).all()
    else:
        assert sensitivity.kind == "ellipsoid"
        assert ((difference / sensitivity.limits) ** 2).sum() <= 1


def asked(fit, module):
    """The exact answers that an estimator hands to `release`, with their plans."""
    seen = []

    def release(values, plan, ledger=None, *, label=""):
        seen.append((np.array(values()), plan))
        return inid.release(values, plan, ledger, label=label)

    with patch.object(module, "release", release):
        fit()
    return seen


@FEW
@given(st.data(), st.booleans(), st.booleans(), RELATIONS)
def test_moments_move_by_at_most_the_planned_set(data, mean, center, relation):
    X, other = data.draw(neighbours(3))
    bounds = data.draw(intervals(3))
    weights = data.draw(st.sampled_from(["frobenius", "curvature", [0.1, 1.0, 30.0]]))
    model = learn.PrivateMoments(
        BUDGET, bounds=bounds, mean=mean, center=center, neighbours=relation, weights=weights, mechanism="gaussian"
    )
    (values, plan), (moved, _) = asked(lambda: (model.fit(X), model.fit(other)), second_moments)
    if relation == "replace":
        assert_inside(values - moved, plan.sensitivity)
    else:
        # A row becomes nothing, or is removed: its own share is what it moves, on the same public grid.
        exact, seen = moment_sources.exact_moments, []

        def watched(rows, units, *, mean, count):
            seen.append((units, count))
            return exact(rows, units, mean=mean, count=count)

        with patch.object(moment_sources, "exact_moments", watched):
            model.fit(X)
        (units, count), *_ = seen
        assert count == (relation == "add_remove")
        for at in range(len(X)):
            rest = exact(np.delete(X, at, axis=0), units, mean=mean, count=count)
            assert_inside(values - rest, plan.sensitivity)


@FEW
@given(st.data())
def test_both_sets_for_replacement_hold_every_change(data):
    """The box and the ellipsoid of E8, whichever the plan took."""
    bounds = data.draw(intervals(3))
    centre, mean = data.draw(st.booleans()), data.draw(st.booleans())
    units = Units.of(*bounds, 10, centre=centre, scale=data.draw(st.booleans()))
    costs = np.array(data.draw(st.lists(st.floats(0.01, 100), min_size=4, max_size=4)))
    X, other = data.draw(neighbours(3))
    difference = second_moments.exact_moments(X, units, mean=mean)
    difference -= second_moments.exact_moments(other, units, mean=mean)
    for one in second_moments.moment_sets(units.grid, costs, "replace", mean=mean):
        assert_inside(difference, one)


@FEW
@given(st.data(), RELATIONS, st.sampled_from(["rows", "elementwise", "center"]))
def test_the_moments_of_pca_move_by_at_most_the_planned_set(data, relation, clipping):
    X, other = data.draw(neighbours(3))
    model = learn.PrivatePCA(
        budget=BUDGET,
        row_norm=data.draw(st.floats(0.1, 10)),
        neighbours=relation,
        clipping="elementwise" if clipping == "elementwise" else "rows",
        center=clipping == "center",
    )
    if relation == "zero_out":
        other = X.copy()
        other[0] = 0.0  # about 0 and before any centring, zeros add nothing
    elif relation == "add_remove":
        other = X[1:]
    (values, plan), (moved, _) = asked(lambda: (model.fit(X), model.fit(other)), pca)
    assert_inside(values - moved, plan.sensitivity)


@pytest.mark.parametrize("relation", ["zero_out", "add_remove", "replace"])
@pytest.mark.parametrize("clipping", ["rows", "center", "elementwise"])
def test_rows_at_and_beyond_the_norm_stay_within_the_set_of_pca_and_attain_it(relation, clipping):
    """Every pair of rows of 0, 1, 1.5 and 100 times the norm in four directions."""
    model = learn.PrivatePCA(
        budget=BUDGET,
        row_norm=2.0,
        neighbours=relation,
        clipping="elementwise" if clipping == "elementwise" else "rows",
        center=clipping == "center",
    )
    around = np.pi / 4 * np.arange(4)
    rows = [2 * size * np.array([np.cos(one), np.sin(one)]) for size in (1, 1.5, 100) for one in around]
    rows.append(np.zeros(2))
    found = asked(lambda: [model.fit(row[None]) for row in rows], pca)
    sensitivity, added = found[0][1].sensitivity, [values for values, _ in found]
    changes = [one - two for one in added for two in added] if relation == "replace" else added
    for change in changes:
        assert_inside(change, sensitivity)
    if clipping != "center":  # there both parts share one ellipsoid, of which no row attains the edge
        largest = max((np.abs(change) / sensitivity.limits).max() for change in changes)
        whole = max(((change / sensitivity.limits) ** 2).sum() for change in changes)
        assert (largest if sensitivity.kind == "box" else whole) > (0.5 if relation == "add_remove" else 0.99)


@FEW
@given(st.data(), RELATIONS)
def test_the_estimate_of_smoothness_moves_by_at_most_the_planned_set(data, relation):
    X, other = data.draw(neighbours(2))
    lower, upper = data.draw(intervals(2))
    if relation == "zero_out":
        lower, upper = np.minimum(lower, 0.0), np.maximum(upper, 0.0)
        other = X.copy()
        other[0] = 0.0
    elif relation == "add_remove":
        other = X[1:]

    def both():
        for rows in (X, other):
            learn.estimate_smoothness(rows, budget=inid.PureDP(1.0), bounds=(lower, upper), neighbours=relation)

    (values, plan), (moved, _) = asked(both, smoothness)
    assert_inside(values - moved, plan.sensitivity)


@FEW
@given(st.data(), RELATIONS, st.sampled_from(["lasso", "logistic"]), st.booleans(), st.sampled_from(["data", "bounds"]))
def test_every_step_of_a_descent_moves_by_at_most_its_threshold(data, relation, kind, intercept, units):
    """With the noisy answers held fixed, whatever the data: that is what adaptive composition conditions on."""
    X, other = data.draw(neighbours(3))
    answers = data.draw(st.lists(st.floats(-1e12, 1e12), min_size=8, max_size=8))
    common = {"budget": BUDGET, "bounds": (-5.0, 9.0), "passes": 2, "clip": 3.0, "neighbours": relation}
    common |= {"units": units, "smoothness": "bounds"}
    if kind == "lasso":
        model = learn.PrivateLasso(solver="coordinate_descent", bounds_y=(-2, 3), fit_intercept=intercept, **common)
    else:
        model = learn.PrivateLogisticRegression(classes=(0, 1), fit_intercept=intercept, **common)
    exact = []
    for rows in (X, other):
        script, seen = iter(answers), []

        class Scripted:
            def __init__(self, *_):
                pass

            def add(self, value, script=script, seen=seen):
                seen.append(value)
                return next(script)

        # The noise of a released number of rows is held fixed too.
        with patch.object(coordinate_descent, "PreparedNoise", Scripted), testing.unsafe_seed(1):
            model.fit(rows[:, :3], rows[:, 0])
        exact.append(seen)
        assert np.isfinite(model.coef_).all()
    reach = np.tile(model.plan_.sensitivity.limits[: 3 + intercept], 2)
    difference = np.abs(np.subtract(*exact))
    if relation == "replace":
        assert (difference <= reach).all()
    else:
        assert (difference <= 2 * reach).all()  # one row becomes another: it is removed and another is added


def features(columns, bound=1e6, **more):
    columns = np.asarray(columns, float).reshape(len(columns), -1)
    ends = np.full(columns.shape[1], bound)
    units = Units.of(-ends, ends, None, centre=False, scale=False, bits=FEATURE_BITS)
    return feature_grid(columns, units, constant=False, **more)


@FEW
@given(
    st.lists(st.tuples(st.floats(-1e6, 1e6), st.floats(-1e6, 1e6)), min_size=1, max_size=20),
    st.floats(1e-6, 1e6),
)
def test_a_clipped_sum_is_exact_and_each_record_is_bounded(pairs, bound):
    column, slopes = np.array(pairs).T
    rows, short_rows = features(column), features(column, compiled=True)
    steps, (held,) = grid_thresholds(np.array([bound]), len(pairs))

    def total(residuals):
        one, two = (
            Gradients(each, SquaredLoss(-residuals), steps, np.array([held]), compiled=compiled).sum(0)
            for each, compiled in ((rows, False), (short_rows, True))
        )
        assert one == two
        return one

    parts = []
    for at in range(len(pairs)):
        alone = np.zeros(len(pairs))
        alone[at] = slopes[at]
        parts.append(total(alone))
        assert abs(parts[-1]) <= held <= bound
        assert parts[-1] == pytest.approx(np.clip(rows[0, at] * slopes[at], -bound, bound), abs=bound * 2.0**-44)
    assert total(slopes) == sum(parts)  # whole numbers of a power of two: no sum rounds


@FEW
@given(st.lists(ENTRIES, min_size=1, max_size=20), st.floats(1e-3, 1e3))
def test_features_are_within_the_bounds_and_their_products_with_moves_are_exact(entries, bound):
    row = features(entries, bound)[0]
    np.testing.assert_array_equal(row.astype(np.float32), row)  # 24 significant bits
    np.testing.assert_array_equal(features(entries, bound, compiled=True)[0], row)
    assert (np.abs(row) <= bound * (1 + 2.0**-24)).all()
    kept = np.clip(np.nan_to_num(entries, posinf=np.inf, neginf=-np.inf), -bound, bound)
    np.testing.assert_allclose(row, kept, rtol=2.0**-24, atol=bound * 2.0**-49)
    for move in (0.1, -1e-7, 2 / 3 * 1e30, 1e-250):
        by = short(move, bound)
        assert by == pytest.approx(move, rel=2.0**-26)
        for x in row.tolist():
            assert Fraction(x) * Fraction(by) == Fraction(x * by)


@pytest.mark.parametrize("bound", [5.0, 2.0**70, 2.0**-70])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("loss", [SquaredLoss, LogisticLoss, partial(_PoissonLoss, start=-1.0)])
def test_sums_depend_neither_on_the_order_of_the_records_nor_on_the_path(loss, weighted, bound):
    """Through many moves of the state, of sizes that make every rounding matter, across chunks, and of one-hot columns.

    Which path is taken depends on the number of records, which may be secret: one bit of difference would tell it.
    """
    rng, unit = np.random.default_rng(5), bound / 5
    X, y = rng.normal(size=(40_001, 2)) * [unit, unit / 1000], rng.integers(0, 2, 40_001).astype(float)
    code, weights = rng.integers(0, 4, len(y)), rng.random(len(y))
    steps, bounds = grid_thresholds(np.array([0.5 * unit, 0.001 * unit, 0.3, 0.3, 0.3]), len(y))
    sizes = np.tile([bound, bound, 1.0, 1.0, 1.0], 12)
    moves = [short(move / size * 5, size) for move, size in zip(
        rng.normal(size=60) * 10.0 ** rng.integers(-9, 2, 60), sizes.tolist(), strict=True
    )]  # fmt: skip
    seen = []
    plain = np.arange(len(y))
    for order, compiled in ((plain, False), (plain, True), (rng.permutation(plain), False), (np.roll(plain, 3), True)):
        rows = features(X[order], bound, compiled=compiled)
        assert rows.dtype == (np.float32 if compiled and bound == 5 else np.float64)
        objective = Objective(lambda _, y=y[order]: [loss(y)], lambda _: 1.0)
        (one,) = objective.weighted_losses(None, weights[order] if weighted else None)
        gradients = Gradients(rows, one, steps, bounds, compiled=compiled, hot={2: (code[order], 3)})
        sums = []
        for at, by in enumerate(moves):
            sums.append(gradients.sum(at % 5))
            gradients.move(at % 5, by)
        seen.append(sums)
    assert all(sums == seen[0] for sums in seen)
    assert len(set(seen[0])) > 30


@pytest.mark.parametrize("kind", ["logistic", "exponential"])
def test_the_compiled_loop_computes_what_the_table_lists_bit_by_bit(kind):
    """At every step of the table, beside it, at the middle between two, and far beyond its ends."""
    pytest.importorskip("numba")
    near = np.arange(-17 * 4096, 17 * 4096 + 1) / 4096
    far = np.ldexp(np.random.default_rng(0).normal(size=2000), np.arange(-1000, 1000))
    state = np.concatenate([near, np.nextafter(near, -99), np.nextafter(near, 99), far, [0.0, -0.0, 5e-324]])
    zeros, slopes, room = np.zeros(len(state)), np.empty(len(state)), np.empty(len(state))
    loop = clipped_gradients.clipped_sum("float64")
    given = (True, kind == "logistic", zeros, np.empty(0), 1.0, 2.0**52)
    loop(state.copy(), zeros, 0.0, zeros, *given, slopes, room, room.view(np.uint64), clipped_gradients.SERIES)
    np.testing.assert_array_equal(slopes, StepTable(kind, len(state)).of(state, np.empty(len(state))))
    assert len(np.unique(slopes)) > 2**15


@FEW
@given(st.data(), RELATIONS, st.sampled_from(["lasso", "logistic", "scaler"]), st.booleans())
def test_sums_and_squares_of_columns_move_by_at_most_the_planned_box(data, relation, kind, intercept):
    """Both as an estimator of their own and as the first part of a descent; with the number of rows where it counts."""
    X, other = data.draw(neighbours(2))
    lower, upper = data.draw(intervals(2))
    common = {"budget": BUDGET, "neighbours": relation}
    descent = common | {"bounds": (lower, upper), "passes": 1, "fit_intercept": intercept}
    model = {
        "lasso": lambda: learn.PrivateLasso(solver="coordinate_descent", bounds_y=(-1, 1), **descent),
        "logistic": lambda: learn.PrivateLogisticRegression(classes=(0, 1), **descent),
        "scaler": lambda: learn.PrivateStandardScaler(bounds=(lower, upper), **common),
    }[kind]()
    seen = []

    def watched(values, units, *, count, **weights):
        seen.append((units, count))
        return column_moments.exact_columns(values, units, count=count, **weights)

    module = scaling if kind == "scaler" else coordinate_descent
    with patch.object(module, "exact_columns", watched):
        model.fit(X, np.zeros(len(X)))
    (units, count), *_ = seen
    limits = model.plan_.sensitivity.limits
    first = 0 if kind == "scaler" else 2 + intercept
    planned = limits[first : first + 4 + count]
    rows = other if relation == "replace" else np.delete(X, 0, axis=0)
    moved = np.subtract(*(column_moments.exact_columns(one, units, count=count) for one in (X, rows)))
    assert (np.abs(moved) <= planned).all()
    if relation == "add_remove":
        assert limits[-1] == 1.0  # the number of rows


@pytest.mark.parametrize("relation", ["zero_out", "add_remove", "replace"])
def test_corner_rows_attain_the_box_of_sums_and_squares(relation):
    """Brute force over corners and 0: the set holds every change, and none of its sides is too long."""
    units = Units.of(np.zeros(2), np.full(2, 4.0), 10, centre=True, scale=True)
    rows = np.array([[a, b] for a in (-9.0, 0.0, 1.0, 2.0, 4.0) for b in (0.0, 2.0, 9.0)])
    secret = relation == "add_remove"
    alone = np.array([column_moments.exact_columns(row[None], units, count=secret) for row in rows])
    moved = alone[:, None] - alone[None] if relation == "replace" else alone
    most = np.abs(moved).reshape(-1, moved.shape[-1]).max(axis=0)
    np.testing.assert_array_equal(most, column_moments.column_sensitivity(2, relation).limits)
