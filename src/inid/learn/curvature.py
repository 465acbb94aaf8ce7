"""Intervals of models that descend: one charged release of the score and the curvature where the descent has ended.

A descent releases no information matrix, and the noise of its steps leaves it beside the best coefficients. So a fixed
part of the promise releases, at the coefficients t that it found, S = sum of s z and H = sum of h z z^T: z is a row's
columns in public units and 1, s the slope of its loss and h the curvature. One step of Newton's method, t - H^-1 S, is
then as good as the best coefficients to first order, and its noise is known.

**How far one person moves it.** Let u = h / (largest h) in [0, 1] and v = s / (largest s) in [-1, 1]. What is summed
are u z_i z_j, u z_i and u, v z_i and v, and v^2, with |z_i| <= 1: each lies in [-1, 1], and those of one factor z_i^2,
u or v^2 in [0, 1]. So these are moments of the columns (z, v) with weights u as far as any bound is concerned, with the
boxes, and the blocks of one-hot groups, of `moment_sets` for weights. u, v and z depend on the row and on t alone, and
t on earlier releases, which sums of mu^2 (of epsilon) allow for (E7).

**How far the step is off.** Let A + E and b + e be released, A = sum of u z z^T, b = sum of v z, and r the largest s
over the largest h. The step d solves (A + E) d = -r (b + e), the exact one A d' = -r b. So d - d' = -A^-1 (E d + r e),
exactly, and errors are drawn as for least squares: A is what is released less a draw of E.

**Sampling.** The score of a sample has the covariance sum of E[s^2] z z^T. If E[s^2] is c E[h] in all rows, as in a
logistic model with c = 1, in a model of counts whose variance is c times the mean, and in one of amounts whose quotient
by the mean has one law, then the step has the covariance c H^-1, and c is the sum of s^2 over that of h.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from inid.accounting import Ledger
from inid.arguments import Floats, real, shown
from inid.errors import ArgumentError
from inid.learn.base import check_room
from inid.learn.bounds import Groups, clip_to_bounds, one_hot_groups, outside_groups, read_budget
from inid.learn.budget_splitting import divisible, split_budget
from inid.learn.inference import Inference, column_names
from inid.learn.inputs import Matrix
from inid.learn.moments.second_moments import moment_layout, nearest_psd, plan_moments
from inid.learn.public_units import Units, exact_floats
from inid.planning import NoisePlan
from inid.promises import Budget
from inid.releasing import release
from inid.sets import Neighbours

_DRAWS = 1000
_FARTHEST = 0.5  # of a unit of the linear predictor, as root mean square: how far a step goes at most
_TOO_FAR = "There are no intervals: the descent ended too far from the best coefficients for one step to reach them; "
_LOST = "There are no intervals: the curvature can hardly be told from its noise; "
_CURE = "spend more budget, a larger share on inference, or state tighter bounds."


@dataclass(frozen=True)
class Slopes:
    """u in [0, 1] and v in [-1, 1] of each row, the largest slope over the largest curvature, and what is assumed."""

    curvature: Floats
    slope: Floats
    ratio: float
    dispersion: float | None
    about: str


def exact_curvature(z: Floats, slopes: Slopes, groups: Groups, rows: int | None) -> Floats:
    """The exact sums, in the order of the moments of the columns (z, v) with weights u."""
    width = z.shape[1]
    ends = np.ones(width + 1)
    grid = Units.of(-ends, ends, rows, centre=True, scale=True)
    root = np.sqrt(slopes.curvature)
    weighted, plain = np.column_stack([z * root[:, None], root]), np.column_stack([z, np.ones(len(z))])
    products, scores, square = np.zeros((width + 1, width + 1), np.int64), np.zeros(width + 1, np.int64), 0
    at = 0
    for one, two in zip(grid.chunks(weighted), grid.chunks(plain), strict=True):
        slope = np.rint(slopes.slope[at : at + len(one)] / grid.grid.step[0])
        products += (one.T @ one).astype(np.int64)  # whole numbers below 2^53: exact in whatever order BLAS adds
        scores += (two.T @ slope).astype(np.int64)
        square += int(slope @ slope)
        at += len(one)
    sums = np.zeros((width + 2, width + 2), np.int64)
    place = np.append(np.arange(width), width + 1)
    sums[np.ix_(place, place)] = products
    sums[place, width] = scores
    sums[width, place] = scores
    sums[width, width] = square
    layout = moment_layout(width + 1, groups, mean=True, count=True)
    entries = exact_floats(sums)[layout.i, layout.j] * grid.grid.step[0] ** 2
    return np.asarray(entries)


@dataclass(frozen=True)
class PaidInference:
    """The release, planned and affordable, before the descent; `rest` is what the descent has."""

    rest: Budget
    noise: NoisePlan
    ends: tuple[Floats, Floats]
    groups: Groups
    rows: int | None
    model: Any
    values: Callable[[], Floats]
    ledger: Ledger | None

    @classmethod
    def of(
        cls, model: Any, data: Matrix, relation: Neighbours, ledger: Ledger | None, *, weighted: bool
    ) -> Self | None:
        """The release that an estimator states, None if it states none; all by public facts."""
        if model.inference is None:
            return None
        share = real("inference", model.inference, above=0, cure="pass the part of the promise for intervals, 0.3 say")
        if not share < 1 or weighted or not model.fit_intercept or getattr(model, "units", "bounds") != "bounds":
            raise ArgumentError(
                f"inference must be a part below 1, of a model with an intercept and without weights of rows, got "
                f'{shown(model.inference)}: pass 0.3, say, and leave out weights and units="data".'
            )
        promise, groups = divisible(read_budget(model.budget)), one_hot_groups(model.bounds)
        check_room(ledger, promise, relation)
        part, rest = split_budget(promise, share)
        width, rows = data.shape[1], None if relation == "add_remove" else data.shape[0]
        ends, plain = np.ones(width + 1), outside_groups(width + 1, groups)
        planned = plan_moments(
            Units.of(-ends * plain, ends, rows, centre=plain, scale=True),
            part,
            rows=rows,
            costs=ends,
            constant=1.0,
            mean=True,
            neighbours=relation,
            mechanism=model.mechanism,
            allocation=model.allocation,
            weighted=True,
            groups=groups,
        )
        lower, upper = model._read_bounds(width)  # noqa: SLF001 - the base's own
        return cls(rest, planned.noise, (lower, upper), groups, rows, model, data.floats, ledger)

    def release(
        self,
        slopes: Callable[[Floats], Slopes],
        coefficients: Floats,
        solved: Floats,
        *,
        without_constant: bool = False,
    ) -> Inference:
        """Charge, release score and curvature at `solved`, and make estimates and draws of their errors."""
        noise, width = self.noise, len(self.ends[0])
        units = Units.of(*self.ends, self.rows, centre=outside_groups(width, self.groups), scale=True)
        solutions: list[Slopes] = []

        def exact() -> Floats:
            with np.errstate(all="ignore"):  # no error and no warning may depend on a record
                clipped = clip_to_bounds(self.values(), *self.ends, self.groups)
                solutions.append(slopes(clipped))
                z = np.clip((clipped - units.centre) / units.unit, -1.0, 1.0)
                return exact_curvature(z, solutions[0], self.groups, self.rows)

        released = release(exact, noise, self.ledger, label=f"{type(self.model).__name__}: curvature")
        layout = moment_layout(width + 1, self.groups, mean=True, count=True)
        place = layout.whole(np.arange(1.0, layout.i.size + 1)).astype(np.intp)
        corner = width + 1

        def parts(numbers: Floats) -> tuple[Floats, Floats, Floats]:
            padded = np.concatenate([np.zeros((*numbers.shape[:-1], 1)), numbers], axis=-1)[..., place]
            triangle = corner * (corner + 1) // 2
            matrix = np.zeros((*numbers.shape[:-1], corner + 1, corner + 1))
            i, j = np.triu_indices(corner)
            matrix[..., i, j] = matrix[..., j, i] = padded[..., :triangle]
            matrix[..., :corner, corner] = matrix[..., corner, :corner] = padded[..., triangle : triangle + corner]
            matrix[..., corner, corner] = padded[..., -1]
            used = np.append(np.arange(width), corner)
            return matrix[..., used[:, None], used], matrix[..., used, width], matrix[..., width, width]

        rng = np.random.default_rng(20_262)
        spread, size, ratio = parts(noise.std)[0], np.ones(corner), solutions[0].ratio
        matrix, score, square = parts(released.values)
        fixed = nearest_psd(matrix, size, spread)
        step = -ratio * np.linalg.solve(fixed, score)
        moved, slid, _ = parts(noise.sample(_DRAWS, rng))
        likely = nearest_psd(matrix - moved, size, spread)
        error = -(moved @ step + ratio * slid)
        # The dispersion c in units of u and v; known for labels.
        count = max(float(fixed[-1, -1]), float(spread[-1, -1]))
        dispersion = solutions[0].dispersion or max(float(square) / count, 0.0)
        values_of, vectors = np.linalg.eigh(likely)
        roots = np.sqrt(np.maximum(values_of, 0.0) * dispersion) * ratio
        error += (vectors @ (roots * rng.normal(size=roots.shape))[..., None])[..., 0]
        errors = np.linalg.solve(likely, error[..., None])[..., 0]
        far = math.sqrt(max(float(step[:-1] @ fixed[:-1, :-1] @ step[:-1]), 0.0) / count)
        lost = not float(matrix[-1, -1]) > 5 * float(spread[-1, -1])
        basis = np.vstack([np.eye(width) / units.unit[:, None], -units.centre / units.unit])
        basis = np.column_stack([basis, np.append(np.zeros(width), 1.0)])
        given = np.full(corner, not (lost or far > _FARTHEST))
        about = [solutions[0].about]
        about += [f"{_LOST if lost else _TOO_FAR}{_CURE}"] * (not given.any())
        if without_constant:
            given[-1] = False
            about.append("The intercept has no interval: it is calibrated to the mean of the target.")
        return Inference(
            (*column_names(self.model), "intercept"),
            solved + basis @ step,
            errors @ basis.T,
            coefficients,
            given,
            tuple(about),
            np.zeros((0, corner)),
        )
