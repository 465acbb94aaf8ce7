"""Sums and sums of squares of columns in [-1, 1]: their sensitivity and their exact values."""

import numpy as np

from inid.arguments import Floats
from inid.learn.public_units import Units, exact_floats
from inid.sets import Neighbours, Sensitivity

__all__ = ["column_reach", "column_sensitivity", "exact_columns"]


def column_reach(width: int, neighbours: Neighbours) -> Floats:
    """How far one row moves the sums of `width` columns, then the sums of their squares.

    z lies in [-1, 1] and z^2 in [0, 1]. A row that becomes nothing, is added or removed moves both by at most 1; a row
    that is replaced moves the sum by at most 2, the width of the range, and the sum of squares by at most 1.
    """
    return np.repeat([2.0 if neighbours == "replace" else 1.0, 1.0], width)


def column_sensitivity(width: int, neighbours: Neighbours) -> Sensitivity:
    """The box of `column_reach`, and the number of rows, which moves by 1, where it is secret.

    >>> column_sensitivity(2, "add_remove").dimension, column_sensitivity(2, "replace").dimension
    (5, 4)
    """
    count = [1.0] * (neighbours == "add_remove")
    return Sensitivity.box(np.append(column_reach(width, neighbours), count), neighbours=neighbours)


def exact_columns(values: Floats, units: Units, *, count: bool) -> Floats:
    """The exact sums and sums of squares in the units given, and the number of rows."""
    width = units.size.size
    sums, squares = np.zeros(width, np.int64), np.zeros(width, np.int64)
    for whole in units.chunks(values):
        sums += whole.sum(axis=0).astype(np.int64)
        squares += np.einsum("ij,ij->j", whole, whole).astype(np.int64)
    step = units.grid.step
    return np.concatenate([exact_floats(sums) * step, exact_floats(squares) * step**2, [float(len(values))] * count])
