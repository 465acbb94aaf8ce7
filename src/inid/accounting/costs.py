"""What one plan, or a composition fixed in advance, costs in each currency; never below the truth.

A plan has proved its promise, and its noise has an exact supremum over the sensitivity set. From these two:

    currency    Gaussian noise, m = mu^2     Laplace noise, e = epsilon
    epsilon     none                         e
    mu_squared  m                            (-2 Phi^-1(e^(-e/2) / 2))^2, see `mechanisms.laplace`
    rho         m / 2                        min(e^2 / 2, e)
    renyi       a m / 2                      min(e, a e^2 / 2, the divergence of the plan's own ratios)

    currency    staircase noise, blocks of epsilon e_g that are exactly mu_g-GDP
    epsilon     e, the sum of the e_g
    mu_squared  the sum of mu_g^2, or what e implies
    rho         min(sum of e_g^2 / 2, e)
    renyi       min(e, a times rho, the sum of the blocks' own divergences)

where m is the promise's mu^2 (GaussianDP) or 2 rho (ZCDP) and otherwise the supremum of sum d_i^2 / sigma_i^2, and e is
the promise's epsilon (PureDP) and otherwise the supremum of sum |d_i| / beta_i. In the currency of its own promise a
plan costs the decimal that was promised, whatever its noise: so the user's own arithmetic adds up.

Why: Gaussian noise is mu-GDP by definition, and its Renyi divergence of order a is a mu^2 / 2. Every e-DP mechanism has
Renyi divergence at most e at every order, and at most a e^2 / 2 (Bun and Steinke 2016, Proposition 3.3).

A composition costs the sum over its releases and steps (`loss_costs`). A step on a Poisson sample with rate q costs

    epsilon     log(1 + q (exp(e) - 1)), the amplification of pure DP
    mu_squared  what it costs without sampling: whoever draws from Q in place of P with probability 1 - q learns less,
    rho         but no Gaussian curve and no rho that holds at every order follows the mixture any closer
    renyi       the sum over k of C(a, k) (1-q)^(a-k) q^k E t^k (`inid.curves.renyi`), for whole orders a only
"""

import json
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from typing import Literal, get_args

from inid.arguments import shown
from inid.curves import Composed, Loss, PrivacyLoss, Subsampled, renyi
from inid.curves.renyi import renyi_subsampled_gaussian
from inid.errors import ArgumentError, RecordError
from inid.mechanisms.laplace import laplace_mu_squared
from inid.numbers.decimals import decimal_fraction
from inid.numbers.enclosures import enclose, exp, log
from inid.planning import NoisePlan, StaircasePlan
from inid.promises import ZCDP, Budget, GaussianDP, PureDP, RenyiDP

# Exact amounts of privacy: rationals inside, text when stored, short decimals when shown.
#
# Every amount is a rational whose denominator has no prime factors but 2 and 5: the decimals that a promise was written
# with, floats, and their sums and products. So each is stored without loss as text, and has an exact decimal form.

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
    """Sums currency by currency; None absorbs everything."""
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
    scaled = amount.numerator * 10**places // amount.denominator
    return Decimal((0, tuple(map(int, str(scaled))), -places))


def amounts_to_text(amounts: Amounts) -> str:
    """One line of JSON; equal amounts give equal text."""
    return json.dumps({c: None if a is None else str(a) for c, a in amounts.items()}, sort_keys=True)


def amounts_from_text(text: object, currencies: Iterable[Currency]) -> dict[Currency, Fraction | None]:
    """The amounts that `amounts_to_text` wrote, which must be in exactly these currencies."""
    expected = tuple(currencies)
    try:
        values = json.loads(text) if isinstance(text, str) else None
    except ValueError:
        values = None
    if not (isinstance(values, dict) and set(values) == set(expected)):
        raise RecordError(f"a stored cost does not parse: it must hold exactly {', '.join(expected)}.")
    return {c: None if values[c] is None else read(values[c]) for c in _CURRENCIES if c in values}


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
    """What a currency is called."""
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


_BITS = 128
_FAR = Fraction(100)
_LOG_BITS = 256


def costs(
    plan: NoisePlan, currencies: Iterable[Currency], order: Fraction | None = None
) -> dict[Currency, Fraction | None]:
    """What a plan that has proved its promise costs in each of the currencies; None where no amount bounds it."""
    budget = plan.budget
    amounts: dict[Currency, Fraction | None] = {"delta": Fraction(0)}  # noise takes nothing from a reserve
    if isinstance(budget, PureDP):
        amounts["epsilon"] = decimal_fraction(budget.epsilon)
    elif isinstance(budget, GaussianDP):
        amounts["mu_squared"] = decimal_fraction(budget.mu) ** 2
    elif isinstance(budget, ZCDP):
        amounts["rho"] = decimal_fraction(budget.rho)
    elif isinstance(budget, RenyiDP) and budget.order == order:
        amounts["renyi"] = decimal_fraction(budget.divergence)
    expected = tuple(currencies)
    missing = [currency for currency in expected if currency not in amounts]
    if missing and isinstance(plan, StaircasePlan):
        amounts |= {currency: _of_staircase(plan, currency, order) for currency in missing}
    elif missing:
        base = _base(plan)
        for currency in missing:
            amounts[currency] = (_of_gaussian if plan.mechanism == "gaussian" else _of_laplace)(
                plan, base, currency, order
            )
    return {currency: amounts[currency] for currency in expected}


