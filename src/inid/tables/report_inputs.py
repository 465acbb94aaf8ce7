"""From a question, its plan and its answers to what the report shows."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from inid.arguments import listed
from inid.report import ColumnFacts, Dimension, Estimate, ReportInputs
from inid.report.number_text import plain_number
from inid.tables.facts import Person
from inid.tables.presentation import COUNTED, NUMBERS, Labels, labelled, noisy_rows
from inid.tables.result import PageFacts, Result, Row
from inid.tables.view import View

__all__ = [
    "as_estimates",
    "column_facts",
    "key_word",
    "listed_keys",
    "named_levels",
    "protected_unit",
    "protection",
    "published_estimates",
    "report_inputs",
    "view_facts",
]

_FEW, _MANY = 6, 40  # keys that are listed one by one, and those that are listed at all
_RELATIONS = {
    "add_remove": "with or without any one of them",
    "replace": "with any one of them replaced by another",
    "zero_out": "with any one of them adding nothing: 0 to every sum and every count",
}


def as_estimates(rows: Iterable[Row]) -> tuple[Estimate, ...]:
    """Answers as plain values; a number that is not finite becomes None."""
    found = []
    for row in rows:
        parts = row.to_dict()
        found.append(Estimate(**parts | {name: _finite(parts[name]) for name in NUMBERS}))
    return tuple(found)


def published_estimates(
    result: Result, *, tidy: bool = False, integers: bool = False, too_noisy: float | None = None
) -> tuple[Estimate, ...]:
    """The answers as they are published, those that are too noisy marked; see `Result.report`.

    Raises:
        ArgumentError: The answers have no such form.
    """
    found = as_estimates(result.shown(tidy=tidy, integers=integers))
    if integers:
        found = tuple(_whole(one) for one in found)
    if too_noisy is None:
        return found
    flags = noisy_rows(result.shown(), too_noisy)
    return tuple(replace(one, too_noisy=flag) for one, flag in zip(found, flags, strict=True))


def _whole(one: Estimate) -> Estimate:
    """A count that is whole as an integer of Python, so that files say 194 and not 194.0."""
    if one.statistic not in COUNTED:
        return one
    estimate, lower, upper = (None if x is None else int(x) for x in (one.estimate, one.lower, one.upper))
    return replace(one, estimate=estimate, lower=lower, upper=upper)


def report_inputs(result: Result, page: PageFacts) -> ReportInputs:
    """Everything that the report of a result shows."""
    question = result.question
    estimates = published_estimates(result, tidy=page.tidy, integers=page.integers, too_noisy=page.too_noisy)
    facts = [("table", page.source), *question.facts(result.plan, result.lines, result.level)]
    return ReportInputs(
        title=page.title,
        plan=page.summary or result.plan.summary(),
        unit=protected_unit(question.person),
        question=[(term, text) for term, text in facts if text],
        columns=question.column_facts(),
        blocks=question.blocks(estimates, page.labels),
        level=result.level,
        time=result.release.time.strftime("%Y-%m-%d %H:%M:%S UTC"),
        private=result.private,
        charge=result.release.charge,
        ledger=page.ledger,
        digest=page.digest,
        too_noisy=page.too_noisy,
    )


def named_levels(name: str, keys: Iterable[object], labels: Labels) -> Dimension:
    """A column that groups, with what its keys are called."""
    return Dimension(name, tuple(key_word(labelled(key, name, labels)) for key in keys))


def view_facts(view: View) -> list[tuple[str, str]]:
    """Which rows count, and which columns are computed from others."""
    found = [] if view.where is None else [("rows that count", str(view.where))]
    return found + [(f"{name} is computed", str(formula)) for name, formula in view.derived.items()]


def column_facts(
    name: str, kinds: Sequence[str], bounds: Mapping[str, tuple[float, float]], missing: Mapping[str, object]
) -> ColumnFacts:
    """A column that is asked about: its statistics, its bounds, and what a missing value becomes."""
    low, high = bounds.get(name, (None, None))
    limits = "" if low is None or high is None else f"{plain_number(low)} to {plain_number(high)}"
    filled = f"count as {listed_keys([missing[name]])}" if name in missing else "left out"
    return ColumnFacts(name, ", ".join(kinds), limits, filled)


def protection(person: Person | None, neighbours: str) -> str:
    """Who is protected, and from what."""
    return f"{protected_unit(person)}: results are about equally likely {_RELATIONS[neighbours]}"


def protected_unit(person: Person | None) -> str:
    """Who is protected, in words."""
    if person is None:
        return "one row"
    rows = "one row" if person.max_rows == 1 else f"up to {person.max_rows:,} rows"
    return f"one person ({rows} with the same {person.column})"


def key_word(key: object) -> str:
    """A public key in words."""
    return ("yes" if key else "no") if isinstance(key, bool) else str(key)


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def listed_keys(values: Sequence[object]) -> str:
    """Public values in words; of many whole numbers that follow each other the first and the last.

    >>> listed_keys(["F", "M"]), listed_keys(range(116)), listed_keys([True, False])
    ('F, M', '0 to 115', 'yes, no')
    """
    words = [plain_number(value) if isinstance(value, float) else key_word(value) for value in values]
    whole = [value for value in values if isinstance(value, int) and not isinstance(value, bool)]
    if len(words) > _FEW and len(whole) == len(words) and whole == list(range(whole[0], whole[0] + len(whole))):
        return f"{words[0]} to {words[-1]}"
    return listed(words, _MANY)
