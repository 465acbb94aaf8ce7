"""How far one person can move the released sums: the sensitivity set, from public facts alone.

For one item (a sum whose rows add integers in [least, most], or nothing) let c = max(|least|, |most|) and
w = max(most, 0) - min(least, 0). One person has m rows.

| the item is | add_remove, zero_out | replace |
| --- | --- | --- |
| one sum over all rows | m c | m w; most - least where every row adds (no filter) and m = 1 is the unit |
| spread over disjoint cells, l1 norm | m c | 2 m c |
| spread over disjoint cells, l2 norm | m c | m max(sqrt(2) c, w) |

Why: the change is a sum of at most m vectors, one per row of the person (replace: one per pair of an old and a new row,
either of which may be absent). A row touches one cell of an item. Adding one row changes one cell by at most c, so both
norms are at most c. Replacing one changes either one cell, by at most w <= 2c, or two cells by at most c each: l1 at
most 2c, l2 at most max(w, sqrt(2) c). The triangle inequality gives the factor m; it is attained when all m rows
coincide. Items are bounded one by one, which is exactly a box (single sums) or a set of groups (cells).

The number of people is a sum to which a person adds 1 in each cell where they have a row, however many: at most 1
without cells (under replace too: one person comes, stays or goes), and with cells at most 1 in each of up to m cells
(of 2 m under replace), of which there may be fewer: l1 norm k, l2 norm sqrt(k), k the number of cells that can change.

Under zero_out a row becomes nothing, which adds 0 to every sum: the bounds of add_remove. The number of rows, nothings
included, is public: where the unit is a row and all rows count, the count does not move.

Under add_remove and zero_out nothing more is to be had: one row at the upper bounds of all columns moves every item by
its bound at once. Under replace it cannot: a row that changes the count (it had no value, or another cell) moves its
sums by c, not w; and no pair of rows moves all products of two columns by their widths. `joint_sets` bounds the items
together.

Each touched cell may also move by the rounding of a large integer to a float, so that slack is added per touched cell.
"""

import math
from collections.abc import Sequence

import numpy as np

from inid.arguments import Floats
from inid.fixed_point import conversion_slack
from inid.sets import Neighbours, Sensitivity
from inid.sets.moments import replaced_products
from inid.tables.questions.statistics.layout import Item, Layout

__all__ = ["candidate_sets", "joint_sets", "largest_sum", "narrowest"]

_UP = 1 + 2.0**-40  # more than the rounding of the sums that make a radius
_HALVINGS = 60
_SPAN = 200  # bits between the largest and the smallest weight that shapes a set; any weights are valid


def largest_sum(item: Item, max_rows: int) -> int:
    """Sums are held to this size: what `max_rows` rows can reach."""
    return item.size * max_rows


def candidate_sets(
    items: tuple[Item, ...], cells: int, neighbours: Neighbours, rows: int, whole_rows: bool, max_rows: int
) -> list[Sensitivity]:
    """The sensitivity sets that hold for these items; each alone is valid, so one may plan with the better.

    Args:
        items: What is released.
        cells: The number of cells that groups split the rows into; rows in none of them add nothing. 0: no groups.
        neighbours: The relation.
        rows: The rows of one person.
        whole_rows: The unit is a row and no filter leaves any out, so that replacing one leaves the number of rows
            that count as it was.
        max_rows: The number of rows up to which sums are exact.

    Returns:
        A box when every item is a single sum, else groups bounded in l1 and groups bounded in l2.
    """
    labels = [item.label for item in items]
    if not cells and all(item.cells is None for item in items):
        bounds = [_single(item, neighbours, rows, whole_rows, max_rows) for item in items]
        return [Sensitivity.box(bounds, labels=labels, neighbours=neighbours)]
    sizes = [len(item.names) * max(cells, 1) for item in items]
    found = []
    for norm in ("l1", "l2"):
        bounds = [
            _spread(item, norm, neighbours, rows, max_rows, cells)
            if cells or item.cells is not None
            else _single(item, neighbours, rows, whole_rows, max_rows)
            for item in items
        ]
        found.append(Sensitivity.groups(sizes, **{norm: bounds}, labels=labels, neighbours=neighbours))  # type: ignore[arg-type]
    return found


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

    Args:
        layout: The items and their grids.
        cells: As for `candidate_sets`, like the next four.
        neighbours: The relation.
        rows: The rows of one person.
        whole_rows: The unit is a row, and all of them count.
        max_rows: The limit on the rows of the table.
        weights: What a unit of error costs, one per item.

    Returns:
        Nothing under add_remove and zero_out, where the box and the groups are attained, nor where people are counted.
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
        own = np.array([present == scope for present in scopes])
        same = bool(whole_rows and not scope and not cells)  # every row counts, and nothing else can happen
        one, two = within[own], within[own] if same else across[own]
        mixed = _mixture(one, two, cost[own])
        share = np.divide(cost[own], np.sqrt(mixed), out=np.zeros_like(mixed), where=mixed > 0)
        shares[own] = share
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
