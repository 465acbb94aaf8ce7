"""Second moments of clipped columns: how far one row can move them (E8), their release, and their repair.

The vector released holds the upper triangle of the sum of z z^T over the rows, row by row, z being the clipped, centred
columns; with `mean` it continues with the sum of z. In the latter case z has one more entry, the constant 1, of which
the product with itself is the number of rows and public.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from inid.accounting import Ledger
from inid.arguments import Floats
from inid.fixed_point import Columns
from inid.learn.headroom import with_headroom
from inid.planning import NoisePlan, plan
from inid.promises import Budget
from inid.releasing import Release, release
from inid.sets import Sensitivity
from inid.sets.moments import replaced_products

__all__ = ["MomentPlan", "Moments", "box_sets", "exact_moments", "nearest_psd", "plan_moments", "release_moments"]

_UP = 1 + 2.0**-48  # more than the rounding of the few operations that make a radius
_FLOOR = 1e-3


def exact_moments(X: Floats, columns: Columns, *, mean: bool) -> Floats:
    """The exact answer: products and sums of whole numbers below 2^53, in the units of the data."""
    width = X.shape[1]
    products, sums = np.zeros((width, width)), np.zeros(width)
    for whole in columns.chunks(X):
        products += whole.T @ whole
        if mean:
            sums += whole.sum(axis=0)
    products *= np.outer(columns.step, columns.step)
    triangle = products[np.triu_indices(width)]
    return np.concatenate([triangle, sums * columns.step]) if mean else triangle


def box_sets(columns: Columns, costs: Floats, neighbours: str, *, mean: bool) -> list[Sensitivity]:
    """Sets that hold every change of the moments when one row changes; the plan takes the better.

    Statement (E8). Let B_i bound the size of column i (the constant column has B = 1).

    * add_remove: one row z is replaced by zeros, so d_ij = z_i z_j: the box B_i B_j, which is attained.
    * replace: d_ij lies within the width of the range of z_i z_j, a box; and in the ellipsoid of `replaced_products`.

    Args:
        columns: The mapping, whose ranges are exact.
        costs: c_i, the factors of the weights alpha_ij = c_i c_j, the constant's last when `mean`.
        neighbours: The relation.
        mean: Whether the sums of the columns are released too.
    """
    low, high = columns.low, columns.high
    if mean:
        low, high = np.append(low, 1.0), np.append(high, 1.0)
    size = np.maximum(np.abs(low), np.abs(high))
    places = _places(columns.step.size, mean)
    if neighbours == "add_remove":
        return [Sensitivity.box(size[places[0]] * size[places[1]], neighbours=neighbours)]
    i, j = places
    corners = np.stack([low[i] * low[j], low[i] * high[j], high[i] * low[j], high[i] * high[j]])
    widest = np.subtract(corners.max(axis=0), corners.min(axis=0)) * _UP
    # A square is never below 0, and reaches 0 when the column's range does.
    squares = np.where((low <= 0) & (high >= 0), 0.0, np.minimum(low**2, high**2))
    widest = np.where(i == j, (size[i] ** 2 - squares[i]) * _UP, widest)
    return [
        Sensitivity.box(widest, neighbours=neighbours),
        Sensitivity.ellipsoid(replaced_products(size, costs * size, i, j), neighbours=neighbours),
    ]


@dataclass(frozen=True)
class MomentPlan:
    """A plan for the moments of columns, and the mapping it is for."""

    noise: NoisePlan
    columns: Columns
    mean: bool


@dataclass(frozen=True)
class Moments:
    """What was released, as matrices: means over the rows, about the columns' centres.

    Attributes:
        second: The symmetric matrix as released, not repaired.
        first: The mean less the centre, or None.
        spread: The noise's standard deviation in each entry of `second`.
        first_spread: The same for `first`.
        release: The release itself.
    """

    second: Floats
    first: Floats | None
    spread: Floats
    first_spread: Floats
    release: Release

    def about(self, point: Floats) -> "Moments":
        """The moments about centre - point: with z the centred columns, the mean of (z + point)(z + point)^T."""
        if self.first is None:
            return self
        cross = np.outer(point, self.first)
        second = self.second + cross + cross.T + np.outer(point, point)
        variance = np.outer(point**2, self.first_spread**2)
        spread = np.sqrt(self.spread**2 + variance + variance.T)
        return Moments(second, self.first + point, spread, self.first_spread, self.release)


def plan_moments(
    columns: Columns,
    budget: Budget,
    *,
    rows: int,
    costs: Floats,
    constant: float | None,
    neighbours: str,
    mechanism: str,
    allocation: str,
) -> MomentPlan:
    """The least-error plan among the sets known.

    Args:
        columns: The mapping.
        budget: The promise.
        rows: The public number of rows.
        costs: c_i; an entry off the diagonal stands twice in the matrix, so its weight is c_i c_j sqrt 2.
        constant: The cost of the constant column, whose products with the others are their sums; None for no sums.
        neighbours: The relation.
        mechanism: As for `inid.plan`.
        allocation: As for `inid.plan`.
    """
    mean = constant is not None
    if constant is not None:
        costs = np.append(costs, constant)
    i, j = _places(columns.step.size, mean)
    weights = costs[i] * costs[j] * np.where(i == j, 1.0, math.sqrt(2))
    plans = [
        plan(one, budget, mechanism=mechanism, allocation=allocation, weights=weights)
        for one in box_sets(columns, costs, neighbours, mean=mean)
    ]
    size = np.append(columns.size, 1.0)
    best = min(plans, key=lambda made: made.log2_error)
    return MomentPlan(with_headroom(best, rows * size[i] * size[j]), columns, mean)


def release_moments(exact: Floats, planned: MomentPlan, rows: int, ledger: Ledger | None, label: str) -> Moments:
    """Release exact moments by their plan, and divide by the public number of rows."""
    made = release(exact, planned.noise, ledger, label=label)
    width = planned.columns.step.size
    scales = planned.noise.scales * (1.0 if planned.noise.mechanism == "gaussian" else math.sqrt(2))
    products = width * (width + 1) // 2
    return Moments(
        second=symmetric(made.values[:products] / rows, width),
        first=made.values[products:] / rows if planned.mean else None,
        spread=symmetric(scales[:products] / rows, width),
        first_spread=scales[products:] / rows,
        release=made,
    )


def symmetric(triangle: Floats, width: int) -> Floats:
    """The symmetric matrix of an upper triangle.

    >>> symmetric(np.array([1.0, 2.0, 3.0]), 2).tolist()
    [[1.0, 2.0], [2.0, 3.0]]
    """
    matrix = np.zeros((width, width))
    matrix[np.triu_indices(width)] = triangle
    return matrix + np.triu(matrix, 1).T


def nearest_psd(matrix: Floats, size: Floats, spread: Floats) -> Floats:
    """The matrix with its eigenvalues held above a floor, in units in which every column has size 1.

    The floor is a thousandth of the largest eigenvalue, and not above the size that noise alone gives an eigenvalue:
    too high a floor biases the solution (1e-2 costs several per cent on California), none leaves directions in which
    noise is taken for signal, and without noise nothing may be changed.

    Args:
        matrix: Symmetric.
        size: The public size of each column.
        spread: The noise's standard deviation in each entry.

    >>> nearest_psd(np.array([[1.0, 2.0], [2.0, 1.0]]), np.ones(2), np.full((2, 2), 0.1)).round(3).tolist()
    [[1.501, 1.498], [1.498, 1.501]]
    """
    units = np.outer(size, size)
    values, vectors = np.linalg.eigh(matrix / units)
    # The norm of a symmetric matrix of independent noise is about twice the root of its largest row of variances.
    noise = 2 * math.sqrt(float(((spread / units) ** 2).sum(axis=1).max()))
    floor = min(_FLOOR * max(float(values[-1]), 0.0), noise)
    repaired = (vectors * np.maximum(values, floor)) @ vectors.T
    return np.asarray((repaired + repaired.T) / 2 * units)


def _places(width: int, mean: bool) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """The two factors of each coordinate; the constant is column number `width`."""
    i, j = np.triu_indices(width)
    if mean:
        i, j = np.append(i, np.arange(width)), np.append(j, np.full(width, width))
    return i, j
