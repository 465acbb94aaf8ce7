"""Attacks on the estimators: data that try to be shown, to raise, to count for more, or to see noise twice."""

import copy
import multiprocessing
import pickle
import warnings
from decimal import Decimal
from fractions import Fraction
from unittest.mock import patch

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

import inid
from inid import learn
from inid.learn import RepeatedSpendingWarning
from inid.testing import audit_epsilon, unsafe_seed
from internals import module_with
from needs import needs

moment_sources = module_with("inid.learn", "MomentSource")

BUDGET = inid.ApproxDP(epsilon=1.0, delta=1e-6)
ROWS = 30
X = np.linspace(0, 1, 2 * ROWS).reshape(ROWS, 2)
Y = X.sum(axis=1)
SECRET = 123456.789
NASTY = [np.nan, np.inf, -np.inf, 1e308, -1e308, 5e-324, 1e-200, -0.0]
RELATIONS = ["zero_out", "add_remove", "replace"]


def regressors(**more):
    common = {"bounds": (0, 1), "bounds_y": (0, 2), "budget": BUDGET, "mechanism": "gaussian"} | more
    return [
        learn.PrivateLinearRegression(**common),
        learn.PrivateRidge(**common),
        learn.PrivateLasso(**common),
        learn.PrivateLasso(solver="coordinate_descent", passes=2, **common),
    ]


def estimators(**more):
    common = {"budget": BUDGET, "mechanism": "gaussian"} | more
    return [
        *regressors(**more),
        learn.PrivateMoments(bounds=(0, 1), **common),
        learn.PrivatePCA(1, row_norm=1.0, **common),
        learn.PrivatePCA(1, row_norm=1.0, center=False, **common),
        learn.PrivateLogisticRegression(bounds=(0, 1), classes=(0, 1), passes=2, **common),
    ]


def smoothness(data):
    return learn.estimate_smoothness(data, budget=inid.PureDP(1.0), bounds=(0, 1))


def entry(value):
    """The data as objects, one entry of which is the value."""
    data = X.astype(object)
    data[3, 1] = value
    return data


