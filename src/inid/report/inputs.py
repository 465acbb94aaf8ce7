"""Report inputs: plain values that hold everything the page shows. Public facts and released numbers only."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from inid.accounting.admission import Room, share_in_words
from inid.promises import Budget
from inid.report.plan_summary import PlanSummary
from inid.report.wording import promise_symbols

if TYPE_CHECKING:
    from inid.accounting import Ledger, Record
    from inid.accounting.costs import Spending


@dataclass(frozen=True)
class Estimate:
    """One published number, its interval for the noise, and the standard deviation of the noise."""

    statistic: str
    column: str
    groups: str
    estimate: float | None
    lower: float | None
    upper: float | None
    std: float | None
    keys: Mapping[str, str | int | bool | float] = field(default_factory=dict)
    too_noisy: bool = False

    def to_dict(self) -> dict[str, Any]:
        """A JSON-safe dictionary of the number as it was released."""
        names = ("statistic", "column", "groups", "estimate", "lower", "upper", "std")
        return {name: getattr(self, name) for name in names} | {"keys": dict(self.keys)}


@dataclass(frozen=True)
class Dimension:
    """One key that estimates are grouped by, and the names of its public values."""

    name: str
    levels: tuple[str, ...]
    suffix: str = ""
    drops: bool = False  # whether rows with other values, or none, are left out

    @property
    def heading(self) -> str:
        """What stands above its values."""
        return f"{self.name} {self.suffix}".strip()


@dataclass(frozen=True)
class EstimateBlock:
    """One statistic in all its groups."""

    statistic: str
    column: str
    dimensions: tuple[Dimension, ...]
    estimates: tuple[Estimate, ...]
    bounds: tuple[float, float] | None = None
    totals: Mapping[tuple[int, ...], tuple[Estimate, ...]] = field(default_factory=dict)
    span: str = ""
    called: str = ""
    things: str = ""


@dataclass(frozen=True)
class ColumnFacts:
    """The public facts of one column, in words."""

    name: str
    statistics: str
    bounds: str
    missing: str


@dataclass(frozen=True)
class LedgerState:
    """What a ledger holds at one moment, as plain values; `room` is what is left, for a release of one kind."""

    total: Budget
    rule: str
    neighbours: str
    unit: str
    charges: int
    room: Room
    spent: Mapping[str, Any]
    left: Mapping[str, Any]
    lines: tuple[tuple[str, str, str, str], ...]
    shares: Mapping[int, Fraction] = field(default_factory=dict)
    fits: tuple[Budget, ...] = ()

    @classmethod
    def of(cls, ledger: "Ledger", charge: int | None = None) -> "LedgerState":
        """The state of a ledger now, for releases of the kind of one of its charges, by default of the last."""
        spent, left, records = ledger.spent(), ledger.remaining(), ledger.history()
        room = ledger.room(next((record for record in records if record.id == charge), None))
        return cls(
            ledger.total,
            ledger.rule,
            ledger.neighbours,
            ledger.unit,
            len(records),
            room,
            spent.to_dict(),
            left.to_dict(),
            tuple(ledger.lines()),
            _shares(records, spent, left, room),
            left.fits,
        )

    @property
    def closed(self) -> bool:
        """Whether one charge took the whole promise, so that no currency counts what is left."""
        return all(used == "-" for _, used, _, _ in self.lines)

    @property
    def percent(self) -> int:
        """What is spent in whole percent, rounded up."""
        return math.ceil(100 * (1 - self.room.share) - Fraction(1, 10**9))

    @property
    def left_share(self) -> str:
        """The share of the ledger that is left for a release of this kind."""
        return share_in_words(self.room.share)

    def still_fits(self, written: Callable[[Budget], str] = promise_symbols) -> str:
        """What is left, in one sentence: what page, report and command say."""
        return self.room.in_words(written)

    def all_that_fits(self, written: Callable[[Budget], str] = promise_symbols) -> str:
        """The largest release of every kind, counted by whichever rule leaves it most."""
        return ", or ".join(map(written, self.fits))

    def to_dict(self) -> dict[str, Any]:
        """A JSON-safe dictionary."""
        return {
            "total": self.total.to_dict(),
            "rule": self.rule,
            "neighbours": self.neighbours,
            "unit": self.unit,
            "charges": self.charges,
            "left_share": float(self.room.share),
            "left_promise": None if self.room.promise is None else self.room.promise.to_dict(),
            "spent": dict(self.spent),
            "left": dict(self.left),
            "lines": [
                {"currency": name, "spent": used, "left": rest, "limit": most} for name, used, rest, most in self.lines
            ],
        }


def _shares(records: "Sequence[Record]", spent: "Spending", left: "Spending", room: Room) -> dict[int, Fraction]:
    """What each charge took of the ledger, in the currency in which what is left is counted."""
    sums, rests = dict(spent.amounts), dict(left.amounts)
    if room.currency is None or sums.get(room.currency) is None:
        return {}
    limit = (sums[room.currency] or 0) + (rests[room.currency] or 0)
    costs = ((record.id, dict(record.cost.amounts).get(room.currency)) for record in records)
    return {charge: min(cost / limit, Fraction(1)) for charge, cost in costs if cost is not None and limit}


@dataclass(frozen=True)
class ReportInputs:
    """Everything that the page shows."""

    title: str
    plan: PlanSummary
    unit: str = "one person's contribution"
    question: Sequence[tuple[str, str]] = ()
    columns: Sequence[ColumnFacts] = ()
    blocks: Sequence[EstimateBlock] = ()
    level: float = 0.95
    time: str | None = None
    private: bool = True
    charge: int | None = None
    ledger: LedgerState | None = None
    digest: str | None = None
    too_noisy: float | None = None
    things: str = "rows"
    only: str = ""
    answers: Sequence[tuple[str, str]] = ()
    lead: str = ""
    sampled: str = ""
    row_limit: str = ""
