"""Spending one promise on the counts of keys that nobody listed."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from inid.mechanisms import Mechanism
from inid.planning import NoisePlan
from inid.promises import ApproxDP
from inid.report import PlanLine, PlanSummary
from inid.report.number_text import plain_number
from inid.tables.plan import Plan, whole_promise

if TYPE_CHECKING:
    from inid.tables.questions.discovery.kind import Discovery

__all__ = ["DiscoveryPlan"]


@dataclass(frozen=True, eq=False)
class DiscoveryPlan(Plan):
    """The noise of each count, and the threshold. Made by `DiscoveryQuery.plan`.

    Attributes:
        noise: The certified plan of the noise: that of one number which moves as far as all counts together.
        question: What is asked.
    """

    noise: NoisePlan
    question: "Discovery"

    @property
    def threshold(self) -> float:
        """What a noisy count must reach for its key to appear."""
        return self.question.threshold(self.noise)

    @property
    def delta(self) -> float:
        return self.question.asked.delta

    @property
    def std(self) -> float:
        """The standard deviation of the noise in each count."""
        return float(self.noise.scales[0]) * Mechanism.named(self.mechanism).deviation

    @property
    def whole_promise(self) -> ApproxDP | None:
        """The promise of noise and threshold together; None where the noise's is not an epsilon with a delta."""
        return whole_promise(self.noise.stated, self.delta)

    def summary(self) -> PlanSummary:
        """The plan in one line: the noise of each count. It has no baseline: there is one way to spend it."""
        label, std = f"{self.question.statistic} by {self.question.column}", self.std
        line = PlanLine(label, 1.0, std, None, {"iid": std, "spr": std})
        remark = (
            f"A key appears when its noisy count is at least {plain_number(self.threshold)}. One that only one person "
            f"has does so with probability {self.delta:g} at most, which is charged beside the noise."
        )
        return PlanSummary(self.noise, (line,), {"iid": 1.0, "spr": 1.0}, remark, opponent=None)

    def to_dict(self) -> dict[str, Any]:
        """A JSON-safe dictionary: the noise plan's own record, the threshold and its delta."""
        found = {"threshold": self.threshold, "delta": self.delta, "std": self.std}
        return {"noise": self.noise.to_dict(), **found, **self.question.view.to_dict()}

    def __str__(self) -> str:
        asked, person = self.question.asked, self.question.contribution
        counted = "people" if person.people else "rows"
        keys = "one key" if person.most_keys == 1 else f"up to {person.most_keys} keys"
        rows = "one row" if person.rows == 1 else f"up to {person.rows:,} rows"
        lines = [
            f"{self.mechanism.capitalize()} noise on the number of {counted} of each {self.question.column}",
            f"promise: {self.budget}, and delta={asked.delta:g} for keys that only one person has",
            f"neighbours: {self.noise.sensitivity.neighbours}, one person has {keys} and {rows}",
            "",
            f"std of each count: {self.std:.4g}",
            f"a key appears when its noisy count is at least {self.threshold:.6g}",
        ]
        return "\n".join(lines)
