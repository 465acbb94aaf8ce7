"""The derived sensitivity sets, statistic by statistic, against values worked out by hand."""

import math

import numpy as np
import pandas as pd
import pytest

import inid
from inid import tables
from inid.fixed_point import conversion_slack
from inid.sets import replaced_products
from inid.tables.questions.statistics import narrowest

FRAME = pd.DataFrame({"x": [1.0], "y": [2.0], "kind": ["a"], "user": [1]})
SLACK = 2.0**-20  # the rounding of large sums to floats costs less than one part in a million


def limits(asked, *, neighbours="add_remove", rows=None, fill=None, norm=None, **facts):
    unit = "row" if rows is None else tables.Person("user", max_rows=rows)
    missing = "omit" if fill is None else fill
    table = tables.Table(
        FRAME, bounds={"x": (0, 10), "y": (-2, 2)}, unit=unit, neighbours=neighbours, missing=missing, **facts
    )
    sets = table.statistics(**asked).sensitivities
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
        query = tables.Table(FRAME, bounds={}).statistics(count=True, by={"kind": keys})
        scales.append(set(query.plan(budget, mechanism="laplace").noise.scales.tolist()))
    assert scales == [{1.0}, {1.0}]


def test_gaussian_noise_takes_the_euclidean_set_and_laplace_the_other():
    table = tables.Table(FRAME, bounds={}, neighbours="replace")
    query = table.statistics(histogram={"kind": list("abcdefgh")})
    assert query.plan(inid.PureDP(1.0), mechanism="laplace").noise.sensitivity.norm == 1
    assert query.plan(inid.GaussianDP(0.5), mechanism="gaussian").noise.sensitivity.norm == 2


def test_sums_that_floats_hold_exactly_need_no_slack():
    assert limits({"sum": ["y"]}, fill=FILL, max_rows=2**20) == {"sum(y)": 2.0}
    assert limits({"sum": ["y"]}, fill=FILL)["sum(y)"] == 2.0 + conversion_slack(2**61) * 2.0**-28


@pytest.mark.parametrize(
    ("neighbours", "rows", "touched"), [("add_remove", 3, 3), ("replace", 3, 6), ("replace", None, 2)]
)
def test_every_cell_that_a_person_touches_may_round(neighbours, rows, touched):
    asked = {"sum": ["y"], "by": {"kind": ["a", "b"]}}
    facts = {"neighbours": neighbours, "rows": rows, "fill": FILL}
    slack = conversion_slack(2**60) * 2.0**-27  # the grid is the same, with few rows or many
    few, many = (limits(asked, norm=1, max_rows=number, **facts)["sum(y)"] for number in (2**20, 2**32))
    assert many == few + touched * slack
    few, many = (limits(asked, norm=2, max_rows=number, **facts)["sum(y)"] for number in (2**20, 2**32))
    assert many >= few + touched * slack


@pytest.mark.parametrize(
    ("asked", "fill"),
    [
        ({"mean": ["y"]}, "omit"),
        ({"mean": ["y"], "by": {"kind": ["a", "b"]}}, "omit"),
        ({"mean": ["y"], "by": {"kind": ["a", "b"]}}, FILL),
        ({"variance": ["y"]}, "omit"),
        ({"variance": ["y"]}, FILL),
    ],
)
def test_joint_sets_leave_room_for_rounding(asked, fill):
    radii = []
    for number in (2**20, 2**32):
        table = tables.Table(
            FRAME, bounds={"x": (0, 10), "y": (-2, 2)}, neighbours="replace", missing=fill, max_rows=number
        )
        query = table.statistics(**asked)
        (s,) = (s for s in query.all_sensitivities([1.0] * len(query.layout.items)) if s.kind == "ellipsoid")
        radii.append(dict(zip(s.labels, s.limits.tolist(), strict=True))["sum(y)"])
    touched = 2 if "by" in asked else 1
    assert radii[1] >= radii[0] + touched * conversion_slack(2**60) * 2.0**-27 * (1 - 1e-9)


