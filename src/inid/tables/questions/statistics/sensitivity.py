"""The sums that statistics are made of, and how far one person moves them.

Each sum adds up an integer per row, of a public range, over the rows that count. Everything a query reports is made of
five kinds of them: how many rows, how many people, centred values, centred products of two values, and the cells of a
histogram. A row that misses a value it is needed for adds nothing to that sum.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product as all_pairs
from typing import Literal

import numpy as np

from inid.arguments import Floats
from inid.errors import ArgumentError
from inid.fixed_point import Grid, conversion_slack
from inid.sets import Neighbours, Sensitivity
from inid.sets.moments import replaced_products
from inid.tables.aggregation import Inside, Pair, People, Rows, Term, Value
from inid.tables.facts import Bins, Categories


@dataclass(frozen=True)
class Item:
    """One released sum, or for a histogram one sum per cell of it."""

    kind: Literal["count", "people", "sum", "product", "histogram", "weight", "weighted"]
    columns: tuple[str, ...]
    present: tuple[str, ...]
    least: int
    most: int
    step: float
    shift: int = 0
    cells: Bins | Categories | None = None

    @property
    def label(self) -> str:
        """A name that tells it apart from the other items of a query."""
        if self.kind == "count":
            return f"count({','.join(self.present)})" if self.present else "count"
        if self.kind == "people":
            return "count_distinct"
        own_rows = set(self.present) <= set(self.columns)
        return f"{self.kind}({','.join(self.columns)}{'' if own_rows else ' | ' + ','.join(self.present)})"

    @property
    def names(self) -> tuple[str, ...]:
        """One name per sum: the cells of a histogram, else one empty name."""
        return ("",) if self.cells is None else self.cells.names

    @property
    def always(self) -> bool:
        """Whether every row of the table adds to this one sum."""
        return not self.present and self.kind not in ("histogram", "people")

    @property
    def size(self) -> int:
        """The largest change that adding one row makes: max(|least|, |most|)."""
        return max(abs(self.least), abs(self.most))

    @property
    def width(self) -> int:
        """The largest change that replacing one row makes, where a row may also add nothing."""
        return max(self.most, 0) - min(self.least, 0)

    def terms(self, values: Mapping[str, Grid], factors: Mapping[str, Grid], weight: Grid | None = None) -> list[Term]:
        """What each row adds to each sum of the item, by the grids of columns that are added up and multiplied."""
        if weight is not None and self.kind == "weight":
            return [Value(self.columns[0], weight, self.present)]
        if weight is not None and self.kind == "weighted":
            column, other = self.columns
            return [Pair((column, other), (values[column], weight), self.shift, self.present)]
        if self.cells is not None:
            return [Inside(self.columns[0], self.cells, at, self.present) for at in range(len(self.names))]
        if self.kind == "people":
            return [People()]
        if self.kind == "count":
            return [Rows(self.present)]
        if self.kind == "sum":
            return [Value(self.columns[0], values[self.columns[0]], self.present)]
        first, second = self.columns
        return [Pair((first, second), (factors[first], factors[second]), self.shift, self.present)]


@dataclass(frozen=True)
class Statistic:
    """One answer and the positions, among the items, of the sums it is made of.

    `sums` holds one position per column (the same twice for a variance); `product` and `count` are None where the
    answer does not need them.
    """

    kind: str
    columns: tuple[str, ...]
    count: int | None = None
    sums: tuple[int, ...] = ()
    product: int | None = None
    histogram: int | None = None

    @property
    def label(self) -> str:
        """For example "count" or "mean(age)"."""
        return f"{self.kind}({','.join(self.columns)})" if self.columns else self.kind


@dataclass(frozen=True)
class Layout:
    """The statistics of a query, the items they need, and the grids of the columns."""

    statistics: tuple[Statistic, ...]
    items: tuple[Item, ...]
    values: Mapping[str, Grid]
    factors: Mapping[str, Grid]
    weight: Grid | None = None

    def only(self, statistic: Statistic) -> "Layout":
        """The layout of one of the statistics by itself, with the items that it needs."""
        used = (statistic.count, *statistic.sums, statistic.product, statistic.histogram)
        places = [at for at in range(len(self.items)) if at in used]
        place = {at: number for number, at in enumerate(places)} | {None: None}
        statistic_left = Statistic(
            statistic.kind,
            statistic.columns,
            place[statistic.count],
            tuple(place[at] for at in statistic.sums),  # type: ignore[misc]
            place[statistic.product],
            place[statistic.histogram],
        )
        return Layout((statistic_left,), tuple(self.items[at] for at in places), self.values, self.factors, self.weight)


class NeededSums:
    """The sums that statistics need, each once: a statistic asks for one and is told where it stands."""

    def __init__(
        self, values: Mapping[str, Grid], factors: Mapping[str, Grid], weight: tuple[str, Grid, bool] | None = None
    ) -> None:
        self.found: dict[Item, int] = {}
        self.values, self.factors = values, factors
        self.weight = weight

    def place(self, item: Item) -> int:
        """The position of a sum."""
        return self.found.setdefault(item, len(self.found))

    def count(self, present: tuple[str, ...]) -> int:
        """The position of the number of rows that have a value in all of these columns; of weights, of their sum."""
        if self.weight is not None:
            weight, grid, filled = self.weight
            needed = present if filled else (*present, weight)
            return self.place(Item("weight", (weight,), needed, 0, grid.most, grid.step))
        return self.place(Item("count", (), present, 1, 1, 1.0))

    def people(self) -> int:
        """That of the people who have a row: of a person's rows in a cell, the first adds 1 and the others 0."""
        return self.place(Item("people", (), (), 0, 1, 1.0))

    def sum(self, column: str, present: tuple[str, ...]) -> int:
        """That of the sum of a column's distances from the middle of its bounds, over those rows, by weight if any.

        A weighted row adds a whole number in [most weight * least, most weight * most]: the product of two numbers on
        their grids.
        """
        grid = self.values[column]
        if self.weight is not None:
            weight, weights, filled = self.weight
            needed = present if filled else (*present, weight)
            ends, step = (weights.most * grid.least, weights.most * grid.most), weights.step * grid.step
            return self.place(Item("weighted", (column, weight), needed, *ends, step))
        return self.place(Item("sum", (column,), present, grid.least, grid.most, grid.step))

    def product(self, first: str, second: str, present: tuple[str, ...]) -> int:
        """That of the sum of products of two columns' distances from their middles; a square is centred once more.

        A square lies in [0, s]; less s/2 it moves a sum half as far, and s/2 times the count is known anyway.
        """
        one, two = self.factors[first], self.factors[second]
        corners = [a * b for a, b in all_pairs((one.least, one.most), (two.least, two.most))]
        low, high = (0, max(corners)) if first == second else (min(corners), max(corners))
        shift = (low + high) // 2
        columns, step = (first, second), one.step * two.step
        if not 0 < step < float("inf"):
            raise ArgumentError(f"bounds of {first!r} and {second!r} have no common grid: change the columns' units.")
        return self.place(Item("product", columns, present, low - shift, high - shift, step, shift))

    def histogram(self, column: str, cells: Bins | Categories, present: tuple[str, ...]) -> int:
        """That of the numbers of rows in each public cell; rows in none are not counted.

        Bins need their number to be present, like the number's count and sum. Categories need nothing: a missing word
        is one more value that lies in no cell. That differs where a column is read both ways: the text "refused" is a
        category that moves between cells, and no number.
        """
        return self.place(Item("histogram", (column,), present, 1, 1, 1.0, cells=cells))


