"""One name for one idea: bounds everywhere, a cure for names of other libraries, help that begins with what it is."""

import inspect
import io
import pickle
import pydoc

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

import inid
from inid import learn

BUDGET = inid.ApproxDP(1.0, 1e-6)
X = np.random.default_rng(0).uniform(0, 1, size=(300, 3))
Y = X.sum(axis=1)
ESTIMATORS = [getattr(learn, name) for name in learn.__all__ if hasattr(getattr(learn, name), "fit")]
WITH_BOUNDS = [one for one in ESTIMATORS if "bounds" in inspect.signature(one).parameters]


def told(call):
    with pytest.raises(inid.ArgumentError) as caught:
        call()
    return str(caught.value)


@pytest.mark.parametrize("kind", WITH_BOUNDS, ids=lambda kind: kind.__name__)
def test_diffprivlibs_name_of_bounds_is_refused_and_ours_survives_a_copy(kind):
    for call in (lambda: kind(bounds_X=(0, 1)), lambda: kind().set_params(bounds_X=(0, 1))):
        assert told(call) == f"{kind.__name__} has no parameter bounds_X: pass bounds=(lower, upper)."
    model = kind(bounds=(0, 2))
    assert clone(model).bounds == pickle.loads(pickle.dumps(model)).bounds == (0, 2)  # noqa: S301 - our own bytes


