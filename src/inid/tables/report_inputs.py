"""From a question, its plan and its answers to what the report shows."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from inid.arguments import listed
from inid.planning.text import counted
from inid.report import (
    ColumnFacts,
    Dimension,
    Estimate,
    EstimateBlock,
    PlanLine,
    PlanSummary,
    ReportInputs,
)
from inid.report.number_text import plain_number
from inid.tables.facts import Bins, Categories, Person
from inid.tables.presentation import COUNTED, Labels, labelled, noisy_rows
from inid.tables.published import PageFacts, Published, Row
from inid.tables.questions.choice import WITHIN, ChoicePlan, ChoiceResult
from inid.tables.questions.statistics.plan import TablePlan
from inid.tables.questions.statistics.question import COLUMN_STATISTICS, Question
from inid.tables.questions.statistics.result import Result
from inid.tables.view import View

__all__ = [
    "as_estimates",
    "choice_facts",
    "choice_report_inputs",
    "column_facts",
    "estimates_on_page",
    "inputs_of",
    "listed_keys",
    "named_levels",
    "protected_unit",
    "protection",
    "published_estimates",
    "report_inputs",
    "statistic_blocks",
    "summarize_choice_plan",
    "summarize_table_plan",
    "view_facts",
]

_USUAL_LIMIT = 2**32  # the default limit on rows, which the report need not mention
_FEW, _MANY = 6, 40  # keys that are listed one by one, and those that are listed at all
_RELATIONS = {
    "add_remove": "with or without any one of them",
    "replace": "with any one of them replaced by another",
    "zero_out": "with any one of them adding nothing: 0 to every sum and every count",
}


def summarize_table_plan(made: TablePlan) -> PlanSummary:
    """The plan of a table, one line per statistic."""
    lines = tuple(
        PlanLine(
            label=entry.label,
            share=entry.share,
            deviation=entry.error,
            tolerance=entry.tolerance,
            baselines={"iid": entry.iid, "spr": entry.spr},
        )
        for entry in made.statistics
    )
    gains = {name: made.gain(name) for name in ("iid", "spr")}
    worse = tuple(made.worse_lines)
    return PlanSummary(made.noise, lines, gains, made.remark, made.rows, not made.stated, made.advice, worse=worse)


def summarize_choice_plan(made: ChoicePlan) -> PlanSummary:
    """The plan of a choice: the noise of one number, however many groups there are."""
    deviation = float(made.noise.scales[0])  # of the exponential noise that decides
    line = PlanLine("the largest group", 1.0, deviation, None, {"iid": deviation, "spr": deviation})
    counted = made.question.counting
    remark = f"With probability 95 % the chosen group is within {made.shortfall():.4g} {counted} of the largest one."
    return PlanSummary(made.noise, (line,), {"iid": 1.0, "spr": 1.0}, remark, opponent=None)


def choice_report_inputs(result: ChoiceResult, page: PageFacts) -> ReportInputs:
    """Everything that the report of a choice shows."""
    question, (row,) = result.question, result.rows
    facts = [
        ("table", page.source),
        *choice_facts(row, result.level),
        (
            "chosen from",
            f"{len(question.groups):,} groups by {', '.join(question.by)}, by the number of {question.counting}",
        ),
        *view_facts(question.view),
    ]
    return inputs_of(result, page, summarize_choice_plan(result.plan), facts, [])


def choice_facts(row: Row | Estimate, level: float) -> list[tuple[str, str]]:
    """What a choice answers, in words."""
    reach = f"{row.keys[WITHIN]}, with probability {100 * level:.4g} %"
    return [("the largest group", row.groups), ("short of the largest by at most", reach)]


def as_estimates(rows: Iterable[Row]) -> tuple[Estimate, ...]:
    """Answers as plain values; a number that is not finite becomes None."""
    found = []
    for row in rows:
        value, lower, upper, scale = map(_finite, (row.estimate, row.lower, row.upper, row.scale))
        found.append(Estimate(row.statistic, row.column, row.groups, value, lower, upper, scale, row.keys))
    return tuple(found)


def published_estimates(
    result: Published, *, tidy: bool = False, integers: bool = False, too_noisy: float | None = None
) -> tuple[Estimate, ...]:
    """The answers as they are published, those that are too noisy marked; see `Published.report`.

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
    blocks = statistic_blocks(question, estimates_on_page(result, page), page.labels)
    made = inputs_of(result, page, summarize_table_plan(result.plan), _facts(question, page.source), blocks)
    return replace(made, columns=_columns(question))


def estimates_on_page(result: Published, page: PageFacts) -> tuple[Estimate, ...]:
    """The answers as a page shows them."""
    return published_estimates(result, tidy=page.tidy, integers=page.integers, too_noisy=page.too_noisy)


