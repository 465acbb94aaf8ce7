"""Samples of weighted rows whose tables of pairs are nearer to wanted ones than those of a sample at random.

A sample in proportion to weights has each row as often as its weight says, up to one. Which rows are rounded up is
free: rows that were rounded up and stand in cells with too many are exchanged for others that were rounded down and
stand in cells with too few, some at a time, as long as

    sum over cells of (wanted - there)^2 / sqrt(max(wanted, 1))

falls. Such a sample is less random than one of independent rows; small ones are left as they were drawn.
"""

import numpy as np
from numpy.typing import NDArray

from inid.arguments import Floats
from inid.tables.questions.synthetic.level_space import Codes, LevelSpace
from inid.tables.questions.synthetic.raking import systematic

__all__ = ["near_sample"]

_TURNS = 20
_FIRST = 0.1  # of the rows: the most that are exchanged at once
_LEAST_ROWS = 2000
_WORSE = 1.0  # times the least so far: an exchange that ends above that is taken back


def near_sample(
    space: LevelSpace, tables: Floats, codes: Codes, weights: Floats, number: int, rng: np.random.Generator
) -> NDArray[np.intp]:
    """The places of so many rows in proportion to their weights, whose tables are near the wanted ones.

    Args:
        space: The levels.
        tables: The wanted table of tables.
        codes: The rows.
        weights: Their weights; they add up to 1.
        number: How many rows are drawn.
        rng: For the draw.
    """
    counts = np.bincount(systematic(weights, number, rng), minlength=len(codes))
    if not _LEAST_ROWS <= number <= len(codes):
        return np.repeat(np.arange(len(codes)), counts)
    due, best, kept, most = weights * number, np.inf, counts, int(_FIRST * number)
    scale = 1 / np.sqrt(np.maximum(tables * number, 1.0))
    for turn in range(_TURNS + 1):
        gap = number * (tables - space.tables(codes, counts.astype(np.float64)))
        off = float((scale * gap * gap).sum())
        if off < _WORSE * best:
            best, kept, short = off, counts, _sums(space, codes, scale * gap)
        else:
            most //= 2
        if turn == _TURNS:
            break
        half = rng.random((2, len(codes))) < 0.5
        out, new = np.flatnonzero((kept > 0) & (kept >= due - 0.5) & half[0]), np.flatnonzero((kept < due) & half[1])
        some = min(most, len(out) // 3, len(new) // 3)
        if some < 1:
            break
        counts = kept.copy()
        counts[out[np.argpartition(short[out], some)[:some]]] -= 1
        counts[new[np.argpartition(-short[new], some)[:some]]] += 1
    return np.repeat(np.arange(len(codes)), kept)


def _sums(space: LevelSpace, codes: Codes, matrix: Floats) -> Floats:
    """For each row the sum of a matrix over its cells in all tables of pairs."""
    found = np.zeros(len(codes), dtype=np.float32)
    for _, first, second, cells in space.cells(codes):
        found += matrix[first, second].astype(np.float32).reshape(-1)[cells]
    return found.astype(np.float64)
