"""One promise divided among several questions that are fixed in advance: the paper's allocation, one level up.

Question i has the error e_i when it may spend one unit (mu_i = 1 with Gaussian noise, epsilon_i = 1 with Laplace noise)
and importance a_i. Its error is e_i / mu_i^2 or e_i / epsilon_i^2, since scales shrink in proportion to what is spent.
What is spent adds up in mu^2 or in epsilon, so

    Gaussian    the least sum of a_i e_i / mu_i^2  given sum mu_i^2  has mu_i^2 proportional to (a_i e_i)^(1/2)
    Laplace     the least sum of a_i e_i / eps_i^2 given sum eps_i   has eps_i  proportional to (a_i e_i)^(1/3)

Half of the promise goes to all questions evenly, so that none starves, and half by these proportions:

    part i = whole / 2 (1/k + root_i / sum of roots)

*Guarantee.* The parts are decimals, rounded down, and their exact sum is at most the whole. No question has more than
twice (Laplace: four times) its variance under an equal split, since it has at least half of an equal part; and the
objective is at most twice (four times) the least, since every part is at least half of the optimal one. Staircase noise
is divided as Laplace noise, by its errors at the parts; at a large epsilon they fall faster than its square, and half a
part may cost more than four times the variance.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from inid.arguments import shown
from inid.errors import ArgumentError, BudgetError
from inid.mechanisms import MechanismName
from inid.numbers.decimals import decimal_down, decimal_fraction, decimal_root_down
from inid.promises import ApproxDP, Budget, GaussianDP, PureDP

_ERRORS_CURE = "pass the error of each question at one unit, a finite number of 0 or more"


@dataclass(frozen=True)
class Division:
    """How a promise is divided."""

    mechanism: MechanismName
    parts: tuple[GaussianDP | PureDP | None, ...]
    objective: float
    total: Fraction

    @property
    def spent(self) -> Fraction:
        """The exact sum of what the parts spend, at most `total`."""
        return sum((_amount(part) for part in self.parts if part is not None), Fraction(0))


def whole_of(budget: Budget, mechanism: MechanismName) -> Fraction:
    """What a promise affords one family of noise: mu^2 for Gaussian noise, epsilon for Laplace noise.

    Under ApproxDP, Laplace parts count in epsilon alone: their delta is 0.
    """
    if mechanism == "laplace":
        additive = isinstance(budget, (PureDP, ApproxDP))
        return decimal_fraction(budget.epsilon) if additive else Fraction(budget.laplace_epsilon)  # type: ignore[attr-defined]
    return budget.mu_squared


def divide(
    budget: Budget,
    mechanism: MechanismName,
    errors: Sequence[float | None],
    importance: Sequence[float] | None = None,
    shares: Sequence[Fraction | None] | None = None,
) -> Division:
    """Divide a promise among questions by the errors they would have at one unit."""
    weights = [1.0] * len(errors) if importance is None else list(importance)
    fixed = [None] * len(errors) if shares is None else list(shares)
    if not len(weights) == len(fixed) == len(errors):
        raise ArgumentError(f"errors, importance and shares must be of one length, got {len(errors)} errors.")
    for at, (error, weight, share) in enumerate(zip(errors, weights, fixed, strict=True)):
        _check(at, error, weight, share)
    promise_total = whole_of(budget, mechanism)
    taken = sum((share for share in fixed if share is not None), Fraction(0))
    targeted = [at for at, error in enumerate(errors) if error]  # neither None nor 0
    if taken > 1 or (taken == 1 and targeted):
        raise ArgumentError(f"the stated shares add up to {taken}, which leaves nothing for the other questions.")
    power = Fraction(1, 2) if mechanism == "gaussian" else Fraction(1, 3)
    products = {at: (float(errors[at] or 0), weights[at]) for at in targeted}
    roots = _relative_roots(products, float(power))
    total = sum(roots.values(), Fraction(0))
    rest = promise_total * (1 - taken)
    amounts = {at: rest / 2 * (Fraction(1, len(targeted)) + root / total) for at, root in roots.items()}
    amounts |= {at: promise_total * share for at, share in enumerate(fixed) if share is not None}
    parts = tuple(_part(amounts[at], mechanism, at) if at in amounts else None for at in range(len(errors)))
    return Division(mechanism, parts, _objective(products, parts), promise_total)


def _check(at: int, error: float | None, weight: float, share: Fraction | None) -> None:
    if error is not None and not 0 <= error < math.inf:
        raise ArgumentError(f"errors[{at}] must be 0 or more and finite, got {shown(error)}: {_ERRORS_CURE}.")
    if not 0 < weight < math.inf:
        raise ArgumentError(f"importance[{at}] must be positive and finite, got {shown(weight)}: 1 is the default.")
    if (error is None) != (share is not None):
        raise ArgumentError(f"question {at} must have either an error or a share, so that its part is known.")
    if share is not None and not 0 < share <= 1:
        raise ArgumentError(f"shares[{at}] must be above 0 and at most 1, got {shown(share)}.")


def _relative_roots(products: dict[int, tuple[float, float]], power: float) -> dict[int, Fraction]:
    """(a_i e_i)^power relative to the largest, through logarithms, so that none leaves the range of floats."""
    logs = {at: power * (math.log(error) + math.log(weight)) for at, (error, weight) in products.items()}
    most = max(logs.values(), default=0.0)
    return {at: Fraction(math.exp(value - most)) for at, value in logs.items()}


def _part(amount: Fraction, mechanism: MechanismName, at: int) -> GaussianDP | PureDP:
    number = decimal_root_down(amount) if mechanism == "gaussian" else decimal_down(amount)
    if not number > 0:
        raise BudgetError(f"the part of question {at} would be nothing: promise more, or ask for fewer questions.")
    return GaussianDP(number) if mechanism == "gaussian" else PureDP(number)


def _amount(part: GaussianDP | PureDP) -> Fraction:
    """What a part spends of the whole, exactly."""
    return decimal_fraction(part.mu) ** 2 if isinstance(part, GaussianDP) else decimal_fraction(part.epsilon)


def _objective(products: dict[int, tuple[float, float]], parts: Sequence[GaussianDP | PureDP | None]) -> float:
    values = []
    for at, (error, weight) in products.items():
        part = parts[at]
        unit = part.mu if isinstance(part, GaussianDP) else part.epsilon if part is not None else 1.0
        values.append(weight * error / unit / unit)
    return math.fsum(values)
