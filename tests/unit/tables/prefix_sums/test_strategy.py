"""Strategies for prefixes: exact sensitivities by brute force over neighbours, broken twins, accuracy as published."""

import itertools
import math

import numpy as np
import pandas as pd
import polars as pl
import pytest

import inid
from inid import tables
from inid.tables.questions.prefix_sums import best_strategy, strategy

KINDS = ["toeplitz", "counts", "tree4"]


def vectors(matrix, cells):
    """What one row adds: a column of the strategy in one cell, nothing elsewhere; exact integers."""
    size = matrix.shape[1]
    found = []
    for cell, level in itertools.product(range(cells), range(size)):
        whole = [0] * (cells * matrix.shape[0])
        whole[cell * matrix.shape[0] : (cell + 1) * matrix.shape[0]] = matrix[:, level].tolist()
        found.append(whole)
    return [*found, [0] * len(found[0])]  # a row may lie in no cell


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("cells", [1, 3])
@pytest.mark.parametrize("replace", [False, True])
def test_the_radius_holds_every_neighbour_and_is_attained(kind, cells, replace):
    made = strategy(kind, 7)
    rows = vectors(made.matrix, cells)
    others = rows if replace else [rows[-1]]
    pairs = [[a - b for a, b in zip(one, two, strict=True)] for one in rows for two in others]
    squares = max(sum(d * d for d in change) for change in pairs)
    total = max(sum(map(abs, change)) for change in pairs)
    radius = made.radius(2, replace=replace, cells=cells)
    assert int(radius**2 + 1) > squares
    assert radius == pytest.approx(math.sqrt(squares))
    l1 = made.radius(1, replace=replace, cells=cells)
    assert l1 >= total
    assert l1 == total or cells == 1  # in one cell two columns may share a part


def test_the_broken_twin_that_takes_the_norm_of_the_unrounded_root_is_caught():
    """Rounding changes the norm of a column: for some sizes the root's own norm is too small."""
    caught = []
    for size in range(2, 60):
        root = np.cumprod([1.0, *((2 * k + 1) / (2 * k + 2) for k in range(size - 1))])
        twin = 256 * math.sqrt(float(root @ root))
        exact = max(sum(int(x) ** 2 for x in column) for column in strategy("toeplitz", size).matrix.T)
        assert strategy("toeplitz", size).radius(2, replace=False, cells=1) ** 2 >= exact
        caught.append(twin**2 < exact)
    assert any(caught)


def test_the_broken_twin_that_replaces_like_it_adds_is_caught():
    made = strategy("toeplitz", 20)
    columns = [[int(x) for x in column] for column in made.matrix.T]
    apart = max(
        sum((a - b) ** 2 for a, b in zip(one, two, strict=True)) for one, two in itertools.combinations(columns, 2)
    )
    assert apart > made.radius(2, replace=False, cells=1) ** 2 * 1.001
    assert apart <= made.radius(2, replace=True, cells=1) ** 2


def test_prefixes_are_exact_without_noise_and_as_accurate_as_published():
    counts = np.arange(100) % 7
    for kind in KINDS:
        made = strategy(kind, 100)
        assert made.prefixes @ (made.matrix @ counts) == pytest.approx(np.cumsum(counts), abs=1e-8)
        assert made.variances == pytest.approx(np.square(made.prefixes).sum(axis=1))
    toeplitz = best_strategy(100, "gaussian", replace=False, cells=1)
    assert toeplitz.kind == "toeplitz"
    assert toeplitz.radius(2, replace=False, cells=1) ** 2 * toeplitz.variances.mean() == pytest.approx(5.6, abs=0.05)
    plain = strategy("counts", 100)
    assert plain.radius(2, replace=False, cells=1) ** 2 * plain.variances.mean() == pytest.approx(50.5)


OTHERS = [(7, "a", 0), (7, "b", 2), (8, "b", 1), (8, "b", 1), (9, "a", 2)]
CELLS = [("a", 0), ("a", 2), ("b", 1), ("z", 1), ("a", 9)]


def query_of(rows, limit, neighbours="add_remove", engine=pd.DataFrame):
    frame = pd.DataFrame(rows, columns=["id", "key", "size"])
    table = tables.Table(
        engine(frame),
        unit=tables.Person("id", limit),
        neighbours=neighbours,
        domains={"key": ["a", "b"], "size": tables.Ordered([0, 1, 2])},
    )
    return table.quantiles(cdf={"size": [(), ("key",)]})


@pytest.mark.parametrize("mechanism", ["gaussian", "laplace"])
@pytest.mark.parametrize("neighbours", ["add_remove", "replace"])
@pytest.mark.parametrize("limit", [1, 2])
def test_no_person_leaves_the_set(limit, neighbours, mechanism):
    """All people with up to one row more than count, unknown keys and levels among them, through the engine."""
    plan = query_of(OTHERS, limit, neighbours).plan(inid.ApproxDP(1.0, 1e-6), mechanism=mechanism)
    sizes = np.cumsum([0, *plan.noise.sensitivity.counts])
    empty = query_of(OTHERS, limit).exact(plan)
    moved = []
    for number in range(limit + 2):
        for rows in itertools.combinations_with_replacement(CELLS, number):
            own = [(1, *row) for row in rows]
            query = query_of([*OTHERS, *own], limit, engine=pl.DataFrame)  # quicker than pandas with a few rows
            moved.append(query.exact(plan) - empty)
    changes = [one - two for one in moved for two in moved] if neighbours == "replace" else moved
    for at, limit_of_group in enumerate(plan.noise.sensitivity.limits.tolist()):
        parts = [change[sizes[at] : sizes[at + 1]] for change in changes]
        norms = [np.abs(part).sum() if mechanism == "laplace" else np.sqrt(np.square(part).sum()) for part in parts]
        assert max(norms) <= limit_of_group
        assert max(norms) >= limit_of_group * 0.99 or neighbours == "replace"
