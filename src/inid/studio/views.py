"""The parts of the page as HTML, from templates that escape every text that is put into them."""

from collections.abc import Mapping, Sequence
from typing import Any

from inid._version import __version__
from inid.jobs.advice import advice
from inid.jobs.demonstration import demonstration_truth
from inid.jobs.stored_record import PublishedBefore
from inid.jobs.streams import OPEN_KEYS
from inid.report import Estimate, EstimateBlock, PlanSummary
from inid.report.charts import budget_bar
from inid.report.estimate_tables import estimates_section
from inid.report.number_text import plain_number, plain_ratio, rounded_interval
from inid.report.promise_text import promise_in_words, promise_name, promise_symbols
from inid.report.rendering import environment
from inid.report.technical_part import noise_of_each_number, ways_to_keep_the_promise
from inid.schema import Key, key, keys
from inid.schema.key import keys_of_a_question
from inid.studio.charts import error_curve, profile
from inid.studio.folder import ROWS_FILE
from inid.studio.live import Column, Curve, LivePlan, typical_error
from inid.studio.releases import Outcome
from inid.studio.steps import STEPS, STREAM_STEPS
from inid.tables.report_inputs import protected_unit
from inid.tables.result import TOO_NOISY

__all__ = [
    "FILE_WORDS",
    "columns_parts",
    "details_part",
    "glance",
    "open_page",
    "plan_parts",
    "release_part",
    "releases_part",
    "rendered",
    "spending_part",
    "studio_page",
]

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


_TOLD = 3  # numbers of a plan that are said in words
_SCRIPTS = ("form.js", "asking.js", "questions.js", "rows.js", "lists.js", "guide.js", "studio.js")


def _fields(place: str, page: str = "table", *groups: str) -> list[Key]:
    """The keys with a field in some part of a page; a stream is asked less, and has no part of its own ledger."""
    found = [one for one in keys(*groups) if one.place == place]
    if page == "stream":
        return [one for one in found if one.name in OPEN_KEYS and (one.group != "ledger" or place == "promise")]
    return [one for one in found if page != "explore" or one.group != "ledger"]


_TEMPLATES.globals |= {"key": key, "fields": _fields}


def studio_page(page: str) -> str:
    """The whole page, without anything about the user's files: its script asks for that."""
    choices: dict[str, Any] = {one.name: one.type for one in keys() if one.type.field == "choice"}
    usual = {name: word for name, kind in choices.items() for word in kind.known if kind.known[word] == kind.usual}
    asked = {one.name: one.place for one in keys() if one.asks}
    inside = [one.name for one in keys_of_a_question()]
    steps = STREAM_STEPS if page == "stream" else STEPS
    scripts = [*_SCRIPTS[:-1], *(["stream.js"] if page == "stream" else []), _SCRIPTS[-1]]
    shown: dict[str, Any] = {"page": page, "version": __version__, "asked": asked, "usual": usual, "steps": steps}
    shown |= {"scripts": scripts, "inside": inside}
    return rendered("page.html", **shown)


def open_page(key: str) -> str:
    """What the link opens: it hands the key to the browser's storage and goes on to the page."""
    return rendered("open.html", key=key)


def columns_parts(columns: Sequence[Column]) -> dict[str, str]:
    """One row of fields per column: its public facts, its statistics, and questions about the order of its values."""
    return {
        "html": rendered("columns.html", columns=columns),
        "statistics": rendered("statistic_columns.html", columns=columns),
        "order": rendered("order_columns.html", columns=columns),
        "row": rendered("row_columns.html", columns=columns),
    }


