"""The report: one self-contained HTML page about a plan or a release.

`inputs` lists everything that the page shows, as plain values; `page` puts it together, from `templates/`.
"""

from inid.report.charts import (
    Axis,
    axis_over,
    bar,
    bar_with_interval,
    budget_bar,
    dots,
    element,
    picture,
    ticks,
    whisker,
)
from inid.report.estimate_tables import (
    afterthoughts,
    block_title,
    estimate_tables,
    estimates_section,
    value_word,
    without_idle_others,
)
from inid.report.inputs import ColumnFacts, Dimension, Estimate, EstimateBlock, LedgerState, ReportInputs
from inid.report.page import page, publication_page, report_plan
from inid.report.plan_summary import PlanLine, PlanSummary, summarize_plan
from inid.report.rendering import environment, rendered
from inid.report.wording import (
    Digits,
    belief_after,
    detection_in_words,
    detection_rate,
    digits_for,
    plain_number,
    promise_in_words,
    promise_symbols,
    rounded_interval,
)

__all__ = [
    "ColumnFacts",
    "Dimension",
    "Estimate",
    "EstimateBlock",
    "LedgerState",
    "PlanLine",
    "PlanSummary",
    "ReportInputs",
    "page",
    "publication_page",
    "report_plan",
    "summarize_plan",
]
