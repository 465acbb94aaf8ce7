"""Linear models with an l1 penalty: the LASSO, from moments or by coordinate descent, and the elastic net."""

from collections.abc import Callable
from dataclasses import KW_ONLY, replace
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from sklearn.linear_model import ElasticNet

from inid.accounting import Ledger
from inid.arguments import Floats, choice, real, shown
from inid.errors import ArgumentError
from inid.learn.bounds import read_bounds
from inid.learn.descent.coordinate_descent import Descent
from inid.learn.descent.objective import Objective, SquaredLoss
from inid.learn.inputs import Matrix
from inid.learn.linear import LinearModel
from inid.learn.moments.normal_equations import Normal, least_squares
from inid.learn.parameters import estimator
from inid.sets import Neighbours
from inid.tables import Table

_TOLERANCE, _SWEEPS = 1e-10, 100_000
_PENALTY = 3e-3  # of coefficients in public units, where alpha is left out


@estimator
class PrivateElasticNet(LinearModel):
    """The elastic net under differential privacy, as scikit-learn's ElasticNet, from one release of moments.

    Minimises the mean of (1/2)(x.w + b - y)^2, plus alpha l1_ratio |w|_1 + alpha (1 - l1_ratio) |w|_2^2 / 2.

    Args:
        alpha: The weight of the penalty, as scikit-learn's. None, the default, is 0.003 in public units, in which the
            (narrowed) bounds of columns and target are -1 and 1. scikit-learn's 1, in the columns' own units, leaves
            nothing of columns in small ones.
        l1_ratio: How much of it is l1, between 0 and 1.

    >>> import inid
    >>> X = np.linspace(-1, 1, 10_000).reshape(10_000, 1)
    >>> model = PrivateElasticNet(0.1, budget=inid.ApproxDP(5.0, 1e-6), bounds=(-1, 1), bounds_y=(-1, 1))
    >>> bool(0.5 < model.fit(X, X.ravel()).coef_[0] < 0.9)
    True
    """

    alpha: float | None = None
    l1_ratio: float = 0.5

    def _penalty(self) -> float:
        ratio = real("l1_ratio", self.l1_ratio, least=0, cure="pass a number between 0 and 1")
        if not ratio <= 1:
            raise ArgumentError(f"l1_ratio must be at most 1, got {shown(self.l1_ratio)}: pass 0.5, say.")
        return super()._penalty()

    def _solve(self, normal: Normal) -> Floats:
        return _sparse(normal, self.alpha, float(self.l1_ratio))


