"""Coverage of the intervals of a fit: of noise and sampling, of the coefficients that the print-out names."""

from functools import lru_cache

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

import inid
from inid import learn
from inid.testing import unsafe_no_noise, unsafe_seed
from needs import needs

NAMES = ["normal", "long", "b", "c", "intercept"]
TRUTH = np.array([1.0, 0.3, 0.5, -0.5, 1.0])
ENDS = (-15.0, 25.0)


def table(rng, rows):
    """A normal, a lognormal and a one-hot column, and a target that is linear in them."""
    group = rng.integers(0, 3, size=rows)
    X = np.column_stack([rng.normal(size=rows), rng.lognormal(0, 1, size=rows), group == 1, group == 2]).astype(float)
    return X, X @ TRUTH[:4] + TRUTH[4] + rng.normal(size=rows)


def bounds():
    return learn.EncodedBounds(tuple(NAMES[:4]), (-5, 0, 0, 0), (5, 50, 1, 1), ((2, 4),))


LARGE = table(np.random.default_rng(0), 200_000)
COLUMNS = {
    "california": {
        "MedInc": (0, 15), "HouseAge": (0, 60), "AveRooms": (0, 20), "AveBedrms": (0, 5), "Population": (0, 10_000),
        "AveOccup": (0, 10), "Latitude": (32, 42), "Longitude": (-125, -114), "MedHouseVal": (0, 5),
    },
    "adult": {
        "age": (0, 100), "education_num": (0, 20), "capital_gain": (0, 20_000), "capital_loss": (0, 5000),
        "hours_per_week": (0, 100),
    },
}  # fmt: skip


@lru_cache(maxsize=1)
def population(name):
    """All rows that samples are drawn from, and the public bounds."""
    if name == "simulated":
        return *LARGE, bounds(), ENDS
    files = {"california": "california_housing.csv.gz", "adult": "adult.csv.gz"}
    *names, target = COLUMNS[name]
    frame = pd.read_csv(needs("data") / files[name])
    low, high = np.array([*COLUMNS[name].values()], float).T
    return frame[names].to_numpy(float), frame[target].to_numpy(float), (low[:-1], high[:-1]), (low[-1], high[-1])


def estimated(model, name="simulated"):
    """The coefficients that a fit estimates: of all of the population, clipped as the fit clips."""
    X, y, *_ = population(name)
    if name == "simulated" and not model.narrow:
        return TRUTH
    low, high = (float(end[0]) for end in model._target_bounds)
    if model.narrow:
        centre, unit = model._centre[-1], model.equations_.unit[-1]
        low, high = centre - unit, centre + unit
    design = np.column_stack([np.clip(X, *model.bounds_), np.ones(len(X))])
    size = np.abs(design).max(axis=0)
    return np.linalg.lstsq(design / size, np.clip(y, low, high), rcond=None)[0] / size


def coverage(fits, rows, epsilon, *, narrow, cut=1.0, mechanism="auto", name="simulated", tries=None):
    """How often each interval holds its coefficient, a row for each fit that has intervals; and how many were tried.

    `cut` shortens intervals, as a test of the test.
    """
    X, y, ends, ends_y = population(name)
    inside = []
    for seed in range(tries or fits):
        rng = np.random.default_rng([seed, rows])
        places = rng.integers(0, len(y), rows) if name != "simulated" else None
        sample = table(rng, rows) if places is None else (X[places], y[places])
        model = learn.PrivateLinearRegression(
            inid.ApproxDP(epsilon, 1e-6), bounds=ends, bounds_y=ends_y, narrow=narrow, mechanism=mechanism
        )
        with unsafe_seed(seed), pytest.MonkeyPatch.context() as patch:
            patch.setattr("warnings.warn", lambda *_, **__: None)
            found = model.fit(*sample).inference_
        if not found.given.all():
            assert not found.given.any()
            assert found.about[0].startswith("There are no intervals: the noise in the variation of ")
            if seed > 60 and len(inside) < seed / 20:
                break  # hardly any fit has
            continue
        low, high = found.interval()
        assert ((low <= found.coefficients) & (found.coefficients <= high)).all()
        truth, middle = estimated(model, name), (low + high) / 2
        inside.append((middle - cut * (middle - low) <= truth) & (truth <= middle + cut * (high - middle)))
        if len(inside) == fits:
            break
    return np.array(inside), seed + 1


