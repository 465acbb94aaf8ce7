"""The page itself: the promise in plain words and what it took, estimates, what was asked; then the proof."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from inid._version import __version__
from inid.planning import NoisePlan
from inid.promises import Budget
from inid.report.charts import budget_bar
from inid.report.estimate_tables import estimates_section
from inid.report.inputs import EstimateBlock, ReportInputs
from inid.report.number_text import plain_ratio
from inid.report.plan_summary import PlanSummary, summarize_plan
from inid.report.promise_text import belief_in_words, promise_in_words
from inid.report.rendering import rendered
from inid.report.technical_part import technical_part

if TYPE_CHECKING:
    from markupsafe import Markup

__all__ = ["asked_section", "document", "heading", "page", "promise_section", "released_cards", "report_plan"]

_TOTALS = {"count": "rows", "count_distinct": "people"}


def page(inputs: ReportInputs) -> str:
    """The whole page as text; nothing in it comes from elsewhere, and no script runs.

    >>> import inid
    >>> from inid.report import summarize_plan
    >>> p = inid.plan(inid.Sensitivity.box([1.0, 40.0]), inid.PureDP(epsilon=1.0))
    >>> page(ReportInputs("Two numbers", summarize_plan(p)))[:15]
    '<!doctype html>'
    """
    estimates = estimates_section(inputs.blocks, inputs.level, inputs.too_noisy) if inputs.blocks else ""
    promise = promise_section(inputs, inputs.plan.budget)
    parts = [_head(inputs), promise, estimates, asked_section(inputs), technical_part(inputs)]
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


def _head(inputs: ReportInputs) -> "Markup":
    cards = released_cards(inputs.blocks)
    if inputs.plan.opponent is not None:
        cards.append((f"{plain_ratio(inputs.plan.gains['spr'])}×", _gain_over(inputs.plan, inputs.plan.opponent)))
    return heading(inputs.title, inputs.time, cards, private=inputs.private)


def released_cards(blocks: Sequence[EstimateBlock]) -> list[tuple[str, str]]:
    """How many numbers were released, and about how many rows or people, where that is one of the numbers."""
    count = sum(len(block.estimates) for block in blocks)
    cards = [(f"{count:,}", f"{'number' if count == 1 else 'numbers'} released")] if blocks else []
    whole = [block for block in blocks if block.statistic in _TOTALS and not block.dimensions]
    totals = [(block.estimates[0].estimate, _TOTALS[block.statistic]) for block in whole]
    return cards + [(f"{max(round(total), 0):,}", f"{word}, about") for total, word in totals if total is not None]


def heading(title: str, time: str | None, cards: Sequence[tuple[str, str]], *, private: bool) -> "Markup":
    """The top of a page: its title, when it was released, a warning, and the figures that matter."""
    return rendered("heading.html", title=title, time=time, cards=cards, private=private)


def _gain_over(plan: PlanSummary, opponent: str) -> str:
    """What the gain on the first card is counted in: the answers, where the plan releases other numbers."""
    opponent = opponent.replace("an equal split", "an equal split of the budget")
    if plan.answers_differ:
        return f"error of the answers with {opponent}, this plan = 1"
    return f"error of {opponent}, this plan = 1"


def promise_section(inputs: ReportInputs, budget: Budget) -> "Markup":
    """What the release promises in words, and what it took of the budget, as a picture.

    Args:
        inputs: The release, or a part of it.
        budget: The promise of the whole.
    """
    state, spent = inputs.ledger, {}
    if state is not None and not state.closed:
        took = state.shares.get(inputs.charge or 0, 0)
        others = max(state.percent - took, 0)
        spent = {"took": took, "others": others, "left": 100 - state.percent, "bar": budget_bar(others, others + took)}
        spent["all_of_it"] = belief_in_words(state.total)
    return rendered(
        "promise.html",
        words=promise_in_words(budget, inputs.unit, inputs.plan.noise.sensitivity.neighbours),
        time=inputs.time,
        charge=inputs.charge,
        ledger=state,
        **spent,
    )


def asked_section(inputs: ReportInputs, level: str = "h2") -> str:
    """What was asked, under a heading of some level; nothing where nothing is known of it."""
    return rendered("asked.html", level=level, terms=inputs.question) if inputs.question else ""
