"""Exact amounts of privacy: rationals inside, text when stored, short decimals when shown.

Every amount is a rational whose denominator has no prime factors but 2 and 5: the decimals that a promise was written
with, floats, and their sums and products. So each is stored without loss as text, and has an exact decimal form.
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from typing import Literal, get_args

from inid.arguments import shown
from inid.errors import RecordError
from inid.promises import Budget

__all__ = [
    "Amounts",
    "Currency",
    "Spending",
    "added",
    "amounts_from_text",
    "amounts_to_text",
    "currency_name",
    "exact_decimal",
    "read",
]

Currency = Literal["epsilon", "mu_squared", "rho", "renyi", "delta"]  # delta: probability taken from a reserve
# None in place of an amount: nothing that this currency can say bounds what was released.
Amounts = Mapping[Currency, Fraction | None]

_CURRENCIES: tuple[Currency, ...] = get_args(Currency)
_PATTERN = re.compile(r"(0|[1-9][0-9]*)(/[1-9][0-9]*)?", re.ASCII)
_SHOWN_DIGITS = 6
_SHORT = 12  # an exact decimal of at most so many characters is shown as it is


@dataclass(frozen=True)
class Spending:
    """What was spent, what a charge cost, or what is left: one exact amount per currency that the ledger counts.

    A ledger with an ApproxDP total counts in several currencies at once, one per rule, and a charge has to fit one of
    the rules together with the whole history. The lines are alternatives, not shares: they do not add up. None stands
    for "this currency cannot bound what was charged", which rules that rule out for good.

    >>> import inid
    >>> from inid.accounting import Ledger
    >>> ledger = Ledger(total=inid.PureDP(epsilon=1.0))
    >>> s = inid.Sensitivity.box([1.0, 3.0])
    >>> _ = ledger.charge(inid.plan(s, inid.PureDP(epsilon=0.1)))
    >>> _ = ledger.charge(inid.plan(s, inid.PureDP(epsilon=0.2)))
    >>> ledger.spent().epsilon
    Decimal('0.3')
    >>> print(ledger.remaining())
    epsilon 0.7: PureDP(epsilon=0.7)
    """

    amounts: tuple[tuple[Currency, Fraction | None], ...]
    order: Fraction | None = None
    left: bool = False
    fits: tuple[Budget, ...] = ()  # the largest promise of each kind that what is left has room for

    @property
    def epsilon(self) -> Decimal | None:
        """The sum of pure epsilons, exactly; None when it is not counted or cannot bound what was charged."""
        return self._exactly("epsilon")

    @property
    def mu_squared(self) -> Decimal | None:
        """The sum of squared Gaussian-DP parameters, exactly, or None."""
        return self._exactly("mu_squared")

    @property
    def rho(self) -> Decimal | None:
        """The sum of zero-concentrated parameters, exactly, or None."""
        return self._exactly("rho")

    @property
    def renyi(self) -> Decimal | None:
        """The sum of Renyi divergences at the ledger's own order, exactly, or None."""
        return self._exactly("renyi")

    @property
    def delta(self) -> Decimal | None:
        """The sum of probabilities taken from the ledger's reserve, exactly; None where it has none."""
        return self._exactly("delta")

    def to_dict(self) -> dict[str, str | None]:
        """A JSON-safe dictionary: every amount as the text of an exact rational."""
        return {name: None if amount is None else str(amount) for name, amount in self.amounts}

    def lines(self) -> list[tuple[str, str]]:
        """Name and amount of each currency in words; spending is rounded up, what is left is rounded down."""
        return [
            (currency_name(currency, self.order), _shown_amount(amount, up=not self.left))
            for currency, amount in self.amounts
        ]

    def __str__(self) -> str:
        if all(amount is None for _, amount in self.amounts):  # the whole promise went in one charge, rule (d)
            return "nothing" if self.left else "the whole promise"
        shown_lines = zip(self.lines(), self.amounts, strict=True)
        counted = " | ".join(f"{name} {text}" for (name, text), (_, amount) in shown_lines if amount is not None)
        return f"{counted}: {', or '.join(map(str, self.fits))}" if self.fits else counted

    def _exactly(self, currency: Currency) -> Decimal | None:
        amount = dict(self.amounts).get(currency)
        return None if amount is None else exact_decimal(amount)