@estimator
class PrivateLasso(LinearModel):
    """The LASSO under differential privacy, as scikit-learn's Lasso: mean of (1/2)(x.w + b - y)^2, plus alpha |w|_1.

    `solver="moments"` releases second moments once and solves exactly: no step size, no passes, and usually the more
    accurate. `solver="coordinate_descent"` is the paper's Algorithm 2 (after Mangold et al. 2022), for many columns.

    Args:
        alpha: The weight of the penalty, as for `PrivateElasticNet`.
        solver: "moments" or "coordinate_descent".
        weights: For moments as for `PrivateMoments`, the target being the last column; for coordinate descent
            "curvature" or None (the paper's).
        clip: C, the bound on the norm that per-record gradients are clipped to, column by column; None is the largest
            gradient at the start, column by column.
        step: The step size tau, in units of 1/M_i.
        smoothness: M_i, the mean square of each column: the fraction of the budget to spend on estimating them (columns
            are then centred at their estimated means, too), "bounds" (their largest), or an array from public
            knowledge.
        units: "bounds": columns and target are scaled by their bounds, and `clip` and `smoothness` are in those units.
            "data": everything is in the user's units, as in the paper.

    Attributes:
        smoothness_: The constants used; coordinate descent only.
        noise_chance_: The chance, about, that noise alone moves the coefficients as far as they are; likewise.

    >>> import inid
    >>> X = np.linspace(-1, 1, 10_000).reshape(10_000, 1)
    >>> model = PrivateLasso(0.1, budget=inid.ApproxDP(5.0, 1e-6), bounds=(-1, 1), bounds_y=(-1, 1))
    >>> bool(0.5 < model.fit(X, X.ravel()).coef_[0] < 0.9)
    True
    """

    alpha: float | None = None
    _: KW_ONLY
    weights: Literal["frobenius", "curvature"] | ArrayLike | None = "curvature"  # type: ignore[assignment]  # None is for coordinate descent only
    solver: Literal["moments", "coordinate_descent"] = "moments"
    passes: int | None = None
    clip: float | None = None
    step: float = 1.0
    smoothness: Literal["bounds"] | ArrayLike = 0.1
    units: Literal["bounds", "data"] = "bounds"

    def _learn(
        self,
        data: Matrix,
        target: Matrix,
        relation: Neighbours,
        ledger: Ledger | None,
        weights: Callable[[], Floats] | None,
    ) -> None:
        if choice("solver", self.solver, ("moments", "coordinate_descent")) == "moments":
            super()._learn(data, target, relation, ledger, weights)
            return
        self._clip_bounds, self._target_bounds = (
            self._read_bounds(data.shape[1]),
            read_bounds("bounds_y", self.bounds_y, 1),
        )
        descent = Descent.of(self, *self._clip_bounds, relation, target=self._target_bounds)
        objective = Objective(
            lambda _: [SquaredLoss(descent.target_values(target.floats()))],
            lambda _: SquaredLoss.curvature,
            l1=_PENALTY if self.alpha is None else self._penalty(),
            public=self.alpha is None and self.units == "bounds",
            weights=weights,
        )
        result = descent.run(data, objective, ledger).keep(self)
        self._remark_bounds(result.preliminary.columns)
        self.coef_, self.intercept_ = result.coefficients[0], float(result.intercepts[0])

    def _learn_table(self, table: Table, target: str, ledger: Ledger | None) -> None:
        if choice("solver", self.solver, ("moments", "coordinate_descent")) != "moments":
            raise ArgumentError('a descent looks at every row many times, so it takes no Table: use solver="moments".')
        super()._learn_table(table, target, ledger)

    def _takes_several(self) -> bool:
        return self.solver != "coordinate_descent"

    def _solve(self, normal: Normal) -> Floats:
        return _sparse(normal, self.alpha, 1.0)


def _sparse(normal: Normal, given: float | None, ratio: float) -> Floats:
    """The elastic net on given moments: a square root of these is a dataset with these very moments."""
    if given is None:
        normal = replace(normal, unit_x=np.ones_like(normal.unit_x), unit_y=1.0)
    alpha = _PENALTY if given is None else float(given)
    ridge = alpha * (1 - ratio) / normal.unit_x**2
    if alpha * ratio == 0:
        return least_squares(normal, ridge)
    return normal.one_by_one(lambda one: _minimised(one, alpha, ratio))


def _minimised(normal: Normal, alpha: float, ratio: float) -> Floats:
    width = len(normal.size)
    size = np.append(normal.size, 1.0)
    bordered = np.zeros((width + 1, width + 1))
    bordered[:width, :width], bordered[width, width] = normal.gram, normal.square
    bordered[:width, width] = bordered[width, :width] = normal.products
    values, vectors = np.linalg.eigh(bordered / np.outer(size, size))
    units = np.append(normal.unit_x, normal.unit_y)
    rows = (vectors * np.sqrt(np.maximum(values, 0.0))).T * (size * units)
    inner = ElasticNet(alpha=alpha / len(rows), l1_ratio=ratio, fit_intercept=False, tol=_TOLERANCE, max_iter=_SWEEPS)
    return np.asarray(inner.fit(rows[:, :-1], rows[:, -1]).coef_) * normal.unit_x / normal.unit_y
