"""Coordinate descent under differential privacy (the paper's Algorithm 2, after Mangold et al. 2022).

Each step visits one column i: every record's gradient x_i * slope is clipped to C_i = C sqrt(M_i / sum M), summed
exactly, given noise, and used in a proximal step of size tau / M_i. The schedule is fixed in advance, and so is every
step's noise; the iterates depend on earlier noise, which sums of mu^2 (of epsilon, for Laplace noise) allow for (E7).
So one plan over the box of passes x columns stands for the whole fit: it is proved and charged once, before the data
are looked at.

Departures from the paper. An error t in parameter i costs about M_i t^2 / 2 in the objective, so by default gradients
have the weights 1/sqrt(M_i) ("curvature"); with these thresholds the weighted profile is flat and the optimum is the
original DP-CD. `weights=None` weighs parameters alike, the paper's improved DP-CD as printed, which loses. Sensitivity
is C_i per record under add_remove (a row replaced by zeros) and the paper's 2 C_i under replace.
"""

import math
import sys
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from scipy import special

from inid.accounting import Ledger
from inid.arguments import Floats, choice, integer, real, shown
from inid.errors import ArgumentError
from inid.fixed_point import fixed_columns, product_bits
from inid.learn.gradients import FEATURE_BITS, Gradients, Loss, bounded_features, short, whole_steps
from inid.learn.headroom import with_headroom
from inid.learn.reading import read_bounds, read_budget, read_ledger, read_sizes
from inid.learn.smoothness import mean_squares, split_budget
from inid.noise import current_source
from inid.noise.compiled_draws import available
from inid.noise.grids import check_scales
from inid.noise.law_tables import law
from inid.noise.prepared_noise import PreparedNoise
from inid.planning import NoisePlan, plan
from inid.promises import Budget, PureDP
from inid.sets import Sensitivity

__all__ = ["Descended", "Descent"]

_WORTH_LOADING = 1 << 29  # entries of columns visited in all: fewer take less time than it takes to load numba
_FARTHEST = 2.0**300  # no coefficient times its column's size goes beyond, so no product of floats overflows


@dataclass(frozen=True)
class Descended:
    """What a descent found."""

    coefficients: Floats
    intercept: float
    smoothness: Floats
    plan: NoisePlan
    private: bool


