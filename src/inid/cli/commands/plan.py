"""`inid plan`, `inid compare` and `inid accuracy`: the noise of each number, before anything is spent."""

import json

from inid.cli.console import Console, print_comparison, print_gain, print_plan
from inid.cli.options import COMMON, NOISE, PROMISE, STATED, Command, Values, flag_name, job_from
from inid.errors import ArgumentError
from inid.jobs import PlannedJob, TableQuestion, accuracy_of_job, plan_job
from inid.jobs.outputs import check_writable, write_atomically
from inid.jobs.planned_job import plan_advice
from inid.report.wording import plain_number
from inid.schema import Key, key
from inid.schema.values import probability


def plan(values: Values) -> None:
    """Show the plan, and keep it in a file when asked to."""
    console = Console(values)
    out = key("out").of(values)
    if out is not None:
        check_writable("--out", out)
    report = key("report").of(values)
    if report is not None:
        check_writable("--report", report)
    planned = _planned(console, values)
    summary = planned.summary
    if out is not None:
        write_atomically(out, json.dumps(planned.charge.to_dict(), indent=2) + "\n")
    if report is not None:
        write_atomically(report, planned.page("A plan for private numbers"))
    if console.json:  # many lines, and a comparison that takes as long as six plans
        console.document({"command": "plan"} | planned.to_dict())
    print_plan(console, summary)
    console.line()
    print_gain(console, summary)
    for sentence in plan_advice(planned):
        console.line(sentence)
    if out is not None:
        console.line(f"The plan is in {out}; inid verify {out} proves it again.")


def compare(values: Values) -> None:
    """Show every way to keep the promise."""
    console = Console(values)
    summary = _planned(console, values).summary
    if summary.promise is not None:
        raise ArgumentError("a release in several steps of fixed cost has no alternatives to compare: see inid plan.")
    console.document({"command": "compare"} | summary.to_dict())
    print_comparison(console, summary)


def _planned(console: Console, values: Values) -> PlannedJob:
    job = job_from(values, leaving_out=["out", "report"])
    with console.working("Planning"):
        return plan_job(job, flag_name)


_QUESTION = (
    *STATED,
    *PROMISE,
    *NOISE,
    key("ledger").saying("Plan for this ledger: --part of it, or its neighbours. Nothing is charged."),
    key("name"),
)

PLAN = Command(
    "plan",
    plan,
    # Flags only: in a file that is shared with inid release, they say where its results go.
    (
        *_QUESTION,
        key("out").saying("Keep the plan in this JSON file, for inid verify.", in_file=False),
        key("report").saying("Write a page about the plan to this HTML file.", in_file=False),
        *COMMON,
    ),
    """Show the least noise that keeps a promise.

    Nothing is spent: only the names and types of a table's columns are read. The plan can be kept in a file and
    proved again with inid verify.
    """,
    """
  inid plan --sensitivity 1,3,40 --labels age,visits,income --epsilon 1 --delta 1e-6
  inid plan --sensitivity 1,3,40 --tolerance 10,20,500 --rho 0.1 --mechanism gaussian --out plan.json
  inid plan people.csv --bounds age=0:100,income=0:500000 --mean age,income --rows 1000 --epsilon 1 --delta 1e-6
  inid plan people.csv --bounds age=0:100 --mean age --person user_id --max-rows 5 --mu 0.3 --json
""",
)

COMPARE = Command(
    "compare",
    compare,
    (*_QUESTION, *COMMON),
    """Show the error of every mechanism and allocation.

    Under one promise: optimal, i.i.d. and equal-split (spr) allocations, each with Gaussian and Laplace noise.
    """,
    """
  inid compare --sensitivity 1,3,40 --epsilon 1 --delta 1e-6
  inid compare people.csv --bounds age=0:100,income=0:500000 --sum age,income --epsilon 1 --tolerance age=1,income=900
""",
)


_FAILURE = Key(
    "failure", probability("0.05"), "P", "The probability of a larger error, for each number (default: 0.05)."
)


def accuracy(values: Values) -> None:
    """Show the least budget that reaches the tolerances."""
    console = Console(values)
    given = _FAILURE.of(values)
    failure = 0.05 if given is None else float(given)
    level = key("delta").of(values)
    job = job_from(values, leaving_out=["delta"])
    with console.working("Planning"):
        answer, numbers = accuracy_of_job(job, failure, None if level is None else float(level), flag_name)
    several = "" not in job.parts
    console.document(
        {
            "command": "accuracy",
            "failure": failure,
            "reason": answer.reason,
            "plan": answer.plan.to_dict(),
            **({} if several else {"certificate": answer.plan.certificate.to_dict()}),
            "alternatives": [
                {"mechanism": other.mechanism, "budget": other.budget.to_dict()} for other in answer.alternatives
            ],
        }
    )
    console.line(answer.reason)
    console.line()
    lines = [["noise", "promise"]]
    lines += [[str(other.mechanism), str(other.budget)] for other in answer.alternatives]
    console.table(lines, left=2, strong=[1])
    console.line()
    lines = [[label, plain_number(scale), f"{share:.2%}"] for label, scale, share in numbers]
    by_table = isinstance(job.question, TableQuestion) and job.question.kind.combines
    heads = ["table", "std of a cell"] if by_table else ["number", "std" if several else "scale"]
    console.table([[*heads, "share"], *lines], left=1)


ACCURACY = Command(
    "accuracy",
    accuracy,
    (
        *STATED,
        key("tolerance").saying("The largest error that is acceptable, by column or label."),
        _FAILURE,
        key("delta").saying("Compare with Gaussian noise at this delta; without it, pure DP."),
        *COMMON,
    ),
    """Show what a wanted accuracy costs.

    The least budget with which every number stays within its tolerance, each with probability 1 - failure.
    """,
    """
  inid accuracy --sensitivity 1,3,40 --labels age,visits,income --tolerance 10,20,500 --delta 1e-6
  inid accuracy people.csv --bounds age=0:100 --count --mean age --tolerance age=1,count=20 --rows 1000
  inid accuracy people.csv --domains sex=F,M --domains age=0:115 --marginals sex --marginals sex,age \\
    --tolerance "sex=20,sex*age=5" --delta 1e-6
""",
)
