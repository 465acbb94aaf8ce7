"""Rules of synthetic rows: masks of levels, values in bins, a first row, and rows that keep all of them."""

import json
from itertools import product

import numpy as np
import pandas as pd
import pytest

import inid
from inid import tables
from inid.tables import expression, functional_dependency
from inid.testing import unsafe_seed
from internals import module_with
from rough_rows import rough_fit

rules_module = module_with("inid.tables.questions.synthetic", "read_rules")
PROMISE = inid.ApproxDP(1.0, 1e-6)
CITIES = {"a": "X", "b": "X", "c": "Y"}
RULES = [
    "school <= max(age - 5, 0)",
    "not (married == 'yes' and age < 14)",
    "age >= 18 or pay < 1",
    "is_missing(pay) or pay * 2 <= 250",
    *map(str, functional_dependency("state", "city", CITIES)),
]


def people(rows=1500):
    """Rows of which many break the rules: they are stated, not learned."""
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "age": rng.integers(0, 90, rows),
            "school": rng.integers(0, 17, rows),
            "city": rng.choice([*"abcd"], rows),
            "state": rng.choice(["X", "Y"], rows),
            "married": rng.choice(["yes", "no"], rows),
            "pay": rng.uniform(0, 200, rows),
        }
    )


def table(frame=None, **facts):
    stated = {
        "domains": {"city": [*"abc"], "state": ["X", "Y"], "school": range(17), "married": ["yes", "no"]},
        "bounds": {"age": (0, 90), "pay": (0, 200)},
        "bins": {"age": 9, "pay": [0, 0.5, 40, 100, 200]},
    }
    return tables.Table(people() if frame is None else frame, **(stated | facts))


@pytest.mark.parametrize("other", ["cell", "drop"])
def test_every_row_is_one_that_a_filter_by_the_rule_keeps(other, monkeypatch):
    rough_fit(monkeypatch)
    query = table(other=other).synthesize(rules=RULES)
    with unsafe_seed(1):
        rows = query.release(query.plan(PROMISE)).rows(3000)
        free = table(other=other).synthesize()
        without = free.release(free.plan(PROMISE)).rows(3000)

    def kept(frame, rule):
        """By another engine, and without noise."""
        question = table(frame).where(rule).statistics(count=True)
        with inid.testing.unsafe_no_noise():
            return round(question.release(question.plan(inid.PureDP(1.0))).frame["estimate"][0])

    for rule in RULES:
        assert kept(rows, rule) == 3000, rule
        assert kept(without, rule) < 2990, rule  # so that the check can fail
    assert rows["age"].dropna().map(lambda age: float(age).is_integer()).all()
    assert rows["state"].value_counts(normalize=True).min() > 0.2  # no column is stuck where the chain began
    assert rows["age"].between(1, 89).any()


@pytest.mark.parametrize("relation", ["add_remove", "replace"])
def test_rules_cost_nothing_and_change_no_measurement(relation):
    free, ruled = (table(neighbours=relation).synthesize(rules=rules) for rules in ([], RULES))
    assert free.plan(PROMISE).charge.to_dict() == ruled.plan(PROMISE).charge.to_dict()
    with unsafe_seed(3):
        one = free.release(free.plan(PROMISE))
    with unsafe_seed(3):
        two = ruled.release(ruled.plan(PROMISE))
    assert np.array_equal(one.release.values, two.release.values)
    assert free.question.rules is None
    assert "rules" not in free.question.to_dict()


def test_a_record_keeps_the_rules_and_rows_made_of_it_keep_them_too(monkeypatch):
    rough_fit(monkeypatch)
    query = table().synthesize(rules=RULES)
    record = json.loads(json.dumps(query.release(query.plan(PROMISE)).to_dict()))
    assert record["question"]["rules"] == [str(expression(rule)) for rule in RULES]
    made = tables.synthetic_rows(record, 400, progress=False).to_pandas()
    assert not ((made["married"] == "yes") & ~(made["age"] >= 14)).any()
    assert (made["city"].map(CITIES).isna() | (made["city"].map(CITIES) == made["state"])).all()
    record["question"]["rules"].append("age > 200")
    with pytest.raises(inid.RecordError):
        tables.verify_result(record)


@pytest.mark.parametrize(
    ("rules", "words"),
    [
        (["age > 200"], "leave no row"),
        (["age < 20", "age > 40"], "leave no row"),
        (["school > 3", "school * 10 < age", "age < 30"], "leave no row"),  # each pair leaves some
        (["city == 'a'", "state == 'Y'", *functional_dependency("state", "city", CITIES)], "leave no row"),
        (["size > 3"], "no column of the synthetic rows"),
        (["city > 3"], "reads 'city' as a number, and its levels are texts"),
        (["age == 'old'"], "reads 'age' as a text"),
        (["is_missing(city)"], "is_missing\\(column, 'text'\\)"),
        (["age + 1"], "must be a condition"),
        (["age >="], "does not parse"),
        ("age > 3", "must be a list of conditions"),
        (7, "must be a list of conditions"),
        (
            [" and ".join(f"(age * {at} < pay + school and city != 'b')" for at in range(3)) + " and married == 'no'"],
            "",
        ),
    ],
)
def test_rules_that_do_not_fit_are_refused_before_any_charge(rules, words):
    """Those of too many combinations by their number; the last has five columns, and is served."""
    if not words:
        table().synthesize(rules=rules)
        return
    with pytest.raises(inid.ArgumentError, match=words):
        table().synthesize(rules=rules)


