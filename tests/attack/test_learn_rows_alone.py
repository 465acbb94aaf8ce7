"""No row decides how another is read: not its cluster, its rounding, its class, nor one bit of its prediction.

Sums along a row are where it could: NumPy and BLAS round them by the layout in memory and by the rows beside. So tables
here are held in every layout, and what is made of a table is compared with what is made of each of its rows alone, bit
by bit. Rows lie where a last bit decides: as far from one centre as from the other, on the border of two classes, in
the middle of two whole numbers of steps.
"""

from functools import partial, reduce
from operator import add
from unittest.mock import patch

import numpy as np
import pandas as pd
import polars as pl
import pytest

import inid
from inid import learn, releasing
from inid.learn import exponentials, row_products, row_sums
from inid.testing import unsafe_no_noise
from internals import module_with

coordinate_descent = module_with("inid.learn", "Descent")
k_means = module_with("inid.learn", "cluster_sensitivity")
_GammaLoss = module_with("inid.learn", "PrivatePoissonRegressor")._GammaLoss
_PoissonLoss = module_with("inid.learn", "PrivatePoissonRegressor")._PoissonLoss
_Limits = module_with("inid.learn", "PrivatePCA")._Limits
_score = module_with("inid.learn", "PrivateSearchCV")._score

pytestmark = [
    pytest.mark.filterwarnings("ignore::inid.learn.NoisyFitWarning"),
    pytest.mark.filterwarnings("ignore::inid.learn.RepeatedSpendingWarning"),
]

WIDTH = 19
NAMES = [f"c{at}" for at in range(WIDTH)]
RNG = np.random.default_rng(7)
LAYOUTS = {
    "rows": np.ascontiguousarray,
    "columns": np.asfortranarray,
    "every second": lambda X: np.repeat(np.repeat(X, 2, axis=0), 2, axis=1)[::2, ::2],
    "backwards": lambda X: np.asfortranarray(X[::-1, ::-1])[::-1, ::-1],
    "single precision": lambda X: np.asfortranarray(X, dtype=np.float32),
    "pandas": lambda X: pd.DataFrame(dict(zip(NAMES, X.T, strict=True))),
    "Polars": lambda X: pl.DataFrame(dict(zip(NAMES, X.T, strict=True))),
}


def table(rows, width=WIDTH):
    """Numbers in [-1, 1] that single precision holds."""
    return RNG.uniform(-1, 1, (rows, width)).astype(np.float32).astype(float)


def singles(X):
    return [X[at : at + 1] for at in range(len(X))]


class Transcript:
    """Keeps what is about to get noise, and releases the same numbers whatever it was."""

    def __init__(self, released):
        self.released, self.exact = released, []

    def add(self, values, scales, *_):
        self.exact.append(np.array(values, dtype=float))
        return self.released(len(self.exact), np.asarray(scales, dtype=float))

    def prepared(self, scales, *_):
        transcript, calls = self, iter(np.tile(scales, 10**4))

        class Prepared:
            def add(self, value):
                return float(transcript.add([value], [next(calls)])[0])

        return Prepared()


def drawn(call, scales):
    """Numbers of the size of the noise, the same for every table."""
    return np.random.default_rng(call).normal(size=scales.size) * scales * 2


def exact(model, X, y=None, released=drawn):
    """All numbers that a fit adds noise to, in their order, along one transcript."""
    kept = Transcript(released)
    with (
        patch.multiple(coordinate_descent, add_noise=kept.add, PreparedNoise=kept.prepared),
        patch.object(releasing, "add_noise", kept.add),
        patch.object(k_means, "add_noise", kept.add),
    ):
        model.fit(X) if y is None else model.fit(X, y)
    return np.concatenate(kept.exact)


