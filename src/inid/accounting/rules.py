"""The composition rules, fixed when a ledger is made: limits per currency, each proved, and when a history fits them.

Every rule stays valid when later queries depend on earlier answers (E7; docs/explanations/ledger-proofs.md says why). A
history is kept as one exact sum per currency. It is accepted when at least one currency's sum is within its limit.

    total                    currency and limit
    PureDP                   epsilon      epsilon
    GaussianDP               mu_squared   mu^2
    ZCDP                     rho          rho
    ApproxDP                 (a) epsilon      epsilon, which uses no delta
                             (b) mu_squared   mu_0(epsilon, delta/2)^2
                             (c) renyi        B(a) at delta/2, one whole order a
                             (d) the whole promise in one charge, on an empty ledger
    ApproxDP, "gaussian"     mu_squared   mu_0(epsilon, delta)^2, or (d)
    RenyiDP                  renyi        divergence, at its order

With a reserve R, delta - R stands for delta in (b), (c) and "gaussian". The probabilities that charges take from the
reserve add up to at most R, whichever rule accepts the rest.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Literal, Self, get_args

from inid.accounting.costs import Amounts, Currency, read
from inid.arguments import choice, decimal_float, integer, read_word, shown
from inid.errors import Argument, ArgumentError, BudgetError, RecordError
from inid.numbers.decimals import decimal_down, decimal_fraction
from inid.numbers.enclosures import enclose, exp
from inid.promises import ZCDP, ApproxDP, Budget, GaussianDP, PureDP, RenyiDP, budget_from_dict
from inid.sets import Neighbours

Rule = Literal["auto", "gaussian"]

_RULES: tuple[Rule, ...] = ("auto", "gaussian")
_GRID = 800
_MOST_EXPONENT = 45.0  # of a - 1, natural logarithm


@dataclass(frozen=True)
class Terms:
    """The limits of a ledger, one per rule; the Renyi order; whether rule (d) applies; the delta kept in reserve."""

    limits: tuple[tuple[Currency, Fraction], ...]
    order: Fraction | None = None
    takes_total: bool = False
    reserve: Fraction | None = None

    @property
    def all_limits(self) -> tuple[tuple[Currency, Fraction], ...]:
        """The limits of the rules, of which one must hold, and that of the reserve, which always must."""
        return self.limits if self.reserve is None else (*self.limits, ("delta", self.reserve))

    @property
    def currencies(self) -> tuple[Currency, ...]:
        """The currencies that the ledger counts."""
        return tuple(currency for currency, _ in self.all_limits)

    @property
    def nothing(self) -> dict[Currency, Fraction | None]:
        """The sums of an empty history."""
        return dict.fromkeys(self.currencies, Fraction(0))

    @property
    def everything(self) -> dict[Currency, Fraction | None]:
        """The cost of a charge under rule (d): no currency bounds it, so no rule accepts anything after it."""
        return dict.fromkeys(self.currencies)

    def to_dict(self) -> dict[str, Any]:
        """A JSON-safe dictionary; every number as the text of an exact rational."""
        order = None if self.order is None else str(self.order)
        return {"limits": {currency: str(limit) for currency, limit in self.all_limits}, "order": order}


def make_terms(total: Budget, rule: Rule = "auto", order: int | None = None, reserve: float | None = None) -> Terms:
    """The limits that keep a promise under a rule, each on the safe side of its root and proved."""
    if not isinstance(total, Budget):
        raise ArgumentError(
            f"total must be a promise such as inid.ApproxDP(epsilon=3.0, delta=1e-6), got {shown(total)}: name it."
        )
    choice("rule", rule, _RULES)
    if rule == "gaussian" and not isinstance(total, ApproxDP):
        raise ArgumentError(
            f'rule="gaussian" is for an ApproxDP total, got {total}: leave rule out.',
            code="total_without_delta",
            argument=Argument("rule"),
        )
    if order is not None:
        if not isinstance(total, ApproxDP) or rule == "gaussian":
            raise ArgumentError(f"order is for an ApproxDP total, got {total} under rule={rule!r}: leave order out.")
        order = integer("order", order, least=2, cure="pass a whole Renyi order such as order=8, or leave it out")
    if isinstance(total, PureDP):
        terms = Terms((("epsilon", decimal_fraction(total.epsilon)),))
    elif isinstance(total, GaussianDP):
        terms = Terms((("mu_squared", total.mu_squared),))
    elif isinstance(total, ZCDP):
        terms = Terms((("rho", decimal_fraction(total.rho)),))
    elif isinstance(total, ApproxDP) and rule == "gaussian":
        rest = ApproxDP(total.epsilon, decimal_down(_delta_of_rules(total, reserve)))
        terms = Terms((("mu_squared", rest.mu_squared),), takes_total=True)
    elif isinstance(total, ApproxDP):
        half = decimal_down(_delta_of_rules(total, reserve) / 2)
        chosen = Fraction(_best_order(total) if order is None else order)
        renyi = max(_renyi_limit(total, chosen, reserve), Fraction(0))
        limits: tuple[tuple[Currency, Fraction], ...] = (
            ("epsilon", decimal_fraction(total.epsilon)),
            ("mu_squared", ApproxDP(total.epsilon, half).mu_squared if half else Fraction(0)),
            ("renyi", renyi),
        )
        terms = Terms(limits, chosen, takes_total=True)
    elif isinstance(total, RenyiDP):
        terms = Terms((("renyi", decimal_fraction(total.divergence)),), Fraction(total.order))
    else:
        raise ArgumentError(
            f"total must be PureDP, ApproxDP, GaussianDP, ZCDP or RenyiDP, got {shown(total)}: name the promise."
        )
    return terms if reserve is None else replace(terms, reserve=decimal_fraction(read_reserve(total, reserve)))


def read_reserve(total: Budget, reserve: object) -> float:
    """A part of a total's delta, above 0 and below it."""
    cure = "pass a part of the total's delta, for example 1e-7 of a delta of 1e-6"
    delta = decimal_float("reserve", reserve, above=0, cure=cure)
    if not isinstance(total, ApproxDP):
        raise ArgumentError(
            f"reserve is for an ApproxDP total, got {total}: leave reserve out.",
            code="total_without_delta",
            argument=Argument("reserve"),
        )
    if not delta < total.delta:
        raise ArgumentError(f"reserve must be below the total's delta, {total.delta!r}, got {delta!r}: {cure}.")
    return delta


