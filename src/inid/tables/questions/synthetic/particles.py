"""Rows of nearly the largest entropy among those with wanted tables of pairs, by persistent chains.

The distribution of the largest entropy with these tables is exp(sum of theta over pairs of levels), up to a constant.
Rows start independent, where theta is 0. In each turn theta takes a step along the logarithm of the ratio of the wanted
tables to those of the rows, and each column of each row is drawn anew given the others (a sweep of Gibbs sampling), so
that the rows follow the distribution as it moves (Younes 1999; Tieleman 2008). A step of a pair is centred, so that it
says nothing about the columns alone. Where the rows move away from the wanted tables, steps become smaller.

Few rows suffice to find theta; all of them take the last turns.
"""

from collections.abc import Callable
from itertools import pairwise

import numpy as np

from inid.arguments import Floats
from inid.tables.questions.synthetic.level_space import Codes, LevelSpace, Singles

__all__ = ["entropic_rows"]

_TURNS = ((18, 6), (6, 2), (4, 1))  # how many turns, and of how many rows one takes part
_STEP = 0.3
_HELD = 0.6  # of the turns, before steps become smaller
_FARTHER = 1.5  # than the nearest so far: more than chance


def entropic_rows(
    space: LevelSpace, tables: Floats, number: int, rng: np.random.Generator, told: Callable[[float], None]
) -> Codes:
    """So many rows whose tables of pairs are near the wanted ones.

    Args:
        space: The levels.
        tables: The wanted table of tables.
        number: How many rows.
        rng: For the rows.
        told: Called with the part that is done.
    """
    turns = [max(number // part, 1) for count, part in _TURNS for _ in range(count)]
    shares = np.diag(tables).copy()
    codes = np.empty((turns[0], len(space.sizes)), dtype=np.int32)
    for at, span in enumerate(space.spans):
        codes[:, at] = rng.choice(space.sizes[at], turns[0], p=shares[span] / shares[span].sum())
    pairs, singles = np.zeros(tables.shape), np.log(shares + 1e-6)
    size, nearest, done = _STEP, np.inf, 0
    for turn, rows in enumerate(turns):
        if rows != len(codes):
            codes = codes[rng.permutation(np.arange(rows) % len(codes))]
        own, floor = space.tables(codes), 1.0 / rows
        off = float(np.abs(tables - own).sum())
        if off > _FARTHER * nearest:
            size, nearest = size / 2, off
        nearest = min(off, nearest)
        step = size * min(1.0, (1 - turn / len(turns)) / (1 - _HELD))
        moved = np.where(space.other_columns, np.log((tables + floor) / (own + floor)), 0.0)
        pairs += step * np.where(space.other_columns, space.centred(moved), 0.0)
        singles += step * np.log((shares + floor) / (np.diag(own) + floor))
        _sweep(space, codes, pairs.astype(np.float32), singles.astype(np.float32), rng)
        done += rows
        told(done / sum(turns))
    return codes


def _sweep(space: LevelSpace, codes: Codes, theta: Singles, own: Singles, rng: np.random.Generator) -> None:
    """Draw each column of each row anew given the others."""
    order = rng.permutation(len(space.sizes)).tolist()
    for at, ones in space.chunks(codes):
        rows = np.arange(ones.shape[1])
        for column in order:
            span = space.spans[column]
            chances = theta[span] @ ones + own[span, None]
            chances -= chances.max(axis=0)
            with np.errstate(under="ignore"):  # a chance that is too small for a float is none
                np.exp(chances, out=chances)
            for low, high in pairwise(chances):  # row by row: `accumulate` along columns takes 30 times as long
                np.add(low, high, out=high)
            drawn = (chances[:-1] <= rng.random(len(rows), dtype=np.float32) * chances[-1]).sum(axis=0)
            ones[span] = 0
            ones[span.start + drawn, rows] = 1
            codes[at, column] = drawn
