"""results/verdicts.md, made from the results: counts of verdicts, one section for each experiment, our own claims."""

import json
import os
import re
from collections import Counter
from pathlib import Path

from experiments.claims import UNPRINTED, Claim, Outcome

__all__ = ["NAMES", "render", "write_page"]

NAMES = (
    "table1",
    "algorithm1",
    "allocation",
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
    outcomes, runs = {}, {}
    for name in NAMES:
        path = results / name / "outcome.json"
        if path.exists():
            outcomes[name] = Outcome.from_dict(json.loads(path.read_text()))
            runs[name] = json.loads(path.with_name("run.json").read_text())
    link = os.path.relpath(results, page.parent)
    before, after = _TEMPLATE.read_text().split(_MARK)
    fast = any(run["configuration"] == "fast" for run in runs.values())
    sections = [_section(name, outcome, runs[name], f"{link}/{name}") for name, outcome in outcomes.items()]
    parts = [_summary(outcomes, fast=fast), *sections, _beyond(outcomes)]
    text = before + "\n\n".join(parts) + after
    documents = os.path.relpath(_DOCUMENTS, page.parent)
    return re.sub(r"\]\(([\w/-]+\.md)\)", rf"]({documents}/\1)", text)


def write_page(results: Path, page: Path) -> None:
    """Write the page."""
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(render(results, page))


def _printed_claims(outcome: Outcome) -> list[Claim]:
    """The claims of the paper, without our own."""
    return [claim for claim in outcome.claims if claim.printed != UNPRINTED]


def _summary(outcomes: dict[str, Outcome], *, fast: bool) -> str:
    counts = Counter(claim.verdict for outcome in outcomes.values() for claim in _printed_claims(outcome))
    lines = ["## Verdicts", ""]
    if fast:
        lines += ["**A fast run: settings are not the paper's, and verdicts that involve chance mean nothing.**", ""]
    verdicts = [verdict for verdict, _ in counts.most_common()]
    lines += [f"{counts.total()} claims of the paper: {', '.join(f'{v} {counts[v]}' for v in verdicts)}.", ""]
    by_section = {o.title: Counter(claim.verdict for claim in _printed_claims(o)) for o in outcomes.values()}
    cells = [[f"[{t}](#{_anchor(t)})", *(str(c[v] or "") for v in verdicts)] for t, c in by_section.items()]
    lines += _table(["section", *verdicts], cells)
    return "\n".join(lines)


def _section(name: str, outcome: Outcome, run: dict[str, str], link: str) -> str:
    source = (
        f"`python -m experiments {name}`, {run['configuration']} configuration, {run['date']}, data: {run['data']}."
    )
    lines = [f"## {outcome.title}", "", f"{source} [CSV, records and seeds]({link}/).", ""]
    claims = _printed_claims(outcome)
    rows = [[str(n), c.says, c.printed, c.ours, f"**{c.verdict}**"] for n, c in enumerate(claims, 1)]
    lines += [*_table(["", "claim", "printed", "ours", "verdict"], rows), "", _reasons(claims)]
    for figure in outcome.figures:
        lines += ["", f"![{outcome.title}]({link}/{figure.name}.svg)", "", f"*{figure.caption}*"]
    for table in outcome.tables:
        lines += ["", f"{table.title}:", "", *_table(table.head, table.rows)]
    if outcome.choices:
        lines += ["", "Left open by the text, and chosen here:", "", *(f"- {choice}" for choice in outcome.choices)]
    return "\n".join(lines)


def _reasons(claims: list[Claim]) -> str:
    """One paragraph: what the verdicts rest on, by the number of the claim."""
    reasons: dict[str, list[str]] = {}
    for number, claim in enumerate(claims, 1):
        reasons.setdefault(claim.why[0].upper() + claim.why[1:], []).append(str(number))
    return " ".join(f"({', '.join(numbers)}) {reason}." for reason, numbers in reasons.items())


def _beyond(outcomes: dict[str, Outcome]) -> str:
    """Our own claims, and what the extensions give on the paper's tasks."""
    own = [c for o in outcomes.values() for c in o.claims if c.printed == UNPRINTED]
    lines = ["## Beyond the paper", "", "None of these is a claim of the paper, nor counted among them.", ""]
    rows = [[str(n), c.says, c.ours, f"**{c.verdict}**"] for n, c in enumerate(own, 1)]
    lines += [*_table(["", "our claim", "measured", "verdict"], rows), "", _reasons(own)] if own else []
    for outcome in outcomes.values():
        if outcome.beyond:
            lines += ["", f"{outcome.title}:", "", *(f"- {more}" for more in outcome.beyond)]
    return "\n".join(lines)


def _table(head: list[str], rows: list[list[str]]) -> list[str]:
    lines = ["| " + " | ".join(head) + " |", "| " + " | ".join("---" for _ in head) + " |"]
    return lines + ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]


def _anchor(title: str) -> str:
    kept = "".join(c for c in title.lower() if c.isalnum() or c in " -_")
    return kept.replace(" ", "-")
