"""Coordinate descent under differential privacy (the paper's Algorithm 2, after Mangold et al. 2022).

Each step visits one column i: every record's gradient z_i * slope is clipped to C_i, summed exactly, given noise, and
used in a proximal step of size tau / M_i. The schedule and every step's noise are fixed in advance. The iterates depend
on earlier noise, which sums of mu^2 (of epsilon) allow for, and curves too, since the noise of a step in units of its
threshold is fixed (E7). So one plan over the box of passes x columns is proved and charged once, before the data are
read; a private number of rows is one more coordinate, released first.

Departures from the paper. Columns are in public units; `units="data"` keeps the user's, with the paper's thresholds C_i
= C sqrt(M_i / sum M). An error t in parameter i costs about M_i t^2 / 2 in the objective, so by default gradients have
the weights 1/sqrt(M_i) ("curvature"); with the paper's thresholds the optimum is then the original DP-CD.
`weights=None` is the paper's improved DP-CD as printed, which loses. One record moves a sum by C_i when it becomes
nothing, is added or removed, and by the paper's 2 C_i when it is replaced.
"""

import math
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import special

from inid.accounting import Ledger
from inid.arguments import Floats, choice, integer
from inid.errors import ArgumentError
from inid.learn.base import read_mechanism
from inid.learn.bounds import (
    Groups,
    one_hot_groups,
    one_hot_with_codes,
    outside_groups,
    read_budget,
    read_moderate,
    read_smoothness,
)
from inid.learn.budget_splitting import ASSUMED_ROWS, split_budget
from inid.learn.descent.clipped_gradients import (
    FEATURE_BITS,
    Gradients,
    feature_grid,
    grid_thresholds,
    short,
    worth_compiling,
)
from inid.learn.descent.descent_plan import Steps, passes_for, plan_steps, signal_of
from inid.learn.descent.objective import DescentResult, Objective, PreliminaryRelease
from inid.learn.descent.preliminary_release import (
    CELLS,
    StandardisedColumns,
    calibration,
    mean_squares,
    release_target_summary,
    signed_sum,
    standardise_columns,
    target_shares,
)
from inid.learn.inputs import Matrix
from inid.learn.public_units import MOST_ROWS, Units, cover_answers, exact_columns, exact_entries, row_sums
from inid.learn.significance import coefficient_p_value, never_positive, noise_of_steps, shrinkage_factor
from inid.mechanisms import MechanismChoice, MechanismName
from inid.noise import RandomSource, add_noise
from inid.noise.grid_noise import check_scales
from inid.noise.law_tables import law
from inid.noise.prepared_noise import PreparedNoise
from inid.planning import NoisePlan
from inid.promises import Budget
from inid.releasing import charge
from inid.sets import Allocation, Neighbours

_FEW, _SMALL = 3, 0.25  # passes, and the threshold of a logistic loss where noise allows no more
_LOGIT_DAMPING, _DAMPING = 0.7, 3.0  # 1 / how far the noise of one pass may move a prediction, about, in its unit
_FLAT = 1.0  # the variance of log-odds up to which the constant tells of the share of a class
_FARTHEST = 2.0**300  # no coefficient times its column's size goes beyond, so no product of floats overflows


