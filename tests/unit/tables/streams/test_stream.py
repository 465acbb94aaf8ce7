"""A stream as its user meets it: months, totals and windows, empty and late ones, and what is refused."""

import os
import stat

import numpy as np
import pandas as pd
import polars as pl
import pytest

import inid
from inid import tables
from inid.errors import ArgumentError, BudgetError
from inid.testing import unsafe_no_noise, unsafe_seed
from visit_streams import MONTHS, open_events, open_people, visits


def counts(result):
    return {row.statistic: row.estimate for row in result.answers}


def test_months_totals_and_windows_add_up(tmp_path, events):
    """Without noise every answer is exact but for the grid; what was printed before never changes."""
    with unsafe_no_noise():
        s = open_events(tmp_path / "s.db", events)
        printed = []
        for at, month in enumerate(MONTHS):
            made = s.release(month, visits(range(3 + at), [2.5] * (3 + at)))
            assert counts(made.period)["count"] == pytest.approx(3 + at, abs=0.01)
            assert counts(made.total)["sum"] == pytest.approx(2.5 * sum(3 + i for i in range(at + 1)), abs=1)
            printed.append([row.estimate for row in made.total.answers])
        window = s.window("2027-03", "2027-05")
        assert counts(window)["count"] == pytest.approx(5 + 6 + 7, abs=0.01)
        assert [[row.estimate for row in s[month].total.answers] for month in MONTHS] == printed
    frame = s.frame
    assert frame.columns.tolist()[:7] == ["what", "first", "last", "missing", "of", "statistic", "column"]
    assert len(frame) == 12 * 2 * 2
    assert not made.period.private


def test_the_ledger_is_charged_once_and_leases_rows(tmp_path, events):
    s = open_events(tmp_path / "s.db", events, promise=inid.GaussianDP(mu=0.5))
    assert float(events.spent().mu_squared) == 0.25
    s.release("2027-01", visits([1, 2]))
    s.release("2027-02", None)
    again = open_events(tmp_path / "s.db", events, promise=inid.GaussianDP(mu=0.5))
    again.release("2027-03", visits([1, 2]))
    assert len(events.history()) == 1
    assert events.steps_left(1) == 9
    inid.verify_record(events.history()[0])


@pytest.mark.parametrize(
    "promise", [inid.ApproxDP(1.0, 1e-6), inid.GaussianDP(0.5), inid.ZCDP(0.1), inid.PureDP(1.0)], ids=lambda p: p.kind
)
def test_every_promise_fits_an_empty_ledger_of_it_and_no_second_time(tmp_path, promise):
    ledger = inid.Ledger(total=promise)
    s = open_events(tmp_path / "s.db", ledger, promise=promise)
    assert s.plan.noise.mechanism == ("laplace" if promise.kind == "PureDP" else "gaussian")
    s.release("2027-01", visits([1]))
    with pytest.raises(BudgetError):
        open_events(tmp_path / "other.db", ledger, promise=promise)
    assert not (tmp_path / "other.db").exists()


def test_the_file_is_a_secret_of_its_owner(tmp_path, events):
    mask = os.umask(0)
    try:
        s = open_events(tmp_path / "s.db", events)
        s.release("2027-01", visits([1]))
    finally:
        os.umask(mask)
    assert stat.S_IMODE((tmp_path / "s.db").stat().st_mode) == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["s.db"]
    (tmp_path / "s.db").chmod(0o640)
    with pytest.raises(ArgumentError, match="chmod 600"):
        tables.Stream.open(tmp_path / "s.db", ledger=events)


def test_an_empty_period_is_released_with_noise(tmp_path, events):
    with unsafe_seed(5):
        s = open_events(tmp_path / "s.db", events)
        made = s.release("2027-01", None)
    assert counts(made.period)["count"] != 0
    assert made.period.answers[0].lower < 0 < made.period.answers[0].upper


def test_out_of_order_is_refused_with_the_cure(tmp_path, events):
    s = open_events(tmp_path / "s.db", events)
    with pytest.raises(
        ArgumentError, match=r"2027-01 comes before 2027-02: release it first, without rows if .*--empty"
    ):
        s.release("2027-02", visits([1]))
    assert events.steps_left(1) == 12
    s.release("2027-01", None)
    s.release("2027-02", visits([1]))


