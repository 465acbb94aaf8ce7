"""The HTML report of a stream: every period and every total with its range, the promise and the proof."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import ndtri

from inid import figures
from inid.arguments import Floats
from inid.errors import ArgumentError
from inid.report import Dimension, Estimate, EstimateBlock, LedgerState, ReportInputs, page
from inid.tables.presentation import marked, protected_unit, protection, read_too_noisy, things_of
from inid.tables.result import TOO_NOISY
from inid.tables.streams.plan import StreamPlan
from inid.tables.streams.results import SumResult

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from inid.accounting import Ledger
    from inid.tables.streams.stream import Stream


_NAMES = {"period": "period", "total": "up to", "window": "window"}
_SPANS = {"period": "in each period", "total": "from the start to each period", "window": "over several periods"}


def stream_page(
    stream: "Stream", ledger: "Ledger | None", title: str | None, too_noisy: float | None = TOO_NOISY
) -> str:
    """The page as text: released numbers and public facts, nothing else of the stream's file."""
    results = stream.results
    if not results:
        raise ArgumentError("nothing of this stream was released yet: release a period first.")
    plan, lost = stream.plan, stream.lost
    share = None if too_noisy is None else read_too_noisy(too_noisy)
    facts = [
        ("the stream", str(plan).split("\n", 1)[0]),
        ("noise", str(plan).split("\n")[1]),
        ("what it gives", plan.gain_in_words()),
        ("everybody in every period", plan.every_in_words()),
        *(
            (
                term,
                protection(plan.question, plan.when) if term == "protected" else text,
            )
            for term, text in plan.question.facts(plan, (), stream.level)
        ),
        ("released so far", f"{len(stream.released)} of {len(stream.periods)} periods"),
        ("periods without a number", ", ".join(lost) + "; totals are without them" if lost else ""),
    ]
    inputs = ReportInputs(
        title=title or "Private statistics, period after period",
        plan=plan.summary(),
        unit=protected_unit(plan.question, when=plan.when),
        question=[(term, text) for term, text in facts if text],
        columns=plan.question.column_facts(),
        blocks=stream_blocks(results, share, plan),
        level=stream.level,
        time=stream.time,
        private=all(result.private for result in results),
        charge=stream.charge,
        ledger=None if ledger is None else LedgerState.of(ledger, stream.charge),
        too_noisy=share,
        things=things_of(plan.question.person, None),
        only="" if plan.question.view.where is None else str(plan.question.view.where),
        lead=plan.who_is_left_out(),
        row_limit=plan.question.row_limit,
    )
    return page(inputs)


def stream_blocks(results: Sequence[SumResult], too_noisy: float | None, plan: StreamPlan) -> list[EstimateBlock]:
    """Each statistic over all periods and groups, then over all totals, then over all windows."""
    kinds = [[result for result in results if result.what == what] for what in _NAMES]
    return [
        block for results_of_kind in kinds if results_of_kind for block in _blocks(results_of_kind, too_noisy, plan)
    ]


def _blocks(results: Sequence[SumResult], too_noisy: float | None, plan: StreamPlan) -> Iterator[EstimateBlock]:
    """Each statistic over all periods and groups."""
    over = Dimension(_NAMES[results[0].what], tuple(map(_span, results)))
    for statistic, column in dict.fromkeys((row.statistic, row.column) for row in results[0].answers):
        lines = [
            (_span(result), row)
            for result in results
            for row in result.answers
            if (row.statistic, row.column) == (statistic, column)
        ]
        groups = [
            Dimension(
                column if name == "cell" else name,
                tuple(dict.fromkeys(str(row.keys[name]) for _, row in lines)),
                drops=name != "cell" and plan.question.other == "drop",
            )
            for name in lines[0][1].keys
        ]
        estimates = tuple(
            marked(
                Estimate(
                    statistic, column, ", ".join(filter(None, (last, row.groups))), row.estimate, row.lower, row.upper,
                    row.std, {over.name: last, **row.keys},
                ),
                too_noisy,
            )
            for last, row in lines
        )  # fmt: skip
        what = results[0].what
        bounds = plan.question.bounds.get(column) if statistic == "mean" else None
        things = plan.people(what) if statistic == "count_distinct" else plan.things(what)
        yield EstimateBlock(statistic, column, (over, *groups), estimates, bounds, span=_SPANS[what], things=things)


def _span(result: SumResult) -> str:
    return f"{result.first} to {result.last}" if result.what == "window" else result.last


# The picture of a stream: totals with their bands, beside those of independent noise.

_MOST_NAMES = 16


@dataclass(frozen=True, eq=False)
class TotalBands:
    """The totals so far of the first line of the answers."""

    name: str
    places: list[int]
    middle: Floats
    low: Floats
    high: Floats
    alone: Floats


def total_bands(stream: "Stream") -> TotalBands:
    """What a picture of the totals is made of."""
    totals = [result for result in stream.results if result.what == "total"]
    if not totals:
        raise ArgumentError("nothing of this stream was released yet: release a period first.")
    places = [stream.periods.index(result.last) for result in totals]
    lines = [result.answers[0] for result in totals]
    middle, low, high = (np.array([getattr(row, name) for row in lines]) for name in ("estimate", "lower", "upper"))
    name = f"{lines[0].statistic}({lines[0].column})" if lines[0].column else lines[0].statistic
    label = f"{name}, {lines[0].groups}" if lines[0].groups else name
    label += f"\nof {totals[0].of}" if stream.plan.leaves_out else ""
    z = float(ndtri((1 + stream.level) / 2))
    alone = z * dict(stream.plan.statistics).get(name, 0.0) * stream.plan.errors("totals", independent=True)[places]
    return TotalBands(label, places, middle, low, high, alone)


def plot_totals(stream: "Stream", ax: "Axes | None" = None) -> "Axes":
    """The totals so far of the first line of the answers, with their intervals, and how wide independent noise is."""
    bands = total_bands(stream)
    axes, places, middle = figures.new_axes(ax), bands.places, bands.middle
    axes.fill_between(places, middle - bands.alone, middle + bands.alone, color="#dddddd", label="independent noise")
    interval = f"{100 * stream.level:.4g} % interval"
    axes.fill_between(places, bands.low, bands.high, color=figures.BLUE, alpha=0.35, label=interval)
    axes.plot(places, middle, color=figures.BLUE, marker="o", markersize=3, label="total so far")
    step = -(-len(stream.periods) // _MOST_NAMES)
    shown = range(0, len(stream.periods), step)
    axes.set_xticks(list(shown), [stream.periods[at] for at in shown], rotation=45, ha="right")
    axes.set_ylabel(bands.name)
    axes.legend(loc="upper left")
    return axes
