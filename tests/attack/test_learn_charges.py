"""Charge first, then look: before the ledger has agreed, a fit sees types and shapes of the data and nothing else."""

import numpy as np
import pandas as pd
import pytest

import inid
from inid import learn
from inid.tables import Table
from inid.testing import unsafe_no_noise
from internals import module_with

BUDGET = inid.ApproxDP(epsilon=1.0, delta=1e-6)
ROWS = 50
X = np.linspace(0, 1, 2 * ROWS).reshape(ROWS, 2)
Y = X.sum(axis=1)
LABELS = (Y > 1).astype(int)
BOTH = {"budget": BUDGET, "bounds": (0, 1)}
LINEAR = BOTH | {"bounds_y": (0, 2)}
DESCENT = {"passes": 2}

ESTIMATORS = {
    "linear": (learn.PrivateLinearRegression(**LINEAR), Y),
    "ridge": (learn.PrivateRidge(**LINEAR), Y),
    "lasso": (learn.PrivateLasso(**LINEAR), Y),
    "elastic net": (learn.PrivateElasticNet(**LINEAR), Y),
    "lasso by descent": (learn.PrivateLasso(solver="coordinate_descent", **LINEAR, **DESCENT), Y),
    "lasso of the paper": (
        learn.PrivateLasso(solver="coordinate_descent", units="data", smoothness=0.1, **LINEAR, **DESCENT), Y,
    ),
    "logistic": (learn.PrivateLogisticRegression(classes=(0, 1), **BOTH, **DESCENT), LABELS),
    "three classes": (learn.PrivateLogisticRegression(classes=(0, 1, 2), **BOTH, **DESCENT), LABELS),
    "moments": (learn.PrivateMoments(BUDGET, bounds=(0, 1)), Y),
    "scaler": (learn.PrivateStandardScaler(BUDGET, bounds=(0, 1)), Y),
    "naive bayes": (learn.PrivateGaussianNB(classes=(0, 1), **BOTH), LABELS),
    "k-means": (learn.PrivateKMeans(2, **BOTH), Y),
    "pca": (learn.PrivatePCA(1, budget=BUDGET, row_norm=1.0), Y),
    "pca of the paper": (learn.PrivatePCA(1, budget=BUDGET, row_norm=1.0, clipping="elementwise", center=False), Y),
}  # fmt: skip
RELATIONS = ["zero_out", "add_remove", "replace"]


class Watched:
    """An array that tells its type and shape, and notes when somebody reads it."""

    def __init__(self, values, events):
        self._values, self._events = values, events
        self.dtype, self.shape, self.ndim = values.dtype, values.shape, values.ndim

    def __len__(self):
        return len(self._values)

    def __array__(self, dtype=None, copy=None):
        self._events.append("read")
        return np.array(self._values, dtype=dtype)


class WatchedFrame(pd.DataFrame):
    """A data frame that notes when its values are read."""

    events: list = []  # noqa: RUF012 - shared on purpose

    def to_numpy(self, *args, **more):
        self.events.append("read")
        return super().to_numpy(*args, **more)

    def __array__(self, *args, **more):
        self.events.append("read")
        return super().__array__(*args, **more)


class WatchedLedger(inid.Ledger):
    """A ledger that notes when it is charged."""

    def __init__(self, events, **more):
        super().__init__(**more)
        self._events = events

    def charge(self, *args, **more):
        self._events.append("charge")
        return super().charge(*args, **more)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("name", ESTIMATORS)
def test_nothing_is_read_before_the_charge(name, relation):
    model, y = ESTIMATORS[name]
    events = []
    ledger = WatchedLedger(events, total=inid.ApproxDP(10.0, 1e-4), neighbours=relation)
    model.fit(Watched(X, events), Watched(y, events), ledger=ledger)
    assert events[0] == "charge"
    assert "read" in events
    assert model.plan_.sensitivity.neighbours == relation  # which the ledger states


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("name", ESTIMATORS)
def test_a_ledger_that_refuses_lets_nobody_look(name, relation):
    model, y = ESTIMATORS[name]
    events = []
    ledger = WatchedLedger(events, total=inid.PureDP(1e-9), neighbours=relation)
    with pytest.raises(inid.BudgetError):
        model.fit(Watched(X, events), Watched(y, events), ledger=ledger)
    frame = WatchedFrame(X, columns=["a", "b"])
    frame.events.clear()
    with pytest.raises(inid.BudgetError):
        model.fit(frame, Watched(y, events), ledger=ledger)
    assert set(events) == {"charge"}
    assert not frame.events