@pytest.mark.parametrize(("rows", "epsilon", "narrow"), [(20_000, 3.0, False), (5000, 1.0, True)])
def test_intervals_of_least_squares_cover_the_truth_and_shorter_ones_do_not(rows, epsilon, narrow):
    """200 fits of fixed seeds, five coefficients each."""
    found, tried = coverage(200, rows, epsilon, narrow=narrow, tries=210)
    assert len(found) == 200
    assert tried < 210
    assert 0.93 <= found.mean() <= 0.97
    assert coverage(40, rows, epsilon, narrow=narrow, cut=0.5)[0].mean() < 0.85


def test_where_noise_drowns_what_tells_columns_apart_there_is_no_interval_and_one_sentence():
    """California's latitude and longitude nearly determine each other: intervals of 5,000 rows covered 48 %."""
    rng = np.random.default_rng(0)
    north = rng.uniform(-1, 1, 5000)
    X = np.column_stack([rng.uniform(-1, 1, 5000), north, (0.1 * rng.normal(size=5000) - north).clip(-1, 1)])
    y = X @ [0.5, 1.0, 1.0] + 0.1 * rng.normal(size=5000)
    model = learn.PrivateLinearRegression(inid.ApproxDP(1.0, 1e-6), bounds=(-1, 1), bounds_y=(-3, 3))
    with unsafe_seed(0):
        found = model.fit(X, y).inference_
    assert not found.given.any()
    assert np.isnan(found.interval()).all()
    assert np.isnan(model.coefficient_interval()).all()
    (why,) = found.about
    assert "the noise in the variation of x1, x2 is too large beside it" in why
    for refused in (
        lambda: found.contrast({"x0": 1.0}), lambda: model.predict_interval(X), lambda: found.test(["x0"])
    ):  # fmt: skip
        with pytest.raises(inid.ArgumentError, match="interval"):
            refused()
    fewer = model.solve_again(columns=[0, 1])
    found = fewer.inference_
    assert found.names == ("x0", "x1", "intercept")
    assert found.given.all()
    low, high = found.interval()
    held = np.clip(X[:, :2], *(end[:2] for end in model.bounds_))
    design = np.column_stack([held, np.ones(5000)])
    assert (
        (low <= np.linalg.lstsq(design, y, rcond=None)[0]) & (np.linalg.lstsq(design, y, rcond=None)[0] <= high)
    ).all()
    np.testing.assert_array_equal(found.coefficients[:2], fewer.coef_[:2])
    assert np.ptp(fewer.predict_interval(X[:9], of="mean"), axis=0).max() < 1
    assert "the same noisy moments chose the columns" in str(model.solve_again(columns=2).inference_)


def test_intervals_count_staircase_noise_by_its_own_law():
    """Without sampling error, so that noise is all there is: 60 fits of three coefficients; half as wide is caught."""
    X = np.random.default_rng(1).uniform(-1, 1, (20_000, 3))
    y, fits, inside = X @ [1.0, -0.5, 0.25], 60, []
    with unsafe_no_noise():
        exact = learn.PrivateLinearRegression(inid.PureDP(1.0), bounds=(-1, 1), bounds_y=(-2, 2), narrow=False)
        truth = exact.fit(X, y).coef_
    for seed in range(fits):
        model = learn.PrivateLinearRegression(inid.PureDP(1.0), bounds=(-1, 1), bounds_y=(-2, 2), narrow=False)
        with unsafe_seed(seed):
            low, high = model.fit(X, y).coefficient_interval(0.95)
        middle = (low + high) / 2
        inside.append([(abs(truth - middle) <= cut * (high - middle)).mean() for cut in (1.0, 0.5)])
    assert model.plan_.mechanism == "staircase"
    covered, halved = np.mean(inside, axis=0)
    assert covered > 0.88  # 180 trials, of which three at a time share a fit
    assert halved < 0.85


