"""The page itself: the promise in plain words and what it took, estimates, what was asked; then the proof."""

from collections.abc import Sequence
from html import escape
from pathlib import Path

from inid._version import __version__
from inid.planning import NoisePlan
from inid.promises import Budget
from inid.report.charts import budget_bar
from inid.report.estimate_tables import estimates_section
from inid.report.inputs import EstimateBlock, ReportInputs
from inid.report.number_text import plain_ratio
from inid.report.plan_summary import PlanSummary, summarize_plan
from inid.report.promise_text import belief_in_words, promise_in_words
from inid.report.style import STYLE
from inid.report.technical_part import definition_list, technical_part

__all__ = ["document", "heading", "page", "promise_section", "released_cards", "report_plan"]

_TOTALS = {"count": "rows", "count_distinct": "people"}


def page(inputs: ReportInputs) -> str:
    """The whole page as text; nothing in it comes from elsewhere, and no script runs.

    >>> import inid
    >>> from inid.report import summarize_plan
    >>> p = inid.plan(inid.Sensitivity.box([1.0, 40.0]), inid.PureDP(epsilon=1.0))
    >>> page(ReportInputs("Two numbers", summarize_plan(p)))[:15]
    '<!doctype html>'
    """
    parts = [_head(inputs), promise_section(inputs, inputs.plan.budget)]
    parts += [estimates_section(inputs.blocks, inputs.level, inputs.too_noisy)] if inputs.blocks else []
    parts += [_question(inputs), technical_part(inputs)]
    return document(inputs.title, "\n".join(part for part in parts if part))


def document(title: str, body: str) -> str:
    """A whole page around its content."""
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<link rel="icon" href="data:,">\n<title>{escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n'
        f"<body>\n<main>\n{body}\n<footer>Made by inid {escape(__version__)}.</footer>\n</main>\n</body>\n</html>\n"
    )


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


def _head(inputs: ReportInputs) -> str:
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


def heading(title: str, time: str | None, cards: Sequence[tuple[str, str]], *, private: bool) -> str:
    """The top of a page: its title, when it was released, a warning, and the figures that matter."""
    warning = (
        ""
        if private
        else '<p class="warning"><b>Not private.</b> A test source drew the noise: these numbers protect nobody.</p>'
    )
    shown = "".join(f'<div class="fact"><b>{escape(big)}</b><span>{escape(small)}</span></div>' for big, small in cards)
    made = "A plan; nothing was released."
    if time:
        made = f"Released {time}. Random noise protects the people in the table; what it promises stands below."
    return f'<h1>{escape(title)}</h1>\n<p class="soft">{escape(made)}</p>\n{warning}<div class="facts">{shown}</div>'


def _gain_over(plan: PlanSummary, opponent: str) -> str:
    """What the gain on the first card is counted in: the answers, where the plan releases other numbers."""
    opponent = opponent.replace("an equal split", "an equal split of the budget")
    if plan.answers_differ:
        return f"error of the answers with {opponent}, this plan = 1"
    return f"error of {opponent}, this plan = 1"


def promise_section(inputs: ReportInputs, budget: Budget) -> str:
    """What the release promises in words, and what it took of the budget, as a picture.

    Args:
        inputs: The release, or a part of it.
        budget: The promise of the whole.
    """
    words = promise_in_words(budget, inputs.unit, inputs.plan.noise.sensitivity.neighbours)
    return (
        f'<h2>What is promised</h2>\n<p class="promise">{escape(words)}</p>\n{_cost(inputs)}\n'
        '<p class="note">The promise in symbols, and its proof, are in the technical part.</p>'
    )


def _cost(inputs: ReportInputs) -> str:
    if not inputs.time:
        return ""
    if inputs.charge is None:
        return '<p class="warning">No ledger was named, so nobody keeps count of what was released.</p>'
    state = inputs.ledger
    if state is None:
        return f"<p>This was charge {inputs.charge} of its ledger.</p>"
    begun = f"<h3>What it took of the budget</h3>\n<p>This was charge {inputs.charge} of a ledger"
    if state.closed:
        return f"{begun}. It took the whole promise: nothing is left.</p>"
    took = state.shares.get(inputs.charge, 0)
    others, left = max(state.percent - took, 0), 100 - state.percent
    return (
        f"{begun}, counted by {escape(state.unit)}. With everything that may ever be released under it, somebody who "
        f"thought it an even chance can be {belief_in_words(state.total)}.</p>\n"
        f"{budget_bar(others, others + took)}\n"
        f'<p class="note">Of this budget, counted in {escape(state.counted)}, this release took {took} %, others took '
        f"{others} %, and {left} % {'is' if left == 1 else 'are'} left.</p>"
    )


def _question(inputs: ReportInputs) -> str:
    return f"<h2>What was asked</h2>\n{definition_list(inputs.question)}" if inputs.question else ""
