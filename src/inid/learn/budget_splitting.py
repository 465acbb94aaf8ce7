"""Parts of a promise, which together never exceed it, in the decimals that it states; and how large some parts are."""

import math
from fractions import Fraction

from inid.errors import ArgumentError
from inid.numbers.decimals import decimal_down, decimal_fraction, decimal_root_down
from inid.promises import ZCDP, ApproxDP, Budget, GaussianDP, PureDP, RenyiDP

_CLOSE = 2.5e-4  # target for the mean squared error of means over the rows, of entries that are at most 1
ASSUMED_ROWS = 2**16  # the assumed number of rows when the true one is private


def split_budget(budget: Budget, fraction: float) -> tuple[Budget, Budget]:
    """Two promises that together are the one given: `fraction` of it for Laplace noise, and the rest.

    Epsilons add (the first part is pure, and delta goes to the second), squares of mu add, rhos add: also when the
    second release depends on the first (E7).
    """
    if not 0 < fraction < 1:
        raise ArgumentError(f"the fraction of the budget must lie between 0 and 1, got {fraction!r}: pass 0.1, say.")
    share = decimal_fraction(float(fraction))
    if isinstance(budget, (PureDP, ApproxDP)):
        epsilon = decimal_fraction(budget.epsilon)
        first = decimal_down(epsilon * share)
        rest = decimal_down(epsilon - decimal_fraction(first))
        return PureDP(first), PureDP(rest) if isinstance(budget, PureDP) else ApproxDP(rest, budget.delta)
    if isinstance(budget, ZCDP):
        rho = decimal_fraction(budget.rho)
        first = decimal_down(rho * share)
        return ZCDP(first), ZCDP(decimal_down(rho - decimal_fraction(first)))
    if isinstance(budget, GaussianDP):
        square = decimal_fraction(budget.mu) ** 2
        first = decimal_root_down(square * share)
        return GaussianDP(first), GaussianDP(decimal_root_down(square - decimal_fraction(first) ** 2))
    if isinstance(budget, RenyiDP):  # divergences of one order add up
        total = decimal_fraction(budget.divergence)
        first = decimal_down(total * share)
        rest = decimal_down(total - decimal_fraction(first))
        return RenyiDP(budget.order, first), RenyiDP(budget.order, rest)
    raise ArgumentError(f"a budget of type {type(budget).__name__} cannot be split: pass one of inid's promises.")


def divisible(budget: Budget) -> Budget:
    """The promise itself, or one that implies it and can be cut into any number of parts: (epsilon, delta) becomes mu.

    Half of delta is left out, so that parts fit in a ledger of this total whatever rule it keeps.
    """
    if isinstance(budget, ApproxDP):
        mu = ApproxDP(budget.epsilon, budget.delta / 2).gaussian_mu
        return GaussianDP(decimal_down(Fraction(mu)))
    return budget


def equal_parts(budget: Budget, count: int) -> list[Budget]:
    """Promises, all alike, that together are the one given (`divisible`)."""
    if isinstance(budget, PureDP):
        part: Budget = PureDP(decimal_down(decimal_fraction(budget.epsilon) / count))
    elif isinstance(budget, ZCDP):
        part = ZCDP(decimal_down(decimal_fraction(budget.rho) / count))
    elif isinstance(budget, GaussianDP):
        part = GaussianDP(decimal_root_down(decimal_fraction(budget.mu) ** 2 / count))
    elif isinstance(budget, RenyiDP):
        part = RenyiDP(budget.order, decimal_down(decimal_fraction(budget.divergence) / count))
    else:
        raise ArgumentError(f"a budget of type {type(budget).__name__} cannot be cut: pass one of inid's promises.")
    return [part] * count


def intercept_share(budget: Budget, rows: int | None, count: int, *, laplace: bool, least: float, most: float) -> float:
    """The share of mu^2, or of epsilon, that the constant model takes: the mean of a target, the sizes of classes.

    Predictions are then close to the best constant, whatever else is lost in noise. A share p of mu^2 gives each of
    `count` means, which one person moves by 1 / rows, Gaussian noise of variance count / (p mu^2 rows^2); a share p of
    epsilon Laplace noise of variance 2 count^2 / (p epsilon rows)^2. All of that is public.

    >>> [intercept_share(PureDP(1.0), rows, 1, laplace=True, least=0.03, most=0.3) for rows in (100, 10_000)]
    [0.3, 0.03]
    """
    known = ASSUMED_ROWS if rows is None else rows
    if laplace:
        share = math.sqrt(2 / _CLOSE) * count / (budget.laplace_epsilon * known)
    else:
        share = count / (_CLOSE * (budget.gaussian_mu * known) ** 2)
    return min(max(least, share), most)