@dataclass(frozen=True)
class Descent:
    """The public parameters of a descent, read from an estimator by `of`."""

    budget: Budget
    lower: Floats
    upper: Floats
    groups: Groups
    target: tuple[Floats, Floats] | None
    in_data: bool
    intercept: bool
    weights: str | None
    neighbours: Neighbours
    mechanism: MechanismChoice
    allocation: Allocation
    passes: int | None
    clip: float | None
    step: float
    smoothness: Floats | float | None
    name: str

    @classmethod
    def of(
        cls,
        estimator: Any,
        lower: Floats,
        upper: Floats,
        neighbours: Neighbours,
        target: tuple[Floats, Floats] | None = None,
    ) -> Self:
        """The parameters of an estimator, checked."""
        budget = read_budget(estimator.budget)
        if estimator.weights is not None:
            choice("weights", estimator.weights, ("curvature",))
        in_data = choice("units", estimator.units, ("bounds", "data")) == "data"
        groups = () if in_data else one_hot_groups(estimator.bounds)
        lower = lower.copy()
        for first, last in groups:
            lower[first:last] = -1.0
        return cls(
            budget,
            lower,
            upper,
            groups,
            target,
            in_data,
            bool(estimator.fit_intercept),
            estimator.weights,
            neighbours,
            read_mechanism(estimator.mechanism, budget),
            estimator.allocation,
            None
            if estimator.passes is None
            else integer("passes", estimator.passes, least=1, cure="pass how often every column is visited"),
            None if estimator.clip is None else read_moderate("clip", estimator.clip),
            read_moderate("step", estimator.step),
            read_smoothness(estimator.smoothness, lower.size),
            type(estimator).__name__,
        )

    def run(self, data: Matrix, objective: Objective, ledger: Ledger | None) -> DescentResult:
        """Plan, charge, and descend from 0, for one output after the other: one more round of the same sums each."""
        secret, outputs = self.neighbours == "add_remove", objective.outputs
        most = MOST_ROWS if secret else data.shape[0]
        units = self._units(self.lower, self.upper)
        known, budget = self._constants(data, units, objective, ledger)
        columns, some = units.size.size + self.intercept, ASSUMED_ROWS if secret else most
        signal = signal_of(budget, self.mechanism, some, columns, self.groups, outputs)
        passes = self.passes or passes_for(signal)
        few = objective.halves and self.passes is None and passes <= _FEW
        steps, bounds = grid_thresholds(self._thresholds(known, units, objective.slope(signal), few=few), most)
        noise, row = self._plan(budget, known, bounds, units, passes * outputs, objective, None if secret else most)
        largest, by_row = np.full(len(row), float(most)), np.zeros(len(noise.run_scales))
        largest[: len(bounds)] *= bounds
        np.maximum.at(by_row, row, largest)
        noise = cover_answers(noise, by_row)
        source = charge(noise, ledger, self.name).source
        scales = check_scales(noise.run_scales)[row]
        # Whatever the caller has set in NumPy or SciPy, no error and no warning may depend on a record.
        with np.errstate(all="ignore"), special.errstate(all="ignore"):
            values, read = one_hot_with_codes(data.floats(), self.groups)
            weights = None if objective.weights is None else objective.weights()
            preliminary = self._release_preliminary(objective, len(values), weights, scales, noise.mechanism, source)
            curvature, contraction, variances = (
                objective.curvature(preliminary),
                np.zeros(len(bounds)),
                np.ones(units.size.size),
            )
            if known is None:
                standard = self._standardise(
                    values, weights, units, preliminary.rows, curvature, len(bounds), scales, noise.mechanism, source,
                    steep=objective.target is not None,
                )  # fmt: skip
                known, units, contraction, variances, preliminary = (
                    standard.smoothness,
                    standard.units,
                    standard.contraction,
                    standard.variances,
                    replace(preliminary, columns=standard.means),
                )
                steps, bounds = steps * standard.smaller, bounds * standard.smaller
                scales[: len(bounds)] *= standard.smaller
            hot = {first: (code, last - first) for (first, last), code in zip(self.groups, read, strict=True)}
            plain, losses = (
                np.flatnonzero(outside_groups(values.shape[1], self.groups)).tolist(),
                objective.weighted_losses(preliminary, weights),
            )
            compiled = all(loss.link is not None for loss in losses) and worth_compiling(
                len(values) * (len(plain) + self.intercept) * passes * outputs
            )
            features = feature_grid(values, units, constant=self.intercept, columns=plain, compiled=compiled)
            drawn = PreparedNoise(scales[: len(bounds)], passes * outputs, law(noise.mechanism), source)
            unit_y, averaged = self.target_unit[1], (passes + 1) // 2 if self._averages else 1
            moves, width = self.step / known / preliminary.rows, units.size.size
            unit = np.ones(1) if objective.public else units.unit
            l1 = objective.l1 * preliminary.rows / unit / (1.0 if objective.public else unit_y)
            l2 = objective.l2(preliminary) / unit**2
            solutions = np.array([
                descend(
                    Gradients(features, loss, steps, bounds, compiled=compiled, hot=hot),
                    drawn,
                    passes,
                    averaged=averaged,
                    moves=moves,
                    sizes=np.append(units.size, 1.0),
                    l1=np.append(np.broadcast_to(l1, width), 0.0),
                    l2=np.append(np.broadcast_to(l2, width), 0.0),
                )
                for loss in losses
            ])  # fmt: skip
            deviation = 1.0 if noise.mechanism == "gaussian" else math.sqrt(2)
            shortening = 1 + moves[:width] * l2  # the penalty makes every step shorter by that, and its noise
            contraction = contraction[:width] / shortening
            noisy = noise_of_steps(
                (moves * deviation * scales[: len(moves)])[:width] / shortening, contraction, passes, averaged
            )
            chance, shrinkage = coefficient_p_value(solutions[:, :width], noisy), 1.0
            if objective.target is not None:  # one output
                shrinkage = shrinkage_factor(solutions[0, :width], noisy, variances, 1 - contraction**passes)
            result = self._in_the_users_units(
                solutions * shrinkage, units, known, noise, source.private, chance, shrinkage, preliminary
            )
            if objective.halves and self.intercept:
                ended = never_positive(float(moves[width]) * preliminary.rows, float(bounds[width]), passes, averaged)
                room = 3 * float(moves[width] * deviation * scales[width])
                result = replace(result, far=_one_sided(solutions, variances, ended, room))
            return self._calibrated(result, objective, values, weights, scales, source)

    def _release_preliminary(
        self,
        objective: Objective,
        count: int,
        weights: Floats | None,
        scales: Floats,
        mechanism: MechanismName,
        source: RandomSource,
    ) -> PreliminaryRelease:
        """Release the number of rows or the sum of weights, where they are secret, and a summary of the target."""
        rows, last = float(count), len(scales)
        deviation = 1.0 if mechanism == "gaussian" else math.sqrt(2)
        if self._counts(weights):
            last -= 1
            exact = rows if weights is None else exact_entries(weights)[0]
            rows = max(float(add_noise(np.array([exact]), scales[last:], mechanism, source)[0]), 1.0)
        if objective.target is None:
            return PreliminaryRelease(rows)
        here = scales[last - CELLS - 1 - self.intercept :]

        def draw(exact: Floats, at: int) -> Floats:
            return np.asarray(add_noise(exact, here[at : at + len(exact)], mechanism, source))

        return release_target_summary(objective.target(), weights, draw, deviation * here, rows)

    def _calibrated(
        self,
        result: DescentResult,
        objective: Objective,
        values: Floats,
        weights: Floats | None,
        scales: Floats,
        source: RandomSource,
    ) -> DescentResult:
        """Release the sum of the predictions, the last but the number of rows, and what to multiply them by."""
        if objective.predictions is None or not self.intercept:
            return result
        mechanism, preliminary = result.plan.mechanism, result.preliminary
        scale = scales[len(scales) - (self._counts(weights) + 1) :][:1]
        exact = signed_sum(objective.predictions(values, result), weights)
        total = float(add_noise(exact, scale, mechanism, source)[0])
        deviation = 1.0 if mechanism == "gaussian" else math.sqrt(2)
        spread = deviation * float(scale[0]) / preliminary.rows / 2
        return replace(result, calibration=calibration(preliminary, total, spread, objective.doubt))

    def _counts(self, weights: Floats | None) -> bool:
        """Whether the number of rows, or the sum of weights, is released: it is the last of all numbers."""
        return self.neighbours == "add_remove" or weights is not None

    def _in_the_users_units(
        self,
        solutions: Floats,
        units: Units,
        smoothness: Floats,
        noise: NoisePlan,
        private: bool,
        chance: float,
        shrinkage: float,
        preliminary: PreliminaryRelease,
    ) -> DescentResult:
        """Y = centre_y + unit_y (b + sum of w_i (x_i - centre_i) / unit_i)."""
        centre, unit = self.target_unit
        width = units.size.size
        coefficients = unit * solutions[:, :width] / units.unit
        constants = solutions[:, width] if self.intercept else np.zeros(len(solutions))
        intercepts = centre + unit * constants - coefficients @ units.centre
        return DescentResult(coefficients, intercepts, smoothness, noise, private, chance, shrinkage, preliminary)

    def _units(self, lower: Floats, upper: Floats) -> Units:
        scale = not self.in_data
        return Units.of(lower, upper, None, centre=scale and self.intercept, scale=scale, bits=FEATURE_BITS)

    @property
    def _averages(self) -> bool:
        """Whether this is a logistic model in public units: not the paper's setting, nor one with an l1 penalty."""
        return self.target is None and not self.in_data

    @property
    def target_unit(self) -> tuple[float, float]:
        """(centre, unit) of the target."""
        if self.target is None or self.in_data:
            return 0.0, 1.0
        units = self._units(*self.target)
        return float(units.centre[0]), float(units.unit[0])

    def target_values(self, values: Floats) -> Floats:
        """The target within its bounds, in its unit."""
        if self.target is None:
            raise ArgumentError("labels have no bounds.")
        units = self._units(*self.target)
        return np.asarray(units.mapping.whole(values)[:, 0] * units.grid.step[0])

    def _thresholds(self, known: Floats | None, units: Units, slope: float, *, few: bool) -> Floats:
        """C_i: by default the largest gradient at the start, for a logistic loss the largest there is.

        Columns centred at their mean can reach further than 1, but to clip such a record costs less than the noise of a
        larger threshold. Slopes of a logistic loss are 1/2 at the start, and few small steps leave them near it: where
        noise allows few passes, a quarter of the threshold does with a quarter of the noise.
        """
        constant = [1.0] * self.intercept
        largest = np.append(units.size, constant)
        if self.clip is None:
            size = slope if self.target is None else float(np.maximum(*np.abs(self.target))[0]) if self.in_data else 1.0
            return np.asarray(largest * size * (_SMALL if few and self._averages else 1.0))
        share = np.append(units.size**2, constant) if known is None else known
        # Roots first: a quotient of constants may leave the floats, that of their roots does not.
        clipped = self.clip * (np.sqrt(share) / np.sqrt(share.sum()))
        for first, last in self.groups:  # one threshold for all columns of a group
            clipped[first:last] = clipped[first:last].max()
        return np.asarray(np.minimum(clipped, slope * largest) if self.target is None and not self.in_data else clipped)

    def _plan(
        self,
        budget: Budget,
        known: Floats | None,
        bounds: Floats,
        units: Units,
        passes: int,
        objective: Objective,
        rows: int | None,
    ) -> tuple[NoisePlan, NDArray[np.intp]]:
        """The plan of all steps, and the row of it that each number's noise is in (`descent_plan`)."""
        # An error e in the gradient moves the parameter by tau e / M_i, which costs M_i (tau e / M_i)^2 / 2.
        M = np.ones(len(bounds)) if known is None else known
        weights = 1 / np.sqrt(M) if self.weights == "curvature" else 1 / M
        column_share = self.smoothness if known is None and isinstance(self.smoothness, float) else None
        laplace = self.mechanism == "laplace"
        target = (
            None if objective.target is None else target_shares(budget, rows, laplace=laplace, intercept=self.intercept)
        )
        steps = Steps(
            bounds,
            weights,
            units.size.size,
            self.groups,
            passes,
            column_share,
            target,
            self.neighbours == "add_remove" or objective.weights is not None,
            self.neighbours,
        )
        return plan_steps(steps, budget, self.mechanism, self.allocation)

    def _constants(
        self, data: Matrix, units: Units, objective: Objective, ledger: Ledger | None
    ) -> tuple[Floats | None, Budget]:
        """(M_i, or None if the descent's own plan pays for them; what is left of the budget).

        The constant column of an intercept has mean square 1. In the user's units a part of the budget buys the mean
        squares by a charge of their own, as in the paper.
        """
        curvature = objective.curvature(PreliminaryRelease(1.0))
        constant = [curvature] * self.intercept
        if self.smoothness is None:
            return np.append(curvature * units.size**2, constant), self.budget
        if not isinstance(self.smoothness, float):
            return np.append(self.smoothness, constant), self.budget
        if not self.in_data:
            return None, self.budget
        first, rest = split_budget(self.budget, self.smoothness)
        largest = np.append(curvature * units.size**2, constant)
        rows = None if self.neighbours == "add_remove" else data.shape[0]
        # What cannot be planned must not cost the first part.
        self._plan(rest, largest, np.sqrt(largest), units, 1, objective, rows)
        coarse = Units.of(self.lower, self.upper, rows, centre=False, scale=False)
        relative = self.weights == "curvature"
        constants = mean_squares(data, coarse, first, relative, self.allocation, self.neighbours, ledger)
        return np.append(curvature * constants, constant), rest

    def _standardise(
        self,
        values: Floats,
        weights: Floats | None,
        units: Units,
        rows: float,
        curvature: float,
        first: int,
        scales: Floats,
        mechanism: MechanismName,
        source: RandomSource,
        *,
        steep: bool,
    ) -> StandardisedColumns:
        """Release sums and squares of the columns, and make of them what `standardise_columns` does."""
        width = units.size.size
        coarse = Units.of(self.lower, self.upper, None, centre=self.intercept, scale=True)
        moments = exact_columns(values, coarse, count=False, weights=weights)
        preliminary_scales, deviation = (
            scales[first : first + 2 * width],
            1.0 if mechanism == "gaussian" else math.sqrt(2),
        )
        hot = ~outside_groups(width, self.groups)
        released = np.append(np.ones(width, bool), ~hot)  # squares of 0 and 1 are their sums
        moments[released] = add_noise(moments[released], preliminary_scales[released], mechanism, source)
        moments[width:] = np.where(hot, moments[:width], moments[width:])
        visited = first - sum(last - start - 1 for start, last in self.groups)  # a row is in one column of a group
        return standardise_columns(
            moments / rows,
            preliminary_scales * deviation / rows,
            (self.lower, self.upper),
            units,
            hot,
            intercept=self.intercept,
            curvature=curvature,
            spread=scales[:first] * deviation / rows,
            damping=(_LOGIT_DAMPING if self.target is None else _DAMPING) * math.sqrt(visited),
            steep=steep,
            shrink=self.clip is None,
        )


