"""The HTML page of a plan, a release or a publication: heading, promise, estimates, technical part."""

import math
from collections.abc import Mapping, Sequence
from datetime import datetime
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from inid._version import __version__
from inid.accounting.admission import share_in_words
from inid.planning import NoisePlan
from inid.promises import Budget
from inid.report.charts import axis_over, bar, budget_bar, dots, sureness, ticks
from inid.report.estimate_tables import (
    COUNTED,
    anchors,
    block_title,
    estimate_notes,
    estimate_tables,
    estimates_section,
)
from inid.report.inputs import Estimate, EstimateBlock, LedgerState, ReportInputs
from inid.report.plan_summary import PlanLine, PlanSummary, summarize_plan
from inid.report.rendering import rendered
from inid.report.wording import (
    Digits,
    belief_after,
    belief_in_words,
    detection_in_words,
    plain_number,
    plain_ratio,
    promise_in_words,
    promise_name,
    promise_symbols,
)

if TYPE_CHECKING:
    from markupsafe import Markup

_MOST = 300  # lines drawn of a plan; the rest is in the record
_ALLOCATIONS = {"optimal": "optimal", "iid": "i.i.d.", "spr": "equal split"}


def technical_part(inputs: ReportInputs) -> "Markup":
    """Everything that a statistician wants to know and others may skip."""
    plan = inputs.plan
    gain = None
    if plan.opponent is not None:
        gain = plain_ratio(plan.gains["spr"]), _gain_over(plan, plan.opponent)
    return rendered(
        "technical.html",
        terms=inputs.question,
        gain=gain,
        sentences=[text for text in (plan.remark, plan.gain, *plan.worse) if text],
        ways=ways_to_keep_the_promise(plan),
        noise=noise_of_each_number(plan),
        ledger=ledger_part(inputs.ledger),
        columns=inputs.columns,
        certificate=definition_list(certificate_terms(inputs)),
    )


def _gain_over(plan: PlanSummary, opponent: str) -> str:
    """What the gain is counted in: the answers, where the plan releases other numbers."""
    opponent = opponent.replace("an equal split", "an equal split of the budget")
    if plan.answers_differ:
        return f"error of the answers with {opponent}, this plan = 1"
    return f"error of {opponent}, this plan = 1"


def ledger_part(state: LedgerState | None) -> "Markup | str":
    """The currencies of the ledger; nothing to show where one charge took the whole promise."""
    if state is None or state.closed:
        return ""
    return rendered("ledger.html", ledger=state, total=_in_words(state.total))


def ways_to_keep_the_promise(plan: PlanSummary) -> "Markup":
    """The expected error of every way to keep the promise, as bars."""
    comparison = list(plan.comparison)
    axis = axis_over([way.ratio for way in comparison], log=True)
    bars = []
    for way in comparison:
        mine = (way.mechanism, way.allocation) == plan.comparison.chosen
        kind = "plan" if mine else way.allocation if way.mechanism == plan.noise.mechanism else "other"
        picture = bar(axis, way.ratio, kind if kind != "optimal" else "other", f"{way.ratio:.4g} times the error")
        over = " over these numbers" if plan.answers_differ and way.allocation == "spr" else ""
        name = f"{str(way.mechanism).capitalize()}, {_ALLOCATIONS[way.allocation]}{over}"
        bars.append({"mine": mine, "name": name, "ratio": plain_ratio(way.ratio), "picture": picture})
    differ = plan.answers_differ and plan.opponent is not None
    ways = "other noise on the numbers that this plan releases" if differ else "every way to keep the promise"
    ways += f" with {plan.noise.mechanism.capitalize()} noise" if plan.one_kind else ""
    top = plain_ratio(plan.gains["spr"]) if differ else ""
    return rendered("ways.html", plan=plan, ways=ways, top=top, rows=bars, ticks=ticks(axis, "×"))


def noise_of_each_number(plan: PlanSummary, tolerance: str = "its tolerance", *, compared: bool = True) -> "Markup":
    """The noise of each number, against its tolerance where it has one, else against an equal split."""
    shown = plan.lines[:_MOST]
    tolerant = all(line.tolerance is not None for line in shown)
    marks = [_relative(line, tolerant) for line in shown]
    axis = axis_over([1.0, *(value for row in marks for value in row.values())], log=True)
    opponent = plan.opponent or "an equal split"
    names = {"plan": "this plan", "spr": opponent.removeprefix("an ")}
    lines = []
    for line, row in zip(shown, marks, strict=True):
        # The plan's own dot is drawn last, on top.
        dot_marks = [(kind, row[kind], f"{names[kind]} {row[kind]:.3g}") for kind in ("spr", "plan")]
        picture = dots(axis, dot_marks, 1.0, line.label)
        deviation = plain_number(line.deviation, 4)
        lines.append({"label": line.label, "share": f"{line.share:.1%}", "deviation": deviation, "picture": picture})
    return rendered(
        "noise.html",
        plan=plan,
        compared=compared,
        against=tolerance if tolerant else opponent,
        names=names,
        lines=lines,
        ticks=ticks(axis, "×"),
        more=len(plan.lines) - _MOST,
    )