# How far one person can move the released sums: the sensitivity set, from public facts alone.
#
# For one item (a sum whose rows add integers in [least, most], or nothing) let c = max(|least|, |most|) and
# w = max(most, 0) - min(least, 0). One person has m rows.
#
# | the item is | add_remove, zero_out | replace |
# | --- | --- | --- |
# | one sum over all rows | m c | m w; most - least where every row adds (no filter) and m = 1 is the unit |
# | spread over disjoint cells, l1 norm | m c | 2 m c |
# | spread over disjoint cells, l2 norm | m c | m max(sqrt(2) c, w) |
#
# Why: the change is a sum of at most m vectors, one per row of the person (replace: one per pair of an old and a new
# row, either of which may be absent). A row touches one cell of an item. Adding one row changes one cell by at most
# c, so both norms are at most c. Replacing one changes either one cell, by at most w <= 2c, or two cells by at most c
# each: l1 at most 2c, l2 at most max(w, sqrt(2) c). The triangle inequality gives the factor m; it is attained when
# all m rows coincide. Items are bounded one by one, which is exactly a box (single sums) or a set of groups (cells).
#
# The number of people is a sum to which a person adds 1 in each cell where they have a row, however many: at most 1
# without cells (under replace too: one person comes, stays or goes), and with cells at most 1 in each of up to m
# cells (of 2 m under replace), of which there may be fewer: l1 norm k, l2 norm sqrt(k), k the number of cells that
# can change.
#
# Under zero_out a row becomes nothing, which adds 0 to every sum: the bounds of add_remove. The number of rows,
# nothings included, is public: where the unit is a row and all rows count, the count does not move.
#
# Under add_remove and zero_out nothing more is to be had: one row at the upper bounds of all columns moves every item
# by its bound at once. Under replace it cannot: a row that changes the count (it had no value, or another cell) moves
# its sums by c, not w; and no pair of rows moves all products of two columns by their widths. `joint_sets` bounds the
# items together.
#
# Each touched cell may also move by the rounding of a large integer to a float, so that slack is added per touched
# cell.