def plan_parts(live: LivePlan, released: bool = False) -> dict[str, str]:
    """What is shown of a plan at once.

    Args:
        live: The plan.
        released: Whether exactly this was released just now: that there is no room for a second one is said to
            whoever tries it.
    """
    summary, stated = live.planned.summary, live.planned.query is None
    wanted = _is_wanted(live)
    facts = [(_near(live), "numbers expected within their tolerance")] if wanted else []
    facts.append((str(summary.noise.mechanism).capitalize(), f"noise, on {summary.dimension:,} numbers"))
    if summary.opponent is not None:
        gain = plain_ratio(summary.gains["spr"])
        facts.insert(0 if stated else len(facts), (f"{gain}×", f"as much {_error_name(live)} with {summary.opponent}"))
    lead = "" if stated else _lead(summary)
    return {
        "facts": rendered("facts.html", lead=lead, facts=facts, remark=summary.remark, **_gain(live)),
        "inside": rendered("inside.html", notes=summary.inside),
        "chart": noise_of_each_number(
            summary,
            "its tolerance" if wanted else "the usual tolerance, as none is stated",
            compared=summary.opponent is not None,
        ),
        "profile": rendered("profile.html", rows=profile(summary)) if stated else "",
        "ledger": _ledger(live, released),
        "promise": _promise(live),
    }


def _lead(summary: PlanSummary) -> str:
    """What to expect, in words and in the numbers' own units, for the first few of them."""
    told = []
    for line in summary.lines[:_TOLD]:
        beside = plain_number(line.baselines["spr"], 2) if summary.opponent is not None else ""
        off = plain_number(line.deviation, 2)
        name = f"each cell of “{line.label}”" if (line.cells or 1) > 1 else f"“{line.label}”"
        against = f", against {beside} with equal noise" if beside not in ("", off) else ""
        told.append(f"{name} to be about {off} off{against}")
    more = len(summary.lines) - _TOLD
    rest = f" And so on for {more:,} more, listed below." if more > 0 else ""
    return f"Expect {'; '.join(told)}.{rest}" if told else ""


def glance(live: LivePlan) -> str:
    """The plan in a line, for whoever looks at another part of the page."""
    found = [f"{_near(live)} numbers expected within their tolerance."] if _is_wanted(live) else []
    if live.ledger is not None and live.ledger.after is not None:
        found.append(f"{live.ledger.shares[2]} of the ledger would be spent after this release.")
    return " ".join(found)


def _is_wanted(live: LivePlan) -> bool:
    """Whether anybody said which errors they could live with; else a tolerance is only the usual one."""
    stated = [part.own.values for part in live.planned.job.parts.values()]
    wanted = any("tolerance" in own or "weights" in own for own in stated)
    return wanted and any(line.tolerance for line in live.planned.summary.lines)


def _near(live: LivePlan) -> str:
    lines = [line for line in live.planned.summary.lines if line.tolerance]
    return f"{sum(line.deviation <= (line.tolerance or 0.0) for line in lines)} of {len(lines)}"


def _error_name(live: LivePlan) -> str:
    """The error that the plan makes small."""
    summary = live.planned.summary
    return f"{summary.error_name} in the worst table" if summary.worst else summary.error_name


def _gain(live: LivePlan) -> dict[str, Any]:
    """The sentence on what the plan gains; where both baselines are one, the number beside it says it all."""
    summary = live.planned.summary
    return {"gain": summary.gain if summary.units else None, "units": summary.units and live.planned.query is not None}


def details_part(live: LivePlan, curve: Curve | None) -> dict[str, str]:
    """What takes a moment longer: the curve, all ways to keep the promise, advice, and the job in other forms."""
    summary, job = live.planned.summary, live.job
    shown = ""
    if curve is not None and curve.points:
        size = float(live.planned.budget.to_dict()[curve.key])
        stated = all(line.tolerance for line in summary.lines)
        unit = "times the tolerance" if stated else "in the numbers' own units"
        kinds = ("spr", "plan") if summary.opponent is not None else ("plan",)
        drawn = error_curve(curve.points, (size, typical_error(summary)), curve.key, unit, kinds)
        shown = rendered(
            "curve.html",
            drawn=drawn,
            key=curve.key,
            unit=unit,
            other=(summary.opponent or "").removeprefix("an "),
        )
    texts = {"TOML file": job.to_toml(), "Shell command": _command(job), "Python script": job.to_python()}
    return {
        "curve": shown,
        "ways": ways_to_keep_the_promise(summary) if summary.opponent is not None else "",
        "advice": rendered("advice.html", advice=advice(live.planned, live.ledger)),
        "exports": rendered("exports.html", texts=texts),
    }