# 0.921 and 0.929, where noise is least and residuals have unequal variances, which released moments do not show; 0.971.
OUTSIDE = {
    (20_000, 3.0, True, "auto", "adult"),
    (20_000, 3.0, True, "staircase", "simulated"),
    (20_000, 1.0, False, "staircase", "simulated"),
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "mechanism"),
    [("simulated", "auto"), ("simulated", "staircase"), ("california", "auto"), ("adult", "auto")],
)
@pytest.mark.parametrize("narrow", [False, True])
@pytest.mark.parametrize("epsilon", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("rows", [2000, 5000, 20_000])
def test_intervals_of_least_squares_cover_on_the_whole_grid(rows, epsilon, narrow, mechanism, name, request):
    """200 fits of fixed seeds that have intervals; none is judged where less than a tenth has.

    The truth is the simulated one, or the fit of the whole table that rows are drawn from.
    """
    if (rows, epsilon, narrow, mechanism, name) in OUTSIDE:
        request.applymarker(pytest.mark.xfail(strict=True, reason="known to be outside 93 to 97 %"))
    found, tried = coverage(200, rows, epsilon, narrow=narrow, mechanism=mechanism, name=name, tries=400)
    shown = "none" if not len(found) else f"{found.mean():.3f} {found.mean(axis=0).round(3)}"
    print(f"\n{name} {rows} {epsilon} narrow={narrow} {mechanism}: {len(found)} of {tried}, {shown}")  # noqa: T201
    assert len(found) < tried / 10 or 0.93 <= found.mean() <= 0.97


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [1.0, 3.0])
def test_intervals_of_a_logistic_model_cover_the_fit_of_all_of_adult(epsilon):
    names = {"age": (0, 100), "education_num": (0, 20), "hours_per_week": (0, 100), "capital_loss": (0, 5000)}
    people = pd.read_csv(needs("data") / "adult.csv.gz")
    low, high = np.array([*names.values()], float).T
    X, y = people[[*names]].to_numpy(float), (people["income"] == ">50K").to_numpy().astype(int)
    fit = LogisticRegression(C=1e8, max_iter=2000, tol=1e-10).fit((X.clip(low, high) - low) / (high - low), y)
    slopes = fit.coef_[0] / (high - low)
    truth, inside = np.append(slopes, fit.intercept_[0] - slopes @ low), []
    for seed in range(60):
        rows = np.random.default_rng(seed).integers(0, len(y), 20_000)
        model = learn.PrivateLogisticRegression(
            budget=inid.ApproxDP(epsilon, 1e-6), bounds=(low, high), classes=(0, 1), inference=0.3
        )
        with unsafe_seed(seed):
            table = model.fit(X[rows], y[rows]).inference_
        if table.given.all():
            least, most = table.interval()
            inside.append((least <= truth) & (truth <= most))
    assert len(inside) > 20
    assert 0.93 < np.mean(inside) < 0.995


def test_an_interval_always_holds_the_coefficient_of_the_model():
    outside = 0
    for seed in range(12):
        X, y = table(np.random.default_rng(seed), 5000)
        model = learn.PrivateRidge(10.0, budget=inid.ApproxDP(0.5, 1e-6), bounds=bounds(), bounds_y=ENDS)
        with unsafe_seed(seed):
            found = model.fit(X, y).inference_
        low, high = found.interval(0.5)
        given = found.given
        assert ((low <= found.coefficients) & (found.coefficients <= high))[given].all()
        ends = found.estimates - np.quantile(found.errors, [0.75, 0.25], axis=0)
        outside += int(((found.coefficients < ends[0]) | (found.coefficients > ends[1]))[given].sum())
        np.testing.assert_array_equal(found.coefficients, [*model.coef_, model.intercept_])
    assert outside > 0  # shrinkage moved some of them, and the intervals were widened


