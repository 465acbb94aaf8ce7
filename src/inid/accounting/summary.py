"""A ledger as text: one plain number first, then the currencies, then who charged last and what else is there."""

import math
from fractions import Fraction

from inid.accounting.amounts import Amounts, Currency, Spending, currency_name
from inid.accounting.history import History
from inid.accounting.records import Record
from inid.accounting.rules import Terms
from inid.accounting.settings import Settings

__all__ = ["counted_share", "left_of", "percent", "percent_currency", "spending", "summary", "times"]

_TINY = Fraction(1, 10**12)  # a sum of rounded parts is whole when no more than this is missing


def summary(
    settings: Settings,
    seen: History,
    place: str,
    *,
    last: Record | None = None,
    others: tuple[str, ...] = (),
    obstacle: str | None = None,
) -> str:
    """The text of a ledger.

    Args:
        settings: Its settings.
        seen: Its history.
        place: Its name and place in words.
        last: The last charge, if it is to be named.
        others: The names of other ledgers in the same place.
        obstacle: Why it takes no charges, if it takes none.
    """
    terms = settings.terms
    spent, left = spending(terms, seen.sums), left_of(terms, seen.sums)
    limit = Spending(terms.all_limits, terms.order, left=True)
    table = [("currency", "spent", "left", "limit")]
    table += [
        (name, used, rest, most)
        for (name, used), (_, rest), (_, most) in zip(spent.lines(), left.lines(), limit.lines(), strict=True)
    ]
    widths = [max(len(line[i]) for line in table) for i in range(4)]
    body = ["  ".join(word.ljust(width) for word, width in zip(line, widths, strict=True)).rstrip() for line in table]
    counted = f", parts counted in {settings.currency}" if settings.currency else ""
    if len(terms.limits) > 1 and not counted and percent_currency(settings, seen):
        counted = f", % of {percent_currency(settings, seen)}"
    facts = f"{settings.total}, {times(seen)}, neighbours {settings.neighbours}, unit {settings.unit}{counted}"
    if last is not None:
        body.append(f"last: {last}")
    if others:
        body.append(f"other ledgers there: {', '.join(others)}")
    if obstacle is not None:
        body.append(obstacle)
    return "\n  ".join([f"{percent(settings, seen)} % spent: ledger {place}", facts, *body])


def percent(settings: Settings, seen: History) -> int:
    """How much is spent, in whole percent rounded up: in the currency of parts, else by the rule with the most room."""
    _, share = counted_share(settings, seen)
    return min(math.ceil(100 * (share - _TINY)), 100)


def percent_currency(settings: Settings, seen: History) -> str:
    """The currency in which `percent` counts, in words; empty where charge 1 took the whole promise."""
    currency, _ = counted_share(settings, seen)
    return "" if currency is None else currency_name(currency, settings.terms.order)


def counted_share(settings: Settings, seen: History) -> tuple[Currency | None, Fraction]:
    """The currency in which `percent` counts, if there is one, and the part of it that is spent."""
    limits: dict[Currency, Fraction] = dict(settings.terms.limits)
    shares = {c: _share(amount, limits[c]) for c, amount in seen.sums.items() if amount is not None and c in limits}
    counted = settings.counted
    if counted in shares:
        return counted, shares[counted]
    return min(shares.items(), key=lambda pair: pair[1], default=(None, Fraction(1)))


def spending(terms: Terms, amounts: Amounts) -> Spending:
    """Amounts in the ledger's currencies."""
    return Spending(tuple((c, amounts[c]) for c in terms.currencies), terms.order)


def left_of(terms: Terms, sums: Amounts) -> Spending:
    """What is left of each limit."""
    pairs = ((currency, limit, sums[currency]) for currency, limit in terms.all_limits)
    rest = tuple((c, None if spent is None else max(limit - spent, Fraction(0))) for c, limit, spent in pairs)
    return Spending(rest, terms.order, left=True)


def times(seen: History) -> str:
    """How many charges there were, in words."""
    return "1 charge" if seen.charges == 1 else f"{seen.charges} charges"


def _share(amount: Fraction, limit: Fraction) -> Fraction:
    return amount / limit if limit else Fraction(1 if amount else 0)
