"""Whether a ledger takes a charge: its relation, and some rule that accepts the whole history with it."""

from fractions import Fraction

from inid.accounting.amounts import Amounts, added
from inid.accounting.charges import Charge, covered
from inid.accounting.composition import charge_of
from inid.accounting.history import History
from inid.accounting.joint_charges import JointCharge
from inid.accounting.refusals import largest, met, mix, relation_cure, what_fits
from inid.accounting.rules import accepts
from inid.accounting.settings import Settings
from inid.accounting.summary import left_of, spending, times
from inid.errors import BudgetError, Words
from inid.numbers.decimals import decimal_down, decimal_fraction
from inid.promises import ApproxDP, Budget, PureDP

__all__ = ["admitted", "priced"]


def priced(settings: Settings, what: object, taken: Fraction = Fraction(0)) -> Charge:
    """What would be charged, proved, with its price in the ledger's currencies and what it takes from the reserve.

    Raises:
        ArgumentError: Neither a plan nor a composition.
        GuaranteeError: The plan does not keep its own promise.
        BudgetError: It is for a relation that the ledger does not take, or holds steps that its order cannot bound.
    """
    asked, beside = charge_of(what)
    charge = Charge.of(asked, settings.terms.currencies, settings.terms.order, taken + beside)
    if not covered(settings.neighbours, charge.neighbours):
        raise BudgetError(
            f'the plan is for neighbours="{charge.neighbours}", the ledger counts "{settings.neighbours}", '
            f"and the two do not add up: {relation_cure(settings.neighbours, charge.neighbours)}.",
            code="other_neighbours",
            own=Words(settings.neighbours),
            asked=Words(charge.neighbours),
        )
    return charge


def _is_the_whole(total: Budget, charge: Charge) -> bool:
    """Whether a charge, with what it takes beside its noise, keeps the whole promise by itself: rule (d)."""
    promise = charge.promise
    if isinstance(charge.what, JointCharge):  # its promise holds with what it takes, and nothing more
        return promise == total and charge.taken == decimal_fraction(charge.what.delta)
    if not charge.taken:
        return promise == total
    if not (isinstance(total, ApproxDP) and isinstance(promise, (ApproxDP, PureDP))):
        return False
    delta = decimal_fraction(promise.delta) if isinstance(promise, ApproxDP) else Fraction(0)
    return promise.epsilon <= total.epsilon and delta + charge.taken <= decimal_fraction(total.delta)


def admitted(settings: Settings, seen: History, charge: Charge) -> Amounts:
    """The cost to record, if some rule accepts the whole history with this charge.

    Raises:
        BudgetError: No rule does.
    """
    terms, price = settings.terms, charge.price
    if (terms.reserve is not None or not charge.taken) and accepts(terms, added(seen.sums, price)):
        return price
    if terms.whole and seen.charges == 0 and _is_the_whole(settings.total, charge):
        return terms.everything
    if charge.taken and terms.reserve is None:
        raise BudgetError(
            f"the charge takes delta={float(charge.taken):.3g} on top of its noise, and this ledger keeps none in "
            "reserve: make one with reserve=..., for example reserve=1e-7, or make this its only charge, whose delta "
            f"is at most that of {settings.total} with this delta added.",
            code="reserve_missing",
            delta=Words(f"{float(charge.taken):.3g}"),
        )
    if terms.reserve is not None and charge.taken > (rest := terms.reserve - (seen.sums["delta"] or 0)):
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
    if seen.charges and all(amount is None for amount in seen.sums.values()):
        raise BudgetError(
            f"the ledger takes no more charges: its whole promise, {settings.total}, was spent on charge 1. "
            "Open another ledger by name=... for other people's data.",
            code="ledger_closed",
            total=_numbers(settings.total),
        )
    left = left_of(terms, seen.sums)
    fits = what_fits(terms, dict(left.amounts), settings.counted, charge)
    mixed = mix(terms, seen.sums, price, settings.counted) if seen.charges else ""
    raise BudgetError(
        f"the budget has no room for this charge: it costs {spending(terms, price)}; left is {left} of "
        f"{settings.total} after {times(seen)}. {mixed}{fits} A total cannot grow.",
        code="no_room",
        cost=Words(spending(terms, price)),
        left=Words(left),
        total=_numbers(settings.total),
        times=Words(times(seen)),
        mixed=Words(met(seen.sums, price) if seen.charges else ""),
        **largest(terms, dict(left.amounts), settings.counted),
    )


def _numbers(total: Budget) -> Words:
    """A promise in words that fit a command and a page, too."""
    return Words(", ".join(f"{name} = {value}" for name, value in total.to_dict().items() if name != "kind"))
