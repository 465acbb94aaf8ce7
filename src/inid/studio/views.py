"""The parts of the page as HTML, from templates that escape every text that is put into them."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, get_args

from inid._version import __version__
from inid.arguments import listed
from inid.jobs.demonstration import demonstration_truth
from inid.jobs.ledgers import LedgerPreview
from inid.jobs.planned_job import advice
from inid.jobs.released_job import PublishedBefore
from inid.jobs.streams import OPEN_KEYS
from inid.mechanisms.mechanism import GAUSSIAN, Mechanism, MechanismName
from inid.report import Estimate, EstimateBlock
from inid.report.charts import budget_bar
from inid.report.estimate_tables import estimates_section
from inid.report.page import noise_of_each_number, ways_to_keep_the_promise
from inid.report.plan_summary import PlanLine
from inid.report.rendering import environment
from inid.report.wording import (
    plain_number,
    plain_ratio,
    promise_in_words,
    promise_name,
    promise_symbols,
    rounded_interval,
)
from inid.schema import Key, find_key, key, keys
from inid.schema.key import keys_of_a_question
from inid.studio.charts import error_curve, expected_range, profile, totals_chart
from inid.studio.folder import ROWS_FILE
from inid.studio.form import command_text
from inid.studio.live import Column, Curve, LivePlan, typical_error
from inid.studio.live_streams import STREAM_FILES, LiveStream, ShownStream
from inid.studio.releases import Outcome
from inid.tables.presentation import protected_unit
from inid.tables.result import TOO_NOISY
from inid.tables.streams.page import stream_blocks


@dataclass(frozen=True)
class Step:
    """One step: a card of the page."""

    id: str
    title: str
    sentence: str


STEPS = (
    Step(
        "who",
        "Who is protected",
        "Choose the table, and say whose privacy is protected. If each person has one row, protect rows.",
    ),
    Step(
        "public",
        "Columns, and what is known of them",
        "Pick the columns that you need. Limits and lists of codes come from common knowledge or a published "
        "classification, never from the table itself.",
    ),
    Step(
        "publish",
        "What to publish",
        "Tick what you want to print. Every number costs some of the promise, so ask for what you will print.",
    ),
    Step(
        "exact",
        "How exact (optional)",
        "State which errors you accept: a number with a tight tolerance gets less noise, the others more.",
    ),
    Step(
        "private",
        "How private",
        "Choose how much the publication may reveal about one person, and the ledger that keeps count of it.",
    ),
    Step(
        "release",
        "Release and take home",
        "Nothing is spent until you confirm. Then the ledger is charged, the table is read, and noise is added.",
    ),
)
STREAM_STEPS = tuple(
    {
        "who": Step(
            "who", "Stream, and who is protected", "Name the stream and its table, and whose privacy is promised."
        ),
        "release": Step(
            "release",
            "Open",
            "Nothing is spent until you confirm. Then the stream's file is made, and the ledger is charged once, for "
            "all periods.",
        ),
    }.get(step.id, step)
    for step in STEPS
)


_TEMPLATES = environment("inid.studio")
FILE_WORDS = {
    "result.csv": "Estimates (CSV)",
    "spreadsheet.csv": "For a spreadsheet (1.5)",
    "spreadsheet-decimal-comma.csv": "For a spreadsheet (1,5)",
    "record.json": "Record (JSON)",
    "report.html": "Report (HTML)",
    "job.toml": "Job (TOML)",
    "command.sh": "Shell command",
    "script.py": "Python script",
    "notebook.ipynb": "Notebook",
    ROWS_FILE: "Rows (CSV)",
}


_LABEL = re.compile(r"(\w+)(?:\((.*)\))?")  # of a line of a plan: count, or mean(age)
_MOST_TABLES = 6  # statistics in the preview
_MOST_GROUPS = 5  # of each
_WITHIN_LIMITS = ("mean", "quantile")  # statistics that lie between the limits of their column
_SCRIPTS = ("form.js", "asking.js", "questions.js", "rows.js", "lists.js", "picking.js", "guide.js", "studio.js")


def _fields(place: str, page: str = "table", *groups: str) -> list[Key]:
    """The keys with a field in some part of a page; a stream is asked less, and has no part of its own ledger."""
    fields = [one for one in keys(*groups) if one.place == place]
    if page == "stream":
        return [one for one in fields if one.name in OPEN_KEYS and (one.group != "ledger" or place == "promise")]
    return [one for one in fields if page != "explore" or one.group != "ledger"]


_TEMPLATES.globals |= {"key": key, "fields": _fields}


def studio_page(page: str) -> str:
    """The whole page, without anything about the user's files: its script asks for that."""
    choices: dict[str, Any] = {one.name: one.type for one in keys() if one.type.field == "choice"}
    usual = {name: word for name, kind in choices.items() for word in kind.known if kind.known[word] == kind.usual}
    statistics = {one.name: one.place for one in keys() if one.asks}
    inside = [one.name for one in keys_of_a_question()]
    steps = STREAM_STEPS if page == "stream" else STEPS
    scripts = [*_SCRIPTS[:-1], *(["stream.js"] if page == "stream" else []), _SCRIPTS[-1]]
    context: dict[str, Any] = {
        "page": page,
        "version": __version__,
        "asked": statistics,
        "usual": usual,
        "steps": steps,
    }
    context |= {"scripts": scripts, "inside": inside}
    return rendered("page.html", **context)


