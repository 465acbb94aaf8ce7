"""The parts of the page of streams as HTML."""

from typing import Any

from inid.report.charts import budget_bar
from inid.report.estimate_tables import estimates_section
from inid.report.number_text import plain_ratio
from inid.report.promise_text import promise_in_words, promise_name, promise_symbols
from inid.studio.charts import totals_chart
from inid.studio.live_streams import STREAM_FILES, LiveStream, ShownStream
from inid.studio.views import FILE_WORDS, rendered
from inid.tables.report_inputs import protected_unit
from inid.tables.result import TOO_NOISY
from inid.tables.streams.page import stream_blocks

__all__ = ["opening_part", "stream_details", "stream_parts", "stream_plan_parts"]


def stream_plan_parts(live: LiveStream) -> dict[str, str]:
    """What is shown of a plan at once."""
    plan = live.plan
    wanted = "totals" if plan.choice.want == "totals" else f"its {plan.choice.want}"
    facts = [
        (f"{plain_ratio(plan.gain)}×", f"as much error in {wanted} with independent periods"),
        (f"{len(plan.periods):,}", f"periods, {plan.periods[0]} to {plan.periods[-1]}"),
        (plan.noise.mechanism.capitalize(), f"noise, on {plan.noise.dimension:,} numbers of each period"),
    ]
    budget = plan.budget
    words = promise_in_words(budget, protected_unit(plan.question.person), plan.noise.sensitivity.neighbours)
    table = plan.error_table()
    return {
        "facts": rendered(
            "facts.html",
            lead="",
            facts=facts,
            remark=None if plan.gain > 1 else plan.gain_in_words(),
            gain=None,
            units=False,
        ),
        "chart": rendered("stream_errors.html", head=table[0], rows=table[1:], label=plan.statistics[0][0]),
        "ledger": "" if live.ledger is None else rendered("ledger.html", **_spent(live), released=False),
        "promise": rendered("promise.html", words=words, name=promise_name(budget), numbers=promise_symbols(budget)),
    }


def stream_details(live: LiveStream) -> dict[str, str]:
    """The same as a command."""
    return {"exports": rendered("exports.html", texts={"Shell command": live.command})}


def opening_part(live: LiveStream) -> str:
    """What opening the stream would spend, for whoever is asked to confirm it."""
    symbols = promise_symbols(live.plan.budget)
    count = len(live.plan.periods)
    return rendered("opening.html", **_spent(live), promise=symbols, stream=live.name, count=count)


def stream_parts(shown: ShownStream) -> dict[str, str]:
    """A stream that is there: how far it is, its picture, and its numbers."""
    blocks = stream_blocks(shown.results, TOO_NOISY)
    drawn = "" if shown.bands is None else totals_chart(shown.bands, shown.periods)
    files = [(name, FILE_WORDS[name]) for name in STREAM_FILES] if shown.released else []
    return {
        "stream": rendered("stream_state.html", shown=shown),
        "numbers": rendered(
            "stream_numbers.html",
            shown=shown,
            files=files,
            missing=shown.results[-1].missing if shown.results else (),
            picture=drawn,
            name="" if shown.bands is None else shown.bands.name,
            estimates=estimates_section(blocks, shown.level, TOO_NOISY) if blocks else "",
        ),
    }


def _spent(live: LiveStream) -> dict[str, Any]:
    seen = live.ledger
    return {
        "ledger": seen,
        "name": live.address,
        "part": live.part,
        "total": None if seen is None else promise_symbols(seen.total),
        "bar": "" if seen is None else budget_bar(seen.spent, seen.after),
    }
