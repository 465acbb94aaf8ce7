"""Linear regression, ridge and LASSO: one release of second moments, then exact solving.

Uncertainty: coefficients computed from noisy moments are biased towards 0 (noise in X^T X acts like a penalty, as do
the bounds where they clip) and their error depends on the data, so no interval is given. `release_.interval()` holds
for the moments themselves; refitting on bootstrap samples would spend the budget again.
"""

from abc import abstractmethod
from typing import Any, Self

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.linear_model import Lasso
from sklearn.utils.validation import check_is_fitted

from inid.accounting import Ledger
from inid.arguments import Floats, choice, real
from inid.fixed_point import Columns, fixed_columns, product_bits
from inid.learn.base import PrivateEstimator
from inid.learn.descent import Descent
from inid.learn.gradients import SquaredLoss
from inid.learn.moments import column_costs, euclidean, typical_cost
from inid.learn.reading import read_bounds, read_budget, read_matrix, read_target
from inid.learn.second_moments import MomentPlan, exact_moments, nearest_psd, plan_moments, release_moments
from inid.promises import Budget

__all__ = ["PrivateLasso", "PrivateLinearRegression", "PrivateRidge"]

_TOLERANCE, _SWEEPS = 1e-10, 100_000


class _LinearModel(RegressorMixin, PrivateEstimator):  # type: ignore[misc]
    """A linear model solved on noisy moments of (X, y).

    Without an intercept the moments are about 0. With one they are about the middle of the public bounds, the means are
    released too, and the model is solved on the covariance.
    """

    def __init__(
        self,
        budget: object = None,
        *,
        bounds_X: object = None,
        bounds_y: object = None,
        fit_intercept: bool = True,
        weights: object = "curvature",
        neighbours: str = "add_remove",
        mechanism: str = "auto",
        allocation: str = "optimal",
    ) -> None:
        self.budget = budget
        self.bounds_X = bounds_X
        self.bounds_y = bounds_y
        self.fit_intercept = fit_intercept
        self.weights = weights
        self.neighbours = neighbours
        self.mechanism = mechanism
        self.allocation = allocation

    def fit(self, X: Any, y: Any, *, ledger: Ledger | None = None) -> Self:
        """Fit the model.

        Args:
            X: One row per person.
            y: One target per person.
            ledger: Where the cost is charged.

        Raises:
            ArgumentError: A parameter, or the shape of X or y, is malformed.
            BudgetError: The ledger refuses.
        """
        self._forget()
        self._penalty()  # a malformed one must not cost budget
        data = read_matrix(self, X, reset=True)
        self._learn(data, read_target(self, data, y), ledger)
        self._note_fit(ledger)
        return self

    def predict(self, X: Any) -> Floats:
        """X times the coefficients, plus the intercept."""
        check_is_fitted(self)
        return np.asarray(read_matrix(self, X, reset=False) @ self.coef_ + self.intercept_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True  # on the few hundred rows of scikit-learn's checks
        return tags

    def _learn(self, data: Floats, target: Floats, ledger: Ledger | None) -> None:
        budget = read_budget(self.budget)
        rows, width = data.shape
        lower, upper = (
            np.append(x, y)
            for x, y in zip(
                read_bounds("bounds_X", self.bounds_X, width), read_bounds("bounds_y", self.bounds_y, 1), strict=True
            )
        )
        planned = self._plan(budget, lower, upper, rows)
        columns = planned.columns
        exact = exact_moments(np.column_stack([data, target]), columns, mean=planned.mean)
        moments = release_moments(exact, planned, rows, ledger, type(self).__name__)
        self.plan_ = planned.noise
        self.release_, self.private_ = moments.release, moments.release.private
        means = moments.first if self.fit_intercept else None
        size = np.maximum(np.abs(lower), np.abs(upper)) if means is None else columns.size
        with np.errstate(all="ignore"):  # whatever the caller has set, what was paid for must not be lost
            about = moments.about(columns.centre if means is None else -means)
            self.coef_ = self._solve(nearest_psd(about.second, size, about.spread), size)
            self.intercept_ = 0.0
            if means is not None:
                means = columns.centre + means
                self.intercept_ = float(means[-1] - means[:-1] @ self.coef_)

    def _plan(self, budget: Budget, lower: Floats, upper: Floats, rows: int) -> MomentPlan:
        """The plan for moments about the mean (with an intercept) or about 0.

        Moments about 0 can be had directly, or from moments about the middle of the bounds and the means: x x^T =
        z z^T + m z^T + z m^T + m m^T with z = x - m. The latter has smaller sensitivities but noise in the means as
        well: an error e in mean j adds m_i e to entry (i, j), so it costs c_j sqrt(2 sum_i (c_i m_i)^2). Both are
        public, and the better is taken.
        """
        bits = product_bits(rows)
        about_0 = fixed_columns(lower, upper, bits, centre=False)
        about_middle = fixed_columns(lower, upper, bits, centre=True)

        def made(columns: Columns, costs: Floats, constant: float | None) -> MomentPlan:
            return plan_moments(
                columns,
                budget,
                rows=rows,
                costs=costs,
                constant=constant,
                neighbours=self.neighbours,
                mechanism=self.mechanism,
                allocation=self.allocation,
            )

        if self.fit_intercept:
            costs = column_costs(self.weights, about_middle.size)
            return made(about_middle, costs, typical_cost(costs, about_middle.size))
        costs = column_costs(self.weights, about_0.size)
        middle = euclidean(costs * about_middle.centre)
        if not middle > 0:
            return made(about_0, costs, None)
        choices = [made(about_0, costs, None), made(about_middle, costs, middle)]
        return min(choices, key=lambda one: one.noise.log2_error)

    def _penalty(self) -> float:
        return real("alpha", getattr(self, "alpha", 0.0), least=0, cure="pass the weight of the penalty")

    @abstractmethod
    def _solve(self, matrix: Floats, size: Floats) -> Floats:
        """The coefficients, from the moments of (X, y), y last, and the public size of each column."""


class PrivateLinearRegression(_LinearModel):
    """Least squares under differential privacy: mean of (1/2)(x.w + b - y)^2.

    Args:
        budget: The promise.
        bounds_X: (lower, upper) of the columns, public; values outside are clipped, NaN counts as the middle.
        bounds_y: (low, high) of the target, likewise.
        fit_intercept: Whether there is an intercept; its cost is part of the same release.
        weights: What errors in the moments cost, as for `PrivateMoments`; the target is the last column.
        neighbours: "add_remove" (a row replaced by zeros; the number of rows is public) or "replace".
        mechanism: "auto", "gaussian" or "laplace".
        allocation: "optimal", "spr" or "iid".

    Attributes:
        coef_: One coefficient per column.
        intercept_: The intercept.
        plan_: The noise plan.
        release_: The noisy moments, as published.
        private_: False when a test's source drew the noise.

    >>> import inid
    >>> X = np.linspace(-1, 1, 20_000).reshape(10_000, 2)
    >>> X[:, 1] *= -X[:, 0]
    >>> y = X @ [1.0, 2.0]
    >>> model = PrivateLinearRegression(inid.ApproxDP(5.0, 1e-6), bounds_X=(-1, 1), bounds_y=(-3, 3)).fit(X, y)
    >>> bool(abs(model.coef_ - [1.0, 2.0]).max() < 0.2)
    True
    """

    def _solve(self, matrix: Floats, size: Floats) -> Floats:
        return _solved(matrix, size, 0.0)


class PrivateRidge(_LinearModel):
    """Ridge regression under differential privacy: mean of (1/2)(x.w + b - y)^2, plus (alpha/2) ||w||_2^2.

    `alpha` is scikit-learn's divided by the number of rows.

    Args:
        alpha: The weight of the penalty.
        budget: The promise.
        bounds_X: (lower, upper) of the columns, public; values outside are clipped, NaN counts as the middle.
        bounds_y: (low, high) of the target, likewise.
        fit_intercept: Whether there is an intercept (not penalised).
        weights: What errors in the moments cost, as for `PrivateMoments`; the target is the last column.
        neighbours: "add_remove" or "replace".
        mechanism: "auto", "gaussian" or "laplace".
        allocation: "optimal", "spr" or "iid".

    The attributes are those of `PrivateLinearRegression`.

    >>> import inid
    >>> X = np.linspace(-1, 1, 10_000).reshape(10_000, 1)
    >>> model = PrivateRidge(0.1, budget=inid.ApproxDP(5.0, 1e-6), bounds_X=(-1, 1), bounds_y=(-1, 1))
    >>> bool(0.6 < model.fit(X, X.ravel()).coef_[0] < 0.9)
    True
    """

    def __init__(
        self,
        alpha: float = 1.0,
        *,
        budget: object = None,
        bounds_X: object = None,
        bounds_y: object = None,
        fit_intercept: bool = True,
        weights: object = "curvature",
        neighbours: str = "add_remove",
        mechanism: str = "auto",
        allocation: str = "optimal",
    ) -> None:
        super().__init__(
            budget,
            bounds_X=bounds_X,
            bounds_y=bounds_y,
            fit_intercept=fit_intercept,
            weights=weights,
            neighbours=neighbours,
            mechanism=mechanism,
            allocation=allocation,
        )
        self.alpha = alpha

    def _solve(self, matrix: Floats, size: Floats) -> Floats:
        return _solved(matrix, size, self._penalty())


class PrivateLasso(_LinearModel):
    """The LASSO under differential privacy: mean of (1/2)(x.w + b - y)^2, plus alpha ||w||_1.

    `solver="moments"` releases second moments once and solves exactly: no step size, no passes, and usually the more
    accurate. `solver="coordinate_descent"` is the paper's Algorithm 2 (after Mangold et al. 2022), for many columns.

    Args:
        alpha: The weight of the penalty, as scikit-learn's.
        budget: The promise.
        bounds_X: (lower, upper) of the columns, public; values outside are clipped, NaN counts as the middle.
        bounds_y: (low, high) of the target, likewise.
        solver: "moments" or "coordinate_descent".
        fit_intercept: Whether there is an intercept (not penalised).
        weights: For moments as for `PrivateMoments`, the target being the last column; for coordinate descent
            "curvature" or None (the paper's).
        neighbours: "add_remove" or "replace".
        mechanism: "auto", "gaussian" or "laplace"; with coordinate descent "auto" is Gaussian unless the promise is
            pure.
        allocation: "optimal", "spr" or "iid".
        passes: Coordinate descent only, as are those below: how often every column is visited.
        clip: C, the bound on the norm that per-record gradients are clipped to, column by column.
        step: tau, the step size in units of 1/M_i.
        smoothness: M_i, the mean square of each column: "bounds" (their largest), an array from public knowledge, or
            the fraction of the budget to spend on estimating them.

    Attributes:
        coef_: One coefficient per column.
        intercept_: The intercept.
        plan_: The noise plan (of the whole descent, with that solver).
        release_: The noisy moments, as published; moments only.
        smoothness_: The constants used; coordinate descent only.
        private_: False when a test's source drew the noise.

    >>> import inid
    >>> X = np.linspace(-1, 1, 10_000).reshape(10_000, 1)
    >>> model = PrivateLasso(0.1, budget=inid.ApproxDP(5.0, 1e-6), bounds_X=(-1, 1), bounds_y=(-1, 1))
    >>> bool(0.5 < model.fit(X, X.ravel()).coef_[0] < 0.9)
    True
    """

    def __init__(
        self,
        alpha: float = 1.0,
        *,
        budget: object = None,
        bounds_X: object = None,
        bounds_y: object = None,
        solver: str = "moments",
        fit_intercept: bool = False,
        weights: object = "curvature",
        neighbours: str = "add_remove",
        mechanism: str = "auto",
        allocation: str = "optimal",
        passes: int = 50,
        clip: float = 10.0,
        step: float = 1.0,
        smoothness: object = "bounds",
    ) -> None:
        super().__init__(
            budget,
            bounds_X=bounds_X,
            bounds_y=bounds_y,
            fit_intercept=fit_intercept,
            weights=weights,
            neighbours=neighbours,
            mechanism=mechanism,
            allocation=allocation,
        )
        self.alpha = alpha
        self.solver = solver
        self.passes = passes
        self.clip = clip
        self.step = step
        self.smoothness = smoothness

    def _learn(self, data: Floats, target: Floats, ledger: Ledger | None) -> None:
        if choice("solver", self.solver, ("moments", "coordinate_descent")) == "moments":
            super()._learn(data, target, ledger)
            return
        low, high = read_bounds("bounds_y", self.bounds_y, 1)
        values = fixed_columns(low, high, product_bits(data.shape[0]), centre=False).values(target[:, None])[:, 0]
        found = Descent.of(self, data.shape[1]).run(
            data, SquaredLoss(values), l1=self._penalty(), l2=0.0, ledger=ledger
        )
        self.coef_, self.intercept_ = found.coefficients, found.intercept
        self.plan_, self.smoothness_, self.private_ = found.plan, found.smoothness, found.private

    def _solve(self, matrix: Floats, size: Floats) -> Floats:
        alpha = self._penalty()
        if alpha == 0:
            return _solved(matrix, size, 0.0)
        # A square root of the moments is a dataset of as many rows as columns that has these very moments.
        values, vectors = np.linalg.eigh(matrix / np.outer(size, size))
        rows = (vectors * np.sqrt(np.maximum(values, 0.0))).T * size
        inner = Lasso(alpha=alpha / len(rows), fit_intercept=False, tol=_TOLERANCE, max_iter=_SWEEPS)
        return np.asarray(inner.fit(rows[:, :-1], rows[:, -1]).coef_)


def _solved(matrix: Floats, size: Floats, alpha: float) -> Floats:
    """The minimiser of w.G w / 2 - w.c + alpha |w|^2 / 2; the shortest one where there are many.

    Solved in units in which every column has size 1, where G is best conditioned.
    """
    gram, products, units = matrix[:-1, :-1], matrix[:-1, -1], size[:-1]
    scaled = (gram + alpha * np.eye(len(units))) / np.outer(units, units)
    return np.asarray(np.linalg.lstsq(scaled, products / units, rcond=None)[0] / units)