def open_page(key: str, page: str) -> str:
    """What the link opens: it hands the key to the browser's storage and goes on to the page."""
    return rendered("open.html", key=key, page=page)


def columns_parts(columns: Sequence[Column]) -> dict[str, str]:
    """One row of fields per column: its public facts, its statistics, and questions about the order of its values."""
    return {
        "html": rendered("columns.html", columns=columns),
        "statistics": rendered("statistic_columns.html", columns=columns),
        "order": rendered("order_columns.html", columns=columns),
        "row": rendered("row_columns.html", columns=columns),
    }


def separator_choices(names_of: Mapping[str, Sequence[str]]) -> list[dict[str, str]]:
    """What may separate the names of a first line, each with the names that it makes."""
    words: Mapping[str, str] = vars(key("separator").type)["known"]
    return [{"word": word, "text": f"{words[word]}: {listed(names)}"} for word, names in names_of.items()]


def plan_parts(live: LivePlan, released: bool = False) -> dict[str, str]:
    """What is shown of a plan at once."""
    summary, has_sensitivity = live.planned.summary, live.planned.query is None
    has_tolerances = _has_tolerances(live)
    facts = [(_near(live), "numbers are expected within their tolerance")] if has_tolerances else []
    facts.append((str(summary.noise.mechanism).capitalize(), f"noise, on {summary.dimension:,} numbers"))
    if summary.opponent is not None:
        gain = plain_ratio(summary.gains["spr"])
        facts.insert(
            0 if has_sensitivity else len(facts), (f"{gain}×", f"as much {_error_name(live)} with {summary.opponent}")
        )
    return {
        "facts": rendered("facts.html", facts=facts, remark=summary.remark, gain=_gain(live)),
        "inside": rendered("inside.html", notes=summary.inside),
        "chart": noise_of_each_number(
            summary,
            "its tolerance" if has_tolerances else "a default tolerance, as none is stated",
            compared=summary.opponent is not None,
        ),
        "profile": rendered("profile.html", rows=profile(summary)) if has_sensitivity else "",
        "preview": "" if has_sensitivity else _preview(live),
        "ledger": _ledger(live, released),
        "promise": _promise(live),
    }


def _preview(live: LivePlan) -> str:
    """The report as it will be printed, with the ranges to expect in the place of numbers."""
    job, summary = live.job, live.planned.summary
    level = float(job.outputs.level or 0.95)
    parts = []
    for name, plan in live.planned.plans.items():
        by = job.question.parts[name].by
        keys_of = by if isinstance(by, Mapping) else {}
        lines = plan.summary().lines
        tables = [_preview_table(line, plan.question, keys_of, level, plan) for line in lines[:_MOST_TABLES]]
        parts.append((name, tables, len(lines) - _MOST_TABLES))
    question = next(iter(live.planned.plans.values())).question
    return rendered(
        "preview.html",
        source=job.question.source,
        parts=parts,
        percent=f"{100 * level:.4g}",
        tolerance="its tolerance" if _has_tolerances(live) else "the usual tolerance",
        assumed=f"about {summary.rows:,} rows" if summary.rows and summary.guessed else "",
        grouped=next((plan.summary().spread for plan in live.planned.plans.values() if plan.summary().spread), "")
        or ("groups of equal size" if any(table["names"] for _, tables, _ in parts for table in tables) else ""),
        promise=promise_in_words(summary.budget, protected_unit(question), summary.noise.sensitivity.neighbours),
    )


