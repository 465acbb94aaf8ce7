"""Counting people and choosing the largest group: exact counts, their changes by brute force, charges, refusals."""

import itertools
import math
from functools import cache

import numpy as np
import pandas as pd
import polars as pl
import pytest

import inid
from inid import tables
from inid.tables.questions.statistics import Statistics
from inid.testing import unsafe_no_noise
from table_sums import relation_of

KEYS = ["a", "b", "c"]
OTHERS = [(7, "a"), (7, "b"), (8, "c"), (8, "a"), (8, "a"), (9, "b")]


def people(rows, limit, neighbours="add_remove", engine=pd.DataFrame):
    frame = pd.DataFrame(rows, columns=["id", "key"])
    return tables.Table(engine(frame), unit=tables.Person("id", limit), neighbours=neighbours)


def persons(limit):
    """Everything that one person can be: lists of keys, some more than the limit, some unknown."""
    return [list(keys) for number in range(limit + 2) for keys in itertools.product([*KEYS, "z"], repeat=number)]


@cache
def additions(limit, statistic):
    """What every person adds to the exact counts of the others; by Polars, which is quicker with a few rows."""
    counts = set()
    for keys in persons(limit):
        rows = [(1, key) for key in keys]
        query = people([*OTHERS, *rows], limit, engine=pl.DataFrame).statistics(by={"key": KEYS}, **{statistic: True})
        counts.add(tuple(query.exact_sums().tolist()))
    empty = people(OTHERS, limit).statistics(by={"key": KEYS}, **{statistic: True}).exact_sums()
    return [np.array(one) - empty for one in counts]


def changes(limit, neighbours, statistic):
    """The changes between neighbours."""
    vectors = additions(limit, statistic)
    return [one - two for one in vectors for two in vectors] if neighbours == "replace" else vectors


@pytest.mark.parametrize("neighbours", ["add_remove", "replace", "zero_out"])
@pytest.mark.parametrize("limit", [1, 2])
def test_people_by_groups_move_as_far_as_stated_and_no_further(limit, neighbours):
    moved = changes(limit, neighbours, "count_distinct")
    query = people(OTHERS, limit, neighbours).statistics(count_distinct=True, by={"key": KEYS})
    touched = min(limit * (2 if neighbours == "replace" else 1), len(KEYS))
    l1 = max(np.abs(change).sum() for change in moved)
    l2 = max(float(np.sqrt(np.square(change).sum())) for change in moved)
    assert (l1, l2) == (touched, pytest.approx(math.sqrt(touched)))
    first, second = (float(one.limits[0]) for one in query.sensitivities)
    assert (first, second) == (touched, pytest.approx(math.sqrt(touched)))
    assert first >= l1
    assert second >= l2


@pytest.mark.parametrize("neighbours", ["add_remove", "replace"])
def test_all_people_together_move_by_one(neighbours):
    query = people(OTHERS, 4, neighbours).statistics(count_distinct=True)
    assert query.exact_sums().tolist() == [3]
    assert float(query.sensitivities[0].limits[0]) == 1.0


@pytest.mark.parametrize("engine", [pd.DataFrame, pl.DataFrame, relation_of])
@pytest.mark.parametrize("limit", [1, 2, 50])
def test_every_engine_counts_the_same_people(engine, limit):
    rng = np.random.default_rng(limit)
    rows = list(zip(rng.integers(0, 30, 150).tolist(), rng.choice([*KEYS, "z"], 150).tolist(), strict=True))
    found = (
        people(rows, limit, engine=engine).statistics(count=True, count_distinct=True, by={"key": KEYS}).exact_sums()
    )
    assert (
        found == people(rows, limit).statistics(count=True, count_distinct=True, by={"key": KEYS}).exact_sums()
    ).all()
    frame = pd.DataFrame(rows, columns=["id", "key"])
    if limit == 50:
        assert found[3:].tolist() == [frame[frame.key == key].id.nunique() for key in KEYS]
    assert (found[3:] <= found[:3]).all()


