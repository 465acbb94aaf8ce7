"""Promises cut into parts that together are no more than the whole, exactly, in the decimals that they state."""

from fractions import Fraction

from inid.errors import ArgumentError
from inid.numbers.decimals import decimal_down, decimal_fraction, decimal_root_down
from inid.promises import ZCDP, ApproxDP, Budget, GaussianDP, PureDP, RenyiDP

__all__ = ["countable", "equal_parts", "split_budget"]


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
        whole = decimal_fraction(budget.divergence)
        first = decimal_down(whole * share)
        rest = decimal_down(whole - decimal_fraction(first))
        return RenyiDP(budget.order, first), RenyiDP(budget.order, rest)
    raise ArgumentError(f"a budget of type {type(budget).__name__} cannot be split: pass one of inid's promises.")


def countable(budget: Budget) -> Budget:
    """The promise itself, or one that implies it and can be cut into any number of parts: (epsilon, delta) becomes mu.

    Half of delta is left out, so that parts fit in a ledger of this total whatever rule it keeps.

    >>> countable(PureDP(1.0)), round(countable(ApproxDP(1.0, 1e-6)).mu, 2)
    (PureDP(epsilon=1.0), 0.23)
    """
    if isinstance(budget, ApproxDP):
        mu = ApproxDP(budget.epsilon, budget.delta / 2).gaussian_mu
        return GaussianDP(decimal_down(Fraction(mu)))
    return budget


def equal_parts(budget: Budget, count: int) -> list[Budget]:
    """Promises, all alike, that together are the one given (`countable`).

    >>> equal_parts(PureDP(1.0), 4)[0], equal_parts(GaussianDP(1.0), 4)[0], len(equal_parts(ZCDP(0.3), 3))
    (PureDP(epsilon=0.25), GaussianDP(mu=0.5), 3)
    """
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