def added(first: Amounts, second: Amounts) -> dict[Currency, Fraction | None]:
    """Sums currency by currency; None absorbs everything.

    >>> added({"epsilon": Fraction(1, 10), "rho": None}, {"epsilon": Fraction(2, 10), "rho": Fraction(1)})
    {'epsilon': Fraction(3, 10), 'rho': None}
    """
    pairs = {currency: (amount, second[currency]) for currency, amount in first.items()}
    return {c: None if a is None or b is None else a + b for c, (a, b) in pairs.items()}


def exact_decimal(amount: Fraction) -> Decimal:
    """The decimal form of an amount, every digit of it.

    >>> exact_decimal(Fraction(3, 8)), exact_decimal(Fraction(6))
    (Decimal('0.375'), Decimal('6'))
    """
    rest, twos, fives = amount.denominator, 0, 0
    while rest % 2 == 0:
        rest, twos = rest // 2, twos + 1
    while rest % 5 == 0:
        rest, fives = rest // 5, fives + 1
    if rest != 1:
        raise RecordError("a stored amount has no exact decimal form: it was not written by a ledger.")
    places = max(twos, fives)
    whole = amount.numerator * 10**places // amount.denominator
    return Decimal((0, tuple(map(int, str(whole))), -places))


def amounts_to_text(amounts: Amounts) -> str:
    """One line of JSON; equal amounts give equal text.

    >>> amounts_to_text({"epsilon": Fraction(1, 10), "mu_squared": None})
    '{"epsilon": "1/10", "mu_squared": null}'
    """
    return json.dumps({c: None if a is None else str(a) for c, a in amounts.items()}, sort_keys=True)


def amounts_from_text(text: object, currencies: Iterable[Currency]) -> dict[Currency, Fraction | None]:
    """The amounts that `amounts_to_text` wrote, which must be in exactly these currencies.

    Raises:
        RecordError: The text is anything else.
    """
    wanted = tuple(currencies)
    try:
        found = json.loads(text) if isinstance(text, str) else None
    except ValueError:
        found = None
    if not (isinstance(found, dict) and set(found) == set(wanted)):
        raise RecordError(f"a stored cost does not parse: it must hold exactly {', '.join(wanted)}.")
    return {c: None if found[c] is None else read(found[c]) for c in _CURRENCIES if c in found}


def read(text: object) -> Fraction:
    """An amount from its text, refused unless it is exactly the text that would be written again.

    >>> read("1/10")
    Fraction(1, 10)
    """
    if isinstance(text, str) and _PATTERN.fullmatch(text):
        amount = Fraction(text)
        if str(amount) == text:
            return amount
    raise RecordError(f"a stored amount does not parse, got {shown(text)}: it must be an exact rational such as 1/10.")


def currency_name(currency: Currency, order: Fraction | None) -> str:
    """What a currency is called.

    >>> currency_name("mu_squared", None)
    'mu^2'
    """
    words = {"epsilon": "epsilon", "mu_squared": "mu^2", "rho": "rho", "delta": "reserved delta"}
    return words.get(currency) or f"Renyi divergence of order {float(order or 0):.5g}"


def _shown_amount(amount: Fraction | None, *, up: bool) -> str:
    if amount is None:
        return "-"
    exact = exact_decimal(amount)
    if len(str(exact)) <= _SHORT:
        return str(exact)
    rounding = ROUND_CEILING if up else ROUND_FLOOR
    return str(Context(prec=_SHOWN_DIGITS, rounding=rounding).create_decimal(exact))
