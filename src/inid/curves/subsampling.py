"""Poisson-subsampled steps as lattice distributions, one for each direction of neighbouring.

With (P, Q) the pair of one step and l its loss, removal has the pair ((1-q)Q + qP, Q), whose loss is
log(1 + q (e^l - 1)), and addition has (P, (1-q)P + qQ), whose loss is -log(1 + q (e^-l - 1)) (Zhu, Dong and Wang 2022).
Both maps increase in l, so a cell of base losses becomes a cell of losses with masses in closed form: for a single
Laplace ratio and for Gaussian noise nothing but the lattice is approximate. Several coordinates are first convolved on
a lattice of their own, directly: sums of products of positive numbers keep their relative accuracy.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from inid.arguments import frozen
from inid.curves.contour import Aim, short
from inid.curves.description import Direction, Loss, Subsampled, merged, spread_and_mean
from inid.curves.lattice import (
    Atoms,
    Component,
    GaussianPart,
    LaplacePart,
    Lattice,
    amplified,
    connected,
    restored,
    rounded_down,
)
from inid.numbers.rounding import ELEMENTARY, UNIT

Floats = NDArray[np.float64]

_SKETCH_CELLS = 4000
FAR = 38.0  # standard deviations: beyond, nothing is a positive float
_BASE_POINTS = 1 << 13  # lattice points of several convolved coordinates
_MOST_RATIOS = 200
_LEAST_SIZE, _MOST_SIZE = 1 << 8, 1 << 21
_FAINT = math.log(1e20)  # the weight of losses below the floor is this far below that of the others
_SPARE = math.log(1e6)  # probabilities cut off are this far below delta


def sketches(
    steps: Sequence[Subsampled], direction: Direction, reach: float
) -> tuple[tuple[tuple[Atoms, float], ...], float]:
    """Atoms of each step on a coarse grid, and their mass at infinity: rough, but an upper bound all the same."""
    parts, infinite = [], 0.0
    for step in steps:
        losses, masses, beyond = _step_atoms(step, direction, None, reach, -math.inf, upper=True)
        parts.append((Atoms(losses, masses), float(step.steps)))
        infinite += beyond * step.steps
    return tuple(parts), infinite * (1 + 8 * UNIT)


def reach_for(steps: Sequence[Subsampled], direction: Direction, log_delta: float) -> float:
    """Standard deviations of a Gaussian part to resolve, so that what is cut off is negligible next to delta.

    No further: far losses are what keeps a contour's order small, and so its resolution of the common ones coarse.
    """

    def reach(number: float) -> float:
        return min(math.sqrt(2 * max(_SPARE - log_delta + math.log(number), 2.0)), FAR)

    deviations = reach(math.fsum(step.steps * step.rate for step in steps))
    if any(_cuts_the_top(step.rate, direction, _span(step.loss, deviations)[1]) for step in steps):
        return reach(math.fsum(step.steps for step in steps))  # what addition cuts off is not multiplied by the rate
    return deviations


def lattices(
    steps: Sequence[Subsampled], direction: Direction, target: Aim, tolerance: float, *, upper: bool
) -> tuple[tuple[tuple[Lattice, float], ...], float]:
    """Lattices that bound each step's pair from one side, for the contour aimed at, and their mass at infinity.

    Connecting the dots adds about h^2/6 to a loss's variance, so n a (a+1) h^2 / 12 to log delta after n steps: the
    spacing h keeps that near the tolerance, within bounded work. Losses whose weight exp(a l) is nothing next to M(a)
    need no points of their own: an upper bound moves them up to one floor, a lower one drops them. Validity does not
    depend on the choices.
    """
    number = math.fsum(step.steps for step in steps)
    period = 2 * math.pi / target.step
    size = _size(number, target, tolerance)
    parts, infinite = [], 0.0
    for step in steps:
        floor = (_least_log_moment(step, direction, target.order) - _FAINT - math.log(number)) / target.order
        extent = _extent(step, direction, target.reach, floor)
        points = size
        while points > _LEAST_SIZE and extent * points / period > _MOST_SIZE:
            points //= 2
        spacing = period / points
        losses, masses, beyond = _step_atoms(step, direction, spacing, target.reach, floor, upper=upper)
        if upper:
            lattice = connected(np.maximum(losses, floor), masses, spacing, points)
        else:
            resolved = losses >= floor
            lattice = rounded_down(losses[resolved], masses[resolved], spacing, points)
        parts.append((lattice, float(step.steps)))
        infinite += beyond * step.steps
    return tuple(parts), infinite * (1 + 8 * UNIT)


def largest(steps: Sequence[Subsampled], direction: Direction) -> float:
    """The largest loss of all steps together, rounded up; infinite when there is none."""
    total = 0.0
    for step in steps:
        top = np.array([math.inf if step.loss.mu > 0 else step.loss.total * (1 + 8 * UNIT)])
        total += step.steps * float(_mapped(top, step.rate, direction)[0])
    return total * (1 + 4 * ELEMENTARY)


def log_chance_of_largest(step: Subsampled, direction: Direction) -> float:
    """The logarithm of the probability that one Laplace step has its largest loss, rounded to nearest.

    Every coordinate then has its largest: that has the probability 2^-n under P, and exp(-total) times it under Q.

    >>> round(math.exp(log_chance_of_largest(Subsampled(Loss([1.0]), rate=0.1), "remove")), 4)
    0.2155
    """
    sampled = step.rate + (1 - step.rate) * math.exp(-step.loss.total) if direction == "remove" else 1.0
    return math.log(sampled) - math.log(2) * float(step.loss.counts.sum())


def _least_log_moment(step: Subsampled, direction: Direction, order: float) -> float:
    """A rough bound from below on log M(a) of one step, a > 0: M(a) >= 1, and it holds the atom at the largest loss."""
    if step.loss.mu > 0:
        return 0.0
    top = float(_mapped(np.array([step.loss.total]), step.rate, direction)[0])
    return max(0.0, order * top + log_chance_of_largest(step, direction))


def aligned(steps: Sequence[Subsampled], direction: Direction, target: Aim, tolerance: float) -> Aim:
    """The aim with a step for which both atoms of a single Laplace ratio lie on one lattice.

    More than half of the probability sits on those two losses, and a lower bound that rounds them down would lose the
    first order of the spacing.
    """
    if len(steps) != 1 or steps[0].loss.mu > 0 or steps[0].loss.counts.sum() != 1:
        return target
    size = _size(float(steps[0].steps), target, tolerance)
    extent = _extent(steps[0], direction, 0.0)
    period = 2 * math.pi / target.step
    cells = math.floor(extent * size / period)
    return replace(target, step=short(2 * math.pi / (size * extent / cells))) if cells > 0 else target


def _size(number: float, target: Aim, tolerance: float) -> int:
    spacing = math.sqrt(6 * tolerance / (number * target.order * (target.order + 1)))
    size = 1 << min(max(math.ceil(math.log2(2 * math.pi / (target.step * spacing))), 1), 60)
    return min(max(size, _LEAST_SIZE), _MOST_SIZE)


def _extent(step: Subsampled, direction: Direction, reach: float, floor: float = -math.inf) -> float:
    """The length of the interval of losses that a step's lattice covers."""
    low, high = _span(step.loss, reach)
    ends = _mapped(np.array([low, high]), step.rate, direction)
    return float(ends[1] - max(ends[0], floor))


