"""Changing, adding or removing any one person moves the exact sums within the derived sensitivity set."""

import math

import numpy as np
import polars as pl
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from example_counts import examples
from inid import tables
from inid.fixed_point import Grid, conversion_slack, largest_unit
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
BOTH = {"place": tables.Categories([1, 3]), "x": [0, 5]}  # columns in two roles: categories or bins, and numbers


@st.composite
def questions(draw):
    """A table's public facts and a query over them, as a function of the rows."""
    person = draw(st.booleans())
    limit = draw(st.integers(1, 3))
    order = draw(st.sampled_from([None, "when", ["when", "place"]]))
    fill = draw(st.sampled_from(["omit", {"x": 3}, {"x": 3, "y": 1e9}, {"x": -2.5, "y": 1, "kind": "b"}]))
    stated = {"x": draw(bounds), "y": draw(bounds), "place": (0, 2)}
    relation = draw(st.sampled_from(["add_remove", "replace"]))
    max_rows = draw(st.sampled_from([2**32, 2**32, 10, 2**40]))
    asked = {
        "count": draw(st.booleans()),
        "sum": draw(st.sampled_from([[], ["x"], ["x", "y"]])),
        "mean": draw(st.sampled_from([[], ["y"], ["x", "y"], ["x", "place"]])),
        "variance": draw(st.sampled_from([[], ["x"]])),
        "std": draw(st.sampled_from([[], ["y"]])),
        "covariance": draw(st.sampled_from([[], ["x", "y"]])),
        "histogram": draw(st.sampled_from([{}, {"x": [0, 2.5, 5]}, {"kind": ["a", "b"], "y": [0, 1]}, BOTH])),
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
        return table.statistics(**asked)

    return person, relation, make


def _of(user, data):
    return [{**row, "user": user} for row in data]


def _inside(query, before, after, sets):
    """Whether the change lies in every one of these sets, in whole units and as the floats that are passed."""
    change = np.abs(np.array(after, dtype=object) - np.array(before, dtype=object)) * query.units
    limits = [item.size * query.table.max_rows for item in query.layout.items]
    sizes = [len(item.names) * len(query.cells) for item in query.layout.items]
    held = np.repeat(np.array(limits, dtype=object), sizes)
    passed = [
        np.array([float(v) for v in np.clip(np.array(s, dtype=object), -held, held)]) * query.units
        for s in (before, after)
    ]
    for moved in (change.astype(float), np.abs(passed[1] - passed[0])):
        for s in sets:
            assert s.dimension == moved.size
            parts = np.split(moved, np.cumsum(sizes)[:-1])
            order = {"ellipsoid": 2, "box": 1}.get(s.kind, s.norm)
            norms = np.array([np.linalg.norm(part, order) for part in parts])
            # The norm itself is computed in floats: a few units in the last place are its own.
            if not (norms <= s.limits * (1 + 1e-14)).all():
                return False
            still = s.limits == 0
            if s.kind == "ellipsoid" and not np.linalg.norm(norms[~still] / s.limits[~still]) <= 1 + 1e-14:
                return False
    return True


def _all_sets(query):
    """Every set that the query derives: each sum in turn matters most to those that are shaped for weights."""
    number = len(query.layout.items)
    shapes = [np.ones(number), *(1 + 1e4 * np.eye(number))]
    return [
        *query.sensitivities,
        *(s for w in shapes for s in query.all_sensitivities(w.tolist()) if s.kind == "ellipsoid"),
    ]


@examples(some=100, many=250)
@given(questions(), st.lists(many, max_size=3), many, many, st.data())
def test_one_person_moves_the_exact_sums_within_the_derived_set(question, others, old, new, data):
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
    assert sums == [scan(query, told) for query, told in zip(queries, (first, second), strict=True)]
    weights = [10.0 ** data.draw(st.integers(-300, 300)) for _ in queries[0].layout.items]
    sets, others = (query.all_sensitivities(weights) for query in queries)
    assert sets == others
    assert _inside(queries[0], *sums, sets)


@example(1e15, 1.0, 1e15 + 0.5, 2**32)  # floats are coarser than the grid would be
@example(-(2.0**52), 1.0, -(2.0**52) + 1, 1)
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
    assert low * grid.factor - grid.offset >= 0  # below 0, cutting off the fraction would not be floor
    assert grid.size == max(abs(grid.least), abs(grid.most)) <= largest / 2
    assert grid.most + grid.below <= largest
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
        return tables.Table(frame, bounds=stated, unit=unit, neighbours=relation, missing=fill).statistics(**asked)

    queries = [make(data) for data in people]
    sums = [query.exact_sums() for query in queries]
    first = queries[0]
    sizes = [len(item.names) * len(first.cells) for item in first.layout.items]
    pairs = [(a, b) for a in (sums[:1] if relation == "add_remove" else sums) for b in sums]
    sets = _all_sets(first)
    assert all(_inside(first, a.tolist(), b.tolist(), sets) for a, b in pairs)
    for s in first.sensitivities:
        parts = [np.split(np.abs(a - b) * first.units, np.cumsum(sizes)[:-1]) for a, b in pairs]
        largest = [max(np.linalg.norm(found[at], s.norm or 1) for found in parts) for at in range(len(sizes))]
        assert largest == pytest.approx(s.limits.tolist(), rel=1e-5)


@pytest.mark.parametrize("limit", [None, 3])
@pytest.mark.parametrize("by", [{}, {"kind": ["a", "b"]}])
@pytest.mark.parametrize(
    ("asked", "fill"),
    [
        ({"mean": ["x"]}, "omit"),
        ({"variance": ["x"]}, "omit"),
        ({"mean": ["x", "y"]}, {"x": 3, "y": 1}),
        ({"covariance": ["x", "y"]}, {"x": 3, "y": 1}),
    ],
)
def test_some_person_attains_the_joint_bound(limit, by, asked, fill):
    unit = "row" if limit is None else tables.Person("user", max_rows=limit)
    number = limit or 1
    people = [
        _of(0, [{"x": x, "y": y, "kind": kind, "place": 1, "when": 0}] * number)
        for x in (-3.0, 1.0, 5.0, None)
        for y in (1.0, 1.5, 2.0)
        for kind in "ab"
    ]
    people += [[]] if limit else []

    def make(data):
        table = tables.Table(
            pl.DataFrame(data, schema=SCHEMA),
            bounds={"x": (-3, 5), "y": (1, 2)},
            unit=unit,
            neighbours="replace",
            missing=fill,
            max_rows=2**20,
        )
        return table.statistics(**asked, by=by)

    queries = [make(data) for data in people]
    first, sums = queries[0], [query.exact_sums() for query in queries]
    sets = _all_sets(first)
    assert all(_inside(first, a.tolist(), b.tolist(), sets) for a in sums for b in sums)
    joint = [s for s in sets if s.kind == "ellipsoid"]
    whole = limit is None and not by and fill != "omit"  # every row adds to everything
    # Then sums can all move by their widths: a box. With products the constant, which stays, keeps E8 short of 1: a
    # little with equal weights, much when most of the weight lies on a sum.
    assert len(joint) == (0 if whole and "mean" in asked else 1 + len(first.layout.items))
    for s in joint[:1] if whole else joint:
        radii = np.repeat(s.limits, len(first.cells))
        moves = [(a - b) * first.units for a in sums for b in sums]
        largest = max(np.linalg.norm(move[radii > 0] / radii[radii > 0]) for move in moves)
        # Products round to a coarse grid.
        assert largest == pytest.approx(1, abs=0.2 if whole else 2e-3)
