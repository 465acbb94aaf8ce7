"""Rows with keys that are in no public list: a cell of their own in groups where that is stated, and said where not."""

import json
import re
from itertools import product

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import inid
from inid import tables
from inid.testing import unsafe_no_noise

FRAME = pd.DataFrame({
    "k": ["a", "b", "zz", None] * 50, "n": [1, 2, 9, None] * 50, "pay": [10.0, 20.0, 30.0, 40.0] * 50,
    "p": [at // 4 for at in range(200)],
})  # fmt: skip
ARROW = pa.Table.from_pandas(FRAME, preserve_index=False).set_column(1, "n", pa.array([1, 2, 9, None] * 50))
BY = {"k": ["a", "b"], "n": [1, 2]}
SOURCES = {
    "pandas": lambda _: FRAME,
    "polars": lambda _: pl.from_arrow(ARROW),
    "arrow": lambda _: ARROW,
    "duckdb": lambda _: duckdb.from_arrow(ARROW),
    "csv": lambda folder: (FRAME.to_csv(folder / "people.csv", index=False), folder / "people.csv")[1],
}


def table(data=FRAME, **facts):
    return tables.Table(data, bounds={"pay": (0, 50)}, **({"other": "cell"} | facts))


@pytest.mark.parametrize("unit", ["row", tables.Person("p", 4)], ids=["rows", "people"])
@pytest.mark.parametrize("name", SOURCES)
def test_every_row_is_in_one_group(name, unit, tmp_path):
    query = table(SOURCES[name](tmp_path), unit=unit).statistics(count=True, sum=["pay"], by=BY)
    sums = dict(zip(query.labels, (query.exact_sums() * query.units).tolist(), strict=True))
    counts = {cell: sums[f"count[{cell}]"] for cell in query.cells}
    assert counts == dict.fromkeys(query.cells, 0.0) | {
        "k=a, n=1": 50,
        "k=b, n=2": 50,
        "k=(other), n=(other)": 100,
    }
    assert sum(counts.values()) == len(FRAME)


@pytest.mark.parametrize("neighbours", ["add_remove", "replace", "zero_out"])
def test_one_row_moves_no_more_than_the_sets_say(neighbours):
    """Every change of one row's key and value, the cell of others included, by brute force."""
    rows = [("a", 0.0), ("a", 50.0), ("b", 50.0), ("zz", 0.0), ("zz", 50.0), (None, 50.0)]
    base = pd.DataFrame({"k": ["a", "b", None], "pay": [10.0, 20.0, 30.0]})

    def exact(frame):
        query = table(frame, neighbours=neighbours).statistics(count=True, sum=["pay"], by={"k": ["a", "b"]})
        return query, query.exact_sums() * query.units

    query, without = exact(base)
    with_one = [exact(pd.concat([base, pd.DataFrame([row], columns=["k", "pay"])]))[1] for row in rows]
    pairs = [*product(with_one, with_one)] if neighbours == "replace" else [(one, without) for one in with_one]
    plan = query.plan(inid.PureDP(1.0), mechanism="laplace")
    spent = max(float((np.abs(one - two) / plan.noise.scales).sum()) for one, two in pairs)
    assert 0.4 < spent <= 1 + 1e-9


def test_answers_frames_and_records_name_the_cell():
    query = table().statistics(count=True, mean=["pay"], by=BY)
    with unsafe_no_noise():
        made = query.release(query.plan(inid.PureDP(1.0)))
    by_cell = {row.groups: row.estimate for row in made.answers if row.statistic == "mean"}
    assert round(by_cell["k=(other), n=(other)"], 6) == 35
    assert set(made.frame["k"]) == {"a", "b", "(other)"}
    assert set(made.frame["n"]) == {"1", "2", "(other)"}
    record = json.loads(json.dumps(query.release(query.plan(inid.PureDP(1.0))).to_dict()))
    tables.verify_result(record)
    for change in ({"other": "drop"}, {"other": "both"}, {}):
        question = {name: value for name, value in record["question"].items() if name != "other"} | change
        forged = record | {"question": question}
        with pytest.raises((inid.RecordError, inid.GuaranteeError)):
            tables.verify_result(forged | {"digest": tables.record_digest(forged)})


def test_no_public_key_is_called_like_the_cell():
    with pytest.raises(inid.ArgumentError, match=r"\(other\)"):
        table().statistics(count=True, by={"k": ["a", "(other)"]})
    assert table(other=None).statistics(count=True, by={"k": ["a", "(other)"]}).cells == ("k=a", "k=(other)")


def page_of(query, folder):
    query.release(query.plan(inid.PureDP(1.0))).report(folder / "page.html")
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", (folder / "page.html").read_text()))


LEFT_OUT = "Rows whose {} is missing or not in the public list are left out of the numbers by it"


def test_reports_say_which_rows_are_left_out(tmp_path):
    """The headline and the totals were of the listed keys alone, and nobody said so."""
    dropped = page_of(table(other=None).statistics(count=True, by={"k": ["a", "b"]}), tmp_path)
    assert LEFT_OUT.format("k") in dropped
    assert "rows with a listed k" in dropped
    histogram = page_of(table(other=None).statistics(count=True, histogram={"k": ["a", "b"]}), tmp_path)
    assert LEFT_OUT.format("k") in histogram
    assert "with a listed k" not in histogram  # the count is of everybody
    for query in (
        table().statistics(count=True, by={"k": ["a", "b"]}),
        tables.Table(FRAME, domains={"k": ["a", "b"]}).marginals(1),
    ):
        counted = page_of(query, tmp_path)
        assert "left out of the numbers" not in counted
        assert "with a listed" not in counted
    assert LEFT_OUT.format("k") in page_of(
        tables.Table(FRAME, domains={"k": ["a", "b"]}, other="drop").marginals(1), tmp_path
    )


def test_streams_have_the_cell_in_every_period(tmp_path):
    asked = {"query": {"count": True, "by": {"k": ["a", "b"]}}, "periods": ["1", "2"], "contributes": 1}
    ledger = inid.Ledger.open(tmp_path / "budget.db", total=inid.PureDP(1.0))
    for other, cells in (("cell", 3), (None, 2)):
        stream = tables.Stream.open(
            tmp_path / f"{other}.db", table(other=other), ledger=ledger, promise=ledger.part("1/2"), **asked
        )
        assert len(stream.release("1", FRAME).total.answers) == cells


def test_a_choice_is_among_the_listed_groups():
    with pytest.raises(inid.ArgumentError, match="two groups"):
        table().largest_group({"k": ["a"]})
    query = table().largest_group({"k": ["a", "b"]})
    assert query.release(query.plan(inid.PureDP(1.0))).answers
