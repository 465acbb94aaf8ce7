"""`inid plan` and `inid compare`: the noise of each number, before anything is spent."""

import json

from inid.cli.commands.base import Command, Values
from inid.cli.console import Console, print_comparison, print_gain, print_plan
from inid.cli.options import COMMON, NOISE, PROMISE, STATED, flag_name, job_from
from inid.errors import ArgumentError
from inid.jobs import PlannedJob, plan_job
from inid.jobs.advice import plan_advice
from inid.jobs.result_files import check_writable, write_whole
from inid.schema import key

__all__ = ["COMPARE", "PLAN"]


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
    made = planned.summary
    if out is not None:
        write_whole(out, json.dumps(planned.charge.to_dict(), indent=2) + "\n")
    if report is not None:
        write_whole(report, planned.page("A plan for private numbers"))
    if console.json:  # many lines, and a comparison that takes as long as six plans
        console.document({"command": "plan"} | planned.to_dict())
    print_plan(console, made)
    console.line()
    print_gain(console, made)
    for sentence in plan_advice(planned):
        console.line(sentence)
    if out is not None:
        console.line(f"The plan is in {out}; inid verify {out} proves it again.")


def compare(values: Values) -> None:
    """Show every way to keep the promise."""
    console = Console(values)
    made = _planned(console, values).summary
    if made.promise is not None:
        raise ArgumentError("several steps of fixed cost have no other way to keep a promise: see inid plan.")
    console.document({"command": "compare"} | made.to_dict())
    print_comparison(console, made)


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

    Nothing is spent: of a table only the names and types of its columns are read. The plan can be kept in a file and
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
    """Show the error of every way to keep it.

    Optimal, i.i.d. and equal split (spr), with Gaussian and with Laplace noise, under one promise.
    """,
    """
  inid compare --sensitivity 1,3,40 --epsilon 1 --delta 1e-6
  inid compare people.csv --bounds age=0:100,income=0:500000 --sum age,income --epsilon 1 --tolerance age=1,income=900
""",
)
