"""Quantiles of weighted sums of a plan's noises: intervals of totals over many numbers.

By Gil-Pelaez: of a symmetric X with characteristic function phi,

    P(|X| <= t) = (2 / pi) int sin(ut) / u phi(u) du,

as a sum over u = s, 2 s, ... with s = pi / L. Such a sum is exact but for P(|X| > L), which Chernoff's bound keeps
below 1e-15. What it leaves out beyond its last point is at most the integral there of an envelope of phi that falls,
and is taken off the probability.

**Staircase noise.** Blocks are independent, and so are a block's numbers given its k: phi is the product over blocks of
E_K prod sinc(u h_i (r_i(K) + 1/2)), h_i being grid step times weight. The noise of a number, a whole number of steps,
is within half a step of such a uniform one, which is added. Where all h_i are one step h, as for totals of counts,
whole numbers are summed as they are: with phi(u) = E_K prod sin((2 r + 1) u h / 2) / ((2 r + 1) sin(u h / 2)) and
t = (m + 1/2) h the kernel is (h / 2) sin(ut) / sin(uh / 2), and u ends at pi / h.

Many k are taken together, at the widest of their boxes. That is safe: a uniform law on a longer interval is less
peaked, and sums of less peaked symmetric unimodal laws are less peaked (Birnbaum 1948).
"""

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.special import ndtri

from inid.arguments import Floats
from inid.noise import effective_scales, grid
from inid.noise.staircase import BlockLaw
from inid.planning.noise_plan import NoisePlan
from inid.planning.staircase_law import steps_of
from inid.planning.staircase_plan import StaircasePlan

_BEYOND = 1e-15  # the probability of what is taken to repeat
_FEWEST, _POINTS = 1 << 8, 1 << 14
_LEFT = 1e-9  # of probability, that may be left out
_FINE = 1 << 29  # steps of a sensitivity whose grid was chosen for floats; where there are fewer, answers lie on it
_MOST_RUNS = 256  # of k
_COARSE = 1e-6  # of the standard deviation of the sum: half steps that are more are not added
_GROWTH, _GROWTHS = 1.25, 120
_ROUNDS = 60


def half_width(plan: NoisePlan, weights: Floats, level: float) -> float:
    """A t with P(|sum of weights_i T_i| <= t) >= level, half a grid step of each answer's rounding included."""
    if isinstance(plan, StaircasePlan):
        return _of_blocks(plan, np.abs(weights), level)
    scales = effective_scales(plan.scales)
    rounding = float(np.abs(weights) @ grid(scales)) / 2
    parts = np.abs(weights) * scales
    if plan.mechanism == "gaussian":
        return -float(ndtri((1 - level) / 2)) * math.sqrt(float(parts @ parts)) + rounding
    sizes, counts = np.unique(parts[parts > 0], return_counts=True)
    return _of_laplace(tuple(sizes.tolist()), tuple(counts.tolist()), level) + rounding if sizes.size else 0.0


@dataclass(frozen=True)
class _Sum:
    """A symmetric law: its characteristic function, an envelope that falls, its mgf, and its lattice if it has one."""

    phi: Callable[[Floats], Floats]
    envelope: Callable[[Floats], Floats]
    log_mgf: Callable[[float], float]
    deviation: float
    step: float = 0.0


@lru_cache(maxsize=256)
def _of_laplace(sizes: tuple[float, ...], counts: tuple[int, ...], level: float) -> float:
    scales, times = np.array(sizes), np.array(counts)

    def phi(u: Floats) -> Floats:
        logs = np.zeros(u.size)
        for scale, count in zip(sizes, counts, strict=True):
            logs -= count * np.log1p(np.square(scale * u))
        return np.exp(logs)

    def log_mgf(s: float) -> float:
        inside = 1 - np.square(scales * s)
        return float(-(times * np.log(inside)).sum()) if inside.min() > 0 else math.inf

    return _quantile(_Sum(phi, phi, log_mgf, math.sqrt(2 * float((np.square(scales) * times).sum()))), level)


@dataclass(frozen=True)
class _Block:
    """Half-widths of a block's numbers, a line for each run of k, and the probabilities of these.

    `times` says how many numbers have each width, `count` how many blocks are alike.
    """

    widths: Floats
    times: Floats
    chances: Floats
    count: int

    @staticmethod
    def of(law: BlockLaw, parts: tuple[float, ...], count: int) -> "_Block":
        """The numbers that enter, each times its part: a grid step times a weight."""
        steps = steps_of(law)
        k = steps.k + (steps.stride - 1) / 2
        starts = np.arange(k.size)
        if k.size > _MOST_RUNS:
            starts = np.unique(np.searchsorted(np.cumsum(steps.p), np.linspace(0, 1, _MOST_RUNS + 1)[:-1]))
            starts = np.minimum(np.append(0, starts[starts > 0]), k.size - 1)
        last = np.append(starts[1:], k.size) - 1
        used = Counter(one for one in zip(law.reaches, law.offsets, parts, strict=True) if one[2] > 0)
        widths = np.stack([(a * k[last] + c + 0.5) * part for a, c, part in used], axis=1)
        return _Block(widths, np.array([*used.values()]), np.add.reduceat(steps.p, starts), count)

    def product(self, factor: Callable[[Floats], Floats]) -> Floats:
        """E_K of the product of a factor of each half-width; the factor's own axes come first."""
        return np.asarray((factor(self.widths) ** self.times).prod(axis=-1) @ self.chances) ** self.count