@pytest.mark.parametrize("counting", ["rows", "people"])
@pytest.mark.parametrize("neighbours", ["add_remove", "replace"])
@pytest.mark.parametrize("limit", [1, 2])
def test_the_range_of_the_counts_is_attained_and_never_exceeded(limit, neighbours, counting):
    moved = changes(limit, neighbours, "count" if counting == "rows" else "count_distinct")
    widest = max(max(change.max(), 0) - min(change.min(), 0) for change in moved)
    query = people(OTHERS, limit, neighbours).largest_group({"key": KEYS}, count_distinct=counting == "people")
    assert widest == query.question.range


def test_the_largest_group_is_named_and_charged():
    table = people([(at, "a") for at in range(40)] + [(at, "b") for at in range(500)], 2)
    ledger = inid.Ledger(total=inid.PureDP(1.0), unit="id")
    query = table.largest_group({"key": KEYS}, count_distinct=True)
    plan = query.plan(inid.PureDP(0.5), ledger=ledger)
    made = query.release(plan, ledger, label="largest")
    assert made.keys == {"key": "b"}
    assert (made.answers[0].groups, made.question.counting) == ("key=b", "people")
    assert float(plan.noise.scales[0]) == 2.0  # one person moves each count by 1, whatever the number of groups
    other = table.largest_group({"key": KEYS})
    with pytest.raises(inid.BudgetError):
        other.release(other.plan(inid.PureDP(0.6)), ledger)
    assert [line.label for line in ledger.history()] == ["largest"]


def test_the_ledgers_relation_is_taken_where_none_is_stated():
    frame = pd.DataFrame({"key": ["a", "b", "b"]})
    ledger = inid.Ledger(total=inid.PureDP(1.0), neighbours="replace")
    with unsafe_no_noise():
        query = tables.Table(frame).largest_group({"key": KEYS})
        made = query.release(query.plan(inid.PureDP(1.0), ledger=ledger), ledger)
    assert made.answers[0].groups == "key=b"
    assert float(made.plan.noise.scales[0]) == 2.0
    assert not made.private


def test_what_cannot_be_counted_is_refused_before_the_charge():
    frame = pd.DataFrame({"key": ["a", "b"], "size": [1, 2]})
    for by, counted in (
        ({"key": ["a"]}, False),
        ({"key": KEYS}, True),
        ({"key": KEYS}, 1),
        ({"size": KEYS}, False),
        ({}, False),
    ):
        with pytest.raises(inid.InidError):
            tables.Table(pl.DataFrame(frame)).largest_group(by, count_distinct=counted)
    query, ledger = people(OTHERS, 1).largest_group({"key": KEYS}), inid.Ledger(total=inid.PureDP(1.0))
    with pytest.raises(inid.ArgumentError, match="unit"):
        query.release(query.plan(inid.PureDP(1.0)), ledger)
    assert not ledger.history()


def test_people_in_a_release_its_record_and_its_plan():
    table = people(OTHERS, 3, "replace")
    query = table.statistics(count=True, count_distinct=True, by={"key": KEYS})
    with unsafe_no_noise():
        made = query.release(query.plan(inid.PureDP(1.0), tolerance={"count_distinct": 1}))
    assert [row.estimate for row in made.answers if row.statistic == "count_distinct"] == [2.0, 2.0, 1.0]
    again = Statistics.from_dict(made.to_dict()["question"])
    assert again.count_distinct
    assert tables.verify_result(query.release(query.plan(inid.PureDP(1.0))).to_dict())
    with pytest.raises(inid.ArgumentError, match="Person"):
        tables.Table(pd.DataFrame({"key": ["a"]})).statistics(count_distinct=True)
    with pytest.raises(inid.RecordError):
        Statistics.from_dict(made.to_dict()["question"] | {"person": None})
