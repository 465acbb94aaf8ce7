"""Pipelines of private steps: parts of one promise, medians, quantiles."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.pipeline import FeatureUnion, make_union
from sklearn.preprocessing import PolynomialFeatures

import inid
from inid import learn
from inid.numbers import decimal_fraction
from inid.testing import unsafe_seed

RNG = np.random.default_rng(0)
X = np.column_stack([RNG.exponential(2.0, 4000), RNG.uniform(0, 1, 4000)])
Y = X[:, 1] + np.log1p(X[:, 0]) / 3
GAPS = np.where(RNG.uniform(size=X.shape) < 0.2, np.nan, X)
BOUNDS = ([0, 0], [100, 1])
BUDGETS = [inid.PureDP(1.0), inid.ApproxDP(1.0, 1e-6)]


def pipeline(budget, **more):
    return learn.make_private_pipeline(
        learn.PrivateImputer(bounds=BOUNDS),
        learn.PrivateQuantileTransformer(bounds=BOUNDS),
        PolynomialFeatures(include_bias=False),
        learn.PrivateRidge(bounds=(0, 1), bounds_y=(0, 3)),
        budget=budget,
        **more,
    )


@pytest.mark.parametrize("budget", BUDGETS, ids=lambda one: one.kind)
@pytest.mark.parametrize("relation", ["zero_out", "replace"])
def test_the_parts_of_a_pipeline_fit_in_a_ledger_of_its_promise(budget, relation):
    ledger = inid.Ledger(total=budget, neighbours=relation)
    model = pipeline(budget).fit(GAPS, Y, ledger=ledger)
    assert [one.label for one in ledger.history()] == ["PrivateImputer", "PrivateQuantileTransformer", "PrivateRidge"]
    assert model.predict(GAPS[:5]).shape == (5,)
    with pytest.raises(inid.BudgetError):
        pipeline(budget).fit(GAPS, Y, ledger=ledger)


def test_parts_add_up_to_the_whole_and_no_further():
    steps = [step for _, step in pipeline(inid.GaussianDP(0.7), share=0.2).steps if hasattr(step, "budget")]
    squares = [decimal_fraction(step.budget.mu) ** 2 for step in steps]
    assert sum(squares) <= decimal_fraction(0.7) ** 2
    np.testing.assert_allclose([float(one) / 0.49 for one in squares], [0.2, 0.2, 0.6], rtol=1e-6)


@pytest.mark.parametrize(
    ("steps", "more"),
    [
        ([PolynomialFeatures()], {}),
        ([learn.PrivateRidge(budget=inid.PureDP(1.0))], {}),
        ([learn.PrivateImputer(), learn.PrivateRidge()], {"share": 1.0}),
        ([learn.PrivateImputer(), learn.PrivateRidge()], {"share": -0.1}),
        ([learn.PrivateRidge()], {"budget": 1.0}),
    ],
)
def test_malformed_pipelines_are_refused(steps, more):
    with pytest.raises(inid.ArgumentError):
        learn.make_private_pipeline(*steps, **({"budget": inid.PureDP(1.0)} | more))


@pytest.mark.parametrize("relation", ["zero_out", "add_remove", "replace"])
def test_medians_and_quantiles_come_near_the_exact_ones(relation):
    with unsafe_seed(1):
        imputer = learn.PrivateImputer(inid.ApproxDP(3.0, 1e-6), bounds=BOUNDS, neighbours=relation).fit(GAPS)
        even = learn.PrivateQuantileTransformer(inid.ApproxDP(3.0, 1e-6), bounds=BOUNDS, neighbours=relation).fit(X)
    np.testing.assert_allclose(imputer.statistics_, np.nanmedian(GAPS, axis=0), atol=0.2)
    filled = imputer.transform(GAPS)
    assert not np.isnan(filled).any()
    np.testing.assert_array_equal(filled[~np.isnan(GAPS)], GAPS[~np.isnan(GAPS)])
    found = even.transform(X)
    assert ((found >= 0) & (found <= 1)).all()
    order = X[:, 0].argsort()
    assert (np.diff(found[order, 0]) >= 0).all()
    assert abs(found[:, 0].mean() - 0.5) < 0.05
    assert even.transform([[np.nan, 0.5]])[0, 0] == 0.5
    assert not imputer.private_


def test_a_skewed_column_is_learned_better_from_its_quantiles():
    common = {"bounds_y": (0, 3)}
    plain, even = [], []
    for seed in range(4):
        with unsafe_seed(seed):
            one = learn.PrivateRidge(budget=inid.ApproxDP(1.0, 1e-6), bounds=BOUNDS, narrow=False, **common)
            two = learn.make_private_pipeline(
                learn.PrivateQuantileTransformer(bounds=BOUNDS),
                learn.PrivateRidge(bounds=(0, 1), **common),
                budget=inid.ApproxDP(1.0, 1e-6),
            )
            plain.append(one.fit(X, Y).score(X, Y))
            even.append(two.fit(X, Y).score(X, Y))
    assert np.mean(even) > np.mean(plain)


def test_a_refused_charge_leaves_nothing():
    ledger = inid.Ledger(total=inid.PureDP(0.1), neighbours="zero_out")
    imputer = learn.PrivateImputer(inid.PureDP(1.0), bounds=BOUNDS)
    with pytest.raises(inid.BudgetError):
        imputer.fit(GAPS, ledger=ledger)
    assert not hasattr(imputer, "statistics_")


FRAME = pd.DataFrame({"years": X[:, 0], "share": X[:, 1]})
BY_NAME = {"years": (0, 100), "share": (0, 1)}


@pytest.mark.parametrize("frame", [FRAME, pl.DataFrame({name: FRAME[name].to_numpy() for name in FRAME})])
def test_columns_keep_their_names_from_step_to_step(frame):
    ledger = inid.Ledger(total=inid.ApproxDP(1.0, 1e-6), neighbours="zero_out")
    model = learn.make_private_pipeline(
        learn.PrivateImputer(bounds=BY_NAME),
        learn.PrivateRidge(bounds={"share": (0, 1), "years": (0, 100)}, bounds_y=(0, 3)),
        budget=inid.ApproxDP(1.0, 1e-6),
    ).fit(frame, Y, ledger=ledger)
    assert len(ledger.history()) == 2
    assert model[-1].feature_names_in_.tolist() == ["years", "share"]
    assert model.predict(frame).shape == Y.shape


@pytest.mark.parametrize(
    ("last", "told"),
    [
        (learn.PrivateRidge(bounds={"years": (0, 1)}, bounds_y=(0, 3)), "missing"),
        (learn.PrivateRidge(bounds=([0] * 3, [1] * 3), bounds_y=(0, 3)), "the data have 2 columns"),
        (learn.PrivateRidge(bounds=BY_NAME), "bounds_y must be given"),
        (learn.PrivateLogisticRegression(bounds=BY_NAME, C=-1.0), "C must be"),
    ],
)
@pytest.mark.parametrize("between", [[], [PolynomialFeatures(1, include_bias=False)]], ids=["", "of scikit-learn"])
def test_what_a_later_step_refuses_costs_nothing(last, told, between):
    """The imputer paid before a model refused bounds by name."""
    ledger = inid.Ledger(total=inid.ApproxDP(1.0, 1e-6), neighbours="zero_out")
    model = learn.make_private_pipeline(
        learn.PrivateImputer(bounds=BY_NAME), *between, clone(last), budget=inid.ApproxDP(1.0, 1e-6)
    )
    with pytest.raises(inid.ArgumentError, match=told):
        model.fit(FRAME, Y, ledger=ledger)
    assert not ledger.history()


@pytest.mark.parametrize("make", [make_column_transformer, lambda one, two: make_union(one[0], two[0])])
def test_steps_inside_a_container_get_their_share_and_pay(make):
    ledger = inid.Ledger(total=inid.GaussianDP(1.0), neighbours="zero_out")
    inner = make((learn.PrivateImputer(bounds=(0, 1)), [1]), (learn.PrivateQuantileTransformer(bounds=(0, 100)), [0]))
    ridge = learn.PrivateRidge(bounds=(0, 1), bounds_y=(0, 3))
    model = learn.make_private_pipeline(inner, ridge, budget=inid.GaussianDP(1.0))
    if isinstance(inner, FeatureUnion):
        model.set_params(featureunion__privateimputer__bounds=BOUNDS)
        ridge.set_params(bounds=([0, 0, 0, 0], [100, 1, 1, 1]))
    model.fit(X, Y, ledger=ledger)
    assert sorted(one.label for one in ledger.history()) == [
        "PrivateImputer", "PrivateQuantileTransformer", "PrivateRidge"
    ]  # fmt: skip
    assert [round(one.budget.mu**2, 3) for one in (inner.get_params()["privateimputer"], ridge)] == [0.1, 0.8]
    assert pickle.loads(pickle.dumps(model)).predict(X[:3]).shape == (3,)  # noqa: S301 - its own
    with pytest.raises(inid.BudgetError):
        model.fit(X, Y, ledger=ledger)


def test_parts_that_are_fitted_in_other_processes_cannot_reach_the_ledger():
    ledger = inid.Ledger(total=inid.GaussianDP(1.0), neighbours="zero_out")
    inner = make_column_transformer(
        (learn.PrivateImputer(bounds=(0, 1)), [1]), (learn.PrivateImputer(bounds=(0, 100)), [0]), n_jobs=2
    )
    model = learn.make_private_pipeline(
        inner, learn.PrivateRidge(bounds=(0, 100), bounds_y=(0, 3)), budget=inid.GaussianDP(1.0)
    )
    with pytest.raises((inid.ArgumentError, pickle.PicklingError)):
        model.fit(X, Y, ledger=ledger)
    assert not ledger.history()