def terms_from_dict(record: object, total: Budget, rule: Rule, reserve: float | None = None) -> Terms:
    """The terms that `Terms.to_dict` described, refused unless every limit is proved to keep the promise.

    A ledger keeps the limits it was made with, digit for digit, even if a later version would find better ones.
    """
    fresh = make_terms(total, rule, reserve=reserve)
    if not (
        isinstance(record, Mapping) and set(record) == {"limits", "order"} and isinstance(record["limits"], Mapping)
    ):
        raise RecordError("the ledger's limits do not parse: they must hold limits and order.")
    if set(record["limits"]) != set(fresh.currencies):
        raise RecordError(f"the ledger's limits must be exactly in {', '.join(fresh.currencies)}.")
    limits = tuple((currency, read(record["limits"][currency])) for currency, _ in fresh.limits)
    order = None if record["order"] is None else read(record["order"])
    if (order is None) != (fresh.order is None) or not (order is None or (order > 1 and order.denominator == 1)):
        raise RecordError("the ledger's Renyi order does not parse: it must be a whole number above 1.")
    if isinstance(total, RenyiDP) and order != fresh.order:
        raise RecordError(f"the ledger's Renyi order must be that of {total}: the record was changed.")
    terms = replace(fresh, limits=limits, order=order)
    if fresh.reserve is not None and read(record["limits"]["delta"]) != fresh.reserve:
        raise RecordError("the ledger's reserve is not the one of its settings: the record was changed.")
    for (currency, limit), (_, best) in zip(limits, fresh.limits, strict=True):
        most = max(_renyi_limit(total, order, reserve), Fraction(0)) if isinstance(total, ApproxDP) and order else best
        if not limit <= (most if currency == "renyi" else best):
            raise RecordError(f"the ledger's limit on {currency} exceeds what {total} allows: the record was changed.")
    return terms


