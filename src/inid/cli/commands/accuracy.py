"""`inid accuracy`: what a wanted accuracy costs."""

from inid.cli.commands.base import Command, Values
from inid.cli.console import Console
from inid.cli.options import COMMON, STATED, flag_name, job_from
from inid.jobs import TableQuestion, accuracy_of_job
from inid.report.number_text import plain_number
from inid.schema import Key, key
from inid.schema.number_types import probability

__all__ = ["ACCURACY"]

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
    rows = [["noise", "promise"]]
    rows += [[str(other.mechanism), str(other.budget)] for other in answer.alternatives]
    console.table(rows, left=2, strong=[1])
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
