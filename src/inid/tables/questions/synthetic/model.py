"""From noisy tables to rows: shrinkage, a mixture of products, and a pool of rows that is drawn from.

A block of residuals, less what independence would give, is a matrix of low rank and noise that is the same in every
direction. The singular values that minimise the squared error are those of Gavish and Donoho, "Optimal shrinkage of
singular values" (2017), for the Frobenius loss: with y = s / (sigma sqrt(b)) and beta = a / b, a <= b the dimensions,

    sqrt((y^2 - beta - 1)^2 - 4 beta) / y  for y > 1 + sqrt(beta), else 0, times sigma sqrt(b).
"""

import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from math import prod
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from inid.arguments import Floats, integer, shown
from inid.errors import ArgumentError
from inid.noise.source import current_source
from inid.tables.engines.made_columns import MadeColumn
from inid.tables.questions.synthetic.blocks import Block
from inid.tables.questions.synthetic.columns import InBins, LevelColumn
from inid.tables.questions.synthetic.level_space import (
    Codes,
    LevelSpace,
    Mask,
    Singles,
    effective,
    entropic_rows,
    near_sample,
    raked,
)
from inid.tables.questions.synthetic.rules import Rules
from inid.tables.questions.synthetic.three_steps import Measured, no_interaction


def shrunk(noisy: Floats, std: float) -> Floats:
    """The matrix with its singular values shrunk."""
    short, long = min(noisy.shape) - 1, max(noisy.shape) - 1
    left, values, right = np.linalg.svd(noisy, full_matrices=False)
    unit, beta = std * np.sqrt(long), short / long
    if not unit > 0:
        return noisy
    y = values / unit
    inner = np.maximum((y**2 - beta - 1) ** 2 - 4 * beta, 0)
    factors = np.where(y > 1 + np.sqrt(beta), np.sqrt(inner) / np.maximum(y, 1.0), 0.0)
    return np.asarray((left * (factors * unit)) @ right) + 0.0


# Tables of all pairs that some rows could have, near noisy ones: those of a mixture of products.
#
# A mixture of K products, each with a distribution of its own for every column, has the table sum_k w_k p_ki (x) p_kj
# for columns i and j. These tables agree with each other and none is negative, whatever the weights and
# distributions, and with K large enough they come near any tables of rows. The weighted squared distance to the noisy
# residuals,
#
#     sum over columns of |residual - y_i|^2 / var_i + sum over pairs of |residual - y_ij|^2 / var_ij,
#
# is made small by Adam (Kingma and Ba, 2015) on logarithms of weights and distributions, with a step that falls like a
# cosine. It looks at released numbers alone.
#
# A *penalty* is added: so many times sum_k w_k sum over columns of KL(p_ki | p_i), p_i the column's shares. Near
# independence KL is a quadratic form, and the least sum of |u_k|^2 / 2 + |v_k|^2 / 2 with sum_k u_k (x) v_k given is
# the nuclear norm: so what noise adds in many directions goes, in all tables at once, and cells of rare levels stay
# near independence. As with any soft threshold, it suits noise of its own size: with P the mean precision of kept
# pairs, U the largest weight of the distance, W levels and d columns it is in proportion to sqrt(P) / U d / sqrt(W),
# times the mean of 1 - 2 / D, since pairs of D <= 2 degrees of freedom are nothing to shrink.
#
# Two fits are averaged: of the measured pairs with the whole penalty, and of pairs whose singular values were shrunk
# before, with a part of it. They err in different ways.

_PRODUCTS = 400
_ROUNDS = 600
_STEP = 0.05
_SPREAD = 0.5  # of the first distributions, in logarithms
_SMALLEST_SHARE, _LEAST_SHARE = 1e-4, np.float32(1e-12)
_PENALTY = 1.0
_OF_SHRUNK = 0.3  # of the penalty


@dataclass(frozen=True)
class TargetTables:
    """Residuals in shares of the rows, how much each counts, and the penalty on dependence."""

    columns: Sequence[Floats]
    column_weights: Sequence[float]
    pairs: Mapping[Block, Floats]
    pair_weights: Mapping[Block, float]
    penalty: float = 0.0

    @property
    def unit(self) -> float:
        """The largest weight."""
        return max(*self.column_weights, *self.pair_weights.values())