def _preview_table(line: PlanLine, question: Any, by: Mapping[str, Any], level: float, plan: Any) -> dict[str, Any]:
    """One statistic with its groups: what stands above it, and the half of its range."""
    shown = _titled(line.label)
    noise = getattr(getattr(plan, "noise", None), "mechanism", "gaussian")
    kind = Mechanism.named(noise) if noise in get_args(MechanismName) else GAUSSIAN
    half = line.deviation / kind.deviation * kind.quantile(1 - level)
    bounds = getattr(question, "bounds", {}).get(shown["column"]) if shown["statistic"] in _WITHIN_LIMITS else None
    text = plain_number(half, 2)
    cells = [plain_number(error / line.deviation * half, 2) for error in line.by_group]
    groups = list(product(*(map(str, entry) for entry in by.values()))) if by and shown["statistic"] else []
    several = f"each of {line.cells:,} numbers" if (line.cells or 1) > 1 else "in all"
    return shown | {
        "title": shown["title"] + (f" by {' and '.join(by)}" if groups else ""),
        "names": list(by) if groups else [],
        "rows": [(keys, cells[at] if cells else text) for at, keys in enumerate(groups[:_MOST_GROUPS])]
        or [((several,), text)],
        "more": len(groups) - _MOST_GROUPS,
        "picture": expected_range(bounds, half, f"{text} of {bounds[0]:g} to {bounds[1]:g}") if bounds else "",
        "over": line.tolerance is not None and line.largest > line.tolerance,
    }


def _titled(label: str) -> dict[str, Any]:
    """A line of a plan in words: mean(age) is the mean of age."""
    parts = _LABEL.fullmatch(label)
    option = None if parts is None else find_key(parts[1])
    if parts is None or option is None:
        return {"statistic": "", "column": "", "title": label[:1].upper() + label[1:]}
    words = option.title + (f" of {parts[2]}" if parts[2] else "")
    return {"statistic": parts[1], "column": parts[2] or "", "title": words[:1].upper() + words[1:]}


def _has_tolerances(live: LivePlan) -> bool:
    """Whether anybody said which errors they could live with; else a tolerance is only the usual one."""
    noise_choices = [part.options.values for part in live.planned.job.parts.values()]
    is_stated = any("tolerance" in noise_values or "weights" in noise_values for noise_values in noise_choices)
    return is_stated and any(line.tolerance for line in live.planned.summary.lines)


def _near(live: LivePlan) -> str:
    lines = [line for line in live.planned.summary.lines if line.tolerance]
    return f"{sum(line.deviation <= (line.tolerance or 0.0) for line in lines)} of {len(lines)}"


def _error_name(live: LivePlan) -> str:
    """The error that the plan makes small."""
    summary = live.planned.summary
    return f"{summary.error_name} in the worst table" if summary.worst else summary.error_name


def _gain(live: LivePlan) -> str | None:
    """The sentence on what the plan gains; where both baselines are one, the number beside it says it all."""
    summary = live.planned.summary
    return summary.gain if summary.units and live.planned.query is None else None


def details_part(live: LivePlan, curve: Curve | None) -> dict[str, str]:
    """What takes a moment longer: the curve, all ways to keep the promise, advice, and the job in other forms."""
    summary, job = live.planned.summary, live.job
    shown = ""
    if curve is not None and curve.points:
        size = float(live.planned.budget.to_dict()[curve.key])
        has_targets = all(line.tolerance for line in summary.lines)
        unit = "times the tolerance" if has_targets else "in the numbers' own units"
        kinds = ("spr", "plan") if summary.opponent is not None else ("plan",)
        chart = error_curve(curve.points, (size, typical_error(summary)), curve.key, unit, kinds)
        shown = rendered(
            "curve.html",
            drawn=chart,
            key=curve.key,
            unit=unit,
            other=(summary.opponent or "").removeprefix("an "),
        )
    texts = {
        "TOML file": job.to_toml(),
        "Shell command": command_text(job.to_command),
        "Python script": job.to_python(),
    }
    return {
        "curve": shown,
        "ways": ways_to_keep_the_promise(summary) if summary.opponent is not None else "",
        "advice": rendered("advice.html", advice=advice(live.planned, live.ledger)),
        "exports": rendered("exports.html", texts=texts),
    }


