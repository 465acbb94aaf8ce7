"""Sums along a row whose bits depend on this row alone.

One row must not decide how another is read. A last bit is enough for that: it moves a row to another cluster, to
another class, or to the next whole number of steps. NumPy's sums along a row round by the layout in memory and by the
number of rows (a row by itself is added pairwise, beside another of a column-major array entry after entry), and BLAS
rounds by the place of a row among the others.

Here entries are added column after column: one rounded sum for each, an operation of IEEE 754, in the same order for
every row, wherever it stands.
"""

import numpy as np

from inid.arguments import Floats

__all__ = ["row_products", "row_sums"]

_ENTRIES, _LEAST = 1 << 16, 512  # entries at a time, which stay in the second-level cache; rows at a time, at least


def row_sums(terms: Floats) -> Floats:
    """The sum of each row.

    >>> row_sums(np.array([[1.0, 2.0], [3.0, 4.0]])).tolist()
    [3.0, 7.0]
    """
    total = np.zeros(len(terms))
    with np.errstate(all="ignore"):  # whatever the caller has set, no error may depend on an entry
        for column in terms.T:
            total += column
    return total


def row_products(rows: Floats, weights: Floats) -> Floats:
    """`rows @ weights.T`: the product of each row with a vector, or with each line of a matrix.

    >>> row_products(np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([10.0, 1.0])).tolist()
    [12.0, 34.0]
    >>> row_products(np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([[10.0, 1.0], [0.0, 1.0]])).tolist()
    [[12.0, 2.0], [34.0, 4.0]]
    """
    found = np.zeros((len(rows), *weights.shape[:-1]))
    size = max(_ENTRIES // max(rows.shape[1], 1), _LEAST)
    with np.errstate(all="ignore"):
        for start in range(0, len(rows), size):
            part = found[start : start + size]
            for column, weight in zip(rows[start : start + size].T, weights.T, strict=True):
                part += np.multiply.outer(column, weight)
    return found
