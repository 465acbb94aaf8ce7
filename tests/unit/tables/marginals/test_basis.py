"""M1: the integer basis is orthogonal, and a table is the sum of its blocks."""

from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest

from inid.tables.marginals.basis import analyse, contrasts, square_norms, square_places, synthesise


@pytest.mark.parametrize("size", [*range(2, 20), 42, 63])
def test_the_rows_with_the_constant_are_an_orthonormal_basis_in_rationals(size):
    matrix, squares, largest = contrasts(size)
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
    rows = np.kron(contrasts(5).matrix, contrasts(3).matrix)
    (distinct, counts), which = square_norms(sizes), square_places(sizes)
    assert [distinct[at] for at in which] == np.square(rows).sum(axis=1).tolist()
    assert counts.tolist() == [list(which).count(at) for at in range(len(distinct))]
    assert square_norms(())[0] == (1,)