def _span(loss: Loss, reach: float) -> tuple[float, float]:
    wide = loss.total + (loss.mu * reach + loss.mu * loss.mu / 2 if loss.mu > 0 else 0.0)
    return -wide, wide


def _step_atoms(
    step: Subsampled, direction: Direction, spacing: float | None, reach: float, floor: float, *, upper: bool
) -> tuple[Floats, Floats, float]:
    """(losses, masses, mass at infinity) of one step, cut at multiples of the spacing; a sketch without one."""
    parts = _parts(step.loss, reach, upper)
    if len(parts) == 1 and parts[0][1] == 1:
        return _cut(parts[0][0], step.rate, direction, spacing, upper, floor=floor)
    points = _BASE_POINTS // 4 if spacing is None else _BASE_POINTS
    losses, masses, infinite = _convolved(parts, points, upper, under="P")
    if direction == "add":
        if infinite > 0 and not (upper and _cuts_the_top(step.rate, direction, float(losses.max()))):
            losses, masses = np.append(losses, math.inf), np.append(masses, infinite)  # becomes -log(1-q)
            infinite = 0.0
    else:
        # (1-q)Q + qP: the base loss under Q and under P, each on the safe side of its own distribution.
        others, weights, beyond = _convolved(parts, points, upper, under="Q")
        losses, masses = (
            np.concatenate((losses, others)),
            np.concatenate((step.rate * masses, (1 - step.rate) * weights)),
        )
        infinite = (step.rate * infinite + (1 - step.rate) * beyond) * (1 + 8 * UNIT)
    moved = _mapped(losses, step.rate, direction)
    finite = np.isfinite(losses)
    sizes = np.abs(moved) + step.rate * np.where(finite, np.abs(losses), 0.0)
    return moved + _side(upper) * ELEMENTARY * sizes, masses * (1 + _side(upper) * 4 * UNIT), infinite


