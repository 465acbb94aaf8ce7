"""results/verdicts.md, made from the results: a table of verdicts, then one section for each experiment."""

import json
import os
import re
from collections import Counter
from pathlib import Path

from experiments.claims import Claim, Outcome

__all__ = ["NAMES", "render", "write_page"]

NAMES = (
    "table1",
    "section4",
    "figure1",
    "figure2",
    "figure3",
    "figure4",
    "table2",
    "coupled",
    "figure5",
    "figure6",
    "table5",
    "table3",
    "table4",
)

_TEMPLATE = Path(__file__).with_name("page.md")
_DOCUMENTS = Path(__file__).resolve().parents[1] / "docs"
_MARK = "<!-- results -->"


def render(results: Path, page: Path) -> str:
    """The page's text, with links relative to where it will lie; links to documents are written from docs/."""
    found = {}
    for name in NAMES:
        path = results / name / "outcome.json"
        if path.exists():
            run = json.loads(path.with_name("run.json").read_text())
            found[name] = (Outcome.from_dict(json.loads(path.read_text())), run)
    link = os.path.relpath(results, page.parent)
    before, after = _TEMPLATE.read_text().split(_MARK)
    fast = any(run["configuration"] == "fast" for _, run in found.values())
    parts = [_summary({name: outcome for name, (outcome, _) in found.items()}, fast=fast)]
    parts += [_section(name, outcome, run, f"{link}/{name}") for name, (outcome, run) in found.items()]
    text = before + "\n\n".join(parts) + after
    documents = os.path.relpath(_DOCUMENTS, page.parent)
    return re.sub(r"\]\(([\w/-]+\.md)\)", rf"]({documents}/\1)", text)


def write_page(results: Path, page: Path) -> None:
    """Write the page."""
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(render(results, page))


def _summary(found: dict[str, Outcome], *, fast: bool) -> str:
    counts = Counter(claim.verdict for outcome in found.values() for claim in outcome.claims)
    lines = ["## Verdicts", ""]
    if fast:
        lines += ["**A fast run: settings are not the paper's, and verdicts that involve chance mean nothing.**", ""]
    lines += [", ".join(f"{verdict}: {count}" for verdict, count in counts.most_common()) + ".", ""]
    lines += _table(
        ["where", "claim", "printed", "ours", "verdict"],
        [
            [f"[{name}](#{_anchor(outcome.title)})", claim.says, claim.printed, claim.ours, f"**{claim.verdict}**"]
            for name, outcome in found.items()
            for claim in outcome.claims
        ],
    )
    return "\n".join(lines)


def _section(name: str, outcome: Outcome, run: dict[str, str], link: str) -> str:
    made = f"`python -m experiments {name}`, {run['configuration']} configuration, {run['date']}, data: {run['data']}."
    lines = [f"## {outcome.title}", "", f"{made} [CSV, records and seeds]({link}/).", ""]
    for figure in outcome.figures:
        lines += [f"![{outcome.title}]({link}/{figure.name}.svg)", "", f"*{figure.caption}*", ""]
    lines += [f"- {_told(claim)}" for claim in outcome.claims]
    for table in outcome.tables:
        lines += ["", f"{table.title}:", "", *_table(table.head, table.rows)]
    if outcome.choices:
        lines += ["", "Left open by the text, and chosen here:", "", *(f"- {choice}" for choice in outcome.choices)]
    if outcome.beyond:
        lines += ["", "Beyond the paper, on the same task:", "", *(f"- {more}" for more in outcome.beyond)]
    return "\n".join(lines)


def _told(claim: Claim) -> str:
    why = claim.why[0].upper() + claim.why[1:]
    return f"**{claim.verdict}**: {claim.says}. Printed: {claim.printed}. Ours: {claim.ours}. {why}."


def _table(head: list[str], rows: list[list[str]]) -> list[str]:
    lines = ["| " + " | ".join(head) + " |", "| " + " | ".join("---" for _ in head) + " |"]
    return lines + ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]


def _anchor(title: str) -> str:
    kept = "".join(c for c in title.lower() if c.isalnum() or c in " -_")
    return kept.replace(" ", "-")
