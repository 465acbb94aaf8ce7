"""Second moments of clipped columns: how far one row can move them (E8), their release, and their repair.

The vector released holds the upper triangle of the sum of z z^T over the rows, z being the clipped, centred columns;
with `mean` it continues with the sum of z, as if z had one more entry, the constant 1, whose square sums to the number
of rows: public, or released as the last coordinate under "add_remove" (with weights always).

**One-hot groups.** z has at most one 1 among the columns of a group and is not centred there. So products of two
columns of one group are 0 and not released; z_i^2 is z_i, so squares are not released where sums are; and the products
of a group with another column, group or the constant are a *block*: a row adds to one of its entries, by at most the
size of the other factor, however many categories there are. Without groups blocks are single entries.
"""

import contextlib
import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import get_args

import numpy as np
from numpy.typing import NDArray

from inid.accounting import Ledger
from inid.arguments import Floats, choice
from inid.errors import RangeError
from inid.fixed_point import Columns
from inid.learn.bounds import Groups, outside_groups
from inid.learn.budget_splitting import intercept_share
from inid.learn.public_units import (
    MOST_ROWS,
    Units,
    column_reach,
    cover_answers,
    exact_columns,
    exact_floats,
    scaled_rows,
)
from inid.mechanisms import MechanismChoice, NoiseChoice
from inid.planning import NoisePlan, plan_independent, staircase_plan
from inid.promises import Budget, PureDP
from inid.releasing import Release, release
from inid.sets import Allocation, Neighbours, Sensitivity
from inid.sets.moments import replaced_products

_UP = 1 + 2.0**-48  # more than the rounding of the few operations that make a radius
_LEAST = 1e-300
_TARGETS, _MOST_TARGETS = (0.1, 0.03), (0.5, 0.3)  # of mu^2, of epsilon: for the means of the targets
_PRELIMINARY_SHARE, _LAPLACE_PRELIMINARY_SHARE = (
    0.1,
    0.15,
)  # of mu^2, of epsilon: for the preliminary release of the columns


