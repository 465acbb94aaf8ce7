"""Keys that nobody listed: exact counts and their changes by brute force, charges, results, records, refusals."""

import itertools
import json
import math
from functools import cache

import numpy as np
import pandas as pd
import polars as pl
import pytest

import inid
from inid import tables
from inid.testing import unsafe_no_noise, unsafe_seed
from table_sums import relation_of

OTHERS = [(7, "a"), (7, "b"), (8, "a"), (9, "a"), (9, "a"), (9, "c"), (9, "d")]
BUDGET = inid.ApproxDP(1.0, 1e-6)
FOUND = {"column": "key", "max_keys_per_person": 2, "delta": 1e-8}


def people(rows, limit, neighbours=None, engine=pd.DataFrame):
    frame = pd.DataFrame(rows, columns=["id", "key"])
    return tables.Table(engine(frame), unit=tables.Person("id", limit), neighbours=neighbours)


def asked(counting, keys=2, delta=1e-8):
    return {"column": "key", "max_keys_per_person": keys, "delta": delta, "count_distinct": counting == "people"}


def visits(sizes, engine=pd.DataFrame):
    return engine(pd.DataFrame({"key": [key for key, size in sizes.items() for _ in range(size)]}))


@cache
def additions(limit, keys, counting):
    """What every person adds, with up to one row too many, on keys that others have and on keys of their own."""
    lists = (rows for n in range(limit + 2) for rows in itertools.combinations_with_replacement("abxy", n))
    empty = people(OTHERS, limit).select_partitions(**asked(counting, keys)).exact_counts()
    found = set()
    for rows in lists:
        table = people([*OTHERS, *((1, key) for key in rows)], limit, engine=pl.DataFrame)  # quicker with a few rows
        counts = table.select_partitions(**asked(counting, keys)).exact_counts()
        found.add(tuple(counts.get(key, 0) - empty.get(key, 0) for key in "abxy"))
    return [np.array(one) for one in found]


@pytest.mark.parametrize("neighbours", ["add_remove", "replace"])
@pytest.mark.parametrize("counting", ["rows", "people"])
@pytest.mark.parametrize(("limit", "keys"), [(1, 1), (2, 1), (3, 2)])
def test_one_person_moves_the_counts_as_far_as_stated_and_no_further(limit, keys, counting, neighbours):
    changes = additions(limit, keys, counting)
    assert all((change >= 0).all() and (change > 0).sum() <= keys for change in changes)
    question = people(OTHERS, limit, neighbours).select_partitions(**asked(counting, keys)).question
    if neighbours == "replace":
        changes = [one - two for one in changes for two in changes]
    l1, l2 = (max(float(np.linalg.norm(change, order)) for change in changes) for order in (1, 2))
    assert question.contribution.reach("laplace", neighbours) == l1
    assert question.contribution.reach("gaussian", neighbours) == pytest.approx(l2, rel=1e-15)
    assert question.contribution.reach("gaussian", neighbours) ** 2 >= round(l2**2)


@pytest.mark.parametrize("engine", [pd.DataFrame, pl.DataFrame, pl.LazyFrame, relation_of])
@pytest.mark.parametrize("counting", ["rows", "people"])
@pytest.mark.parametrize(("limit", "keys"), [(1, 1), (4, 2), (9, 9)])
def test_every_engine_finds_the_same_counts(engine, counting, limit, keys):
    rng = np.random.default_rng(limit)
    rows = list(zip(rng.integers(0, 40, 300).tolist(), rng.choice(["a", "é", "", None, "(other)"], 300), strict=True))
    found = people(rows, limit, engine=engine).select_partitions(**asked(counting, keys)).exact_counts()
    assert found == _scan(rows, limit, keys, counting)
    assert None not in found


def _scan(rows, limit, keys, counting):
    """The same by hand, person by person."""
    found = {}
    for person in {one for one, _ in rows}:
        own = sorted(key for one, key in rows if one == person and key is not None)[:limit]
        lines = sorted((-own.count(key), key) for key in set(own))[:keys]
        for number, key in lines:
            found[key] = found.get(key, 0) + (1 if counting == "people" else -number)
    return found


