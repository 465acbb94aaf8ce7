"""The page itself: what was published, the promise in plain words and what it took, the numbers; then the proof."""

import math
from collections.abc import Sequence
from datetime import datetime
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from inid._version import __version__
from inid.planning import NoisePlan
from inid.promises import Budget
from inid.report.block_words import COUNTED, block_title
from inid.report.charts import budget_bar, sureness
from inid.report.estimate_tables import anchors, estimates_section
from inid.report.inputs import Estimate, ReportInputs
from inid.report.number_text import Digits, spent_and_left
from inid.report.plan_summary import summarize_plan
from inid.report.promise_text import belief_after, belief_in_words, promise_in_words
from inid.report.rendering import rendered
from inid.report.technical_part import definition_list, technical_part

if TYPE_CHECKING:
    from markupsafe import Markup

__all__ = ["answers_part", "contents", "document", "heading", "page", "promise_section", "report_plan"]

_MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip


def page(inputs: ReportInputs) -> str:
    """The whole page as text; nothing in it comes from elsewhere, and no script runs.

    >>> import inid
    >>> from inid.report import summarize_plan
    >>> p = inid.plan(inid.Sensitivity.box([1.0, 40.0]), inid.PureDP(epsilon=1.0))
    >>> page(ReportInputs("Two numbers", summarize_plan(p)))[:15]
    '<!doctype html>'
    """
    numbers: Markup | str = ""
    if inputs.blocks:
        numbers = estimates_section(
            inputs.blocks, inputs.level, inputs.too_noisy, things=inputs.things, only=inputs.only
        )
    parts = [
        heading(inputs.title, [inputs]),
        contents([inputs], _entries(inputs)),
        promise_section(inputs, inputs.plan.budget),
        answers_part(inputs),
        numbers,
        technical_part(inputs),
    ]
    return document(inputs.title, parts)


def document(title: str, parts: "Sequence[Markup | str]") -> str:
    """A whole page around its content."""
    return str(rendered("document.html", title=title, parts=parts, version=__version__))


def report_plan(plan: NoisePlan, path: str | Path, *, title: str = "A plan for private numbers") -> None:
    """Write a page about a plan, before anything is spent.

    Args:
        plan: A plan from `inid.plan`.
        path: Where the page goes; a file that is there is replaced.
        title: Its heading.

    >>> import inid, tempfile
    >>> p = inid.plan(inid.Sensitivity.box([1.0, 40.0], labels=["age", "income"]), inid.PureDP(epsilon=1.0))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     report_plan(p, Path(folder, "plan.html"))
    """
    Path(path).write_text(page(ReportInputs(title, summarize_plan(plan))), encoding="utf-8")


def heading(title: str, parts: Sequence[ReportInputs]) -> "Markup":
    """The top of a page: its title, when it was released, a warning, and the figures that matter.

    Args:
        title: The title.
        parts: What the page shows of each query.
    """
    first = parts[0]
    cards = []
    counted = _counted(parts)
    if counted is not None:
        cards.append((f"about {counted[0]}", counted[1]))
    number = _numbers(parts)
    if number:
        cards.append((f"{number:,}", "number published" if number == 1 else "numbers published"))
    if first.ledger is not None and first.charge is not None:
        cards.append((first.ledger.parts[1], "of the budget left"))
    return rendered(
        "heading.html",
        title=title,
        when=_day(first.time) if first.time else "",
        cards=cards,
        private=all(inputs.private for inputs in parts),
    )


def contents(parts: Sequence[ReportInputs], entries: Sequence[tuple[str, str, Sequence[str]]]) -> "Markup | str":
    """What was published and about how many people, as far as that is public; with links.

    Args:
        parts: What the page shows of each query.
        entries: Place, name and what stands there.
    """
    number, counted = _numbers(parts), _counted(parts)
    if not entries:
        return ""
    things = parts[0].things
    numbers = "1 number" if number == 1 else f"{number:,} numbers" if number else "An answer"
    about = f"the {things} of a table" if counted is None else f"about {counted[0]} {counted[1]}{counted[2]}"
    only = parts[0].only if _is_alike(parts) else ""
    sentence = f"{numbers} on {about}{f', those with {only}' if only else ''}."
    lead = " ".join(dict.fromkeys(inputs.lead for inputs in parts if inputs.lead))
    return rendered(
        "contents.html", sentence=sentence, lead=lead, entries=[*entries, ("technical", "Technical part", ())]
    )