@dataclass(frozen=True)
class MomentLayout:
    """Which moments are released, block after block.

    All of them are the upper triangle of products, row by row, then the sums, with `mean`, then the number of rows,
    with `count`: the products of z and of the constant 1, which is the column after the last.
    """

    width: int
    groups: Groups
    mean: bool
    count: bool

    @cached_property
    def unit(self) -> NDArray[np.intp]:
        """The number of what each column is part of, a group or itself alone; of the constant too."""
        first = np.ones(self.width + 1, bool)
        for start, end in self.groups:
            first[start + 1 : end] = False
        return np.asarray(np.cumsum(first) - 1, dtype=np.intp)

    @cached_property
    def one_hot(self) -> NDArray[np.bool_]:
        """Whether each column is one of a group; the constant is not."""
        return np.append(~outside_groups(self.width, self.groups), False)

    @cached_property
    def _all(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        i, j = np.triu_indices(self.width)
        if self.mean:
            i, j = np.append(i, np.arange(self.width)), np.append(j, np.full(self.width, self.width))
        return (np.append(i, self.width), np.append(j, self.width)) if self.count else (i, j)

    @cached_property
    def picked(self) -> NDArray[np.intp]:
        """The places of what is released among all of them, in the order of the release."""
        i, j = self._all
        if not self.groups:
            return np.arange(i.size)
        square = self.one_hot[i] & (i == j)
        places = np.flatnonzero(((self.unit[i] != self.unit[j]) | (i == j)) & ~(square & self.mean))
        i, j = i[places], j[places]
        return np.asarray(places[np.lexsort((j, i, self.unit[j], self.unit[i], j == self.width))])

    @cached_property
    def i(self) -> NDArray[np.intp]:
        """The first factor of each moment that is released."""
        return self._all[0][self.picked]

    @cached_property
    def j(self) -> NDArray[np.intp]:
        """The second factor."""
        return self._all[1][self.picked]

    @cached_property
    def starts(self) -> NDArray[np.intp]:
        """Where each block begins."""
        same = np.diff(self.unit[self.i]) | np.diff(self.unit[self.j])
        return np.append(0, np.flatnonzero(same) + 1) if self.groups else np.arange(self.i.size)

    @cached_property
    def sizes(self) -> NDArray[np.intp]:
        """How many entries each block has."""
        return np.diff(np.append(self.starts, self.i.size))

    def whole(self, released: Floats) -> Floats:
        """All moments, from those that are released; several of such, one a line, are moments one a line."""
        if not self.groups:
            return released
        i, j = self._all
        entries = np.zeros((*released.shape[:-1], i.size))
        entries[..., self.picked] = released
        if self.mean:
            entries[..., (i == j) & self.one_hot[i]] = entries[..., (j == self.width) & self.one_hot[i]]
        return entries


@lru_cache(maxsize=8)
def moment_layout(width: int, groups: Groups, *, mean: bool, count: bool) -> MomentLayout:
    """The layout of these moments, which a fit asks for several times."""
    return MomentLayout(width, groups, mean, count)


def block_sets(
    layout: MomentLayout, low: Floats, high: Floats, widest: Floats, neighbours: Neighbours
) -> list[Sensitivity]:
    """Sets that hold every change of the blocks when one row changes; all other moments are blocks of one entry.

    Statement. Let the other factor q of a block (1, if it is a group as well) lie in [low, high], |q| <= B.

    * zero_out and add_remove: one entry changes, by at most B: norm B, in l1 as in l2.
    * replace: two entries change by q and q', or one by q - q' or by q alone: 2 B in l1 norm, and in l2 norm the larger
      of sqrt(2) B and high - low.
    """
    i, j = layout.i[layout.starts], layout.j[layout.starts]
    hot, alone = layout.one_hot[i] | layout.one_hot[j], widest[layout.starts]
    if neighbours != "replace":  # of a block, what one row moves is one entry
        return [Sensitivity.groups(sizes=layout.sizes, l1=alone, neighbours=neighbours)]
    other = np.where(layout.one_hot[i], j, i)
    size = np.maximum(np.abs(low), np.abs(high))[other]
    apart = np.maximum(math.sqrt(2) * size, (high - low)[other]) * _UP
    return [
        Sensitivity.groups(sizes=layout.sizes, l1=np.where(hot, 2 * size, alone), neighbours=neighbours),
        Sensitivity.groups(sizes=layout.sizes, l2=np.where(hot, apart, alone), neighbours=neighbours),
    ]


def exact_moments(X: Floats, units: Units, *, mean: bool, count: bool = False, weights: Floats | None = None) -> Floats:
    """The exact products, sums and number of rows, in the units of z.

    With weights u in [0, 1] they are of sqrt(u) z, u z and u, within the ranges of z and 1: none moves further.
    """
    width = X.shape[1]
    if weights is not None:
        shares = exact_moments(scaled_rows(X, units, np.sqrt(weights)), units, mean=False)
        each = exact_columns(X, units, count=count, weights=weights)
        return np.concatenate([shares, each[: width * mean], each[2 * width :]])
    products, sums = np.zeros((width, width), np.int64), np.zeros(width, np.int64)
    for integers in units.chunks(X):
        products += (integers.T @ integers).astype(
            np.int64
        )  # below 2^53 in a chunk, so exact in whatever order BLAS adds
        if mean:
            sums += integers.sum(axis=0).astype(np.int64)
    return in_units(products[np.triu_indices(width)], sums, len(X), units, mean=mean, count=count)


def in_units(
    products: NDArray[np.int64], sums: NDArray[np.int64], rows: int, units: Units, *, mean: bool, count: bool
) -> Floats:
    """Sums of whole numbers as the vector released: products, sums, number of rows."""
    step = units.grid.step
    i, j = np.triu_indices(step.size)
    parts = [exact_floats(products) * (step[i] * step[j])]
    if mean:
        parts.append(exact_floats(sums) * step)
    if count:
        parts.append(np.array([float(rows)]))
    return np.concatenate(parts)


def moment_sets(
    columns: Columns,
    costs: Floats,
    neighbours: Neighbours,
    *,
    mean: bool,
    weighted: bool = False,
    groups: Groups = (),
) -> list[Sensitivity]:
    """Sets that hold every change of the moments when one row changes; the plan takes the better.

    Statement (E8). Let B_i bound the size of column i (the constant column has B = 1).

    * zero_out: one row z becomes nothing, which adds 0 to every sum (not a row of zeros, which would add -centre to the
      sums), so d_ij = z_i z_j: the box B_i B_j, which is attained.
    * add_remove: the same, and the number of rows, the product of the constant with itself, moves by 1.
    * replace: d_ij lies within the width of the range of z_i z_j, a box; and in the ellipsoid of `replaced_products`.
    * With weights u in [0, 1] every entry is u times as large, so its range has 0 in it, and the sum of u is one more
      coordinate, under any relation: the boxes. (Entries are rounded one by one, for which no ellipsoid is stated.)
    * With one-hot groups the blocks of `one_hot_moments` take the place of entries.
    """
    low, high = _ranges(columns, weighted=weighted)
    size = np.maximum(np.abs(low), np.abs(high))
    layout = moment_layout(columns.step.size, groups, mean=mean, count=weighted or neighbours == "add_remove")
    i, j = layout.i, layout.j
    boxes = _boxes(layout, low, high, moment_reach(columns, layout, neighbours, weighted=weighted), neighbours)
    if weighted or neighbours != "replace":
        return boxes
    used = slice(None) if mean else slice(-1)
    unit = layout.unit[used]
    omega = (costs * size)[used]
    if groups:  # one number for a group: the length of those of its columns
        omega = np.sqrt(np.bincount(unit, omega**2))[unit]
    radii = replaced_products(size[used], omega, i, j, unit)
    return [*boxes, Sensitivity.ellipsoid(radii, neighbours=neighbours)]


def moment_reach(columns: Columns, layout: MomentLayout, neighbours: Neighbours, *, weighted: bool = False) -> Floats:
    """How far one row moves each moment: the boxes of `moment_sets`."""
    low, high = _ranges(columns, weighted=weighted)
    size, i, j = np.maximum(np.abs(low), np.abs(high)), layout.i, layout.j
    if neighbours != "replace":
        return np.asarray(size[i] * size[j])
    corners = np.stack([low[i] * low[j], low[i] * high[j], high[i] * low[j], high[i] * high[j]])
    widest = np.subtract(corners.max(axis=0), corners.min(axis=0)) * _UP
    # A square is never below 0, and reaches 0 when the column's range does.
    squares = np.where((low <= 0) & (high >= 0), 0.0, np.minimum(low**2, high**2))
    return np.where(i == j, (size[i] ** 2 - squares[i]) * _UP, widest)


def _ranges(columns: Columns, *, weighted: bool) -> tuple[Floats, Floats]:
    """The range of each column, and of the constant; that of a column times a weight has 0 in it."""
    low, high = np.append(columns.low, 1.0), np.append(columns.high, 1.0)
    return (np.minimum(low, 0.0), np.maximum(high, 0.0)) if weighted else (low, high)


def _boxes(
    layout: MomentLayout, low: Floats, high: Floats, widest: Floats, neighbours: Neighbours
) -> list[Sensitivity]:
    """Sets of which each entry, or each block, has a bound of its own."""
    if layout.groups:
        return block_sets(layout, low, high, widest, neighbours)
    return [Sensitivity.box(widest, neighbours=neighbours)]


@dataclass(frozen=True)
class MomentPlan:
    """A plan for the moments of columns, and what it is for."""

    noise: NoisePlan
    units: Units
    mean: bool
    rows: int | None
    count: bool
    groups: Groups = ()

    @property
    def layout(self) -> MomentLayout:
        """Which moments are released."""
        return moment_layout(self.units.size.size, self.groups, mean=self.mean, count=self.count)


@dataclass(frozen=True)
class Moments:
    """What was released, as matrices: means over the rows, about the columns' centres, in their units.

    `second`, `first` and `spread` may be stacks of such, with more axes in front: draws of what may have been released.
    """

    second: Floats
    first: Floats | None
    spread: Floats
    first_spread: Floats
    rows: float
    release: Release
    rows_spread: float = 0.0
    layout: MomentLayout | None = None
    one_hot: NDArray[np.intp] = field(default_factory=lambda: np.empty(0, np.intp))

    def about(self, point: Floats) -> "Moments":
        """The moments of z + point: the mean of (z + point)(z + point)^T."""
        if self.first is None:
            return self
        column = point[..., :, None]
        cross = column * self.first[..., None, :]
        second = self.second + cross + cross.swapaxes(-1, -2) + column * point[..., None, :]
        variance = column**2 * self.first_spread**2
        spread = np.sqrt(self.spread**2 + variance + variance.swapaxes(-1, -2))
        return replace(self, second=second, first=self.first + point, spread=spread)


def plan_moments(
    units: Units,
    budget: Budget,
    *,
    rows: int | None,
    costs: Floats,
    constant: float,
    mean: bool,
    neighbours: Neighbours,
    mechanism: NoiseChoice,
    allocation: Allocation,
    targets: int = 0,
    preliminary: bool = False,
    weighted: bool = False,
    groups: Groups = (),
) -> MomentPlan:
    """The least-error plan among the sets known.

    Under a pure promise staircase noise on a box of the moments, drawn in blocks, mostly has the least error. A
    preliminary release, and the number of rows where it is secret, then have blocks of their own: they are drawn
    before the moments are computed, and no part of a block has privacy of its own.
    """
    choice("mechanism", mechanism, get_args(NoiseChoice))
    costs = np.append(costs, constant)
    width = units.size.size
    count = weighted or rows is None
    layout = moment_layout(width, groups, mean=mean, count=count)
    i, j = layout.i, layout.j
    with np.errstate(all="ignore"):  # absurd weights are held within the floats: any positive ones are valid
        weights = np.clip(costs[i] * costs[j] * np.where(i == j, 1.0, math.sqrt(2)), _LEAST, 1 / _LEAST)
    size = np.append(units.size, 1.0)
    largest = size[i] * size[j]
    laplace = mechanism in ("laplace", "staircase") or isinstance(budget, PureDP)
    # An entry of a block takes as much of the plan as one by itself that moves less, by the (root of the) block's size.
    reach = largest / np.repeat(layout.sizes if laplace else np.sqrt(layout.sizes), layout.sizes)
    if mean and targets:
        weights = weights * _roles(i, j, width, targets)
        chosen = (i >= width - targets) & (i < j) & (j == width)
        least, most = _TARGETS[laplace], _MOST_TARGETS[laplace]
        part = intercept_share(budget, rows, targets, laplace=laplace, least=least, most=most)
        weights = _raised(weights, reach, chosen, part, laplace=laplace)
    sets = moment_sets(units.grid, costs, neighbours, mean=mean, weighted=weighted, groups=groups)
    box = Sensitivity.box(moment_reach(units.grid, layout, neighbours, weighted=weighted), neighbours=neighbours)
    alone: MechanismChoice = "laplace" if mechanism == "staircase" else mechanism
    parts: list[int] = []
    if preliminary:
        # Independent noise in parts of a box has privacy of its own; Laplace noise in parts of another set has not.
        alone = "laplace" if laplace else "gaussian"
        parts = [i.size - count]
        free = int((~layout.one_hot[:width]).sum())
        sets = [_with_preliminary(one, free) for one in (sets[:1] if alone == "laplace" else sets)]
        box = _with_preliminary(box, free)
        largest, reach = np.append(largest, np.ones(2 * free)), np.append(reach, np.ones(2 * free))
        chosen = np.arange(largest.size) >= i.size
        part = _LAPLACE_PRELIMINARY_SHARE if laplace else _PRELIMINARY_SHARE
        weights = _raised(np.append(weights, np.zeros(2 * free)), reach, chosen, part, laplace=laplace)
    plans = [
        plan_independent(one, budget, mechanism=alone, allocation=allocation, weights=weights)
        for one in (sets if mechanism != "staircase" else [])
    ]
    if mechanism == "staircase" or (mechanism == "auto" and isinstance(budget, PureDP) and allocation == "optimal"):
        # Beyond what blocks are planned for, other noise has the word, if there is any.
        with contextlib.suppress(*([RangeError] if plans else [])):
            plans.append(
                staircase_plan(box, budget, allocation=allocation, weights=box.read_weights(weights), parts=parts)
            )
    best = min(plans, key=lambda candidate: candidate.log2_error)
    most = MOST_ROWS if rows is None else rows
    return MomentPlan(cover_answers(best, most * largest), units, mean, rows, count, groups)


def _roles(i: NDArray[np.intp], j: NDArray[np.intp], width: int, targets: int) -> Floats:
    """What an error in each entry costs a linear model, beside what it costs the matrix.

    Statement. In units in which columns have variance 1 the coefficients w of noisy moments G + E, c + e are off by
    about e - E w, and predictions by the square of that. So an error in a product with the target counts once for its
    coefficient; one in G_ij counts w_i^2 + w_j^2, or w_i^2 where i = j; one in a column's mean w_i^2. With |w| at most
    1, shared by d columns, these are 1, 2/d, 1/d and 1/d. What multiplies two targets enters no coefficient.
    """
    columns = width - targets
    target_i, target_j, mean = i >= columns, (j >= columns) & (j < width), j == width
    inner = math.sqrt(1 / columns)
    products = np.where(target_j, np.where(target_i, 1 / columns, math.sqrt(0.5)), inner)
    return np.where(mean, np.where(target_i, math.sqrt(0.5), inner * math.sqrt(0.5)), products)


def _with_preliminary(one: Sensitivity, width: int) -> Sensitivity:
    """The set of the moments and, after them, of sums and squares of `width` columns in [-1, 1].

    A box and a box make a box, blocks and a box more blocks. If q_1(d_1) <= 1 and q_2(d_2) <= 1 then (1 - w) q_1 + w
    q_2 <= 1 for any w: ellipsoids make one with radii divided by sqrt(1 - w) and sqrt(w). The box of `column_reach`
    with 2 M sides b lies in the ellipsoid of radii b sqrt(2 M).
    """
    reach = column_reach(width, one.neighbours)
    if one.kind == "box":
        return Sensitivity.box(np.append(one.reach, reach), neighbours=one.neighbours)
    if one.counts is not None:
        sizes, limits = np.append(one.counts, np.ones(reach.size, int)), np.append(one.limits, reach)
        l1, l2 = (limits, None) if one.norm == 1 else (None, limits)
        return Sensitivity.groups(sizes=sizes, l1=l1, l2=l2, neighbours=one.neighbours)
    radii = np.append(one.reach / math.sqrt(1 - _PRELIMINARY_SHARE), reach * math.sqrt(2 * width / _PRELIMINARY_SHARE))
    return Sensitivity.ellipsoid(radii * _UP, neighbours=one.neighbours)


def _raised(weights: Floats, reach: Floats, chosen: NDArray[np.bool_], part: float, *, laplace: bool) -> Floats:
    """Weights that give some coordinates a part of the plan at least.

    What a coordinate takes of a plan on a box is in proportion to c = weight times sensitivity for Gaussian noise (of
    mu^2), and to c^(2/3) for Laplace noise (of epsilon): scales b_i that minimise the sum of (weight_i b_i)^2, where
    the sum of reach_i / b_i is fixed, have reach_i / b_i in proportion to c_i^(2/3).
    """
    power = 2 / 3 if laplace else 1.0
    costs = (weights * reach) ** power
    least = (part / (1 - part) * float(costs[~chosen].sum()) / int(chosen.sum())) ** (1 / power)
    return np.where(chosen, np.maximum(weights, least / reach), weights)


def release_moments(answer: Callable[[], Floats], planned: MomentPlan, ledger: Ledger | None, label: str) -> Moments:
    """Charge, then compute the moments, release them by their plan, and divide by the number of rows."""
    return moments_of_release(release(answer, planned.noise, ledger, label=label), planned)


def moments_of_release(answer: Release, planned: MomentPlan) -> Moments:
    """What was released as matrices, divided by the number of rows."""
    width, layout = planned.units.size.size, planned.layout
    products, sums = width * (width + 1) // 2, width * planned.mean
    entries = layout.whole(answer.values[: layout.i.size])
    rows = float(planned.rows or 0)
    if planned.count:
        rows = max(float(entries[-1]), 1.0)
    scales = layout.whole(planned.noise.std[: layout.i.size]) / rows
    values = entries / rows
    return Moments(
        second=symmetric(values[:products], width),
        first=values[products : products + sums] if planned.mean else None,
        spread=symmetric(scales[:products], width),
        first_spread=scales[products : products + sums],
        rows=rows,
        release=answer,
        rows_spread=float(scales[-1]) * rows if planned.count else 0.0,
        layout=layout,
        one_hot=np.flatnonzero(layout.one_hot) if planned.mean else np.empty(0, np.intp),
    )


def symmetric(triangle: Floats, width: int) -> Floats:
    """The symmetric matrix of an upper triangle."""
    matrix = np.zeros((width, width))
    matrix[np.triu_indices(width)] = triangle
    return matrix + np.triu(matrix, 1).T


def nearest_psd(matrix: Floats, size: Floats, spread: Floats) -> Floats:
    """The matrix with its eigenvalues raised to a floor, in units in which every column has size 1.

    The floor is half the size that noise alone gives an eigenvalue: below it noise is taken for signal, far above it
    the solution is biased (a quarter, a half and all of it were tried on four regressions). As the noise goes to 0, so
    does the floor.
    """
    units = np.outer(size, size)
    values, vectors = np.linalg.eigh(matrix / units)
    # The norm of a symmetric matrix of independent noise is about twice the root of its largest row of variances.
    noise = 2 * np.sqrt(((spread / units) ** 2).sum(axis=-1).max(axis=-1))[..., None]
    repaired = (vectors * np.maximum(values, noise / 2)[..., None, :]) @ vectors.swapaxes(-1, -2)
    return np.asarray((repaired + repaired.swapaxes(-1, -2)) / 2 * units)
