"""A full scan in plain Python: what the exact sums of a table query must be, and who its neighbours are.

Written from the documentation, not from the library's expressions: rows are dictionaries, None or NaN is missing.
"""

import itertools
import math
from fractions import Fraction

__all__ = ["scan"]


def _missing(value):
    return value is None or (isinstance(value, float) and math.isnan(value))


def _on_grid(value, grid):
    clipped = Fraction(min(max(float(value), grid.lower), grid.upper))
    unit = Fraction(2) ** grid.bits
    middle = float(Fraction(grid.middle) * unit - Fraction(1, 2))
    return math.floor(float(clipped * unit - Fraction(middle)))  # each difference rounded once, as by IEEE arithmetic


def _adds(row, item, layout, fill):
    """What one row adds to one item: one integer per cell of the item."""
    values = {name: fill.get(name) if _missing(row.get(name)) else row[name] for name in {*item.columns, *item.present}}
    if any(_missing(values[name]) for name in item.present):
        return [0] * len(item.names)
    if item.cells is not None:
        value = values[item.columns[0]]
        if hasattr(item.cells, "values"):
            return [int(value == key) for key in item.cells.values]
        pairs = list(itertools.pairwise(item.cells.edges))
        inside = [low <= value < high or value == high == item.cells.edges[-1] for low, high in pairs]
        return [int(hit) for hit in inside]
    if item.kind == "count":
        return [1]
    grids = layout.values if item.kind == "sum" else layout.factors
    return [math.prod(_on_grid(values[name], grids[name]) for name in item.columns) - item.shift]


def _order(value):
    return (not _missing(value), 0 if _missing(value) else value)


def scan(query, rows):
    """The exact sums of a query over rows, in the order of its labels."""
    table, layout = query.table, query.layout
    cells = list(itertools.product(*query.by.values()))
    kept = [row for row in rows if tuple(row.get(name) for name in query.by) in cells]
    person = table.person
    made = [[_adds(row, item, layout, table.missing) for item in layout.items] for row in kept]
    entries = [(row, tuple(itertools.chain(*adds)), adds) for row, adds in zip(kept, made, strict=True)]
    if person is not None:
        entries = [entry for entry in entries if not _missing(entry[0].get(person.column))]
        entries.sort(
            key=lambda e: (
                [_order(e[0].get(name)) for name in person.order],
                e[1],
                [e[0].get(name) for name in query.by],
            )
        )
        seen, limited = {}, []
        for entry in entries:
            who = entry[0][person.column]
            seen[who] = seen.get(who, 0) + 1
            if seen[who] <= person.max_rows:
                limited.append(entry)
        entries = limited
    sums = [[[0] * len(item.names) for _ in cells] for item in layout.items]
    for row, _, adds in entries:
        at = cells.index(tuple(row.get(name) for name in query.by))
        for item, values in enumerate(adds):
            sums[item][at] = [a + b for a, b in zip(sums[item][at], values, strict=True)]
    return [value for item in sums for cell in item for value in cell]