def test_a_period_is_released_once_and_the_stored_number_is_shown(tmp_path, events):
    """Editing the table afterwards changes neither the number nor what later rows are made of."""
    with unsafe_no_noise():
        s = open_events(tmp_path / "s.db", events)
        first = s.release("2027-01", visits([1, 2, 3]))
        again = s.release("2027-01", visits(range(500)))
        assert [row.estimate for row in again.period.answers] == [row.estimate for row in first.period.answers]
        later = s.release("2027-02", visits([1]))
        assert counts(later.total)["count"] == pytest.approx(4, abs=0.01)
    assert events.steps_left(1) == 10


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("periods", {"periods": [*MONTHS[:-1], "2028-12"]}),
        ("question", {"query": {"count": True}}),
        ("contributes", {"contributes": "every"}),
        ("want", {"want": "periods"}),
        ("promise", {"promise": inid.GaussianDP(mu=0.9)}),
        ("tolerance", {"tolerance": {"count": 3}}),
    ],
)
def test_opening_with_other_facts_is_refused(tmp_path, events, name, change):
    open_events(tmp_path / "s.db", events)
    with pytest.raises(ArgumentError, match=f"another {name}"):
        open_events(tmp_path / "s.db", events, **change)
    assert len(events.history()) == 1


def test_rows_of_other_columns_are_refused_before_anything_is_spent(tmp_path, events):
    s = open_events(tmp_path / "s.db", events)
    for wrong in (visits([1]).drop(columns="cost"), visits([1]).astype({"cost": "category"})):
        with pytest.raises(ArgumentError, match="cost"):
            s.release("2027-01", wrong)
    assert events.steps_left(1) == 12


def test_a_ledger_of_rows_is_not_for_people(tmp_path, events, ledger):
    with pytest.raises(ArgumentError, match="unit"):
        open_people(tmp_path / "s.db", events)
    with pytest.raises(ArgumentError, match="unit"):
        open_events(tmp_path / "s.db", ledger)
    assert not (tmp_path / "s.db").exists()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"contributes": 2}, "unit is a row"),
        ({"contributes": 0}, "contributes"),
        ({"contributes": 13}, "at most the number of periods"),
        ({"periods": []}, "between 1 and"),
        ({"periods": ["a", "a"]}, "different names"),
        ({"periods": "2027"}, "names of the periods"),
        ({"want": "sums"}, "want"),
        ({"want": "windows"}, "window"),
        ({"window": 3}, "window"),
        ({"want": "windows", "window": 13}, "at most the number of periods"),
        ({"query": {"counts": True}}, "statistics takes no"),
        ({"query": [1]}, "dictionary"),
        ({"level": 1.0}, "level"),
    ],
)
def test_malformed_arguments_are_refused_before_anything_is_made(tmp_path, events, changes, words):
    with pytest.raises(ArgumentError, match=words):
        open_events(tmp_path / "s.db", events, **changes)
    assert not events.history()
    assert not list(tmp_path.iterdir())


def test_replace_and_other_questions_are_refused(tmp_path):
    frame = visits([1])
    facts = {"periods": MONTHS, "promise": inid.GaussianDP(mu=1.0)}
    with pytest.raises(ArgumentError, match="replace"):
        tables.plan_stream(tables.Table(frame, neighbours="replace"), query={"count": True}, **facts)
    t = tables.Table(frame, domains={"sex": ["F", "M"]})
    with pytest.raises(ArgumentError, match="counts, sums"):
        tables.plan_stream(t, query=t.marginals(1), **facts)


def test_people_count_in_their_first_periods_only(tmp_path, ledger):
    """k = 1: a late row, or a correction, of somebody who counted is ignored; k = 2: the third period is."""
    with unsafe_no_noise():
        s = open_people(tmp_path / "s.db", ledger)
        assert counts(s.release("2027-01", visits(["a", "b"])).period)["count"] == pytest.approx(2, abs=0.01)
        made = s.release("2027-02", visits(["a", "c", "c", None]))
        assert counts(made.period)["count"] == pytest.approx(2, abs=0.01)  # c's two rows
        assert counts(s.release("2027-03", visits(["a", "b", "c"])).period)["count"] == pytest.approx(0, abs=0.01)


def test_people_of_two_periods(tmp_path, ledger):
    with unsafe_no_noise():
        t = tables.Table(visits([1]), unit=tables.Person("id", 1))
        s = tables.Stream.open(
            tmp_path / "s.db", t, query={"count": True}, periods=MONTHS, promise=inid.GaussianDP(1.0), ledger=ledger,
            contributes=2,
        )  # fmt: skip
        found = [counts(s.release(month, visits([1, 2])).period)["count"] for month in MONTHS[:3]]
        assert found == pytest.approx([2, 2, 0], abs=0.05)
        assert counts(s.release("2027-04", visits([1, 3])).period)["count"] == pytest.approx(1, abs=0.05)


