"""What is fixed when a ledger is made: the total, the rule with its limits, the neighbouring relation and the unit."""

import json
from dataclasses import dataclass, replace
from typing import Literal, Self, get_args

from inid.accounting.amounts import Currency
from inid.accounting.rules import Rule, Terms, make_terms, read_reserve, terms_from_dict
from inid.accounting.short_texts import read_word
from inid.arguments import choice, shown
from inid.errors import ArgumentError, BudgetError, RecordError
from inid.promises import Budget, budget_from_dict
from inid.sets import Neighbours

__all__ = ["Settings", "read_currency"]

_FIELDS = ("total", "rule", "neighbours", "unit", "terms")
_OPTIONAL = ("currency", "reserve")  # written only where it was stated, so that ledgers made before read as they are
_NAMES: tuple[Currency, ...] = get_args(Currency)
_WORDS: dict[str, Currency] = {**{name: name for name in _NAMES}, "mu^2": "mu_squared"}


@dataclass(frozen=True)
class Settings:
    """The part of a ledger that never changes.

    >>> import inid
    >>> settings = Settings.make(inid.PureDP(epsilon=1.0))
    >>> Settings.from_text(settings.to_text()) == settings
    True
    """

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
        """Read the arguments of a new ledger.

        Raises:
            ArgumentError: One of them is malformed.
        """
        terms = make_terms(total, rule, order, reserve)
        relation = _relation(neighbours)
        counted = None if currency is None else read_currency(currency, terms)
        named: Rule = "gaussian" if rule == "gaussian" else "auto"
        kept = None if reserve is None else read_reserve(total, reserve)
        return cls(total, named, relation, read_word("unit", unit), terms, counted, kept)

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
        stated = {name: getattr(self, name) for name in _OPTIONAL if getattr(self, name) is not None}
        return json.dumps(record | stated, sort_keys=True)

    @classmethod
    def from_text(cls, text: object) -> Self:
        """The settings that `to_text` wrote; their limits are proved again.

        Raises:
            RecordError: The text does not parse, or its limits exceed the promise.
        """
        try:
            record = json.loads(text) if isinstance(text, str) else None
        except (ValueError, RecursionError):
            record = None
        if not (isinstance(record, dict) and set(_FIELDS) <= set(record) <= {*_FIELDS, *_OPTIONAL}):
            raise RecordError(
                f"the ledger's settings do not parse: they must hold {', '.join(_FIELDS)}, and beside them at most "
                f"{', '.join(_OPTIONAL)}. A later version of inid may have written them: use that one."
            )
        rule: Literal["auto", "gaussian"] = "gaussian" if record["rule"] == "gaussian" else "auto"
        total = budget_from_dict(record["total"])
        try:
            reserve = record.get("reserve")
            plain = (record["rule"], record["neighbours"], record["unit"], record.get("currency"))
            made = cls.make(total, *plain, reserve=reserve)
        except ArgumentError as error:
            raise RecordError(f"the ledger's settings do not parse: {error}") from None
        return replace(made, terms=terms_from_dict(record["terms"], total, rule, made.reserve))

    def require(self, where: str, **wanted: object) -> None:
        """Refuse to open a ledger under other settings than its own; None stands for whatever is stored.

        Raises:
            BudgetError: A setting differs from the stored one.
        """
        for name, value in wanted.items():
            stored = self.counted if name == "currency" else getattr(self, name)
            asked = _WORDS.get(value, value) if name == "currency" and isinstance(value, str) else value
            if asked is not None and asked != stored:
                own = f'{name}="{stored}"' if isinstance(stored, str) else f"{name}={stored}"
                raise BudgetError(
                    f"the ledger in {where} was made with {own}, not {shown(value)}, and that never changes: "
                    f"leave {name} out to use it, or open another ledger by name=..."
                )


def read_currency(value: object, terms: Terms) -> Currency:
    """One of the currencies that a ledger counts, by its name or as "mu^2".

    Raises:
        ArgumentError: It is anything else.
    """
    known = _WORDS.get(value) if isinstance(value, str) else None
    if known not in dict(terms.limits):
        listed = ", ".join('"mu^2"' if name == "mu_squared" else f'"{name}"' for name, _ in terms.limits)
        raise ArgumentError(f"currency must be one of {listed} for this total, got {shown(value)}.")
    return known


def _relation(value: object) -> Neighbours:
    return choice("neighbours", value, get_args(Neighbours))  # type: ignore[return-value]
