"""What a stored record published, to be shown again: proved anew from its own numbers first."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from inid.report import Estimate, EstimateBlock
from inid.tables.presentation import Words
from inid.tables.publication.record import is_publication, verify_publication
from inid.tables.report_inputs import as_estimates, marked, published_blocks, things_of
from inid.tables.result import TOO_NOISY
from inid.tables.verification import proved

__all__ = ["PublishedBefore", "read_published"]


@dataclass(frozen=True)
class PublishedBefore:
    """The answers of a record.

    Attributes:
        blocks: What was released, statistic by statistic.
        level: The probability of the intervals.
        facts: Answers that are no numbers, as term and text.
        things: What the rows of the table are.
        only: Which rows count, where not all do.
    """

    blocks: Sequence[EstimateBlock]
    level: float
    facts: Sequence[tuple[str, str]] = ()
    things: str = "rows"
    only: str = ""


def read_published(record: Mapping[str, Any]) -> dict[str, PublishedBefore]:
    """The answers of a record that `verify_result` accepts, made anew of its noisy numbers.

    Returns:
        Those of each of several questions by its name; one question alone has no name.

    Raises:
        RecordError: The record does not parse, or was changed.
        GuaranteeError: Its plan does not keep its promise, or the noise was not real.
    """
    if not is_publication(record):
        return {"": _published(record)}
    verify_publication(record)
    return {name: _published(record["results"][name]) for name in record["names"]}


def _published(record: Mapping[str, Any]) -> PublishedBefore:
    found = proved(record)
    estimates = [marked(one, TOO_NOISY) for one in as_estimates(found.rows)]
    blocks = published_blocks(found.question, found.releases[-1], found.level, estimates, Words(), TOO_NOISY)
    lines = [
        marked(
            Estimate("combination", one["name"], "", one["estimate"], one["lower"], one["upper"], one["std"]), TOO_NOISY
        )
        for one in record.get("combinations", [])
    ]
    blocks += [EstimateBlock("combination", line.column, (), (line,)) for line in lines]
    return PublishedBefore(
        blocks,
        found.level,
        found.question.answered_facts(found.rows, found.level),
        things_of(found.question.person, None),
        "" if found.question.view.where is None else str(found.question.view.where),
    )