REFUSED = {
    "complex": X + 1j * SECRET,
    "one dimension": X[:, 0] * SECRET,
    "three dimensions": X[None] * SECRET,
    "masked": np.ma.array(X * SECRET, mask=X > 0.5),
    "sparse and complex": sparse.csr_array(X * SECRET * 1j),
    "text": np.full((ROWS, 2), str(SECRET)),
    "text of any length": np.full((ROWS, 2), str(SECRET)).astype(np.dtypes.StringDType()),
    "text among objects": entry(str(SECRET)),
    "words among objects": entry(f"{SECRET} and more"),
    "complex among objects": entry(1j * SECRET),
    "a list among objects": entry([SECRET]),
    "ragged": [[SECRET], [1.0, 2.0]] * (ROWS // 2),
    "dates": np.full((ROWS, 2), np.datetime64("2024-01-01")),
    "durations": np.full((ROWS, 2), np.timedelta64(5, "s")),
    "structured": np.zeros(ROWS, dtype=[("a", float), ("b", float)]),
    "a column of text": pd.DataFrame({"a": pd.array([str(SECRET)] * ROWS, dtype="string"), "b": X[:, 1]}),
    "categories of text": pd.DataFrame({"a": pd.Categorical([str(SECRET), "q"] * (ROWS // 2)), "b": X[:, 1]}),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_refused_is_refused_by_type_or_shape_and_never_shown(what):
    ledger = inid.Ledger(total=BUDGET)
    calls = [lambda model=model: model.fit(REFUSED[what], (Y > 1).astype(int), ledger=ledger) for model in estimators()]
    for call in [*calls, lambda: smoothness(REFUSED[what])]:
        with pytest.raises((ValueError, TypeError)) as caught:
            call()
        assert "123456" not in str(caught.value)
        assert "0.5" not in str(caught.value)
    assert len(ledger.history()) == 0


@pytest.mark.parametrize(
    "target", [Y + 1j * SECRET, np.ma.array(Y * SECRET), np.full(ROWS, str(SECRET)), X[None] * SECRET]
)
def test_a_target_is_refused_by_type_or_shape_and_never_shown(target):
    for model in regressors():
        with pytest.raises(ValueError, match=r"y|Complex") as caught:
            model.fit(X, target)
        assert "123456" not in str(caught.value)
    logistic = learn.PrivateLogisticRegression(budget=BUDGET, bounds=(0, 1), classes=(0, 1), passes=1)
    if target.dtype.kind == "c" or target.ndim > 1 or isinstance(target, np.ma.MaskedArray):
        with pytest.raises(ValueError, match=r"y|Complex") as caught:
            logistic.fit(X, target)
        assert "123456" not in str(caught.value)
    else:
        logistic.fit(X, target)  # other labels count as negative


@pytest.mark.parametrize(
    ("value", "as_if"),
    [
        (10**400, np.inf), (-(10**400), -np.inf), (Decimal("1e999"), np.inf), (Decimal("sNaN"), np.nan),
        (Fraction(1, 3), 1 / 3), (pd.NA, np.nan), (pd.NaT, np.nan), (None, np.nan), (True, 1.0), (np.float32(0.5), 0.5),
        (np.longdouble("1e4000"), np.inf),
    ],
)  # fmt: skip
def test_no_number_and_no_gap_is_an_error(value, as_if):
    """Among objects too: an error that only some values raise would tell that somebody has one."""
    plain = X.copy()
    plain[3, 1] = as_if
    for model in estimators():
        results = []
        for data in (entry(value), plain):
            with unsafe_seed(1), warnings.catch_warnings():
                warnings.simplefilter("error")
                warnings.simplefilter("ignore", learn.NoisyFitWarning)  # which released numbers decide
                model.fit(data, (Y > 1).astype(int))
            results.append(model.plan_.scales.tolist() + np.ravel(getattr(model, "coef_", model.plan_.scales)).tolist())
        assert results[0] == results[1]


@pytest.mark.parametrize("missing", [pd.NA, pd.NaT, None, np.nan, "other", 7])
def test_a_strange_label_is_negative_and_no_error(missing):
    labels = np.array([0, 1] * (ROWS // 2), dtype=object)
    labels[1] = missing
    negative = labels.copy()
    negative[1] = 0
    model = learn.PrivateLogisticRegression(budget=BUDGET, bounds=(0, 1), classes=(0, 1), passes=2)
    found = []
    for y in (labels, negative):
        with unsafe_seed(2):
            found.append(model.fit(X, y).coef_.tolist())
    assert found[0] == found[1]


def test_no_floating_point_error_depends_on_the_data():
    """Callers may turn NumPy's warnings into errors, and then an underflow would tell of a small number."""
    wild = X.copy()
    wild[: len(NASTY), 0] = NASTY
    wild[: len(NASTY), 1] = NASTY[::-1]
    with np.errstate(all="raise"):
        for model in estimators():
            model.fit(wild, wild[:, 0])
        smoothness(wild)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", learn.NoisyFitWarning)  # which released numbers decide
        for model in estimators():
            model.fit(wild.astype(np.longdouble) * np.longdouble("1e3000"), wild[:, 0])


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.uint8, bool, np.int64])
@pytest.mark.parametrize("layout", ["C", "F", "strided", "read-only"])
def test_types_and_layouts_of_arrays_do_not_change_the_release(dtype, layout):
    data = (X * 3).astype(dtype)
    plain = data.astype(np.float64)
    if layout == "strided":
        data = np.repeat(np.repeat(data, 2, axis=0), 3, axis=1)[::2, ::3]
    elif layout == "read-only":
        data.flags.writeable = False
    else:
        data = np.asarray(data, order=layout)
    for model in estimators():
        found = []
        for rows in (data, plain):
            with unsafe_seed(3):
                model.fit(rows, (Y > 1).astype(int))
            shown = getattr(model, "coef_", None)
            found.append(np.ravel(model.release_.values if shown is None else shown).tolist())
        assert found[0] == found[1]


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("intercept", [True, False])
def test_one_person_moves_the_moments_of_a_linear_model_by_at_most_the_planned_set(relation, intercept):
    rng = np.random.default_rng(6)
    exact, columns, seen, looked = moment_sources.exact_moments, moment_sources.exact_columns, [], []

    def watched(rows, units, *, mean, count):
        seen.append((units, mean, count))
        return exact(rows, units, mean=mean, count=count)

    def looking(rows, units, *, count):
        looked.append(units)
        return columns(rows, units, count=count)

    def released(row):
        """What one row adds to the whole release: moments, the number of rows, and the first look."""
        found = exact(row[None], units, mean=mean, count=relation == "add_remove")
        return np.append(found, columns(row[None], looked[-1], count=False)) if intercept else found

    for low, high in ((0.0, 1.0), (-1.0, 1.0), (2.0, 2.5)):
        model = learn.PrivateRidge(
            budget=BUDGET, bounds=(low, high), bounds_y=(-3, 1), neighbours=relation, fit_intercept=intercept
        )
        with (
            patch.object(moment_sources, "exact_moments", watched),
            patch.object(moment_sources, "exact_columns", looking),
        ):
            model.fit(X, Y)
        units, mean, count = seen[-1]
        assert count == (relation == "add_remove" and not intercept)  # counted by the first look, where there is one
        sensitivity = model.plan_.sensitivity
        for _ in range(200):
            rows = rng.choice([*NASTY, low, high, -3.0, 1.0, SECRET], size=(2, 3))
            one, two = map(released, rows)
            moved = one - two if relation == "replace" else one  # what is left of a row that is nothing is 0
            if sensitivity.kind == "box":
                assert (np.abs(moved) <= sensitivity.limits).all()
            else:
                assert ((moved / sensitivity.limits) ** 2).sum() <= 1


def fitted(_=None):
    model = learn.PrivateLasso(0.0, budget=BUDGET, bounds=(0, 1), bounds_y=(0, 2), solver="coordinate_descent")
    return tuple(model.fit(X, Y).coef_.tolist())


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_forked_fits_never_share_noise():
    needs("fork")
    fitted()
    with multiprocessing.get_context("fork").Pool(2) as pool:
        results = pool.map(fitted, range(6), chunksize=1)
    assert len({*results, fitted()}) == 7


@pytest.mark.filterwarnings("ignore::inid.learn.RepeatedSpendingWarning")
def test_copies_and_clones_of_a_fitted_estimator_draw_new_noise():
    model = learn.PrivateLasso(0.0, budget=BUDGET, bounds=(0, 1), bounds_y=(0, 2), solver="coordinate_descent")
    first = model.fit(X, Y).coef_.copy()
    for again in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model), clone(model), model):  # noqa: S301
        # One coefficient agrees with probability 1e-4 or less, since noise lies on a grid; both with 1e-8.
        assert (again.fit(X, Y).coef_ != first).any()


def test_what_cannot_be_planned_costs_nothing_even_after_a_paid_estimate():
    ledger = inid.Ledger(total=inid.PureDP(1.0))
    model = learn.PrivateLogisticRegression(
        budget=inid.PureDP(1.0), mechanism="gaussian", units="data", bounds=(0, 1), classes=(0, 1)
    )
    with pytest.raises(inid.InidError, match="Gaussian"):
        model.fit(X, Y > 1, ledger=ledger)
    assert len(ledger.history()) == 0


@pytest.mark.parametrize("ledger", ["budget.db", inid.Ledger, 3])
def test_what_is_no_ledger_is_refused_before_anything_is_drawn(ledger):
    for model in estimators():
        with pytest.raises(inid.ArgumentError, match="ledger"):
            model.fit(X, (Y > 1).astype(int), ledger=ledger)
        assert not hasattr(model, "plan_")


def test_weights_of_persons_are_not_taken_without_a_stated_bound():
    """A weight would multiply what one person moves: no argument, or none without `max_weight`, and no charge."""
    ledger = inid.Ledger(total=inid.ApproxDP(100.0, 1e-3))
    for model in estimators():
        with pytest.raises((TypeError, inid.ArgumentError), match="sample_weight"):
            model.fit(X, (Y > 1).astype(int), sample_weight=np.full(ROWS, 100.0), ledger=ledger)
        assert not hasattr(model, "plan_")
    assert len(ledger.history()) == 0


def test_a_search_says_that_its_scores_are_not_covered():
    search = pytest.warns(learn.NotPrivateStepWarning, match="GridSearchCV")
    with search, pytest.warns(RepeatedSpendingWarning, match="scores of a search are not private"):
        GridSearchCV(regressors()[1], {"alpha": [0.1, 1.0]}, cv=2).fit(X, Y)


@pytest.mark.slow
@pytest.mark.parametrize("relation", ["zero_out", "add_remove", "replace"])
def test_an_audit_of_a_whole_descent_stays_within_its_promise_and_comes_near_it(relation):
    """One record at its threshold against its worst neighbour: epsilon = 1 is what an attacker can prove, no more."""
    model = learn.PrivateLasso(
        0.0, budget=inid.PureDP(1.0), bounds=(-1, 1), bounds_y=(-1, 1), solver="coordinate_descent", passes=1,
        clip=0.5, neighbours=relation, units="data", smoothness="bounds", fit_intercept=False,
    )  # fmt: skip
    # A target of 0 gives the gradient 0: what is left when the record is nothing.
    other = {"zero_out": [0.0], "replace": [-1.0], "add_remove": []}[relation]
    samples = []
    for seed, target in enumerate(([1.0], other)):
        with unsafe_seed(seed):
            samples.append([model.fit(np.ones((len(target), 1)), np.array(target)).coef_[0] for _ in range(6000)])
    found = audit_epsilon(*samples, confidence=1 - 1e-7).epsilon
    assert (0.4 if relation == "add_remove" else 0.7) < found <= 1.0  # the number of rows has its part
