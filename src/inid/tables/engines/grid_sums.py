"""Sums of numbers on grids and counts of values, put together from what an engine finds quickly.

Beside each mean it is asked how many values the column has: engines count them in the pass that adds up.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from inid.tables.engines.terms import OnGrid, Present, Term

Integers = NDArray[np.int64]


@dataclass(frozen=True)
class GridSums:
    """The sums of plain terms, by groups or over all rows, after the keys of the groups."""

    frame: Any
    groups: Sequence[str]
    terms: Mapping[str, Any]

    @staticmethod
    def possible(terms: Mapping[str, Any]) -> bool:
        """Whether these terms can be added up so."""
        return are_plain(terms)


def are_plain(terms: Mapping[str, object]) -> bool:
    """Whether all terms but "one" are numbers on grids, without a condition, and presences of one column at most."""
    others = [term for name, term in terms.items() if name != "one"]
    plain = [
        term.condition is None and not term.shift if isinstance(term, OnGrid) else len(term.columns) <= 1
        for term in others
        if isinstance(term, OnGrid | Present)
    ]
    return any(isinstance(term, OnGrid) for term in others) and len(plain) == len(others) and all(plain)


def numbers_on_grids(terms: Mapping[str, object]) -> dict[str, OnGrid]:
    """The terms that are numbers on grids."""
    return {name: term for name, term in terms.items() if isinstance(term, OnGrid)}


def number_columns(terms: Mapping[str, object]) -> list[str]:
    """The columns of numbers in plain terms, by their names in the query."""
    present = [name for term in terms.values() if isinstance(term, Present) for name, _ in term.columns]
    return list(dict.fromkeys([*present, *(term.name for term in numbers_on_grids(terms).values())]))


def put_together(
    terms: Mapping[str, Term], rows: Integers, values: Mapping[str, Integers], sums: Mapping[str, Integers]
) -> list[Integers]:
    """The sums of plain terms in each group, modulo 2^64."""
    totals = {"one": rows}
    for name, term in terms.items():
        if isinstance(term, Present):
            totals[name] = values.get(term.columns[0][0], rows) if term.columns else rows
        elif isinstance(term, OnGrid):
            missing = rows - values.get(term.name, rows)
            totals[name] = sums[name] + missing * (term.grid.integer(term.usual) + term.grid.below)
    return [totals[name] for name in terms]
