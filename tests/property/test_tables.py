"""Changing, adding or removing any one person moves the exact sums within the derived sensitivity set."""

import math

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inid import tables
from inid.tables.grids import Grid, conversion_slack, largest_unit
from scanning import scan

SCHEMA = {"x": pl.Float64, "y": pl.Float64, "kind": pl.String, "place": pl.Int64, "user": pl.Int64, "when": pl.Int64}

values = st.one_of(
    st.none(),
    st.sampled_from([math.nan, math.inf, -math.inf, 0.0, -0.0, 0.5, 2.5, 5.0, 10.0, -3.0, 1e300]),
    st.floats(-5, 15, allow_nan=False),
)
rows = st.fixed_dictionaries(
    {
        "x": values,
        "y": values,
        "kind": st.sampled_from(["a", "b", "other", None]),
        "place": st.sampled_from([1, 2, 3, None]),
        "when": st.sampled_from([0, 1, None]),
    }
)
bounds = st.sampled_from([(0.0, 10.0), (-3.0, 4.0), (2.0, 2.25), (-1e-3, 7.7)])
many = st.lists(rows, max_size=4)


@st.composite
def questions(draw):
    """A table's public facts and a query over them, as a function of the rows."""
    person = draw(st.booleans())
    limit = draw(st.integers(1, 3))
    order = draw(st.sampled_from([None, "when", ["when", "place"]]))
    fill = draw(st.sampled_from(["omit", {"x": 3}, {"x": 3, "y": 1e9}, {"x": -2.5, "y": 1, "kind": "b"}]))
    stated = {"x": draw(bounds), "y": draw(bounds)}
    relation = draw(st.sampled_from(["add_remove", "replace"]))
    max_rows = draw(st.sampled_from([2**32, 2**32, 10, 2**40]))
    asked = {
        "count": draw(st.booleans()),
        "sum": draw(st.sampled_from([[], ["x"], ["x", "y"]])),
        "mean": draw(st.sampled_from([[], ["y"], ["x", "y"]])),
        "variance": draw(st.sampled_from([[], ["x"]])),
        "std": draw(st.sampled_from([[], ["y"]])),
        "covariance": draw(st.sampled_from([[], ["x", "y"]])),
        "histogram": draw(st.sampled_from([{}, {"x": [0, 2.5, 5]}, {"kind": ["a", "b"], "y": [0, 1]}])),
        "by": draw(st.sampled_from([{}, {}, {"kind": ["b", "a", "none"]}, {"place": [1, 2], "kind": ["a", "b"]}])),
    }
    if not any(asked[name] for name in asked if name != "by"):
        asked["count"] = True
    if isinstance(fill, dict) and "y" not in fill and draw(st.booleans()):
        fill = {**fill, "y": 0.0}

    def make(data):
        frame = pl.DataFrame(data, schema=SCHEMA)
        unit = tables.Person("user", max_rows=limit, order_by=order) if person else "row"
        table = tables.Table(
            frame, bounds=stated, unit=unit, neighbours=relation, missing=fill, max_rows=max(max_rows, limit)
        )
        return table.query(**asked)

    return person, relation, make


def _of(user, data):
    return [{**row, "user": user} for row in data]


def _inside(query, before, after):
    """Whether the change lies in every set that the query derives, in whole units and as the floats that are passed."""
    change = np.abs(np.array(after, dtype=object) - np.array(before, dtype=object)) * query.units
    limits = [item.size * query.table.max_rows for item in query.layout.items]
    sizes = [len(item.names) * len(query.cells) for item in query.layout.items]
    held = np.repeat(np.array(limits, dtype=object), sizes)
    passed = [
        np.array([float(v) for v in np.clip(np.array(s, dtype=object), -held, held)]) * query.units
        for s in (before, after)
    ]
    for moved in (change.astype(float), np.abs(passed[1] - passed[0])):
        for s in query.sensitivities:
            parts = np.split(moved, np.cumsum(sizes)[:-1])
            order = s.norm or 1
            norms = [np.linalg.norm(part, order) for part in parts]
            # The norm itself is computed in floats: a few units in the last place are its own.
            if not all(norm <= limit * (1 + 1e-14) for norm, limit in zip(norms, s.limits, strict=True)):
                return False
    return True


