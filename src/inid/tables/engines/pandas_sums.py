"""Terms of pandas columns as NumPy arrays, sums of them by groups, and sums of many products at once.

An expression takes pandas milliseconds however few rows there are, and a covariance matrix has thousands of them.

Sums of products are matrix products, which hold whole numbers exactly here:
A factor of a product is a whole number of at most 2^15 in size (half of the largest before its shift, see
`inid.fixed_point`), so a product is at most 2^30, and the sum of 2^17 of them at most 2^47: float64 holds it and every
partial sum exactly, in whatever order BLAS adds. Sums by groups are added up as float64 as well, in blocks of rows so
short that the largest term times their number is below 2^53, and from block to block as whole numbers.
"""

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from inid.tables.engines.terms import OnGrid, Present, Product, Term

_ROWS = 1 << 17
_GROUPED_ROWS = 1 << 15  # of a block: its columns stay in the cache from one step to the next
_EXACT = 1 << 53
_ENTRIES = 1 << 20  # of a block: it stays in the cache


def product_sums(frame: Any, products: Mapping[str, Product]) -> dict[str, int]:
    """The sum of each product over the rows that count."""
    totals: dict[str, int] = {}
    for condition in dict.fromkeys(product.condition for product in products.values()):
        of_condition = {name: product for name, product in products.items() if product.condition == condition}
        mask = None if condition is None else frame[condition].to_numpy(dtype=bool)
        columns = list(
            dict.fromkeys(column for product in of_condition.values() for column in (product.first, product.second))
        )
        place = {column: at for at, column in enumerate(columns)}
        pairs = [(place[product.first], place[product.second]) for product in of_condition.values()]
        sums = (
            _all_pairs(frame, columns, mask) if len(pairs) > len(columns) else _few_pairs(frame, columns, pairs, mask)
        )
        number = len(frame) if mask is None else int(mask.sum())
        for (name, product), (i, j) in zip(of_condition.items(), pairs, strict=True):
            totals[name] = int(sums[i, j]) - product.shift * number
    return totals


def grouped_sums(
    frame: Any, codes: NDArray[np.int64], cells: int, terms: Mapping[str, Term]
) -> list[NDArray[np.int64]]:
    """The sum of each term over the rows of each group, one array per term."""
    totals = [np.zeros(cells, dtype=np.int64) for _ in terms]
    step = max(min([_GROUPED_ROWS, *(_EXACT // _largest(term) for term in terms.values())]), 1)
    names = dict.fromkeys(name for term in terms.values() for name in _columns(term))
    columns = {name: frame[name].to_numpy() for name in names}
    on_grid = {term.name: term for term in terms.values() if isinstance(term, OnGrid)}
    for start in range(0, len(codes), step):
        place = codes[start : start + step]
        block = {name: column[start : start + step] for name, column in columns.items()}
        counts = np.bincount(place, minlength=cells)
        # Sums are made as if nothing were missing; they are NaN where something is.
        sums = {name: _added(place, _weights(block, term, ()), counts) for name, term in on_grid.items()}
        gaps = {name for name, added in sums.items() if np.isnan(added).any()}
        gaps |= {name for name, values in block.items() if name not in sums and np.isnan(np.add.reduce(values))}
        for at, term in enumerate(terms.values()):
            if isinstance(term, OnGrid) and term is on_grid[term.name] and term.name not in gaps:
                added = sums[term.name]
            else:
                added = _added(place, _weights(block, term, gaps), counts)
            totals[at] += added.astype(np.int64)
    return totals


def _added(place: NDArray[np.int64], weights: NDArray[np.float64] | None, counts: NDArray[np.int64]) -> NDArray[Any]:
    return counts if weights is None else np.bincount(place, weights=weights, minlength=counts.size)


def _columns(term: Term) -> list[str]:
    if isinstance(term, Present):
        return [name for name, _ in term.columns]
    names = [term.first, term.second] if isinstance(term, Product) else [term.name]
    return names if term.condition is None else [*names, term.condition]


def _largest(term: Term) -> int:
    """A bound on the size of what a row adds."""
    if isinstance(term, Present):
        return 1
    grid = term.grid if isinstance(term, OnGrid) else None
    most = 1 << 30 if grid is None else int(grid.upper * grid.factor - grid.offset) + 1
    return most + abs(term.shift)


def _weights(block: Mapping[str, NDArray[Any]], term: Term, gaps: Collection[str]) -> NDArray[np.float64] | None:
    """What each row of a block adds, as float64; None where every row adds 1."""
    if isinstance(term, Present):
        missing = [np.isnan(block[name]) for name, _ in term.columns if name in gaps]
        return (~np.logical_or.reduce(missing)).astype(np.float64) if missing else None
    if isinstance(term, Product):
        value = block[term.first] * block[term.second].astype(np.float64)
    else:
        value = _places_on_grid(block[term.name], term, gaps=term.name in gaps)
        np.floor(value, out=value)  # not negative
    if term.shift:
        value -= term.shift
    return value if term.condition is None else value * block[term.condition]


def term_array(frame: Any, term: Term) -> NDArray[Any]:
    """What each row adds; columns of numbers are doubles, with NaN for what is missing."""
    if isinstance(term, Present):
        present = np.ones(len(frame), dtype=bool)
        for name, _ in term.columns:
            present &= ~np.isnan(frame[name].to_numpy())
        return present
    value: NDArray[Any]
    if isinstance(term, Product):
        value = frame[term.first].to_numpy() * frame[term.second].to_numpy()
    else:
        value = _on_grid(frame[term.name].to_numpy(), term)
    if term.condition is None:
        return value - term.shift if term.shift else value
    return np.where(frame[term.condition].to_numpy(dtype=bool), value - term.shift, 0)


def _on_grid(values: NDArray[np.float64], term: OnGrid) -> NDArray[np.int64]:
    """The operations of `Grid.integer`, before its shift."""
    return _places_on_grid(values, term).astype(np.int64)  # not negative: cuts fractions off


def _places_on_grid(values: NDArray[np.float64], term: OnGrid, *, gaps: bool = True) -> NDArray[np.float64]:
    """The same with fractions; without gaps no value is missing."""
    grid = term.grid
    clipped = np.clip(values, grid.lower, grid.upper)
    if gaps:
        clipped[np.isnan(clipped)] = min(max(term.usual, grid.lower), grid.upper)
    clipped *= grid.factor
    clipped -= grid.offset
    return clipped


def _all_pairs(frame: Any, columns: list[str], mask: NDArray[np.bool_] | None) -> NDArray[np.int64]:
    values = [frame[column].to_numpy() for column in columns]
    total = np.zeros((len(columns), len(columns)), dtype=np.int64)
    step = min(max(_ENTRIES // len(columns), 1), _ROWS)
    for start in range(0, len(frame), step):
        block = np.array([value[start : start + step] for value in values], dtype=np.float64)
        if mask is not None:
            block = block[:, mask[start : start + step]]
        total += (block @ block.T).astype(np.int64)
    return total


def _few_pairs(
    frame: Any, columns: list[str], pairs: list[tuple[int, int]], mask: NDArray[np.bool_] | None
) -> dict[tuple[int, int], int]:
    total = dict.fromkeys(pairs, 0)
    for start in range(0, len(frame), _ROWS):
        rows = slice(start, start + _ROWS)
        for i, j in pairs:
            one, two = (frame[columns[at]].to_numpy()[rows].astype(np.float64) for at in (i, j))
            total[i, j] += int(one @ two if mask is None else (one * mask[rows]) @ two)
    return total