def _parts(loss: Loss, reach: float, upper: bool) -> tuple[tuple[Component, int], ...]:
    ratios, counts = merged(loss.ratios, loss.counts)
    if ratios.size > _MOST_RATIOS:
        spread, mean = spread_and_mean(ratios, counts)
        ratios, counts = spread if upper else mean
    parts: list[tuple[Component, int]] = [(LaplacePart(float(e)), int(n)) for e, n in zip(ratios, counts, strict=True)]
    if loss.mu > 0:
        parts.append((GaussianPart(loss.mu, reach), 1))
    return tuple(parts)


def _cut(
    part: Component,
    rate: float,
    direction: Direction,
    spacing: float | None,
    upper: bool,
    under: Literal["P", "Q"] = "P",
    floor: float = -math.inf,
) -> tuple[Floats, Floats, float]:
    """The atoms of one component's cells: each cell's mass at the loss log(mass / mass), where P- and Q-mass are exact.

    An upper bound moves the unbounded cells at the ends to their upper edge (or to infinity), a lower one to their
    lower edge.
    Masses are those of the pair's first measure, or of its second one, `under` Q.
    """
    low, high = part.span
    if spacing is None:
        inner = np.linspace(low, high, _SKETCH_CELLS)
    else:
        ends = _mapped(np.array([low, high]), rate, direction) / spacing
        # A lower bound wants the atom at the top and the cells' centres at the same place of the lattice.
        anchor = 0.0 if upper or part.atoms is None else float(ends[1]) % 1 - 0.5
        first = math.floor(max(float(ends[0]), floor / spacing))
        lattice = spacing * (anchor + np.arange(first, math.ceil(ends[1]) + 2, dtype=np.float64))
        inner = np.unique(np.append(np.clip(_unmapped(lattice, rate, direction), low, high), low))
    edges = np.concatenate(([-math.inf], inner, [math.inf])) if part.unbounded else inner
    p, q, p_error, q_error = part.cells(edges)
    ends = _mapped(edges, rate, direction)
    if part.atoms is not None:
        at, p_atom, q_atom = part.atoms
        p, q = np.concatenate((p, p_atom)), np.concatenate((q, q_atom))
        p_error, q_error = (
            np.concatenate((p_error, ELEMENTARY * p_atom)),
            np.concatenate((q_error, ELEMENTARY * q_atom)),
        )
        fixed = _mapped(at, rate, direction)
        left, right = np.concatenate((ends[:-1], fixed)), np.concatenate((ends[1:], fixed))
        size = np.concatenate((np.abs(edges[1:]), np.abs(at)))
    else:
        left, right = ends[:-1], ends[1:]
        size = np.minimum(np.abs(edges[:-1]), np.abs(edges[1:]))
    sign = _side(upper)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        doubt = p_error / p + q_error / q
        if direction == "remove":
            mass, error = (1 - rate) * q + rate * p, (1 - rate) * q_error + rate * p_error
            losses, slope = np.log1p(rate * (p / q - 1)), rate * p / mass
        else:
            mass, error = p, p_error
            losses, slope = -np.log1p(rate * (q / p - 1)), rate * q / ((1 - rate) * p + rate * q)
        losses = losses + sign * (slope * doubt + ELEMENTARY * (np.abs(losses) + slope * size))
    if under == "Q":
        mass, error = q, q_error
    unknown = ~(np.isfinite(losses) & (doubt < 0.5))
    if part.unbounded:
        unknown[[0, -1]] = True
    if upper and part.unbounded and _cuts_the_top(rate, direction, high):
        right[-1] = math.inf
    losses = (
        np.where(unknown, right, np.minimum(losses, right))
        if upper
        else np.where(unknown, left, np.maximum(losses, left))
    )
    losses = losses + sign * ELEMENTARY * np.where(np.isfinite(losses), np.abs(losses) + size * rate, 0.0)
    mass = np.maximum(mass + sign * (error + ELEMENTARY * mass), 0.0)
    infinite = float(mass[losses == math.inf].sum())
    usable = np.isfinite(losses) & (mass > 0)
    if spacing is None:
        return *_chords(losses[usable], mass[usable], left[usable], right[usable]), infinite * (1 + 8 * UNIT)
    return losses[usable], mass[usable], infinite * (1 + 8 * UNIT)


