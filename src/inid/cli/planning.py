"""`inid plan`, `inid compare` and `inid accuracy`: everything that can be known before anything is spent."""

import json
from dataclasses import dataclass

from inid.cli import reading
from inid.cli.files import check_writable, write_whole
from inid.cli.options import Noise, Promise, Speech, Stated, listed, option
from inid.cli.planned import Planned
from inid.cli.promising import promised
from inid.cli.speaking import Voice, plain_number
from inid.cli.stating import is_stated, stated_accuracy, stated_plan
from inid.cli.tabular import Tabular
from inid.errors import ArgumentError

__all__ = ["AccuracyOptions", "PlanOptions", "QuestionOptions", "accuracy", "compare", "plan"]


@dataclass(frozen=True, kw_only=True)
class QuestionOptions(Speech, Noise, Promise, Stated):
    """The options of `inid compare`."""


@dataclass(frozen=True, kw_only=True)
class PlanOptions(QuestionOptions):
    """The options of `inid plan`."""

    # A flag only: in a file that is shared with inid release, `out` is where the results go.
    out: object = option("--out", "FILE", "Keep the plan in this JSON file, for inid verify.", in_file=False)


@dataclass(frozen=True, kw_only=True)
class AccuracyOptions(Speech, Stated):
    """The options of `inid accuracy`."""

    tolerance: object = listed("--tolerance", "NAME=X,...", "The largest error that is acceptable, by column or label.")
    failure: object = option("--failure", "P", "The probability of a larger error, for each number (default: 0.05).")
    delta: object = option("--delta", "X", "Compare with Gaussian noise at this delta; without it, pure DP.")


def plan(options: PlanOptions) -> None:
    """Show the plan, and keep it in a file when asked to."""
    voice = Voice(options)
    out = reading.path("--out", options.out)
    if out is not None:
        check_writable("--out", out)
    made = _planned(voice, options)
    if out is not None:
        write_whole(out, json.dumps(made.noise.to_dict(), indent=2) + "\n")
    voice.document({"command": "plan"} | made.to_dict())
    made.show(voice)
    voice.say()
    made.show_gain(voice)
    if out is not None:
        voice.say(f"The plan is in {out}; inid verify {out} proves it again.")


def compare(options: QuestionOptions) -> None:
    """Show every way to keep the promise."""
    voice = Voice(options)
    made = _planned(voice, options)
    voice.document({"command": "compare"} | made.to_dict())
    made.show_comparison(voice)


def accuracy(options: AccuracyOptions) -> None:
    """Show what a wanted accuracy costs."""
    voice = Voice(options)
    if options.tolerance is None:
        raise ArgumentError("a tolerance is missing: pass --tolerance age=1,income=500, the largest acceptable errors.")
    given = reading.probability("--failure", options.failure, "0.05")
    failure = 0.05 if given is None else float(given)
    level = reading.probability("--delta", options.delta, "1e-6")
    delta = None if level is None else float(level)
    if is_stated(options):
        answer, labels = stated_accuracy(options, options.tolerance, failure, delta)
    else:
        answer, labels = Tabular(options).accuracy(options.tolerance, failure, delta)
    voice.document(
        {
            "command": "accuracy",
            "failure": failure,
            "reason": answer.reason,
            "plan": answer.plan.to_dict(),
            "certificate": answer.plan.certificate.to_dict(),
            "alternatives": [
                {"mechanism": other.mechanism, "budget": other.budget.to_dict()} for other in answer.alternatives
            ],
        }
    )
    voice.say(answer.reason)
    voice.say()
    rows = [["noise", "promise"]]
    rows += [[other.mechanism, str(other.budget)] for other in answer.alternatives]
    voice.table(rows, left=2, strong=[1])
    voice.say()
    scales = zip(labels, answer.plan.scales, answer.plan.shares, strict=True)
    lines = [[label, plain_number(float(scale)), f"{share:.2%}"] for label, scale, share in scales]
    voice.table([["number", "scale", "share"], *lines], left=1)


def _planned(voice: Voice, options: QuestionOptions) -> Planned:
    budget = promised(options)
    if is_stated(options):
        return stated_plan(options, options, budget)
    with voice.working("Planning"):
        return Tabular(options).plan(options, budget).planned
