"""The commands, their help and examples, and what their failures become. `main` in the package runs `app`."""

import inspect
import os
from collections.abc import Callable
from dataclasses import fields
from typing import Annotated, Any, TypeVar

import typer

from inid._version import __version__
from inid.cli import demo, ledgers, planning, releasing, verifying
from inid.cli.configuring import configured
from inid.cli.failures import ExitCode, outcome
from inid.cli.options import Speech

__all__ = ["app"]

Options = TypeVar("Options", bound=Speech)

app = typer.Typer(
    help="Differential privacy with the least noise for one promise: plan it, see it, pay for it, publish it.",
    epilog="""\b
Examples:
  inid demo
  inid plan --sensitivity 1,3,40 --epsilon 1 --delta 1e-6
  inid release --help

\b
Exit codes: 0 fine, 1 unexpected, 2 usage, 3 the ledger refused, 4 a proof failed, 5 files.""",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
ledger = typer.Typer(
    help="Keep a budget that many releases share.",
    epilog="\b\nExamples:\n  inid ledger create year.db --epsilon 3 --delta 1e-6\n  inid ledger show year.db",
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.add_typer(ledger, name="ledger")


_names: set[str] = set()  # of the options of all commands, which may stand in one file


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"inid {__version__}")
        raise typer.Exit


@app.callback()
def top(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Only options that stand before a command; `version` acts on its own."""
    del version


def _add(
    place: typer.Typer, name: str, run: Callable[[Options], None], kind: type[Options], text: str, examples: str
) -> None:
    """Register a command whose flags are the fields of its options."""

    def command(**flags: Any) -> None:
        try:
            run(configured(kind, flags, _names))
        except Exception as error:
            if os.environ.get("INID_TRACEBACK") == "1" or isinstance(error, (typer.Exit, typer.Abort)):
                raise
            sentence, code = outcome(error)
            typer.echo(f"inid: {sentence}", err=True)
            raise typer.Exit(code) from None
        except KeyboardInterrupt:
            typer.echo("inid: stopped; a charge that was made stays made (see inid ledger history).", err=True)
            raise typer.Exit(ExitCode.UNEXPECTED) from None

    _names.update(field.name for field in fields(kind))
    # What is common to all commands comes last; what a command is about comes first.
    own = sorted(fields(kind), key=lambda field: field.name in {f.name for f in fields(Speech)})
    command.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            inspect.Parameter(
                field.name,
                inspect.Parameter.KEYWORD_ONLY,
                default=None,
                annotation=Annotated[field.metadata["type"], field.metadata["flag"]],
            )
            for field in own
        ]
    )
    command.__doc__ = text
    place.command(name, epilog="\b\nExamples:\n" + examples.strip("\n"))(command)


_add(
    app,
    "plan",
    planning.plan,
    planning.PlanOptions,
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
_add(
    app,
    "release",
    releasing.release,
    releasing.ReleaseOptions,
    """Publish statistics of a table.

    The ledger is charged first, then the noise is added and the results are written. Whether the files can be written
    is checked before the charge. A ledger that does not exist is made with this promise as its total.
    """,
    """
  inid release people.csv --bounds age=0:100 --count --mean age --epsilon 1 --ledger age.db
  inid release people.csv --bounds age=0:100,income=0:500000 --mean age,income --by sex=F,M \\
    --epsilon 1 --delta 1e-6 --tolerance age=1,income=500 --ledger budget.db --out result.csv --report report.html
  inid release people.csv --histogram sex=F,M --histogram age=0,20,40,60,80,100 --bounds age=0:100 \\
    --epsilon 0.5 --ledger histograms.db --json
  inid release --config release.toml
""",
)
_add(
    app,
    "compare",
    planning.compare,
    planning.QuestionOptions,
    """Show the error of every way to keep it.

    Optimal, i.i.d. and equal split (spr), with Gaussian and with Laplace noise, under one promise.
    """,
    """
  inid compare --sensitivity 1,3,40 --epsilon 1 --delta 1e-6
  inid compare people.csv --bounds age=0:100,income=0:500000 --sum age,income --epsilon 1 --tolerance age=1,income=900
""",
)
_add(
    app,
    "accuracy",
    planning.accuracy,
    planning.AccuracyOptions,
    """Show what a wanted accuracy costs.

    The least budget with which every number stays within its tolerance, each with probability 1 - failure.
    """,
    """
  inid accuracy --sensitivity 1,3,40 --labels age,visits,income --tolerance 10,20,500 --delta 1e-6
  inid accuracy people.csv --bounds age=0:100 --count --mean age --tolerance age=1,count=20 --rows 1000
""",
)
_add(
    app,
    "verify",
    verifying.verify,
    verifying.VerifyOptions,
    """Prove a plan, a record or a ledger again.

    Everything is derived anew from the stored numbers themselves. Exit code 4 says that the proof failed.
    """,
    """
  inid verify plan.json
  inid verify budget.db
""",
)
_add(
    app,
    "demo",
    demo.demo,
    demo.DemoOptions,
    """Release thirty means of a medical table.

    The table comes with scikit-learn (pip install scikit-learn). A report to look at is left in a folder.
    """,
    """
  inid demo
  inid demo --out somewhere --epsilon 2
""",
)
_add(
    ledger,
    "create",
    ledgers.create,
    ledgers.CreateOptions,
    """Make a ledger with a total of its own.

    The total is the promise that all its releases together keep. It never changes.
    """,
    """
  inid ledger create year.db --epsilon 3 --delta 1e-6
  inid ledger create year.db --name survey --mu 0.5 --unit user_id
""",
)
_add(
    ledger,
    "show",
    ledgers.show,
    ledgers.LedgerOptions,
    """Show what is spent and what is left.""",
    """
  inid ledger show budget.db
  inid ledger show budget.db --json
""",
)
_add(
    ledger,
    "history",
    ledgers.history,
    ledgers.LedgerOptions,
    """List every charge, oldest first.

    Each one is read anew and checked.
    """,
    """
  inid ledger history budget.db
""",
)
