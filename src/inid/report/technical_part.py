"""The technical part of the page: how the budget is spent, public facts of the columns, certificate."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from inid.promises import Budget
from inid.report.charts import axis_over, bar, dots, ticks
from inid.report.inputs import LedgerState, ReportInputs
from inid.report.number_text import plain_number, plain_ratio
from inid.report.plan_summary import PlanLine, PlanSummary
from inid.report.promise_text import detection_in_words, promise_name, promise_symbols
from inid.report.rendering import rendered

if TYPE_CHECKING:
    from markupsafe import Markup

__all__ = [
    "certificate_terms",
    "definition_list",
    "ledger_part",
    "noise_of_each_number",
    "promise_terms",
    "technical_part",
    "ways_to_keep_the_promise",
]

_MOST = 300  # lines drawn of a plan; the rest is in the record
_ALLOCATIONS = {"optimal": "optimal", "iid": "i.i.d.", "spr": "equal split"}


def technical_part(inputs: ReportInputs) -> "Markup":
    """Everything that a statistician wants to know and others may skip."""
    plan = inputs.plan
    gain = None
    if plan.opponent is not None:
        gain = plain_ratio(plan.gains["spr"]), _gain_over(plan, plan.opponent)
    return rendered(
        "technical.html",
        terms=inputs.question,
        gain=gain,
        sentences=[text for text in (plan.remark, plan.gain, *plan.worse) if text],
        ways=ways_to_keep_the_promise(plan),
        noise=noise_of_each_number(plan),
        ledger=ledger_part(inputs.ledger),
        columns=inputs.columns,
        certificate=definition_list(certificate_terms(inputs)),
    )


def _gain_over(plan: PlanSummary, opponent: str) -> str:
    """What the gain is counted in: the answers, where the plan releases other numbers."""
    opponent = opponent.replace("an equal split", "an equal split of the budget")
    if plan.answers_differ:
        return f"error of the answers with {opponent}, this plan = 1"
    return f"error of {opponent}, this plan = 1"


def ledger_part(state: LedgerState | None) -> "Markup | str":
    """The currencies of the ledger; nothing to show where one charge took the whole promise."""
    if state is None or state.closed:
        return ""
    return rendered("ledger.html", ledger=state, total=_kept(state.total))


def ways_to_keep_the_promise(plan: PlanSummary) -> "Markup":
    """The expected error of every way to keep the promise, as bars."""
    found = list(plan.comparison)
    axis = axis_over([row.ratio for row in found], log=True)
    rows = []
    for row in found:
        mine = (row.mechanism, row.allocation) == plan.comparison.chosen
        kind = "plan" if mine else row.allocation if row.mechanism == plan.noise.mechanism else "other"
        picture = bar(axis, row.ratio, kind if kind != "optimal" else "other", f"{row.ratio:.4g} times the error")
        over = " over these numbers" if plan.answers_differ and row.allocation == "spr" else ""
        name = f"{str(row.mechanism).capitalize()}, {_ALLOCATIONS[row.allocation]}{over}"
        rows.append({"mine": mine, "name": name, "ratio": plain_ratio(row.ratio), "picture": picture})
    differ = plan.answers_differ and plan.opponent is not None
    ways = "other noise on the numbers that this plan releases" if differ else "every way to keep the promise"
    top = plain_ratio(plan.gains["spr"]) if differ else ""
    return rendered("ways.html", plan=plan, ways=ways, top=top, rows=rows, ticks=ticks(axis, "×"))


def noise_of_each_number(plan: PlanSummary, tolerance: str = "its tolerance", *, compared: bool = True) -> "Markup":
    """The noise of each number, against its tolerance where it has one, else against an equal split.

    Args:
        plan: The plan.
        tolerance: What the tolerances are called.
        compared: Whether it is drawn beside something.
    """
    shown = plan.lines[:_MOST]
    tolerant = all(line.tolerance is not None for line in shown)
    marks = [_relative(line, tolerant) for line in shown]
    axis = axis_over([1.0, *(value for row in marks for value in row.values())], log=True)
    opponent = plan.opponent or "an equal split"
    names = {"plan": "this plan", "spr": opponent.removeprefix("an ")}
    lines = []
    for line, row in zip(shown, marks, strict=True):
        # The plan's own dot is drawn last, on top.
        drawn = [(kind, row[kind], f"{names[kind]} {row[kind]:.3g}") for kind in ("spr", "plan")]
        picture = dots(axis, drawn, 1.0, line.label)
        deviation = plain_number(line.deviation, 4)
        lines.append({"label": line.label, "share": f"{line.share:.1%}", "deviation": deviation, "picture": picture})
    return rendered(
        "noise.html",
        plan=plan,
        compared=compared,
        against=tolerance if tolerant else opponent,
        names=names,
        lines=lines,
        ticks=ticks(axis, "×"),
        more=len(plan.lines) - _MOST,
    )


def _relative(line: PlanLine, tolerant: bool) -> dict[str, float]:
    one = line.tolerance if tolerant and line.tolerance else line.baselines["spr"]
    values = {"plan": line.deviation, "spr": line.baselines["spr"]}
    return {kind: value / one if one > 0 else 1.0 for kind, value in values.items()}


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
    terms += [("released", inputs.time)] if inputs.time else []
    return terms + ([("digest of the record", inputs.digest)] if inputs.digest else [])


def _kept(budget: Budget) -> str:
    return f"{promise_name(budget)} with {promise_symbols(budget)}"


def definition_list(terms: Sequence[tuple[str, str]]) -> "Markup":
    """Terms and their descriptions."""
    return rendered("terms.html", terms=terms)
