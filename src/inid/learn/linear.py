"""Linear models from one release of second moments: least squares, ridge, and what the LASSO shares with them."""

import math
import numbers
from abc import abstractmethod
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import KW_ONLY
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import null_space
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted

from inid.accounting import Ledger
from inid.arguments import Floats, choice, integer, real
from inid.errors import ArgumentError
from inid.learn.base import NoisyEstimator
from inid.learn.bounds import (
    Bounds,
    one_hot_groups,
    outside_groups,
    read_bounds,
    read_budget,
    read_columns,
)
from inid.learn.inference import WITHOUT_REFERENCE, Inference, column_names
from inid.learn.inputs import Matrix, read_sample_weight, read_target, refuse_weights_of_tables
from inid.learn.moments.bootstrap import coefficient_errors, gram_noise, quantile_ends, shrinkage
from inid.learn.moments.normal_equations import Equations, Normal, Solver, forward_selection, least_squares
from inid.learn.moments.private_moments import MomentSource, column_costs, euclidean, release_narrowed, typical_cost
from inid.learn.moments.second_moments import MomentPlan, Moments, plan_moments
from inid.learn.parameters import estimator
from inid.learn.public_units import Units, row_products
from inid.learn.significance import at_a_bound, warn_of_noise
from inid.learn.table_sums import check_table
from inid.promises import Budget
from inid.sets import Neighbours
from inid.tables import Table

_MOST_NOISE = 0.5  # of the matrix that is inverted (`inverse_noise`): with more there are no intervals
_COMPLETE = 0.05  # of the rows: with more of them in no category, a group has a reference level


