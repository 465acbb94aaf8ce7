"""Every question to a table, by record and replay: no violation on neighbours that are hard on code.

Each is also run with numbers that are four times what its plan covers: the audit has to see that.
"""

import inspect
import warnings

import numpy as np
import pandas as pd
import pytest

import inid
from inid import tables
from inid.testing import neighbours_of, record, replay
from mutated_noise import four_times

draw = np.random.default_rng(3)
SIZE = 60
PEOPLE = pd.DataFrame(
    {
        "id": np.sort(draw.integers(0, 25, SIZE)),
        "sex": draw.choice(["f", "m"], SIZE),
        "place": draw.choice(["a", "b", "c"], SIZE),
        "age": draw.uniform(-5, 110, SIZE),
        "pay": draw.uniform(0, 9, SIZE),
    }
)
PURE, GAUSSIAN = inid.PureDP(epsilon=1.0), inid.GaussianDP(mu=1.0)
SEX = {"sex": ["f", "m"]}
QUESTIONS = {
    "count": lambda t: t.statistics(count=True),
    "counts by groups": lambda t: t.statistics(count=True, by=SEX),
    "sums": lambda t: t.statistics(sum=["age", "pay"], by=SEX),
    "means": lambda t: t.statistics(count=True, mean=["age", "pay"], by=SEX),
    "variances": lambda t: t.statistics(variance=["age"], std=["pay"]),
    "covariance": lambda t: t.statistics(covariance=["age", "pay"]),
    "histograms": lambda t: t.statistics(histogram={"age": [0, 20, 50, 100]}, by=SEX),
    "marginals": lambda t: t.marginals([("sex", "place"), ("place",)]),
    "marginals with means": lambda t: t.marginals([("sex",)], mean={"pay": [("sex", "place")]}),
    "quantiles": lambda t: t.quantiles({"age": [0.1, 0.5, 0.9]}),
    "quantiles by groups": lambda t: t.quantiles({"age": [0.5]}, by=SEX),
    "largest group": lambda t: t.largest_group({"place": ["a", "b", "c"]}),
    "marginals with sums": lambda t: t.marginals(1, sum={"age": [("sex",)]}),
    "weighted": lambda t: t.statistics(count=True, sum=["age"], mean=["age"], by=SEX),
    "keys that nobody listed": lambda t: t.select_partitions("place", delta=1e-6),
    "synthetic rows": lambda t: t.synthesize(columns=["sex", "place"]),
    "synthetic rows with triples": lambda t: t.synthesize(triples=True),
    "filtered": lambda t: t.where(tables.col("age") > 40).statistics(count=True, mean=["pay"]),
}
WITH_PEOPLE = {
    "distinct people": lambda t: t.statistics(count_distinct=True, by=SEX),
    "means of people": lambda t: t.statistics(count=True, mean=["pay"], by=SEX),
    "marginals of people": lambda t: t.marginals([("sex", "place")]),
    "largest group of people": lambda t: t.largest_group({"place": ["a", "b", "c"]}),
    "keys of people": lambda t: t.select_partitions("place", delta=1e-6, max_keys_per_person=2, count_distinct=True),
    "features of people": lambda t: t.per_person(
        "id", spent=tables.sum("pay", bounds=(0, 20)), last=tables.max("age", bounds=(0, 100))
    ).statistics(count=True, mean=["spent", "last"]),
}
PUBLICATION = "publication"
BUDGETS = {"pure": PURE, "gaussian": GAUSSIAN, "approx": inid.ApproxDP(epsilon=1.0, delta=1e-5)}


def budgets(name):
    """The promises that an answer can keep: keys have a delta, synthetic rows Gaussian noise."""
    if "keys" in name:
        return ["approx"]
    return ["gaussian"] if name.startswith("synthetic rows") else ["pure", "gaussian"]


CASES = [
    (name, budget, relation)
    for name in (*QUESTIONS, *WITH_PEOPLE)
    for budget in budgets(name)
    for relation in ("add_remove", "replace", "zero_out")
]


def table_of(frame, relation, name, missing=None):
    facts = {"unit": tables.Person("id", max_rows=2)} if name in WITH_PEOPLE else {}
    if name == "weighted":
        facts = {"weight": "pay", "max_weight": 5.0}
    return tables.Table(
        frame, bounds={"age": (0, 100), "pay": (0, 9)}, domains={**SEX, "place": ["a", "b", "c"]}, bins={"age": 2},
        neighbours=relation, rows=SIZE, missing=missing or "omit", **facts,
    )  # fmt: skip


def released(name, budget, relation, **facts):
    """A function of the rows that asks, plans and releases."""
    ask = (QUESTIONS | WITH_PEOPLE)[name]

    def release(frame):
        question = ask(table_of(frame, relation, name, **facts))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return question.release(question.plan(budget))

    return release


def others(name, relation, number=8):
    facts = {"person": "id", "most_rows": 6} if name in WITH_PEOPLE else {}
    return neighbours_of(PEOPLE, relation, number=number, seed=2, **facts)