_UP = 1 + 2.0**-40  # more than the rounding of the sums that make a radius
_HALVINGS = 60
_SPAN = 200  # bits between the largest and the smallest weight that shapes a set; any weights are valid


def largest_sum(item: Item, max_rows: int) -> int:
    """Sums are held to this size: what `max_rows` rows can reach."""
    return item.size * max_rows


def candidate_sets(
    items: tuple[Item, ...], cells: int, neighbours: Neighbours, rows: int, whole_rows: bool, max_rows: int
) -> list[Sensitivity]:
    """The sensitivity sets that hold for these items; each alone is valid, so one may plan with the better."""
    labels = [item.label for item in items]
    if not cells and all(item.cells is None for item in items):
        bounds = [_single(item, neighbours, rows, whole_rows, max_rows) for item in items]
        return [Sensitivity.box(bounds, labels=labels, neighbours=neighbours)]
    sizes = [len(item.names) * max(cells, 1) for item in items]
    candidates = []
    for norm in ("l1", "l2"):
        bounds = [
            _spread(item, norm, neighbours, rows, max_rows, cells)
            if cells or item.cells is not None
            else _single(item, neighbours, rows, whole_rows, max_rows)
            for item in items
        ]
        candidates.append(Sensitivity.groups(sizes, **{norm: bounds}, labels=labels, neighbours=neighbours))  # type: ignore[arg-type]
    return candidates


def joint_set(
    items: tuple[Item, ...], cells: int, neighbours: Neighbours, rows: int, whole_rows: bool, max_rows: int
) -> Sensitivity:
    """The set for noise that is drawn jointly: a box, or partitions in which each of a person's rows is a move.

    Statement. Without cells the sums move within a box. A row that is added or taken away moves, of the sums by group,
    those of one group, each by at most c; and of a histogram one cell by 1. A row that is replaced does so twice, for
    the old row and the new one, also where both are in one cell. So the change is a sum of m such moves (2 m under
    replace) in each partition: the groups are one, and every histogram is one. Sums without cells beside a histogram
    are a partition of one cell that is moved once, by what a person can reach; so is a partition of a single cell.
    """
    labels = [item.label for item in items]
    if not cells and all(item.cells is None for item in items):
        return candidate_sets(items, cells, neighbours, rows, whole_rows, max_rows)[0]
    touched = 2 * rows if neighbours == "replace" else rows
    parts = [[item for item in items if item.cells is None], *([item] for item in items if item.cells is not None)]
    if [item for part in parts for item in part] != list(items):
        raise AssertionError("histograms come after all other items")
    boxes, sizes, moves = [], [], []
    for part in filter(None, parts):
        size = len(part[0].names) * max(cells, 1)
        every = whole_rows and not cells and part[0].cells is None
        boxes.append(
            [_single(item, neighbours, rows, every, max_rows) for item in part]
            if size == 1
            else [_value(item.size + conversion_slack(largest_sum(item, max_rows)), item.step) for item in part]
        )
        sizes.append(size)
        moves.append(1 if size == 1 else touched)
    return Sensitivity.partitions(boxes, sizes, moves=moves, labels=labels, neighbours=neighbours)


def narrowest(sets: Sequence[Sensitivity]) -> list[Sensitivity]:
    """The sets, less groups in l2 norms that hold the same groups in l1 norms: for more differences, no less noise.

    The l1 ball of a radius lies within the l2 ball of any radius that is not smaller.
    """
    by_norm = {s.norm: s for s in sets if s.kind == "groups"}
    small, large = by_norm.get(1), by_norm.get(2)
    needless = small is not None and large is not None and bool((small.limits <= large.limits).all())
    return [s for s in sets if not (needless and s is large)]


