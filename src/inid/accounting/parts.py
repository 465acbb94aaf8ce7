"""Parts of a ledger: promises that cost at most a stated part of its limit, in one currency stated when it was made.

    currency     a part p of the limit L is the promise
    epsilon      PureDP(epsilon = p L)
    mu_squared   GaussianDP(mu = sqrt(p L))
    rho          ZCDP(rho = p L)
    renyi        RenyiDP(order, divergence = p L)

each rounded down to a decimal, and in the currency of its own promise a plan costs the decimal that was promised. So
parts that add up to 1 cost at most L together, and fit, whatever mechanisms they use.
"""

from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

from inid.accounting.costs import Currency
from inid.accounting.rules import Terms
from inid.arguments import shown
from inid.errors import ArgumentError, BudgetError
from inid.mechanisms import MechanismName
from inid.numbers.decimals import decimal_down, decimal_root_down
from inid.planning import NoisePlan
from inid.planning.noise_plan import aligned
from inid.planning.plan import plan_independent
from inid.promises import ZCDP, Budget, GaussianDP, PureDP, RenyiDP
from inid.sets import Neighbours, Sensitivity

_MANY = 100
_WORDS = {"epsilon": "epsilon", "mu_squared": "mu^2", "rho": "rho", "renyi": "renyi"}


@dataclass(frozen=True)
class PartsTable:
    """What one part of a ledger buys in each of the currencies it could be counted in; prints as a table."""

    part: str
    total: str
    rows: tuple[dict[str, Any], ...]

    def __str__(self) -> str:
        head = ["currency", "promise", "Laplace epsilon", "Gaussian mu", "std of 1 count", f"each of {_MANY}"]
        body = [
            [row["currency"], row["promise"], *(_digits(row[name]) for name in ("epsilon", "mu", "one", "many"))]
            for row in self.rows
        ]
        lines = aligned([head, *body], left=2)
        return "\n  ".join([f"What {self.part} of {self.total} buys, by the currency it is counted in:", *lines])


def read_part(part: str | Fraction | Decimal | float) -> Fraction:
    """A part such as "1/3", "0.25" or 0.25 as a rational; a float is the decimal that it prints as.

    >>> read_part("1/3"), read_part(0.25)
    (Fraction(1, 3), Fraction(1, 4))
    """
    cure = 'pass a part such as "1/3" or 0.25, or "rest"'
    try:
        share = Fraction(repr(part)) if type(part) is float else Fraction(part)
    except (ValueError, TypeError, ZeroDivisionError, OverflowError):
        raise ArgumentError(f"part must be a number, got {shown(part)}: {cure}.") from None
    if isinstance(part, bool) or not 0 < share <= 1:
        raise ArgumentError(f"part must be above 0 and at most 1, got {shown(part)}: {cure}.")
    return share


def part_of(terms: Terms, currency: Currency, amount: Fraction) -> Budget:
    """The promise that costs at most this amount in a currency."""
    number = decimal_root_down(amount) if currency == "mu_squared" else decimal_down(amount)
    if not number > 0:
        raise BudgetError(
            f"such a part of this ledger is too small to count in the currency {_WORDS[currency]}: take a larger part.",
            code="part_nothing",
        )
    if currency == "epsilon":
        return PureDP(number)
    if currency == "mu_squared":
        return GaussianDP(number)
    return ZCDP(number) if currency == "rho" else RenyiDP(int(terms.order or 0), number)


def parts_table(total: Budget, terms: Terms, share: Fraction) -> PartsTable:
    """What a part buys in each of the ledger's currencies; those in which it is nothing are left out."""
    lines = []
    for currency, limit in terms.limits:
        if currency == "renyi" and terms.order is not None and terms.order.denominator != 1:
            continue
        try:
            promise = part_of(terms, currency, share * limit)
        except BudgetError:
            continue
        one, many = (plan_independent(Sensitivity.box([1.0], counts=[n]), promise) for n in (1, _MANY))
        lines.append(
            {
                "currency": _WORDS[currency],
                "promise": _promise(promise),
                "epsilon": promise.laplace_epsilon,
                "mu": None if isinstance(promise, PureDP) else promise.gaussian_mu,
                "one": one.mse**0.5,
                "many": (many.mse / _MANY) ** 0.5,
            }
        )
    return PartsTable(str(share), str(total), tuple(lines))


def plans_of_one_number(promise: Budget, neighbours: Neighbours) -> list[NoisePlan]:
    """Plans for a single number under a promise, one for each kind of noise that it allows."""
    single = Sensitivity.box([1.0], neighbours=neighbours)
    kinds: tuple[MechanismName, ...] = ("laplace",) if isinstance(promise, PureDP) else ("laplace", "gaussian")
    return [plan_independent(single, promise, mechanism=kind) for kind in kinds]


def _promise(promise: Budget) -> str:
    numbers = promise.to_dict()
    return f"{promise.kind}({', '.join(f'{k}={v:.6g}' for k, v in numbers.items() if k != 'kind')})"


def _digits(number: float | None) -> str:
    return "-" if number is None else f"{number:.4g}"
