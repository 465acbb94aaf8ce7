"""What one release, or several fixed in advance, can reveal: frozen descriptions without data, plans or noise.

A description names a *dominating pair* (P, Q): for every two neighbouring datasets and every epsilon, the hockey-stick
divergence of the outputs is at most that of (P, Q). Dominating pairs compose by products (Zhu, Dong and Wang 2022).
"""

import math
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from inid import arguments
from inid.errors import ArgumentError
from inid.numbers.rounding import UNIT

Floats = NDArray[np.float64]
Direction = Literal["remove", "add"]

_MOST = 10**15  # counts and steps stay exact as floats
_LARGEST_RATIO = 1e6
_LARGEST_MU = 1e4


@dataclass(frozen=True, eq=False)
class Loss:
    """Independent Laplace coordinates with ratios e_j = |d_j| / beta_j, and a Gaussian part mu, released together.

    The pair is the product over j of (Laplace(0, 1), Laplace(e_j, 1)), each taken counts[j] times, and of
    (N(0, 1), N(mu, 1)). It dominates a box release with exactly these ratios (E5: for log-concave noise delta grows in
    each |d_j|), and every other sensitivity set for which E5 gives a vector of ratios.
    """

    ratios: Floats = field(default_factory=lambda: np.zeros(0))
    counts: Floats = field(default_factory=lambda: np.zeros(0))
    mu: float = 0.0

    def __post_init__(self) -> None:
        mu = arguments.real("mu", self.mu, least=0, cure="pass the Gaussian parameter, for example mu=0.5")
        if not mu <= _LARGEST_MU:
            raise ArgumentError(
                f"mu must be at most {_LARGEST_MU:g}, got {mu!r}: such a release has no privacy to account for."
            )
        ratios, counts = _ratios(self.ratios), self.counts
        if not (isinstance(counts, np.ndarray) and counts.size == 0):
            if ratios.size == 0:
                raise ArgumentError("counts must be left out when there are no ratios: pass ratios as well.")
            counts = arguments.array(
                "counts", counts, positive=True, length=ratios.size, cure="pass one whole number per ratio"
            )
            if not (np.all(counts == np.floor(counts)) and counts.max() <= _MOST):
                raise ArgumentError(
                    f"counts must be whole numbers of at most {_MOST:.0e}: pass how often each ratio occurs."
                )
        else:
            counts = np.ones(ratios.size)
        positive = ratios > 0
        if not positive.all():
            ratios, counts = ratios[positive], counts[positive]
        for array in (ratios, counts):
            array.flags.writeable = False
        object.__setattr__(self, "ratios", ratios)
        object.__setattr__(self, "counts", counts)
        object.__setattr__(self, "mu", mu)

    @property
    def total(self) -> float:
        """The sum of the ratios, the release's pure epsilon when it has no Gaussian part (rounded to nearest)."""
        return math.fsum((self.ratios * self.counts).tolist())


@dataclass(frozen=True, eq=False)
class Subsampled:
    """A step on a Poisson sample, repeated: each person takes part in each step independently with probability `rate`.

    Neighbours differ by adding or removing one person ("add_remove"), or by one person's row becoming nothing
    ("zero_out"). With (P, Q) the pair of one step on the whole data, removal has the pair ((1-q)Q + qP, Q) and addition
    (P, (1-q)P + qQ) (Zhu, Dong and Wang 2022); each direction composes with itself. Both relations have these pairs:
    a person whose row is nothing adds 0 to every sum whether sampled or not, just as a person who is not there, and the
    samples of the others have the same distribution on both sides.
    """

    loss: Loss
    rate: float
    steps: int = 1

    def __post_init__(self) -> None:
        if not isinstance(self.loss, Loss):
            raise ArgumentError(
                f"loss must be a Loss, got {arguments.shown(self.loss)}: describe one step as Loss(...)."
            )
        rate = arguments.real("rate", self.rate, above=0, cure="pass the sampling probability, for example rate=0.01")
        if not rate <= 1:
            raise ArgumentError(
                f"rate must be at most 1, got {rate!r}: pass the probability of taking part in one step."
            )
        steps = arguments.integer("steps", self.steps, least=1, cure="pass the number of steps")
        if not steps <= _MOST:
            raise ArgumentError(f"steps must be at most {_MOST:.0e}, got {steps}: pass the number of steps.")
        object.__setattr__(self, "rate", rate)
        object.__setattr__(self, "steps", steps)


