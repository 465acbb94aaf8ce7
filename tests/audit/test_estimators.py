"""Every estimator, scaler and encoder, by record and replay: no violation on neighbours that are hard on code.

Each is also run with sums that are four times what its plan covers: the audit has to see that.
"""

import warnings

import numpy as np
import pytest

import inid
from inid import learn
from inid.noise import grid_noise
from inid.testing import neighbours_of, record, replay

APPROX, PURE = inid.ApproxDP(epsilon=1.0, delta=1e-6), inid.PureDP(epsilon=1.0)
draw = np.random.default_rng(11)
X = draw.uniform(-0.2, 1.2, size=(40, 3))
Y = X.sum(axis=1)
LABELS = (Y > 1.5).astype(int)
COUNTS = draw.poisson(2.0, 40).astype(float)
RELATIONS = ("add_remove", "replace", "zero_out")
NEIGHBOURS = 8

TARGET = {"bounds": (0, 1), "bounds_y": (0, 3)}
CLASSES = {"bounds": (0, 1), "classes": (0, 1)}
ESTIMATORS = {
    "linear": (learn.PrivateLinearRegression, TARGET, Y),
    "ridge": (learn.PrivateRidge, TARGET, Y),
    "lasso": (learn.PrivateLasso, TARGET, Y),
    "elastic net": (learn.PrivateElasticNet, TARGET, Y),
    "coordinate descent": (learn.PrivateLasso, {**TARGET, "solver": "coordinate_descent", "passes": 2}, Y),
    "logistic": (learn.PrivateLogisticRegression, CLASSES, LABELS),
    "poisson": (learn.PrivatePoissonRegressor, {"bounds": (0, 1), "bounds_y": (0, 9)}, COUNTS),
    "gamma": (learn.PrivateGammaRegressor, {"bounds": (0, 1), "bounds_y": (0.5, 9)}, COUNTS + 0.5),
    "naive Bayes": (learn.PrivateGaussianNB, CLASSES, LABELS),
    "moments": (learn.PrivateMoments, {"bounds": (0, 1)}, None),
    "PCA": (learn.PrivatePCA, {"n_components": 2, "row_norm": 1.0}, None),
    "k-means": (learn.PrivateKMeans, {"n_clusters": 2, "bounds": (0, 1)}, None),
    "standard scaler": (learn.PrivateStandardScaler, {"bounds": (0, 1)}, None),
    "quantile transformer": (learn.PrivateQuantileTransformer, {"bounds": (0, 1)}, None),
    "imputer": (learn.PrivateImputer, {"bounds": (0, 1)}, None),
}


def fitted(name, relation, budget):
    """A function of the data that fits."""
    estimator, arguments, target = ESTIMATORS[name]

    def fit(data):
        rows, y = (data, None) if target is None else data
        model = estimator(budget=budget, neighbours=relation, **arguments)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return model.fit(rows) if y is None else model.fit(rows, y)

    return fit, X if target is None else (X, np.asarray(target))


def others(data, relation, number=NEIGHBOURS):
    return neighbours_of(data, relation, number=number, finite=False, seed=5)


@pytest.mark.parametrize("budget", [APPROX, PURE], ids=["approx", "pure"])
@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("name", ESTIMATORS)
def test_one_person_moves_a_fit_as_far_as_was_charged(name, relation, budget):
    fit, data = fitted(name, relation, budget)
    tape = record(fit, data)
    assert tape.numbers > 0
    for what, other in others(data, relation):
        found = replay(tape, other, changes=2 if relation == "zero_out" else 1)
        assert not found.violations, f"{what}: {found}"


@pytest.mark.parametrize("name", ESTIMATORS)
def test_sums_that_the_plan_does_not_cover_are_found(name, monkeypatch):
    plain = grid_noise.noisy

    def four_times(values, scales, table, source, *, compiled=None):
        return plain(4 * values, scales, table, source, compiled=compiled)

    fit, data = fitted(name, "replace", APPROX)
    for module in (grid_noise, *_users_of_noisy()):
        monkeypatch.setattr(module, "noisy", four_times)
    tape = record(fit, data)
    kinds = {v.kind for _, other in others(data, "replace", 40) for v in replay(tape, other).violations}
    assert "sensitivity" in kinds


def _users_of_noisy():
    from inid import noise
    from inid.noise import prepared_noise

    return noise, prepared_noise
