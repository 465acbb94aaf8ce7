"""Columns in public units, x = centre + unit z with z between -1 and 1, and sums of them whose every bit is decided.

Noise, clipping and steps are planned for z, so the user's units cost no accuracy. Each z is mapped to a whole number of
a public power of two (`inid.fixed_point`), so that sums are exact. Where the number of rows is private, the grid is
made for `MOST_ROWS` rows; beyond them sums are clipped to what a float holds exactly, which moves no two further apart.

Sums along a row (`row_sums`, `row_products`) must depend on that row alone: a last bit moves a row to another cluster
or class. NumPy rounds by the layout in memory and by the number of rows, BLAS by the place of a row. Here entries are
added column after column: one IEEE 754 sum for each, in the same order for every row.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from inid.arguments import Floats
from inid.fixed_point import Columns, fixed_columns, product_bits
from inid.noise import limits
from inid.planning import NoisePlan, StaircasePlan
from inid.sets import Neighbours, Sensitivity

MOST_ROWS = 2**27  # a secret number of rows beyond this loses accuracy, not privacy
_EXACT = 2**53  # float64 holds every whole number up to here
_ENTRIES, _FEWEST = 1 << 16, 512  # entries at a time, which stay in the second-level cache; rows at a time, at least
_LEAST_SCALE = 2.0**-38  # noise is drawn for answers of up to 2^39 scales at least


@dataclass(frozen=True)
class Units:
    """The units of some columns."""

    centre: Floats
    unit: Floats
    grid: Columns

    @classmethod
    def of(
        cls,
        lower: Floats,
        upper: Floats,
        rows: int | None,
        *,
        centre: bool | NDArray[np.bool_],
        scale: bool,
        bits: int | None = None,
    ) -> Self:
        """The units for public bounds."""
        # The largest z is exactly 1, a power of two, for which the grid of the next more bits still has room.
        bits = product_bits(MOST_ROWS if rows is None else rows) + scale if bits is None else bits
        if not scale:
            grid = fixed_columns(lower, upper, bits, centre=centre)
            return cls(grid.centre, np.ones_like(lower), grid)
        middle = np.where(centre, lower / 2 + upper / 2, 0.0)
        low, high = lower - middle, upper - middle
        unit = np.maximum(np.abs(low), np.abs(high))
        return cls(middle, unit, fixed_columns(low / unit, high / unit, bits, centre=False))

    @property
    def size(self) -> Floats:
        """The largest size of each column of z, exactly."""
        return self.grid.size

    @property
    def mapping(self) -> Columns:
        """From the user's values to the whole numbers of the grid."""
        return Columns(self.centre, self.unit * self.grid.step, self.grid.least, self.grid.most)

    def chunks(self, X: Floats) -> Iterator[Floats]:
        """The whole numbers of a few rows at a time."""
        return self.mapping.chunks(X)


def exact_floats(sums: NDArray[np.int64]) -> Floats:
    """Whole numbers as floats, clipped to 2^53 in size: exact, and no two end further apart than they were."""
    return np.clip(sums, -_EXACT, _EXACT).astype(np.float64)


def column_reach(width: int, neighbours: Neighbours) -> Floats:
    """How far one row moves the sums of `width` columns in [-1, 1], then the sums of their squares in [0, 1].

    A replaced row moves a sum by at most 2, the width of its range; everything else moves by at most 1.
    """
    return np.repeat([2.0 if neighbours == "replace" else 1.0, 1.0], width)


def column_sensitivity(width: int, neighbours: Neighbours) -> Sensitivity:
    """The box of `column_reach`, and the number of rows, which moves by 1, where it is secret."""
    count = [1.0] * (neighbours == "add_remove")
    return Sensitivity.box(np.append(column_reach(width, neighbours), count), neighbours=neighbours)