@dataclass(frozen=True)
class Descent:
    """The public parameters of a descent, read from an estimator by `of`."""

    budget: Budget
    lower: Floats
    upper: Floats
    intercept: bool
    weights: str | None
    neighbours: str
    mechanism: str
    allocation: str
    passes: int
    clip: float
    step: float
    smoothness: Floats | float | None
    name: str

    @classmethod
    def of(cls, estimator: Any, width: int) -> Self:
        """The parameters of an estimator, checked."""
        budget = read_budget(estimator.budget)
        if estimator.weights is not None:
            choice("weights", estimator.weights, ("curvature",))
        mechanism = choice("mechanism", estimator.mechanism, ("auto", "gaussian", "laplace"))
        if mechanism == "auto":
            mechanism = "laplace" if isinstance(budget, PureDP) else "gaussian"
        lower, upper = read_bounds("bounds_X", estimator.bounds_X, width)
        return cls(
            budget,
            lower,
            upper,
            bool(estimator.fit_intercept),
            estimator.weights,
            choice("neighbours", estimator.neighbours, ("add_remove", "replace")),
            mechanism,
            estimator.allocation,
            integer("passes", estimator.passes, least=1, cure="pass how often every column is visited"),
            _moderate("clip", estimator.clip),
            _moderate("step", estimator.step),
            _read_smoothness(estimator.smoothness, width),
            type(estimator).__name__,
        )

    def run(self, data: Floats, loss: Loss, *, l1: float, l2: float, ledger: Ledger | None) -> Descended:
        """Plan, charge, and descend from 0.

        Args:
            data: The features, as read.
            loss: The loss, which holds the targets.
            l1: The weight of the penalty ||w||_1.
            l2: The weight of the penalty ||w||_2^2 / 2.
            ledger: Where the cost is charged.
        """
        rows, width = data.shape
        ledger = read_ledger(ledger)
        smoothness, budget = self._constants(data, loss.curvature, ledger)
        # Roots first: a quotient of constants may leave the floats, that of their roots does not.
        steps, bounds = whole_steps(self.clip * (np.sqrt(smoothness) / np.sqrt(smoothness.sum())), rows)
        noise = with_headroom(self._plan(budget, smoothness, bounds), rows * bounds)
        _ = noise.certificate  # proved before anything is charged or drawn
        scales, source = check_scales(noise.row_scales), current_source()
        if ledger is not None:
            ledger.charge(noise, label=self.name, private=source.private)
        columns = fixed_columns(self.lower, self.upper, FEATURE_BITS, centre=False)
        features = bounded_features(data, columns, constant=self.intercept)
        gradients = Gradients(features, loss, steps, bounds, compiled=_compiled(features.size * self.passes))
        drawn = PreparedNoise(scales, self.passes, law(noise.mechanism), source)
        moves, sizes = (self.step / smoothness).tolist(), np.append(columns.size, 1.0).tolist()
        farthest = [_FARTHEST / size for size in sizes]
        # `w` is where the gradients are taken, and within rounding of `found`, which the proximal steps give.
        w, found = [0.0] * len(bounds), [0.0] * len(bounds)
        # Whatever the caller has told NumPy or SciPy, no error and no warning may depend on a record.
        with np.errstate(all="ignore"), special.errstate(all="ignore"):
            for i in [*range(len(w))] * self.passes:
                moved = w[i] - moves[i] * drawn.add(gradients.sum(i)) / rows
                if i < width:  # the intercept is not penalised
                    moved = math.copysign(max(abs(moved) - moves[i] * l1, 0.0), moved) / (1 + moves[i] * l2)
                found[i] = min(max(-farthest[i], moved), farthest[i])  # in this order NaN becomes a number as well
                by = short(found[i] - w[i], sizes[i])
                gradients.move(i, by)
                w[i] += by
        constant = found.pop() if self.intercept else 0.0
        return Descended(np.array(found), constant, smoothness, noise, source.private)

    def _plan(self, budget: Budget, smoothness: Floats, bounds: Floats) -> NoisePlan:
        """The plan of all steps: a box with one row per column, which stands for as many coordinates as passes."""
        reach = bounds if self.neighbours == "add_remove" else 2 * bounds
        box = Sensitivity.box(reach, counts=[self.passes] * len(bounds), neighbours=self.neighbours)
        # An error e in the gradient moves the parameter by tau e / M_i, which costs M_i (tau e / M_i)^2 / 2.
        weights = 1 / np.sqrt(smoothness) if self.weights == "curvature" else 1 / smoothness
        return plan(box, budget, mechanism=self.mechanism, allocation=self.allocation, weights=weights)

    def _constants(self, data: Floats, curvature: float, ledger: Ledger | None) -> tuple[Floats, Budget]:
        """(M_i, what is left of the budget); the constant column of an intercept has mean square 1."""
        constant = [curvature] * self.intercept
        columns = fixed_columns(self.lower, self.upper, product_bits(data.shape[0]), centre=False)
        if self.smoothness is None:
            return np.append(curvature * columns.size**2, constant), self.budget
        if not isinstance(self.smoothness, float):
            return np.append(self.smoothness, constant), self.budget
        first, rest = split_budget(self.budget, self.smoothness)
        largest = np.append(curvature * columns.size**2, constant)
        self._plan(rest, largest, np.sqrt(largest))  # what cannot be planned must not cost the first part
        relative = self.weights == "curvature"
        found = mean_squares(data, columns, first, relative, self.allocation, self.neighbours, ledger)
        return np.append(curvature * found, constant), rest


def _compiled(entries: int) -> bool:
    """Whether to use the compiled loop: numba has been loaded already, or loading it will pay."""
    return ("numba" in sys.modules or entries >= _WORTH_LOADING) and available()


def _read_smoothness(value: object, width: int) -> Floats | float | None:
    """None for "bounds", a fraction as a float, constants as an array."""
    if isinstance(value, str):
        choice("smoothness", value, ("bounds",))
        return None
    if np.ndim(value) == 0:  # type: ignore[arg-type]
        cure = 'pass "bounds", one number per column, or the fraction of the budget to spend, such as 0.1'
        fraction = real("smoothness", value, above=0, cure=cure)
        if not fraction < 1:
            raise ArgumentError(f"smoothness must be a fraction below 1, got {shown(value)}: {cure}.")
        return fraction
    return read_sizes("smoothness", value, width)


def _moderate(name: str, value: object) -> float:
    number = real(name, value, above=0, cure=f"pass a positive number, for example {name}=1.0")
    if not 1e-50 < number < 1e50:
        raise ArgumentError(f"{name} must lie between 1e-50 and 1e50, got {shown(value)}: use other units.")
    return number
