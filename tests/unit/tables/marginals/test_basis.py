"""M1: the integer basis is orthogonal, and a table is the sum of its blocks."""

from fractions import Fraction
from itertools import combinations

import numpy as np
import pandas as pd
import pytest

import inid
from inid.tables.questions.marginals import analyse, contrast_matrix, contrasts, square_norms, square_places, synthesise
from internals import module_with

basis = module_with("inid.tables.questions.marginals", "Contrasts")


@pytest.mark.parametrize("size", [*range(2, 20), 42, 63])
def test_the_rows_with_the_constant_are_an_orthonormal_basis_in_rationals(size):
    matrix, (squares, largest) = contrast_matrix(size), contrasts(size)
    assert largest == np.abs(matrix).max()
    assert np.array_equal(matrix @ matrix.T, np.diag(squares))
    assert not matrix.sum(axis=1).any()
    assert largest <= size / 2 + 1
    for x, y in combinations(range(min(size, 7)), 2):
        products = zip(matrix[:, x].tolist(), matrix[:, y].tolist(), squares.tolist(), strict=True)
        assert sum(Fraction(a * b, q) for a, b, q in products) == Fraction(-1, size)
    assert sum(Fraction(int(a) ** 2, int(q)) for a, q in zip(matrix[:, 0], squares, strict=True)) == 1 - Fraction(
        1, size
    )


def test_a_table_is_the_sum_of_its_blocks():
    table = np.random.default_rng(3).integers(0, 50, (3, 4, 2)).astype(float)
    found = np.zeros(table.shape)
    for number in range(4):
        for axes in combinations(range(3), number):
            margin = table.sum(axis=tuple(at for at in range(3) if at not in axes))
            found += synthesise(analyse(margin), table.shape, axes)
    assert np.allclose(found, table)


def test_squared_lengths_of_a_block_are_those_of_its_rows():
    sizes = (5, 3)
    rows = np.kron(contrast_matrix(5), contrast_matrix(3))
    (distinct, counts), which = square_norms(sizes), square_places(sizes)
    assert [distinct[at] for at in which] == np.square(rows).sum(axis=1).tolist()
    assert counts.tolist() == [list(which).count(at) for at in range(len(distinct))]
    assert square_norms(())[0] == (1,)


@pytest.mark.parametrize("size", [*range(2, 20), 63, 257])
def test_the_residuals_of_many_values_are_found_without_a_matrix(monkeypatch, size):
    """Whole numbers come out alike, to the last digit; what is made of them alike but for rounding."""
    rng = np.random.default_rng(size)
    table, block = rng.integers(0, 50, (size, 3, 2)).astype(float), rng.normal(size=(2, size - 1))
    found = []
    for dense in (10**6, 0):
        monkeypatch.setattr(basis, "_DENSE", dense)
        found.append((analyse(table), synthesise(block, (3, size, 4), (0, 1))))
    (one, two), (same, near) = found
    assert np.array_equal(one, same)
    assert np.allclose(two, near, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("budget", [inid.ApproxDP(1.0, 1e-6), inid.PureDP(1.0)])
def test_a_domain_of_a_hundred_thousand_values_is_planned_and_released(budget):
    """A square matrix of its values would take 74 GiB."""
    frame = pd.DataFrame({"place": [1, 5, 70_000], "sex": ["F", "M", "F"]})
    table = inid.tables.Table(frame, domains={"place": list(range(100_000)), "sex": ["F", "M"]})
    query = table.marginals([("place", "sex"), ("sex",)])
    result = query.release(query.plan(budget))
    assert len(result.answers) == 300_003 + 3
