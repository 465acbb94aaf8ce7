"""The page itself: what was asked, what it cost, how the budget is spent, what came out, and the proof."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from itertools import groupby
from typing import Any

from inid._version import __version__
from inid.cli.planned import BASELINES, Line, Planned
from inid.cli.results import Estimate, rounded
from inid.cli.speaking import plain_number, plain_ratio
from inid.promises import Budget
from inid.report.charts import Axis, axis_over, bar, dots, ticks, whisker
from inid.report.style import STYLE

__all__ = ["Facts", "page"]

_MOST = 300  # rows drawn of a plan or of results; the rest is in the files
_ALLOCATIONS = {"optimal": "optimal", "iid": "i.i.d.", "spr": "equal split"}
_SIGNS = {"epsilon": "ε", "delta": "δ", "mu": "μ", "rho": "ρ"}
_KINDS = {"plan": "this plan", "iid": "i.i.d. noise", "spr": "equal split"}


@dataclass(frozen=True)
class Facts:
    """Everything that the page tells; public facts and released numbers only.

    Attributes:
        title: The heading.
        time: When the release was made.
        asked: Term and description of each public fact of the question.
        planned: The plan beside its baselines.
        estimates: What was released.
        level: The probability of the intervals.
        ledger: `ledgers.state` after the charge, or None when nobody keeps count.
        private: False when the noise was drawn by a test's source.
        bounds: Public limits by column, over which means are drawn.
        columns: For each column its name, statistics, bounds and what a missing value becomes.
    """

    title: str
    time: str
    asked: Sequence[tuple[str, str]]
    planned: Planned
    estimates: Sequence[Estimate]
    level: float
    ledger: dict[str, Any] | None
    private: bool
    bounds: dict[str, tuple[float, float]]
    columns: Sequence[tuple[str, str, str, str]]


def page(facts: Facts) -> str:
    """The whole page as text; nothing in it comes from elsewhere, and no script runs."""
    parts = [_head(facts), _asked(facts), _cost(facts), _spending(facts), _results(facts)]
    parts += [_columns(facts), _certificate(facts)]
    body = "\n".join(parts)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<link rel="icon" href="data:,">\n<title>{escape(facts.title)}</title>\n<style>{STYLE}</style>\n</head>\n'
        f"<body>\n<main>\n{body}\n<footer>Made by inid {escape(__version__)}. The intervals cover the noise that was "
        "added for privacy, not the sampling error of the data.</footer>\n</main>\n</body>\n</html>\n"
    )


def _head(facts: Facts) -> str:
    noise = facts.planned.noise
    cards = [
        (_short(noise.budget), f"the promise, {noise.budget.kind}"),
        (str(len(facts.estimates)), f"statistics from {noise.dimension} noisy numbers"),
    ]
    cards += [(_times(ratio), f"error of {_KINDS[name]}, this plan = 1") for name, ratio in facts.planned.gains.items()]
    warning = (
        ""
        if facts.private
        else '<p class="warning"><b>Not private.</b> A test source drew the noise: these numbers protect nobody.</p>'
    )
    shown = "".join(f'<div class="fact"><b>{escape(big)}</b><span>{escape(small)}</span></div>' for big, small in cards)
    return (
        f'<h1>{escape(facts.title)}</h1>\n<p class="soft">Released {escape(facts.time)} with '
        f'{escape(noise.mechanism.capitalize())} noise.</p>\n{warning}<div class="facts">{shown}</div>'
    )


def _asked(facts: Facts) -> str:
    return f"<h2>What was asked</h2>\n{_list(facts.asked)}"


def _columns(facts: Facts) -> str:
    """The public facts of each column; after the results, since there may be many."""
    if not facts.columns:
        return ""
    heading = "".join(f"<th>{name}</th>" for name in ("column", "statistics", "public bounds", "missing values"))
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in facts.columns)
    table = f"<table><thead><tr>{heading}</tr></thead><tbody>{body}</tbody></table>"
    return f'<h2>Public facts</h2>\n<div class="wide">{table}</div>'


def _cost(facts: Facts) -> str:
    text = f"<p>{escape(_promise_in_words(facts))}</p>"
    if facts.ledger is None:
        return f'<h2>What it cost</h2>\n{text}\n<p class="warning">No ledger was named, so nobody keeps count.</p>'
    state = facts.ledger
    closed = all(line["spent"] == "-" for line in state["lines"])
    total = ", ".join(f"{key} = {value}" for key, value in state["total"].items() if key != "kind")
    rows = "".join(
        f'<tr><td>{escape(line["currency"])}</td><td class="n">{escape(line["spent"])}</td>'
        f'<td class="n">{escape(line["left"])}</td></tr>'
        for line in state["lines"]
    )
    return (
        f"<h2>What it cost</h2>\n{text}\n"
        f"<p>The ledger holds {escape(state['total']['kind'])} with {escape(total)} for neighbours "
        f"{escape(state['neighbours'])}, unit {escape(state['unit'])}; this was charge {state['charges']}"
        + (", which took the whole promise: nothing is left.</p>" if closed else f".</p>{_currencies(rows)}")
    )


def _currencies(rows: str) -> str:
    return (
        '\n<div class="wide"><table><thead><tr><th>currency</th><th class="n">spent</th><th class="n">left</th></tr>'
        f"</thead><tbody>{rows}</tbody></table></div>\n"
        '<p class="note">Lines are alternatives: a later charge must fit one of them together with the whole history. '
        "A dash: not countable in that currency.</p>"
    )


def _promise_in_words(facts: Facts) -> str:
    noise = facts.planned.noise
    relation = noise.sensitivity.neighbours
    change = "is added to or removed from the table" if relation == "add_remove" else "is replaced by another"
    return (
        f"All numbers below together keep {noise.budget}: whoever sees them learns almost the same "
        f"when one unit of privacy {change}. The certificate at the end is the proof."
    )


def _spending(facts: Facts) -> str:
    planned = facts.planned
    remark = f"<p>{escape(planned.remark)}</p>" if planned.remark else ""
    return f"<h2>How the budget is spent</h2>\n{remark}{_ways(planned)}\n{_lines(planned)}"


def _ways(planned: Planned) -> str:
    """The expected error of every way to keep the promise, as bars."""
    rows = list(planned.comparison)
    axis = axis_over([row.ratio for row in rows], log=True)
    body = ""
    for row in rows:
        mine = (row.mechanism, row.allocation) == planned.comparison.chosen
        kind = "plan" if mine else row.allocation if row.mechanism == planned.noise.mechanism else "other"
        picture = bar(axis, row.ratio, kind if kind != "optimal" else "other", f"{row.ratio:.4g} times the error")
        name = f"{row.mechanism.capitalize()}, {_ALLOCATIONS[row.allocation]}"
        body += (
            f"<tr><td>{'<b>' if mine else ''}{escape(name)}{'</b>' if mine else ''}</td>"
            f'<td class="n">{escape(_times(row.ratio))}</td><td class="picture wider">{picture}</td></tr>'
        )
    return (
        f"<h3>Expected {planned.error_name} of every way to keep the promise, this plan = 1</h3>\n"
        f'<div class="wide"><table><tbody>{body}</tbody><tfoot><tr><td></td><td></td>'
        f'<td class="picture wider">{ticks(axis, "×")}</td></tr></tfoot></table></div>'
    )


def _lines(planned: Planned) -> str:
    """The noise of each number, against its tolerance where one was stated, else against an equal split."""
    lines = planned.lines[:_MOST]
    tolerant = all(line.tolerance is not None for line in lines)
    marks = [_relative(line, tolerant) for line in lines]
    axis = axis_over([1.0, *(value for row in marks for value in row.values())], log=True)
    against = "its tolerance" if tolerant else "an equal split"
    body = ""
    for line, row in zip(lines, marks, strict=True):
        # The plan's own dot is drawn last, on top.
        shown = [(kind, row[kind], f"{_KINDS[kind]} {row[kind]:.3g}") for kind in (*BASELINES, "plan")]
        body += (
            f'<tr><td class="name">{escape(line.label)}</td><td class="n spare">{line.share:.1%}</td>'
            f'<td class="n">{escape(plain_number(line.deviation, 4))}</td>'
            f'<td class="picture">{dots(axis, shown, 1.0, line.label)}</td></tr>'
        )
    legend = "".join(f'<span><i class="{kind}"></i>{escape(name)}</span>' for kind, name in _KINDS.items())
    more = "" if len(planned.lines) <= _MOST else f'<p class="note">And {len(planned.lines) - _MOST} more.</p>'
    return (
        f"<h3>Noise of each number, relative to {against} (dashed line)</h3>\n"
        f'<div class="legend">{legend}</div>\n<div class="wide"><table><thead><tr><th>number</th>'
        '<th class="n spare">share</th><th class="n">std of noise</th><th class="picture"></th></tr></thead>'
        f'<tbody>{body}</tbody><tfoot><tr><td></td><td class="spare"></td><td></td>'
        f'<td class="picture">{ticks(axis, "×")}</td></tr></tfoot></table></div>\n{more}'
    )


def _relative(line: Line, tolerant: bool) -> dict[str, float]:
    one = line.tolerance if tolerant and line.tolerance else line.baselines["spr"]
    values = {"plan": line.deviation} | line.baselines
    return {kind: value / one if one > 0 else 1.0 for kind, value in values.items()}


def _results(facts: Facts) -> str:
    rows = facts.estimates[:_MOST]
    words = [name for name in ("statistic", "column", "groups") if any(getattr(row, name) for row in rows)]
    body = ""
    for (statistic, column), block in groupby(rows, key=lambda row: (row.statistic, row.column)):
        members = list(block)
        axis = _estimate_axis(facts, statistic, column, members)
        for row in members:
            body += _estimate_row(row, words, axis)
    more = (
        ""
        if len(facts.estimates) <= _MOST
        else f'<p class="note">And {len(facts.estimates) - _MOST} more in the result file.</p>'
    )
    heading = "".join(f"<th>{name}</th>" for name in words)
    return (
        f'<h2>Estimates</h2>\n<p class="note">Each interval holds the exact statistic of the (clipped) table with '
        f"probability {facts.level:.4g}. Means are drawn over the column's public bounds, other statistics over the "
        f'range of their own rows.</p>\n<div class="wide"><table><thead><tr>{heading}<th class="n">estimate</th>'
        '<th class="n">interval</th><th class="picture spare"></th></tr></thead>'
        f"<tbody>{body}</tbody></table></div>\n{more}"
    )


def _estimate_axis(facts: Facts, statistic: str, column: str, rows: Sequence[Estimate]) -> Axis:
    if statistic == "mean" and column in facts.bounds:
        return Axis(*facts.bounds[column])
    ends = [value for row in rows for value in (row.lower, row.upper) if value is not None]
    return axis_over([0.0, *ends])


def _estimate_row(row: Estimate, words: Sequence[str], axis: Axis) -> str:
    named = "".join(f"<td>{escape(getattr(row, name))}</td>" for name in words)
    low, value, high = row.lower, row.estimate, row.upper
    if low is None or value is None or high is None:
        return f'<tr>{named}<td class="n">-</td><td class="n">-</td><td class="picture spare"></td></tr>'
    said = f"{row.statistic} {row.column} {row.groups}: {value:.6g}, between {low:.6g} and {high:.6g}"
    middle, left, right = rounded(row)
    return (
        f'<tr>{named}<td class="n">{escape(middle)}</td><td class="n">{escape(left)} to {escape(right)}</td>'
        f'<td class="picture spare">{whisker(axis, low, value, high, said)}</td></tr>'
    )


def _certificate(facts: Facts) -> str:
    proof = facts.planned.noise.certificate
    terms = [
        ("keeps", proof.promise),
        ("noise", f"{proof.sensitivity.dimension} independent {proof.mechanism} coordinates"),
        ("sensitivity", str(proof.sensitivity)),
        ("fingerprint", proof.sensitivity.fingerprint),
        ("checked", proof.statement),
        ("spent", f"{proof.spent!r} (rounded up)"),
        ("arithmetic", proof.arithmetic),
    ]
    return (
        "<h2>Certificate</h2>\n<p>Derived anew from the plan's own numbers. "
        "<code>inid verify</code> repeats it on the ledger or the record.</p>\n" + _list(terms)
    )


def _list(terms: Sequence[tuple[str, str]]) -> str:
    return "<dl>" + "".join(f"<dt>{escape(term)}</dt><dd>{escape(text)}</dd>" for term, text in terms) + "</dl>"


def _short(budget: Budget) -> str:
    numbers = ((name, value) for name, value in budget.to_dict().items() if name != "kind")
    return ", ".join(f"{_SIGNS[name]} = {value:g}" for name, value in numbers)


def _times(ratio: float) -> str:
    return f"{plain_ratio(ratio)}×"