def joint_sets(
    layout: Layout,
    cells: int,
    neighbours: Neighbours,
    rows: int,
    whole_rows: bool,
    max_rows: int,
    weights: Sequence[float],
) -> list[Sensitivity]:
    """Ellipsoids that hold the change of all items together, shaped for these weights; each alone is valid.

    Any positive weights give valid sets. They are best for Gaussian noise and the squared error; for Laplace noise the
    best shape would be an l1 ball with a unit of its own for each coordinate, which `Sensitivity` does not have.
    """
    if neighbours != "replace" or any(item.kind == "people" for item in layout.items):
        return []
    items, alpha = layout.items, np.array(weights)
    if not (whole_rows and not cells and all(item.always for item in items)):
        return [_shared_rows(items, cells, rows, whole_rows, max_rows, alpha)]
    # Every row counts in everything: sums alone can move by their widths together, products cannot.
    return [_moments(layout, max_rows, alpha)] if any(item.kind == "product" for item in items) else []


def _shared_rows(
    items: tuple[Item, ...], cells: int, rows: int, whole_rows: bool, max_rows: int, weights: Floats
) -> Sensitivity:
    """The ellipsoid of rows that the items of one scope share.

    Statement. A scope is a list of columns that must be present as numbers (perhaps none), and the items that need
    exactly these. A row counts in a scope when it lies in some group and has these numbers; to the items of a scope in
    which it does not count it adds 0. Replace one row by another. In each scope one of two things happens.

    1. Both rows count, in the same group. Then an item moves by at most most - least (so a count does not move), and a
       histogram by at most 1 in each of two cells.
    2. Anything else: each row adds at most c to one cell of an item, or nothing. Without groups there are only the
       two rows of which at most one counts: at most c in one cell. With groups they may lie in two: at most c in each.

    So with A and B the squared l2 norms that items can move by in the two cases, the sum over items of w |d|^2 is at
    most h = sum over scopes of max(w.A, w.B), for any w >= 0. Scopes are added up, so nothing is assumed about which
    case happens in one scope when the other happens in another: a column may be a number, a category and a key at once.
    A person's m rows move the root of that sum, a norm, at most m times as far. That is the ellipsoid with radii
    m sqrt(h/w).

    The best w (E1 for p = 2, with n coordinates per item): in each scope u = t A + (1 - t) B with the t that maximises
    sum of alpha sqrt(n u), a concave function of one variable, and w = alpha sqrt(n / u).
    """
    sizes = np.array([len(item.names) * max(cells, 1) for item in items])
    units = np.array([item.step for item in items])
    reach = np.array([max(item.size, item.most - item.least) for item in items]) * units
    cost = _relative(np.log2(weights) + np.log2(sizes) / 2 + np.log2(reach))
    # In units of the reach, so that squares stay within the range of floats.
    size = np.array([float(item.size) for item in items]) * units / reach
    stay = np.array([item.most - item.least for item in items]) * units / reach
    within = np.where([item.cells is not None for item in items], math.sqrt(2.0), stay) ** 2
    across = size**2 * (2 if cells else 1)
    scopes = [item.present for item in items]
    shares, worst = np.zeros(len(items)), 0.0
    for scope in dict.fromkeys(scopes):
        in_scope = np.array([present == scope for present in scopes])
        same = bool(whole_rows and not scope and not cells)  # every row counts, and nothing else can happen
        one, two = within[in_scope], within[in_scope] if same else across[in_scope]
        mixed = _mixture(one, two, cost[in_scope])
        share = np.divide(cost[in_scope], np.sqrt(mixed), out=np.zeros_like(mixed), where=mixed > 0)
        shares[in_scope] = share
        worst += max(float(share @ one), float(share @ two))
    touched = np.where(sizes > 1, 2 * rows, 1)
    rounding = touched * _rounding(items, max_rows) / reach
    norm = rows * math.sqrt(worst) + float(np.sqrt(shares @ rounding**2))
    # A share is 0 where an item moves in no case, and nowhere else.
    radii = np.divide(reach * norm * _UP, np.sqrt(shares), out=np.zeros_like(reach), where=shares > 0)
    return _ellipsoid(items, radii, None if sizes.max() == 1 else sizes.tolist())


def _mixture(one: Floats, two: Floats, cost: Floats) -> Floats:
    """The point between two that maximises sum of cost sqrt(u): its slope along the way is bisected."""
    low, high = 2.0**-_HALVINGS, 1 - 2.0**-52  # not the ends: what one of the two lacks needs a share too
    moving = np.maximum(one, two) > 0
    gain, factor = (one - two)[moving], cost[moving]
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        slope = float(factor @ (gain / np.sqrt(two[moving] + middle * gain)))
        low, high = (middle, high) if slope > 0 else (low, middle)
    return np.asarray(two + low * (one - two))


