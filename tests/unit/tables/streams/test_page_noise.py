"""The report of a stream prints the noise of its own numbers, and says in which periods a person is protected."""

import re

import numpy as np
import pandas as pd
import pytest

import inid
from inid import tables

FRAME = pd.DataFrame({"id": range(40), "sex": ["F", "M"] * 20})
PERIODS = [f"2027-{month:02}" for month in range(1, 13)]


def opened(folder, contributes, promise, **facts):
    ledger = inid.Ledger.open(folder / "budget.db", total=promise, unit="id" if facts else "row")
    query = {"count": True, "by": {"sex": ["F", "M"]}}
    asked = {"query": query, "periods": PERIODS, "contributes": contributes, "promise": promise, "ledger": ledger}
    return tables.Stream.open(folder / "stream.db", tables.Table(FRAME, **facts), **asked)


@pytest.mark.parametrize("promise", [inid.GaussianDP(0.5), inid.PureDP(1.0)], ids=["gaussian", "laplace"])
@pytest.mark.parametrize("contributes", [1, 3, "every"])
def test_the_noise_of_each_number_is_that_of_the_released_ones(contributes, promise, tmp_path):
    """It printed the noise of a release by itself: 5.7 where numbers had a deviation of 15.1."""
    stream = opened(tmp_path, contributes, promise, unit=tables.Person("id", 1))
    stds = [row.std for period in PERIODS for row in stream.release(period, FRAME).period.answers]
    lines = stream.plan.summary().lines
    assert [line.label for line in lines] == ["count[sex=F] in a period", "count[sex=M] in a period"]
    for line in lines:
        assert line.deviation == pytest.approx(np.sqrt(np.mean(np.square(stds))), rel=1e-3)  # units are whole
        assert line.baselines["spr"] == pytest.approx(line.deviation)


@pytest.mark.parametrize(
    ("contributes", "words"),
    [(1, "same id)"), (3, "same id in each of 3 periods)"), ("every", "same id in every period)")],
)
def test_people_are_protected_in_the_periods_in_which_they_count(contributes, words, tmp_path):
    stream = opened(tmp_path, contributes, inid.GaussianDP(0.5), unit=tables.Person("id", 1))
    stream.release(PERIODS[0], FRAME)
    stream.report(tmp_path / "page.html")
    text = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", (tmp_path / "page.html").read_text()))
    assert text.count(f"one person (one row with the {words}") == 2


def test_other_kinds_of_noise_are_not_compared_since_periods_are_correlated_for_one(tmp_path):
    """A person in 7 periods costs Laplace noise 7 times as much, and Gaussian noise the root of that."""
    stream = opened(tmp_path, 7, inid.ApproxDP(1.0, 1e-6), unit=tables.Person("id", 1))
    stream.release(PERIODS[0], FRAME)
    summary = stream.plan.summary()
    assert {way.mechanism for way in summary.comparison} == {summary.noise.mechanism} == {"gaussian"}
    assert min(way.ratio for way in summary.comparison) == 1
    assert summary.gains["spr"] >= 1
    stream.report(tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text()
    assert "every way to keep the promise with Gaussian noise" in text
    assert "Laplace" not in text


def test_a_ledger_of_rows_is_refused_before_the_stream_is_opened():
    asked = {"query": {"count": True}, "periods": PERIODS, "contributes": 7, "promise": inid.GaussianDP(0.5)}
    with pytest.raises(inid.ArgumentError, match="the ledger's unit is 'row'"):
        tables.plan_stream(
            tables.Table(FRAME, unit=tables.Person("id", 1)), ledger=inid.Ledger(total=inid.GaussianDP(1.0)), **asked
        )