def test_without_noise_standard_errors_are_those_of_least_squares():
    X, y = table(np.random.default_rng(1), 20_000)
    model = learn.PrivateLinearRegression(inid.GaussianDP(1e6), bounds=bounds(), bounds_y=ENDS, narrow=False)
    with unsafe_no_noise():
        found = model.fit(X, y).inference_
    design = np.column_stack([X, np.ones(len(X))])
    residuals = y - design @ np.linalg.lstsq(design, y, rcond=None)[0]
    expected = np.sqrt(np.diag(np.linalg.inv(design.T @ design)) * residuals.var())
    np.testing.assert_allclose(found.standard_errors, expected, rtol=0.15)  # of 1,000 draws
    exact = np.array([1.0, 0.0, 0.0, 0.0, 0.0]) @ found.covariance_ @ np.array([1.0, 0.0, 0.0, 0.0, 0.0])
    assert exact**0.5 == pytest.approx(found.standard_errors[0])
    np.testing.assert_allclose(found.estimates, TRUTH, atol=5 * expected.max())
    assert found.p_values[0] < 1e-10
    low, high = model.predict_interval(X, 0.9)
    assert 0.88 < np.mean((low <= y) & (y <= high)) < 0.92
    low, high = model.predict_interval(X, of="mean")
    assert np.mean((low <= design @ TRUTH) & (design @ TRUTH <= high)) > 0.8
    assert np.median(high - low) < 0.2


PEOPLE = pd.DataFrame({"age": LARGE[0][:20_000, 0], "level": np.array(["a", "b", "c"])[
    (LARGE[0][:20_000, 2] + 2 * LARGE[0][:20_000, 3]).astype(int)]})  # fmt: skip


def fitted(drop):
    encoder = learn.PublicCategories({"level": ["a", "b", "c"]}, bounds={"age": (-5, 5)}, drop=drop)
    X = encoder.set_output(transform="pandas").fit_transform(PEOPLE)
    model = learn.PrivateRidge(0.0, budget=inid.ApproxDP(1.0, 1e-6), bounds=encoder.get_bounds_out(), bounds_y=ENDS)
    with unsafe_seed(3):
        return model.fit(X, LARGE[1][:20_000])


def test_levels_are_compared_with_a_reference_or_with_each_other():
    first, all_levels = fitted("first").inference_, fitted(None).inference_
    assert first.names == ("age", "level_b", "level_c", "intercept")
    assert first.given.all()
    assert all_levels.given.tolist() == [True, False, False, False, False]
    assert "no interval" in str(all_levels)
    assert 'PublicCategories(drop="first")' in str(all_levels)
    for found in (first, all_levels):
        effect = found.contrast({"level_b": 1, "level_c": -1})
        assert effect.lower - 0.1 < 1.0 < effect.upper + 0.1
        assert effect.p_value < 1e-6
        assert 0 < effect.standard_error < 0.2
    with pytest.raises(inid.ArgumentError, match="no interval"):
        all_levels.contrast({"level_b": 1})
    assert first.test(["level_b", "level_c"]) < 1e-6
    with pytest.raises(inid.ArgumentError, match="names of coefficients"):
        all_levels.test(["level_b", "level_c"])
    with pytest.raises(inid.ArgumentError, match="no coefficient is called 'height'"):
        first.contrast({"height": 1})