def spending_part(live: LivePlan, earlier: int) -> str:
    """What a release would spend, for whoever is asked to confirm it."""
    return rendered(
        "spending.html",
        **_spent(live.ledger, live.job.ledger.ledger, live.job.ledger.part),
        promise=promise_symbols(live.planned.summary.budget),  # what is charged, which may be less than was asked for
        earlier=earlier,
    )


def release_part(outcome: Outcome, before: Mapping[str, PublishedBefore] | None = None, truth: Any = None) -> str:
    """What became of a release."""
    released, published, note = outcome.released, before or {}, ""
    if released is not None:
        published = {
            name: PublishedBefore(one.blocks, one.level, one.answers, one.things, one.only, one.columns, one.sampled)
            for name, one in released.reports.items()
        }
        if released.may_be_full:
            note = "A released count may have reached the limit on the table's rows, where sums and counts stop."
    comparisons = (
        [] if truth is None else _compared([block for one in published.values() for block in one.blocks], truth)
    )
    parts = [
        (
            name,
            estimates_section(
                one.blocks,
                one.level,
                TOO_NOISY,
                things=one.things,
                only=one.only,
                columns=one.columns,
                sampled=one.sampled,
            )
            if one.blocks
            else "",
        )
        for name, one in published.items()
    ]
    return rendered(
        "release.html",
        outcome=outcome,
        parts=parts,
        facts=[fact for one in published.values() for fact in one.facts],
        compared=comparisons,
        held=sum(comparison[-1] for comparison in comparisons),
        note=note,
        files=[(name, FILE_WORDS[name]) for name in outcome.files if name != ROWS_FILE],
        has_rows=ROWS_FILE in outcome.files,
        charge=None if released is None else released.charge,
        ledger=None if released is None else released.ledger,
        bar=""
        if released is None or released.ledger is None
        else budget_bar(released.ledger.percent, released.ledger.percent),
    )


def releases_part(outcomes: Sequence[Outcome]) -> str:
    """Earlier releases of the folder, newest first."""
    return rendered("releases.html", outcomes=outcomes, words=FILE_WORDS)


def _promise(live: LivePlan) -> str:
    noise = live.planned.summary.noise
    plans = list(live.planned.plans.values())
    unit = protected_unit(plans[0].question) if plans else "one person's contribution"
    budget = live.planned.summary.budget
    words = promise_in_words(budget, unit, noise.sensitivity.neighbours)
    return rendered("promise.html", words=words, name=promise_name(budget), numbers=promise_symbols(budget))


def _ledger(live: LivePlan, released: bool) -> str:
    if live.ledger is None:
        return ""
    shown = _spent(live.ledger, live.job.ledger.ledger, live.job.ledger.part)
    if released:  # nothing more is taken, unless it is asked for again
        shown["bar"] = budget_bar(live.ledger.spent, live.ledger.spent)
    return rendered("ledger.html", **shown, released=released)


def _spent(ledger: LedgerPreview | None, name: str | None, part: str | None) -> dict[str, Any]:
    """What a release, or the opening of a stream, would take of a ledger."""
    return {
        "ledger": ledger,
        "name": name,
        "part": part,
        "total": None if ledger is None else promise_symbols(ledger.total),
        "bar": "" if ledger is None else budget_bar(ledger.spent, ledger.after),
    }


def _compared(blocks: Sequence[EstimateBlock], truth: Any) -> list[tuple[str, str, str, str, bool]]:
    """Estimate, interval and exact value of each number of the demonstration that has no groups."""
    comparisons = []
    for block in blocks:
        exact = None if block.dimensions else demonstration_truth(truth, block.statistic, block.column, block.bounds)
        number: Estimate = block.estimates[0]
        if exact is None or number.lower is None or number.upper is None:
            continue
        middle, low, high = rounded_interval(number.estimate, number.lower, number.upper)
        name = f"{number.statistic} {number.column}".strip()
        comparisons.append(
            (name, middle, f"{low} to {high}", plain_number(exact), number.lower <= exact <= number.upper)
        )
    return comparisons


