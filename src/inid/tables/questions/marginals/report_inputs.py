"""From many tables, their plan and their answers to what the report and the command show."""

import math
from dataclasses import replace

from inid.report import EstimateBlock, PlanLine, PlanSummary, ReportInputs
from inid.tables.published import PageFacts
from inid.tables.questions.marginals.plan import MarginalsPlan
from inid.tables.questions.marginals.result import MarginalsResult
from inid.tables.report_inputs import (
    column_facts,
    estimates_on_page,
    inputs_of,
    listed_keys,
    named_levels,
    protection,
    view_facts,
)

__all__ = ["marginals_report_inputs", "summarize_marginals_plan"]


def summarize_marginals_plan(made: MarginalsPlan) -> PlanSummary:
    """The plan of many tables, one line per table.

    Each row counts in one cell of every table, so that i.i.d. noise on all cells is the equal split.
    """
    lines = tuple(
        PlanLine(
            label=table.statistic.name + (f" by {', '.join(table.columns)}" if table.columns else ""),
            share=table.share,
            deviation=table.std,
            tolerance=table.tolerance,
            baselines={"iid": table.spr, "spr": table.spr},
            cells=table.cells,
        )
        for table in made.tables
    )
    question = made.question
    rows = question.assumed_rows if question.means else None
    gains = {"iid": made.gain(), "spr": made.gain()}
    guessed = question.rows is None
    seen = {"inside": made.inside_text, "units": False, "worst": made.objective == "max"}
    seen["worse"] = tuple(made.worse_lines)
    return PlanSummary(made.noise, lines, gains, None, rows, guessed, made.advice, **seen)  # type: ignore[arg-type]


def marginals_report_inputs(result: MarginalsResult, page: PageFacts) -> ReportInputs:
    """Everything that the report of many tables shows."""
    question, estimates = result.question, estimates_on_page(result, page)
    blocks, start = [], 0
    for asked in question.statistics:
        dimensions = tuple(named_levels(column, question.domains.levels(column), page.labels) for column in asked.table)
        stop = start + math.prod(len(dimension.levels) for dimension in dimensions)
        bounds = question.bounds.get(asked.column) if asked.kind == "mean" else None
        blocks.append(EstimateBlock(asked.kind, asked.column, dimensions, estimates[start:stop], bounds))
        start = stop
    dropped = "count in a cell of their own" if question.domains.other == "cell" else "are left out"
    what = "statistics by tables" if question.summed else "tables of counts"
    groups = [f"{name}: {listed_keys(question.domains.keys[name])}" for name in question.columns]
    facts = [
        ("table", page.source),
        ("statistics", f"{len(question.statistics)} {what} over {', '.join(question.columns)}; they agree"),
        ("groups", "; ".join(groups)),
        ("other keys", f"rows with other keys, or none, {dropped}"),
        ("protected", protection(question.person, question.neighbours)),
        *view_facts(question.view),
        ("rows assumed", "" if question.rows is None else f"{question.rows:,}, a public guess for planning"),
    ]
    made = inputs_of(result, page, summarize_marginals_plan(result.plan), facts, blocks)
    kinds = {"mean": question.means, "sum": question.sums}
    columns = [
        column_facts(name, [kind for kind, asked in kinds.items() if name in asked], question.bounds, question.missing)
        for name in question.summed
    ]
    return replace(made, columns=columns)
