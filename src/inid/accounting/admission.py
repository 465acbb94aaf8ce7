"""Whether a ledger takes a charge: its relation, and some rule that accepts the whole history with it."""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, cast

from inid.accounting.charges import Charge, covered
from inid.accounting.composition import Composition, JointCharge, charge_of, composition_from_dict
from inid.accounting.costs import Amounts, Currency, added, read
from inid.accounting.history import History, left_of, spending, times
from inid.accounting.parts import part_of
from inid.accounting.records import Record
from inid.accounting.rules import Settings, Terms, accepts
from inid.curves import Subsampled
from inid.errors import BudgetError, GuaranteeError, Words
from inid.mechanisms.gaussian import epsilon_of
from inid.numbers.decimals import decimal_down, decimal_fraction, decimal_root_down
from inid.planning import NoisePlan
from inid.promises import ZCDP, ApproxDP, Budget, GaussianDP, PureDP, RenyiDP
from inid.sets import Neighbours

# Why a charge is refused, and what would fit instead: the largest promises, the largest part, and how to pass them.

_DIGITS = 4
_A_BIT_LESS = 1 - Fraction(1, 10**9)
_A_TRACE = Fraction(1, 10**12)


class NoRoomError(BudgetError):
    """A part of a ledger was asked for of which less is left."""


def what_fits(terms: Terms, room: Amounts, currency: Currency | None, charge: Charge | None = None) -> str:
    """One sentence: what the ledger still has room for, as Python and as options of the command."""
    sentences, fits = [], largest(terms, room, currency)
    if fits["epsilon"]:
        sentences.append("inid.PureDP(epsilon={0}) (--epsilon {0}, without --delta)".format(fits["epsilon"]))
    if fits["mu"]:
        sentences.append("inid.GaussianDP(mu={0}) (--mu {0})".format(fits["mu"]))
    if fits["part"]:
        sentences.append('ledger.part("{0}") (--part {0})'.format(fits["part"]))
    steps = _fewer_steps(room, charge)
    if steps:
        sentences.append(f"{steps} of these steps")
    return f"What still fits: {', or '.join(sentences)}." if sentences else "Nothing fits any more."


def largest(terms: Terms, room: Amounts, currency: Currency | None) -> dict[str, Words]:
    """The largest epsilon, mu and part that still fit, as facts of a refusal; empty where there is none."""
    sizes = largest_epsilon(terms, room) or "", largest_mu(terms, room) or "", largest_part(terms, room, currency)
    return {name: Words(value) for name, value in zip(("epsilon", "mu", "part"), sizes, strict=True)}


def mixed_order(sums: Amounts, price: Amounts) -> str:
    """Where Laplace noise meets Gaussian noise in one ledger: which after which; empty where they do not."""
    if "mu_squared" not in sums or "epsilon" not in sums or (sums["epsilon"] is None) == (price["epsilon"] is None):
        return ""
    return "Gaussian noise after Laplace noise" if price["epsilon"] is None else "Laplace noise after Gaussian noise"


def mix(terms: Terms, sums: Amounts, price: Amounts, currency: Currency | None) -> str:
    """A sentence where Laplace noise meets Gaussian noise in one ledger: that this is why, and what a third buys.

    Rule (a) counts Laplace noise alone, so a mix has to fit the others, in which Laplace noise is dear. Parts are
    counted in one currency from the beginning, and fit whatever their noise.
    """
    order = mixed_order(sums, price)
    if not order:
        return ""
    limits: Mapping[Currency, Fraction] = dict(terms.limits)
    is_integer = terms.order is None or terms.order.denominator == 1
    names = [c for c in limits if limits[c] and (currency in (None, c)) and (c != "renyi" or is_integer)]
    thirds = ", or ".join(str(part_of(terms, c, limits[c] / 3)) for c in names)
    return (
        f"This is a mix, {order}, which no sum of epsilons bounds. Parts fit in any mix: "
        f'part("1/3") of this total gives {thirds}, by its currency. '
    )


