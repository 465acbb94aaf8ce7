"""Any estimator on synthetic rows: conventions of scikit-learn, what it sees, what it pays, what it refuses."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import r2_score
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor
from sklearn.utils.estimator_checks import check_estimator

import inid
from inid import learn, tables
from inid.tables.questions.synthetic import release_levels
from inid.testing import unsafe_no_noise, unsafe_seed
from internals import module_with
from rough_rows import rough_fit

on_synthetic_rows = module_with("inid.learn", "OnSyntheticRows")

PROMISE = inid.ApproxDP(3.0, 1e-6)
CATEGORIES = {"city": ["Bern", "Chur", "Visp"]}


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    rough_fit(monkeypatch)
    monkeypatch.setattr(on_synthetic_rows, "_LEAST_ROWS", 2000)


def people(n=3000):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": rng.uniform(0, 100, n), "city": rng.choice([*CATEGORIES["city"], None], n)})
    pays = (frame["age"] > 50) ^ (rng.random(n) < 0.05)
    return frame, np.where(pays, "yes", "no")


def model(inner=None, **more):
    facts = {"budget": PROMISE, "bounds": {"age": (0, 100)}, "categories": CATEGORIES, "bins": 8} | more
    return learn.OnSyntheticRows(inner or DecisionTreeClassifier(max_depth=3), **facts)


def test_a_classifier_is_fitted_and_predicts_rows_of_a_frame():
    X, y = people()
    with unsafe_seed(1):
        fitted = model(classes=("no", "yes")).fit(X, y)
    assert is_classifier(fitted)
    assert not is_regressor(fitted)
    assert fitted.score(X, y) > 0.85
    assert fitted.classes_.tolist() == ["no", "yes"]
    assert fitted.predict_proba(X[:5]).shape == (5, 2)
    assert fitted.feature_names_in_.tolist() == ["age", "city"]
    assert fitted.estimator_.n_features_in_ == 2
    assert not hasattr(fitted, "decision_function")
    odd = pd.DataFrame({"age": [np.nan, np.inf, -np.inf], "city": [{}, "Nowhere", 3]})
    assert set(fitted.predict(odd)) <= {"no", "yes"}
    again = pickle.loads(pickle.dumps(fitted))  # noqa: S301 - ours
    assert (again.predict(X) == fitted.predict(X)).all()


def test_a_regressor_is_fitted_to_middles_of_bins():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (3000, 2))
    y = 3 * X[:, 0] - X[:, 1]
    with unsafe_seed(1):
        fitted = model(LinearRegression(), categories=None, bounds=(-1, 1), bounds_y=(-4, 4)).fit(X, y)
    assert is_regressor(fitted)
    assert fitted.score(X, y) > 0.85
    assert fitted.estimator_.coef_[0] > 2
    assert fitted.estimator_.coef_[1] < 0
    with unsafe_seed(1):
        tree = model(DecisionTreeRegressor(), categories=None, bounds=(-1, 1), bounds_y=(-4, 4)).fit(X, y)
    values = np.unique(tree.estimator_.tree_.threshold[tree.estimator_.tree_.feature >= 0])
    assert set(np.round(values * 8).astype(int)) <= {*range(-8, 9)}  # between middles of bins of a quarter


def test_parameters_go_through_and_clones_are_unfitted():
    made = model()
    assert made.get_params()["estimator__max_depth"] == 3
    other = clone(made).set_params(estimator__max_depth=5, target_weight=1.0)
    assert (other.estimator.max_depth, other.target_weight, made.estimator.max_depth) == (5, 1.0, 3)
    assert not hasattr(other, "estimator_")
    assert hasattr(model(LogisticRegression()), "decision_function")


def test_pipelines_and_searches_take_it():
    X, y = people(800)
    numbers = X[["age"]].assign(other=1.0)
    plain = model(categories=None, bounds=(-3, 3), classes=("no", "yes"))
    with unsafe_seed(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", learn.NotPrivateStepWarning)
        assert make_pipeline(StandardScaler(), plain).fit(numbers, y).predict(numbers).shape == (800,)
    with unsafe_seed(1), pytest.warns(learn.RepeatedSpendingWarning):
        cross_val_score(model(), X, y, cv=2, error_score="raise")


def test_the_charge_comes_first_and_the_record_is_enough(monkeypatch):
    X, y = people()
    ledger = inid.Ledger(total=PROMISE, neighbours="zero_out")
    looked = []
    places = learn.OnSyntheticRows._places
    monkeypatch.setattr(
        learn.OnSyntheticRows, "_places", lambda self, v: (looked.append(len(ledger.history())), places(self, v))[1]
    )
    fitted = model(classes=("no", "yes")).fit(X, y, ledger=ledger)
    assert looked == [1]
    assert fitted.private_
    assert tables.verify_result(fitted.record_)
    assert set(tables.synthetic_rows(fitted.record_, 50)["target"].to_pylist()) <= {"no", "yes"}
    with pytest.raises(inid.BudgetError):
        model(classes=("no", "yes")).fit(X, y, ledger=ledger)
    assert looked == [1]


def test_what_was_paid_for_is_kept_where_the_estimator_fails():
    class Broken(DummyClassifier):
        def fit(self, X, y, sample_weight=None):
            raise RuntimeError("it does not fit")

    X, y = people(500)
    broken = model(Broken(), classes=("no", "yes"))
    with pytest.raises(RuntimeError):
        broken.fit(X, y)
    assert tables.verify_result(broken.record_)
    assert not hasattr(broken, "estimator_")


def test_a_class_that_is_too_rare_for_the_rows_is_still_known():
    X, y = people(500)
    with unsafe_seed(1):
        fitted = model(classes=("no", "yes", "never")).fit(X, y)
    assert sorted(fitted.classes_) == ["never", "no", "yes"]
    assert fitted.predict_proba(X[:2]).shape == (2, 3)
    # An estimator that holds out rows of each class does not fail, after the charge, on one that is too rare.
    with unsafe_seed(1):
        held = HistGradientBoostingClassifier(max_iter=2, early_stopping=True)
        assert model(held, classes=("no", "yes", "never")).fit(X, y).predict(X[:2]).shape == (2,)
    # Nor does one where there are more classes than rows for all of them.
    made = on_synthetic_rows._with_every_class(np.zeros((50, 2), dtype=np.int32), 30)
    assert np.bincount(made[:, -1]).tolist() == [50, *[10] * 29]


@pytest.mark.parametrize("neighbours", ["zero_out", "add_remove", "replace"])
def test_exact_tables_are_those_of_the_rows_under_every_relation(neighbours):
    X, y = people(400)
    y[:10] = "nobody"  # counts nowhere
    with unsafe_no_noise():
        fitted = model(classes=("no", "yes"), neighbours=neighbours).fit(X, y)
    counted = {row["keys"].get("city"): row["estimate"] for row in fitted.record_["answers"] if "city" in row["keys"]}
    truth = X["city"][10:].fillna("other").value_counts()
    assert {key: round(value) for key, value in counted.items()} == truth.to_dict()
    assert fitted.record_["question"]["neighbours"] == neighbours


@pytest.mark.parametrize(
    ("more", "match"),
    [
        ({"budget": None}, "budget"),
        ({"estimator": StandardScaler()}, "classifier or a regressor"),
        ({"estimator": None}, "classifier or a regressor"),
        ({"categories": None}, "real numbers"),
        ({"bins": 1}, "bins"),
        ({"bins": {"age": [0, 5, 5]}}, "bins"),
        ({"bins": {"age": [0, np.nan, 5]}}, "bins"),
        ({"bins": {"age": [0, 1e308, 1.7e308]}}, "1e\\+100"),  # the middle of which is infinite
        ({"bounds": {"age": (1, 1 + 2**-50)}}, "told apart"),  # a record of bins without width is none
        ({"estimator": LinearRegression(), "bounds_y": (1, 1 + 2**-50)}, "told apart"),
        ({"bins": {"city": 4}}, "no column of numbers"),
        ({"target_weight": 0}, "target_weight"),
        ({"target_weight": 1e-4}, "target_weight"),
        ({"target_weight": 1e4}, "target_weight"),  # a record of such a weight would be refused after the charge
        ({"classes": ("no",)}, "classes"),
        ({"classes": ("no", None)}, "missing"),
        ({"bins": 1001}, "at most 1000"),
        ({"categories": {"city": ["Bern", "Bern"]}}, "categories"),
        ({"categories": {"nowhere": ["a"]}}, "no column"),
        ({"estimator": LinearRegression()}, "bounds_y"),
        ({"neighbours": "friends"}, "neighbours"),
    ],
)
def test_bad_parameters_are_refused_before_the_charge(more, match):
    X, y = people(50)
    ledger = inid.Ledger(total=PROMISE, neighbours="zero_out")
    target = np.zeros(50) if isinstance(more.get("estimator"), LinearRegression) else y
    with pytest.raises(inid.ArgumentError, match=match):
        model().set_params(**more).fit(X, target, ledger=ledger)
    assert not ledger.history()
    with pytest.raises(inid.BudgetError, match="Gaussian"):
        model(budget=inid.PureDP(1.0)).fit(X, y)


_ANEW = "it compares two fits, each of which draws rows of its own"
IMPOSSIBLE = dict.fromkeys(
    ("check_supervised_y_2d", "check_fit_idempotent", "check_regressor_data_not_an_array", "check_regressors_int"),
    _ANEW,
) | {
    "check_dtype_object": "it wants the converter's own message, which may show an entry of the data",
    "check_supervised_y_no_nan": "an error that tells an infinite target from a finite one would depend on the data",
}


@pytest.mark.slow
@pytest.mark.parametrize(
    "inner", [DecisionTreeClassifier(), DecisionTreeRegressor()], ids=lambda one: type(one).__name__
)
def test_scikit_learns_checks_pass_but_for_those_listed(inner):
    made = learn.OnSyntheticRows(inner, budget=inid.GaussianDP(1e6), bounds=(-1000, 1000), bounds_y=(-1000, 1000))
    with unsafe_no_noise(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check_estimator(made, expected_failed_checks=IMPOSSIBLE)


def test_what_cannot_be_told_from_noise_is_not_believed_by_a_regressor():
    rng = np.random.default_rng(4)
    X, y = rng.uniform(-1, 1, (300, 6)), rng.normal(30, 5, 300)
    facts = {"budget": inid.ApproxDP(0.5, 1e-6), "categories": None, "bounds": (-1, 1), "bounds_y": (0, 100)}
    held, twin, means = [], [], []
    for seed in range(4):
        with unsafe_seed(seed), pytest.warns(learn.NoisyFitWarning, match="nearly a constant"):
            fitted = model(DecisionTreeRegressor(), **facts).fit(X, y)
        assert fitted.shrinkage_ < 0.1
        assert np.ptp(fitted.predict(X)) <= 0.1 * 100
        held.append(fitted.score(X, y))
        twin.append(r2_score(y, fitted.estimator_.predict(fitted._seen(X))))  # believes its rows
        means.append(fitted.predict(X).mean() - y.mean())
    assert np.mean(held) > np.mean(twin)
    assert np.abs(means).max() < 25  # of a range of 100, whose middle is 20 off


def test_a_classifier_predicts_the_released_shares_where_no_table_of_the_target_was_worth_its_noise():
    X, y = people(400)
    facts = {"budget": inid.ApproxDP(0.2, 1e-6), "target_weight": 1e-3, "bins": 2}
    with unsafe_seed(0), pytest.warns(learn.NoisyFitWarning, match="nearly a constant"):
        fitted = model(LogisticRegression(), classes=("yes", "no"), **facts).fit(X, y)
    assert fitted.shrinkage_ == 0
    assert fitted.classes_.tolist() == ["no", "yes"]
    rows = {row["keys"]["target"]: row["estimate"] for row in fitted.record_["answers"] if "target" in row["keys"]}
    shares = np.array([rows["no"], rows["yes"]]) / sum(rows.values())
    assert fitted.predict_proba(X) == pytest.approx(np.tile(shares, (400, 1)))
    assert fitted.predict_proba(X) == pytest.approx(np.exp(fitted.predict_log_proba(X)))
    assert set(fitted.predict(X)) == {["no", "yes"][shares.argmax()]}
    assert fitted.decision_function(X).shape == (400,)


def test_nothing_is_believed_of_independent_columns_and_nearly_all_of_dependent_ones():
    rng = np.random.default_rng(0)
    X, parts = rng.uniform(-1, 1, (2000, 2)), {"nothing": [], "something": []}
    levels = {"a": [-1.0, 0.0, 1.0], "b": [-1.0, -0.5, 0.0, 0.5, 1.0], "y": [0.0, 0.25, 0.5, 0.75, 1.0]}
    facts = {"budget": PROMISE, "neighbours": "add_remove", "ledger": None, "label": ""}
    for name, y in (("nothing", rng.uniform(0, 1, 2000)), ("something", 0.5 + 0.4 * X[:, 0])):
        codes = np.column_stack([X[:, 0] > 0, np.digitize(X[:, 1], [-0.5, 0, 0.5]), np.minimum(y * 4, 3)])
        for seed in range(40):
            with unsafe_seed(seed):
                made = release_levels(levels, lambda codes=codes: codes.astype(np.int64), **facts)
            parts[name].append(made.maker.measured.believed(2))
    even = np.array([(0, 0, 0), (0, 1, 1), (1, 0, 1), (1, 1, 0)] * 50)  # whose tables are those of independence
    with unsafe_no_noise():
        made = release_levels({name: ["0", "1"] for name in "abc"}, lambda: even, **facts)
    assert [made.maker.measured.believed(at) for at in range(3)] == [0, 0, 0]
    assert np.mean(parts["nothing"]) < 0.2
    assert min(parts["something"]) > 0.9


def test_names_and_categories_that_no_record_takes_are_called_by_their_places():
    X, y = people(300)
    odd = X.rename(columns={"age": "", "city": "\ud800"}).replace({"\ud800": {"Bern": "\0", "Chur": "\udfff"}})
    facts = {"bounds": {"": (0, 100)}, "categories": {"\ud800": ["\0", "\udfff", "Visp"]}}
    made = model(classes=("no", "\ud801"), **facts).fit(odd, np.where(y == "yes", "\ud801", y))
    tables.verify_result(made.record_)  # which was paid for
    assert set(made.predict(odd)) <= {"no", "\ud801"}
    assert tables.synthetic_rows(made.record_, 5).column_names == ["column 0", "column 1", "target"]
    assert {*made.record_["question"]["synthetic"][1]["keys"]} == {"0", "1", "2", "3"}


@pytest.mark.parametrize("weight", [1e-3, 1e3])
def test_the_record_of_the_least_and_of_the_largest_weight_is_proved(weight):
    X, y = people()
    made = model(classes=("no", "yes"), target_weight=weight).fit(X, y)
    tables.verify_result(made.record_)


def test_a_regressor_that_believes_nothing_is_about_as_good_as_the_mean_of_the_target():
    """300 rows of noise: what is left is the released mean, which is measured twice, beside a public number of rows."""
    rng, facts = np.random.default_rng(0), {"bounds": (0, 1), "bounds_y": (0, 100), "bins": 4}
    X, y = rng.random((300, 6)), np.clip(rng.normal(35, 20, 300), 0, 100)
    off, alone = [], []
    for seed in range(20):
        for relation, found in (("zero_out", off), ("add_remove", alone)):
            with unsafe_seed(seed), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                made = learn.OnSyntheticRows(
                    DecisionTreeRegressor(max_depth=1), budget=inid.ApproxDP(1.0, 1e-9), neighbours=relation, **facts
                ).fit(X, y)
            found.append(made._centres[1] - y.mean())
    # The variance of the mean beside that of the target: R^2 that is lost. Measured once, it was 0.1 and more.
    assert np.mean(np.square(off)) < 0.05 * y.var()
    assert np.mean(np.square(off)) < np.mean(np.square(alone))


@pytest.mark.parametrize(
    ("stated", "found"),
    [({"bins": 8}, 8), ({"bins": {0: 4}}, 16), ({"bins": 8, "bins_y": 5}, 5), ({"bins": [-1, 0, 1]}, 16)],
)
def test_a_target_has_as_many_bins_as_other_numbers_if_none_are_stated(stated, found):
    X = np.linspace(-1, 1, 400).reshape(200, 2)
    with unsafe_seed(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = model(LinearRegression(), categories=None, bounds=(-1, 1), bounds_y=(-2, 2), **stated)
        fitted.fit(X, X.sum(axis=1))
    assert fitted.plan_.question.columns[-1].stated == found


@pytest.mark.parametrize(("inner", "again"), [(DecisionTreeClassifier(), []), (LinearRegression(), [(2,)])], ids=str)
def test_a_model_measures_no_table_of_a_column_again_but_that_of_a_number_to_be_predicted(inner, again):
    X = np.random.default_rng(0).uniform(-1, 1, (60, 2))
    facts = {"classes": (False, True)} if is_classifier(inner) else {"bounds_y": (-2, 2)}
    with unsafe_seed(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = model(inner, categories=None, bounds=(-1, 1), budget=inid.ApproxDP(0.3, 1e-6), **facts)
        fitted.fit(X, X[:, 0] > 0 if is_classifier(inner) else X.sum(axis=1))
    *earlier, last = fitted.plan_.released
    chosen = fitted.plan_.question.measured(last, earlier).chosen
    assert [block for block in chosen if len(block) == 1] == again


COUNT_ROWS = np.random.default_rng(0).uniform(size=(20_000, 3))
COUNTS = np.random.default_rng(1).poisson(np.exp(COUNT_ROWS @ [1.5, -1.0, 0.5] - 0.3))


@pytest.mark.parametrize("epsilon", [1.0, 100.0])
@pytest.mark.parametrize("bounds_y", [(0, 30), (-0.5, 30.5), (0, 60)])
def test_a_count_has_the_mean_of_its_values_not_of_the_middles_of_bins(epsilon, bounds_y):
    """The middle of the bin from 0 to 2 stood for counts that are mostly 0: 2.5 times the mean at any budget."""
    model = learn.OnSyntheticRows(
        DecisionTreeRegressor(max_depth=4), budget=inid.ApproxDP(epsilon, 1e-6), bounds=(0, 1), bounds_y=bounds_y
    )
    with unsafe_seed(0):
        found = model.fit(COUNT_ROWS, COUNTS).predict(COUNT_ROWS).mean() / COUNTS.mean()
    assert abs(found - 1) < 0.05


def test_a_row_moves_the_sums_of_bins_by_what_the_plan_says(monkeypatch):
    """Brute force: every target added to, removed from, or exchanged in a small table."""
    module = module_with("inid.learn", "OnSyntheticRows")
    targets = [-5.0, 0.0, 0.1, 1.0, 1.9, 2.0, 2.1, 4.0, 9.0, np.nan, np.inf]
    released = {}

    def keep(exact, noise, ledger, label):
        released["sums"], released["set"] = exact(), noise.sensitivity
        return release(exact, noise, ledger, label=label)

    release = module.release
    monkeypatch.setattr(module, "release", keep)
    facts = {"bounds": (0, 1), "bounds_y": (0, 4), "bins_y": 2, "bins": 2}

    def sums(y, relation):
        model = learn.OnSyntheticRows(
            DecisionTreeRegressor(max_depth=1), budget=inid.ApproxDP(1.0, 1e-6), neighbours=relation, **facts
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", learn.NoisyFitWarning)
            model.fit(np.full((len(y), 2), 0.5), np.array(y))
        return released["sums"], released["set"]

    base = [0.3, 1.2, 3.0]
    nobody, limits = sums(base, "add_remove")
    alone = [sums([*base, one], "add_remove")[0] for one in targets]
    assert limits.limits.tolist() == [1.0]
    assert max(np.abs(one - nobody).sum() for one in alone) == 1.0
    limits = sums(base, "replace")[1]
    assert limits.limits.tolist() == [2.0]
    apart = [np.abs(one - two).sum() for one in alone for two in alone]
    assert max(apart) == 2.0
