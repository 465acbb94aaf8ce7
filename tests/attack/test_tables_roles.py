"""A column of a CSV file may be a number, a category and a key at once: every pair of rows, in rationals."""

from fractions import Fraction
from itertools import pairwise, product

import numpy as np
import pytest

import inid
from inid import tables

TEXTS = ["refused", "10", "", "0", "3.5", "nan", "true"]


def queries(tmp_path, asked, texts=TEXTS, **facts):
    """One query per row that the file could hold alone."""
    path = tmp_path / "people.csv"
    made = []
    for x, y in product(texts, texts[:3]):
        path.write_text(f"x,y,u\n{x},{y},1\n")
        query = tables.Table(path, bounds={"x": (0, 10), "y": (-4, 8)}, neighbours="replace", **facts).statistics(
            **asked
        )
        made.append((query, query.exact_sums().tolist()))
    return made


def spent(s, change, sizes):
    """The largest squared share of the set's limits that a change takes, in rationals; 1 is what was promised."""
    starts = [0, *np.cumsum(sizes).tolist()]
    parts = [change[a:b] for a, b in pairwise(starts)]
    limits = [Fraction(float(limit)) for limit in s.limits]
    if s.kind == "box":
        norms = [max(map(abs, part)) ** 2 for part in parts]
    elif s.norm == 1:
        norms = [sum(map(abs, part)) ** 2 for part in parts]
    else:
        norms = [sum(d * d for d in part) for part in parts]
    assert not any(norm for norm, limit in zip(norms, limits, strict=True) if not limit)
    shares = [norm / limit**2 for norm, limit in zip(norms, limits, strict=True) if limit]
    return sum(shares) if s.kind == "ellipsoid" else max(shares, default=Fraction(0))


ROLES = {
    "category": {"mean": ["x"], "histogram": {"x": ["refused", "10"]}},
    "category and bins": {"variance": ["x"], "histogram": {"x": [0, 5, 10], "y": ["refused", "10", ""]}},
    "whole-number category": {"mean": ["x", "y"], "histogram": {"x": tables.Categories([0, 10])}},
    "key": {"count": True, "mean": ["x"], "by": {"x": ["refused", "10", "3.5"]}},
    "key and category": {"mean": ["x"], "histogram": {"x": ["refused", "10"]}, "by": {"y": ["refused", "10"]}},
    "covariance": {"covariance": ["x", "y"], "histogram": {"x": ["refused", "10"]}},
}


@pytest.mark.parametrize("unit", ["row", tables.Person("u", 1)], ids=["row", "person"])
@pytest.mark.parametrize(
    ("asked", "fill"),
    [(asked, "omit") for asked in ROLES.values()] + [(ROLES["key"], {"x": 2}), (ROLES["covariance"], {"y": 2})],
    ids=[*ROLES, "key, filled", "covariance, one filled"],
)
def test_no_pair_of_rows_moves_the_sums_further_than_any_derived_set_allows(tmp_path, asked, unit, fill):
    made = queries(tmp_path, asked, unit=unit, missing=fill)
    first = made[0][0]
    items = first.layout.items
    sizes = [len(item.names) * len(first.cells) for item in items]
    units = [Fraction(float(unit)) for unit in first.units]
    rows = {tuple(sums) for _, sums in made}
    rows |= {(0,) * len(units)} if unit != "row" else set()  # a person may have no rows
    shapes = [np.ones(len(items)), *(1 + 1e3 * np.eye(len(items)))]
    sets = {repr(s): s for w in shapes for s in first.all_sensitivities(w.tolist())}.values()
    assert any(s.kind == "ellipsoid" for s in sets)
    for a, b in product(rows, rows):
        change = [(p - q) * unit for p, q, unit in zip(a, b, units, strict=True)]
        for s in sets:
            assert spent(s, change, sizes) <= 1, s.kind


def test_a_refusal_that_becomes_a_number_moves_two_cells(tmp_path):
    """Two cells of the histogram move although the number is missing in one of the rows: 1.49975 times the promise."""
    made = queries(tmp_path, ROLES["category"], texts=["refused", "10", ""])
    query = made[0][0]
    plan = query.plan(inid.GaussianDP(1.0), mechanism="gaussian")
    scales = plan.noise.scales
    largest = max(
        float(np.sum(((np.array(a) - np.array(b)) * query.units / scales) ** 2)) for _, a in made for _, b in made
    )
    assert 0.5 < largest <= 1
