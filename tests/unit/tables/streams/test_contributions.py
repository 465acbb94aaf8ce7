"""Whom a stream's estimates are of: stated where people are protected, and said wherever estimates stand."""

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest

import inid
from html_outline import outline
from inid import tables
from inid.errors import ArgumentError
from inid.tables.streams.page import stream_page
from inid.testing import unsafe_no_noise
from visit_streams import MONTHS, open_events, open_people, visits

mpl.use("agg")
PROMISE = inid.GaussianDP(mu=1.0)


def plan(contributes, **changes):
    unit = changes.pop("unit", tables.Person("id", max_rows=1))
    table = tables.Table(visits(["x"]), bounds={"cost": (0, 100)}, unit=unit)
    facts = {"query": {"count": True, "mean": ["cost"]}, "periods": MONTHS, "promise": PROMISE}
    return tables.plan_stream(table, **(facts | changes), contributes=contributes)


def test_people_need_a_number_of_periods_that_somebody_stated():
    """One period as a default made a flat series of people fall to a third, with intervals of 95 %."""
    with pytest.raises(ArgumentError, match=r'contributes must be stated .* "every"'):
        plan(None)
    assert plan(None, unit="row").contributes == 1


@pytest.mark.parametrize("contributes", [1, 3, 11])
def test_a_plan_says_whom_it_leaves_out_and_what_everybody_would_cost(contributes):
    own, every = plan(contributes), plan("every")
    times = every.choice.error / own.choice.error
    first = "period" if contributes == 1 else f"{contributes} periods"
    assert f"These are estimates of people in their first {first}: nobody counts after that" in str(own)
    assert (
        f'With contributes="every" nobody is left out, and the error in totals is {times:.3g} times as large.'
        in str(own)
    )
    assert own.cost_of_every == pytest.approx(times)
    for whole in (every, plan(12), plan(1, unit="row")):
        assert not whole.leaves_out
        assert "first" not in str(whole)


@pytest.mark.parametrize("promise", [inid.PureDP(1.0), inid.ApproxDP(1.0, 1e-6)])
def test_what_everybody_would_cost_is_the_plan_for_everybody(promise):
    own, every = (plan(times, promise=promise, want="windows", window=3) for times in (2, "every"))
    assert own.cost_of_every == pytest.approx(every.choice.error / own.choice.error)


def test_estimates_of_contributing_people_say_so_everywhere(tmp_path, ledger):
    """Truth: 40 people, every month the same. The numbers fall to 0 after three months, and everything says why."""
    everybody = visits([f"p{at}" for at in range(40)])
    with unsafe_no_noise():
        s = open_people(tmp_path / "s.db", ledger, contributes=3, unit=tables.Person("id", max_rows=1))
        made = [s.release(month, everybody) for month in MONTHS[:4]]
    assert [round(one.period.answers[0].estimate) for one in made] == [40, 40, 40, 0]
    words = "people in their first 3 periods"
    assert set(s.frame["of"]) == {words}
    assert f"total 2027-01 to 2027-04 of {words}" in str(made[-1])
    assert words in s.plot().get_ylabel()
    text = outline(stream_page(s, ledger, None)).text
    assert f"These are estimates of {words}: nobody counts after that" in text
    assert "Number of contributing people in each period" in text
    assert "Number of person-periods of contributing people from the start to each period" in text


@pytest.mark.parametrize(
    ("contributes", "rows", "period", "total"),
    [
        ("every", 1, "Number of people in each period", "Number of person-periods from the start to each period"),
        (
            1,
            1,
            "Number of people in their first period in each period",
            "Number of people from the start to each period",
        ),
        ("every", 2, "Number of rows in each period", "Number of rows from the start to each period"),
        (2, 2, "Number of rows of contributing people in each", "Number of rows of contributing people from the start"),
    ],
)
def test_titles_say_what_is_counted(tmp_path, ledger, contributes, rows, period, total):
    """A total of people over months counts each person once in every month: 12,146 where there were 5,491 people."""
    with unsafe_no_noise():
        s = open_people(tmp_path / "s.db", ledger, contributes=contributes, unit=tables.Person("id", max_rows=rows))
        s.release("2027-01", visits(["a", "b"]))
    text = outline(stream_page(s, ledger, None)).text
    assert period in text
    assert total in text


def test_people_who_are_counted_over_periods_are_person_periods(tmp_path, ledger):
    with unsafe_no_noise():
        s = open_people(tmp_path / "s.db", ledger, contributes="every", query={"count_distinct": True})
        s.release("2027-01", visits(["a", "a", "b"]))
    text = outline(stream_page(s, ledger, None)).text
    assert "Number of people in each period" in text
    assert "Number of person-periods from the start to each period" in text


def test_the_page_of_a_stream_has_the_public_facts_of_a_single_query(tmp_path, ledger):
    """Bounds, fill values, rows a person and assumed rows were missing from it."""
    table = tables.Table(
        visits(["x"]), bounds={"cost": (0, 30)}, missing={"cost": 7.5}, unit=tables.Person("id", max_rows=2), rows=4_321
    )
    with unsafe_no_noise():
        s = tables.Stream.open(
            tmp_path / "s.db", table, query={"count": True, "mean": ["cost"], "by": {"sex": ["F"]}}, periods=MONTHS,
            contributes="every", promise=PROMISE, ledger=ledger,
        )  # fmt: skip
        rng = np.random.default_rng(1)
        s.release("2027-01", visits([f"p{at}" for at in range(300)], rng.gamma(3.0, 30.0, 300)))
    text = outline(stream_page(s, ledger, None)).text
    assert "one person (up to 2 rows with the same id in every period)" in text
    assert "4,321, a public guess for planning" in text
    assert "count as 7.5" in text
    assert (
        "Values outside the public bounds were moved to the nearer bound before anything was added up: cost (0 to 30)"
        in text
    )


def test_a_window_and_events_keep_their_words(tmp_path, events):
    with unsafe_no_noise():
        s = open_events(tmp_path / "s.db", events)
        made = s.release("2027-01", visits([1, 2]))
    assert set(s.frame["of"]) == {"rows"}
    assert str(made.total).startswith("total 2027-01 to 2027-01: 2 answers")
    assert isinstance(s.frame, pd.DataFrame)