def fitted_tables(
    space: LevelSpace,
    targets: TargetTables,
    shares: Sequence[Floats],
    rng: np.random.Generator,
    report: Callable[[float], None],
) -> Floats:
    """The table of tables of the mixture that is found."""
    y1, w1, y2, w2 = _arrays(space, targets)
    base = np.concatenate([np.log(np.maximum(mean, _SMALLEST_SHARE)) for mean in shares]).astype(np.float32)
    penalty = np.float32(targets.penalty)
    logs = (base + _SPREAD * rng.standard_normal((_PRODUCTS, space.width))).astype(np.float32)
    weights = np.zeros(_PRODUCTS, dtype=np.float32)
    search = [_Adam(logs), _Adam(weights)]
    for number in range(1, _ROUNDS + 1):
        p, w = _softmax(space, logs), _softmax(None, weights)
        tables = p.T @ (w[:, None] * p)
        slopes = space.centred(w2 * (space.centred(tables) - y2))
        slopes = 2 * (slopes + slopes.T)
        off = space.spread(np.add.reduceat(w @ p, space.starts) / np.array(space.sizes, dtype=np.float32))
        slope = w1 * (w @ p - off - y1)
        slope = slope - space.spread(np.add.reduceat(slope, space.starts) / np.array(space.sizes, dtype=np.float32))
        moved = p @ slopes.astype(np.float32)
        apart = penalty * (np.log(np.maximum(p, _LEAST_SHARE)) - base)
        by_p = w[:, None] * (moved + 2 * slope + apart)
        by_w = (p * (0.5 * moved + apart)).sum(axis=1) + 2 * (p @ slope)
        inner = np.add.reduceat(by_p * p, space.starts, axis=1)
        step = _STEP * 0.5 * (1 + np.cos(np.pi * number / _ROUNDS))
        search[0].move(logs, p * (by_p - space.spread(inner)), step, number)
        search[1].move(weights, w * (by_w - w @ by_w), step, number)
        report(number / _ROUNDS)
    p, w = _softmax(space, logs).astype(np.float64), _softmax(None, weights).astype(np.float64)
    w /= w.sum()
    second, mean = p.T @ (w[:, None] * p), w @ p
    for span in space.spans:
        second[span, span] = np.diag(mean[span])
    return second


def _arrays(space: LevelSpace, targets: TargetTables) -> tuple[Singles, Singles, Singles, Singles]:
    y1 = np.concatenate(targets.columns)
    w1 = space.spread(np.array(targets.column_weights))
    y2, w2 = np.zeros((space.width, space.width)), np.zeros((space.width, space.width))
    for (one, two), table in targets.pairs.items():
        y2[space.spans[one], space.spans[two]] = table
        w2[space.spans[one], space.spans[two]] = targets.pair_weights[one, two]
    unit, single = targets.unit, np.float32
    return y1.astype(single), (w1 / unit).astype(single), y2.astype(single), (w2 / unit).astype(single)


def _softmax(space: LevelSpace | None, logs: Singles) -> Singles:
    """Distributions from their logarithms, column by column; or of one whole."""
    if space is None:
        shares = np.exp(logs - logs.max())
        return np.asarray(shares / shares.sum(), dtype=np.float32)
    shares = np.exp(logs - space.spread(np.maximum.reduceat(logs, space.starts, axis=1)))
    shares /= space.spread(np.add.reduceat(shares, space.starts, axis=1))
    return np.asarray(shares, dtype=np.float32)


class _Adam:
    """Running means of slopes and of their squares."""

    def __init__(self, like: Singles) -> None:
        self.mean, self.square = np.zeros_like(like), np.zeros_like(like)

    def move(self, values: Singles, slope: Singles, step: float, turn: int) -> None:
        self.mean += np.float32(0.1) * (slope - self.mean)
        self.square += np.float32(0.01) * (slope * slope - self.square)
        size = np.sqrt(self.square / np.float32(1 - 0.99**turn)) + np.float32(1e-12)
        values -= np.float32(step / (1 - 0.9**turn)) * self.mean / size


# From released numbers to rows: shrinkage, a mixture of products, Gibbs sampling, raking. No look at data.
#
# The targets of kept pairs are their measured tables, with the noise shrunk; those of the others are independence, and
# count for as much as their scores say that they may be off.

_LEAST, _MOST = 20_000, 60_000  # rows of a pool
_MORE = 2.5  # times as many as the table has: the noise of few would be seen in tables of three columns
_PARTS = (0.3, 0.55, 0.15)  # of the time: mixture, rows, raking


class Effort(NamedTuple):
    """About what making rows takes the first time: seconds of one processor, and megabytes."""

    seconds: float
    megabytes: float


def effort(sizes: Sequence[int]) -> Effort:
    """About what it takes to make rows of columns with so many levels, of a table with 24,000 rows or more.

    Chains and mixture multiply matrices of all levels; chains, raking and samples go through all pairs. What is held
    are the rows of the pool, some of them as zeros and ones, and tables of tables. The rates are those of one processor
    of 2026, within a fifth of what 5 to 60 columns with 10 to 400 levels in all took, and of 100 with 1,000.
    """
    levels, pairs = float(sum(sizes)), len(sizes) * (len(sizes) - 1) / 2
    seconds = 6.2e-5 * levels**2 + 4.5e-3 * levels + 1.2e-2 * pairs + 0.2
    memory = 4 * _MOST * (3 * len(sizes) + 12) + 16 * 2048 * levels + 100 * levels**2 + 32 * 400 * levels
    return Effort(seconds, memory / 1e6)