def exact_columns(values: Floats, units: Units, *, count: bool, weights: Floats | None = None) -> Floats:
    """The exact sums and sums of squares, and the number of rows, or the sum of weights.

    With weights u in [0, 1] they are sums of u z and u z^2. One row moves none further than without weights, since u z
    and sqrt(u) z lie in [-1, 1] as z does.
    """
    if weights is not None:
        each = (weights, np.sqrt(weights))
        both = [exact_columns(scaled_rows(values, units, one), units, count=False) for one in each]
        total = [exact_entries(weights)[0]] * count
        return np.concatenate([both[0][: units.size.size], both[1][units.size.size :], total])
    width = units.size.size
    sums, squares = np.zeros(width, np.int64), np.zeros(width, np.int64)
    for integers in units.chunks(values):
        sums += integers.sum(axis=0).astype(np.int64)
        squares += np.einsum("ij,ij->j", integers, integers).astype(np.int64)
    step = units.grid.step
    return np.concatenate([exact_floats(sums) * step, exact_floats(squares) * step**2, [float(len(values))] * count])


def scaled_rows(values: Floats, units: Units, factors: Floats) -> Floats:
    """Rows whose z is that of the given ones, clipped to [-1, 1], times a factor in [0, 1]: NaN stays NaN."""
    with np.errstate(all="ignore"):  # no warning may depend on a value
        z = np.clip((values - units.centre) / units.unit, -1.0, 1.0)
        return np.asarray(units.centre + units.unit * (z * factors[:, None]))


def exact_entries(entries: Floats) -> tuple[float, float]:
    """The exact sum, and the exact sum of squares, of entries in [0, 1]; one entry moves each by at most 1."""
    ends = np.ones(1)
    clipped = np.clip(np.where(np.isnan(entries), 0.0, entries), 0.0, 1.0)[:, None]
    sums = exact_columns(clipped, Units.of(-ends, ends, None, centre=True, scale=True), count=False)
    return float(sums[0]), float(sums[1])


def posterior_column_means(measured: Floats, spread: Floats) -> tuple[Floats, Floats]:
    """The means and mean squares of columns in [-1, 1] that noisy ones suggest.

    Before the release a column is assumed uniform on [-1, 1]: an entry has mean 0 and variance 1/3, its square mean 1/3
    and variance 4/45. With noise of variance s^2 the best linear estimates are value / (1 + 3 s^2) and (value + 15/4
    s^2) / (1 + 45/4 s^2). Without this, large noise would centre columns at one end of their bounds, by chance.

    >>> [one.round(3).tolist() for one in posterior_column_means(np.array([30.0, -40.0]), np.array([10.0, 100.0]))]
    [[0.1], [0.333]]
    """
    noise, width = spread**2, measured.size // 2
    mean = measured[:width] / (1 + 3 * noise[:width])
    square = (measured[width:] + 15 / 4 * noise[width:]) / (1 + 45 / 4 * noise[width:])
    return np.clip(mean, -1.0, 1.0), np.clip(square, 0.0, 1.0)


def row_sums(terms: Floats) -> Floats:
    """The sum of each row."""
    total = np.zeros(len(terms))
    with np.errstate(all="ignore"):  # whatever the caller has set, no error may depend on an entry
        for column in terms.T:
            total += column
    return total


def row_products(rows: Floats, weights: Floats) -> Floats:
    """`rows @ weights.T`: the product of each row with a vector, or with each line of a matrix."""
    products = np.zeros((len(rows), *weights.shape[:-1]))
    size = max(_ENTRIES // max(rows.shape[1], 1), _FEWEST)
    with np.errstate(all="ignore"):
        for start in range(0, len(rows), size):
            part = products[start : start + size]
            for column, weight in zip(rows[start : start + size].T, weights.T, strict=True):
                part += np.multiply.outer(column, weight)
    return products


def cover_answers(noise: NoisePlan, largest: Floats | float) -> NoisePlan:
    """The plan itself, or one with more noise where a scale is too small for the range of its answer.

    Exact noise has a public range, to which answers are clipped; only absurd budgets make it too small. More noise
    keeps every promise, and here it is less than 4e-12 of the answer's own range.
    """
    scales = noise.run_scales
    if isinstance(noise, StaircasePlan):  # whole numbers have no end
        return noise
    if (limits(scales) >= largest)[scales > 0].all():
        return noise
    return replace(noise, run_scales=np.where(scales > 0, np.maximum(scales, _LEAST_SCALE * largest), scales))
