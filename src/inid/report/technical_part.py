"""The technical part of the page: how the budget is spent, public facts of the columns, certificate."""

from collections.abc import Sequence
from html import escape

from inid.promises import Budget
from inid.report.charts import axis_over, bar, dots, ticks
from inid.report.inputs import ColumnFacts, LedgerState, ReportInputs
from inid.report.number_text import plain_number, plain_ratio
from inid.report.plan_summary import PlanLine, PlanSummary
from inid.report.promise_text import detection_in_words, promise_name, promise_symbols

__all__ = [
    "certificate_terms",
    "definition_list",
    "noise_of_each_number",
    "promise_terms",
    "technical_part",
    "ways_to_keep_the_promise",
]

_MOST = 300  # lines drawn of a plan; the rest is in the record
_ALLOCATIONS = {"optimal": "optimal", "iid": "i.i.d.", "spr": "equal split"}


def technical_part(inputs: ReportInputs) -> str:
    """Everything that a statistician wants to know and others may skip."""
    parts = ['<h2 class="part">Technical part</h2>', _spending(inputs.plan), _ledger(inputs.ledger)]
    parts += [_columns(inputs.columns), _certificate(inputs)]
    return "\n".join(part for part in parts if part)


def _spending(plan: PlanSummary) -> str:
    sentences = "".join(f"<p>{escape(text)}</p>" for text in (plan.remark, plan.gain, *plan.worse) if text)
    return (
        f"<h2>How the budget is spent</h2>\n{sentences}{ways_to_keep_the_promise(plan)}\n{noise_of_each_number(plan)}"
    )


def ways_to_keep_the_promise(plan: PlanSummary) -> str:
    """The expected error of every way to keep the promise, as bars."""
    rows = list(plan.comparison)
    axis = axis_over([row.ratio for row in rows], log=True)
    body = ""
    for row in rows:
        mine = (row.mechanism, row.allocation) == plan.comparison.chosen
        kind = "plan" if mine else row.allocation if row.mechanism == plan.noise.mechanism else "other"
        picture = bar(axis, row.ratio, kind if kind != "optimal" else "other", f"{row.ratio:.4g} times the error")
        over = " over these numbers" if plan.answers_differ and row.allocation == "spr" else ""
        name = f"{str(row.mechanism).capitalize()}, {_ALLOCATIONS[row.allocation]}{over}"
        body += (
            f"<tr><td>{'<b>' if mine else ''}{escape(name)}{'</b>' if mine else ''}</td>"
            f'<td class="n">{escape(plain_ratio(row.ratio))}×</td><td class="picture wider">{picture}</td></tr>'
        )
    ways, note = "every way to keep the promise", ""
    if plan.answers_differ and plan.opponent is not None:
        ways = "other noise on the numbers that this plan releases"
        note = (
            '<p class="note">Here only the noise differs: it is put on the numbers that this plan releases, of which '
            f"the answers are made. The {escape(plain_ratio(plan.gains['spr']))}× at the top of the page is for "
            f"{escape(plan.opponent)} that releases other numbers.</p>\n"
        )
    return (
        f"<h3>Expected {plan.error_name} of {ways}, this plan = 1</h3>\n{note}"
        f'<div class="wide"><table><tbody>{body}</tbody><tfoot><tr><td></td><td></td>'
        f'<td class="picture wider">{ticks(axis, "×")}</td></tr></tfoot></table></div>'
    )


def noise_of_each_number(plan: PlanSummary, tolerance: str = "its tolerance") -> str:
    """The noise of each number, against its tolerance where it has one, else against an equal split.

    Args:
        plan: The plan.
        tolerance: What the tolerances are called.
    """
    lines = plan.lines[:_MOST]
    tolerant = all(line.tolerance is not None for line in lines)
    marks = [_relative(line, tolerant) for line in lines]
    axis = axis_over([1.0, *(value for row in marks for value in row.values())], log=True)
    opponent = plan.opponent or "an equal split"
    against = tolerance if tolerant else opponent
    names = {"plan": "this plan", "spr": opponent.removeprefix("an ")}
    body = ""
    for line, row in zip(lines, marks, strict=True):
        # The plan's own dot is drawn last, on top.
        shown = [(kind, row[kind], f"{names[kind]} {row[kind]:.3g}") for kind in ("spr", "plan")]
        body += (
            f'<tr><td class="name">{escape(line.label)}</td><td class="n spare">{line.share:.1%}</td>'
            f'<td class="n">{escape(plain_number(line.deviation, 4))}</td>'
            f'<td class="picture">{dots(axis, shown, 1.0, line.label)}</td></tr>'
        )
    legend = "".join(f'<span><i class="{kind}"></i>{escape(name)}</span>' for kind, name in names.items())
    more = "" if len(plan.lines) <= _MOST else f'<p class="note">And {len(plan.lines) - _MOST} more.</p>'
    return (
        f"<h3>Std of the noise of each number, relative to {against} (dashed line)</h3>\n{_assumed(plan)}"
        f'<div class="legend">{legend}</div>\n<div class="wide"><table><thead><tr><th>number</th>'
        '<th class="n spare">share</th><th class="n">std of noise</th><th class="picture"></th></tr></thead>'
        f'<tbody>{body}</tbody><tfoot><tr><td></td><td class="spare"></td><td></td>'
        f'<td class="picture">{ticks(axis, "×")}</td></tr></tfoot></table></div>\n{more}'
    )


