"""What one plan, or a composition fixed in advance, costs in each currency; never below the truth.

A plan has proved its promise, and its noise has an exact supremum over the sensitivity set. From these two:

    currency    Gaussian noise, m = mu^2     Laplace noise, e = epsilon
    epsilon     none                         e
    mu_squared  m                            (-2 Phi^-1(e^(-e/2) / 2))^2, see `mechanisms.laplace`
    rho         m / 2                        min(e^2 / 2, e)
    renyi       a m / 2                      min(e, a e^2 / 2, the divergence of the plan's own ratios)

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

import math
from collections.abc import Iterable
from fractions import Fraction

from inid.accounting.amounts import Currency
from inid.curves import Composed, Loss, PrivacyLoss, Subsampled, renyi
from inid.curves.renyi import renyi_subsampled_gaussian
from inid.errors import ArgumentError, RecordError
from inid.mechanisms.laplace import laplace_mu_squared
from inid.numbers.decimals import decimal_fraction
from inid.numbers.enclosures import enclose, exp, log
from inid.planning import NoisePlan
from inid.promises import ZCDP, Budget, GaussianDP, PureDP, RenyiDP

__all__ = ["costs", "leaves", "loss_costs", "promise_costs", "sampled"]

_BITS = 128
_FAR = Fraction(100)
_LOG_BITS = 256


def costs(
    plan: NoisePlan, currencies: Iterable[Currency], order: Fraction | None = None
) -> dict[Currency, Fraction | None]:
    """What a plan that has proved its promise costs in each of the currencies; None where no amount bounds it.

    Args:
        plan: The plan; its certificate has been checked.
        currencies: The currencies that the ledger counts.
        order: The Renyi order, needed for "renyi".

    >>> import inid
    >>> p = inid.plan(inid.Sensitivity.box([1.0, 3.0]), inid.PureDP(epsilon=0.1))
    >>> costs(p, ["epsilon", "rho"])
    {'epsilon': Fraction(1, 10), 'rho': Fraction(1, 200)}
    """
    budget = plan.budget
    found: dict[Currency, Fraction | None] = {"delta": Fraction(0)}  # noise takes nothing from a reserve
    if isinstance(budget, PureDP):
        found["epsilon"] = decimal_fraction(budget.epsilon)
    elif isinstance(budget, GaussianDP):
        found["mu_squared"] = decimal_fraction(budget.mu) ** 2
    elif isinstance(budget, ZCDP):
        found["rho"] = decimal_fraction(budget.rho)
    elif isinstance(budget, RenyiDP) and budget.order == order:
        found["renyi"] = decimal_fraction(budget.divergence)
    wanted = tuple(currencies)
    missing = [currency for currency in wanted if currency not in found]
    if missing:
        base = _base(plan)
        for currency in missing:
            found[currency] = (_of_gaussian if plan.mechanism == "gaussian" else _of_laplace)(
                plan, base, currency, order
            )
    return {currency: found[currency] for currency in wanted}


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
    found: dict[Currency, Fraction | None] = {"delta": Fraction(0)}
    if isinstance(promise, PureDP):
        epsilon = decimal_fraction(promise.epsilon)
        found |= {"epsilon": epsilon, "rho": min(epsilon**2 / 2, epsilon)}
        found |= {"renyi": min(epsilon, order * epsilon**2 / 2)} if order is not None else {}
    elif isinstance(promise, (GaussianDP, ZCDP)):
        rho = (
            decimal_fraction(promise.mu) ** 2 / 2 if isinstance(promise, GaussianDP) else decimal_fraction(promise.rho)
        )
        found["rho"] = rho
        found |= {"renyi": order * rho} if order is not None else {}
        found |= {"mu_squared": 2 * rho} if isinstance(promise, GaussianDP) else {}
    elif isinstance(promise, RenyiDP) and promise.order == order:
        found["renyi"] = decimal_fraction(promise.divergence)
    return {currency: found.get(currency) for currency in currencies}


def loss_costs(
    loss: PrivacyLoss, currencies: Iterable[Currency], order: Fraction | None = None
) -> dict[Currency, Fraction | None]:
    """What a composition costs in each of the currencies: the sums over its releases and steps.

    Args:
        loss: The dominating pairs of what will be released, all fixed in advance.
        currencies: The currencies that the ledger counts.
        order: The Renyi order, needed for "renyi"; a whole number where a step is on a sample.

    >>> from inid.curves import Loss, Subsampled
    >>> found = loss_costs(Subsampled(Loss(mu=1.0), 0.01, 1000), ["epsilon", "mu_squared", "renyi"], Fraction(8))
    >>> found["epsilon"], found["mu_squared"], round(float(found["renyi"]), 2)
    (None, Fraction(1000, 1), 0.89)
    """
    found: dict[Currency, Fraction | None] = {}
    for currency in currencies:
        parts = [_part_cost(part, currency, order) for part in leaves(loss)]
        known = [part for part in parts if part is not None]
        found[currency] = _shortened(sum(known, Fraction(0))) if len(known) == len(parts) else None
    return found


def sampled(loss: PrivacyLoss) -> bool:
    """Whether some step is on a sample, so that its Renyi divergence has a proved bound at whole orders only."""
    return any(isinstance(part, Subsampled) and part.rate < 1 for part in leaves(loss))


def leaves(loss: PrivacyLoss) -> list[Loss | Subsampled]:
    """The releases and runs of steps that a composition is made of, in order, however deeply they are nested."""
    found: list[Loss | Subsampled] = []
    waiting: list[PrivacyLoss] = [loss]
    while waiting:
        part = waiting.pop()
        if isinstance(part, Composed):
            waiting.extend(reversed(part.parts))
        else:
            found.append(part)
    return found


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
    whole = math.ceil(order)  # divergences grow with the order, so the next whole one bounds those before it
    try:
        if rate < 1 and not one.ratios.size and one.mu:
            return min(simple, renyi_subsampled_gaussian(whole, one.mu, _rational(rate)))
        if rate < 1:
            return min(simple, Fraction(renyi(Subsampled(one, rate, 1), float(whole))))
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
