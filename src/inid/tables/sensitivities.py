"""How far one person can move the released sums: the sensitivity set, from public facts alone.

For one item (a sum whose rows add integers in [least, most], or nothing) let c = max(|least|, |most|) and
w = max(most, 0) - min(least, 0). One person has m rows.

| the item is | add_remove | replace |
| --- | --- | --- |
| one sum over all rows | m c | m w; most - least where every row adds and m = 1 is the unit |
| spread over disjoint cells, l1 norm | m c | 2 m c |
| spread over disjoint cells, l2 norm | m c | m max(sqrt(2) c, w) |

Why: the change is a sum of at most m vectors, one per row of the person (replace: one per pair of an old and a new row,
either of which may be absent). A row touches one cell of an item. Adding one row changes one cell by at most c, so both
norms are at most c. Replacing one changes either one cell, by at most w <= 2c, or two cells by at most c each: l1 at
most 2c, l2 at most max(w, sqrt(2) c). The triangle inequality gives the factor m; it is attained when all m rows
coincide. Items are bounded one by one, which is exactly a box (single sums) or a set of groups (cells).

Each touched cell may also move by the rounding of a large integer to a float, so that slack is added per touched cell.
"""

import math

from inid.sensitivity import Neighbours, Sensitivity
from inid.tables.grids import conversion_slack
from inid.tables.items import Item

__all__ = ["candidate_sets", "largest_sum"]


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
        neighbours: "add_remove" or "replace".
        rows: The rows of one person.
        whole_rows: The unit is a row, so that replacing one leaves the number of rows as it was.
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
            _spread(item, norm, neighbours, rows, max_rows)
            if cells or item.cells is not None
            else _single(item, neighbours, rows, whole_rows, max_rows)
            for item in items
        ]
        found.append(Sensitivity.groups(sizes, **{norm: bounds}, labels=labels, neighbours=neighbours))  # type: ignore[arg-type]
    return found


def _single(item: Item, neighbours: Neighbours, rows: int, whole_rows: bool, max_rows: int) -> float:
    if neighbours == "add_remove":
        units = rows * item.size
    elif whole_rows and item.always:
        units = item.most - item.least
    else:
        units = rows * item.width
    slack = conversion_slack(largest_sum(item, max_rows)) if units else 0
    return _value(units + slack, item.step)


def _spread(item: Item, norm: str, neighbours: Neighbours, rows: int, max_rows: int) -> float:
    touched = rows if neighbours == "add_remove" else 2 * rows
    slack = touched * conversion_slack(largest_sum(item, max_rows))
    if neighbours == "add_remove":
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