def test_a_test_of_columns_that_say_nothing_rejects_as_often_as_it_says():
    """120 fits with two columns of no effect: p-values below 0.1 in a tenth of them, about."""
    rejected = 0
    for seed in range(120):
        rng = np.random.default_rng(seed)
        X = rng.uniform(-1, 1, size=(4000, 3))
        model = learn.PrivateLinearRegression(inid.ApproxDP(3.0, 1e-6), bounds=(-1, 1), bounds_y=(-6, 6), narrow=False)
        with unsafe_seed(seed):
            found = model.fit(X, X[:, 0] + rng.normal(size=4000)).inference_
        rejected += found.test(["x1", "x2"]) < 0.1
        assert found.test(["x0"]) < 1e-3
    assert 1 <= rejected <= 28


def drawn(family, rng, rows):
    """Rows of a logarithmic or logistic model of a normal, a uniform and a one-hot column."""
    group = rng.integers(0, 3, size=rows)
    X = np.column_stack([rng.normal(size=rows), rng.uniform(-1, 1, size=rows), group == 1, group == 2]).astype(float)
    eta = X @ SLOPES[:4] + SLOPES[4]
    laws = {
        "labels": lambda: rng.uniform(size=rows) < 1 / (1 + np.exp(-eta)),
        "counts": lambda: rng.poisson(np.exp(eta)),
        "wide counts": lambda: rng.negative_binomial(np.exp(eta), 0.5),
        "amounts": lambda: rng.gamma(2.0, np.exp(eta) / 2),
    }
    return X, laws[family]()


SLOPES = np.array([0.8, -0.5, 0.4, -0.3, 0.2])
FAMILIES = {
    "labels": lambda **facts: learn.PrivateLogisticRegression(classes=(False, True), **facts),
    "counts": lambda **facts: learn.PrivatePoissonRegressor(bounds_y=(0, 60), **facts),
    "wide counts": lambda **facts: learn.PrivatePoissonRegressor(bounds_y=(0, 100), **facts),
    "amounts": lambda **facts: learn.PrivateGammaRegressor(bounds_y=(0.001, 60), **facts),
}


def descent_coverage(family, fits, rows, epsilon, cut=1.0):
    """The coverage of coefficients that have intervals, and how many fits have none."""
    ends = learn.EncodedBounds(tuple("abcd"), (-4, -1, 0, 0), (4, 1, 1, 1), ((2, 4),))
    inside, none = [], 0
    for seed in range(fits):
        X, y = drawn(family, np.random.default_rng([seed, rows]), rows)
        model = FAMILIES[family](budget=inid.ApproxDP(epsilon, 1e-6), bounds=ends, inference=0.3)
        with unsafe_seed(seed), pytest.MonkeyPatch.context() as patch:
            patch.setattr("warnings.warn", lambda *_, **__: None)
            found = model.fit(X, y).inference_
        low, high = found.interval()
        middle, kept = (low + high) / 2, found.given
        none += not kept[0]
        far = middle - cut * (middle - low) > SLOPES, middle + cut * (high - middle) < SLOPES
        inside += (~far[0] & ~far[1])[kept].tolist()
    return np.mean(inside), none


@pytest.mark.parametrize("family", FAMILIES)
def test_intervals_of_models_that_descend_cover_the_truth(family):
    found, none = descent_coverage(family, 20, 5000, 3.0)
    assert found > 0.85  # of 80 or 100 trials, of which four or five at a time share a fit
    assert none < 5


def test_shorter_intervals_of_a_descent_do_not_cover():
    assert descent_coverage("labels", 20, 5000, 3.0, cut=0.4)[0] < 0.8


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("epsilon", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("rows", [2000, 5000, 20_000])
def test_intervals_of_models_that_descend_cover_on_the_whole_grid(rows, epsilon, family):
    """200 fits: a coverage of 0.95 has a standard deviation of 0.007 to 0.015."""
    found, none = descent_coverage(family, 200, rows, epsilon)
    print(f"\n{family} {rows} {epsilon}: {found:.3f}, {none} without")  # noqa: T201
    assert none == 200 or found > 0.90