def largest_epsilon(terms: Terms, room: Amounts) -> float:
    """The largest epsilon, to 4 digits, of a PureDP plan that some rule still accepts; 0 when there is none.

    Laplace noise on one number is the worst case of an epsilon in every currency.
    """
    room = _without_traces(terms, room)
    best = room.get("epsilon") or Fraction(0)
    mu_squared, rho, renyi = (room.get(name) for name in ("mu_squared", "rho", "renyi"))
    mu = decimal_root_down(mu_squared) if mu_squared else 0.0
    if mu:
        best = max(best, Fraction(GaussianDP(mu).laplace_epsilon))
    if rho:
        best = max(best, Fraction(decimal_root_down(2 * rho)), rho)  # an epsilon costs min(epsilon^2 / 2, epsilon)
    if renyi and terms.order is not None and decimal_down(renyi):
        # At an order between two whole ones the divergence is at most that of the larger.
        best = max(best, Fraction(RenyiDP(max(math.ceil(terms.order), 2), decimal_down(renyi)).laplace_epsilon))
    return _rounded_down(best)


def largest_mu(terms: Terms, room: Amounts) -> float:
    """The largest mu, to 4 digits, of a GaussianDP plan that some rule still accepts; 0 when there is none."""
    room = _without_traces(terms, room)
    squares = [room.get("mu_squared"), 2 * rho if (rho := room.get("rho")) else None]
    renyi = room.get("renyi")
    if renyi and terms.order is not None:
        squares.append(2 * renyi / terms.order)
    best = max((square for square in squares if square is not None), default=Fraction(0))
    return _rounded_down(Fraction(decimal_root_down(best))) if best > 0 else 0.0


def largest_promises(total: Budget, terms: Terms, room: Amounts) -> tuple[Budget, ...]:
    """The largest promise of each kind, to 4 digits, under which a plan for one number still fits, whatever its noise.

    Pure and Gaussian DP are counted by the rule that leaves most. Totals in zero-concentrated and Renyi DP name those,
    in which a plan costs the decimal that was promised; an ApproxDP total names an (epsilon, delta) at its own delta,
    for which noise of either kind fits.
    """
    epsilon, mu = largest_epsilon(terms, room), largest_mu(terms, room)
    promises: list[Budget] = [PureDP(epsilon)] if epsilon else []
    promises += [GaussianDP(mu)] if mu else []
    if isinstance(total, ZCDP) and (rho := _rounded_down(room.get("rho") or Fraction(0))):
        promises.append(ZCDP(rho))
    if isinstance(total, RenyiDP) and (divergence := _rounded_down(room.get("renyi") or Fraction(0))):
        promises.append(RenyiDP(total.order, divergence))
    if isinstance(total, ApproxDP) and epsilon and mu:
        gaussian_epsilon = Fraction(epsilon_of(mu, total.delta)) * _A_BIT_LESS  # affords a mu below this one
        below = _rounded_down(min(Fraction(epsilon), gaussian_epsilon))
        promises += [ApproxDP(below, total.delta)] if below else []
    return tuple(promises)


# What is left of a ledger, in one sentence: the largest release of the same kind that still fits, and its share.
#
# The rules of an ApproxDP total are alternatives. Which of them leaves most depends on what is released next, so "what
# is left" has a meaning for one kind of release only: its noise, and the currency in which it was promised.

Kind = Literal["epsilon", "mu_squared", "rho", "renyi", "gaussian"]  # "gaussian": such noise under (epsilon, delta)
_KIND_OF: dict[str, Kind] = {
    "PureDP": "epsilon",
    "GaussianDP": "mu_squared",
    "ZCDP": "rho",
    "RenyiDP": "renyi",
}


@dataclass(frozen=True)
class Room:
    """The largest release of one kind that a ledger still takes: its promise, and its share of the ledger.

    Attributes:
        promise: The largest promise of that kind, to four digits; None where nothing more fits.
        share: The share of the ledger that it takes, in the currency whose rule leaves it most.
        currency: That currency; None where none counts any more.
    """

    promise: Budget | None
    share: Fraction
    currency: Currency | None
    is_new: bool = False

    def in_words(self, written: Callable[[Budget], str] = str) -> str:
        """What is left, in one sentence.

        >>> import inid
        >>> ledger = inid.Ledger(total=inid.ApproxDP(2, 1e-6))
        >>> receipt = ledger.charge(inid.plan(inid.Sensitivity.box([1.0]), inid.PureDP(1.0)))
        >>> ledger.room().in_words()
        'Left for another release of this kind: PureDP(epsilon=1.0), 50 % of the ledger.'
        """
        if self.promise is None:
            return "Everything is spent: no further release of this kind fits."
        if self.is_new:
            return f"Nothing is spent: all of {written(self.promise)} is left."
        share = share_in_words(self.share)
        return f"Left for another release of this kind: {written(self.promise)}, {share} of the ledger."