def _chords(losses: Floats, masses: Floats, left: Floats, right: Floats) -> tuple[Floats, Floats]:
    """Each atom split onto the ends of its own cell, P- and Q-mass kept: connecting the dots on an uneven grid."""
    proper = np.isfinite(left) & (left < losses) & (losses < right)
    length = np.where(proper, right - left, 1.0)
    share = np.where(proper, np.expm1(np.where(proper, left - losses, -1.0)) / np.expm1(-length), 1.0)
    share = np.minimum(share * (1 + 8 * ELEMENTARY), 1.0)
    split = share < 1
    places = np.concatenate((np.where(proper, right, losses), left[split]))
    weights = np.concatenate((masses * share, (masses * (1 - share))[split])) * (1 + 4 * UNIT)
    return places + ELEMENTARY * np.abs(places), weights


@lru_cache(maxsize=16)  # one curve asks for the same steps a dozen times: by level, by direction, by side
def _convolved(
    parts: tuple[tuple[Component, int], ...], points: int, upper: bool, under: Literal["P", "Q"]
) -> tuple[Floats, Floats, float]:
    """Independent components on one lattice, by direct convolution: each entry's error is relative to itself."""
    mean = math.fsum(n * part.mean for part, n in parts)
    wide = math.fsum(n * part.span[1] for part, n in parts)
    spread = math.sqrt(math.fsum(n * part.variance for part, n in parts))
    spacing = 2 * min(wide, mean + 16 * spread) / points
    sign = _side(upper)
    masses, first, offset, infinite = np.ones(1), 0, 0.0, 0.0
    for part, times in parts:
        losses, weights, beyond = _cut(part, 1.0, "remove", spacing, upper, under)
        lattice = connected(losses, weights, spacing, 0, under) if upper else rounded_down(losses, weights, spacing, 0)
        power, number = _Run(lattice.masses, lattice.first, lattice.offset, beyond), times
        while number:
            if number % 2:
                joined = _Run(masses, first, offset, infinite).times(power, 2 * points, sign)
                masses, first, offset, infinite = joined.masses, joined.first, joined.offset, joined.infinite
            number //= 2
            if number:
                power = power.times(power, 2 * points, sign)
    where = offset + spacing * np.arange(first, first + masses.size, dtype=np.float64)
    return frozen(where), frozen(masses), infinite


class _Run:
    """Masses on consecutive lattice points, with what was cut off at the top."""

    def __init__(self, masses: Floats, first: int, offset: float, infinite: float) -> None:
        self.masses, self.first, self.offset, self.infinite = masses, first, offset, infinite

    def times(self, other: "_Run", longest: int, sign: float) -> "_Run":
        """The convolution, cut to `longest` points: cut mass moves up for an upper bound and down for a lower one."""
        masses = np.convolve(self.masses, other.masses)
        masses *= 1 + sign * UNIT * (2 * min(self.masses.size, other.masses.size) + 8)
        first, infinite = self.first + other.first, (self.infinite + other.infinite) * (1 + 4 * UNIT)
        if masses.size > longest:
            total = np.cumsum(masses)
            start = min(int(np.searchsorted(total, 1e-40 * total[-1])), masses.size - longest)
            end = start + longest
            tail, head = float(masses[end:].sum()), float(masses[:start].sum())
            masses = masses[start:end].copy()
            first += start
            if sign > 0:
                infinite += tail * (1 + UNIT * longest)
                masses[0] += head
            else:
                masses[-1] += tail
            masses *= 1 + sign * UNIT * 2 * total.size
        return _Run(masses, first, self.offset + other.offset, infinite)


def _cuts_the_top(rate: float, direction: Direction, last: float) -> bool:
    """Whether base losses above the last one that is resolved count as infinite in the direction of addition.

    Their loss is at most -log(1-q). Where that is near the loss of the last one, moving them there costs nothing. Where
    it is far above, as for much noise, so small a probability at so large a loss would rule every moment, and it costs
    less to give it up: both are upper bounds. (In the direction of removal there is no largest loss.)
    """
    if direction == "remove":
        return False
    return -math.log1p(-rate) > 2 * float(_mapped(np.array([last]), rate, direction)[0])


def _side(upper: bool) -> float:
    return 1.0 if upper else -1.0


def _mapped(losses: Floats, rate: float, direction: Direction) -> Floats:
    """The loss of the subsampled pair at a base loss."""
    return amplified(losses, rate) if direction == "remove" else -amplified(-losses, rate)


def _unmapped(losses: Floats, rate: float, direction: Direction) -> Floats:
    return restored(losses, rate) if direction == "remove" else -restored(-losses, rate)