@dataclass(frozen=True, eq=False)
class Pool:
    """Weighted rows, of which samples are drawn."""

    space: LevelSpace
    codes: Codes
    weights: Floats
    tables: Floats
    triples: Mapping[Block, Floats] = field(default_factory=dict)

    @property
    def effective(self) -> float:
        """How many rows of equal weight these are worth, as a part of their number."""
        return effective(self.weights) / len(self.weights)

    def sample(self, number: int, rng: np.random.Generator) -> Codes:
        """So many rows."""
        order = rng.permutation(len(self.weights))
        codes, weights = self.codes[order], self.weights[order]
        drawn = near_sample(self.space, self.tables, codes, weights, number, rng, self.triples)
        return np.asarray(self.codes[order[rng.permutation(drawn)]])


def fitted_pool(
    measured: Measured, rng: np.random.Generator, report: Callable[[float], None], rules: Rules | None = None
) -> Pool:
    """The rows that follow from what was released, and keep the rules."""
    space = LevelSpace(measured.steps.sizes)
    total, shares = measured.summary
    masks = [] if rules is None else rules.masks

    def part(at: int) -> Callable[[float], None]:
        return lambda done: report(sum(_PARTS[:at]) + _PARTS[at] * done)

    with np.errstate(under="ignore"):
        fits = [
            fitted_tables(space, targets, shares, rng, lambda done, at=at: part(0)((at + done) / 2))  # type: ignore[misc]
            for at, targets in enumerate(_targets(measured))
        ]
        tables = (fits[0] + fits[1]) / 2
        for mask in masks:
            tables = mask.inside(tables, space)
        number = int(np.clip(round(_MORE * total), _LEAST, _MOST))
        triples = {block: _triple_table(measured, space, tables, block, masks) for block in measured.triples}
        first_levels = {} if rules is None else rules.first_levels
        codes = entropic_rows(space, tables, number, rng, part(1), masks, first_levels, triples)
        return Pool(space, codes, raked(space, tables, codes, rng, part(2), triples), tables, triples)


def _triple_table(
    measured: Measured, space: LevelSpace, tables: Floats, triple: Block, masks: Sequence[Mask]
) -> Floats:
    """The target table of three columns, in shares of the rows.

    What was measured beside the pairs, less what the same pairs give without an interaction, is shrunk by 1 - D / S,
    S the sum of its squares in units of its noise and D its degrees of freedom (James and Stein 1961), or is nothing.
    """
    total = measured.summary.total
    pairs: dict[Block, Floats] = {
        (one, two): tables[space.spans[triple[one]], space.spans[triple[two]]] for one, two in combinations(range(3), 2)
    }
    plain = from_pairs = no_interaction(pairs)
    for axis in range(3):
        from_pairs = from_pairs - from_pairs.mean(axis=axis, keepdims=True)
    apart = measured.tables[triple] / total - from_pairs
    squares = float(np.square(apart).sum()) * total**2 / measured.variances[triple]
    degrees = prod(space.sizes[at] - 1 for at in triple)
    table = np.maximum(plain + apart * max(1 - degrees / max(squares, 1e-300), 0.0), 0.0)
    for mask in masks:
        inside = [at for at in mask.columns if at in triple]
        if len(inside) > 1:
            allowed = mask.allowed.any(axis=tuple(axis for axis, at in enumerate(mask.columns) if at not in inside))
            table = table * np.expand_dims(allowed, [axis for axis, at in enumerate(triple) if at not in inside])
    return no_interaction(pairs, table)


def _targets(measured: Measured) -> Iterator[TargetTables]:
    """What the two mixtures are fitted to, in shares of the rows."""
    total, _ = measured.summary
    columns, sizes = measured.steps.columns.members[1:], measured.steps.sizes
    tables: dict[Block, Floats] = {}
    weights: dict[Block, float] = {}
    noise = float(measured.scores.plan.scales[0])
    for at, pair in enumerate(measured.steps.pairs):
        variance = measured.variances.get(pair)
        if variance is None:
            tables[pair] = measured.independent(pair) / total
            score = max(float(measured.scores.values[at]), noise)
            weights[pair] = tables[pair].size * (total / score) ** 2
        else:
            tables[pair], weights[pair] = measured.tables[pair] / total, total**2 / variance
    of_columns = [measured.tables[block] / total for block in columns]
    targets = TargetTables(
        of_columns, [total**2 / measured.variances[block] for block in columns], dict(tables), weights
    )
    free = [max(1 - 2 / prod(sizes[at] - 1 for at in pair), 0.0) for pair in measured.kept]
    precision = np.mean([weights[pair] for pair in measured.kept] or [0.0])
    scale = np.mean(free or [0.0]) * np.sqrt(precision) / targets.unit * len(sizes) / np.sqrt(sum(sizes))
    yield replace(targets, penalty=_PENALTY * float(scale))
    for pair in measured.kept:
        independent = measured.independent(pair) / total
        tables[pair] = independent + shrunk(tables[pair] - independent, np.sqrt(measured.variances[pair]) / total)
    yield replace(targets, pairs=tables, penalty=_OF_SHRUNK * _PENALTY * float(scale))