@settings(max_examples=250)
@given(questions(), st.lists(many, max_size=3), many, many)
def test_one_person_moves_the_exact_sums_within_the_derived_set(question, others, old, new):
    person, relation, make = question
    if not person:
        old, new = old[:1], new[:1]
    rest = [row for user, data in enumerate(others) for row in _of(user + 1, data)]
    if relation == "replace":
        if not person and len(old) != len(new):
            return  # with rows as units, replacing leaves their number as it was
        first, second = [*rest, *_of(0, old)], [*_of(0, new), *rest]
    else:
        first, second = rest, [*_of(0, new), *rest]
    queries = make(first), make(second)
    sums = [query.exact_sums().tolist() for query in queries]
    assert sums == [scan(query, data) for query, data in zip(queries, (first, second), strict=True)]
    assert queries[0].sensitivities == queries[1].sensitivities
    assert _inside(queries[0], *sums)


@given(
    st.floats(-1e12, 1e12),
    st.floats(1e-9, 1e12),
    st.floats(allow_nan=False),
    st.sampled_from([1, 1000, 2**32, 2**40]),
)
def test_every_value_lies_between_the_integers_of_the_bounds(low, width, value, max_rows):
    high = low + width
    if not low < high:
        return
    largest = largest_unit(max_rows)
    grid = Grid.of("x", (low, high), largest)
    assert grid.least <= grid.integer(value) <= grid.most
    assert max(abs(grid.least), abs(grid.most)) <= largest
    assert largest * max_rows <= 2**62
    if low <= value <= high:
        assert abs(grid.integer(value) * grid.step + grid.middle - value) <= grid.step / 2 + 1e-15 * max(
            abs(low), abs(high)
        )


@given(st.integers(0, 2**62), st.integers(0, 2**31), st.integers(40, 62))
def test_the_slack_covers_the_rounding_of_integers_to_floats(start, change, bits):
    largest = 2**bits
    low, high = min(start, largest), min(start + change, largest)
    assert int(float(high)) - int(float(low)) <= high - low + conversion_slack(largest)


@pytest.mark.parametrize("relation", ["add_remove", "replace"])
@pytest.mark.parametrize("limit", [None, 1, 3])
@pytest.mark.parametrize("by", [{}, {"kind": ["a", "b"]}])
@pytest.mark.parametrize("fill", ["omit", {"x": 3, "y": 1}])
def test_some_person_attains_every_bound(relation, limit, by, fill):
    unit = "row" if limit is None else tables.Person("user", max_rows=limit)
    number = limit or 1
    asked = {"count": True, "mean": ["x", "y"], "covariance": ["x", "y"], "histogram": {"x": [-9, 0, 9]}, "by": by}
    corners = [(x, y) for x in (-3.0, 1.0, 5.0) for y in (1.0, 1.5, 2.0)]  # the middles make squares least
    people = [[]] if relation == "add_remove" or limit else []
    people += [
        _of(0, [{"x": x, "y": y, "kind": kind, "place": 1, "when": 0}] * number) for x, y in corners for kind in "ab"
    ]
    if fill == "omit":
        people.append(_of(0, [{"x": None, "y": None, "kind": "a", "place": 1, "when": 0}] * number))

    def make(data):
        stated = {"x": (-3, 5), "y": (1, 2)}
        frame = pl.DataFrame(data, schema=SCHEMA)
        return tables.Table(frame, bounds=stated, unit=unit, neighbours=relation, missing=fill).query(**asked)

    queries = [make(data) for data in people]
    sums = [query.exact_sums() for query in queries]
    first = queries[0]
    sizes = [len(item.names) * len(first.cells) for item in first.layout.items]
    pairs = [(a, b) for a in (sums[:1] if relation == "add_remove" else sums) for b in sums]
    assert all(_inside(first, a.tolist(), b.tolist()) for a, b in pairs)
    for s in first.sensitivities:
        parts = [np.split(np.abs(a - b) * first.units, np.cumsum(sizes)[:-1]) for a, b in pairs]
        largest = [max(np.linalg.norm(found[at], s.norm or 1) for found in parts) for at in range(len(sizes))]
        assert largest == pytest.approx(s.limits.tolist(), rel=1e-5)