def rendered(template: str, /, **context: Any) -> str:
    """A template, with every text in it escaped."""
    return _TEMPLATES.get_template(template).render(context)


def stream_plan_parts(live: LiveStream) -> dict[str, str]:
    """What is shown of a plan at once."""
    plan = live.plan
    target = "totals" if plan.choice.want == "totals" else f"its {plan.choice.want}"
    facts = [
        (f"{plain_ratio(plan.gain)}×", f"as much error in {target} with independent periods"),
        (f"{len(plan.periods):,}", f"periods, {plan.periods[0]} to {plan.periods[-1]}"),
        (plan.noise.mechanism.capitalize(), f"noise, on {plan.noise.dimension:,} numbers of each period"),
    ]
    budget = plan.budget
    words = promise_in_words(budget, protected_unit(plan.question), plan.noise.sensitivity.neighbours)
    table = plan.error_table()
    return {
        "facts": rendered(
            "facts.html",
            facts=facts,
            remark=" ".join(filter(None, [plan.nothing_gained, plan.who_is_left_out(), plan.every_in_words()])),
            gain=None,
        ),
        "chart": rendered("stream_errors.html", head=table[0], rows=table[1:], label=plan.statistics[0][0]),
        "preview": _stream_preview(live, words),
        "ledger": ""
        if live.ledger is None
        else rendered("ledger.html", **_spent(live.ledger, live.address, live.part), released=False),
        "promise": rendered("promise.html", words=words, name=promise_name(budget), numbers=promise_symbols(budget)),
    }


def _stream_preview(live: LiveStream, promise: str) -> str:
    """What is printed of each period, with the ranges to expect."""
    plan = live.plan
    widest = Mechanism.named(plan.noise.mechanism)
    times = widest.quantile(0.05) / widest.deviation
    spans = [("a period", float(max(plan.errors("periods")))), ("all periods", float(plan.errors("totals")[-1]))]
    tables = []
    for label, error in plan.statistics[:_MOST_TABLES]:
        adds_up = label.startswith(("count", "sum", "histogram"))
        lines = [((name,), plain_number(error * spread * times, 2)) for name, spread in spans[: 1 + adds_up]]
        tables.append(_titled(label) | {"names": ["of"], "rows": lines, "more": 0, "picture": "", "over": False})
    return rendered(
        "preview.html",
        source=live.name or "",
        parts=[("", tables, 0)],
        percent="95",
        assumed="",
        grouped="",
        promise=promise,
    )


def stream_details(live: LiveStream) -> dict[str, str]:
    """The same as a command."""
    return {"exports": rendered("exports.html", texts={"Shell command": live.command})}


def opening_part(live: LiveStream) -> str:
    """What opening the stream would spend, for whoever is asked to confirm it."""
    symbols = promise_symbols(live.plan.budget)
    count = len(live.plan.periods)
    return rendered(
        "opening.html", **_spent(live.ledger, live.address, live.part), promise=symbols, stream=live.name, count=count
    )


def stream_parts(shown: ShownStream) -> dict[str, str]:
    """A stream that is there: how far it is, its picture, and its numbers."""
    blocks = stream_blocks(shown.results, TOO_NOISY, shown.facts)
    columns = shown.facts.question.column_facts()
    chart = "" if shown.bands is None else totals_chart(shown.bands, shown.periods)
    files = [(name, FILE_WORDS[name]) for name in STREAM_FILES] if shown.released else []
    return {
        "stream": rendered("stream_state.html", shown=shown),
        "numbers": rendered(
            "stream_numbers.html",
            shown=shown,
            files=files,
            missing=shown.results[-1].missing if shown.results else (),
            picture=chart,
            name="" if shown.bands is None else shown.bands.name,
            note=shown.facts.who_is_left_out(),
            estimates=estimates_section(blocks, shown.level, TOO_NOISY, columns=columns) if blocks else "",
        ),
    }