def _moments(layout: Layout, max_rows: int, weights: Floats) -> Sensitivity:
    """The ellipsoid of `replaced_products` (E8), for counts, sums and products to which every row adds.

    Besides the columns there is the constant 1: its product with a column is the column's sum, its product with itself
    the count, which does not move. Centring a square takes the same off both rows. A sum rounds to another grid than
    the products of its column, so it lies within a step of each, in either row, of the sum that goes with the products;
    that is added by the triangle inequality, as is the rounding to floats.

    The shape is that of weights c_i c_j: the squares say c_i, the sums what it is for the constant and other columns.
    """
    items = layout.items
    grids = {item.columns[0]: layout.values[item.columns[0]] for item in items if item.kind == "sum"}
    grids |= {column: layout.factors[column] for item in items if item.kind == "product" for column in item.columns}
    place = {column: at for at, column in enumerate(grids, start=1)}
    pairs = [[*(place[column] for column in item.columns), 0, 0][:2] for item in items]
    i, j = np.array(pairs).T
    size = np.array([1.0, *(grid.size * grid.step for grid in grids.values())])
    logs, costs = np.log2(weights), np.zeros(size.size)
    squares, sums = (i == j) & (i > 0), (i > 0) & (j == 0)
    costs[i[squares]] = logs[squares] / 2
    paired = sums & np.isin(i, i[squares])
    costs[0] = np.mean(logs[paired] - costs[i[paired]])
    alone = sums & ~paired
    costs[i[alone]] = logs[alone] - costs[0]
    radii = np.where(i > 0, replaced_products(size, _relative(costs + np.log2(size)), i, j), 0.0)
    apart = [2 * (item.step + grids[item.columns[0]].step) if item.kind == "sum" else 0.0 for item in items]
    moved = np.divide(_rounding(items, max_rows) + apart, radii, out=np.zeros_like(radii), where=radii > 0)
    norm = 1 + float(np.sqrt(moved @ moved))
    return _ellipsoid(items, radii * norm * _UP, None)


def _relative(logs: Floats) -> Floats:
    """Positive numbers of which only the ratios matter, from logarithms: the largest is 1, and none vanishes."""
    return np.asarray(np.exp2(np.maximum(logs - logs.max(), -_SPAN)))


def _rounding(items: tuple[Item, ...], max_rows: int) -> Floats:
    """What the rounding of each item's sum to a float adds to its change."""
    return np.array([conversion_slack(largest_sum(item, max_rows)) * item.step for item in items])


def _ellipsoid(items: tuple[Item, ...], radii: Floats, counts: Sequence[int] | None) -> Sensitivity:
    labels = [item.label for item in items]
    return Sensitivity.ellipsoid(radii, counts=counts, labels=labels, neighbours="replace")


def _single(item: Item, neighbours: Neighbours, rows: int, whole_rows: bool, max_rows: int) -> float:
    if item.kind == "people":
        rows = 1
    if neighbours != "replace":
        public = neighbours == "zero_out" and whole_rows and item.always and item.kind == "count"
        units = 0 if public else rows * item.size
    elif whole_rows and item.always:
        units = item.most - item.least
    else:
        units = rows * item.width
    slack = conversion_slack(largest_sum(item, max_rows)) if units else 0
    return _value(units + slack, item.step)


def _spread(item: Item, norm: str, neighbours: Neighbours, rows: int, max_rows: int, cells: int) -> float:
    touched = 2 * rows if neighbours == "replace" else rows
    slack = touched * conversion_slack(largest_sum(item, max_rows))
    if item.kind == "people":
        changed = min(touched, cells)
        return (changed if norm == "l1" else math.nextafter(math.sqrt(changed), math.inf)) + slack
    if neighbours != "replace":
        return _value(rows * item.size + slack, item.step)
    if norm == "l1":
        return _value(2 * rows * item.size + slack, item.step)
    # The float nearest to sqrt(2) lies above it, and one step up covers the rounding of the product.
    diagonal = math.nextafter(math.sqrt(2.0) * _value(rows * item.size, 1.0), math.inf)
    reach = max(_value(rows * item.width, 1.0), diagonal)
    return (math.nextafter(reach + slack, math.inf) if slack else reach) * item.step


def _value(units: int, step: float) -> float:
    """Whole units as a float that is not below them; the step is a power of two."""
    number = float(units)
    return (number if number >= units else math.nextafter(number, math.inf)) * step
