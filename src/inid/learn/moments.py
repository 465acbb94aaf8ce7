"""PrivateMoments: the mean and the second-moment matrix of bounded columns, in one release."""

import math
from dataclasses import KW_ONLY
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike

from inid.accounting import Ledger
from inid.arguments import Floats, choice
from inid.errors import ArgumentError
from inid.learn.base import NoisyEstimator, read_relation
from inid.learn.bounds import Bounds, read_bounds, read_budget, read_sizes
from inid.learn.encoded_bounds import no_group, one_hot_groups
from inid.learn.inputs import read_matrix
from inid.learn.moment_sources import MomentSource
from inid.learn.parameters import estimator
from inid.learn.public_units import Units
from inid.learn.second_moments import nearest_psd, plan_moments
from inid.learn.table_rows import check_table
from inid.promises import Budget
from inid.tables import Table

__all__ = ["PrivateMoments", "column_costs", "euclidean", "typical_cost"]


@estimator
class PrivateMoments(NoisyEstimator):
    """The mean and the second-moment matrix of bounded columns under differential privacy.

    One release of M(M+1)/2 products (and M sums with `mean`), whose sensitivity set is E8's; the matrix is then
    projected to the positive semi-definite ones, which costs no privacy.

    Args:
        bounds: (lower, upper) of each column, from public knowledge; values outside are clipped, NaN counts as the
            middle. A `Table` brings its own.
        mean: Release the sums of the columns as well.
        center: Subtract the middle of each column's bounds first. That shrinks every sensitivity unless the bounds are
            symmetric already; the matrix is then about `center_`. One-hot columns are not centred.
        weights: What errors cost: "frobenius" (every entry of the matrix alike), "curvature" (relative to the size of
            the columns, from the bounds), or the mean square of each column, public or paid for
            (`estimate_smoothness`).
        neighbours: "zero_out", "add_remove" or "replace"; None takes the ledger's or the table's relation, else
            "zero_out".

    Attributes:
        second_moment_: The mean of (x - center)(x - center)^T, positive semi-definite.
        mean_: The mean of x, with `mean`.
        covariance_: The covariance, with `mean`, positive semi-definite.
        center_: What was subtracted.
        release_: The release, as published: intervals, certificate.
        n_rows_: The number of rows: public, or as released.

    >>> import inid
    >>> X = np.linspace(0, 1, 3000).reshape(1000, 3)
    >>> moments = PrivateMoments(inid.ApproxDP(1.0, 1e-6), bounds=(0, 1)).fit(X)
    >>> moments.second_moment_.shape, moments.plan_.dimension, moments.release_.private
    ((3, 3), 9, True)
    """

    budget: Budget | None = None
    _: KW_ONLY
    bounds: Bounds | None = None
    mean: bool = True
    center: bool = True
    weights: Literal["frobenius", "curvature"] | ArrayLike = "frobenius"

    def fit(self, X: Any, y: object = None, *, ledger: Ledger | None = None) -> Self:  # noqa: ARG002 - for pipelines
        """Release the moments of X.

        Args:
            X: One row per person: an array, a data frame, or an `inid.tables.Table`, whose engine (Spark included) then
                does the sums over the columns that the table states bounds for.
            y: Ignored.
            ledger: Where the cost is charged, before the data are looked at.

        Raises:
            ArgumentError: A parameter or the shape of X is malformed.
            EngineError: The table's engine failed.
            BudgetError: The ledger refuses.
        """
        self._start_fit()
        budget = read_budget(self.budget)
        if isinstance(X, Table):
            names = [*X.bounds]
            stated: Bounds | None = check_table(X, self.bounds, names)
            source = MomentSource.of_table(X, names, self.neighbours, ledger)
            self.n_features_in_, self.feature_names_in_ = len(names), np.asarray(names, dtype=object)
        else:
            relation, stated = read_relation(self.neighbours, ledger), self.bounds
            data = read_matrix(self, X, reset=True, empty=relation == "add_remove")
            source = MomentSource.of_arrays(relation, data, groups=one_hot_groups(self.bounds))
        lower, upper = read_bounds("bounds", stated, self.n_features_in_, getattr(self, "feature_names_in_", None))
        centred = bool(self.center) & no_group(self.n_features_in_, source.groups)
        units = Units.of(lower, upper, source.rows, centre=centred, scale=False)
        costs = column_costs(self.weights, units.size)
        planned = plan_moments(
            units,
            budget,
            rows=source.rows,
            costs=costs,
            constant=typical_cost(costs, units.size),
            mean=bool(self.mean),
            neighbours=source.relation,
            mechanism=self.mechanism,
            allocation=self.allocation,
            groups=source.groups,
        )
        moments = source.release(planned, ledger, type(self).__name__)
        self._end_fit(ledger)
        self.center_ = units.centre
        self.plan_ = planned.noise
        self.release_, self.private_ = moments.release, moments.release.private
        self.n_rows_ = moments.rows
        with np.errstate(all="ignore"):  # whatever the caller has set, what was paid for must not be lost
            self.second_moment_ = nearest_psd(moments.second, units.size, moments.spread)
            if moments.first is not None:
                self.mean_ = units.centre + moments.first
                about_mean = moments.about(-moments.first)
                self.covariance_ = nearest_psd(about_mean.second, units.size, about_mean.spread)
        return self


def typical_cost(costs: Floats, size: Floats) -> float:
    """What an error in a mean costs beside one in a product: a typical column takes the place of the constant."""
    return euclidean(costs * size) / math.sqrt(size.size)


def euclidean(vector: Floats) -> float:
    """The length of a vector, also where squares of its entries leave the floats.

    >>> f"{euclidean(np.array([3e200, 4e200])):g}", euclidean(np.zeros(2))
    ('5e+200', 0.0)
    """
    most = float(np.abs(vector).max())
    with np.errstate(under="ignore"):  # what is so small beside the largest entry does not count
        return most * float(np.linalg.norm(vector / most)) if most > 0 else 0.0


def column_costs(weights: ArrayLike | None, size: Floats) -> Floats:
    """c_i, of which the weight of an error in the product of columns i and j is c_i c_j.

    >>> column_costs("curvature", np.array([1.0, 4.0])).tolist()
    [1.0, 0.25]
    """
    if weights is None:
        raise ArgumentError('weights must be "frobenius", "curvature" or one positive number per column, got None.')
    if isinstance(weights, str):
        name = choice("weights", weights, ("frobenius", "curvature"))
        return np.ones_like(size) if name == "frobenius" else 1 / size
    return np.asarray(1 / np.sqrt(read_sizes("weights", weights, size.size)))