def test_without_a_person_a_row_is_the_unit():
    query = tables.Table(visits({"a": 3, "b": 1})).select_partitions(**FOUND)
    assert query.exact_counts() == {"a": 3, "b": 1}
    assert query.question.contribution.most_keys == 1


@pytest.mark.parametrize("engine", [pd.DataFrame, pl.DataFrame, relation_of])
def test_large_keys_appear_in_order_with_their_noisy_counts(engine):
    table = tables.Table(visits({"b": 500, "rare": 3, "a": 400}, engine))
    query = table.select_partitions(**FOUND)
    plan = query.plan(BUDGET)
    result = query.release(plan)
    assert result.keys == ("a", "b")
    assert result.by == {"key": ["a", "b"]}
    assert [abs(row.estimate - size) < 40 for row, size in zip(result.answers, (400, 500), strict=True)] == [True, True]
    assert all(row.estimate >= plan.threshold for row in result.answers)
    assert not any(row.keys["near_threshold"] for row in result.answers)
    second = table.statistics(count=True, by=result.by)
    assert len(second.release(second.plan(inid.PureDP(1.0))).answers) == 2
    assert result.apply(table).domains.keys == {"key": ("a", "b")}
    assert len(result.frame["key"]) == 2
    assert "2 keys under" in str(result)


def test_the_order_in_which_keys_are_met_changes_no_answer():
    """Engines return groups in orders of their own, and one engine in another one each time."""
    frame = pd.DataFrame({"zip": ["c"] * 90 + ["a"] * 80 + ["b"] * 70})
    found = []
    for rows in (frame, frame[::-1], pl.from_pandas(frame)):
        query = tables.Table(rows).select_partitions("zip", delta=1e-6)
        with inid.testing.unsafe_seed(3):
            found.append(query.release(query.plan(inid.PureDP(1.0))).answers)
    assert found[0] == found[1] == found[2]
    assert [row.keys["zip"] for row in found[0]] == ["a", "b", "c"]


def test_nothing_to_find_is_no_error():
    for frame in (visits({"rare": 2}), pd.DataFrame({"key": pd.Series([], dtype="string")}), visits({"a": 2}).map(len)):
        query = tables.Table(frame).select_partitions(**FOUND)
        result = query.release(query.plan(BUDGET))
        assert result.keys == result.answers == ()
        assert len(result.frame) == 0
        assert "texts were looked for" in str(result)
        assert str(result.release)
        assert tables.verify_result(result.to_dict())
        with pytest.raises(inid.ArgumentError, match="threshold"):
            result.by  # noqa: B018


@pytest.mark.parametrize(("kind", "values", "keys"), [
    ("int", [3.0, -0.0, 0.0, math.nan, 2.5, 1e300, 3.0], {3: 2, 0: 2}),
    ("int", ["3", 3, True, 2**70, None], {3: 1}),
    ("str", ["3", 3, True, 2.0, None, "", math.nan], {"3": 1, "": 1}),
    ("bool", [True, False, 1, "True", None], {True: 1, False: 1}),
])  # fmt: skip
def test_a_value_is_taken_for_what_it_is(kind, values, keys):
    """pandas decides by the values what a column holds; one person's value must not decide for the others."""
    table = tables.Table(pd.DataFrame({"key": values}))
    found = table.select_partitions("key", delta=1e-8, kind=kind).exact_counts()
    assert found == keys
    assert [type(key) for key in found] == [type(key) for key in keys]


def test_one_persons_text_does_not_rename_the_group_of_others():
    """pandas takes "a", NUL, "x" for "a", and calls both by whichever comes first."""
    for engine in (pd.DataFrame, pl.DataFrame, relation_of):
        for first in ("a\0x", "a\0"):
            frame = engine(pd.DataFrame({"key": [first, *["a"] * 300]}))
            counts = tables.Table(frame).select_partitions(**FOUND).exact_counts()
            assert counts == {"a": 300}, engine
    half = pd.DataFrame({"key": ["\ud800", "a", "a"]})
    assert tables.Table(half).select_partitions(**FOUND).exact_counts() == {"a": 2}