def share_in_words(share: Fraction, *, up: bool = False) -> str:
    """A share of a ledger as people say it: a third as 1/3, others in percent, rounded down or up.

    >>> share_in_words(Fraction(1, 3)), share_in_words(Fraction(3, 4)), share_in_words(Fraction(8579, 10_000))
    ('1/3', '75 %', '85 %')
    >>> share_in_words(Fraction(1421, 10_000), up=True)
    '15 %'
    """
    for parts in (100, 3, 6, 7, 9, 11, 12):
        near = round(share * parts)
        if abs(share * parts - near) < Fraction(1, 10**6):
            return f"{near} %" if parts == 100 else f"{near}/{parts}"
    return f"{(math.ceil if up else math.floor)(100 * share)} %"


def kind_of_charge(charge: Charge) -> Kind:
    """The kind of a release that is about to be charged."""
    name = None if charge.promise is None else charge.promise.kind
    return _KIND_OF.get(name or "") or ("epsilon" if charge.price.get("epsilon") is not None else "gaussian")


def kind_of_record(record: Record) -> Kind:
    """The kind of a release that was charged."""
    name = record.promise.rpartition(" under ")[2].partition("(")[0]
    return _KIND_OF.get(name) or ("epsilon" if record.cost.epsilon is not None else "gaussian")


def room_for(settings: Settings, history: History, kind: Kind | None) -> Room:
    """The largest release of a kind that still fits; None stands for a ledger without any charge."""
    terms, total = settings.terms, settings.total
    limits: Mapping[Currency, Fraction] = dict(terms.limits)
    if kind is None or not history.charges:
        return Room(total, Fraction(1), settings.counted or terms.limits[0][0], is_new=True)
    kind = "epsilon" if tuple(limits) == ("epsilon",) else kind  # which takes Laplace noise alone, however promised
    size = largest_epsilon if kind == "epsilon" else largest_mu
    left = _without_traces(terms, {c: rest for c, rest in left_of(terms, history.sums).amounts if c in limits})
    rests = {c: rest for c, rest in left.items() if rest is not None}
    sizes = {c: size(terms, {c: rest}) for c, rest in rests.items()}
    alive = [c for c in sizes if sizes[c]]
    if not alive:
        return Room(None, Fraction(0), next(iter(rests), None))
    # Parts of a ledger are counted in its own currency, in which they add up to 1.
    best = next((c for c in alive if c == kind == settings.counted), max(alive, key=sizes.__getitem__))
    promise = _largest_of(
        "gaussian" if kind in ("rho", "renyi") and kind != best else kind, total, terms, sizes[best], rests[best]
    )
    return Room(promise, rests[best] / limits[best], best)


def _largest_of(kind: Kind, total: Budget, terms: Terms, size: float, rest: Fraction) -> Budget:
    """The largest release of a kind in the terms of its promise."""
    if kind == "epsilon":
        return PureDP(size)
    if kind == "rho":
        return ZCDP(_rounded_down(rest))
    if kind == "renyi" and terms.order is not None and terms.order.denominator == 1:
        return RenyiDP(int(terms.order), _rounded_down(rest))
    if kind == "gaussian" and isinstance(total, ApproxDP):
        epsilon = _rounded_down(Fraction(epsilon_of(size, total.delta)) * _A_BIT_LESS)
        return ApproxDP(epsilon, total.delta) if epsilon else GaussianDP(size)
    return GaussianDP(size)