def test_smoothness_is_charged_first_too():
    events = []
    ledger = WatchedLedger(events, total=inid.PureDP(1.0), neighbours="zero_out")
    learn.estimate_smoothness(Watched(X, events), budget=inid.PureDP(1.0), bounds=(0, 1), ledger=ledger)
    assert events == ["charge", "read"]


@pytest.mark.parametrize("container", [np.asarray, lambda memory: pd.DataFrame(memory, copy=False)])
def test_values_are_those_of_after_the_charge(container):
    """Memory that holds something else until the ledger is charged: whoever had looked before would have seen that."""

    class Filling(inid.Ledger):
        def charge(self, *args, **more):
            receipt = super().charge(*args, **more)
            memory[:] = X
            return receipt

    memory = np.full_like(X, np.nan)
    data = container(memory)
    with unsafe_no_noise():
        ledger = Filling(total=BUDGET, neighbours="zero_out")
        found = learn.PrivateMoments(BUDGET, bounds=(0, 1)).fit(data, ledger=ledger)
        np.testing.assert_allclose(found.mean_, X.mean(axis=0), atol=1e-5)


def test_a_table_is_not_asked_before_the_charge(monkeypatch):
    table = Table(pd.DataFrame(X, columns=["a", "b"]), bounds={"a": (0, 1), "b": (0, 1)})
    asked = []
    monkeypatch.setattr(module_with("inid.learn", "MomentSource"), "table_moments", lambda *_, **__: asked.append(1))
    with pytest.raises(inid.BudgetError):
        learn.PrivateMoments(BUDGET).fit(table, ledger=inid.Ledger(total=inid.PureDP(1e-9)))
    assert not asked


@pytest.mark.parametrize("name", ESTIMATORS)
def test_without_a_ledger_the_relation_is_zero_out_and_every_plan_names_it(name):
    model, y = ESTIMATORS[name]
    plan = model.fit(X, y).plan_
    assert plan.sensitivity.neighbours == "zero_out"
    ledger = inid.Ledger(total=inid.ApproxDP(10.0, 1e-4), neighbours="zero_out")
    model.fit(X, y, ledger=ledger)
    counted = model.set_params(neighbours="add_remove").fit(
        X, y, ledger=ledger
    )  # covered by zero_out, never the reverse
    has_counts = name in ("naive bayes", "k-means")  # of their classes and clusters, under every relation
    if name == "k-means":  # sums and numbers of 2 cells, of 16 where the number of rows is secret; then of 7 rounds
        assert (plan.dimension, counted.plan_.dimension) == (3 * (2 + 7 * 2), 3 * (16 + 7 * 2))
    else:
        assert counted.plan_.dimension == plan.dimension + (not has_counts)
    model.set_params(neighbours="zero_out")
    with pytest.raises(inid.BudgetError, match="neighbours"):
        model.fit(X, y, ledger=inid.Ledger(total=inid.ApproxDP(10.0, 1e-4)))
    model.set_params(neighbours=None)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_where_the_number_of_rows_is_secret_none_at_all_is_no_error(name):
    model, y = ESTIMATORS[name]
    with np.errstate(all="raise"):
        model.set_params(neighbours="add_remove").fit(X[:0], y[:0])
    assert model.private_
    model.set_params(neighbours=None)
    with pytest.raises(inid.ArgumentError, match="0 sample"):
        model.fit(X[:0], y[:0])


def test_a_row_that_becomes_nothing_adds_nothing_also_after_centring():
    """A row of zeros would add minus the centre: with bounds (10, 11) that is ten times what the plan covers."""
    model = learn.PrivateMoments(BUDGET, bounds=(10, 11))
    with unsafe_no_noise():
        whole = model.fit(X + 10).release_.values
        rest = model.fit((X + 10)[1:]).release_.values
        zeros = model.fit(np.vstack([np.zeros(2), (X + 10)[1:]])).release_.values
    limits = model.plan_.sensitivity.limits
    np.testing.assert_allclose(limits, [0.25, 0.25, 0.25, 0.5, 0.5])
    assert (np.abs(whole - rest) <= limits + 1e-4).all()
    assert (np.abs(zeros - rest) <= limits + 1e-4).all()  # zeros are clipped to the bounds, like any other row