def test_a_ledger_is_charged_the_noise_and_the_delta():
    query = tables.Table(visits({"a": 300})).select_partitions(**FOUND)
    ledger = inid.Ledger(total=BUDGET, reserve=1.5e-8)
    plan = query.plan(inid.PureDP(0.25), ledger=ledger)
    query.release(plan, ledger, label="found")
    (record,) = ledger.history()
    assert (record.label, record.delta_taken, float(ledger.spent().epsilon)) == ("found", "1/100000000", 0.25)
    with pytest.raises(inid.BudgetError, match="reserve"):
        query.release(plan, ledger)
    assert len(ledger.history()) == 1


def test_a_ledger_without_a_reserve_takes_the_whole_promise_only():
    query = tables.Table(visits({"a": 300})).select_partitions(**FOUND)
    small, fits = query.plan(inid.ApproxDP(0.5, 1e-7)), query.plan(inid.ApproxDP(1.0, 9.9e-7))
    with pytest.raises(inid.BudgetError, match="reserve"):  # 1e-6 and 1e-8 are more than 1e-6
        query.release(query.plan(BUDGET, mechanism="gaussian"), inid.Ledger(total=BUDGET))
    query.release(query.plan(BUDGET), inid.Ledger(total=BUDGET))  # Laplace noise leaves the delta to the keys
    ledger = inid.Ledger(total=BUDGET)
    assert fits.whole_promise == BUDGET
    query.release(fits, ledger)
    with pytest.raises(inid.BudgetError):
        query.release(small, ledger)
    with pytest.raises(inid.BudgetError, match="reserve"):
        query.release(query.plan(inid.PureDP(0.1)), inid.Ledger(total=inid.PureDP(1.0)))
    started = inid.Ledger(total=BUDGET)
    inid.release([1.0], inid.plan(inid.Sensitivity.box([1.0]), inid.PureDP(0.01)), started)
    with pytest.raises(inid.BudgetError, match="reserve"):
        query.release(small, started)


def test_the_ledgers_relation_and_unit_count():
    query = people(OTHERS, 3).select_partitions(**asked("people"))
    ledger = inid.Ledger(total=BUDGET, reserve=1e-7, neighbours="replace", unit="id")
    plan = query.plan(inid.PureDP(0.5), ledger=ledger)
    assert float(plan.noise.scales[0]) == 2 * 2 / 0.5
    query.release(plan, ledger)
    with pytest.raises(inid.ArgumentError, match="unit"):
        query.release(plan, inid.Ledger(total=BUDGET, reserve=1e-7, neighbours="replace"))


def test_records_prove_themselves_and_changes_are_found():
    query = tables.Table(visits({"a": 300, "b": 200})).where("key != 'c'").select_partitions(**FOUND)
    record = json.loads(json.dumps(query.release(query.plan(BUDGET)).to_dict()))
    assert tables.verify_result(record).promise == "PureDP(epsilon=1.0)"  # Laplace noise leaves the delta
    assert record["question"]["where"] == str(tables.expression("key != 'c'"))
    from inid.tables import record_digest

    def forged(**change):
        content = {**record, **change}
        return content | {"digest": record_digest(content)}

    low = record["release"] | {"values": [1.0, *record["release"]["values"][1:]]}
    for change in (
        {"found": ["a", "c"]},
        {"found": ["a"]},
        {"found": ["b", "a"]},
        {"release": low},
        {"answers": record["answers"][:1]},
        {"question": record["question"] | {"kind": "int"}},
    ):
        with pytest.raises(inid.RecordError):
            tables.verify_result(forged(**change))
    with pytest.raises(inid.GuaranteeError):
        tables.verify_result(forged(question=record["question"] | {"neighbours": "replace"}))


