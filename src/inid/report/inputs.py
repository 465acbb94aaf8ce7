"""Report inputs: plain values that hold everything the page shows. Public facts and released numbers only."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from inid.promises import Budget
from inid.report.plan_summary import PlanSummary
from inid.report.wording import promise_symbols, spent_and_left

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
    keys: Mapping[str, str | int | bool] = field(default_factory=dict)
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
    """What a ledger holds at one moment, as plain values."""

    total: Budget
    rule: str
    neighbours: str
    unit: str
    charges: int
    percent: int
    counted: str
    spent: Mapping[str, Any]
    left: Mapping[str, Any]
    lines: tuple[tuple[str, str, str], ...]
    shares: Mapping[int, Fraction] = field(default_factory=dict)
    parts: tuple[str, str] = ("", "")
    fits: tuple[Budget, ...] = ()

    @classmethod
    def of(cls, ledger: "Ledger") -> "LedgerState":
        """The state of a ledger now."""
        spent, left = ledger.spent(), ledger.remaining()
        lines = tuple((name, used, rest) for (name, used), (_, rest) in zip(spent.lines(), left.lines(), strict=True))
        records = ledger.history()
        return cls(
            ledger.total,
            ledger.rule,
            ledger.neighbours,
            ledger.unit,
            len(records),
            ledger.percent_spent(),
            ledger.percent_currency(),
            spent.to_dict(),
            left.to_dict(),
            lines,
            _shares(records, spent, left, ledger.percent_currency()),
            _parts(spent, left, ledger.percent_currency()),
            left.fits,
        )

    @property
    def closed(self) -> bool:
        """Whether one charge took the whole promise, so that no currency counts what is left."""
        return all(used == "-" for _, used, _ in self.lines)

    def still_fits(self, written: Callable[[Budget], str] = promise_symbols) -> str:
        """The largest promises for which the ledger has room: what page, report and command say is left."""
        if not self.fits:
            return "Everything is spent: no further release fits."
        return f"What still fits: {', or '.join(map(written, self.fits))}."

    def to_dict(self) -> dict[str, Any]:
        """A JSON-safe dictionary."""
        return {
            "total": self.total.to_dict(),
            "rule": self.rule,
            "neighbours": self.neighbours,
            "unit": self.unit,
            "charges": self.charges,
            "percent_spent": self.percent,
            "percent_currency": self.counted,
            "spent": dict(self.spent),
            "left": dict(self.left),
            "lines": [{"currency": name, "spent": used, "left": rest} for name, used, rest in self.lines],
        }


def _shares(records: "Sequence[Record]", spent: "Spending", left: "Spending", counted: str) -> dict[int, Fraction]:
    """What each charge took, in whole percent of the ledger in one of its currencies."""
    names = [name for name, _ in spent.lines()]
    if counted not in names:
        return {}
    at = names.index(counted)
    limit = (spent.amounts[at][1] or 0) + (left.amounts[at][1] or 0)
    costs = ((record.id, record.cost.amounts[at][1]) for record in records)
    return {charge: min(cost / limit, Fraction(1)) for charge, cost in costs if cost is not None and limit}


def _parts(spent: "Spending", left: "Spending", counted: str) -> tuple[str, str]:
    """What is spent and what is left, in one of the currencies; all of it is spent where none counts."""
    names = [name for name, _ in spent.lines()]
    used, rest = (amounts.amounts[names.index(counted)][1] if counted in names else None for amounts in (spent, left))
    if used is None or rest is None or not used + rest:
        return "100 %", "0 %"
    return spent_and_left(used / (used + rest))


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
