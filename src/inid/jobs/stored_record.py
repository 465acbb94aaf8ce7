"""What a stored record published, to be shown again: proved anew from its own numbers first."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from inid.report import Estimate, EstimateBlock
from inid.tables.report_inputs import as_estimates
from inid.tables.verification import proved

__all__ = ["PublishedBefore", "read_published"]


@dataclass(frozen=True)
class PublishedBefore:
    """The answers of a record.

    Attributes:
        blocks: What was released, statistic by statistic.
        level: The probability of the intervals.
        facts: Answers that are no numbers, as term and text.
    """

    blocks: Sequence[EstimateBlock]
    level: float
    facts: Sequence[tuple[str, str]] = ()


def read_published(record: Mapping[str, Any]) -> PublishedBefore:
    """The answers of a record that `verify_result` accepts, made anew of its noisy numbers.

    Raises:
        RecordError: The record does not parse, or was changed.
        GuaranteeError: Its plan does not keep its promise, or the noise was not real.
    """
    found = proved(record)
    blocks = found.question.blocks(as_estimates(found.rows), {})
    lines = [
        Estimate("combination", one["name"], "", one["estimate"], one["lower"], one["upper"], one["std"])
        for one in record.get("combinations", [])
    ]
    blocks += [EstimateBlock("combination", line.column, (), (line,)) for line in lines]
    return PublishedBefore(blocks, found.level, found.question.answered_facts(found.rows, found.level))