def accepts(terms: Terms, sums: Amounts) -> bool:
    """Whether at least one rule accepts a whole history with these sums, and the reserve holds what was taken from it.

    >>> import inid
    >>> terms = make_terms(inid.PureDP(epsilon=6.0))
    >>> accepts(terms, {"epsilon": 60 * Fraction("0.1")}), accepts(terms, {"epsilon": 61 * Fraction("0.1")})
    (True, False)
    """
    taken = None if terms.reserve is None else sums["delta"]
    if terms.reserve is not None and not (taken is not None and taken <= terms.reserve):
        return False
    totals = ((sums[currency], limit) for currency, limit in terms.limits)
    return any(spent is not None and spent <= limit for spent, limit in totals)


def _delta_of_rules(total: ApproxDP, reserve: float | None) -> Fraction:
    """The delta that the rules may use: all of it but the reserve."""
    return decimal_fraction(total.delta) - (0 if reserve is None else decimal_fraction(read_reserve(total, reserve)))


def _renyi_limit(total: ApproxDP, order: Fraction, reserve: float | None) -> Fraction:
    """A rational that is certainly at most B(a) = eps - log(1 - 1/a) + (log(delta/2) + log a)/(a - 1).

    A Renyi divergence of order a of at most B(a) implies (eps, delta/2)-DP (Canonne, Kamath and Steinke 2020,
    Proposition 12, solved for the divergence). Rounded down to a multiple of 2^-96.
    """
    less = order - 1
    growth = _log_below(1 + 1 / less)
    tail = 2 / (_delta_of_rules(total, reserve) * order)
    price = _log_above(tail) / less if tail > 1 else Fraction(0)
    exact = decimal_fraction(total.epsilon) + growth - price
    return Fraction(math.floor(exact * 2**96), 2**96)


def _best_order(total: ApproxDP) -> int:
    """The whole order a >= 2 that about maximises B(a)/a, the number of Gaussian charges that fit.

    Every order above 1 would be valid; whole ones have exact costs for subsampled steps.
    """
    epsilon, log_half = total.epsilon, math.log(total.delta) - math.log(2)

    def value(order: float) -> float:
        less = order - 1
        return (epsilon + math.log1p(1 / less) + (log_half + math.log1p(less)) / less) / order

    width = _MOST_EXPONENT / _GRID
    at = max(range(_GRID + 1), key=lambda i: value(1 + math.exp(i * width)))
    fine = max(range(_GRID + 1), key=lambda i: value(1 + math.exp((at + 2 * i / _GRID - 1) * width)))
    best = 1 + math.exp((at + 2 * fine / _GRID - 1) * width)
    return max((max(math.floor(best), 2), max(math.ceil(best), 2)), key=value)


def _log_below(x: Fraction) -> Fraction:
    """A rational below log x, x > 1, by at most about 2^-40 relative: guessed in floats, proved in integers."""
    guess, slack = Fraction(_log(x)), Fraction(1, 2**45)
    bits = _bits(x)
    while True:
        below = guess * (1 - slack)
        if below <= 0:
            return Fraction(0)
        if Fraction(exp(enclose(below, bits), bits)[1], 1 << bits) <= x:
            return below
        slack *= 2


def _log_above(x: Fraction) -> Fraction:
    """A rational above log x, x > 1."""
    guess, slack = Fraction(_log(x)), Fraction(1, 2**45)
    bits = _bits(x)
    while True:
        above = guess * (1 + slack)
        if Fraction(exp(enclose(above, bits), bits)[0], 1 << bits) >= x:
            return above
        slack *= 2


def _log(x: Fraction) -> float:
    return math.log1p(float(x - 1)) if x < 2 else math.log(x.numerator) - math.log(x.denominator)


def _bits(x: Fraction) -> int:
    """Enough bits to tell the exponential of a number within 2^-45 of log x, however close x is to 1."""
    gap = x - 1
    return 192 + 2 * max(0, gap.denominator.bit_length() - gap.numerator.bit_length())


# What is fixed when a ledger is made: the total, the rule with its limits, the neighbouring relation and the unit.

_FIELDS = ("total", "rule", "neighbours", "unit", "terms")
_OPTIONAL = ("currency", "reserve")  # written only where they were stated
_NAMES: tuple[Currency, ...] = get_args(Currency)
_WORDS: dict[str, Currency] = {**{name: name for name in _NAMES}, "mu^2": "mu_squared"}