def _entries(inputs: ReportInputs) -> list[tuple[str, str, Sequence[str]]]:
    """The tables of one query; those that stand in one table of the page are one entry."""
    found: dict[str, list[str]] = {}
    for block, place in zip(inputs.blocks, anchors(inputs.blocks), strict=True):
        found.setdefault(place, []).append(block_title(block, inputs.things))
    entries: list[tuple[str, str, Sequence[str]]] = [
        (place, titles[0] if len(titles) == 1 else ", ".join([titles[0], *map(_small, titles[1:])]), ())
        for place, titles in found.items()
    ]
    return ([("answers", "Answers", ())] if inputs.answers else []) + entries


def _small(title: str) -> str:
    return title[:1].lower() + title[1:]


def _numbers(parts: Sequence[ReportInputs]) -> int:
    return sum(len(block.estimates) for inputs in parts for block in inputs.blocks)


def _counted(parts: Sequence[ReportInputs]) -> tuple[str, str, str] | None:
    """How many people count, in words, what they are, and how far off that may be; None where it is secret.

    A number of some of them is none of all, so that it is said only where all queries count the same.
    """
    if not _is_alike(parts):
        parts = [inputs for inputs in parts if not inputs.only]
    for inputs in parts:
        for block in inputs.blocks:
            row = _whole(block.estimates, block.totals.get(()), block.dimensions)
            if block.statistic not in COUNTED or row is None or row.estimate is None:
                continue
            middle, left, right = Digits(0).three((max(row.estimate, 0.0), row.lower, row.upper))
            ends = "" if row.lower is None or row.upper is None else f" ({left} to {right})"
            return middle, "people" if block.statistic == "count_distinct" else inputs.things, ends
    for inputs in parts:
        plan = inputs.plan
        if inputs.blocks and plan.rows is not None and not plan.guessed:
            return f"{plan.rows:,}", inputs.things, " (a public guess)"
    return None


def _is_alike(parts: Sequence[ReportInputs]) -> bool:
    """Whether all queries count the same rows."""
    return len({inputs.only for inputs in parts}) == 1


def _whole(rows: Sequence[Estimate], totals: Sequence[Estimate] | None, dimensions: Sequence[Any]) -> Estimate | None:
    """The number that is about the whole table."""
    if not dimensions:
        return rows[0]
    return totals[0] if totals else None


def _day(time: str) -> str:
    """A moment as people write it.

    >>> _day("2026-11-17 09:05:31 UTC"), _day("2026-11-17T09:05:31+00:00"), _day("yesterday")
    ('17 November 2026, 09:05 UTC', '17 November 2026, 09:05 UTC', 'yesterday')
    """
    try:
        made = datetime.fromisoformat(time.replace(" UTC", "+00:00"))
    except ValueError:
        return time
    return f"{made.day} {_MONTHS[made.month - 1]} {made.year}, {made:%H:%M} UTC"


def promise_section(inputs: ReportInputs, budget: Budget) -> "Markup":
    """What the release promises in words, and what it took of the budget, as a picture.

    Args:
        inputs: The release, or a part of it.
        budget: The promise of the whole.
    """
    state, spent = inputs.ledger, {}
    if state is not None and not state.closed:
        share = state.shares.get(inputs.charge or 0, Fraction(0))
        took = math.ceil(100 * share)
        others = max(state.percent - took, 0)
        marks = [("plan", belief_after(budget).sure), ("spr", belief_after(state.total).sure)]
        spent = {
            "took": _said(share, took),
            "others": _said(sum(state.shares.values(), Fraction(0)) - share, others),
            "left": state.parts[1],
            "bar": budget_bar(others, others + took),
            "this_alone": belief_in_words(budget),
            "all_of_it": belief_in_words(state.total),
            "scale": sureness(sorted(marks, key=lambda mark: -mark[1])),
        }
    return rendered(
        "promise.html",
        words=promise_in_words(budget, inputs.unit, inputs.plan.noise.sensitivity.neighbours),
        time=inputs.time,
        charge=inputs.charge,
        ledger=state,
        **spent,
    )


def _said(share: Fraction, percent: int) -> str:
    """A part of a ledger as people say it: 1/3; else in percent, which add up to 100."""
    words = spent_and_left(share)[0]
    return words if "/" in words else f"{percent} %"


def answers_part(inputs: ReportInputs) -> "Markup | str":
    """Answers that are no numbers."""
    return rendered("answers.html", list=definition_list(inputs.answers)) if inputs.answers else ""
