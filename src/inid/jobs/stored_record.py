"""What a stored record published, to be shown again: proved anew from its own numbers first."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, product
from typing import Any

from inid.report import Dimension, Estimate, EstimateBlock
from inid.tables import DiscoveryQuestion, MarginalsQuestion, Question, verify_result
from inid.tables.questions.discovery.report_inputs import found_blocks
from inid.tables.report_inputs import choice_facts, statistic_blocks

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
    """The answers of a record that `verify_result` accepts.

    Raises:
        RecordError: The record does not parse, or was changed.
        GuaranteeError: Its plan does not keep its promise, or the noise was not real.
    """
    verify_result(record)
    question, level = record["question"], float(record["level"])
    if "tables" in record:
        return PublishedBefore([*_tables(record), *_combinations(record)], level)
    estimates = [Estimate(**row) for row in record["results"]]
    if "choose" in question:
        return PublishedBefore([], level, choice_facts(estimates[0], level))
    if "discover" in question:
        found = DiscoveryQuestion.from_dict(question)
        return PublishedBefore(found_blocks(found, record["found"], estimates, {}), level)
    if "ordered" in question:
        return PublishedBefore(_alike(estimates, question.get("bounds", {})), level)
    return PublishedBefore(statistic_blocks(Question.from_dict(question), estimates, {}), level)


def _alike(estimates: Sequence[Estimate], bounds: Mapping[str, Any]) -> list[EstimateBlock]:
    """Lines of the same statistic, column and kinds of keys, one block each."""
    blocks = []
    for (statistic, column, names), members in groupby(estimates, lambda e: (e.statistic, e.column, tuple(e.keys))):
        listed = tuple(members)
        levels = [tuple(dict.fromkeys(str(one.keys[name]) for one in listed)) for name in names]
        dimensions = [Dimension(_named(name, column), own) for name, own in zip(names, levels, strict=True)]
        if math.prod(map(len, levels)) != len(listed):  # the keys make no table: one line each
            dimensions = [Dimension("group", tuple(one.groups for one in listed))]
        blocks.append(EstimateBlock(statistic, column, tuple(dimensions), listed, bounds.get(column)))
    return blocks


def _named(key: str, column: str) -> str:
    """What a key is called that the library made: the point of a curve."""
    return {"up_to": f"{column} up to", "p": "probability"}.get(key, key)


def _tables(record: Mapping[str, Any]) -> list[EstimateBlock]:
    question = MarginalsQuestion.from_dict(record["question"])
    blocks = []
    for asked, table in zip(question.statistics, record["tables"], strict=True):
        levels = [tuple(map(str, question.domains.levels(name))) for name in asked.table]
        dimensions = tuple(Dimension(name, own) for name, own in zip(asked.table, levels, strict=True))
        cells = [", ".join(map("=".join, zip(asked.table, cell, strict=True))) for cell in product(*levels)]
        middle, reach = table["estimate"], table.get("reach")
        low = table["lower"] if reach is None else [value - reach for value in middle]
        high = table["upper"] if reach is None else [value + reach for value in middle]
        lines = tuple(
            Estimate(asked.kind, asked.column, *one, scale=None) for one in zip(cells, middle, low, high, strict=True)
        )
        blocks.append(EstimateBlock(asked.kind, asked.column, dimensions, lines))
    return blocks


def _combinations(record: Mapping[str, Any]) -> list[EstimateBlock]:
    lines = [
        Estimate("combination", one["name"], "", one["estimate"], one["lower"], one["upper"], scale=None)
        for one in record.get("combinations", [])
    ]
    return [EstimateBlock("combination", line.column, (), (line,)) for line in lines]