def largest_part(terms: Terms, room: Amounts, currency: Currency | None) -> str:
    """The largest part, to 4 decimals, that still fits in the currency of parts; "" when there is none."""
    rest = None if currency is None else room.get(currency)
    limits: Mapping[Currency, Fraction] = dict(terms.limits)
    if currency is None or not rest:
        return ""
    steps = math.floor(rest / limits[currency] * 10**_DIGITS)
    return f"{steps / 10**_DIGITS:g}" if steps else ""


def relation_cure(ledger: Neighbours, charged: Neighbours) -> str:
    """What to do about a charge whose relation the ledger does not take."""
    if (ledger, charged) == ("add_remove", "zero_out"):
        return (
            'a ledger made with neighbours="zero_out" takes both; here, plan with neighbours="add_remove", '
            "where the number of people is secret"
        )
    return f'plan with neighbours="{ledger}" (of the sensitivity, the estimator, the table or the training)'


def _without_traces(terms: Terms, room: Amounts) -> Amounts:
    """What is left, but nothing where decimals that were rounded leave a trace of the limit: nobody can use it."""
    limits: Mapping[Currency, Fraction] = dict(terms.limits)
    least = {name: limits.get(name, Fraction(0)) * _A_TRACE for name in room}  # a reserve of delta has no limit there
    return {name: rest and (rest if rest > least[name] else Fraction(0)) for name, rest in room.items()}


def _fewer_steps(room: Amounts, charge: Charge | None) -> int:
    """How many steps of a refused run would fit; 0 where that is none, or not known."""
    what = None if charge is None else charge.what
    if charge is None or not isinstance(what, Composition) or not isinstance(what.loss, Subsampled):
        return 0
    pairs = [(room.get(currency), price) for currency, price in charge.price.items()]
    # Costs are sums over equal steps, rounded up once: one step less than the quotient leaves room for that.
    counts = [math.ceil(rest / price * what.loss.steps) - 1 for rest, price in pairs if rest and price]
    return max([0, *(min(count, what.loss.steps - 1) for count in counts)])


def _rounded_down(value: Fraction) -> float:
    if value <= 0:
        return 0.0
    places = _DIGITS - 1 - math.floor(math.log10(value))
    scale = Fraction(10) ** places
    return decimal_down(Fraction(math.floor(value * scale)) / scale)


def priced(settings: Settings, what: object, delta: Fraction = Fraction(0)) -> Charge:
    """What would be charged, proved, with its price in the ledger's currencies and what it takes from the reserve."""
    charged, extra = charge_of(what)
    charge = Charge.of(charged, settings.terms.currencies, settings.terms.order, delta + extra)
    if not covered(settings.neighbours, charge.neighbours):
        raise BudgetError(
            f'the plan is for neighbours="{charge.neighbours}", the ledger counts "{settings.neighbours}", '
            f"and the two do not add up: {relation_cure(settings.neighbours, charge.neighbours)}.",
            code="other_neighbours",
            own=Words(settings.neighbours),
            asked=Words(charge.neighbours),
        )
    return charge


def _takes_total(total: Budget, charge: Charge) -> bool:
    """Whether a charge, with what it takes beside its noise, keeps the whole promise by itself: rule (d)."""
    promise = charge.promise
    if isinstance(charge.what, JointCharge):  # its promise holds with what it takes, and nothing more
        keeps = promise == total or (isinstance(total, ApproxDP) and promise == _without_delta(total))
        return keeps and charge.taken == decimal_fraction(charge.what.delta)
    if not (isinstance(total, ApproxDP) and isinstance(promise, (ApproxDP, PureDP))):
        return False
    if not charge.taken:  # Laplace noise may keep the epsilon without any delta
        return promise in (total, _without_delta(total))
    delta = decimal_fraction(promise.delta) if isinstance(promise, ApproxDP) else Fraction(0)
    return promise.epsilon <= total.epsilon and delta + charge.taken <= decimal_fraction(total.delta)


def _without_delta(total: ApproxDP) -> Budget:
    """The same epsilon without any delta, which Laplace noise may keep: it implies the total."""
    return PureDP(total.epsilon) if total.epsilon else total


