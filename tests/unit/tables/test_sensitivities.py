"""The derived sensitivity sets, statistic by statistic, against values worked out by hand."""

import math

import pandas as pd
import pytest

import inid
from inid import tables
from inid.tables.grids import conversion_slack

FRAME = pd.DataFrame({"x": [1.0], "y": [2.0], "kind": ["a"], "user": [1]})
SLACK = 2.0**-20  # the rounding of large sums to floats costs less than one part in a million


def limits(asked, *, neighbours="add_remove", rows=None, fill=None, norm=None, **facts):
    unit = "row" if rows is None else tables.Person("user", max_rows=rows)
    missing = "omit" if fill is None else fill
    table = tables.Table(
        FRAME, bounds={"x": (0, 10), "y": (-2, 2)}, unit=unit, neighbours=neighbours, missing=missing, **facts
    )
    sets = table.query(**asked).sensitivities
    chosen = sets[0] if norm is None else next(s for s in sets if s.norm == norm)
    assert chosen.neighbours == neighbours
    return dict(zip(chosen.labels, chosen.limits.tolist(), strict=True))


def near(value):
    return pytest.approx(value, rel=SLACK)


FILL = {"x": 0, "y": 0}


@pytest.mark.parametrize(
    ("neighbours", "fill", "rows", "count", "own", "value"),
    [
        ("add_remove", None, None, 1, 1, 5),
        ("add_remove", FILL, None, 1, None, 5),
        ("add_remove", None, 3, 3, 3, 15),
        ("replace", None, None, 0, 1, 10),  # the number of rows is public, the number with a value is not
        ("replace", FILL, None, 0, None, 10),
        ("replace", None, 3, 3, 3, 30),  # a person may have any number of rows up to the limit
        ("replace", FILL, 3, 3, None, 30),
    ],
)
def test_counts_and_means_are_a_box(neighbours, fill, rows, count, own, value):
    found = limits({"count": True, "mean": ["x"]}, neighbours=neighbours, fill=fill, rows=rows)
    assert found.pop("count") == count
    assert found.pop("sum(x)") == near(value)
    assert found == ({} if own is None else {"count(x)": own})


@pytest.mark.parametrize(
    ("neighbours", "square", "product"), [("add_remove", 12.5, 10), ("replace", 25, 20)], ids=["add_remove", "replace"]
)
def test_squares_are_centred_once_more_and_products_reach_their_corners(neighbours, square, product):
    found = limits({"variance": ["x"], "covariance": ["x", "y"]}, neighbours=neighbours, fill=FILL)
    # On the coarser grid of products a bound may round by 2^-15 of half the range.
    assert found["product(x,x)"] == pytest.approx(square, rel=1e-3)
    assert found["product(x,y)"] == pytest.approx(product, rel=1e-3)
    assert found["product(y,y)"] == pytest.approx(square * 4 / 25, rel=1e-3)


@pytest.mark.parametrize(
    ("neighbours", "rows", "norm", "count", "value"),
    [
        ("add_remove", None, 1, 1, 5),
        ("add_remove", None, 2, 1, 5),
        ("add_remove", 4, 1, 4, 20),
        ("add_remove", 4, 2, 4, 20),  # all four rows may fall into one cell
        ("replace", None, 1, 2, 10),
        ("replace", None, 2, math.sqrt(2), 10),  # within one cell the sum moves by the whole range
        ("replace", 4, 1, 8, 40),
        ("replace", 4, 2, 4 * math.sqrt(2), 40),
    ],
)
def test_cells_of_groups_are_one_group_per_statistic(neighbours, rows, norm, count, value):
    asked = {"count": True, "mean": ["x"], "histogram": {"kind": ["a", "b"]}, "by": {"kind": ["a", "b", "c"]}}
    found = limits(asked, neighbours=neighbours, rows=rows, norm=norm)
    for name in ("count", "count(x)", "histogram(kind)"):
        assert found[name] == pytest.approx(count, rel=1e-15)
        assert found[name] >= count
    assert found["sum(x)"] == near(value)


def test_a_histogram_is_a_group_even_without_keys():
    asked = {"count": True, "histogram": {"x": [0, 1, 2, 3]}}
    assert limits(asked, norm=1) == {"count": 1, "histogram(x)": 1}
    assert limits(asked, norm=1, neighbours="replace") == {"count": 0, "histogram(x)": 2}
    assert limits(asked, norm=2, neighbours="replace")["histogram(x)"] == pytest.approx(math.sqrt(2), rel=1e-15)


def test_adding_cells_costs_nothing_within_a_statistic():
    # Parallel composition: each cell gets the noise that a single count would get.
    budget = inid.PureDP(1.0)
    scales = []
    for keys in (["a"], list("abcdefgh")):
        query = tables.Table(FRAME, bounds={}).query(count=True, by={"kind": keys})
        scales.append(set(query.plan(budget).noise.scales.tolist()))
    assert scales == [{1.0}, {1.0}]


def test_gaussian_noise_takes_the_euclidean_set_and_laplace_the_other():
    table = tables.Table(FRAME, bounds={}, neighbours="replace")
    query = table.query(histogram={"kind": list("abcdefgh")})
    assert query.plan(inid.PureDP(1.0)).noise.sensitivity.norm == 1
    assert query.plan(inid.GaussianDP(0.5), mechanism="gaussian").noise.sensitivity.norm == 2


def test_sums_that_floats_hold_exactly_need_no_slack():
    assert limits({"sum": ["y"]}, fill=FILL, max_rows=2**20) == {"sum(y)": 2.0}
    assert limits({"sum": ["y"]}, fill=FILL)["sum(y)"] == 2.0 + conversion_slack(2**61) * 2.0**-28
