"""From ordered columns, their plan and their answers to what the report and the command show."""

from inid.report import Dimension, Estimate, EstimateBlock, PlanLine, PlanSummary, ReportInputs
from inid.tables.presentation import Labels
from inid.tables.published import PageFacts
from inid.tables.questions.ordered.plan import OrderedPlan
from inid.tables.questions.ordered.question import OrderedQuestion, OrderedTable
from inid.tables.questions.ordered.result import OrderedResult
from inid.tables.report_inputs import estimates_on_page, inputs_of, named_levels, view_facts

__all__ = ["ordered_report_inputs", "summarize_ordered_plan"]

_MOST_BARS = 40  # of one curve; the rest is in the files


def summarize_ordered_plan(made: OrderedPlan) -> PlanSummary:
    """The plan of ordered columns, one line per table; its baseline is noise on the counts of the levels."""
    total = sum((table.std / table.tolerance) ** 2 for table in made.tables) or 1.0
    lines = tuple(
        PlanLine(
            label=f"running count of {table.label}",
            share=(table.std / table.tolerance) ** 2 / total,
            deviation=table.std,
            tolerance=table.tolerance,
            baselines={"iid": table.counts, "spr": table.counts},
        )
        for table in made.tables
    )
    gains = {"iid": made.gain(), "spr": made.gain()}
    opponent = "noise on the count of each value"
    return PlanSummary(made.noise, lines, gains, None, worse=tuple(made.worse_lines), opponent=opponent, units=False)


def ordered_report_inputs(result: OrderedResult, page: PageFacts) -> ReportInputs:
    """Everything that the report of ordered columns shows."""
    question, estimates = result.question, estimates_on_page(result, page)
    blocks, start = [], 0
    for table in question.tables:
        for kind in table.kinds:
            quantiles = kind == "quantile"
            number = len(question.probabilities[table.column]) if quantiles else question.levels[table.column].size
            stop = start + number * len(question.cells(table))
            blocks.append(_block(question, table, kind, estimates[start:stop], number, page.labels))
            start = stop
    facts = [
        ("table", page.source),
        ("statistics", ", ".join(f"{kind} of {table.label}" for table in question.tables for kind in table.kinds)),
        ("left out", "rows with other keys, or without a value"),
        *view_facts(question.view),
    ]
    return inputs_of(result, page, summarize_ordered_plan(result.plan), facts, blocks)


def _block(
    question: OrderedQuestion,
    table: OrderedTable,
    kind: str,
    estimates: tuple[Estimate, ...],
    number: int,
    labels: Labels,
) -> EstimateBlock:
    """One statistic in all groups; of a long curve every so many levels, the last among them."""
    groups = tuple(named_levels(column, question.keys[column], labels) for column in table.groups)
    if kind == "quantile":
        levels = tuple(f"{p:g}" for p in question.probabilities[table.column])
        kept = list(range(number))
    else:
        every = -(-number // _MOST_BARS)
        kept = list(range(number - 1, -1, -every))[::-1]
        levels = tuple(question.levels[table.column].names[at] for at in kept)
    shown = tuple(estimates[start + at] for start in range(0, len(estimates), number) for at in kept)
    name = "probability" if kind == "quantile" else f"{table.column} up to"
    return EstimateBlock(kind, table.column, (*groups, Dimension(name, levels)), shown)
