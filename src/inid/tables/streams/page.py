"""The HTML report of a stream: every period and every total with its range, the promise and the proof."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from inid.errors import ArgumentError
from inid.report import Dimension, Estimate, EstimateBlock, LedgerState, ReportInputs, page, summarize_plan
from inid.tables.report_inputs import protected_unit
from inid.tables.streams.results import SumResult

if TYPE_CHECKING:
    from inid.accounting import Ledger
    from inid.tables.streams.stream import Stream

__all__ = ["stream_blocks", "stream_page"]

_NAMES = {"period": "period", "total": "total up to", "window": "window"}


def stream_page(stream: "Stream", ledger: "Ledger | None", title: str | None) -> str:
    """The page as text: released numbers and public facts, nothing else of the stream's file."""
    results = stream.results
    if not results:
        raise ArgumentError("nothing of this stream was released yet: release a period first.")
    plan, lost = stream.plan, stream.lost
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
        blocks=stream_blocks(results),
        level=stream.level,
        time=stream.time,
        private=all(made.private for made in results),
        charge=stream.charge,
        ledger=None if ledger is None else LedgerState.of(ledger),
    )
    return page(inputs)


def stream_blocks(results: Sequence[SumResult]) -> list[EstimateBlock]:
    """Each statistic over all periods and groups, then over all totals, then over all windows."""
    kinds = [[made for made in results if made.what == what] for what in _NAMES]
    return [block for own in kinds if own for block in _blocks(own)]


def _blocks(results: Sequence[SumResult]) -> Iterator[EstimateBlock]:
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
            Estimate(
                statistic, column, ", ".join(filter(None, (last, row.groups))), row.estimate, row.lower, row.upper,
                row.std, {over.name: last, **row.keys},
            )
            for last, row in lines
        )  # fmt: skip
        yield EstimateBlock(statistic, column, (over, *groups), estimates)


def _span(made: SumResult) -> str:
    return f"{made.first} to {made.last}" if made.what == "window" else made.last