@pytest.mark.parametrize("kind", ESTIMATORS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("word", ["epsilon", "random_state", "max_iter", "tol", "n_jobs", "accountant", "data_norm",
                                  "cv", "scoring", "copy_X", "verbose", "warm_start"])  # fmt: skip
def test_names_of_other_libraries_get_one_sentence_with_the_cure(kind, word):
    for call in (lambda: kind(**{word: 1}), lambda: kind().set_params(**{word: 1})):
        said = told(call)
        assert said.startswith(f"{kind.__name__} has no parameter {word}: ")
        assert said.count(". ") == 0
        assert said.endswith(".")
        assert len(said) < 250


@pytest.mark.parametrize("word", ["budget", "epsilon", "delta"])
def test_what_has_no_budget_of_its_own_says_whose_it_spends(word):
    """A search is not told to take a budget, which it would refuse."""
    without = [kind for kind in ESTIMATORS if "budget" not in inspect.signature(kind).parameters]
    assert learn.PublicCategories in without
    for kind in (learn.PrivateSearchCV, *without):
        assert "a search spends the budget of its estimator" in told(lambda kind=kind: kind(**{word: 1}))


def test_a_misspelt_name_is_told_the_nearest_one():
    assert "did you mean bounds?" in told(lambda: learn.PrivateRidge(bound=(0, 1)))
    assert "it takes n_components" in told(lambda: learn.PrivatePCA(qwertz=1))
    with pytest.raises(ValueError, match="max_iter"):
        make_pipeline(learn.PrivateRidge()).set_params(privateridge__max_iter=3)


@pytest.mark.parametrize("kind", ESTIMATORS, ids=lambda kind: kind.__name__)
def test_help_begins_with_what_it_is_and_documents_every_parameter(kind):
    shown = io.StringIO()
    pydoc.Helper(output=shown)(kind)
    text = shown.getvalue()
    lines = [line.strip(" |") for line in text.splitlines()[2:]]
    at = next(at for at, line in enumerate(lines) if line.startswith(f"{kind.__name__}("))
    assert len(lines[at]) < 400
    assert "Literal" not in lines[at]
    first = next(line for line in lines[at + 1 :] if line)
    assert first == inspect.getdoc(kind).splitlines()[0]
    own = text.split("Method resolution order")[0]
    for name in inspect.signature(kind).parameters:
        assert f"      {name}: " in own, name


PAIRS = [
    [(0, 1), (0, 2), (0, 3)],
    ((0, 1), (0, 2), (0, 3)),
    np.array([(0, 1), (0, 2), (0, 3)]),
    [[0, 1], [0, 2], [0, 3]],
]


@pytest.mark.parametrize("pairs", PAIRS, ids=["list", "tuple", "array", "lists"])
def test_a_list_of_pairs_is_a_pair_for_each_column(pairs):
    model = learn.PrivateMoments(BUDGET, bounds=pairs).fit(X)
    np.testing.assert_allclose(model.center_, [0.5, 1.0, 1.5])
    one = learn.PrivateMoments(BUDGET, bounds=[(0, 4)]).fit(X[:, :1])
    np.testing.assert_allclose(one.center_, [2.0])


@pytest.mark.parametrize("bounds", [[(0, 1), (0, 2)], [(0, 1)] * 4, [(0, 1), (0, 2), (0,)], [(0, 1), (0, 2), (3, 2)]])
def test_pairs_that_do_not_fit_the_columns_are_refused(bounds):
    assert "bounds" in told(lambda: learn.PrivateMoments(BUDGET, bounds=bounds).fit(X))
    assert "two ways" in told(lambda: learn.PrivateMoments(BUDGET, bounds=[(0, 1), (0, 2)]).fit(X[:, :2]))


FRAME = pd.DataFrame({"age": [31, 44, 58], "sex": ["F", "M", "F"], "pay": [1.0, 2.0, 3.0]})


@pytest.mark.parametrize(
    "data",
    [FRAME, FRAME.astype({"sex": "category"}), pl.DataFrame(FRAME.to_dict("list")), pa.table(FRAME.to_dict("list"))],
    ids=["pandas", "categorical", "polars", "arrow"],
)
def test_a_column_of_text_is_named_with_its_encoder(data):
    said = told(lambda: learn.PrivateMoments(BUDGET, bounds=(0, 100)).fit(data))
    assert "column 'sex'" in said
    assert "learn.PublicCategories({'sex': [...]})" in said
    assert "'F'" not in said


@pytest.mark.parametrize("rows", [[[1.0, "secret"]], np.array([[1, "secret"]], dtype=object)], ids=["list", "objects"])
def test_without_names_the_place_of_the_column_is_told(rows):
    said = told(lambda: learn.PrivateMoments(BUDGET, bounds=(0, 1)).fit(rows))
    assert "column " in said
    assert "secret" not in said


CLASSIFIERS = [learn.PrivateLogisticRegression, learn.PrivateGaussianNB]
GAPS = {
    "None": ["a", "b", None],
    "NaN beside text": np.array(["a", "b", np.nan], dtype=object),
    "NaN beside numbers": np.array([0, 1, np.nan], dtype=object),
    "floats": np.array([0.0, 1.0, np.nan]),
    "pandas text": pd.Series(["a", None, "b"]),
    "pandas NA": pd.Series([0, 1, None], dtype="Int64"),
    "categorical": pd.Series(["a", None, "b"], dtype="category"),
    "dates": np.array(["2020-01-01", "2020-01-02", "NaT"], dtype="datetime64[D]"),
    "polars": pl.Series(["a", None, "b"]),
}


@pytest.mark.parametrize("kind", CLASSIFIERS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("labels", GAPS.values(), ids=GAPS)
def test_missing_labels_are_refused_and_made_no_class(kind, labels):
    said = told(lambda: kind(budget=BUDGET, bounds=(0, 1)).fit(X[:3], labels))
    assert "missing" in said
    model = kind(budget=BUDGET, bounds=(0, 1), classes=("a", "b"))  # with classes no error depends on a label
    assert model.fit(X[:3], labels).classes_.tolist() == ["a", "b"]


@pytest.mark.parametrize("labels", [["a", 1, "b"], [(1, 2), "a", "b"], [{1}, {2}, {3}], [1 + 2j, 1.0, 2.0]])
@pytest.mark.parametrize("kind", CLASSIFIERS, ids=lambda kind: kind.__name__)
def test_labels_of_several_kinds_are_refused_without_a_raw_error(kind, labels):
    with pytest.raises(ValueError):  # noqa: PT011 - scikit-learn's own for a continuous kind, else ours
        kind(budget=BUDGET, bounds=(0, 1)).fit(X[:3], labels)


@pytest.mark.parametrize("kind", [learn.PrivateKMeans, learn.PrivateStandardScaler, learn.PrivateMoments])
def test_an_argument_that_fit_does_not_have_is_answered_with_a_cure(kind):
    model = kind(budget=inid.ApproxDP(1.0, 1e-6), bounds=(0, 1))
    for name, word in (("sample_weight", "every row counts once"), ("epochs", "it takes X, y, ledger")):
        with pytest.raises(inid.ArgumentError, match=rf"fit has no argument '?{name}'?: .*{word}"):
            model.fit([[0.5]], **{name: 1})


def test_a_fit_without_its_target_or_with_too_many_arguments_says_what_it_takes():
    model = learn.PrivateRidge(budget=inid.ApproxDP(1.0, 1e-6), bounds=(0, 1), bounds_y=(0, 1))
    with pytest.raises(inid.ArgumentError, match="missing a required argument: 'y'; it takes X, y, sample_weight"):
        model.fit([[0.5]])
    with pytest.raises(inid.ArgumentError, match="too many"):
        model.fit([[0.5]], [0.5], None, None, None)


def test_a_search_of_a_pipeline_names_parameters_of_its_last_step():
    with pytest.raises(inid.ArgumentError, match="pass privateridge__alpha"):
        learn.PrivateSearchCV(make_pipeline(learn.PrivateRidge()), {"alpha": [1.0]}).fit([[0.5]], [0.5])