def spending_part(live: LivePlan, earlier: int) -> str:
    """What a release would spend, for whoever is asked to confirm it."""
    return rendered("spending.html", **_spent(live), promise=promise_symbols(live.planned.budget), earlier=earlier)


def release_part(outcome: Outcome, before: Mapping[str, PublishedBefore] | None = None, truth: Any = None) -> str:
    """What became of a release.

    Args:
        outcome: What became of it.
        before: Its numbers by question, where an earlier process released them.
        truth: The demonstration's public table.
    """
    made, seen, note = outcome.released, before or {}, ""
    if made is not None:
        seen = {
            name: PublishedBefore(one.blocks, one.level, one.answers, one.things, one.only)
            for name, one in made.reports.items()
        }
        if made.may_be_full:
            note = "A released count may be at the limit on the table's rows, at which sums and counts stop."
    rows = [] if truth is None else _compared([block for one in seen.values() for block in one.blocks], truth)
    parts = [
        (
            name,
            estimates_section(one.blocks, one.level, TOO_NOISY, things=one.things, only=one.only) if one.blocks else "",
        )
        for name, one in seen.items()
    ]
    return rendered(
        "release.html",
        outcome=outcome,
        parts=parts,
        facts=[fact for one in seen.values() for fact in one.facts],
        compared=rows,
        held=sum(row[-1] for row in rows),
        note=note,
        files=[(name, FILE_WORDS[name]) for name in outcome.files if name != ROWS_FILE],
        has_rows=ROWS_FILE in outcome.files,
        charge=None if made is None else made.charge,
        ledger=None if made is None else made.ledger,
        bar="" if made is None or made.ledger is None else budget_bar(made.ledger.percent, made.ledger.percent),
    )


def releases_part(outcomes: Sequence[Outcome]) -> str:
    """Earlier releases of the folder, newest first."""
    return rendered("releases.html", outcomes=outcomes, words=FILE_WORDS)


def _promise(live: LivePlan) -> str:
    noise = live.planned.summary.noise
    plans = list(live.planned.plans.values())
    unit = protected_unit(plans[0].question.person) if plans else "one person's contribution"
    budget = live.planned.summary.budget
    words = promise_in_words(budget, unit, noise.sensitivity.neighbours)
    return rendered("promise.html", words=words, name=promise_name(budget), numbers=promise_symbols(budget))


def _ledger(live: LivePlan, released: bool) -> str:
    if live.ledger is None:
        return ""
    shown = _spent(live)
    if released:  # nothing more is taken, unless it is asked for again
        shown["bar"] = budget_bar(live.ledger.spent, live.ledger.spent)
    return rendered("ledger.html", **shown, released=released)


def _spent(live: LivePlan) -> dict[str, Any]:
    seen = live.ledger
    return {
        "ledger": seen,
        "name": live.job.ledger.ledger,
        "part": live.job.ledger.part,
        "total": None if seen is None else promise_symbols(seen.total),
        "bar": "" if seen is None else budget_bar(seen.spent, seen.after),
    }


def _command(job: Any) -> str:
    from inid.errors import ArgumentError

    try:
        return str(job.to_command())
    except ArgumentError as error:  # a name cannot be written on a command line: the sentence says what to do
        return f"# {error}"


def _compared(blocks: Sequence[EstimateBlock], truth: Any) -> list[tuple[str, str, str, str, bool]]:
    """Estimate, interval and exact value of each number of the demonstration that has no groups."""
    rows = []
    for block in blocks:
        exact = None if block.dimensions else demonstration_truth(truth, block.statistic, block.column, block.bounds)
        row: Estimate = block.estimates[0]
        if exact is None or row.lower is None or row.upper is None:
            continue
        middle, low, high = rounded_interval(row.estimate, row.lower, row.upper)
        name = f"{row.statistic} {row.column}".strip()
        rows.append((name, middle, f"{low} to {high}", plain_number(exact), row.lower <= exact <= row.upper))
    return rows


def rendered(template: str, /, **context: Any) -> str:
    """A template, with every text in it escaped."""
    return _TEMPLATES.get_template(template).render(context)
