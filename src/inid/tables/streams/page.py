"""The HTML report of a stream: every period and every total with its range, the promise and the proof."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from inid.errors import ArgumentError
from inid.report import Dimension, Estimate, EstimateBlock, LedgerState, ReportInputs, page, summarize_plan
from inid.tables.presentation import read_too_noisy
from inid.tables.report_inputs import marked, protected_unit, things_of
from inid.tables.result import TOO_NOISY
from inid.tables.streams.results import SumResult

if TYPE_CHECKING:
    from inid.accounting import Ledger
    from inid.tables.streams.stream import Stream

__all__ = ["stream_blocks", "stream_page"]

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
        ("released so far", f"{len(stream.released)} of {len(stream.periods)} periods"),
        ("periods without a number", ", ".join(lost) + "; totals are without them" if lost else ""),
    ]
    inputs = ReportInputs(
        title=title or "Private statistics, period after period",
        plan=summarize_plan(plan.noise),
        unit=protected_unit(plan.question.person),
        question=[(term, text) for term, text in facts if text],
        blocks=stream_blocks(results, share),
        level=stream.level,
        time=stream.time,
        private=all(made.private for made in results),
        charge=stream.charge,
        ledger=None if ledger is None else LedgerState.of(ledger),
        too_noisy=share,
        things=things_of(plan.question.person, None),
        only="" if plan.question.view.where is None else str(plan.question.view.where),
    )
    return page(inputs)


def stream_blocks(results: Sequence[SumResult], too_noisy: float | None) -> list[EstimateBlock]:
    """Each statistic over all periods and groups, then over all totals, then over all windows.

    Args:
        results: What was released.
        too_noisy: The share of the estimate beyond which an interval is marked as too wide; None marks none.
    """
    kinds = [[made for made in results if made.what == what] for what in _NAMES]
    return [block for own in kinds if own for block in _blocks(own, too_noisy)]


def _blocks(results: Sequence[SumResult], too_noisy: float | None) -> Iterator[EstimateBlock]:
    """Each statistic over all periods and groups."""
    over = Dimension(_NAMES[results[0].what], tuple(map(_span, results)))
    for statistic, column in dict.fromkeys((row.statistic, row.column) for row in results[0].rows):
        lines = [
            (_span(made), row)
            for made in results
            for row in made.rows
            if (row.statistic, row.column) == (statistic, column)
        ]
        groups = [
            Dimension(column if name == "cell" else name, tuple(dict.fromkeys(str(row.keys[name]) for _, row in lines)))
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
        yield EstimateBlock(statistic, column, (over, *groups), estimates, span=_SPANS[results[0].what])


def _span(made: SumResult) -> str:
    return f"{made.first} to {made.last}" if made.what == "window" else made.last
