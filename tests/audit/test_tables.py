"""Every question to a table, by record and replay: no violation on neighbours that are hard on code.

Each is also run with noise on numbers that are four times what its plan covers: the audit has to see that.
"""

import warnings

import numpy as np
import pandas as pd
import pytest

import inid
from inid import tables
from inid.noise import add_noise
from inid.releasing import AddNoise, Drawn
from inid.testing import neighbours_of, record, replay

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
    "filtered": lambda t: t.where(tables.col("age") > 40).statistics(count=True, mean=["pay"]),
}
WITH_PEOPLE = {
    "distinct people": lambda t: t.statistics(count_distinct=True, by=SEX),
    "means of people": lambda t: t.statistics(count=True, mean=["pay"], by=SEX),
    "marginals of people": lambda t: t.marginals([("sex", "place")]),
    "largest group of people": lambda t: t.largest_group({"place": ["a", "b", "c"]}),
}


def table_of(frame, relation, *, person=False, missing=None):
    unit = {"unit": tables.Person("id", max_rows=2)} if person else {}
    return tables.Table(
        frame, bounds={"age": (0, 100), "pay": (0, 9)}, domains={**SEX, "place": ["a", "b", "c"]},
        neighbours=relation, rows=SIZE, missing=missing or {}, **unit,
    )  # fmt: skip


def released(ask, budget, relation, **facts):
    def release(frame):
        question = ask(table_of(frame, relation, **facts))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return question.release(question.plan(budget))

    return release


def check(release, relation, *, person=None, most_rows=1, number=8, table=PEOPLE):
    tape = record(release, table)
    assert tape.numbers > 0
    for what, other in neighbours_of(table, relation, number=number, person=person, most_rows=most_rows, seed=2):
        found = replay(tape, other)
        assert not found.violations, f"{what}: {found}"


@pytest.mark.parametrize("relation", ["add_remove", "replace"])
@pytest.mark.parametrize("budget", [PURE, GAUSSIAN], ids=["pure", "gaussian"])
@pytest.mark.parametrize("name", QUESTIONS)
def test_one_row_moves_an_answer_as_far_as_was_charged(name, budget, relation):
    check(released(QUESTIONS[name], budget, relation), relation)


@pytest.mark.parametrize("relation", ["add_remove", "replace"])
@pytest.mark.parametrize("budget", [PURE, GAUSSIAN], ids=["pure", "gaussian"])
@pytest.mark.parametrize("name", WITH_PEOPLE)
def test_one_person_moves_an_answer_as_far_as_was_charged(name, budget, relation):
    check(released(WITH_PEOPLE[name], budget, relation, person=True), relation, person="id", most_rows=6)


def test_filled_values_and_engines_are_covered_too(tmp_path):
    release = released(QUESTIONS["means"], PURE, "add_remove", missing={"pay": 4.5})
    check(release, "add_remove")

    def by_file(frame):
        path = tmp_path / f"{len(list(tmp_path.iterdir()))}.parquet"
        frame.to_parquet(path)
        return release(path)

    check(by_file, "add_remove", number=8)


@pytest.mark.parametrize("relation", ["add_remove", "replace"])
def test_keys_that_nobody_listed(relation):
    def release(frame):
        question = table_of(frame, relation).select_partitions("place", delta=1e-6)
        return question.release(question.plan(inid.ApproxDP(epsilon=1.0, delta=1e-5)))

    check(release, relation)


def test_synthetic_rows():
    def release(frame):
        table = tables.Table(frame, domains={**SEX, "place": ["a", "b", "c"]}, rows=SIZE)
        question = table.synthesize()
        return question.release(question.plan(GAUSSIAN))

    check(release, "add_remove")


@pytest.mark.parametrize("budget", [PURE, GAUSSIAN], ids=["pure", "gaussian"])
def test_a_publication_of_several_questions(budget):
    def release(frame):
        table = table_of(frame, "add_remove")
        publication = tables.Publication(
            people=table.statistics(count=True, by=SEX), pay=table.statistics(mean=["pay"]),
            place=table.largest_group({"place": ["a", "b", "c"]}),
        )  # fmt: skip
        return publication.release(publication.plan(budget))

    check(release, "add_remove")


@pytest.mark.parametrize("budget", [PURE, GAUSSIAN], ids=["pure", "gaussian"])
def test_a_stream_over_its_periods(budget, tmp_path):
    def release(frame):
        path = tmp_path / f"{len(list(tmp_path.iterdir()))}.db"
        table = tables.Table(frame, bounds={"pay": (0, 9)}, rows=20)
        stream = tables.Stream.open(
            path, table, query={"count": True, "sum": ["pay"]}, periods=["1", "2", "3"], promise=budget
        )
        parts = [frame[frame["place"] == name].reset_index(drop=True) for name in ("a", "b", "c")]
        return [
            answer.estimate
            for period, part in zip(("1", "2", "3"), parts, strict=True)
            for answer in stream.release(period, part).total.answers
        ]

    check(release, "add_remove", number=10)


class FourTimes(AddNoise):
    """Numbers four times as large as the plan covers."""

    def draw(self, exact, noise, source):
        return Drawn(add_noise(4 * np.asarray(exact, dtype=float), noise.scales, noise.mechanism, source))


@pytest.mark.parametrize("name", [name for name in QUESTIONS if name != "largest group"])
def test_numbers_that_the_plan_does_not_cover_are_found(name, monkeypatch):
    monkeypatch.setattr(AddNoise, "draw", FourTimes.draw)
    release = released(QUESTIONS[name], GAUSSIAN, "add_remove")
    tape = record(release, PEOPLE)
    others = neighbours_of(PEOPLE, number=30, seed=4)
    assert any("sensitivity" in {v.kind for v in replay(tape, other).violations} for _, other in others)


def test_a_choice_by_scores_that_a_row_moves_too_far_is_found(monkeypatch):
    home = inid.releasing
    plain = home.noisy_argmax
    monkeypatch.setattr(home, "noisy_argmax", lambda scores, *rest: plain([4 * score for score in scores], *rest))
    tape = record(released(QUESTIONS["largest group"], PURE, "add_remove"), PEOPLE)
    found = {v.kind for _, other in neighbours_of(PEOPLE, number=20, seed=4) for v in replay(tape, other).violations}
    assert "sensitivity" in found
