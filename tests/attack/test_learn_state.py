"""Attacks on what surrounds a fit: memory that changes, settings of the caller, results of earlier fits, copies."""

import copy
import pickle
import tempfile
import warnings
from unittest.mock import patch

import joblib
import numpy as np
import pandas as pd
import pytest
import scipy.special
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.multioutput import MultiOutputRegressor
from sklearn.pipeline import make_pipeline

import inid
from inid import learn
from inid.tables import Table
from inid.testing import unsafe_no_noise, unsafe_seed
from internals import module_with

pca = module_with("inid.learn", "PrivatePCA")

BUDGET = inid.ApproxDP(epsilon=1.0, delta=1e-6)
ROWS = 60
X = np.linspace(0, 1, 2 * ROWS).reshape(ROWS, 2)
Y = X.sum(axis=1)
LASSO = {"budget": BUDGET, "bounds": (0, 1), "bounds_y": (0, 2)}
DESCENT = LASSO | {"solver": "coordinate_descent", "passes": 1}


def estimators():
    return [
        learn.PrivateLinearRegression(**LASSO),
        learn.PrivateRidge(**LASSO),
        learn.PrivateLasso(**LASSO),
        learn.PrivateLasso(**DESCENT),
        learn.PrivateMoments(BUDGET, bounds=(0, 1)),
        learn.PrivatePCA(1, budget=BUDGET, row_norm=1.0),
        learn.PrivateLogisticRegression(budget=BUDGET, bounds=(0, 1), classes=(0, 1), passes=1),
    ]


@pytest.mark.parametrize(
    ("of_table", "of_estimator"), [("add_remove", "zero_out"), ("add_remove", "replace"), ("replace", "add_remove")]
)
def test_a_table_and_an_estimator_of_other_relations_do_not_mix(of_table, of_estimator):
    ledger = inid.Ledger(total=BUDGET, neighbours=of_estimator)
    table = Table(pd.DataFrame({"a": X[:, 0]}), bounds={"a": (0, 1)}, neighbours=of_table)
    counted = patch.object(
        module_with("inid.learn", "TableRows"), "_row_count", side_effect=AssertionError("counted the rows")
    )
    with counted, pytest.raises(inid.ArgumentError, match="neighbours"):
        learn.PrivateMoments(BUDGET, neighbours=of_estimator).fit(table, ledger=ledger)
    assert len(ledger.history()) == 0


def test_the_secret_row_count_of_a_table_is_not_published():
    """A noisy sum over the exact number of rows would give it away: that is noisy too, and not counted first."""
    table = Table(pd.DataFrame({"a": X[:, 0]}), bounds={"a": (0, 1)})
    counted = patch.object(
        module_with("inid.learn", "TableRows"), "_row_count", side_effect=AssertionError("counted the rows")
    )
    with counted, unsafe_seed(1):  # one noisy count in ten thousand is the exact one by chance
        model = learn.PrivateMoments(BUDGET).fit(table, ledger=inid.Ledger(total=BUDGET))
    assert model.plan_.sensitivity.neighbours == "add_remove"
    assert model.plan_.dimension == 3  # the square, the sum, the number of rows
    assert (model.plan_.scales > 0).all()
    assert model.release_.values[-1] != ROWS


class Turning(np.ndarray):
    """Rows that turn to NaN after the first look at them, as memory shared with another process may."""

    def __array_finalize__(self, source):
        self.looks = getattr(source, "looks", [0])

    def __array_ufunc__(self, ufunc, method, *inputs, **more):
        return getattr(ufunc, method)(*(read(one) for one in inputs), **more)

    def __array_function__(self, func, types, args, kwargs):
        return func(*(read(one) for one in args), **kwargs)


def read(value):
    if not isinstance(value, Turning):
        return value
    value.looks[0] += 1
    plain = value.view(np.ndarray).copy()
    return plain if value.looks[0] == 1 else np.full_like(plain, np.nan)


def test_rows_that_change_while_they_are_read_count_once():
    """Two looks, one for NaN and one for the values, let an entry that turns to NaN in between wipe out every sum."""
    limits = pca._Limits(1.0, 2, ROWS)
    np.testing.assert_array_equal(limits._whole((X / 2).view(Turning)), limits._whole(X / 2))


@pytest.mark.parametrize("action", ["raise", "warn"])
def test_no_error_of_scipys_functions_depends_on_a_record(action):
    """The probability of one record far out underflows, which SciPy can be told to report."""
    far = np.full((ROWS, 1), 0.5)
    far[0] = -1e6
    model = learn.PrivateLogisticRegression(
        budget=inid.ApproxDP(50.0, 1e-6),
        bounds=(-1e6, 1),
        classes=(0, 1),
        passes=3,
        smoothness=[0.1],
        clip=1.0,
        units="data",
    )
    with scipy.special.errstate(all=action), warnings.catch_warnings(), np.errstate(all="raise"):
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", learn.NoisyFitWarning)  # which released numbers decide
        model.fit(far, [1] * ROWS)
    assert abs(model.coef_[0, 0]) > 1e-3  # far enough for exp(-1e6 w) to underflow


def test_results_of_an_earlier_fit_do_not_pass_for_those_of_the_next():
    model = learn.PrivateLasso(**DESCENT).fit(X, Y)
    assert model.private_
    with unsafe_seed(1):
        model.set_params(solver="moments").fit(X, Y)
    assert model.private_ is model.release_.private is False
    assert not hasattr(model, "smoothness_")
    moments = learn.PrivateMoments(BUDGET, bounds=(0, 1)).fit(X).set_params(mean=False).fit(X)
    assert not hasattr(moments, "mean_")
    assert not hasattr(moments, "covariance_")


