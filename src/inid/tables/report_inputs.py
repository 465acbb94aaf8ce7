"""From a question, its plan and its answers to what the report shows."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from inid.arguments import listed
from inid.releasing import Release
from inid.report import ColumnFacts, Dimension, Estimate, EstimateBlock, ReportInputs
from inid.report.number_text import plain_number
from inid.tables.expression_leaves import leaves
from inid.tables.facts import Person
from inid.tables.presentation import COUNTED, NUMBERS, KeyLabels, Words, labelled, noisy_rows
from inid.tables.result import PageFacts, Result, Row
from inid.tables.totals import with_totals
from inid.tables.view import View

if TYPE_CHECKING:
    from inid.tables.question import Question

__all__ = [
    "as_estimates",
    "column_facts",
    "key_word",
    "listed_keys",
    "marked",
    "named_levels",
    "protected_unit",
    "protection",
    "published_blocks",
    "published_estimates",
    "report_inputs",
    "things_of",
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
    answers = result.facts
    facts = [("table", page.source), *question.facts(result.plan, result.lines, result.level)]
    return ReportInputs(
        title=page.title,
        plan=page.summary or result.plan.summary(),
        unit=protected_unit(question.person, page.rows_are),
        question=[(term, text) for term, text in facts if text and (term, text) not in answers],
        columns=question.column_facts(),
        blocks=published_blocks(
            question,
            result.release,
            result.level,
            estimates,
            page.words,
            page.too_noisy,
            as_shown=page.tidy or page.integers,
        ),
        level=result.level,
        time=result.release.time.strftime("%Y-%m-%d %H:%M:%S UTC"),
        private=result.private,
        charge=result.release.charge,
        ledger=page.ledger,
        digest=page.digest,
        too_noisy=page.too_noisy,
        things=things_of(question.person, page.rows_are),
        only="" if question.view.where is None else str(question.view.where),
        answers=answers,
        lead=question.lead,
    )


def published_blocks(
    question: "Question",
    release: Release,
    level: float,
    estimates: Sequence[Estimate],
    words: Words,
    too_noisy: float | None,
    *,
    as_shown: bool = False,
) -> list[EstimateBlock]:
    """The answers as pages show them, statistic by statistic, with totals and under the names that people use.

    Args:
        question: What was asked.
        release: The noisy numbers.
        level: The probability of the intervals.
        estimates: The answers as they are shown.
        words: What columns and keys are called.
        too_noisy: The share of the estimate beyond which an interval is marked as too wide; None marks none.
        as_shown: Whether the answers were rounded or made to agree, so that their totals have no intervals.
    """
    found = []
    for block in question.blocks(estimates, words.keys):
        made = with_totals(question, release, level, block, as_shown=as_shown)
        totals = {kept: tuple(marked(row, too_noisy) for row in rows) for kept, rows in made.totals.items()}
        called = " and ".join(dict.fromkeys(words.columns.get(name, name) for name in made.column.split(",")))
        dimensions = tuple(replace(own, name=words.columns.get(own.name, own.name)) for own in made.dimensions)
        found.append(replace(made, totals=totals, called=called, dimensions=dimensions))
    return found


def marked(row: Estimate, too_noisy: float | None) -> Estimate:
    """The same number, marked where its interval is wider than this share of the estimate."""
    if too_noisy is None or row.estimate is None or row.lower is None or row.upper is None:
        return row
    return replace(row, too_noisy=not row.upper - row.lower <= too_noisy * abs(row.estimate))


def things_of(person: Person | None, rows_are: str | None) -> str:
    """What the rows of a table are: what the user says, or people where each has one row."""
    return rows_are or ("people" if person is not None and person.max_rows == 1 else "rows")


def named_levels(name: str, keys: Iterable[object], labels: KeyLabels) -> Dimension:
    """A column that groups, with what its keys are called."""
    return Dimension(name, tuple(key_word(labelled(key, name, labels)) for key in keys))


def view_facts(view: View, used: Iterable[str]) -> list[tuple[str, str]]:
    """Which rows count, and how the columns that are used are computed from others."""
    found = [] if view.where is None else [("rows that count", str(view.where))]
    names, waiting = set[str](), list(used)
    waiting += [] if view.where is None else [name for name, _ in leaves(view.where)]
    while waiting:
        name = waiting.pop()
        if name in view.derived and name not in names:
            names.add(name)
            waiting += [inner for inner, _ in leaves(view.derived[name])]
    return found + [(f"{name} is computed", str(view.derived[name])) for name in view.derived if name in names]


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


def protected_unit(person: Person | None, rows_are: str | None = None) -> str:
    """Who is protected, in words.

    >>> protected_unit(None), protected_unit(None, "people"), protected_unit(Person("id", 2))
    ('one row', 'a given person', 'one person (up to 2 rows with the same id)')
    """
    if person is None:
        return "a given person" if rows_are == "people" else f"any one of the {rows_are}" if rows_are else "one row"
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
