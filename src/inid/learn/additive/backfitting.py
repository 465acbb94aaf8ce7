"""Private backfitting: every step asks for noisy sums of residuals by cell, and improves one shape by them.

A pass visits the intercept and each column. With S_b the noisy sum of the residuals in bin b and n_b its released
number of rows, S_b / n_b (over the mean curvature h_b, for labels and counts) is what the shape lacks in that bin. The
first half of the passes takes it whole, so that columns that go together share out what they explain; after that the
shape's mean by bin is the mean over passes, which averages their noise. The means are smoothed (`additive.shapes`), and
centred by the released numbers of rows.

Residuals of numbers are clipped to a size c that is chosen anew before each pass, by a released histogram of their
sizes: it balances the noise, which grows with c, and what clipping takes off. At the end the mean residual is released
once more, clipped less, so that predictions have the released mean of the target.

Pairs of columns have a score each, from a coarse table of residuals: the part of their variance that the table
explains, less that of the noise. Those of the largest scores get a finer table of what the shapes leave.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtrc

from inid.arguments import Floats
from inid.learn.additive.backfitting_plan import (
    PAIR_CELLS,
    RESIDUAL_CELLS,
    SCORE_CELLS,
    TARGET_CELLS,
    BackfittingSteps,
    residual_edges,
)
from inid.learn.additive.shapes import equal_groups, merged_bins, monotone, roughness, smoothed
from inid.learn.descent.objective import exponentials
from inid.learn.public_units import row_sums
from inid.noise import RandomSource, add_noise

Codes = NDArray[np.intp]
_GRID = float(2**20)  # a residual, and a step of a shape, is a whole number of 1 / 2^20 of its unit: sums are exact
_CLIPPED = 0.3  # how much the square of what clipping takes off counts beside that of the noise
_SMOOTH_BINS = 16  # about as many bins have noise of their own once a shape is smoothed
_LONGEST_LOGIT, _LONGEST_LOG = 2.0, 1.0  # steps of a shape in one pass
_LEAST_CURVATURE = 0.05
_LEAST_SHARE = 0.01
_EXTREME = 30.0  # of a logit or a logarithm
_TOGETHER = 0.3  # of a pair's table: its own size, beside the differences of neighbouring cells


class Target(Protocol):
    """What a model learns of each row, as arrays of one row for each person and one column for each output."""

    reach: float  # of the residual of a number; that of labels is at most 1

    def residuals(self, state: Floats) -> Floats:
        """The target less what is predicted of each row, from that row alone."""
        ...

    def curvature(self, state: Floats) -> Floats:
        """How fast predictions move with the state, by row and output."""
        ...

    def longest(self, clip: float) -> float:
        """How far one pass may move the state."""
        ...


@dataclass(frozen=True)
class LabelTarget:
    """1 for the label of each row, 0 for others; of two labels one column, for the second."""

    marks: Floats
    reach: float = 1.0

    def residuals(self, state: Floats) -> Floats:
        """The marks less the probabilities."""
        return np.asarray(self.marks - probabilities(state))

    def curvature(self, state: Floats) -> Floats:
        """That of a logit: p (1 - p)."""
        chance = probabilities(state)
        return np.asarray(chance * (1 - chance))

    def longest(self, clip: float) -> float:  # noqa: ARG002 - for numbers
        """A logit."""
        return _LONGEST_LOGIT


@dataclass(frozen=True)
class NumberTarget:
    """Numbers within bounds; with `logarithmic` the state is the logarithm of their mean."""

    values: Floats
    reach: float
    most: float
    logarithmic: bool = False

    def predicted(self, state: Floats) -> Floats:
        """The mean of each row."""
        return np.minimum(exponentials(state), self.most) if self.logarithmic else state

    def residuals(self, state: Floats) -> Floats:
        """The target less its mean."""
        return np.asarray(self.values[:, None] - self.predicted(state))

    def curvature(self, state: Floats) -> Floats:
        """The mean of a count; 1 of other numbers."""
        return self.predicted(state) if self.logarithmic else np.ones_like(state)

    def longest(self, clip: float) -> float:
        """What no mean of clipped residuals exceeds; of a logarithm 1."""
        return _LONGEST_LOG if self.logarithmic else clip


def probabilities(state: Floats) -> Floats:
    """Of one column the probability of the second label; of more those of all labels. Each row by itself."""
    if state.shape[1] == 1:
        return np.asarray(1 / (1 + exponentials(-np.clip(state, -_EXTREME, _EXTREME))))
    powers = exponentials(np.clip(state, -_EXTREME, _EXTREME))
    return np.asarray(powers / row_sums(powers)[:, None])


@dataclass(frozen=True)
class NoisySums:
    """Draws the numbers of each part with its noise, and knows the deviation of that."""

    scales: Mapping[str, float]
    mechanism: Literal["gaussian", "laplace"]
    source: RandomSource

    def draw(self, part: str, exact: Floats) -> Floats:
        """Exact numbers with noise."""
        flat = np.ascontiguousarray(exact, dtype=np.float64).ravel()
        noisy = add_noise(flat, np.full(flat.size, self.scales[part]), self.mechanism, self.source)
        return np.asarray(noisy).reshape(exact.shape)

    def deviation(self, part: str) -> float:
        """The standard deviation of the noise of each number."""
        return self.scales[part] * (1.0 if self.mechanism == "gaussian" else float(np.sqrt(2)))


@dataclass(eq=False)
class Column:
    """One column: which bin each fine level is in, what was released of the bins, and its shape."""

    merged: Codes
    places: Floats | None  # of the bins, in fine levels; None for categories
    counts: Floats
    direction: int
    outputs: int
    means: Floats = field(init=False)
    variances: Floats = field(init=False)  # of the noise in the means
    values: Floats = field(init=False)
    errors: Floats = field(init=False)

    def __post_init__(self) -> None:
        shape = len(self.counts), self.outputs
        self.means, self.variances, self.values, self.errors = (np.zeros(shape) for _ in range(4))

    @cached_property
    def prior(self) -> Floats:
        """The roughness of a shape."""
        return roughness(len(self.counts), self.places)

    def learn(self, lacking: Floats, noise: Floats, sampling: Floats, new: float) -> Floats:
        """Mix in what the shape lacks, smooth it, and return by how much its values move."""
        kept = 1 - new
        self.means = kept * self.means + new * (self.values + lacking)
        self.variances = kept**2 * self.variances + new**2 * noise
        before, self.values = self.values, np.empty_like(self.values)
        for at in range(self.outputs):
            variances = self.variances[:, at] + sampling[:, at]
            shape, covariance = smoothed(self.means[:, at], variances, self.prior)
            if self.direction:
                shape = monotone(shape, variances, self.direction)
            share = self.counts / self.counts.sum()
            away = np.eye(len(share)) - share  # less the mean over the rows
            self.values[:, at] = np.rint(away @ shape * _GRID) / _GRID
            self.errors[:, at] = np.sqrt(np.maximum(np.diag(away @ covariance @ away.T), 0.0))
        return np.asarray(self.values - before)


@dataclass(eq=False)
class PairTable:
    """What two columns add together, by groups of their bins."""

    columns: tuple[int, int]
    groups: tuple[Codes, Codes]
    values: Floats
    errors: Floats


@dataclass(eq=False)
class AdditiveFit:
    """The fitted state: an intercept, columns and pairs, and how sure they are."""

    intercept: Floats
    columns: list[Column]
    pairs: list[PairTable]
    scores: dict[tuple[int, int], float]
    rows: float

    @property
    def chance(self) -> float:
        """The chance that noise alone makes the means by bin as different from 0 as they are."""
        freedom = sum(one.means.size - one.outputs for one in self.columns)
        if not freedom:
            return 0.0
        total = 0.0
        for one in self.columns:
            weights = 1 / one.variances
            centre = (weights * one.means).sum(axis=0) / weights.sum(axis=0)
            total += float((weights * np.square(one.means - centre)).sum())
        return float(chdtrc(freedom, total))

    def state(self, places: NDArray[np.int64]) -> Floats:
        """The sum of the shapes for rows of levels, each row by itself."""
        bins = [one.merged[places[:, at]] for at, one in enumerate(self.columns)]
        total = np.tile(self.intercept, (len(places), 1))
        for one, own in zip(self.columns, bins, strict=True):
            total += one.values[own]
        for pair in self.pairs:
            first, second = (group[bins[at]] for group, at in zip(pair.groups, pair.columns, strict=True))
            total += pair.values[first, second]
        return total


@dataclass(eq=False)
class Backfitting:
    """One fit: what is public of it, the noise that was paid for, and the rows."""

    steps: BackfittingSteps
    sums: NoisySums
    places: NDArray[np.int64]
    target: Any
    directions: list[int]
    ordered: list[bool]
    keep: list[bool]  # the columns whose bins were stated
    rows: int | None
    ends: tuple[float, float] | None
    labels: NDArray[np.intp] | None = None

    def run(self) -> AdditiveFit:
        """Release, pass after pass."""
        steps = self.steps
        self._count_bins()
        clip, spread = self._start()
        self._state = np.tile(self._intercept, (len(self.places), 1))
        for turn in range(steps.passes):
            if turn and not steps.labels:
                clip, spread = self._clip_by_sizes()
            curvature = self._mean_curvature()
            self._pass(turn, clip, spread, curvature)
        pairs, scores = self._pairs(clip, spread, curvature) if steps.pairs else ([], {})
        if not steps.labels:
            self._calibrate()
        return AdditiveFit(self._intercept, self._columns, pairs, scores, self._rows)

    def _count_bins(self) -> None:
        """Release the number of rows in each fine level, and merge those with few."""
        steps, deviation = self.steps, self.sums.deviation("bins")
        fine = [
            np.bincount(self.places[:, at], minlength=size).astype(np.float64) for at, size in enumerate(steps.fine)
        ]
        fine_counts = np.split(self.sums.draw("bins", np.concatenate(fine)), np.cumsum(steps.fine)[:-1])
        if self.rows is None:
            self._rows = max(float(self.sums.draw("rows", np.array([float(len(self.places))]))[0]), 1.0)
        else:
            self._rows = float(max(self.rows, 1))
        self._columns = []
        for at, noisy in enumerate(fine_counts):
            merged = np.arange(len(noisy), dtype=np.intp)
            if self.ordered[at] and not self.keep[at]:
                merged = merged_bins(noisy, max(self._rows / steps.bins[at], 2 * deviation))
                merged = np.minimum(merged, steps.bins[at] - 1)
            totals = np.maximum(np.bincount(merged, weights=noisy), deviation)
            middles = np.bincount(merged, weights=np.arange(len(noisy))) / np.bincount(merged)
            self._columns.append(
                Column(
                    merged,
                    middles if self.ordered[at] else None,
                    totals * (self._rows / totals.sum()),
                    self.directions[at],
                    steps.outputs,
                )
            )
        self._bins = [one.merged[self.places[:, at]] for at, one in enumerate(self._columns)]

    def _start(self) -> tuple[float, float]:
        """The intercept, the first clip, and the variance of a residual, from what is released of the target."""
        steps, deviation = self.steps, self.sums.deviation
        if self.labels is not None:
            counts = np.bincount(self.labels, minlength=steps.labels).astype(np.float64)
            counts = np.maximum(self.sums.draw("labels", counts), 0.0)
            shares = np.maximum(counts / max(float(counts.sum()), 1.0), _LEAST_SHARE)
            shares /= shares.sum()
            logs = np.log(shares)
            self._intercept = np.array([logs[1] - logs[0]]) if steps.outputs == 1 else logs - logs.mean()
            return 1.0, float((shares * (1 - shares)).mean())
        low, high = self.ends or (0.0, 1.0)
        half, values = (high - low) / 2, self.target.values
        z = self._on_grid((values - low - half) / half)
        mean = low + half + half * float(self.sums.draw("mean", np.array([z.sum() / _GRID]))[0]) / self._rows
        self._mean = mean = min(max(mean, low + 1e-3 * (high - low)), high)
        cells = np.minimum(((values - low) / (2 * half) * TARGET_CELLS).astype(np.intp), TARGET_CELLS - 1)
        counts = self.sums.draw("target", np.bincount(cells, minlength=TARGET_CELLS).astype(np.float64))
        middles = low + 2 * half * (np.arange(TARGET_CELLS) + 0.5) / TARGET_CELLS
        self._intercept = np.array([np.log(mean) if self.target.logarithmic else mean])
        return self._best_clip(np.abs(middles - mean), counts, deviation("target"))

    def _best_clip(self, sizes: Floats, counts: Floats, deviation: float) -> tuple[float, float]:
        """The size to clip residuals to, by noisy numbers of rows of some sizes, and the variance once clipped."""
        weights = np.maximum(counts - deviation / 2, 0.0)
        weights = weights / weights.sum() if weights.sum() > 0 else np.full(len(sizes), 1 / len(sizes))
        self._sizes = sizes, weights
        per_mean = 0.6 * self.sums.deviation("shapes") * _SMOOTH_BINS / self._rows / np.sqrt(self.steps.passes)
        clip = self._balanced(per_mean, _CLIPPED)
        return clip, max(float(weights @ np.square(np.minimum(sizes, clip))), (clip / 100) ** 2)

    def _balanced(self, noise: float, lost: float) -> float:
        """The clip that balances its noise, so much per unit, and what it takes off of the sizes that were released."""
        (sizes, weights), reach = self._sizes, float(self.target.reach)
        clips = np.geomspace(reach / 400, reach, 60)
        taken = np.maximum(sizes - clips[:, None], 0.0) @ weights
        return float(clips[np.argmin(np.square(noise * clips) + lost * np.square(taken))])

    def _clip_by_sizes(self) -> tuple[float, float]:
        """The same by a histogram of the sizes of residuals."""
        reach = float(self.target.reach)
        edges = residual_edges(reach)
        sizes = np.abs(self.target.residuals(self._state)).ravel()
        cells = np.clip(np.searchsorted(edges, sizes, side="right") - 1, 0, RESIDUAL_CELLS - 1)
        counts = self.sums.draw("residuals", np.bincount(cells, minlength=RESIDUAL_CELLS).astype(np.float64))
        middles = np.sqrt(edges[1:] * np.maximum(edges[:-1], edges[1] / 2))
        return self._best_clip(middles, counts, self.sums.deviation("residuals"))

    def _mean_curvature(self) -> float:
        """The mean of p (1 - p) over the rows, once a pass."""
        if not self.steps.labels:
            return 1.0
        outputs = self.steps.outputs
        most = 0.25 if outputs == 1 else 1.0  # of the sum over the outputs
        each = row_sums(self.target.curvature(self._state)) / most
        total = float(self._on_grid(each).sum()) / _GRID
        noisy = float(self.sums.draw("curvature", np.array([total]))[0]) * most / outputs / self._rows
        return min(max(noisy, _LEAST_CURVATURE / 2), 0.25)

    def _pass(self, turn: int, clip: float, spread: float, curvature: float) -> None:
        """Visit the intercept and every column."""
        first = self.steps.passes // 2  # the mean is that of later passes, and of the last one before them
        new = 1.0 if turn < max(first, 1) else 1 / (turn - max(first, 1) + 2)
        noise = clip * self.sums.deviation("shapes")
        step = self._summed("shapes", np.zeros(len(self.places), dtype=np.intp), 1, clip)[0] / self._rows
        step = self._limited(step / self._per_bin(np.zeros((1, self.steps.outputs)), np.ones(1), curvature)[0], clip)
        self._intercept = self._intercept + step
        self._state += step
        for one, own in zip(self._columns, self._bins, strict=True):
            sums = self._summed("shapes", own, len(one.counts), clip)
            counts = one.counts[:, None]
            each = self._per_bin(one.values, one.counts, curvature)
            lacking = self._limited(sums / counts / each, clip)
            per_row = spread if not self.steps.labels else each  # of labels the variance is the curvature itself
            moved = one.learn(lacking, np.square(noise / counts / each), per_row / counts / np.square(each), new)
            self._state += moved[own]

    def _per_bin(self, values: Floats, counts: Floats, curvature: float) -> Floats:
        """The mean curvature in each bin, scaled so that its mean over the rows is what was released."""
        if not self.steps.labels and not self.target.logarithmic:
            return np.ones_like(values)
        if self.steps.labels:
            base = self._intercept if self.steps.outputs == 1 else self._intercept - self._intercept.mean()
            chance = probabilities(base + values)
            own, mean, least, most = chance * (1 - chance), curvature, _LEAST_CURVATURE, 0.25
        else:  # of counts it is the mean itself
            own, mean = np.exp(np.clip(values, -_EXTREME, _EXTREME)), self._mean
            least, most = 1e-3 * float(self.target.reach), float(self.target.reach)
        return np.asarray(np.clip(own * (mean / np.average(own, axis=0, weights=counts)), least, most))

    def _limited(self, steps: Floats, clip: float) -> Floats:
        """Steps that no mean of clipped residuals exceeds, or no longer than a link bears."""
        most = self.target.longest(clip)
        return np.clip(steps, -most, most)

    def _on_grid(self, z: Floats) -> Floats:
        """Numbers in [-1, 1] as whole numbers of the grid, towards 0: no norm grows, and sums are exact."""
        return np.trunc(np.clip(z, -1.0, 1.0) * _GRID)

    def _summed(self, part: str, cells: Codes, size: int, clip: float) -> Floats:
        """The noisy sums of clipped residuals by cell and output."""
        z = self._on_grid(self.target.residuals(self._state) / clip)
        exact = np.column_stack([np.bincount(cells, weights=column, minlength=size) for column in z.T])
        return self.sums.draw(part, exact / _GRID) * clip

    def _pairs(
        self, clip: float, spread: float, curvature: float
    ) -> tuple[list[PairTable], dict[tuple[int, int], float]]:
        """Scores of all pairs, and tables of the best."""
        listed = [*combinations(range(len(self._columns)), 2)]
        coarse = [self._grouped(one, SCORE_CELLS) for one in self._columns]
        exact, rows, z = [], [], self._on_grid(self.target.residuals(self._state) / clip)
        for first, second in listed:
            cells = coarse[first][self._bins[first]] * SCORE_CELLS + coarse[second][self._bins[second]]
            exact.append([np.bincount(cells, weights=column, minlength=SCORE_CELLS**2) for column in z.T])
            sides = [
                np.bincount(coarse[at], weights=self._columns[at].counts, minlength=SCORE_CELLS) / self._rows
                for at in (first, second)
            ]
            rows.append(np.maximum(np.outer(*sides).ravel(), 0.25 / SCORE_CELLS**2) * self._rows)
        sums = self.sums.draw("scores of pairs", np.asarray(exact) / _GRID) * clip
        noise = (clip * self.sums.deviation("scores of pairs")) ** 2
        explained = ((np.square(sums) - noise) / np.asarray(rows)[:, None, :]).sum(axis=(1, 2))
        scores = explained / (self._rows * spread * self.steps.outputs)
        best = np.argsort(-scores, kind="stable")[: self.steps.pairs]
        chosen = [self._pair_table(listed[at], clip, spread, curvature) for at in sorted(best.tolist())]
        return chosen, {pair: float(score) for pair, score in zip(listed, scores, strict=True)}

    def _grouped(self, column: Column, groups: int) -> Codes:
        """Bins in a few groups: neighbours, or categories of like effect."""
        if column.places is not None:
            return equal_groups(column.counts, groups)
        rank = np.argsort(np.argsort(column.values[:, 0], kind="stable"), kind="stable")
        return np.asarray(rank * min(groups, len(rank)) // len(rank), dtype=np.intp)

    def _pair_table(self, pair: tuple[int, int], clip: float, spread: float, curvature: float) -> PairTable:
        """A table of what the shapes leave, smoothed."""
        first, second = pair
        groups = self._grouped(self._columns[first], PAIR_CELLS), self._grouped(self._columns[second], PAIR_CELLS)
        sides = [int(one.max()) + 1 for one in groups]
        cells = groups[0][self._bins[first]] * sides[1] + groups[1][self._bins[second]]
        size = sides[0] * sides[1]
        few = self.sums.deviation("counts of pairs")
        exact = np.bincount(cells, minlength=size).astype(np.float64)
        rows = np.maximum(self.sums.draw("counts of pairs", exact), few)[:, None]
        sums = self._summed("pairs", cells, size, clip)
        flat = np.zeros((1, self.steps.outputs))
        each = float(self._per_bin(flat, np.ones(1), curvature).mean())
        lacking = self._limited(sums / rows / each, clip)
        per_row = each if self.steps.labels else spread
        noise = clip * self.sums.deviation("pairs")
        variances = (np.square(noise / rows / each) + per_row / rows / each**2)[:, 0]
        walks = [
            roughness(side, np.arange(float(side)) if self._columns[at].places is not None else None)
            for side, at in zip(sides, (first, second), strict=True)
        ]
        prior = np.kron(walks[0], np.eye(sides[1])) + np.kron(np.eye(sides[0]), walks[1]) + _TOGETHER * np.eye(size)
        values, errors = np.empty_like(lacking), np.empty_like(lacking)
        for at in range(self.steps.outputs):
            shape, covariance = smoothed(lacking[:, at], variances, prior)
            values[:, at] = np.rint(shape * _GRID) / _GRID
            errors[:, at] = np.sqrt(np.diag(covariance))
        self._state += values[cells]
        table = (*sides, self.steps.outputs)
        return PairTable(pair, groups, values.reshape(table), errors.reshape(table))

    def _calibrate(self) -> None:
        """Move the intercept so that the mean prediction is the mean of the target, as far as noise lets one tell."""
        low, high = self.ends or (0.0, 1.0)
        predicted = np.clip(self.target.predicted(self._state)[:, 0], low, high)
        deviation = self.sums.deviation("calibration") / self._rows
        clip = self._balanced(deviation, 1.0)
        z = self._on_grid((self.target.values - predicted) / clip)
        away = clip * float(self.sums.draw("calibration", np.array([z.sum() / _GRID]))[0]) / self._rows
        away *= max(1 - (clip * deviation / away) ** 2, 0.0) if away else 0.0
        if self.target.logarithmic:
            away = float(np.clip(np.log1p(max(away / self._mean, -0.5)), -_LONGEST_LOG, _LONGEST_LOG))
        self._intercept = self._intercept + away