def promise_costs(
    promise: Budget, currencies: Iterable[Currency], order: Fraction | None = None
) -> dict[Currency, Fraction | None]:
    """What anything that keeps a promise costs, whatever its noise; None where no amount bounds it.

    Pure DP has Renyi divergences of at most e, and at most a e^2 / 2; mu-Gaussian DP of at most a mu^2 / 2, since it is
    dominated by Gaussian noise; rho-zCDP of at most a rho by definition.

    >>> import inid
    >>> promise_costs(inid.GaussianDP(mu=0.5), ["epsilon", "mu_squared", "rho"])
    {'epsilon': None, 'mu_squared': Fraction(1, 4), 'rho': Fraction(1, 8)}
    """
    amounts: dict[Currency, Fraction | None] = {"delta": Fraction(0)}
    if isinstance(promise, PureDP):
        epsilon = decimal_fraction(promise.epsilon)
        amounts |= {"epsilon": epsilon, "rho": min(epsilon**2 / 2, epsilon)}
        amounts |= {"renyi": min(epsilon, order * epsilon**2 / 2)} if order is not None else {}
    elif isinstance(promise, (GaussianDP, ZCDP)):
        rho = (
            decimal_fraction(promise.mu) ** 2 / 2 if isinstance(promise, GaussianDP) else decimal_fraction(promise.rho)
        )
        amounts["rho"] = rho
        amounts |= {"renyi": order * rho} if order is not None else {}
        amounts |= {"mu_squared": 2 * rho} if isinstance(promise, GaussianDP) else {}
    elif isinstance(promise, RenyiDP) and promise.order == order:
        amounts["renyi"] = decimal_fraction(promise.divergence)
    return {currency: amounts.get(currency) for currency in currencies}


def loss_costs(
    loss: PrivacyLoss, currencies: Iterable[Currency], order: Fraction | None = None
) -> dict[Currency, Fraction | None]:
    """What a composition costs in each of the currencies: the sums over its releases and steps."""
    amounts: dict[Currency, Fraction | None] = {}
    for currency in currencies:
        parts = [_part_cost(part, currency, order) for part in leaves(loss)]
        known = [part for part in parts if part is not None]
        amounts[currency] = _shortened(sum(known, Fraction(0))) if len(known) == len(parts) else None
    return amounts


def leaves(loss: PrivacyLoss) -> list[Loss | Subsampled]:
    """The releases and runs of steps that a composition is made of, in order, however deeply they are nested."""
    losses: list[Loss | Subsampled] = []
    waiting: list[PrivacyLoss] = [loss]
    while waiting:
        part = waiting.pop()
        if isinstance(part, Composed):
            waiting.extend(reversed(part.parts))
        else:
            losses.append(part)
    return losses


def _part_cost(part: Loss | Subsampled, currency: Currency, order: Fraction | None) -> Fraction | None:
    one, times = (part, 1) if isinstance(part, Loss) else (part.loss, part.steps)
    ratios = [(Fraction(e), int(count)) for e, count in zip(one.ratios.tolist(), one.counts.tolist(), strict=True)]
    epsilon = sum((e * count for e, count in ratios), Fraction(0))
    variance = Fraction(one.mu) ** 2
    rate = part.rate if isinstance(part, Subsampled) else 1.0
    if currency == "delta":
        return Fraction(0)
    if currency == "epsilon":
        return None if variance else times * _amplified(epsilon, rate)
    if currency == "mu_squared":
        return times * (variance + (laplace_mu_squared(epsilon) if epsilon else 0))
    squares = sum((e * e * count for e, count in ratios), Fraction(0))
    if currency == "rho":
        return times * (variance / 2 + min(squares / 2, epsilon))
    return times * _step_renyi(one, rate, _known(order), _known(order) * variance / 2 + epsilon)