def test_plans_of_other_questions_are_refused():
    table = tables.Table(visits({"a": 300}))
    one, other = (table.select_partitions("key", delta=d) for d in (1e-8, 1e-9))
    with pytest.raises(inid.ArgumentError, match="another query"):
        one.release(other.plan(BUDGET))
    assert one.plan(BUDGET).threshold < other.plan(BUDGET).threshold
    assert one.plan(BUDGET).verify().promise == str(inid.PureDP(BUDGET.epsilon))
    wide = table.select_partitions("key", delta=1e-8).plan(BUDGET, mechanism="gaussian")
    assert wide.threshold > one.plan(BUDGET).threshold


@pytest.mark.parametrize(
    "wrong",
    [
        {"column": ["key", "size"]},
        {"column": ""},
        {"column": "nothing"},
        {"column": "size"},  # whole numbers, but texts are looked for
        {"column": "near_threshold"},
        {"count_distinct": True},
        {"count_distinct": 1},
    ],
)
def test_what_one_count_cannot_answer_is_refused(wrong):
    frame = pl.DataFrame({"key": ["a"], "size": [1], "near_threshold": ["x"]})
    with pytest.raises(inid.ArgumentError):
        tables.Table(frame, bounds={"size": (0, 1)}).select_partitions(**(FOUND | wrong))


@pytest.mark.parametrize("wrong", [
    {"delta": 0}, {"delta": 1.0}, {"delta": math.nan}, {"delta": "1e-8"}, {"delta": 1e-8, "kind": "float"},
    {"delta": 1e-8, "max_keys_per_person": 0}, {"delta": 1e-8, "max_keys_per_person": 1.5},
])  # fmt: skip
def test_malformed_requests_are_refused(wrong):
    with pytest.raises(inid.ArgumentError):
        tables.Table(visits({"a": 1})).select_partitions("key", **wrong)


def test_where_an_interval_may_not_hold_is_said():
    """Counts at the threshold are covered, given that they appear; 1.5 deviations below they are not, and marked."""
    sizes = {f"t{at}": 0 for at in range(2000)}
    query = tables.Table(visits({"a": 1})).select_partitions(**FOUND)
    plan = query.plan(inid.GaussianDP(0.25), mechanism="gaussian")
    above, below = math.ceil(plan.threshold), round(plan.threshold - 1.5 * plan.std)
    frame = visits(sizes | {f"t{at}": above if at % 2 else below for at in range(2000)})
    query = tables.Table(frame).select_partitions(**FOUND)
    with unsafe_seed(5):
        rows = query.release(query.plan(inid.GaussianDP(0.25), mechanism="gaussian")).answers
    held = {1: [], 0: []}
    for row in rows:
        odd = int(str(row.keys["key"])[1:]) % 2
        held[odd].append(row.lower <= (above if odd else below) <= row.upper)
        assert row.keys["near_threshold"] == (row.lower < plan.threshold)
        if not odd:
            assert row.keys["near_threshold"] or row.lower > below
    # About 500 and 67 appear; four standard deviations of a frequency.
    assert np.mean(held[1]) > 0.95 - 4 * 0.0098
    assert 0.35 < np.mean(held[0]) < 0.85
    assert all(row.keys["near_threshold"] for row in rows if row.estimate < plan.threshold + 1.9 * plan.std)


def test_the_report_marks_what_may_not_hold(tmp_path):
    query = tables.Table(visits({"a": 25, "b": 900})).select_partitions(**FOUND)
    with unsafe_no_noise():
        result = query.release(query.plan(inid.PureDP(1.0)))
    assert [row.keys["near_threshold"] for row in result.answers] == [False, False]
    near = tables.Table(visits({"a": 20, "b": 900})).select_partitions(**FOUND)
    with unsafe_no_noise():
        result = near.release(near.plan(inid.PureDP(1.0)))
    assert [row.keys["near_threshold"] for row in result.answers] == [True, False]
    assert "may not hold" in str(result)
    result.report(tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text()
    assert "a*" in text
    assert "near the threshold" in text
    assert result.plot()