def check(release, name, relation):
    tape = record(release, PEOPLE)
    assert tape.numbers > 0
    for what, other in others(name, relation):
        found = replay(tape, other, changes=2 if relation == "zero_out" else 1)
        assert not found.violations, f"{what}: {found}"


def check_four_times(release, name, relation, monkeypatch):
    four_times(monkeypatch)
    tape = record(release, PEOPLE)
    assert "sensitivity" in (
        one.kind for _, other in others(name, relation, 40) for one in replay(tape, other).violations
    )


@pytest.mark.parametrize(("name", "budget", "relation"), CASES)
def test_one_person_moves_an_answer_as_far_as_was_charged(name, budget, relation):
    check(released(name, BUDGETS[budget], relation), name, relation)


@pytest.mark.parametrize("name", [*QUESTIONS, *WITH_PEOPLE])
def test_numbers_that_the_plan_does_not_cover_are_found(name, monkeypatch):
    check_four_times(released(name, BUDGETS[budgets(name)[-1]], "add_remove"), name, "add_remove", monkeypatch)


def by_file(folder):
    """A table that is read from a file, with a missing value filled in."""
    plain = released("means", PURE, "add_remove", missing={"pay": 4.5})

    def release(frame):
        path = folder / f"{len(list(folder.iterdir()))}.parquet"
        frame.to_parquet(path)
        return plain(path)

    return release


def publication(budget, relation="add_remove"):
    """Several questions by one promise."""

    def release(frame):
        table = table_of(frame, relation, PUBLICATION)
        several = tables.Publication(
            people=table.statistics(count=True, by=SEX), pay=table.statistics(mean=["pay"]),
            place=table.largest_group({"place": ["a", "b", "c"]}),
        )  # fmt: skip
        return several.release(several.plan(budget))

    return release


def stream(budget, folder, relation="add_remove"):
    """The same numbers of three periods, and their sums."""

    def release(frame):
        path = folder / f"{len(list(folder.iterdir()))}.db"
        table = tables.Table(frame, bounds={"pay": (0, 9)}, rows=20, neighbours=relation)
        query = {"count": relation == "add_remove", "sum": ["pay"]}  # a count of rows that stay is public
        opened = tables.Stream.open(path, table, query=query, periods=["1", "2", "3"], promise=budget)
        parts = [frame[frame["place"] == name].reset_index(drop=True) for name in ("a", "b", "c")]
        return [
            answer.estimate
            for period, part in zip(("1", "2", "3"), parts, strict=True)
            for answer in opened.release(period, part).total.answers
        ]

    return release


def bounds(budget, relation="add_remove"):
    """Bounds of a column from a first release."""

    def release(frame):
        table = tables.Table(frame, bounds={"age": (0, 1000)}, rows=SIZE, neighbours=relation)
        found = tables.estimate_bounds(table, "age", budget)
        return found.lower, found.upper

    return release


OTHERS = {
    "file": by_file,
    "publication, pure": lambda _: publication(PURE),
    "publication, gaussian": lambda _: publication(GAUSSIAN),
    "stream, pure": lambda folder: stream(PURE, folder),
    "stream, gaussian": lambda folder: stream(GAUSSIAN, folder),
    "bounds": lambda _: bounds(PURE),
    "publication, replace": lambda _: publication(PURE, "replace"),
    "publication, zero_out": lambda _: publication(GAUSSIAN, "zero_out"),
    "stream, zero_out": lambda folder: stream(PURE, folder, "zero_out"),
    "bounds, replace": lambda _: bounds(PURE, "replace"),
    "bounds, zero_out": lambda _: bounds(PURE, "zero_out"),
}


def relation_of(name):
    """Of one of the others."""
    last = name.split(", ")[-1]
    return last if last in ("replace", "zero_out") else "add_remove"


@pytest.mark.parametrize("name", OTHERS)
def test_one_person_moves_other_releases_as_far_as_was_charged(name, tmp_path):
    check(OTHERS[name](tmp_path), name, relation_of(name))


@pytest.mark.parametrize("name", OTHERS)
def test_numbers_that_other_plans_do_not_cover_are_found(name, tmp_path, monkeypatch):
    check_four_times(OTHERS[name](tmp_path), name, relation_of(name), monkeypatch)


class Asked:
    """A table that notes what it is asked, and by which arguments."""

    def __init__(self):
        self.methods, self.arguments = set(), set()

    def __getattr__(self, name):
        def ask(*_, **arguments):
            self.methods.add(name)
            self.arguments.update(arguments)
            return self

        return ask


def test_every_question_and_every_statistic_is_audited():
    asked = Asked()
    for ask in (QUESTIONS | WITH_PEOPLE).values():
        ask(asked)
    questions = {
        name
        for name, method in inspect.getmembers(tables.Table)
        if callable(method) and not name.startswith("_") and "Query" in str(inspect.signature(method).return_annotation)
    }
    assert questions == {"statistics", "marginals", "quantiles", "select_partitions", "largest_group", "synthesize"}
    assert questions <= asked.methods
    statistics = inspect.signature(tables.Table.statistics).parameters
    named = {name for name, one in statistics.items() if one.kind == inspect.Parameter.KEYWORD_ONLY}
    assert named - asked.arguments == set()
