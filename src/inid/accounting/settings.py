"""What is fixed when a ledger is made: the total, the rule with its limits, the neighbouring relation and the unit."""

import json
from dataclasses import dataclass
from typing import Literal, Self, get_args

from inid.accounting.rules import Rule, Terms, make_terms, terms_from_dict
from inid.arguments import choice, shown
from inid.errors import ArgumentError, BudgetError, RecordError
from inid.promises import Budget, budget_from_dict
from inid.sets import Neighbours

__all__ = ["Settings", "read_word"]

_FIELDS = ("total", "rule", "neighbours", "unit", "terms")


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

    @classmethod
    def make(cls, total: Budget, rule: str = "auto", neighbours: str = "add_remove", unit: str = "row") -> Self:
        """Read the arguments of a new ledger.

        Raises:
            ArgumentError: One of them is malformed.
        """
        terms = make_terms(total, rule)
        relation = _relation(neighbours)
        return cls(total, "gaussian" if rule == "gaussian" else "auto", relation, read_word("unit", unit), terms)

    def to_text(self) -> str:
        """One line of JSON; what the ledger's chain of digests starts from."""
        return json.dumps(
            {
                "total": self.total.to_dict(),
                "rule": self.rule,
                "neighbours": self.neighbours,
                "unit": self.unit,
                "terms": self.terms.to_dict(),
            },
            sort_keys=True,
        )

    @classmethod
    def from_text(cls, text: object) -> Self:
        """The settings that `to_text` wrote; their limits are proved again.

        Raises:
            RecordError: The text does not parse, or its limits exceed the promise.
        """
        try:
            record = json.loads(text) if isinstance(text, str) else None
        except ValueError:
            record = None
        if not (isinstance(record, dict) and set(record) == set(_FIELDS)):
            raise RecordError(f"the ledger's settings do not parse: they must hold exactly {', '.join(_FIELDS)}.")
        rule: Literal["auto", "gaussian"] = "gaussian" if record["rule"] == "gaussian" else "auto"
        total = budget_from_dict(record["total"])
        try:
            made = cls.make(total, record["rule"], record["neighbours"], record["unit"])
        except ArgumentError as error:
            raise RecordError(f"the ledger's settings do not parse: {error}") from None
        return cls(total, rule, made.neighbours, made.unit, terms_from_dict(record["terms"], total, rule))

    def require(
        self, total: Budget | None, rule: str | None, neighbours: str | None, unit: str | None, where: str
    ) -> None:
        """Refuse to open a ledger under other settings than its own; None stands for whatever is stored.

        Raises:
            BudgetError: A setting differs from the stored one.
        """
        wanted = {"total": total, "rule": rule, "neighbours": neighbours, "unit": unit}
        for name, value in wanted.items():
            stored = getattr(self, name)
            if value is not None and value != stored:
                own = f'{name}="{stored}"' if isinstance(stored, str) else f"{name}={stored}"
                raise BudgetError(
                    f"the ledger in {where} was made with {own}, not {shown(value)}, and that never changes: "
                    f"leave {name} out to use it, or open another ledger by name=..."
                )


def read_word(name: str, value: object, *, empty: bool = False) -> str:
    """A short text that every store can hold: no NUL, encodable, and not empty unless that is allowed.

    Raises:
        ArgumentError: It is anything else.
    """
    cure = "pass a plain string"
    if not isinstance(value, str) or (not value and not empty):
        raise ArgumentError(f"{name} must be a {'' if empty else 'non-empty '}string, got {shown(value)}: {cure}.")
    if "\x00" in value or not value.encode(errors="replace").decode() == value:
        raise ArgumentError(f"{name} must be text without NUL and unpaired surrogates, got {shown(value)}: {cure}.")
    return str(value)


def _relation(value: object) -> Neighbours:
    return choice("neighbours", value, get_args(Neighbours))  # type: ignore[return-value]
