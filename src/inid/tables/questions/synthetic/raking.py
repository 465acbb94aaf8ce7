"""Weights of rows that bring their tables of pairs nearer to wanted ones, and samples of weighted rows.

Raking multiplies the weights of the rows of a cell by the ratio of what is wanted there to what is there, one pair of
columns after the other (iterative proportional fitting, Deming and Stephan 1940). Ratios are damped and held to a
factor of 4, so that no row counts for very many: the *effective* number of rows, (sum w)^2 / sum w^2, says how far
weighted rows are worth as many as there are.
"""

from collections.abc import Callable
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from inid.arguments import Floats
from inid.tables.questions.synthetic.level_space import Codes, LevelSpace

__all__ = ["effective", "raked", "systematic"]

_CYCLES = 8
_MOST = 4.0
_LEAST = 1e-12


def raked(
    space: LevelSpace, tables: Floats, codes: Codes, rng: np.random.Generator, told: Callable[[float], None]
) -> Floats:
    """The weight of each row; they add up to 1."""
    columns, pairs = np.ascontiguousarray(codes.T), list(combinations(range(len(space.sizes)), 2))
    weights, floor = np.ones(len(codes)), 0.25 / len(codes)
    for cycle in range(_CYCLES):
        power = 0.7 if cycle < _CYCLES - 2 else 0.4
        for at in rng.permutation(len(pairs)).tolist():
            one, two = pairs[at]
            wanted = tables[space.spans[one], space.spans[two]].reshape(-1)
            cells = columns[one] * np.int32(space.sizes[two]) + columns[two]
            there = np.bincount(cells, weights=weights, minlength=wanted.size) / weights.sum()
            ratio = np.clip((wanted + floor) / (there + floor), 1 / _MOST, _MOST)
            weights *= (ratio**power)[cells]
            weights = np.maximum(weights / weights.mean(), _LEAST)  # so that hundreds of factors do not end at 0
        told((cycle + 1) / _CYCLES)
    return np.asarray(weights / weights.sum())


def effective(weights: Floats) -> float:
    """How many rows of equal weight these are worth.

    >>> effective(np.array([0.5, 0.5])), effective(np.array([1.0, 0.0]))
    (2.0, 1.0)
    """
    return float(weights.sum() ** 2 / np.square(weights).sum())


def systematic(weights: Floats, number: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """The places of so many rows in proportion to their weights, at even distances after one random start.

    >>> systematic(np.array([1.0, 0.0, 3.0]), 4, np.random.default_rng(0)).tolist()
    [0, 2, 2, 2]
    """
    ends = np.cumsum(weights)
    points = (rng.random() + np.arange(number)) * (ends[-1] / number)
    found: NDArray[np.intp] = np.searchsorted(ends, points, side="right")
    return np.minimum(found, len(weights) - 1).astype(np.intp)