def _step_renyi(one: Loss, rate: float, order: Fraction, simple: Fraction) -> Fraction:
    """The Renyi divergence of one release or of one step on a sample; `simple` bounds it too."""
    next_order = math.ceil(order)  # divergences grow with the order, so the next whole one bounds those before it
    try:
        if rate < 1 and not one.ratios.size and one.mu:
            return min(simple, renyi_subsampled_gaussian(next_order, one.mu, _rational(rate)))
        if rate < 1:
            return min(simple, Fraction(renyi(Subsampled(one, rate, 1), float(next_order))))
        return min(simple, Fraction(renyi(one, float(order)))) if one.ratios.size else simple
    except ArgumentError:  # an order or a ratio beyond what is computed; the simple bound has no such limit
        return simple


def _amplified(epsilon: Fraction, rate: float) -> Fraction:
    """log(1 + q (exp(e) - 1)), rounded up, for a step that is e-DP on the whole data (Balle, Barthe, Gaboardi 2018)."""
    if rate >= 1 or not epsilon or epsilon > _FAR:
        return epsilon
    growth = Fraction(exp(enclose(epsilon, _LOG_BITS), _LOG_BITS)[1], 1 << _LOG_BITS)
    return min(epsilon, Fraction(log(1 + _rational(rate) * (growth - 1), _LOG_BITS)[1], 1 << _LOG_BITS))


def _rational(rate: float) -> Fraction:
    """The rate as the float that is sampled with, or as the decimal that it prints as, whichever is larger."""
    return max(Fraction(rate), decimal_fraction(rate))


def _base(plan: NoisePlan) -> Fraction:
    """mu^2 of Gaussian noise, epsilon of Laplace noise: as promised where the promise says it, else the supremum."""
    budget = plan.budget
    if plan.mechanism == "laplace" and isinstance(budget, PureDP):
        return decimal_fraction(budget.epsilon)
    if plan.mechanism == "gaussian" and isinstance(budget, GaussianDP):
        return decimal_fraction(budget.mu) ** 2
    if plan.mechanism == "gaussian" and isinstance(budget, ZCDP):
        return 2 * decimal_fraction(budget.rho)
    return _shortened(plan.spent)


def _of_gaussian(_plan: NoisePlan, mu_squared: Fraction, currency: Currency, order: Fraction | None) -> Fraction | None:
    if currency == "epsilon":
        return None if mu_squared else Fraction(0)  # what nobody moves needs no noise and reveals nothing
    if currency == "mu_squared":
        return mu_squared
    return mu_squared / 2 if currency == "rho" else _known(order) * mu_squared / 2


def _of_laplace(plan: NoisePlan, epsilon: Fraction, currency: Currency, order: Fraction | None) -> Fraction | None:
    if currency == "epsilon":
        return epsilon
    if currency == "mu_squared":
        return laplace_mu_squared(epsilon)
    if currency == "rho":
        return min(epsilon**2 / 2, epsilon)  # a divergence of at most e is at most a e for every order a >= 1
    return _laplace_renyi(plan, epsilon, _known(order))


def _laplace_renyi(plan: NoisePlan, epsilon: Fraction, order: Fraction) -> Fraction:
    """The Renyi divergence of the plan's dominating ratios (E5, E7), or of any epsilon-DP mechanism if that is less."""
    simple = min(epsilon, order * epsilon**2 / 2)
    try:
        loss = plan.privacy_loss()
        # Ratios that all vanish as floats say nothing about a charge that must not round to nothing. Where only some
        # do, they are far below the slack that `renyi` adds.
        return min(simple, Fraction(renyi(loss, float(order)))) if loss.ratios.size else simple
    except ArgumentError:  # a ratio beyond what a curve accounts for; the simple bound has no such limit
        return simple


def _of_staircase(plan: StaircasePlan, currency: Currency, order: Fraction | None) -> Fraction:
    """The sum over blocks: each is exactly mu-GDP; of zCDP only epsilon^2 / 2 is proved."""
    if currency == "epsilon":
        return plan.spent
    if currency == "mu_squared":
        return plan.mu_squared
    amount = plan.rho if currency == "rho" else plan.renyi(_known(order))
    promised = promise_costs(plan.budget, [currency], order)[currency]  # a product of decimals, which adds up
    return amount if promised is not None and amount == promised else _shortened(amount)


def _known(order: Fraction | None) -> Fraction:
    if order is None:
        raise RecordError("a Renyi divergence needs the order that was fixed when the ledger was made.")
    return order


def _shortened(value: Fraction) -> Fraction:
    """The least multiple of a power of two, 128 bits long, that is at least the value: relative excess below 2^-127.

    Exact suprema of hundreds of terms have numerators of tens of thousands of digits; these are kept out of the ledger.
    A limit that is itself a product of two floats lies on this grid, so rounding up cannot cross it.
    """
    shift = _BITS - (value.numerator.bit_length() - value.denominator.bit_length())
    scaled = value * Fraction(2) ** shift
    return Fraction(-(-scaled.numerator // scaled.denominator)) / Fraction(2) ** shift