def test_sums_and_products_round_to_grids_of_their_own():
    # A sum lies up to a step of each grid away from that which goes with the products, in the old row and in the new.
    table = tables.Table(FRAME, bounds={"x": (0, 10)}, neighbours="replace", missing={"x": 0}, max_rows=2**20)
    query = table.statistics(variance=["x"])
    *_, s = query.all_sensitivities([1.0, 1.0, 1.0])
    radii = dict(zip(s.labels, s.limits.tolist(), strict=True))
    size, steps = query.layout.factors["x"].size, query.layout.factors["x"].step + query.layout.values["x"].step
    bound = size * query.layout.factors["x"].step
    exact = replaced_products(np.array([1.0, bound]), np.array([1.0, bound]), np.array([1, 1]), np.array([0, 1]))
    assert radii["count"] == 0
    for name, radius in zip(("sum(x)", "product(x,x)"), exact.tolist(), strict=True):
        assert radii[name] / radius == pytest.approx(1 + 2 * steps / exact[0], rel=1e-11)


def errors(asked, **facts):
    """The planned error of Gaussian noise, and what it would be with items bounded one by one."""
    table = tables.Table(FRAME, bounds={"x": (0, 10), "y": (-2, 2)}, rows=1000, neighbours="replace", **facts)
    query = table.statistics(**asked)
    plan = query.plan(BUDGET, mechanism="gaussian")
    alone = [inid.plan(s, BUDGET, mechanism="gaussian", weights=plan.noise.weights) for s in query.sensitivities]
    return plan, min(other.error for other in alone)


BUDGET = inid.GaussianDP(0.5)


def test_a_row_that_changes_the_count_moves_its_sum_half_as_far():
    # One column with half-range B, weights 1 and B/2: items one by one (B/2 + 2B)^2 = 6.25 B^2; together the largest
    # (sqrt(1 - t)/2 + sqrt(1 + 3 t))^2 B^2 over t, at t = 35/39, is 13/3 B^2.
    plan, alone = errors({"mean": ["x"]})
    assert plan.noise.sensitivity.kind == "ellipsoid"
    assert plan.error / alone == pytest.approx((13 / 3) / 6.25, rel=1e-5)
    plan.verify()


def test_items_to_which_every_row_adds_stay_a_box():
    plan, alone = errors({"mean": ["x", "y"]}, missing=FILL)
    assert plan.noise.sensitivity.kind == "box"
    assert plan.error == alone


@pytest.mark.parametrize(
    ("asked", "facts", "most"),
    [
        ({"covariance": ["x", "y"]}, {"missing": FILL}, 0.6),  # E8
        ({"variance": ["x"]}, {"missing": FILL}, 0.8),
        ({"mean": ["x", "y"]}, {"missing": FILL, "unit": tables.Person("user", 3)}, 0.8),
        ({"count": True, "mean": ["x"], "by": {"kind": ["a", "b"]}}, {"missing": FILL}, 0.8),
    ],
)
def test_what_is_bounded_together_costs_less(asked, facts, most):
    plan, alone = errors(asked, **facts)
    assert plan.noise.sensitivity.kind == "ellipsoid"
    assert plan.error <= most * alone


def test_adding_or_removing_needs_no_joint_set():
    query = tables.Table(FRAME, bounds={"x": (0, 10)}).statistics(covariance=["x"], by={"kind": ["a", "b"]})
    assert query.all_sensitivities([1.0] * 3) == query.sensitivities


@pytest.mark.parametrize("neighbours", ["add_remove", "replace"])
def test_groups_that_hold_others_are_not_planned_with(neighbours):
    """Under add_remove an item has one radius in both norms; under replace two cells move, and l2 is the smaller."""
    table = tables.Table(FRAME, bounds={"x": (0, 10)}, neighbours=neighbours)
    sets = table.statistics(count=True, mean=["x"], by={"kind": ["a", "b"]}).sensitivities
    assert [s.norm for s in sets] == [1, 2]
    assert [s.norm for s in narrowest(sets)] == ([1] if neighbours == "add_remove" else [1, 2])
    wide = inid.Sensitivity.groups([2, 2], l2=[3.0, 1.0])
    assert narrowest([inid.Sensitivity.groups([2, 2], l1=[2.0, 2.0]), wide])[1] is wide  # neither holds the other
    errors = [inid.plan(s, BUDGET).log2_error for s in sets]
    assert min(errors) == min(inid.plan(s, BUDGET).log2_error for s in narrowest(sets))
