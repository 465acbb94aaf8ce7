"""Every number that an estimator publishes got the noise that its plan states, and moves no further than it states."""

import numpy as np
import pytest

import inid
from inid import learn
from inid.learn import cover_answers
from inid.planning import StaircasePlan
from internals import module_with

coordinate_descent = module_with("inid.learn", "Descent")
k_means = module_with("inid.learn", "cluster_sensitivity")
narrower_bounds = module_with("inid.learn", "release_narrowed")

BUDGET = inid.ApproxDP(epsilon=1.0, delta=1e-6)
RELATIONS = ["zero_out", "add_remove", "replace"]
RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, size=(60, 2))
Y = X.sum(axis=1)
LABELS = np.arange(60) % 3
BOTH = {"bounds": (-1, 1), "passes": 2}
ESTIMATORS = {
    "ridge": (learn.PrivateRidge(bounds=(-1, 1), bounds_y=(-2, 2)), Y),
    "two targets": (learn.PrivateRidge(bounds=(-1, 1), bounds_y=(-2, 2)), np.column_stack([Y, -Y])),
    "k-means": (learn.PrivateKMeans(3, bounds=(-1, 1)), Y),
    "lasso by descent": (learn.PrivateLasso(0.1, solver="coordinate_descent", bounds_y=(-2, 2), **BOTH), Y),
    "logistic": (learn.PrivateLogisticRegression(classes=(0, 1), **BOTH), LABELS),
    "three classes": (learn.PrivateLogisticRegression(classes=(0, 1, 2), **BOTH), LABELS),
}


class Draws:
    """Notes the exact values and the scales of all noise that the estimators draw by themselves."""

    def __init__(self, monkeypatch):
        self.values, self.scales, self.steps, self.bounds, add = [], [], [], [], k_means.add_noise

        def watched(values, scales, mechanism, source):
            self.values.append(np.array(values))
            self.scales.append(np.array(scales))
            return add(values, scales, mechanism, source)

        outer = self

        class Prepared(coordinate_descent.PreparedNoise):
            def __init__(self, scales, rounds, table, source):
                outer.steps.append((np.array(scales), rounds))
                super().__init__(scales, rounds, table, source)

        class Gradients(coordinate_descent.Gradients):
            def __init__(self, features, loss, steps, bounds, **more):
                outer.bounds.append(np.array(bounds))
                super().__init__(features, loss, steps, bounds, **more)

        monkeypatch.setattr(coordinate_descent, "Gradients", Gradients)

        class Added(narrower_bounds.AddNoise):
            def draw(self, exact, noise, source):
                outer.values.append(np.array(exact))
                outer.scales.append(noise.scales[self.start : self.start + len(exact)])
                if isinstance(noise, StaircasePlan):
                    noise.drawn_from(self.start, self.start + len(exact))  # whole blocks, each drawn once
                return super().draw(exact, noise, source)

        for module in (k_means, coordinate_descent):
            monkeypatch.setattr(module, "add_noise", watched)
        monkeypatch.setattr(narrower_bounds, "AddNoise", Added)
        monkeypatch.setattr(coordinate_descent, "PreparedNoise", Prepared)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("name", ESTIMATORS)
@pytest.mark.parametrize("budget", [BUDGET, inid.PureDP(1.0)], ids=lambda one: one.kind)
def test_the_scales_drawn_are_those_of_the_plan(name, relation, budget, monkeypatch):
    draws = Draws(monkeypatch)
    model, y = ESTIMATORS[name]
    ledger = inid.Ledger(total=budget, neighbours=relation)
    model.set_params(budget=budget, neighbours=relation).fit(X, y, ledger=ledger)
    for scales, rounds in draws.steps:
        # A first look may halve thresholds; the noise of their sums is then halved with them, exactly.
        most = model.plan_.sensitivity.limits[: len(scales)] / (2 if relation == "replace" else 1)
        for bounds in draws.bounds:
            assert (bounds <= most).all()
            assert (scales / bounds).tolist() == (model.plan_.run_scales[: len(scales)] / most).tolist()
        draws.scales.append(np.tile(scales * (most / draws.bounds[0]), rounds))
    assert len(draws.bounds) == (len(draws.steps) * (3 if name == "three classes" else 1))
    assert np.sort(np.concatenate(draws.scales)).tolist() == np.sort(model.plan_.scales).tolist()
    assert len(ledger.history()) == 1
    model.plan_.verify()


@pytest.mark.parametrize("relation", RELATIONS)
def test_the_first_sums_of_a_descent_move_as_the_plan_states(relation, monkeypatch):
    """Sums and squares of columns, and the number of rows: attained by a corner row, so no smaller set would do."""
    model, y = ESTIMATORS["lasso by descent"]
    model.set_params(budget=BUDGET, neighbours=relation)
    corner, opposite = np.vstack([X, [1.0, 1.0]]), np.vstack([X, [-1.0, -1.0]])
    target = np.append(y, 0.0)
    one, two = [], []
    for rows, found in ((corner, one), (opposite if relation == "replace" else X, two)):
        draws = Draws(monkeypatch)
        model.fit(rows, target[: len(rows)])
        found.append(np.concatenate(draws.values[::-1]))  # the number of rows is drawn first and stated last
        monkeypatch.undo()
    moved = np.abs(one[0] - two[0])
    stated = model.plan_.sensitivity.limits[3:]  # after the two columns and the intercept
    assert (moved <= stated).all()
    exact = [2.0, 2.0, 0.0, 0.0] if relation == "replace" else [1.0] * (5 if relation == "add_remove" else 4)
    np.testing.assert_allclose(moved, exact, atol=1e-6)
    assert stated[:2].tolist() == exact[:2]


def test_covering_large_answers_never_makes_a_scale_smaller():
    plan = inid.plan(inid.Sensitivity.box([1.0, 2.0]), inid.GaussianDP(mu=1e9), mechanism="gaussian")
    for largest in (1.0, 1e6, 1e12, np.array([1.0, 1e12])):
        assert (cover_answers(plan, largest).run_scales >= plan.run_scales).all()