def _of_blocks(plan: StaircasePlan, weights: Floats, level: float) -> float:
    kinds: Counter[tuple[BlockLaw, tuple[float, ...]]] = Counter()
    for numbers, law in plan.drawn:
        cells = np.arange(int(plan.boxes.cells[numbers[0]]))
        for line in (plan.grid[list(numbers)] * weights[np.add.outer(cells, plan.starts[list(numbers)])]).tolist():
            if any(line):
                kinds[law, tuple(line)] += 1
    return _of_kinds(tuple((*kind, count) for kind, count in kinds.items()), level) if kinds else 0.0


@lru_cache(maxsize=256)  # releases of one plan have the same law
def _of_kinds(kinds: tuple[tuple[BlockLaw, tuple[float, ...], int], ...], level: float) -> float:
    """Blocks that are alike are counted."""
    blocks = [_Block.of(*kind) for kind in kinds]
    steps = {part for _, parts, _ in kinds for part in parts if part > 0}
    halves = sum(sum(parts) * count for _, parts, count in kinds) / 2
    # Answers that were no whole numbers of steps were rounded to them; their steps are fine ones.
    rounded = halves if any(max(law.reaches) >= _FINE for law, _, _ in kinds) else 0.0
    deviation = math.sqrt(sum(float(b.chances @ (b.widths**2 @ b.times)) * b.count for b in blocks) / 3)
    if len(steps) == 1 and halves > _COARSE * deviation:
        (step,) = steps
        return _quantile(_lattice_sum(blocks, deviation, step), level) + rounded
    return _quantile(_uniform_sum(blocks, deviation), level) + halves + rounded


def _uniform_sum(blocks: list[_Block], deviation: float) -> _Sum:
    """The sum of uniform numbers given the steps."""

    def phi(u: Floats) -> Floats:
        transform = np.ones(u.size)
        for block in blocks:
            transform *= block.product(lambda widths: np.sinc(np.multiply.outer(u, widths) / math.pi))
        return transform

    def envelope(u: Floats) -> Floats:
        transform = np.ones(u.size)
        for block in blocks:
            transform *= block.product(lambda widths: 1 / np.maximum(1.0, np.multiply.outer(u, widths)))
        return transform

    return _Sum(phi, envelope, lambda s: _log_mgf(blocks, s), deviation)


def _lattice_sum(blocks: list[_Block], deviation: float, step: float) -> _Sum:
    """The sum of whole numbers of one step."""

    def kernels(u: Floats, widths: Floats) -> tuple[Floats, Floats]:
        return np.multiply.outer(u, widths), np.multiply.outer(np.sin(u * step / 2), 2 * widths / step)

    def phi(u: Floats) -> Floats:
        transform = np.ones(u.size)
        for block in blocks:

            def dirichlet(widths: Floats) -> Floats:
                angle, bottom = kernels(u, widths)
                return np.asarray(np.sin(angle) / bottom)

            transform *= block.product(dirichlet)
        return transform

    def envelope(u: Floats) -> Floats:
        transform = np.ones(u.size)
        for block in blocks:
            transform *= block.product(lambda widths: 1 / np.maximum(1.0, kernels(u, widths)[1]))
        return transform

    return _Sum(phi, envelope, lambda s: _log_mgf(blocks, s), deviation, step)


def _log_mgf(blocks: list[_Block], s: float) -> float:
    """Log E exp(s X) of uniform numbers, which is above that of whole ones: sinh(y) / y in place of sin(y) / y."""
    total = 0.0
    for block in blocks:
        y = s * block.widths
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            logs = np.where(y > 1e-4, y + np.log(-np.expm1(-2 * y) / (2 * y)), y**2 / 6) @ block.times
        most = float(logs.max())
        total += block.count * (most + math.log(float(block.chances @ np.exp(logs - most))))
    return total


def _later(law: _Sum, last: float) -> float:
    """A bound on what the points after the last one would add: the integral of an envelope that falls."""
    later = np.asarray(last * _GROWTH ** np.arange(_GROWTHS), dtype=np.float64)
    later = later[later * law.step <= math.pi] if law.step else later
    return float(law.envelope(later).sum()) * math.log(_GROWTH)


@np.errstate(under="ignore")
def _quantile(law: _Sum, level: float) -> float:
    """A t with P(|X| <= t) >= level."""
    rare = -math.log(_BEYOND / 2)
    far: float = min((rare + law.log_mgf(s)) / s for s in (2.0**j / law.deviation for j in range(-4, 7)))
    if law.step:
        far = law.step * (2 * math.ceil(far / law.step) + 1) / 2  # half an odd number of steps
    every = round(far / law.step - 0.5) if law.step else _POINTS
    points = min(_FEWEST, every)
    while (left := _later(law, points * math.pi / far)) > _LEFT and points < min(_POINTS, every):
        points = min(2 * points, _POINTS, every)
    u = math.pi / far * np.arange(1, points + 1)
    phi = np.concatenate([law.phi(part) for part in np.array_split(u, -(-points // _FEWEST))])
    below = np.sin(u * law.step / 2) / (law.step / 2) if law.step else u
    weights = 2 / far * phi / below
    left = _BEYOND + (left if points < every or not law.step else 0.0)

    def inside(t: float) -> float:
        return t / far + float(np.sin(u * t) @ weights) - left

    if law.step:
        least, most = -1, round(far / law.step - 0.5)
        while most - least > 1:
            m = (least + most) // 2
            least, most = (least, m) if inside((m + 0.5) * law.step) >= level else (m, most)
        return most * law.step
    low, high = 0.0, far
    for _ in range(_ROUNDS):
        middle = (low + high) / 2
        low, high = (low, middle) if inside(middle) >= level else (middle, high)
    return high
