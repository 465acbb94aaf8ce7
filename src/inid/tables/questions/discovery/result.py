"""What a release of keys that nobody listed returns."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from inid.errors import ArgumentError
from inid.tables.facts import Key
from inid.tables.presentation import answer_columns, short_table
from inid.tables.questions.discovery.plan import DiscoveryPlan
from inid.tables.result import NOT_PRIVATE, Result
from inid.tables.table import Table

if TYPE_CHECKING:
    from inid.tables.questions.discovery.kind import Discovery

__all__ = ["NEAR", "DiscoveryResult"]

NEAR = "near_threshold"


@dataclass(frozen=True, eq=False)
class DiscoveryResult(Result):
    """Keys that appeared, with their noisy counts.

    An interval holds the exact count with the probability `level`, where it is not near the threshold.
    """

    question: "Discovery"
    plan: DiscoveryPlan

    @property
    def keys(self) -> tuple[Key, ...]:
        """The keys that appeared, in order."""
        return self.found

    @property
    def by(self) -> dict[str, list[Key]]:
        """The keys as `query(by=...)` takes them: other statistics by these keys are a second release.

        Raises:
            ArgumentError: No key appeared.
        """
        if not self.keys:
            raise ArgumentError(f"no key of {self.question.column!r} reached the threshold, so there are no groups.")
        return {self.question.column: list(self.keys)}

    def apply(self, table: Table) -> Table:
        """The same table with the keys that appeared as the public domain of their column, for tables of counts."""
        return table.with_domains(self.by)

    def to_frame(self, **form: Any) -> Any:
        """See `Result.to_frame`; with a column `near_threshold`."""
        if self.lines:
            return super().to_frame(**form)
        # The same columns, so that code which reads them does not stop.
        return self.source.answer(answer_columns((), keys=(self.question.column, NEAR)))

    def __str__(self) -> str:
        head = f"{len(self.keys)} keys under {self.plan.budget} and delta={self.plan.delta:g}"
        head += "" if self.private else NOT_PRIVATE
        if not self.keys:
            kind = {"str": "texts", "int": "whole numbers", "bool": "booleans"}[self.question.asked.kind]
            return f"{head}\nNo {self.question.column} reached {self.plan.threshold:.6g}; {kind} were looked for."
        note = (
            f"Near the threshold, {self.plan.threshold:.6g}, an interval may not hold: small counts appear by chance."
        )
        near = any(row.keys[NEAR] for row in self.lines)
        return short_table(self.lines, head, self.level) + (f"\n{note}" if near else "")

    def _answers_record(self) -> dict[str, Any]:
        return self._found_record | super()._answers_record()

    @property
    def _found_record(self) -> dict[str, Any]:
        return {"found": list(self.keys), "threshold": self.plan.threshold}