# Rows from what was released: the model is fitted once, and rows are drawn from it again and again.

Progress = Callable[[float], None] | bool | None
_FEW = 0.2  # of the rows: fewer effective ones are warned of
_MOST_ROWS = 10**8


class UnevenRowsWarning(UserWarning):
    """Few of the synthetic rows carry most of the weight, so that they are worth fewer rows than there are."""


@dataclass(frozen=True, eq=False)
class RowMaker:
    """Makes rows of released numbers, and of nothing else."""

    columns: tuple[LevelColumn, ...]
    measured: Measured
    rules: Rules | None = None
    inside: Mapping[int, InBins] = field(default_factory=dict)

    def rows(
        self, n: int | None, progress: Progress, schema: Mapping[str, Any] = MappingProxyType({})
    ) -> dict[str, MadeColumn]:
        """So many rows, column by column; by default the noisy number of rows of the table."""
        rng = _generator()
        codes = self.codes(n, progress, rng)
        if self.rules is None:
            values = [column.drawn(codes[:, at], rng, self.inside.get(at)) for at, column in enumerate(self.columns)]
        else:
            values = self.rules.values(codes, rng, self.inside)
        return {
            column.name: column.made(codes[:, at], values_of_column, schema)
            for at, (column, values_of_column) in enumerate(zip(self.columns, values, strict=True))
        }

    def codes(self, n: int | None, progress: Progress = None, rng: np.random.Generator | None = None) -> Codes:
        """The same as places of levels, a column for each column of the table."""
        most = f"pass a number of rows up to {_MOST_ROWS:,}, or none"
        number = round(self.measured.summary.total) if n is None else integer("n", n, least=1, cure=most)
        if number > _MOST_ROWS:
            raise ArgumentError(f"n must be at most {_MOST_ROWS:,}, got {shown(n)}: {most}.")
        report = progress if callable(progress) else _Line(sys.stderr.isatty() if progress is None else progress)
        return self.pool(report).sample(number, rng or _generator())

    def beside(self) -> list[tuple[str, float]]:
        """The total variation of rows from each table that was measured, once rows were made; the noise is in it."""
        pool: Pool | None = self.__dict__.get("_made")
        if pool is None:
            return []
        sentences, measured = [], self.measured
        for block in (*measured.steps.columns.members[1:], *measured.kept):
            shape = tuple(self.columns[at].size for at in block)
            cells = np.ravel_multi_index([pool.codes[:, at] for at in block], shape)
            shares = np.bincount(cells, weights=pool.weights, minlength=prod(shape))
            target = measured.table(block, 0.95).estimate.reshape(-1) / measured.summary.total
            name = "*".join(self.columns[at].name for at in block)
            sentences.append((name, 0.5 * float(np.abs(shares - target).sum())))
        return sentences

    def pool(self, report: Callable[[float], None]) -> Pool:
        """The weighted rows of which samples are drawn; made at the first call, which an interrupt does not spoil."""
        pool: Pool | None = self.__dict__.get("_made")
        if pool is None:
            pool = self.__dict__["_made"] = fitted_pool(self.measured, _generator(), report, self.rules)
            if not pool.effective >= _FEW:
                warnings.warn(
                    f"the rows are worth {pool.effective:.0%} of their number: their tables differ much from "
                    "independent columns. Use fewer levels, fewer columns or a larger promise.",
                    UnevenRowsWarning,
                    stacklevel=4,
                )
        return pool


class _Line:
    """How far it is, on one line of a terminal."""

    def __init__(self, shown: bool) -> None:
        self._shown, self._last = shown, -1

    def __call__(self, done: float) -> None:
        percent = int(100 * done)
        if self._shown and percent != self._last:
            self._last = percent
            sys.stderr.write(f"\rmaking rows: {percent:3} %" + ("\n" if percent >= 100 else ""))
            sys.stderr.flush()


def _generator() -> np.random.Generator:
    """Random numbers that follow from the library's source; rows are made of public numbers, and need no exact law."""
    return np.random.Generator(np.random.Philox(key=current_source().bits(128)))