def admitted(settings: Settings, history: History, charge: Charge) -> Amounts:
    """The cost to record, if some rule accepts the whole history with this charge."""
    terms, price = settings.terms, charge.price
    if (terms.reserve is not None or not charge.taken) and accepts(terms, added(history.sums, price)):
        return price
    if terms.takes_total and history.charges == 0 and _takes_total(settings.total, charge):
        return terms.everything
    if charge.taken and terms.reserve is None:
        raise BudgetError(
            f"the charge takes delta={float(charge.taken):.3g} on top of its noise, and this ledger keeps none in "
            "reserve, which never changes: state the keys yourself, or make this its only charge, whose delta "
            f"is at most that of {settings.total} with this delta added.",
            code="reserve_missing",
            delta=Words(f"{float(charge.taken):.3g}"),
        )
    if terms.reserve is not None and charge.taken > (rest := terms.reserve - (history.sums["delta"] or 0)):
        raise BudgetError(
            f"the charge takes delta={float(charge.taken):.3g} on top of its noise, and the ledger has "
            f"{decimal_down(max(rest, Fraction(0)))!r} of its reserve of {float(terms.reserve):.3g} left: state "
            "delta=... of no more than that. A reserve cannot grow.",
            code="reserve_spent",
            delta=Words(f"{float(charge.taken):.3g}"),
            left=Words(decimal_down(max(rest, Fraction(0)))),
        )
    if all(amount is None for amount in price.values()):
        raise BudgetError(
            f"{charge.name} has no cost that a total of {settings.total} can count: "
            'plan with PureDP or mechanism="laplace", or keep a ledger with an ApproxDP, GaussianDP or ZCDP total.',
            code="cost_uncounted",
            total=_numbers(settings.total),
        )
    if history.charges and all(amount is None for amount in history.sums.values()):
        raise BudgetError(
            f"the ledger takes no more charges: its whole promise, {settings.total}, was spent on charge 1.",
            code="ledger_closed",
            total=_numbers(settings.total),
        )
    room = left_of(terms, history.sums)
    fits = what_fits(terms, dict(room.amounts), settings.counted, charge)
    mixed = mix(terms, history.sums, price, settings.counted) if history.charges else ""
    raise BudgetError(
        f"the budget has no room for this charge: it costs {spending(terms, price)}; left is {room} of "
        f"{settings.total} after {times(history)}. {mixed}{fits} A total cannot grow.",
        code="no_room",
        cost=Words(spending(terms, price)),
        left=Words(room),
        total=_numbers(settings.total),
        times=Words(times(history)),
        mixed=Words(mixed_order(history.sums, price) if history.charges else ""),
        **largest(terms, dict(room.amounts), settings.counted),
    )


def check_history(settings: Settings, records: Iterable[Record]) -> None:
    """Refuse charges that a ledger would not have taken: for other neighbours, or beyond its total together.

    Raises:
        GuaranteeError: They do not keep the ledger's total.
    """
    charges, sums = tuple(records), settings.terms.nothing
    for record in charges:
        if not covered(settings.neighbours, cast("Neighbours", record.neighbours)):
            raise GuaranteeError(
                f"charge {record.id} is for other neighbours than the ledger, which counts "
                f'"{settings.neighbours}": the two do not add up.'
            )
        sums = added(sums, dict(record.cost.amounts))
    spends_total = (
        settings.terms.takes_total and len(charges) == 1 and _takes_total(settings.total, _charge_again(charges[0]))
    )
    if not (accepts(settings.terms, sums) or (spends_total and all(amount is None for amount in sums.values()))):
        raise GuaranteeError(f"the charges of the ledger do not keep its total together, {settings.total}.")


def _charge_again(record: Record) -> Charge:
    """What was charged, from its record."""
    plan, taken = record.plan, read(record.delta_taken)
    if "inid_parts" in plan:
        parts = JointCharge.from_dict(plan)
        return Charge.of(parts, (), None, taken - decimal_fraction(parts.delta))
    return Charge.of(
        composition_from_dict(plan) if "inid_composition" in plan else NoisePlan.from_dict(plan), (), None, taken
    )


def _numbers(total: Budget) -> Words:
    """A promise in words that fit a command and a page, too."""
    return Words(", ".join(f"{name} = {value}" for name, value in total.to_dict().items() if name != "kind"))