def test_a_refused_fit_leaves_no_results_behind():
    for model in estimators():
        model.fit(X, (Y > 1).astype(int))
        with pytest.raises(inid.BudgetError):
            model.fit(X, (Y > 1).astype(int), ledger=inid.Ledger(total=inid.PureDP(1e-9)))
        assert not [name for name in vars(model) if name in ("coef_", "plan_", "release_", "private_", "components_")]


def test_every_estimator_says_whether_its_noise_was_real():
    for model in estimators():
        with unsafe_no_noise():
            assert model.fit(X, (Y > 1).astype(int)).private_ is False
        assert model.fit(X, (Y > 1).astype(int)).private_ is True


@pytest.mark.parametrize("context", [lambda: unsafe_seed(1), unsafe_no_noise])
def test_smoothness_drawn_by_a_test_source_says_so_since_an_array_cannot(context):
    ask = {"budget": inid.PureDP(1.0), "bounds": (0, 1)}
    with context(), pytest.warns(learn.NotPrivateWarning, match="not private"):
        learn.estimate_smoothness(X, **ask)
    learn.estimate_smoothness(X, **ask)  # no warning, or it would be an error here
    with context():
        model = learn.PrivateLasso(smoothness=0.1, units="data", **DESCENT)
        assert not model.fit(X, Y).private_  # which has a mark of its own


def spending(call):
    """How many times a search says that it has spent the budget."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warnings.simplefilter("ignore", learn.NoisyFitWarning)  # which released numbers decide
        call()
    said = [str(one.message) for one in caught if one.category is learn.RepeatedSpendingWarning]
    others = [one for one in caught if one.category is not learn.NotPrivateStepWarning]  # of the choice by exact scores
    assert len(said) == len([one for one in others if "fork" not in str(one.message)])
    return said


@pytest.mark.parametrize("jobs", [None, 2])
def test_a_search_in_other_processes_warns_in_this_one(jobs):
    """Where the fits happen nobody sees a warning; what is sent there is counted here."""
    model, grid = learn.PrivateRidge(**LASSO), {"alpha": [0.1, 0.2]}
    said = spending(lambda: GridSearchCV(model, grid, cv=3, n_jobs=jobs).fit(X, Y))
    assert len(said) == 1
    model = clone(learn.PrivateRidge(**LASSO))
    assert spending(lambda: GridSearchCV(model, grid, cv=2, n_jobs=jobs, refit=False).fit(X, Y))
    assert spending(lambda: cross_val_score(learn.PrivateRidge(**LASSO), X, Y, cv=3, n_jobs=jobs))


ROUTED = {
    "search": lambda model, ledger: GridSearchCV(model, {"alpha": [0.1, 0.2]}, cv=2, n_jobs=2).fit(X, Y, ledger=ledger),
    "scores": lambda model, ledger: cross_val_score(model, X, Y, cv=2, n_jobs=2, params={"ledger": ledger}),
    "outputs": lambda model, ledger: MultiOutputRegressor(model, n_jobs=2).fit(X, np.c_[Y, Y], ledger=ledger),
    "pipeline": lambda model, ledger: cross_val_score(
        make_pipeline(learn.BoundsScaler((-1, 1)), model), X, Y, cv=2, n_jobs=2, params={"privateridge__ledger": ledger}
    ),
}


@pytest.mark.filterwarnings("ignore::inid.learn.NotPrivateStepWarning", "ignore::inid.learn.NoisyFitWarning")
@pytest.mark.parametrize("fit", ROUTED.values(), ids=ROUTED)
def test_a_ledger_is_not_sent_to_other_processes_and_nothing_is_charged(fit):
    """By default n_jobs means processes; with threads, or one job, the same call is counted."""
    ledger, model = inid.Ledger(total=inid.ApproxDP(100.0, 1e-4)), learn.PrivateRidge(**LASSO)
    with pytest.raises(inid.ArgumentError, match=r"n_jobs=2 would send the ledger.*leave out n_jobs"):
        fit(model, ledger)
    assert not ledger.history()
    with joblib.parallel_config(backend="threading"):
        fit(model, ledger)
    assert ledger.history()


def test_with_a_ledger_a_search_in_threads_is_counted_and_silent_of_spending():
    """What the warning recommends; a ledger cannot be sent to another process."""
    ledger = inid.Ledger(total=inid.ApproxDP(100.0, 1e-4))
    search = GridSearchCV(learn.PrivateRidge(**LASSO), {"alpha": [0.1, 0.2]}, cv=3, n_jobs=2)
    with joblib.parallel_config(backend="threading"):
        assert not spending(lambda: search.fit(X, Y, ledger=ledger))
    assert len(ledger.history()) == 2 * 3 + 1


def test_copies_count_as_fitted_once_and_only_among_clones():
    alone = learn.PrivateRidge(**LASSO)
    assert not spending(lambda: [pickle.dumps(alone) for _ in range(3)])
    family = [clone(alone) for _ in range(3)]
    assert not spending(lambda: (pickle.dumps(family[0]), copy.deepcopy(family[0]), family[0].fit(X, Y)))
    assert spending(lambda: pickle.dumps(family[1]))
    assert not spending(lambda: family[2].fit(X, Y))  # said once
    assert not spending(lambda: pickle.dumps(family[2]))  # fitted: a result is stored, nothing is spent
    assert not {"_family", "_counted"} & vars(pickle.loads(pickle.dumps(family[2]))).keys()  # noqa: S301
    with tempfile.TemporaryDirectory() as folder:  # a cache pickles what it then fits here
        pca = learn.PrivatePCA(1, budget=BUDGET, row_norm=1.0)
        pipeline = make_pipeline(pca, learn.PrivateRidge(**LASSO), memory=folder)
        assert not spending(lambda: pipeline.fit(X, Y))