@dataclass(frozen=True, eq=False)
class Composed:
    """Several releases, all fixed before any answer is seen: their pairs multiply."""

    parts: tuple["Loss | Subsampled | Composed", ...]

    def __post_init__(self) -> None:
        parts = tuple(self.parts) if isinstance(self.parts, (tuple, list)) else ()
        if not (parts and all(isinstance(part, (Loss, Subsampled, Composed)) for part in parts)):
            text = arguments.shown(self.parts)
            raise ArgumentError(
                f"parts must hold at least one Loss, Subsampled or Composed, got {text}: pass a tuple of them."
            )
        object.__setattr__(self, "parts", parts)


PrivacyLoss = Loss | Subsampled | Composed


@dataclass(frozen=True, eq=False)
class Flat:
    """A composition as one bag: Laplace ratios with counts, Gaussian parts, and the subsampled steps that remain.

    `variance` is the sum of mu^2 to a relative 4 UNIT; `mu_bounds` lie around its root and are equal for a single part.
    """

    ratios: Floats
    counts: Floats
    variance: float
    mu_bounds: tuple[float, float]
    steps: tuple[Subsampled, ...]

    @property
    def lone_step(self) -> Subsampled | None:
        """The subsampled step, taken any number of times, when there is nothing else."""
        alone = len(self.steps) == 1 and self.ratios.size == 0 and self.variance == 0
        return self.steps[0] if alone else None

    @property
    def total(self) -> float:
        """The sum of the ratios, to a relative 4 UNIT."""
        return math.fsum((self.ratios * self.counts).tolist()) if self.ratios.size else 0.0


def flatten(loss: PrivacyLoss, *, sampled: bool = True) -> Flat:
    """The bag of a description: products commute, and a step with rate 1 is an ordinary release.

    With `sampled=False` every step is taken on the whole data. Statement: that pair dominates. Why: the divergence
    H_a(P, Q) = sup over events of P(S) - a Q(S) is jointly convex for every a >= 0, so removal has at most
    (1-q) H_a(Q, Q) + q H_a(P, Q), addition at most (1-q) H_a(P, P) + q H_a(P, Q), and H_a(Q, Q) = max(0, 1-a) is the
    least value that any pair has.
    """
    ratios: list[Floats] = []
    counts: list[Floats] = []
    gaussians: list[tuple[float, int]] = []
    steps: list[Subsampled] = []
    waiting: list[object] = [loss]
    while waiting:
        part = waiting.pop()
        if isinstance(part, Composed):
            waiting.extend(part.parts)
        elif isinstance(part, Subsampled) and part.rate < 1 and sampled:
            if part.loss.ratios.size or part.loss.mu > 0:
                steps.append(part)
        elif isinstance(part, (Loss, Subsampled)):
            base, times = (part, 1) if isinstance(part, Loss) else (part.loss, part.steps)
            ratios.append(base.ratios)
            counts.append(base.counts * float(times))
            if base.mu > 0:
                gaussians.append((base.mu, times))
        else:
            text = arguments.shown(part)
            raise ArgumentError(
                f"loss must be a Loss, Subsampled or Composed, got {text}: describe the release with one."
            )
    joined = np.concatenate(ratios) if ratios else np.zeros(0)
    variance = math.fsum(mu * mu * times for mu, times in gaussians)
    mu = math.sqrt(variance)
    around = (mu * (1 - 8 * UNIT), mu * (1 + 8 * UNIT))
    if len(gaussians) == 1 and gaussians[0][1] == 1:
        around = (gaussians[0][0], gaussians[0][0])
    return Flat(joined, np.concatenate(counts) if counts else np.zeros(0), variance, around, tuple(steps))


