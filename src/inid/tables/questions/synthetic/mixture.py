"""Tables of all pairs that some rows could have, near noisy ones: those of a mixture of products.

A mixture of K products, each with a distribution of its own for every column, has the table sum_k w_k p_ki (x) p_kj for
columns i and j. These tables agree with each other and none is negative, whatever the weights and distributions, and
with K large enough they come near any tables of rows. The weighted squared distance to the noisy residuals,

    sum over columns of |residual - y_i|^2 / var_i + sum over pairs of |residual - y_ij|^2 / var_ij,

is made small by Adam (Kingma and Ba, 2015) on logarithms of weights and distributions, with a step that falls like a
cosine. It looks at released numbers alone.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from inid.arguments import Floats
from inid.tables.questions.synthetic.blocks import Block
from inid.tables.questions.synthetic.level_space import LevelSpace, Singles

__all__ = ["Wanted", "fitted_tables"]

_PRODUCTS = 400
_ROUNDS = 600
_STEP = 0.05
_SPREAD = 0.5  # of the first distributions, in logarithms
_LEAST = 1e-4


@dataclass(frozen=True)
class Wanted:
    """Residuals in shares of the rows, and how much each counts.

    Attributes:
        columns: The residuals of each column.
        column_weights: One over their variances.
        pairs: The residuals of each pair.
        pair_weights: One over their variances.
    """

    columns: Sequence[Floats]
    column_weights: Sequence[float]
    pairs: Mapping[Block, Floats]
    pair_weights: Mapping[Block, float]


def fitted_tables(
    space: LevelSpace,
    wanted: Wanted,
    shares: Sequence[Floats],
    rng: np.random.Generator,
    told: Callable[[float], None],
) -> Floats:
    """The table of tables of the mixture that is found.

    Args:
        space: The levels.
        wanted: The residuals.
        shares: The shares of levels from which the search starts.
        rng: For the first distributions.
        told: Called with the part that is done.
    """
    y1, w1, y2, w2 = _arrays(space, wanted)
    base = np.concatenate([np.log(np.maximum(own, _LEAST)) for own in shares])
    logs = (base + _SPREAD * rng.standard_normal((_PRODUCTS, space.width))).astype(np.float32)
    weights = np.zeros(_PRODUCTS, dtype=np.float32)
    search = [_Adam(logs), _Adam(weights)]
    for turn in range(1, _ROUNDS + 1):
        p, w = _softmax(space, logs), _softmax(None, weights)
        tables = p.T @ (w[:, None] * p)
        slopes = space.centred(w2 * (space.centred(tables) - y2))
        slopes = 2 * (slopes + slopes.T)
        off = space.spread(np.add.reduceat(w @ p, space.starts) / np.array(space.sizes, dtype=np.float32))
        slope = w1 * (w @ p - off - y1)
        slope = slope - space.spread(np.add.reduceat(slope, space.starts) / np.array(space.sizes, dtype=np.float32))
        moved = p @ slopes.astype(np.float32)
        by_p = w[:, None] * (moved + 2 * slope)
        by_w = 0.5 * (moved * p).sum(axis=1) + 2 * (p @ slope)
        inner = np.add.reduceat(by_p * p, space.starts, axis=1)
        step = _STEP * 0.5 * (1 + np.cos(np.pi * turn / _ROUNDS))
        search[0].move(logs, p * (by_p - space.spread(inner)), step, turn)
        search[1].move(weights, w * (by_w - w @ by_w), step, turn)
        told(turn / _ROUNDS)
    p, w = _softmax(space, logs).astype(np.float64), _softmax(None, weights).astype(np.float64)
    w /= w.sum()
    found, own = p.T @ (w[:, None] * p), w @ p
    for span in space.spans:
        found[span, span] = np.diag(own[span])
    return found


def _arrays(space: LevelSpace, wanted: Wanted) -> tuple[Singles, Singles, Singles, Singles]:
    y1 = np.concatenate(wanted.columns)
    w1 = space.spread(np.array(wanted.column_weights))
    y2, w2 = np.zeros((space.width, space.width)), np.zeros((space.width, space.width))
    for (one, two), table in wanted.pairs.items():
        y2[space.spans[one], space.spans[two]] = table
        w2[space.spans[one], space.spans[two]] = wanted.pair_weights[one, two]
    unit = max(float(w1.max()), float(w2.max()))
    single = np.float32
    return y1.astype(single), (w1 / unit).astype(single), y2.astype(single), (w2 / unit).astype(single)


def _softmax(space: LevelSpace | None, logs: Singles) -> Singles:
    """Distributions from their logarithms, column by column; or of one whole."""
    if space is None:
        found = np.exp(logs - logs.max())
        return np.asarray(found / found.sum(), dtype=np.float32)
    found = np.exp(logs - space.spread(np.maximum.reduceat(logs, space.starts, axis=1)))
    found /= space.spread(np.add.reduceat(found, space.starts, axis=1))
    return np.asarray(found, dtype=np.float32)


class _Adam:
    """Running means of slopes and of their squares."""

    def __init__(self, like: Singles) -> None:
        self.mean, self.square = np.zeros_like(like), np.zeros_like(like)

    def move(self, values: Singles, slope: Singles, step: float, turn: int) -> None:
        self.mean += np.float32(0.1) * (slope - self.mean)
        self.square += np.float32(0.01) * (slope * slope - self.square)
        size = np.sqrt(self.square / np.float32(1 - 0.99**turn)) + np.float32(1e-12)
        values -= np.float32(step / (1 - 0.9**turn)) * self.mean / size
