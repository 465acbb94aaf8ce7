"""From keys that appeared, and their plan, to what the report and the command show."""

from collections.abc import Sequence

from inid.report import Dimension, Estimate, EstimateBlock, PlanLine, PlanSummary, ReportInputs
from inid.report.number_text import plain_number
from inid.tables.presentation import Labels, labelled
from inid.tables.published import PageFacts
from inid.tables.questions.discovery.plan import DiscoveryPlan
from inid.tables.questions.discovery.question import NEAR, DiscoveryQuestion
from inid.tables.questions.discovery.result import DiscoveryResult
from inid.tables.report_inputs import estimates_on_page, inputs_of, view_facts

__all__ = ["discovery_report_inputs", "found_blocks", "summarize_discovery_plan"]


def summarize_discovery_plan(made: DiscoveryPlan) -> PlanSummary:
    """The plan in one line: the noise of each count. It has no baseline: there is one way to spend it."""
    line = PlanLine(
        label=f"{made.question.statistic} by {made.question.column}",
        share=1.0,
        deviation=made.std,
        tolerance=None,
        baselines={"iid": made.std, "spr": made.std},
    )
    remark = (
        f"A key appears when its noisy count is at least {plain_number(made.threshold)}. One that only one person has "
        f"does so with probability {made.delta:g} at most, which is charged beside the noise."
    )
    return PlanSummary(made.noise, (line,), {"iid": 1.0, "spr": 1.0}, remark, opponent=None)


def discovery_report_inputs(result: DiscoveryResult, page: PageFacts) -> ReportInputs:
    """Everything that the report of found keys shows; a star marks intervals that may not hold."""
    question, column = result.question, result.question.column
    blocks = found_blocks(question, result.keys, estimates_on_page(result, page), page.labels)
    near = "a key with a star may have a smaller count than its range says: small counts appear by chance"
    facts = [
        ("table", page.source),
        ("keys", f"those of {column} whose noisy count is at least {plain_number(result.plan.threshold)}"),
        ("near the threshold", near if any(row.keys[NEAR] for row in result.rows) else ""),
        ("keys of one person", f"at most {question.contribution.most_keys:,} count"),
        ("hidden", f"a key that only one person has appears with probability {result.plan.delta:g} at most"),
        ("left out", f"rows without a {column}"),
        *view_facts(question.view),
    ]
    return inputs_of(result, page, summarize_discovery_plan(result.plan), facts, blocks)


def found_blocks(
    question: DiscoveryQuestion, keys: Sequence[object], estimates: Sequence[Estimate], labels: Labels
) -> list[EstimateBlock]:
    """The counts of the keys that were found, if any were."""
    column = question.column
    stars = ["*" if row.keys[NEAR] else "" for row in estimates]
    levels = tuple(f"{labelled(key, column, labels)}{star}" for key, star in zip(keys, stars, strict=True))
    return [EstimateBlock(question.statistic, "", (Dimension(column, levels),), tuple(estimates))] if keys else []