def _ratios(value: object) -> Floats:
    if isinstance(value, (list, tuple, np.ndarray)) and len(value) == 0:
        return np.zeros(0)
    ratios = arguments.array("ratios", value, cure="pass |difference| / scale for each Laplace coordinate")
    if not ratios.max() <= _LARGEST_RATIO:
        at = int(np.argmax(ratios))
        raise ArgumentError(
            f"ratios[{at}] must be at most {_LARGEST_RATIO:g}, got {float(ratios[at])!r}: use more noise than that."
        )
    return ratios


# Many different ratios become a few, on the safe side, without a first-order loss.
#
# delta is Schur-convex and increasing in the ratio vector, for every epsilon (E5): a vector that majorizes another
# gives a pair that dominates the other's, and dominance survives composition with anything. Within a cell [low, high]
# of nearby ratios with a given sum, the vector with all but one entry at the two ends majorizes every other, and the
# vector with all entries equal is majorized by every other. So moving ratios apart to the cell's ends, sum kept, gives
# an upper bound, and replacing them by their mean a lower bound; both cost only the second order of the cell's width,
# where rounding every ratio up would cost the first.


_CELL = 0.003  # width of a cell, relative to the larger of the ratio and the typical ratio


def merged(ratios: Floats, counts: Floats) -> tuple[Floats, Floats]:
    """Different ratios in increasing order, with how often each occurs."""
    if ratios.size <= 1:
        return ratios, counts
    if counts.min() == counts.max():
        ordered, weights = np.sort(ratios), counts
    else:
        order = np.argsort(ratios)
        ordered, weights = ratios[order], counts[order]
    starts = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
    return ordered[starts], np.add.reduceat(weights, starts)


def spread_and_mean(ratios: Floats, counts: Floats) -> tuple[tuple[Floats, Floats], tuple[Floats, Floats]]:
    """Two short lists of (ratios, counts) whose curves lie above and below that of the sorted list given.

    Statement: for every epsilon, delta(second) <= delta(given) <= delta(first). Assumes sorted positive ratios. Sums
    are rounded outwards, so that the order holds for the floats returned.
    """
    centre = _typical(ratios, counts)
    cells = np.floor(np.arcsinh(ratios / centre) / _CELL)
    starts = np.flatnonzero(np.concatenate(([True], cells[1:] != cells[:-1])))
    ends = np.append(starts[1:], ratios.size) - 1
    low, high, number = ratios[starts], ratios[ends], np.add.reduceat(counts, starts)
    members = ends - starts + 1
    offsets = ratios - np.repeat(low, members)  # subtraction first: the sum of small offsets loses nothing
    excess = np.add.reduceat(offsets * counts, starts)
    slack = 4 * UNIT * (members + 4) * excess
    width = high - low
    wide = width > 0

    # Upper: `top` entries at the high end, one entry in between, the others at the low end.
    share = np.divide(excess + slack, width, out=np.zeros_like(excess), where=wide)
    top = np.minimum(np.floor(share), number)
    between = np.where(wide & (top < number), 1.0, 0.0)
    middle = np.minimum(low + (share - top) * width * (1 + 8 * UNIT) + 8 * UNIT * high, high)
    values = np.concatenate((low, high, middle))
    times = np.concatenate((number - top - between, top, between))
    used = times > 0
    mean = np.maximum(low, (low + np.maximum(excess - slack, 0) / number) * (1 - 4 * UNIT))
    return merged(values[used], times[used]), (np.where(wide, mean, low), number)


def _typical(ratios: Floats, counts: Floats) -> float:
    """The root mean square without the few largest: one huge ratio must not make cells coarse for all the others."""
    centre = math.inf
    for _ in range(6):
        inner = int(np.searchsorted(ratios, 8 * centre, side="right"))
        e, n = ratios[:inner], counts[:inner]
        smaller = math.sqrt(float((e * e) @ n) / float(n.sum()))
        if smaller > 0.7 * centre:
            break
        centre = smaller
    return centre