@pytest.mark.parametrize("rows", [1, 2, 3, 4000])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_sums_and_products_of_a_row_are_its_own(rows, layout):
    X, w = table(rows), RNG.normal(size=(3, WIDTH))
    given = np.asarray(LAYOUTS[layout](X))
    some = range(0, rows, max(rows // 50, 1))
    np.testing.assert_array_equal(row_sums(given)[some], [reduce(add, X[at].tolist(), 0.0) for at in some])
    for weights in (w, w[0]):
        found = row_products(given, weights)
        np.testing.assert_array_equal(found[some], [row_products(X[at : at + 1], weights)[0] for at in some])
        np.testing.assert_allclose(found, X @ weights.T, rtol=0, atol=1e-12)


def test_an_exponential_is_that_of_its_argument_whatever_stands_beside_it(monkeypatch):
    """On some processors NumPy's is not: there a single entry goes another way than many."""
    x = np.concatenate([RNG.uniform(-30, 30, 999), [-1e300, -700.0, 0.0, -5e-324, 699.99, 1e300]])
    table = exponentials(x)
    np.testing.assert_allclose(table, np.exp(np.clip(x, -700, 700)), rtol=4e-13)
    exp = np.exp
    monkeypatch.setattr(np, "exp", lambda x: exp(x) * (1 + 2.0**-50 * (np.size(x) == 1)))
    np.testing.assert_array_equal(np.concatenate([exponentials(x[at : at + 1]) for at in range(len(x))]), table)
    np.testing.assert_array_equal(exponentials(x[::-2]), table[::-2])
    one = [loss(np.full(9, 0.25), -1.0) for loss in (_PoissonLoss, partial(_GammaLoss, least=-40.0))]
    for loss in one:
        state = x[:9] / 10
        alone = [loss.slopes(state[at : at + 1], slice(at, at + 1))[0] for at in range(9)]
        np.testing.assert_array_equal(loss.slopes(state, slice(0, 9)), alone)


@pytest.fixture(scope="module")
def fitted():
    """Models with every kind of prediction, fitted to a few rows without noise."""
    X = table(60)
    y, labels = X.mean(axis=1), (X[:, 0] > 0).astype(int) + (X[:, 1] > 0.5)
    common = {"budget": inid.GaussianDP(1.0), "bounds": (-1, 1), "neighbours": "add_remove"}
    with unsafe_no_noise():
        return [
            learn.PrivateRidge(bounds_y=(-1, 1), clip_predictions=False, **common).fit(X, y),
            learn.PrivateLinearRegression(bounds_y=(-1, 1), **common).fit(X, np.column_stack([y, -y])),
            learn.PrivatePoissonRegressor(bounds_y=(0, 9), passes=2, **common).fit(X, y + 2),
            learn.PrivateGammaRegressor(bounds_y=(1, 9), passes=2, **common).fit(X, y + 2),
            learn.PrivateLogisticRegression(classes=(0, 1), passes=2, **common).fit(X, labels > 0),
            learn.PrivateLogisticRegression(classes=(0, 1, 2), passes=2, **common).fit(X, labels),
            learn.PrivateGaussianNB(classes=(0, 1, 2), **common).fit(X, labels),
            learn.PrivateKMeans(5, rounds=2, **common).fit(X),
            learn.PrivatePCA(3, row_norm=4.0, budget=inid.GaussianDP(1.0), neighbours="add_remove").fit(X),
            learn.BoundsScaler((-1, 1)).fit(X),
            learn.PrivateStandardScaler(**common).fit(X),
            learn.PrivateImputer(**common).fit(X),
            learn.PrivateQuantileTransformer(**common).fit(X),
        ]


METHODS = ["predict", "decision_function", "predict_joint_log_proba", "predict_proba", "transform"]


def test_what_a_model_makes_of_a_row_is_the_same_beside_any_others(fitted):
    """Bit by bit: a pipeline's next step, or a search's choice, is private only if rows do not touch one another."""
    X, seen = table(130), 0
    for model in fitted:
        for method in (getattr(model, name) for name in METHODS if hasattr(model, name)):
            alone = np.concatenate([method(row) for row in singles(X)])
            for make in LAYOUTS.values():
                for first in (0, 127, 129):
                    np.testing.assert_array_equal(
                        method(np.asarray(make(X[first:]))), alone[first:], err_msg=str(method)
                    )
            seen += 1
    assert seen > 15


def tied_centres(_, scales):
    """Released sums and numbers of clusters whose centres have the same entries in another order each."""
    entries, order = np.random.default_rng(1).uniform(-0.5, 0.5, WIDTH), np.random.default_rng(2)
    blocks = scales.size // (WIDTH + 1)
    centres = [2.0**30 * order.permutation(entries) for _ in range(blocks)]
    return np.ravel([np.append(one, 2.0**30) for one in centres])


def test_a_row_stays_in_its_cluster_whatever_stands_beside_it(monkeypatch):
    """Rows of one number throughout are as far from each of these centres as from any other, but for rounding."""
    monkeypatch.setattr(k_means, "_STARTS", 1)
    X = np.repeat(table(8, 1), WIDTH, axis=1)

    def sums(rows):
        bounds = dict.fromkeys(NAMES, (-1, 1)) if hasattr(rows, "columns") else (-1, 1)
        model = learn.PrivateKMeans(4, rounds=3, bounds=bounds, budget=inid.GaussianDP(1.0), neighbours="add_remove")
        return exact(model, rows, released=tied_centres)

    alone = np.sum([sums(row) for row in singles(X)], axis=0)
    for name, make in LAYOUTS.items():
        np.testing.assert_array_equal(sums(make(X)), alone, err_msg=name)


def between_steps(limits):
    """Rows of which all entries but one come to lie between two whole numbers of steps once they are shortened."""
    found = []
    for k, size in enumerate(np.linspace(2.0, 3.6, 9)):
        steps = np.floor(limits.most / np.sqrt(WIDTH) / limits.step) - 0.5 - k
        length = size * limits.most / (steps * limits.step)
        first = np.sqrt(length**2 - (WIDTH - 1) * size**2)
        found += [np.append(first * (1 + at * 2.0**-52), np.full(WIDTH - 1, size)) for at in range(-60, 60)]
    return np.array(found)


@pytest.mark.parametrize("center", [False, True])
def test_a_row_of_a_pca_is_rounded_by_itself(center):
    limits = _Limits(1.0, WIDTH, 2**27)
    X = between_steps(limits)
    alone = np.array([limits.moments(row, center) for row in singles(X)])
    assert len(np.unique(alone.round(12), axis=0)) > 9  # entries go either way
    for name, make in LAYOUTS.items():
        if name == "single precision":  # these rows are no such numbers
            continue
        found = limits.moments(np.asarray(make(X)), center)
        np.testing.assert_array_equal(found, alone.sum(axis=0), err_msg=name)


def test_the_score_of_a_search_adds_up_row_by_row(fitted):
    """Rows on the border of two classes: the last entry is, but for rounding, minus the products of the others."""
    model = next(one for one in fitted if isinstance(one, learn.PrivateLogisticRegression))
    model.coef_, model.intercept_ = np.append(RNG.normal(size=WIDTH - 1) / 20, 1.0)[None], np.zeros(1)
    X = table(70)
    X[:, -1] = -row_products(X[:, :-1], model.coef_[0, :-1]) * (1 + RNG.integers(-1, 2, 70) * 2.0**-52)
    alone = [_score(model, row, [1]) for row in singles(X)]
    assert 0 < sum(alone) < 70
    for name, make in LAYOUTS.items():
        for count in (2, 5, 70):
            if name != "single precision":  # the last entries are no such numbers
                assert _score(model, np.asarray(make(X[:count])), [1] * count) == sum(alone[:count]), name


def models():
    common = {"budget": inid.GaussianDP(1.0), "neighbours": "add_remove"}
    both = common | {"bounds": (-1, 1)}
    return [
        (learn.PrivateMoments(**both), None),
        (learn.PrivateStandardScaler(**both), None),
        (learn.PrivateKMeans(3, rounds=3, **both), None),
        (learn.PrivatePCA(2, row_norm=1.0, **common), None),
        (learn.PrivateGaussianNB(classes=(0, 1), **both), "labels"),
        (learn.PrivateLogisticRegression(classes=(0, 1), passes=2, **both), "labels"),
        (learn.PrivateLinearRegression(bounds_y=(-1, 1), **both), "target"),
        (learn.PrivateRidge(bounds_y=(-1, 1), narrow=False, **both), "target"),
        (learn.PrivateLasso(bounds_y=(-1, 1), solver="coordinate_descent", passes=2, **both), "target"),
        (learn.PrivatePoissonRegressor(bounds_y=(0, 3), passes=2, **both), "target"),
        (learn.PrivateGammaRegressor(bounds_y=(0.1, 3), passes=2, **both), "target"),
    ]


def test_what_gets_noise_is_the_sum_of_what_each_row_adds_alone(monkeypatch):
    """For one transcript of released numbers, bit by bit: so a row moves the sums by what it adds, and nobody else."""
    monkeypatch.setattr(k_means, "_STARTS", 1)
    X = table(4)
    for model, kind in models():
        y = None if kind is None else (X[:, 3] > 0).astype(int) if kind == "labels" else X[:, 3]
        alone = [exact(model, row, None if y is None else y[at : at + 1]) for at, row in enumerate(singles(X))]
        for name, make in LAYOUTS.items():
            found = exact(model, np.asarray(make(X)), y)
            np.testing.assert_array_equal(found, np.sum(alone, axis=0), err_msg=f"{model} {name}")