def _assumed(plan: PlanSummary) -> str:
    """For how many rows these figures are: the released answers know better, and their ranges show it."""
    if plan.rows is None:
        return ""
    whose = "a nominal guess, since none was stated" if plan.guessed else "the stated guess"
    return (
        f'<p class="note">What the plan expected. Where an answer divides by a number of rows (means, variances, '
        f"standard deviations), that is for {plan.rows:,} rows in all, {whose}; its released range is for the rows "
        "that are there.</p>\n"
    )


def _relative(line: PlanLine, tolerant: bool) -> dict[str, float]:
    one = line.tolerance if tolerant and line.tolerance else line.baselines["spr"]
    values = {"plan": line.deviation, "spr": line.baselines["spr"]}
    return {kind: value / one if one > 0 else 1.0 for kind, value in values.items()}


def _ledger(state: LedgerState | None) -> str:
    """The currencies of the ledger; nothing to show where one charge took the whole promise."""
    if state is None or state.closed:
        return ""
    rows = "".join(
        f'<tr><td>{escape(name)}</td><td class="n">{escape(used)}</td><td class="n">{escape(rest)}</td></tr>'
        for name, used, rest in state.lines
    )
    return (
        '<h2>The ledger</h2>\n<div class="wide"><table><thead><tr><th>currency</th><th class="n">spent</th>'
        f'<th class="n">left</th></tr></thead><tbody>{rows}</tbody></table></div>\n'
        '<p class="note">Lines are alternatives: a later charge must fit one of them together with the whole history. '
        "A dash: not countable in that currency.</p>"
    )


def _columns(columns: Sequence[ColumnFacts]) -> str:
    """The public facts of each column; late on the page, because there may be many."""
    if not columns:
        return ""
    heading = "".join(f"<th>{name}</th>" for name in ("column", "statistics", "public bounds", "missing values"))
    cells = ((facts.name, facts.statistics, facts.bounds, facts.missing) for facts in columns)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in cells)
    table = f"<table><thead><tr>{heading}</tr></thead><tbody>{body}</tbody></table>"
    return f'<h2>Public facts</h2>\n<div class="wide">{table}</div>'


def promise_terms(budget: Budget) -> list[tuple[str, str]]:
    """The promise of a whole release, in symbols and as a test of whether somebody is in the table."""
    return [("keeps", _kept(budget)), ("as a test", detection_in_words(budget))]


def certificate_terms(inputs: ReportInputs) -> list[tuple[str, str]]:
    """The proof, term by term."""
    plan = inputs.plan
    terms = promise_terms(plan.budget)
    for at, noise in enumerate(plan.steps or (plan.noise,), start=1):
        proof = noise.certificate
        if plan.steps:
            terms.append((f"step {at} keeps", f"{_kept(noise.budget)}, fixed in advance; what the steps cost adds up"))
        terms += [
            ("noise", f"{proof.sensitivity.dimension} independent {proof.mechanism} coordinates"),
            ("sensitivity", str(proof.sensitivity)),
            ("fingerprint", proof.sensitivity.fingerprint),
            ("checked", proof.statement),
            ("spent", f"{proof.spent:.17g} (rounded up)"),
            ("arithmetic", proof.arithmetic),
        ]
    return terms + ([("digest of the record", inputs.digest)] if inputs.digest else [])


def _kept(budget: Budget) -> str:
    return f"{promise_name(budget)} with {promise_symbols(budget)}"


def _certificate(inputs: ReportInputs) -> str:
    return (
        "<h2>Certificate</h2>\n<p>Derived anew from the plan's own numbers. "
        "<code>inid verify</code> repeats it on the ledger or the record.</p>\n"
        + definition_list(certificate_terms(inputs))
    )


def definition_list(terms: Sequence[tuple[str, str]]) -> str:
    """Terms and their descriptions."""
    return "<dl>" + "".join(f"<dt>{escape(term)}</dt><dd>{escape(text)}</dd>" for term, text in terms) + "</dl>"
