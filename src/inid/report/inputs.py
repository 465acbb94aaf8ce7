"""Report inputs: plain values that hold everything the page shows. Public facts and released numbers only."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from inid.promises import Budget
from inid.report.number_text import spent_and_left
from inid.report.plan_summary import PlanSummary

if TYPE_CHECKING:
    from inid.accounting import Ledger, Record
    from inid.accounting.amounts import Spending

__all__ = ["ColumnFacts", "Dimension", "Estimate", "EstimateBlock", "LedgerState", "ReportInputs"]


@dataclass(frozen=True)
class Estimate:
    """One published number, its interval for the noise, and the standard deviation of the noise.

    Attributes:
        statistic: For example "mean".
        column: The column, or two separated by a comma; empty for a count.
        groups: The cell, for example "sex=F"; empty when there is only one.
        estimate: The private answer; None where it does not exist.
        lower: The lower end of the interval.
        upper: The upper end.
        std: The standard deviation of the noise in the estimate.
        keys: The key of each column that groups, and under "cell" the cell of a histogram.
        scale: The scale of one noise of the plan's kind with this `std`: the old measure, for one more version.
        too_noisy: Whether its interval is wider than what the publisher stated as the limit.
    """

    statistic: str
    column: str
    groups: str
    estimate: float | None
    lower: float | None
    upper: float | None
    std: float | None
    keys: Mapping[str, str | int | bool] = field(default_factory=dict)
    scale: float | None = None
    too_noisy: bool = False

    def to_dict(self) -> dict[str, Any]:
        """A JSON-safe dictionary of the number as it was released."""
        names = ("statistic", "column", "groups", "estimate", "lower", "upper", "std", "scale")
        return {name: getattr(self, name) for name in names} | {"keys": dict(self.keys)}


@dataclass(frozen=True)
class Dimension:
    """One key that estimates are grouped by, and the names of its public values.

    Attributes:
        name: The column, or what people call it.
        levels: What its values are called.
        suffix: What stands behind the name, such as "up to".
    """

    name: str
    levels: tuple[str, ...]
    suffix: str = ""

    @property
    def heading(self) -> str:
        """What stands above its values."""
        return f"{self.name} {self.suffix}".strip()


@dataclass(frozen=True)
class EstimateBlock:
    """One statistic in all its groups.

    Attributes:
        statistic: For example "mean".
        column: The column, or two separated by a comma; empty for a count.
        dimensions: What it is grouped by; for a histogram the last one is its cells.
        estimates: One per combination of levels, the last dimension running fastest.
        bounds: The public bounds of the column, over which means are drawn.
        totals: Over everything but some dimensions, which the key lists by position: () is over all of them.
        span: What its first dimension runs over, in words, where that is no key: "in each period".
        called: What its columns are called, where people have words for them.
    """

    statistic: str
    column: str
    dimensions: tuple[Dimension, ...]
    estimates: tuple[Estimate, ...]
    bounds: tuple[float, float] | None = None
    totals: Mapping[tuple[int, ...], tuple[Estimate, ...]] = field(default_factory=dict)
    span: str = ""
    called: str = ""


@dataclass(frozen=True)
class ColumnFacts:
    """The public facts of one column, in words."""

    name: str
    statistics: str
    bounds: str
    missing: str


@dataclass(frozen=True)
class LedgerState:
    """What a ledger holds at one moment, as plain values.

    Attributes:
        total: The promise that all its charges together keep.
        rule: Its composition rule.
        neighbours: Its neighbouring relation.
        unit: What one neighbour differs in.
        charges: How many charges it has taken.
        percent: How much of it is spent, in whole percent rounded up.
        counted: In which currency the percent are counted, in words; empty where one charge took all.
        spent: What is spent, exactly, by currency.
        left: What is left, exactly, by currency.
        lines: (currency, spent, left) as decimals in print; a dash where a currency cannot count.
        shares: How much of it each charge took, counted as `percent` is.
        parts: What is spent and what is left, as people say it: ("1/3", "2/3").
    """

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

    @classmethod
    def of(cls, ledger: "Ledger") -> "LedgerState":
        """The state of a ledger now.

        >>> import inid
        >>> LedgerState.of(inid.Ledger(total=inid.PureDP(epsilon=1.0))).lines
        (('epsilon', '0', '1'),)
        """
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
        )

    @property
    def closed(self) -> bool:
        """Whether one charge took the whole promise, so that no currency counts what is left."""
        return all(used == "-" for _, used, _ in self.lines)

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
    """Everything that the page shows.

    Attributes:
        title: The heading.
        plan: The plan beside its baselines.
        unit: Who is protected, in words, for example "one row".
        question: Term and description of each public fact of the question.
        columns: The public facts of each column.
        blocks: What was released, statistic by statistic; empty for a plan that was not released.
        level: The probability of the intervals.
        time: When the release was made; None for a plan.
        private: False when the noise was drawn by a test's source.
        charge: The number of the charge in the ledger's history, or None when no ledger was charged.
        ledger: The ledger as it was found after the charge, or None when it is not shown.
        digest: The digest of the release's record, or None.
        too_noisy: The share of the estimate beyond which an interval is marked as too wide; None marks none.
        things: What the rows of the table are, such as "people".
        only: Which rows count, where not all do.
        answers: Answers that are no numbers, as term and text.
        lead: What else was published, in sentences.
    """

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
