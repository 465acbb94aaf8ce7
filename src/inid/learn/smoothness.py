"""Smoothness constants M_i that coordinate descent needs: from public bounds, or paid for.

For generalised linear models M_i is the mean square of column i, times the curvature of the loss. The appendix of the
paper estimates it with Laplace noise and an equal split of the budget among the columns. Here the split is planned. The
error that matters is relative (the step size is 1/M_i), and relative to the public bounds the planned split *is* the
equal one; `weights=None` asks for the least total error in the columns' own units instead.
"""

import warnings
from typing import Any, Literal

import numpy as np

from inid.accounting import Ledger
from inid.arguments import Floats, choice
from inid.learn.base import read_relation
from inid.learn.bounds import Bounds, read_bounds, read_budget
from inid.learn.column_moments import exact_columns
from inid.learn.inputs import Matrix, read_rows
from inid.learn.noise_range import cover_answers
from inid.learn.public_units import MOST_ROWS, Units
from inid.noise import current_source
from inid.planning import plan
from inid.promises import Budget
from inid.releasing import release
from inid.sets import Allocation, Neighbours, Sensitivity

__all__ = ["NotPrivateWarning", "estimate_smoothness", "mean_squares"]


class NotPrivateWarning(UserWarning):
    """Bare numbers were drawn by a test's source: they promise nothing, and do not carry a mark of it."""


def estimate_smoothness(
    X: Any,
    *,
    budget: Budget,
    bounds: Bounds,
    weights: Literal["relative"] | None = "relative",
    allocation: Literal["optimal", "spr", "iid"] = "optimal",
    neighbours: Neighbours | None = None,
    ledger: Ledger | None = None,
) -> Floats:
    """A private estimate of the mean square of each column, by Laplace noise.

    Pass it as `smoothness` of a least-squares model (a quarter of it for a logistic one), or as `weights` of
    `PrivateMoments`.

    Args:
        X: One row per person.
        budget: What the estimate may spend.
        bounds: (lower, upper) of the columns, public; values outside are clipped, NaN counts as the middle.
        weights: "relative" to the public bounds, or None for errors in the columns' own units.
        allocation: "optimal", "spr" (the paper's equal split) or "iid".
        neighbours: "zero_out", "add_remove" or "replace"; None takes the ledger's relation, else "zero_out".
        ledger: Where the cost is charged, before the data are looked at.

    Returns:
        One positive number per column, between the noise's scale and the square of the bound. An array says nothing of
        how it was made, so one made by a test's source says so by a `NotPrivateWarning`: what is made from it is not
        private either, whatever `private_` says there.

    >>> import inid
    >>> X = np.linspace(0, 1, 20_000).reshape(10_000, 2)
    >>> estimate = estimate_smoothness(X, budget=inid.PureDP(1.0), bounds=(0, 1))
    >>> bool(abs(estimate - 1 / 3).max() < 0.05)
    True
    """
    relation = read_relation(neighbours, ledger)
    data = read_rows(X, empty=relation == "add_remove")
    rows = None if relation == "add_remove" else data.shape[0]
    lower, upper = read_bounds("bounds", bounds, data.shape[1], getattr(X, "columns", None))
    if weights is not None:
        choice("weights", weights, ("relative",))
    units = Units.of(lower, upper, rows, centre=False, scale=False)
    found = mean_squares(data, units, read_budget(budget), weights is not None, allocation, relation, ledger)
    if not current_source().private:
        warnings.warn(
            "this estimate of smoothness was made by a test's source and is not private, and nothing in the array says "
            "so: use it in tests only, and make another one outside unsafe_seed and unsafe_no_noise for anything else.",
            NotPrivateWarning,
            stacklevel=2,
        )
    return found


def mean_squares(
    data: Matrix,
    units: Units,
    budget: Budget,
    relative: bool,
    allocation: Allocation,
    neighbours: Neighbours,
    ledger: Ledger | None,
) -> Floats:
    """The estimate itself, in the units given, for data that have been read by type and shape.

    One row moves the sum of squares of column i by at most B_i^2 (zero_out, add_remove) or by the width of the range of
    x_i^2 (replace): a box. Under add_remove the number of rows is one more coordinate, which moves by 1.
    """
    columns, secret = units.grid, neighbours == "add_remove"
    squares = columns.size**2
    most = squares
    if neighbours == "replace":
        straddles = (columns.low <= 0) & (columns.high >= 0)
        most = most - np.where(straddles, 0.0, np.minimum(columns.low**2, columns.high**2))
    count = [1.0] * secret
    box = Sensitivity.box(np.append(most, count), neighbours=neighbours)
    inverse = np.append(1 / squares, count) if relative else None
    noise = plan(box, budget, mechanism="laplace", allocation=allocation, weights=inverse)
    noise = cover_answers(noise, (MOST_ROWS if secret else data.shape[0]) * np.append(squares, count))

    def answer() -> Floats:
        return exact_columns(data.floats(), units, count=secret)[squares.size :]

    made = release(answer, noise, ledger, label="smoothness constants")
    rows = max(float(made.values[-1]), 1.0) if secret else float(data.shape[0])
    found, scales = made.values[: squares.size] / rows, noise.scales[: squares.size] / rows
    # An estimate below its own noise is noise; one above the square of the bound cannot be.
    return np.asarray(np.clip(found, np.minimum(scales, squares), squares))
