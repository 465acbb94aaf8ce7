"""Polars adds up the bits of floats in one pass, DuckDB what it counts at once: the same whole numbers as Python."""

import math

import numpy as np
import polars as pl
import pytest

from inid import tables

ROWS = 4_000
RNG = np.random.default_rng(19)
# Halves of the grid's step, which is 2^-23, are where a rounding instead of a cut would show.
VALUES = {"v": (RNG.integers(-(2**24), 2**31, ROWS) * 2.0**-24).tolist(), "w": RNG.normal(40, 60, ROWS).tolist()}
KEYS = RNG.choice(np.array(["a", "b", "c", "other"]), ROWS).tolist()
KEYS[3:7] = ["a"] * 4  # the rows with gaps count
BOUNDS = {"v": (0, 100), "w": (0, 100)}
GAPS = {
    "none": {},
    "infinities": {("v", 3): math.inf, ("w", 3): -math.inf, ("w", 4): math.inf},
    "null": {("v", 5): None, ("w", 6): None},
    "NaN": {("v", 5): math.nan, ("w", 6): math.inf},
    "a null beside a NaN": {("v", 5): None, ("w", 5): math.nan},
    "nothing but gaps": {("v", at): (None, math.nan)[at % 2] for at in range(ROWS)},
}


def _frame(gaps):
    columns = {name: list(values) for name, values in VALUES.items()}
    for (name, at), value in gaps.items():
        columns[name][at] = value
    return pl.DataFrame(columns | {"k": KEYS}, schema={"v": pl.Float64, "w": pl.Float64, "k": pl.String})


def _looped(query, frame, missing, keys):
    expected = dict.fromkeys(query.labels, 0)
    for row in frame.iter_rows(named=True):
        if keys and row["k"] not in keys:
            continue
        cell = f"[k={row['k']}]" if keys else ""
        for name, grid in query.layout.values.items():
            present = row[name] is not None and not math.isnan(row[name])
            if present or missing != "omit":
                expected[f"sum({name}){cell}"] += grid.integer(row[name] if present else missing[name])
                if f"count({name}){cell}" in expected:
                    expected[f"count({name}){cell}"] += 1
        if f"count{cell}" in expected:
            expected[f"count{cell}"] += 1
    return expected


@pytest.mark.parametrize("keys", [[], ["c", "a", "nobody"]], ids=["all", "by"])
@pytest.mark.parametrize("missing", ["omit", {"v": 30.0, "w": 99.5}], ids=["omit", "fill"])
@pytest.mark.parametrize("gaps", GAPS)
def test_sums_are_those_of_a_loop_in_one_pass(gaps, missing, keys, monkeypatch):
    frame = _frame(GAPS[gaps])
    query = tables.Table(frame, bounds=BOUNDS, missing=missing).statistics(
        mean=["v", "w"], by={"k": keys} if keys else None
    )
    collect, ran = pl.LazyFrame.collect, []
    monkeypatch.setattr(pl.LazyFrame, "collect", lambda *made, **how: ran.append(made) or collect(*made, **how))
    found = dict(zip(query.labels, query.exact_sums().tolist(), strict=True))
    assert found == _looped(query, frame, missing, keys)
    assert len(ran) == 1


@pytest.mark.parametrize("keys", [[], ["c", "a", "nobody"]], ids=["all", "by"])
@pytest.mark.parametrize("missing", ["omit", {"v": 30.0, "w": 99.5}], ids=["omit", "fill"])
@pytest.mark.parametrize("gaps", GAPS)
def test_sums_of_duckdb_are_those_of_a_loop(gaps, missing, keys):
    frame = _frame(GAPS[gaps])
    table = tables.Table(frame.to_arrow(), bounds=BOUNDS, missing=missing)
    query = table.statistics(mean=["v", "w"], by={"k": keys} if keys else None)
    found = dict(zip(query.labels, query.exact_sums().tolist(), strict=True))
    assert found == _looped(query, frame, missing, keys)


# Grids of very small and very large steps, of a middle far from 0, and with bounds that no decimal number equals.
ODD_BOUNDS = [(0.0, 1e-250), (-1e250, 1e250), (1e16, 1e16 + 64), (0.1, 0.1 + 0.2), (-3.3, 1e6 / 7), (-1e-9, 1e9)]


@pytest.mark.parametrize("made", [lambda frame: frame, lambda frame: frame.to_arrow()], ids=["polars", "duckdb"])
@pytest.mark.parametrize("bounds", ODD_BOUNDS)
def test_odd_grids_hold_the_same_numbers(bounds, made):
    low, high = bounds
    ends = [low, high, math.nextafter(low, high), math.nextafter(high, low), 0.0, -0.0, 5e-324, math.inf, -math.inf]
    inside = np.random.default_rng(6).random(400)
    frame = pl.DataFrame({"x": [*ends, *(low * (1 - inside) + high * inside).tolist()]})
    query = tables.Table(made(frame), bounds={"x": bounds}).statistics(mean=["x"])
    found = dict(zip(query.labels, query.exact_sums().tolist(), strict=True))
    grid = query.layout.values["x"]
    assert found == {"count(x)": len(frame), "sum(x)": sum(map(grid.integer, frame["x"]))}


@pytest.mark.parametrize("by", [None, {"k": ["a"]}], ids=["all", "by"])
@pytest.mark.parametrize("made", [lambda frame: frame, lambda frame: frame.to_arrow()], ids=["polars", "duckdb"])
def test_no_rows_add_up_to_nothing(made, by):
    query = tables.Table(made(_frame({}).head(0)), bounds=BOUNDS).statistics(mean=["v", "w"], by=by)
    assert query.exact_sums().tolist() == [0] * len(query.labels)


def test_hundreds_of_columns_are_one_query():
    columns = {f"x{at}": [float(at % 7), 1.0] for at in range(600)}
    query = tables.Table(pl.DataFrame(columns), bounds=dict.fromkeys(columns, (0, 8))).statistics(sum=list(columns))
    found = dict(zip(query.labels, query.exact_sums().tolist(), strict=True))
    for at, name in enumerate(columns):
        grid = query.layout.values[name]
        assert found[f"sum({name})"] == grid.integer(at % 7) + grid.integer(1.0)
