"""The sums of a layout, as an engine adds them up, and in the order in which they are released."""

from collections.abc import Mapping, Sequence
from itertools import product

import numpy as np

from inid.tables.aggregation import (
    Aggregation,
    Grouping,
    Inside,
    Integers,
    Pair,
    People,
    PublicKeys,
    Rows,
    Term,
    Totals,
    Value,
)
from inid.tables.facts import Key, Person
from inid.tables.questions.statistics.layout import Item, Layout
from inid.tables.view import View

__all__ = ["arranged", "cell_names", "sums_aggregation"]


def cell_names(by: Mapping[str, Sequence[Key]]) -> list[tuple[tuple[str, Key], ...]]:
    """The cells of a group-by over public keys, in the order in which they are reported; one empty cell without."""
    return [tuple(zip(by, keys, strict=True)) for keys in product(*by.values())]


def sums_aggregation(
    layout: Layout, by: Mapping[str, tuple[Key, ...]], fill: Mapping[str, object], person: Person | None, view: View
) -> Aggregation:
    """The exact sums of a layout, by public keys.

    Args:
        layout: The items.
        by: The public keys of each column that groups.
        fill: The public fill value of each column that has one.
        person: Whose rows are limited, or None.
        view: Which rows there are.
    """
    terms = tuple(term for item in layout.items for term in _terms(item, layout))
    keys = {column: PublicKeys(column, tuple(listed)) for column, listed in by.items()}
    return Aggregation(keys, terms, (Grouping(tuple(keys), tuple(range(len(terms)))),), fill, person, view=view)


def arranged(layout: Layout, found: Totals) -> Integers:
    """The sums item by item, within an item cell by cell of the groups."""
    ends = np.cumsum([len(item.names) for item in layout.items])
    table = found.sums.reshape(len(found.sums), -1)
    return np.concatenate([part.T.ravel() for part in np.split(table, ends[:-1])])


def _terms(item: Item, layout: Layout) -> list[Term]:
    """What each row adds to each sum of an item."""
    if item.cells is not None:
        return [Inside(item.columns[0], item.cells, at, item.present) for at in range(len(item.names))]
    if item.kind == "people":
        return [People()]
    if item.kind == "count":
        return [Rows(item.present)]
    if item.kind == "sum":
        return [Value(item.columns[0], layout.values[item.columns[0]], item.present)]
    first, second = item.columns
    return [Pair((first, second), (layout.factors[first], layout.factors[second]), item.shift, item.present)]
