"""Smoothness constants M_i that coordinate descent needs: from public bounds, or paid for.

For generalised linear models M_i is the mean square of column i, times the curvature of the loss. The appendix of the
paper estimates it with Laplace noise and an equal split of the budget among the columns. Here the split is planned. The
error that matters is relative (the step size is 1/M_i), and relative to the public bounds the planned split *is* the
equal one; `weights=None` asks for the least total error in the columns' own units instead.
"""

import math
import warnings
from fractions import Fraction
from typing import Any

import numpy as np

from inid.accounting import Ledger
from inid.arguments import Floats, choice
from inid.errors import ArgumentError
from inid.fixed_point import Columns, fixed_columns, product_bits
from inid.learn.headroom import with_headroom
from inid.learn.reading import read_bounds, read_budget, read_rows
from inid.noise import current_source
from inid.numbers.safe_search import decimal_fraction
from inid.planning import plan
from inid.promises import ZCDP, ApproxDP, Budget, GaussianDP, PureDP
from inid.releasing import release
from inid.sets import Sensitivity

__all__ = ["NotPrivateWarning", "estimate_smoothness", "mean_squares", "split_budget"]


class NotPrivateWarning(UserWarning):
    """Bare numbers were drawn by a test's source: they promise nothing, and do not carry a mark of it."""


def estimate_smoothness(
    X: Any,
    *,
    budget: Budget,
    bounds: object,
    weights: str | None = "relative",
    allocation: str = "optimal",
    neighbours: str = "add_remove",
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
        neighbours: "add_remove" or "replace".
        ledger: Where the cost is charged.

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
    data = read_rows(X)
    lower, upper = read_bounds("bounds", bounds, data.shape[1])
    if weights is not None:
        choice("weights", weights, ("relative",))
    columns = fixed_columns(lower, upper, product_bits(data.shape[0]), centre=False)
    found = mean_squares(data, columns, read_budget(budget), weights is not None, allocation, neighbours, ledger)
    if not current_source().private:
        warnings.warn(
            "this estimate of smoothness was made by a test's source and is not private, and nothing in the array says "
            "so: use it in tests only, and make another one outside unsafe_seed and unsafe_no_noise for anything else.",
            NotPrivateWarning,
            stacklevel=2,
        )
    return found


def mean_squares(
    data: Floats,
    columns: Columns,
    budget: Budget,
    relative: bool,
    allocation: str,
    neighbours: str,
    ledger: Ledger | None,
) -> Floats:
    """The estimate itself, for data that have been read.

    One row moves the sum of squares of column i by at most B_i^2 (add_remove) or by the width of the range of x_i^2
    (replace): a box.
    """
    most = columns.size**2
    if neighbours == "replace":
        straddles = (columns.low <= 0) & (columns.high >= 0)
        most = most - np.where(straddles, 0.0, np.minimum(columns.low**2, columns.high**2))
    box = Sensitivity.box(most, neighbours=neighbours)
    inverse = 1 / columns.size**2 if relative else None
    noise = plan(box, budget, mechanism="laplace", allocation=allocation, weights=inverse)
    noise = with_headroom(noise, data.shape[0] * columns.size**2)
    sums = np.zeros(data.shape[1])
    for whole in columns.chunks(data):
        sums += np.einsum("ij,ij->j", whole, whole)
    made = release(sums * columns.step**2, noise, ledger, label="smoothness constants")
    # An estimate below its own noise is noise; one above the square of the bound cannot be.
    rows = data.shape[0]
    return np.asarray(np.clip(made.values / rows, np.minimum(noise.scales / rows, columns.size**2), columns.size**2))


def split_budget(budget: Budget, fraction: float) -> tuple[Budget, Budget]:
    """Two promises that together are the one given: `fraction` of it for Laplace noise, and the rest.

    Epsilons add (the first part is pure, and delta goes to the second), squares of mu add, rhos add; all of that holds
    when the second release depends on the first (E7). The sums are of the decimals, exactly, and never exceed the
    promise.

    >>> split_budget(ApproxDP(1.0, 1e-6), 0.1)
    (PureDP(epsilon=0.1), ApproxDP(epsilon=0.9, delta=1e-06))
    """
    if not 0 < fraction < 1:
        raise ArgumentError(f"the fraction of the budget must lie between 0 and 1, got {fraction!r}: pass 0.1, say.")
    share = decimal_fraction(float(fraction))
    if isinstance(budget, (PureDP, ApproxDP)):
        epsilon = decimal_fraction(budget.epsilon)
        first = _down(epsilon * share)
        rest = _down(epsilon - decimal_fraction(first))
        return PureDP(first), PureDP(rest) if isinstance(budget, PureDP) else ApproxDP(rest, budget.delta)
    if isinstance(budget, ZCDP):
        rho = decimal_fraction(budget.rho)
        first = _down(rho * share)
        return ZCDP(first), ZCDP(_down(rho - decimal_fraction(first)))
    if isinstance(budget, GaussianDP):
        square = decimal_fraction(budget.mu) ** 2
        first = _root_down(square * share)
        return GaussianDP(first), GaussianDP(_root_down(square - decimal_fraction(first) ** 2))
    raise ArgumentError(f"a budget of type {type(budget).__name__} cannot be split: use one of the four promises.")


def _down(value: Fraction) -> float:
    """The largest float near the value whose printed decimal is not above it."""
    guess = float(value)
    while decimal_fraction(guess) > value:
        guess = math.nextafter(guess, 0.0)
    return guess


def _root_down(value: Fraction) -> float:
    guess = math.sqrt(value)
    while decimal_fraction(guess) ** 2 > value:
        guess = math.nextafter(guess, 0.0)
    return guess