def _relative(line: PlanLine, tolerant: bool) -> dict[str, float]:
    one = line.tolerance if tolerant and line.tolerance else line.baselines["spr"]
    values = {"plan": line.deviation, "spr": line.baselines["spr"]}
    return {kind: value / one if one > 0 else 1.0 for kind, value in values.items()}


def promise_terms(budget: Budget) -> list[tuple[str, str]]:
    """The promise of a whole release, in symbols and as a test of whether somebody is in the table."""
    return [("keeps", _in_words(budget)), ("as a test", detection_in_words(budget))]


def certificate_terms(inputs: ReportInputs) -> list[tuple[str, str]]:
    """The proof, term by term."""
    plan = inputs.plan
    terms = promise_terms(plan.budget)
    for at, noise in enumerate(plan.steps or (plan.noise,), start=1):
        proof = noise.certificate
        if plan.steps:
            terms.append(
                (f"step {at} keeps", f"{_in_words(noise.budget)}, fixed in advance; what the steps cost adds up")
            )
        terms += [
            ("noise", proof.noise),
            ("sensitivity", str(proof.sensitivity)),
            ("fingerprint", proof.sensitivity.fingerprint),
            ("checked", proof.statement),
            ("spent", f"{proof.spent:.17g} (rounded up)"),
            ("arithmetic", proof.arithmetic),
        ]
    terms += [("released", inputs.time)] if inputs.time else []
    return terms + ([("digest of the record", inputs.digest)] if inputs.digest else [])


def _in_words(budget: Budget) -> str:
    return f"{promise_name(budget)} with {promise_symbols(budget)}"


def definition_list(terms: Sequence[tuple[str, str]]) -> "Markup":
    """Terms and their descriptions."""
    return rendered("terms.html", terms=terms)


_MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip


