"""The report: one self-contained HTML page about a plan or a release.

`inputs` lists everything that the page shows, as plain values; `page` puts it together from `estimate_tables`,
`promise_text` and `technical_part`, and `templates/` says how it looks; `charts` draws.
"""

from inid.report.inputs import ColumnFacts, Dimension, Estimate, EstimateBlock, LedgerState, ReportInputs
from inid.report.page import page, report_plan
from inid.report.plan_summary import PlanLine, PlanSummary, summarize_plan
from inid.report.publication_page import publication_page

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
