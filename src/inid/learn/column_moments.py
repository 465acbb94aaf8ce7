"""Sums and sums of squares of columns in [-1, 1]: their sensitivity and their exact values."""

import numpy as np

from inid.arguments import Floats
from inid.learn.public_units import Units, exact_floats
from inid.sets import Neighbours, Sensitivity

__all__ = ["column_reach", "column_sensitivity", "exact_columns", "exact_entries", "likely_columns", "scaled_rows"]


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


def exact_columns(values: Floats, units: Units, *, count: bool, weights: Floats | None = None) -> Floats:
    """The exact sums and sums of squares in the units given, and the number of rows, or the sum of weights.

    With weights u in [0, 1] they are those of u z and u z^2, of which one row moves none further than without: each is
    the sum, or the sum of squares, of entries u z or sqrt(u) z, which lie in [-1, 1] as z does.
    """
    if weights is not None:
        each = (weights, np.sqrt(weights))
        both = [exact_columns(scaled_rows(values, units, one), units, count=False) for one in each]
        total = [exact_entries(weights)[0]] * count
        return np.concatenate([both[0][: units.size.size], both[1][units.size.size :], total])
    width = units.size.size
    sums, squares = np.zeros(width, np.int64), np.zeros(width, np.int64)
    for whole in units.chunks(values):
        sums += whole.sum(axis=0).astype(np.int64)
        squares += np.einsum("ij,ij->j", whole, whole).astype(np.int64)
    step = units.grid.step
    return np.concatenate([exact_floats(sums) * step, exact_floats(squares) * step**2, [float(len(values))] * count])


def scaled_rows(values: Floats, units: Units, factors: Floats) -> Floats:
    """Rows whose z is that of the given ones, held to [-1, 1], times a factor in [0, 1]: NaN stays NaN."""
    with np.errstate(all="ignore"):  # no warning may depend on a value
        z = np.clip((values - units.centre) / units.unit, -1.0, 1.0)
        return np.asarray(units.centre + units.unit * (z * factors[:, None]))


def exact_entries(entries: Floats) -> tuple[float, float]:
    """The exact sum, and the exact sum of squares, of entries in [0, 1]; one entry moves each by at most 1.

    >>> exact_entries(np.array([0.5, 1.0, np.nan, 7.0]))
    (2.5, 2.25)
    """
    ends = np.ones(1)
    held = np.clip(np.where(np.isnan(entries), 0.0, entries), 0.0, 1.0)[:, None]
    found = exact_columns(held, Units.of(-ends, ends, None, centre=True, scale=True), count=False)
    return float(found[0]), float(found[1])


def likely_columns(found: Floats, spread: Floats) -> tuple[Floats, Floats]:
    """The means and mean squares of columns in [-1, 1] that noisy ones suggest.

    Of a column that is uniform on [-1, 1] an entry has mean 0 and variance 1/3, its square mean 1/3 and variance 4/45.
    With these as what is thought beforehand of a mean and a mean square, and noise of variance s^2, the best linear
    guess is found / (1 + 3 s^2), and (found + 15/4 s^2) / (1 + 45/4 s^2): noise larger than the range says nothing.
    Columns would else be centred at one end of their bounds or the other, by chance.

    Args:
        found: The noisy means, then the mean squares.
        spread: The noise's standard deviation in each.

    >>> [one.tolist() for one in likely_columns(np.array([0.2, 0.1]), np.zeros(2))]
    [[0.2], [0.1]]
    >>> [one.round(3).tolist() for one in likely_columns(np.array([30.0, -40.0]), np.array([10.0, 100.0]))]
    [[0.1], [0.333]]
    """
    noise, width = spread**2, found.size // 2
    mean = found[:width] / (1 + 3 * noise[:width])
    square = (found[width:] + 15 / 4 * noise[width:]) / (1 + 45 / 4 * noise[width:])
    return np.clip(mean, -1.0, 1.0), np.clip(square, 0.0, 1.0)