@dataclass(frozen=True)
class Settings:
    """The part of a ledger that never changes."""

    total: Budget
    rule: Rule
    neighbours: Neighbours
    unit: str
    terms: Terms
    currency: Currency | None = None
    reserve: float | None = None

    @classmethod
    def make(
        cls,
        total: Budget, rule: Rule = "auto", neighbours: Neighbours = "add_remove", unit: str = "row",
        currency: Currency | None = None, order: int | None = None, reserve: float | None = None,
    ) -> Self:  # fmt: skip
        """Read the arguments of a new ledger."""
        terms = make_terms(total, rule, order, reserve)
        relation: Neighbours = choice("neighbours", neighbours, get_args(Neighbours))  # type: ignore[assignment]
        counted = None if currency is None else read_currency(currency, terms)
        stored_rule: Rule = "gaussian" if rule == "gaussian" else "auto"
        stored_reserve = None if reserve is None else read_reserve(total, reserve)
        return cls(total, stored_rule, relation, read_word("unit", unit), terms, counted, stored_reserve)

    @property
    def order(self) -> int | float | None:
        """The Renyi order of rule (c)."""
        order = self.terms.order
        return None if order is None else int(order) if order.denominator == 1 else float(order)

    @property
    def counted(self) -> Currency | None:
        """The currency in which parts of the ledger are counted: the stated one, or the only one there is."""
        return self.terms.limits[0][0] if len(self.terms.limits) == 1 else self.currency

    def to_text(self) -> str:
        """One line of JSON; what the ledger's chain of digests starts from."""
        record = {
            "total": self.total.to_dict(),
            "rule": self.rule,
            "neighbours": self.neighbours,
            "unit": self.unit,
            "terms": self.terms.to_dict(),
        }
        options = {name: getattr(self, name) for name in _OPTIONAL if getattr(self, name) is not None}
        return json.dumps(record | options, sort_keys=True)

    @classmethod
    def from_text(cls, text: object) -> Self:
        """The settings that `to_text` wrote; their limits are proved again."""
        try:
            record = json.loads(text) if isinstance(text, str) else None
        except (ValueError, RecursionError):
            record = None
        if not (isinstance(record, dict) and set(_FIELDS) <= set(record) <= {*_FIELDS, *_OPTIONAL}):
            raise RecordError(
                f"the ledger's settings do not parse: they must hold {', '.join(_FIELDS)}, and beside them at most "
                f"{', '.join(_OPTIONAL)}. Use the version of inid that wrote them."
            )
        rule: Literal["auto", "gaussian"] = "gaussian" if record["rule"] == "gaussian" else "auto"
        total = budget_from_dict(record["total"])
        try:
            reserve = record.get("reserve")
            plain = (record["rule"], record["neighbours"], record["unit"], record.get("currency"))
            settings = cls.make(total, *plain, reserve=reserve)
        except ArgumentError as error:
            raise RecordError(f"the ledger's settings do not parse: {error}") from None
        return replace(settings, terms=terms_from_dict(record["terms"], total, rule, settings.reserve))

    def require(self, where: str, **expected: object) -> None:
        """Refuse to open a ledger under other settings than its own; None stands for whatever is stored."""
        for name, value in expected.items():
            stored = self.counted if name == "currency" else getattr(self, name)
            value_given = _WORDS.get(value, value) if name == "currency" and isinstance(value, str) else value
            if value_given is not None and value_given != stored:
                actual = f'{name}="{stored}"' if isinstance(stored, str) else f"{name}={stored}"
                raise BudgetError(
                    f"the ledger in {where} was made with {actual}, not {shown(value)}, and that never changes: "
                    f"leave {name} out to use it, or name the ledger that has it by name=..."
                )


def read_currency(value: object, terms: Terms) -> Currency:
    """One of the currencies that a ledger counts, by its name or as "mu^2"."""
    known = _WORDS.get(value) if isinstance(value, str) else None
    if known not in dict(terms.limits):
        listed = ", ".join('"mu^2"' if name == "mu_squared" else f'"{name}"' for name, _ in terms.limits)
        raise ArgumentError(f"currency must be one of {listed} for this total, got {shown(value)}.")
    return known