def test_a_filter_decides_who_counts(tmp_path, ledger):
    """Somebody without a row that counts is not used up."""
    t = tables.Table(visits(["x"]), bounds={"cost": (0, 100)}, unit=tables.Person("id", 1)).where("cost > 5")
    with unsafe_no_noise():
        s = tables.Stream.open(
            tmp_path / "s.db",
            t,
            query={"count": True},
            periods=MONTHS,
            promise=inid.GaussianDP(1.0),
            ledger=ledger,
            contributes=1,
        )
        s.release("2027-01", visits(["a", "b"], [1.0, 20.0]))
        made = s.release("2027-02", visits(["a", "b"], [20.0, 20.0]))
    assert counts(made.period)["count"] == pytest.approx(1, abs=0.01)


def test_every_keeps_no_list_and_says_that_nothing_is_gained(tmp_path, ledger):
    with unsafe_no_noise():
        s = open_people(tmp_path / "s.db", ledger, contributes="every")
        found = [counts(s.release(month, visits(["a"])).period)["count"] for month in MONTHS[:3]]
    assert found == pytest.approx([1, 1, 1], abs=0.05)
    assert "nothing to gain" in str(s.plan)
    assert s.plan.choice.gain == 1.0


def test_ids_that_cannot_be_listed_are_refused(tmp_path, ledger):
    frame = visits([1]).astype({"id": "timestamp[us][pyarrow]"})
    t = tables.Table(frame, unit=tables.Person("id", 1))
    with pytest.raises(ArgumentError, match="neither texts nor whole numbers"):
        tables.Stream.open(
            tmp_path / "s.db",
            t,
            query={"count": True},
            periods=MONTHS,
            promise=inid.GaussianDP(1.0),
            ledger=ledger,
            contributes=1,
        )


def test_people_of_another_kind_are_refused_before_anything_is_spent(tmp_path, ledger):
    """The same person as 1 and as "1" would be two people, each with periods of their own."""
    s = open_people(tmp_path / "s.db", ledger)
    with pytest.raises(ArgumentError, match="are texts"):
        s.release("2027-01", visits([1, 2]))
    assert ledger.steps_left(1) == 12
    visits([1, 2]).to_csv(tmp_path / "rows.csv", index=False)
    with unsafe_no_noise():
        assert counts(s.release("2027-01", tmp_path / "rows.csv").period)["count"] == pytest.approx(2, abs=0.01)
        made = s.release("2027-02", visits(["1", "2", "3"]))
    assert counts(made.period)["count"] == pytest.approx(1, abs=0.01)


@pytest.mark.parametrize("ids", [["a", 1], [1], [1.5, None], [b"a"], [pd.Timestamp("2027-01-01")], [pd.NaT]])
def test_no_id_in_a_column_without_a_type_stops_a_release(tmp_path, ledger, ids):
    """pandas has a type for a column of objects by its values: whether they are refused would tell of one of them."""
    with unsafe_no_noise():
        s = open_people(tmp_path / "s.db", ledger)
        first, second = (
            s.release(month, visits(some).assign(id=pd.Series(some, dtype=object)))
            for month, some in (("2027-01", ids), ("2027-02", [*ids, "a", "b"]))
        )
    one_text = sum(isinstance(one, str) for one in ids)  # bytes are no text: a limit of rows would tell them apart
    assert [round(counts(made.period)["count"]) for made in (first, second)] == [one_text, 2 - one_text]


def test_every_engine_and_a_computed_column(tmp_path, events):
    frame = visits([1, 2, 3], [10.0, 20.0, 30.0])
    t = tables.Table(frame, bounds={"cost": (0, 100)}).with_columns(half="cost / 2", bounds={"half": (0, 50)})
    query = {"sum": ["half"], "histogram": {"cost": [0, 15, 100]}, "by": {"sex": ["F", "M"]}}
    frame.to_csv(tmp_path / "rows.csv", index=False)
    frame.to_parquet(tmp_path / "rows.parquet")
    with unsafe_no_noise():
        s = tables.Stream.open(
            tmp_path / "s.db", t, query=query, periods=MONTHS, promise=inid.GaussianDP(1.0), ledger=events
        )
        sources = [frame, pl.from_pandas(frame), tmp_path / "rows.csv", str(tmp_path / "rows.parquet")]
        made = [s.release(month, data).period for month, data in zip(MONTHS, sources, strict=False)]
    for result in made:
        assert [row.estimate for row in result.answers] == pytest.approx([30, 0, 1, 2, 0, 0], abs=1)


