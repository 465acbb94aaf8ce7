"""A stream that is there is opened again: with another ledger, malformed facts, or a plan that was changed."""

import json
import sqlite3

import pytest

import inid
from inid import tables
from inid.errors import ArgumentError, BudgetError, GuaranteeError, InidError, RecordError
from inid.tables.streams import StreamPlan
from visit_streams import open_events, open_people, visits


@pytest.mark.parametrize("paid", [True, False])
def test_a_stream_that_is_there_is_never_removed(tmp_path, events, paid):
    """Opened with the wrong ledger before its first release: it is refused, and is there for the right one."""
    open_events(tmp_path / "s.db", events if paid else None)
    with pytest.raises(InidError, match="holds no charge" if paid else "without a ledger"):
        tables.Stream.open(tmp_path / "s.db", ledger=inid.Ledger(total=inid.GaussianDP(mu=2.0)))
    tables.Stream.open(tmp_path / "s.db", ledger=events if paid else None).release("2027-01", visits([1]))


def test_a_new_stream_that_cannot_be_paid_for_is_removed(tmp_path):
    with pytest.raises(BudgetError):
        open_events(tmp_path / "s.db", inid.Ledger(total=inid.GaussianDP(mu=0.5)))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "changes",
    [{"promise": 1.0}, {"periods": 5}, {"tolerance": {"count": set()}}, {"want": set()}, {"window": set()},
     {"contributes": set()}, {"timeout": "x"}, {"timeout": -1.0}],
)  # fmt: skip
def test_malformed_facts_of_a_stream_that_is_there_are_refused(tmp_path, events, changes):
    open_events(tmp_path / "s.db", events)
    with pytest.raises(ArgumentError):
        tables.Stream.open(tmp_path / "s.db", ledger=events, **changes)


def test_a_changed_plan_in_the_file_is_refused(tmp_path, events):
    path = tmp_path / "s.db"
    open_events(path, events)
    with sqlite3.connect(path) as connection:
        facts = json.loads(connection.execute("SELECT facts FROM stream").fetchone()[0])
        larger = [m * 2 for m in facts["strategy"]["multipliers"]]
        changed = facts | {"strategy": facts["strategy"] | {"multipliers": larger}}
        connection.execute("UPDATE stream SET facts = ?", (json.dumps(changed),))
    with pytest.raises(GuaranteeError, match="plan the stream anew"):
        tables.Stream.open(path, ledger=events)
    with sqlite3.connect(path) as connection:
        scales = [s * 2 for s in facts["noise"]["scales"]]
        changed = facts | {"noise": facts["noise"] | {"scales": scales}}
        connection.execute("UPDATE stream SET facts = ?", (json.dumps(changed),))
    with pytest.raises(RecordError, match="one of them was changed"):
        tables.Stream.open(path, ledger=events)


def negative(facts):
    return {"strategy": facts["strategy"] | {"multipliers": [-(2**40), *facts["strategy"]["multipliers"][1:]]}}


def tree(base, multiplier):
    return lambda _: {"strategy": {"kind": "tree", "periods": 12, "bits": 0, "base": base, "multiplier": multiplier}}


@pytest.mark.parametrize(
    ("promise", "change"),
    [(inid.GaussianDP(mu=1.0), negative), (inid.PureDP(epsilon=0.5), negative), (inid.PureDP(epsilon=0.5), tree(2, -5)),
     (inid.PureDP(epsilon=0.5), tree(1, 1)), (inid.PureDP(epsilon=0.5), tree(0, 1)),
     *((inid.GaussianDP(mu=1.0), lambda _, changed=changed: changed) for changed in (
         {"contributes": 0}, {"contributes": -1}, {"listed": None}, {"contributes": "every"}))],
)  # fmt: skip
def test_a_changed_strategy_or_list_in_the_file_is_refused(tmp_path, promise, change):
    """Lengths are proved of positive multipliers, and of people whom a list keeps to their periods."""
    record = open_people(tmp_path / "s.db", None, promise=promise, contributes=2).plan.to_dict()
    StreamPlan.from_dict(record)
    with pytest.raises((RecordError, GuaranteeError)):
        StreamPlan.from_dict(record | change(record))
