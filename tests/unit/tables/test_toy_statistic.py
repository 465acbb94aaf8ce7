"""A statistic of existing sums is one file and one line: everything else follows from the registry of statistics."""

import numpy as np
import pandas as pd
import pytest

import inid
from inid import tables
from inid.testing import unsafe_no_noise, unsafe_seed
from internals import module_with
from toy_statistic import Ratio

column_statistics = module_with("inid.tables.questions.statistics", "ColumnStatistic")

HOURS = np.tile([10.0, 20.0, 40.0, 50.0], 250)
FRAME = pd.DataFrame(
    {"pay": 15 * HOURS + np.tile([0.0, 30.0], 500), "hours": HOURS, "sex": np.tile(["F", "F", "M", "M"], 250)}
)
FRAME.loc[::50, "pay"] = np.nan
EXACT = FRAME.dropna().groupby("sex")[["pay", "hours"]].sum().eval("pay / hours").tolist()


@pytest.fixture(autouse=True)
def _registered(monkeypatch):
    known = dict(column_statistics._STATISTICS)
    monkeypatch.setattr(column_statistics, "_STATISTICS", known)
    column_statistics.register_statistic(Ratio())


def query(sizes=None):
    facts = {"bounds": {"pay": (0, 1000), "hours": (1, 100)}, "rows": 1000, "max_rows": 2000, "group_rows": sizes or {}}
    table = tables.Table(FRAME, **facts)
    return table.statistics(count=True, ratio=["pay", "hours"], mean=["pay"], by={"sex": ["F", "M"]})


def test_it_is_planned_released_shown_recorded_and_verified(tmp_path):
    asked = query()
    plan = asked.plan(inid.ApproxDP(1.0, 1e-6), tolerance={"ratio": 0.5})
    plan.verify()
    assert "ratio(pay,hours)" in str(plan)
    ledger = inid.Ledger(total=inid.ApproxDP(1.0, 1e-6))
    result = asked.release(plan, ledger, level=1 - 1e-7)
    found = result.frame[result.frame["statistic"] == "ratio"]
    assert found["column"].tolist() == ["pay,hours"] * 2
    assert found["sex"].tolist() == ["F", "M"]
    assert found["lower"].le(EXACT).all()
    assert found["upper"].ge(EXACT).all()
    record = result.to_dict()
    assert record["question"]["ratio"] == ["pay", "hours"]
    tables.verify_result(record)
    record["answers"][-1]["estimate"] += 1
    with pytest.raises(inid.InidError):
        tables.verify_result(record)
    result.report(tmp_path / "page.html")
    assert "ratio" in (tmp_path / "page.html").read_text(encoding="utf-8")
    assert (
        query({"sex": {"F": 400, "M": 600}})
        .plan_for_accuracy({"ratio": 1.0, "mean": 10.0, "count": 10.0})
        .plan.verify()
    )


def test_without_noise_it_is_the_ratio_and_its_intervals_hold():
    asked = query()
    plan = asked.plan(inid.ApproxDP(1.0, 1e-6))
    with unsafe_no_noise():
        exact = [row for row in asked.release(plan).answers if row.statistic == "ratio"]
    assert [row.estimate for row in exact] == pytest.approx(EXACT, rel=1e-3)
    with unsafe_seed(11):
        held = [
            row.lower <= value <= row.upper
            for _ in range(60)
            for row, value in zip(_ratios(asked.release(plan, level=0.9)), EXACT, strict=True)
        ]
    assert np.mean(held) >= 0.9


def _ratios(result):
    return [row for row in result.answers if row.statistic == "ratio"]


def test_statistics_that_are_not_asked_stand_in_no_record():
    asked = tables.Table(FRAME, bounds={"pay": (0, 1000)}).statistics(mean=["pay"])
    record = asked.release(asked.plan(inid.PureDP(1.0))).to_dict()
    assert "ratio" not in record["question"]
    tables.verify_result(record)


@pytest.mark.parametrize("columns", [["pay"], ["hours", "pay"]])
def test_it_refuses_by_itself(columns):
    table = tables.Table(FRAME, bounds={"pay": (0, 1000), "hours": (1, 100)})
    with pytest.raises(inid.InidError, match="two columns"):
        table.statistics(ratio=columns)