def inputs_of(
    result: Published,
    page: PageFacts,
    summary: PlanSummary,
    facts: Iterable[tuple[str, str]],
    blocks: list[EstimateBlock],
) -> ReportInputs:
    """What the reports of all kinds of results share."""
    return ReportInputs(
        title=page.title,
        plan=page.summary or summary,
        unit=protected_unit(result.question.person),
        question=[(term, text) for term, text in facts if text],
        blocks=blocks,
        level=result.level,
        time=result.release.time.strftime("%Y-%m-%d %H:%M:%S UTC"),
        private=result.private,
        charge=result.release.charge,
        ledger=page.ledger,
        digest=page.digest,
        too_noisy=page.too_noisy,
    )


def statistic_blocks(question: Question, estimates: Sequence[Estimate], labels: Labels) -> list[EstimateBlock]:
    """The answers statistic by statistic, in the order in which they are released."""
    groups = tuple(named_levels(name, keys, labels) for name, keys in question.by.items())
    blocks, start = [], 0
    for statistic in question.layout.statistics:
        dimensions = groups
        if statistic.kind == "histogram":
            name = statistic.columns[0]
            cells = question.histogram[name]
            own = named_levels(name, cells.values, labels) if isinstance(cells, Categories) else None
            dimensions = (*groups, own or Dimension(name, _cell_names(cells)))
        stop = start + math.prod(len(dimension.levels) for dimension in dimensions)
        bounds = question.bounds.get(statistic.columns[0]) if len(statistic.columns) == 1 else None
        column = ",".join(statistic.columns)
        blocks.append(EstimateBlock(statistic.kind, column, dimensions, tuple(estimates[start:stop]), bounds))
        start = stop
    return blocks


def named_levels(name: str, keys: Iterable[object], labels: Labels) -> Dimension:
    """A column that groups, with what its keys are called."""
    return Dimension(name, tuple(_key(labelled(key, name, labels)) for key in keys))


def view_facts(view: View) -> list[tuple[str, str]]:
    """Which rows count, and which columns are computed from others."""
    found = [] if view.where is None else [("rows that count", str(view.where))]
    return found + [(f"{name} is computed", str(formula)) for name, formula in view.derived.items()]


def _facts(question: Question, source: str) -> list[tuple[str, str]]:
    """Term and description of every public fact of the question."""
    kinds = ["count"] if question.count else []
    kinds += ["count of people"] if question.count_distinct else []
    kinds += [f"{kind} of {counted(len(names), 'column')}" for kind, names in question.columns.items() if names]
    kinds += [f"histogram of {counted(len(question.histogram), 'column')}"] if question.histogram else []
    rows, limit = question.rows, question.max_rows
    terms = [
        ("table", source),
        ("statistics", ", ".join(kinds)),
        ("groups", "; ".join(f"{name}: {listed_keys(keys)}" for name, keys in question.by.items())),
        ("protected", protection(question.person, question.neighbours)),
        *view_facts(question.view),
        ("rows assumed", "" if rows is None else f"{rows:,}, a public guess for planning"),
        ("rows at most", "" if limit == _USUAL_LIMIT else f"{limit:,}, stated in advance"),
    ]
    return [(term, text) for term, text in terms if text]


def _columns(question: Question) -> list[ColumnFacts]:
    """For each column that is asked about: its statistics, its bounds, and what a missing value becomes."""
    found = []
    asked = {kind: question.columns.get(kind, ()) for kind in COLUMN_STATISTICS}
    for name in dict.fromkeys([*(name for names in asked.values() for name in names), *question.histogram]):
        kinds = [kind for kind, names in asked.items() if name in names]
        if name in question.histogram:
            kinds.append(f"histogram over {', '.join(_cell_names(question.histogram[name]))}")
        found.append(column_facts(name, kinds, question.bounds, question.missing))
    return found


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


def _cell_names(cells: Bins | Categories) -> tuple[str, ...]:
    """The cells of a histogram in words.

    >>> _cell_names(Bins((0.0, 20.0, 65.0)))
    ('0 to under 20', '20 to 65')
    """
    if isinstance(cells, Categories):
        return tuple(map(_key, cells.values))
    pairs = [(plain_number(low, 12), plain_number(high, 12)) for low, high in pairwise(cells.edges)]
    under = [f"{low} to under {high}" for low, high in pairs[:-1]]
    return (*under, f"{pairs[-1][0]} to {pairs[-1][1]}")


def _key(key: object) -> str:
    return ("yes" if key else "no") if isinstance(key, bool) else str(key)


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def listed_keys(values: Sequence[object]) -> str:
    """Public values in words; of many whole numbers that follow each other the first and the last.

    >>> listed_keys(["F", "M"]), listed_keys(range(116)), listed_keys([True, False])
    ('F, M', '0 to 115', 'yes, no')
    """
    words = [plain_number(value) if isinstance(value, float) else _key(value) for value in values]
    whole = [value for value in values if isinstance(value, int) and not isinstance(value, bool)]
    if len(words) > _FEW and len(whole) == len(words) and whole == list(range(whole[0], whole[0] + len(whole))):
        return f"{words[0]} to {words[-1]}"
    return listed(words, _MANY)
