"""A plan as tables in a terminal."""

from collections.abc import Callable, Sequence

from inid.cli.console import Console
from inid.report import PlanLine, PlanSummary
from inid.report.number_text import plain_number, plain_ratio

__all__ = ["print_comparison", "print_gain", "print_plan"]

_MOST_LINES = 60
_WORST = 20


def print_plan(console: Console, plan: PlanSummary) -> None:
    """One line per number."""
    noise = plan.noise
    console.line(
        f"{str(noise.mechanism).capitalize()} noise, {noise.allocation} allocation, {noise.dimension} noisy numbers"
    )
    console.line(f"promise: {noise.budget}, neighbours: {noise.sensitivity.neighbours}")
    if plan.rows is not None:
        guess = "; state your own guess with --rows" if plan.guessed else ""
        console.line(f"errors for {plan.rows:,} rows in all{guess}")
    console.line()
    named: list[tuple[str, Callable[[PlanLine], float | None]]] = [
        ("cells", lambda line: line.cells),
        ("sensitivity", lambda line: line.sensitivity),
        ("scale", lambda line: line.scale),
        ("tolerance", lambda line: line.tolerance),
        ("std of noise", lambda line: line.deviation),
        ("equal split", lambda line: line.baselines["spr"]),
    ]
    columns = [(name, read) for name, read in named if any(read(line) is not None for line in plan.lines)]
    rows = [["number" if plan.rows is None else "statistic", *(name for name, _ in columns), "share"]]
    for line in _shown_lines(plan):
        cells = [_cell(read(line)) for _, read in columns]
        rows.append([line.label, *cells, f"{line.share:.2%}"])
    console.table(rows, left=1)
    if len(plan.lines) > _MOST_LINES:
        console.line(_left_out(plan))
    for sentence in plan.inside:
        console.line(sentence)


def _shown_lines(plan: PlanSummary) -> Sequence[PlanLine]:
    """All lines; where there are too many, the tables whose noise is largest beside their tolerance, or the first."""
    if len(plan.lines) <= _MOST_LINES:
        return plan.lines
    if plan.lines[0].cells is None:
        return plan.lines[:_MOST_LINES]
    return sorted(plan.lines, key=lambda line: -line.deviation / (line.tolerance or 1.0))[:_WORST]


def _left_out(plan: PlanSummary) -> str:
    if plan.lines[0].cells is None:
        return f"... and {len(plan.lines) - _MOST_LINES} more"
    stds = [line.deviation for line in plan.lines]
    ends = f"{plain_number(min(stds))} to {plain_number(max(stds))}"
    return f"... the worst {_WORST} of {len(stds)} tables; std of noise {ends}"


def print_gain(console: Console, plan: PlanSummary) -> None:
    """What was gained against the baselines, in a sentence or two; that nothing was, if so."""
    for sentence in (plan.remark, plan.gain):
        if sentence:
            console.line(sentence)


def print_comparison(console: Console, plan: PlanSummary) -> None:
    """Every way to keep the promise, and a sentence when there is nothing to gain."""
    rows = [["mechanism", "allocation", "error", "dB", "ratio", ""]]
    chosen: list[int] = []
    for at, row in enumerate(plan.comparison, start=1):
        mine = (row.mechanism, row.allocation) == plan.comparison.chosen
        chosen += [at] if mine else []
        numbers = f"{row.error:.4g}", f"{row.decibel:.2f}", plain_ratio(row.ratio)
        rows.append([str(row.mechanism), row.allocation, *numbers, "*" if mine else ""])
    console.table(rows, left=2, strong=chosen)
    if plan.remark:
        console.line(plan.remark)


def _cell(value: float | None) -> str:
    return "" if value is None else plain_number(value)