def test_a_rule_of_too_many_combinations_is_refused():
    names = [f"c{at}" for at in range(5)]
    own = tables.Table(pd.DataFrame({name: [0] for name in names}), domains={name: range(20) for name in names})
    own.synthesize(rules=["c0 + c1 + c2 < 50"])
    with pytest.raises(inid.ArgumentError, match="more than 262,144 combinations"):
        own.synthesize(rules=[" + ".join(names) + " < 50"])


def test_values_that_are_rare_in_their_bins_are_found_and_rows_without_any_become_others(monkeypatch):
    """Equal numbers of two bins; and two rules that hold in one bin each time, but never together in the second."""
    rough_fit(monkeypatch)
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.uniform(0, 4, 900), "b": rng.uniform(0, 4, 900), "c": rng.uniform(0, 4, 900)})
    own = tables.Table(frame, bounds=dict.fromkeys("abc", (0.0, 4.0)), bins={key: [0.0, 1.5, 4.0] for key in "abc"})
    query = own.synthesize(
        rules=["a == b", "c < 1.5 or abs(a - 3) < 0.2 or is_missing(c)", "c < 1.5 or abs(b - 2) < 0.2 or is_missing(c)"]
    )
    with unsafe_seed(2):
        rows = query.release(query.plan(PROMISE)).rows(500)
    assert (rows["a"] == rows["b"]).all()
    assert (rows["c"].isna() | (rows["c"] < 1.5)).all()
    assert rows["a"].nunique() > 20


def test_masks_and_the_search_are_those_of_brute_force():
    """Random rules over small columns: the levels that keep each, and whether any row keeps all."""
    rng, both = np.random.default_rng(4), set()
    texts = [
        "x < y",
        "x + y >= z",
        "not (x == z and w == True)",
        "w == True or y * 2 == z",
        "x > y",
        "z < 1",
        "y < 1",
        "x - z > 2",
    ]
    own = tables.Table(
        pd.DataFrame({name: [0] for name in "xyz"} | {"w": [True]}),
        domains={"x": range(4), "y": range(3), "z": range(4), "w": [False, True]},
        other="drop",
    )
    columns = own.synthesize().question.columns
    for _ in range(40):
        some = rng.choice(texts, 4, replace=False).tolist()
        frame = pd.DataFrame(product(*([*column.keys] for column in columns)), columns=[one.name for one in columns])
        good = frame.copy()
        for text in some:
            good = good[good.eval(text.replace(" not", " ~").replace("not", "~"))]
        both.add(len(good) == 0)
        if not len(good):
            with pytest.raises(inid.ArgumentError, match="leave no row"):
                own.synthesize(rules=some)
            continue
        rules = own.synthesize(rules=some).question.rules
        codes = np.array([[column.keys.index(row[column.name]) for column in columns] for _, row in frame.iterrows()])
        keeps = np.logical_and.reduce([mask.keeps(codes) for mask in rules.masks])
        assert np.array_equal(np.flatnonzero(keeps), good.index)
        first = rules.first_levels
        assert all(mask.allowed[tuple(first[at] for at in mask.columns)] for mask in rules.masks)
    assert both == {False, True}


def test_conditions_on_arrays_are_those_of_the_engines():
    """Each of these rows by pandas' engine, and on arrays: numbers of all sizes, missing ones, texts and truths."""
    numbers = [0.0, -1.5, 1e308, -1e308, 1e-300, np.nan, 3.0, 2.0**52 + 1]
    rows = pd.DataFrame(
        [(x, y, t, w) for x in numbers for y in numbers for t in ("u", "v", None) for w in (True, False)],
        columns=["x", "y", "t", "w"],
    )
    rows["n"] = np.arange(len(rows)).astype(str)
    arrays = {"x": rows["x"].to_numpy(), "y": rows["y"].to_numpy()}
    arrays |= {"t": rows["t"].to_numpy(object), "w": rows["w"].to_numpy(object)}
    arrays["t"] = np.where(pd.isna(arrays["t"]), None, arrays["t"])
    for text in (
        "x + y > 1", "x * y < -1", "x / y >= 2", "x - y == 0", "x != y", "min(x, y) <= 0", "max(x, -y) > 2",
        "abs(x) < 2 and not y > 3", "floor(y) == 3", "x ** 3 > 1e150", "t == 'u'", "t != 'u'", "t in ['v', 'w']",
        "w == True or x < 0", "is_missing(x)", "is_missing(t, 'text')", "when(w == True, x, y) > 1", "x in [3, 0]",
    ):  # fmt: skip
        question = tables.Table(rows, domains={"n": rows["n"].tolist()}).where(text).marginals([["n"]])
        with inid.testing.unsafe_no_noise():
            counts = question.release(question.plan(PROMISE)).frame["estimate"].to_numpy()[: len(rows)]
        assert np.array_equal(counts.round() > 0, rules_module.truths(expression(text), arrays)), text