@estimator
class LinearModel(RegressorMixin, NoisyEstimator):  # type: ignore[misc]
    """A linear model solved on noisy moments of (X, y), in units in which the bounds are -1 and 1.

    Without an intercept the moments are about 0. With one they are about the middle of the public bounds, the means are
    released too, and the model is solved on the covariance.

    Args:
        bounds_y: (low, high) of the target, likewise.
        fit_intercept: Whether there is an intercept, which is not penalised; its cost is part of the same release.
        clip_predictions: Whether predictions are clipped to `bounds_y`.
        narrow: Whether a tenth of the plan first finds narrower bounds: where the columns lie within the public ones.
            Columns are then clipped to these, in `fit` and in `predict`; more rows and a larger budget clip less. Only
            with an intercept.
        weights: What errors in the moments cost, as for `PrivateMoments`; the target is the last column.

    Attributes:
        coef_: One coefficient per column; a row of them for each of several targets.
        intercept_: The intercept.
        bounds_: (lower, upper) that columns are clipped to: `bounds`, or narrower ones.
        release_: The noisy moments, as published, in units in which these bounds are -1 and 1; then the number of rows,
            where it is secret, and the preliminary sums and squares, in units in which the public bounds are.
        shrinkage_: The factor, from 0 to 1, that the coefficients of each target were multiplied by.
    """

    _: KW_ONLY
    bounds: Bounds | None = None
    bounds_y: Bounds | None = None
    fit_intercept: bool = True
    clip_predictions: bool = True
    narrow: bool = True
    weights: Literal["frobenius", "curvature"] | ArrayLike = "curvature"
    max_weight: float | None = None

    def fit(self, X: Any, y: Any, sample_weight: Any = None, *, ledger: Ledger | None = None) -> Self:
        """Fit the model.

        Args:
            X: One row per person: an array, a data frame, or an `inid.tables.Table`, whose engine then does the sums.
            y: One target per person, or several in columns; of a table, the name of its column.
            sample_weight: One weight per person, between 0 and `max_weight`, to which larger ones are held; not for a
                table.
        """
        self._start_fit()
        self._penalty()  # a malformed one must not cost budget
        refuse_weights_of_tables(X, sample_weight)
        self._largest = 1.0
        if isinstance(X, Table):
            self._learn_table(X, y, ledger)
        else:
            relation, data = self._read_rows(X, ledger)
            target = read_target(self, data, y, several=self._takes_several())
            self._largest, weights = read_sample_weight(self, data, sample_weight, self.max_weight)
            self._learn(data, target, relation, ledger, weights)
        self._end_fit(ledger)
        warn_of_noise(self)
        return self

    def predict(self, X: Any) -> Floats:
        """X, clipped as in the fit, times the coefficients, plus the intercept; clipped by default to `bounds_y`."""
        predictions: Floats = row_products(self._clipped_rows(X), self.coef_) + self.intercept_
        if not self.clip_predictions:
            return predictions
        low, high = (end if predictions.ndim == 2 else end[0] for end in self._target_bounds)
        return np.asarray(np.clip(predictions, low, high))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True  # on the few hundred rows of scikit-learn's checks
        tags.target_tags.multi_output = self._takes_several()
        return tags

    def _takes_several(self) -> bool:
        """Whether y may have several columns."""
        return True

    def _learn(
        self,
        data: Matrix,
        target: Matrix,
        relation: Neighbours,
        ledger: Ledger | None,
        weights: Callable[[], Floats] | None,
    ) -> None:
        bounds, bounds_y = self._read_bounds(data.shape[1]), read_bounds("bounds_y", self.bounds_y, target.shape[1])
        groups = one_hot_groups(self.bounds)
        source = MomentSource.of_arrays(relation, data, target, weights=weights, groups=groups)
        self._release(source, bounds, bounds_y, flat=target.flat, ledger=ledger)

    def _learn_table(self, table: Table, target: str, ledger: Ledger | None) -> None:
        names = [name for name in table.bounds if name != target]
        check_table(table, self.bounds, [target])
        (low_y,), (high_y,) = check_table(table, self.bounds_y, [target])
        low, high = check_table(table, None, names)
        self._remember_names(names)
        source = MomentSource.of_table(table, [*names, target], self.neighbours, ledger)
        one, two = read_bounds("bounds", (low, high), len(names)), read_bounds("bounds", (low_y, high_y), 1)
        self._release(source, one, two, flat=True, ledger=ledger)

    def _release(
        self,
        source: MomentSource,
        bounds: tuple[Floats, Floats],
        bounds_y: tuple[Floats, Floats],
        *,
        flat: bool,
        ledger: Ledger | None,
    ) -> None:
        """Plan, charge, release, solve."""
        budget, outputs = read_budget(self.budget), len(bounds_y[0])
        lower, upper = (np.append(x, y) for x, y in zip(bounds, bounds_y, strict=True))
        planned, intercept = self._plan(budget, lower, upper, source, outputs), bool(self.fit_intercept)
        units, label = planned.units, type(self).__name__
        if intercept and self.narrow:
            centred = outside_groups(len(lower), source.groups)
            public = Units.of(lower, upper, source.rows, centre=centred, scale=True)
            moments, units = release_narrowed(source, planned, public, ledger, label)
            width, least, most = self.n_features_in_, units.centre - units.unit, units.centre + units.unit
            bounds = np.maximum(least, lower)[:width], np.minimum(most, upper)[:width]
        else:
            moments = source.release(planned, ledger, label)
        self.plan_, self._layout = planned.noise, planned.layout
        self.release_, self.private_ = moments.release, moments.release.private
        self._remark = self._at_a_bound(moments, planned, source)
        self._clip_bounds = self.bounds_ = bounds
        self._target_bounds = bounds_y
        origin = None if intercept else units.centre / units.unit
        size = units.size if intercept else np.maximum(np.abs(lower), np.abs(upper)) / units.unit
        self.equations_ = Equations(moments, origin, size, units.unit, outputs)
        self._centre, self._flat = units.centre, flat
        self._columns: Sequence[int] = range(self.n_features_in_)
        self._selected = False
        self._take(self._solve)

    def _at_a_bound(self, moments: Moments, planned: MomentPlan, source: MomentSource) -> str | None:
        """What is to be told of means that lie at the stated bounds; of the preliminary release, if there is one."""
        names = getattr(self, "feature_names_in_", [f"column {at}" for at in range(self.n_features_in_)])
        named = [*names, *["the target"] * (planned.units.size.size - self.n_features_in_)]
        shown = np.flatnonzero(outside_groups(len(named), source.groups))
        start = planned.layout.i.size
        if planned.noise.dimension > start:
            part = slice(start, start + shown.size)
            means, spread = (values[part] / moments.rows for values in (moments.release.values, planned.noise.std))
            return at_a_bound([named[at] for at in shown], means, spread)
        if moments.first is None or not self.fit_intercept:
            return None
        return at_a_bound([named[at] for at in shown], moments.first[shown], moments.first_spread[shown])

    def solve_again(self, *, columns: int | Sequence[int | str] | None = None, **params: Any) -> Self:
        """Another model from the same release, at no cost: other penalties, or fewer columns.

        Args:
            columns: The columns to use, by place or by name; a number asks for as many by forward selection.
            params: New values for `alpha`, `l1_ratio` or `clip_predictions`, where the estimator has them.

        Raises:
            ArgumentError: The model was not solved from moments, or a parameter would need another release.
        """
        check_is_fitted(self)
        free = {"alpha", "l1_ratio", "clip_predictions"} & {*self.get_params()}
        if not hasattr(self, "equations_") or not {*params} <= free:
            raise ArgumentError(
                f"solve_again takes columns and {sorted(free)} of a model that was solved from moments, got "
                f"{sorted(params)}: fit again, which pays again, for anything else."
            )
        other: Self = copy(self).set_params(**params)
        other._penalty()
        other._take(other.solver_for(columns))
        other._selected, other._columns = isinstance(columns, numbers.Integral), range(self.n_features_in_)
        if columns is not None and not other._selected:
            names = getattr(self, "feature_names_in_", None)
            other._columns = sorted(read_columns(columns, self.n_features_in_, names))
        return other

    def solver_for(self, columns: int | Sequence[int | str] | None) -> Solver:
        """How one target's equations are solved with some of the columns; the others get 0."""
        if columns is None:
            return self._solve
        width = self.n_features_in_
        if isinstance(columns, numbers.Integral):
            count = integer("columns", columns, least=0, cure="pass how many columns to select")
            return lambda normal: normal.one_by_one(lambda one: self._solve_some(one, forward_selection(one, count)))
        places = read_columns(columns, width, getattr(self, "feature_names_in_", None))
        return lambda normal: self._solve_some(normal, places)

    def _solve_some(self, normal: Normal, places: Sequence[int]) -> Floats:
        solution = np.zeros_like(normal.products)
        if len(places):
            solution[..., [*places]] = self._solve(normal.only(places))
        return solution

    def coefficient_interval(self, level: float = 0.95, *, sampling: bool = False) -> tuple[Floats, Floats]:
        """Intervals from the released moments and their known noise alone, at no cost.

        They are for the coefficients as solved, before `shrinkage_`, of columns and targets within the narrower bounds:
        what clipping to these changes is no part of them (`narrow=False` avoids it).

        Args:
            level: The probability with which each interval holds its coefficient, about.
            sampling: False asks where the coefficients of the same fit without noise lie; True where those of the
                population lie that the rows were drawn from (as if its columns were normal).

        Returns:
            The ends of the intervals: NaN where `inference_` gives none, and says why.

        Raises:
            ArgumentError: The model was not solved from moments by least squares or ridge.
        """
        check_is_fitted(self)
        if not hasattr(self, "equations_"):
            raise ArgumentError('intervals exist for models that are solved from moments: use solver="moments".')
        unit = self.equations_.unit
        with np.errstate(all="ignore"):
            estimates, errors = coefficient_errors(self.equations_, self._quadratic, self._columns, sampling=sampling)
            low, high = (end[:, :-1] for end in quantile_ends(estimates, errors, level))
            if self._no_intervals(self._complete_groups()):
                low, high = np.full_like(low, np.nan), np.full_like(high, np.nan)
        factor = unit[self.n_features_in_ :, None] / unit[: self.n_features_in_]
        return (low * factor)[0] if self._flat else low * factor, (high * factor)[0] if self._flat else high * factor

    @property
    def inference_(self) -> Inference:
        """Standard errors, intervals, tests and contrasts of the coefficients; of noise and sampling, at no cost.

        Raises:
            ArgumentError: The model was not solved from moments by least squares or ridge, or has several targets.
        """
        check_is_fitted(self)
        if not hasattr(self, "equations_") or not self._flat:
            raise ArgumentError("inference_ is of models with one target that are solved from moments.")
        equations, width, used = self.equations_, self.n_features_in_, [*self._columns]
        dependent = self._complete_groups()
        with np.errstate(all="ignore"):
            estimates, errors = coefficient_errors(equations, self._quadratic, used, sampling=True)
            none = self._no_intervals(dependent)
        unit, centre = equations.unit, self._centre
        parts, coefficients = [estimates[0], errors[:, 0]], self.coef_[used]
        factor, names = unit[width] / unit[:width], [column_names(self)[at] for at in used]
        if self.fit_intercept:
            slopes = [part[..., :-1] * factor for part in parts]
            parts = [
                np.column_stack(
                    [np.atleast_2d(slope)[:, used], unit[width] * np.atleast_2d(part)[:, -1] - slope @ centre[:width]]
                )
                for slope, part in zip(slopes, parts, strict=True)
            ]
            parts[0][:, -1] += centre[width]
            coefficients, names = np.append(coefficients, self.intercept_), [*names, "intercept"]
            dependent = dependent[:, [*used, width]]
        else:
            parts = [(np.atleast_2d(part[..., :-1]) * factor)[:, used] for part in parts]
            dependent = np.zeros((0, len(used)))
        about = [*self._estimated(), "Sampling is included; residuals are assumed to have one variance in all rows."]
        if none:
            given, dependent, about = np.zeros(len(names), bool), dependent[:0], [none]
        else:
            given = ~(np.abs(dependent).sum(axis=0) > 0)
            about += [WITHOUT_REFERENCE] * (not given.all())
        return Inference(tuple(names), parts[0][0], parts[1], coefficients, given, tuple(about), dependent)

    def _no_intervals(self, dependent: Floats) -> str | None:
        """Why there are no intervals, judged by the released moments and their known noise; None where there are."""
        if self._selected:
            return (
                "There are no intervals: the same noisy moments chose the columns; name them in solve_again(columns=)."
            )
        width, used = self.n_features_in_, [*self._columns]
        free = null_space(dependent[:, used]) if len(dependent) else np.eye(len(used))
        if not free.size:
            return None
        basis = np.zeros((width, free.shape[1]))
        basis[used] = free
        noise, along = gram_noise(self.equations_, self._quadratic, basis)
        if noise <= _MOST_NOISE:
            return None
        parts = np.abs(along * self.equations_.size[:width])
        names = [column_names(self)[at] for at in np.flatnonzero(parts > parts.max() / 3)]
        return (
            f"There are no intervals: the noise in the variation of {', '.join(names)} is too large beside it; state "
            "tighter bounds, spend more budget, use more rows, or leave such columns out by solve_again(columns=)."
        )

    def predict_interval(
        self, X: Any, level: float = 0.95, *, of: Literal["mean", "row"] = "row"
    ) -> tuple[Floats, Floats]:
        """Intervals for new rows, or for the mean target of rows like each.

        Args:
            X: The rows, clipped as in the fit.
            level: The probability with which each interval holds its target, or its mean, about.
            of: "row", whose residual is assumed to be normal, or "mean".

        Raises:
            ArgumentError: `inference_` gives no intervals, and says why.
        """
        word, inference = choice("of", of, ("mean", "row")), self.inference_
        if not (inference.given.any() or len(inference.dependent)):
            raise ArgumentError(" ".join(inference.about))
        rows = self._clipped_rows(X)[:, [*self._columns]]
        rows = np.column_stack([rows, np.ones(len(rows))]) if self.fit_intercept else rows
        deviation = 0.0
        if word == "row":
            line = self.equations_.solve(lambda normal: self._solve_some(normal, self._columns))
            square = float(self.equations_.error(line)[0])
            deviation = self.equations_.unit[-1] * math.sqrt(max(square, 0.0))
        residuals = deviation * np.random.default_rng(20_261).normal(size=(len(inference.errors), 1))
        intervals = [
            quantile_ends(row_products(part, inference.estimates), inference.errors @ part.T + residuals, level)
            for part in (rows[start : start + 1000] for start in range(0, max(len(rows), 1), 1000))
        ]
        return tuple(np.concatenate(ends) for ends in zip(*intervals, strict=True))  # type: ignore[return-value]

    def _complete_groups(self) -> Floats:
        """A row for each one-hot group whose released shares sum to 1: its columns sum to the constant."""
        moments, width = self.equations_.moments, self.n_features_in_
        rows = []
        for first, last in one_hot_groups(self.bounds):
            if not self.fit_intercept or moments.first is None or not {*range(first, last)} <= {*self._columns}:
                continue
            shares, spread = moments.first[first:last], moments.first_spread[first:last]
            if 1 - float(shares.sum()) < min(3 * math.sqrt(float((spread**2).sum())), _COMPLETE):
                row = np.zeros(width + 1)
                row[first:last], row[-1] = 1.0, -1.0
                rows.append(row)
        return np.array(rows).reshape(-1, width + 1)

    def _estimated(self) -> list[str]:
        """What the intervals are for."""
        if not (self.fit_intercept and self.narrow):
            return ["Estimated are the coefficients of columns and target within the public bounds."]
        centre, unit = float(self._centre[-1]), float(self.equations_.unit[-1])
        what = "Estimated are the coefficients of columns clipped to bounds_ and of a target clipped to "
        return [f"{what}{centre - unit:.4g} and {centre + unit:.4g}; narrow=False clips to the public bounds alone."]

    def _take(self, solver: Solver) -> None:
        """Solve, shrink as far as the noise suggests, and keep the result in the user's units."""
        equations, width = self.equations_, self.n_features_in_
        with np.errstate(all="ignore"):  # whatever the caller has set, what was paid for must not be lost
            weights = equations.solve(solver).weights
            # Where a penalty leaves nothing, there is nothing to doubt.
            self.shrinkage_ = np.where(weights.any(axis=1), shrinkage(equations, solver), 1.0)
            line = equations.line(weights * self.shrinkage_[:, None])
            unit, centre = equations.unit, self._centre
            coefficients = line.weights * (unit[width:, None] / unit[:width])
            constants = np.zeros(equations.outputs)
            if equations.origin is None:
                constants = centre[width:] + unit[width:] * line.constants - coefficients @ centre[:width]
        self.coef_ = coefficients[0] if self._flat else coefficients
        self.intercept_: Any = float(constants[0]) if self._flat else constants

    def _plan(self, budget: Budget, lower: Floats, upper: Floats, source: MomentSource, outputs: int) -> MomentPlan:
        """The plan for moments about the mean (with an intercept) or about 0.

        Moments about 0 can be had directly, or from moments about the middle m of the bounds and the means: x x^T = z
        z^T + m z^T + z m^T + m m^T. The latter has smaller sensitivities, but an error e in mean j adds m_i e to entry
        (i, j), so it costs c_j sqrt(2 sum_i (c_i m_i)^2). Both are public, and the better is taken.
        """
        about_0 = Units.of(lower, upper, source.rows, centre=False, scale=True)
        centred = outside_groups(len(lower), source.groups)
        about_middle = Units.of(lower, upper, source.rows, centre=centred, scale=True)

        def made(units: Units, costs: Floats, constant: float, *, mean: bool, preliminary: bool = False) -> MomentPlan:
            return plan_moments(
                units,
                budget,
                rows=source.rows,
                costs=costs * units.unit,
                constant=constant,
                mean=mean,
                neighbours=source.relation,
                mechanism=self.mechanism,
                allocation=self.allocation,
                targets=outputs if self.fit_intercept else 0,
                preliminary=preliminary,
                weighted=source.weighted,
                groups=source.groups,
            )

        if self.fit_intercept:
            costs, units = column_costs(self.weights, about_middle.unit), about_middle
            constant = typical_cost(costs, units.unit)
            if self.narrow:
                ends = np.ones_like(lower)
                costs, units = (
                    costs * units.unit,
                    Units.of(-ends * centred, ends, source.rows, centre=centred, scale=True),
                )
            return made(units, costs, constant, mean=True, preliminary=bool(self.narrow))
        costs = column_costs(self.weights, about_0.unit)
        middle = euclidean(costs * about_middle.centre)
        direct = made(about_0, costs, typical_cost(costs, about_0.unit), mean=False)
        if not middle > 0:
            return direct
        if source.weighted:  # a weight draws a row to the centre, which must be within the bounds
            return made(about_middle, costs, middle, mean=True)
        return min(direct, made(about_middle, costs, middle, mean=True), key=lambda one: one.noise.log2_error)

    def _penalty(self) -> float:
        given = getattr(self, "alpha", None)  # None is a penalty in public units, or none
        return 0.0 if given is None else real("alpha", given, least=0, cure="pass the weight of the penalty")

    def _quadratic(self, _: Normal) -> Floats | float:
        """The weights of the penalty in public units, where it is one of squares."""
        raise ArgumentError("intervals exist for PrivateLinearRegression and PrivateRidge: use one of them.")

    @abstractmethod
    def _solve(self, normal: Normal) -> Floats:
        """The coefficients of one target, in public units."""


