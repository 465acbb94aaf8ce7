"""Rows of the largest entropy among those with given tables of pairs, by sequential Monte Carlo.

The distribution of the largest entropy with these tables is exp(sum of theta over pairs of levels), up to a constant.
Rows start independent, where theta is 0. In each turn theta takes a small step along the logarithm of the ratio of the
wanted tables to those of the rows; the rows are weighted by what that changes, resampled, and each column of each row
is drawn anew given the others (a sweep of Gibbs sampling), so that the rows follow the distribution (Del Moral, Doucet
and Jasra, 2006). A step of a pair is centred, so that it says nothing about the columns alone.
"""

from collections.abc import Callable

import numpy as np

from inid.arguments import Floats
from inid.tables.questions.synthetic.level_space import Codes, LevelSpace
from inid.tables.questions.synthetic.raking import systematic

__all__ = ["entropic_rows"]

_TURNS = 30
_STEP = 0.1
_TINY = 1e-12


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
    shares, floor = np.diag(tables).copy(), 1.0 / number
    codes = np.empty((number, len(space.sizes)), dtype=np.int32)
    for at, span in enumerate(space.spans):
        codes[:, at] = rng.choice(space.sizes[at], number, p=shares[span] / shares[span].sum())
    pairs, singles = np.zeros(tables.shape), np.log(shares + 1e-6)
    for turn in range(_TURNS):
        own = space.tables(codes)
        step = _STEP * (1 if turn < 0.6 * _TURNS else 2.5 * (1 - turn / _TURNS) + 0.01)
        moved = np.where(space.other_columns, step * np.log((tables + floor) / (own + floor)), 0.0)
        moved = np.where(space.other_columns, space.centred(moved), 0.0)
        alone = step * np.log((shares + floor) / (np.diag(own) + floor))
        pairs, singles = pairs + moved, singles + alone
        codes = codes[_resampled(space, codes, moved, alone, rng)]
        _swept(space, codes, pairs, singles, rng)
        told((turn + 1) / _TURNS)
    return codes


def _resampled(
    space: LevelSpace, codes: Codes, moved: Floats, alone: Floats, rng: np.random.Generator
) -> "np.ndarray[tuple[int], np.dtype[np.intp]]":
    """Rows in proportion to what a step of theta makes of their probability."""
    logs = np.empty(len(codes))
    pairs, singles = (0.5 * moved).astype(np.float32), alone.astype(np.float32)
    for at, ones in space.chunks(codes):
        logs[at] = (ones * (ones @ pairs)).sum(axis=1) + ones @ singles
    return systematic(np.exp(logs - logs.max()), len(codes), rng)


def _swept(space: LevelSpace, codes: Codes, pairs: Floats, singles: Floats, rng: np.random.Generator) -> None:
    """Draw each column of each row anew given the others."""
    theta, own = pairs.astype(np.float32), singles.astype(np.float32)
    order = rng.permutation(len(space.sizes)).tolist()
    for at, ones in space.chunks(codes):
        rows = np.arange(len(ones))
        for column in order:
            span = space.spans[column]
            logs = ones @ theta[:, span] + own[span]
            logs -= np.log(-np.log(rng.random(logs.shape, dtype=np.float32) + _TINY) + _TINY)  # Gumbel's noise
            drawn = logs.argmax(axis=1)
            ones[:, span] = 0
            ones[rows, span.start + drawn] = 1
            codes[at, column] = drawn