def page(inputs: ReportInputs) -> str:
    """The whole page as text; nothing in it comes from elsewhere, and no script runs."""
    numbers: Markup | str = ""
    if inputs.blocks:
        numbers = estimates_section(
            inputs.blocks,
            inputs.level,
            inputs.too_noisy,
            things=inputs.things,
            only=inputs.only,
            columns=inputs.columns,
            sampled=inputs.sampled,
            row_limit=inputs.row_limit,
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
    """Write a page about a plan, before anything is spent."""
    Path(path).write_text(page(ReportInputs(title, summarize_plan(plan))), encoding="utf-8")


def heading(title: str, parts: Sequence[ReportInputs]) -> "Markup":
    """The top of a page: its title, when it was released, a warning, and the figures that matter."""
    first = parts[0]
    cards = []
    counted = _counted(parts)
    if counted is not None:
        cards.append((f"about {counted[0]}", counted[1]))
    number = _numbers(parts)
    if number:
        cards.append((f"{number:,}", "number published" if number == 1 else "numbers published"))
    if first.ledger is not None and first.charge is not None:
        cards.append((first.ledger.left_share, "of the budget left"))
    return rendered(
        "heading.html",
        title=title,
        when=_day(first.time) if first.time else "",
        cards=cards,
        private=all(inputs.private for inputs in parts),
    )


def contents(parts: Sequence[ReportInputs], entries: Sequence[tuple[str, str, Sequence[str]]]) -> "Markup | str":
    """What was published and about how many people, as far as that is public; with links."""
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
    by_kind: dict[str, list[str]] = {}
    for block, place in zip(inputs.blocks, anchors(inputs.blocks), strict=True):
        by_kind.setdefault(place, []).append(block_title(block, inputs.things))
    entries: list[tuple[str, str, Sequence[str]]] = [
        (place, titles[0] if len(titles) == 1 else ", ".join([titles[0], *map(_small, titles[1:])]), ())
        for place, titles in by_kind.items()
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
    blocks = [(block, inputs.things) for inputs in parts for block in inputs.blocks]
    for block, things in sorted(blocks, key=lambda pair: _partly(pair[0]) != ""):
        total = _whole(block.estimates, block.totals.get(()), block.dimensions)
        if block.statistic not in COUNTED or total is None or total.estimate is None:
            continue
        middle, left, right = Digits(0).three((max(total.estimate, 0.0), total.lower, total.upper))
        ends = "" if total.lower is None or total.upper is None else f" ({left} to {right})"
        return middle, ("people" if block.statistic == "count_distinct" else things) + _partly(block), ends
    for inputs in parts:
        plan = inputs.plan
        if inputs.blocks and plan.rows is not None and not plan.guessed:
            return f"{plan.rows:,}", inputs.things, " (a public guess)"
    return None


def _partly(block: EstimateBlock) -> str:
    """Which rows a block is about, where others are in none of its groups."""
    names = [dimension.name for dimension in block.dimensions if dimension.drops]
    return f" with a listed {' and '.join(names)}" if names else ""


def _is_alike(parts: Sequence[ReportInputs]) -> bool:
    """Whether all queries count the same rows."""
    return len({inputs.only for inputs in parts}) == 1


def _whole(
    estimates: Sequence[Estimate], totals: Sequence[Estimate] | None, dimensions: Sequence[Any]
) -> Estimate | None:
    """The number that is about the whole table."""
    if not dimensions:
        return estimates[0]
    return totals[0] if totals else None


def _day(time: str) -> str:
    """A moment as people write it.

    >>> _day("2026-11-17 09:05:31 UTC"), _day("2026-11-17T09:05:31+00:00"), _day("yesterday")
    ('17 November 2026, 09:05 UTC', '17 November 2026, 09:05 UTC', 'yesterday')
    """
    try:
        moment = datetime.fromisoformat(time.replace(" UTC", "+00:00"))
    except ValueError:
        return time
    return f"{moment.day} {_MONTHS[moment.month - 1]} {moment.year}, {moment:%H:%M} UTC"


def promise_section(inputs: ReportInputs, budget: Budget) -> "Markup":
    """What the release promises in words, and what it took of the budget, as a picture."""
    state, spent = inputs.ledger, {}
    if state is not None and not state.closed:
        share = state.shares.get(inputs.charge or 0, Fraction(0))
        share_percent = math.ceil(100 * share)
        others = max(state.percent - share_percent, 0)
        marks = [("plan", belief_after(budget).sure), ("spr", belief_after(state.total).sure)]
        spent = {
            "took": _as_share(share, share_percent),
            "others": _as_share(sum(state.shares.values(), Fraction(0)) - share, others),
            "left": state.left_share,
            "bar": budget_bar(others, others + share_percent),
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


def _as_share(share: Fraction, percent: int) -> str:
    """A part of a ledger as people say it: 1/3; else in percent, which add up to 100."""
    words = share_in_words(share, up=True)
    return words if "/" in words else f"{percent} %"


def answers_part(inputs: ReportInputs) -> "Markup | str":
    """Answers that are no numbers."""
    return rendered("answers.html", list=definition_list(inputs.answers)) if inputs.answers else ""


def publication_page(
    title: str, parts: Mapping[str, ReportInputs], budget: Budget, worse: Sequence[str], digest: str
) -> str:
    """The whole page as text; nothing in it comes from elsewhere, and no script runs."""
    every = list(parts.values())
    first = every[0]
    blocks = [block for inputs in every for block in inputs.blocks]
    columns = [facts for inputs in every for facts in inputs.columns]
    entries = [
        (
            f"part-{at}",
            inputs.title,
            list(dict.fromkeys(block_title(block, inputs.things) for block in inputs.blocks)),
        )
        for at, inputs in enumerate(every, start=1)
    ]
    sampled = any(inputs.sampled for inputs in every)
    shown = [
        {
            "name": name,
            "title": inputs.title,
            "only": inputs.only,
            "covered": (inputs.sampled or "Each range covers the noise alone.") if sampled and inputs.blocks else "",
            "things": inputs.things,
            "answers": answers_part(inputs),
            "tables": estimate_tables(inputs.blocks, inputs.things, f"part-{at}-table"),
            "asked": definition_list(inputs.question) if inputs.question else "",
            "columns": inputs.columns,
            "symbols": promise_symbols(inputs.plan.budget),
            "mechanism": inputs.plan.noise.mechanism,
            "noise": noise_of_each_number(inputs.plan),
            "certificate": definition_list(certificate_terms(inputs)),
        }
        for at, (name, inputs) in enumerate(parts.items(), start=1)
    ]
    each = "What a range covers is said with its question." if sampled else ""
    limits = " or ".join(dict.fromkeys(inputs.row_limit for inputs in every if inputs.row_limit))
    notes = estimate_notes(blocks, first.level, first.too_noisy, first.things, columns, each, limits) if blocks else ""
    body = rendered(
        "publication.html",
        heading=heading(title, every),
        contents=contents(every, entries),
        promise=promise_section(first, budget),
        notes=notes,
        parts=shown,
        promised=definition_list(promise_terms(budget)),
        worse=worse,
        ledger=ledger_part(first.ledger),
        digest=definition_list([("digest of the record", digest)]) if digest else "",
    )
    return document(title, [body])