@estimator
class PrivateLinearRegression(LinearModel):
    """Least squares under differential privacy, as scikit-learn's LinearRegression: |y - X w - b|^2.

    >>> import inid
    >>> X = np.linspace(-1, 1, 20_000).reshape(10_000, 2)
    >>> X[:, 1] *= -X[:, 0]
    >>> y = X @ [1.0, 2.0]
    >>> model = PrivateLinearRegression(inid.ApproxDP(5.0, 1e-6), bounds=(-1, 1), bounds_y=(-3, 3)).fit(X, y)
    >>> bool(abs(model.coef_ - [1.0, 2.0]).max() < 0.2)
    True
    """

    budget: Budget | None = None

    def _quadratic(self, _: Normal) -> float:
        return 0.0

    def _solve(self, normal: Normal) -> Floats:
        return least_squares(normal, 0.0)


@estimator
class PrivateRidge(LinearModel):
    """Ridge regression under differential privacy, as scikit-learn's Ridge: |y - X w - b|^2 + alpha |w|^2.

    Args:
        alpha: The weight of the penalty.

    >>> import inid
    >>> X = np.linspace(-1, 1, 10_000).reshape(10_000, 1)
    >>> model = PrivateRidge(1000.0, budget=inid.ApproxDP(5.0, 1e-6), bounds=(-1, 1), bounds_y=(-1, 1))
    >>> bool(0.6 < model.fit(X, X.ravel()).coef_[0] < 0.9)
    True
    """

    alpha: float = 1.0

    def _quadratic(self, normal: Normal) -> Floats:
        # In public units the coefficient w stands for w unit_y / unit_x; the sum over the rows is N times the mean, or
        # the sum of weights times it, of which `rows` is the part of the largest.
        return np.asarray(self._penalty() / (self._largest * normal.rows * normal.unit_x**2))

    def _solve(self, normal: Normal) -> Floats:
        return least_squares(normal, self._quadratic(normal))