def _one_sided(solutions: Floats, variances: Floats, ended: float, room: float) -> tuple[int, ...]:
    """-1 for outputs whose constant is as far down as without positive rows, 1 as far up as without others, else 0.

    Noise within `room` is allowed for, and must leave the two apart; columns that tell much need no such constant.
    """
    constants, width = solutions[:, -1], len(variances)
    one_sided = (row_sums(solutions[:, :width] ** 2 * variances) < _FLAT) & (ended < -2 * room)
    return tuple((one_sided * (1 * (constants > -ended - room) - 1 * (constants < ended + room))).tolist())


def descend(
    gradients: Gradients,
    drawn: PreparedNoise,
    passes: int,
    *,
    averaged: int,
    moves: Floats,
    sizes: Floats,
    l1: Floats,
    l2: Floats,
) -> Floats:
    """Proximal coordinate steps: w_i becomes prox(w_i - moves_i * noisy sum of gradients).

    The result is the mean of the last `averaged` passes, each with noise of its own; an l1 penalty's zeros would be
    lost.
    """
    count = len(moves)
    farthest = (_FARTHEST / sizes).tolist()
    steps, room, one, two = moves.tolist(), sizes.tolist(), (moves * l1[:count]).tolist(), (moves * l2[:count]).tolist()
    # `w` is where the gradients are taken, and within rounding of `found`, which the proximal steps give.
    w, averages, total = [0.0] * count, [0.0] * count, np.zeros(count)
    for step, i in enumerate([*range(count)] * passes):
        moved = w[i] - steps[i] * drawn.add(gradients.sum(i))
        moved = math.copysign(max(abs(moved) - one[i], 0.0), moved) / (1 + two[i])
        averages[i] = min(max(-farthest[i], moved), farthest[i])  # in this order NaN becomes a number as well
        by = short(averages[i] - w[i], room[i])
        gradients.move(i, by)
        w[i] += by
        if i == count - 1 and step >= count * (passes - averaged):
            total += np.array(averages) / averaged
    return total