def test_a_stream_is_shown_from_its_file_alone(tmp_path, events):
    s = open_events(tmp_path / "s.db", events)
    made = s.release("2027-01", visits([1]))
    shown = tables.Stream.open(tmp_path / "s.db")
    assert [row.estimate for row in shown["2027-01"].period.answers] == [row.estimate for row in made.period.answers]
    assert shown.frame.num_rows == 4
    assert "1 of 12 periods released" in str(shown)
    with pytest.raises(BudgetError, match="leased by a ledger"):
        shown.release("2027-02", visits([1]))
    with pytest.raises(BudgetError, match="holds no charge"):
        tables.Stream.open(tmp_path / "s.db", ledger=inid.Ledger(total=inid.GaussianDP(mu=0.5)))
    assert (tmp_path / "s.db").exists()


def test_another_ledger_is_not_charged_for_a_stream_that_is_there(tmp_path, events):
    s = open_events(tmp_path / "s.db", events)
    s.release("2027-01", visits([1]))
    other = inid.Ledger(total=inid.GaussianDP(mu=2.0))
    with pytest.raises(BudgetError, match="holds no charge"):
        tables.Stream.open(tmp_path / "s.db", ledger=other)
    assert not other.history()


def test_a_window_of_lost_periods_alone_has_no_answer(tmp_path, events):
    """Nothing was released of them: 0 with an interval of no width would say that they are empty."""
    s = open_events(tmp_path / "s.db", events)
    events.lease_steps(1, 2)
    s.release("2027-03", visits([1]))
    with pytest.raises(ArgumentError, match="no period from 2027-01 to 2027-02"):
        s.window("2027-01", "2027-02")
    assert s.window("2027-01", "2027-03").missing == ("2027-01", "2027-02")


def test_without_a_ledger_the_plan_says_what_that_means(tmp_path):
    s = open_events(tmp_path / "s.db", None)
    s.release("2027-01", visits([1]))
    assert "cannot be noticed" in str(s.plan)
    with pytest.raises(ArgumentError, match="without a ledger"):
        tables.Stream.open(tmp_path / "s.db", ledger=inid.Ledger(total=inid.GaussianDP(mu=1.0)))


def test_a_lasting_ledger_takes_no_noise_of_tests(tmp_path):
    with inid.Ledger.open(tmp_path / "b.db", total=inid.GaussianDP(mu=1.0)) as ledger:
        with unsafe_seed(1), pytest.raises(BudgetError, match="real noise"):
            open_events(tmp_path / "s.db", ledger)
        s = open_events(tmp_path / "s.db", ledger)
        with unsafe_seed(1), pytest.raises(BudgetError, match="real noise"):
            s.release("2027-01", visits([1]))
        assert s.release("2027-01", visits([1])).period.private


def test_windows_and_periods_that_are_not_there(tmp_path, events):
    s = open_events(tmp_path / "s.db", events)
    with pytest.raises(ArgumentError, match="not been released"):
        s.window("2027-01", "2027-02")
    s.release("2027-01", visits([1]))
    with pytest.raises(ArgumentError, match="no period of this stream"):
        s.window("2026-12", "2027-01")
    with pytest.raises(ArgumentError, match="comes before"):
        s.window("2027-02", "2027-01")
    with pytest.raises(ArgumentError, match="no released number"):
        s["2027-02"]


def test_plot_and_report(tmp_path, events):
    s = open_events(tmp_path / "s.db", events)
    for wanted in (s.plot, lambda: s.report(tmp_path / "r.html")):
        with pytest.raises(ArgumentError, match="release a period first"):
            wanted()
    for month in MONTHS[:3]:
        s.release(month, visits([1, 2]))
    assert s.plot().get_ylabel() == "count"
    s.report(tmp_path / "r.html", title="Visits <2027>")
    text = (tmp_path / "r.html").read_text()
    assert "Visits &lt;2027&gt;" in text
    assert "Number of rows from the start to each period" in text
    assert "2027-03" in text


def test_the_plan_prints_errors_of_periods_totals_and_windows():
    t = tables.Table(pd.DataFrame({"sex": ["F"]}), rows=1000)
    facts = {"query": {"count": True}, "periods": MONTHS, "promise": inid.GaussianDP(mu=1.0)}
    plan = tables.plan_stream(t, **facts, want="windows", window=3)
    assert plan.errors("totals", independent=True) == pytest.approx(np.sqrt(np.arange(1, 13)), rel=1e-3)
    words = str(plan)
    assert "last 3" in words
    assert words.count("independent") >= 3
    assert "1.19 times the error in windows of 3 periods" in words
    many = tables.plan_stream(t, **(facts | {"periods": range(1000)}))
    assert len(str(many).split("\n")) < 30
