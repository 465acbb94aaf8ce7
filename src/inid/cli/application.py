"""The command line: its commands, and the exit code and sentence that a failure becomes. `main` runs `app`."""

import inspect
import os
import sys
import traceback
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import typer

from inid._version import __version__
from inid.cli.commands import COMMANDS, LEDGER_COMMANDS, STREAM_COMMANDS
from inid.cli.console import ExitCode, OutputClosedError, one_line, outcome
from inid.cli.interrupts import process
from inid.cli.options import Command, annotation, declaration, read_values

app = typer.Typer(
    help="Differential privacy with the least noise: plan a release, see its errors, charge a budget, publish.",
    epilog="""\b
Examples:
  inid demo
  inid plan --sensitivity 1,3,40 --epsilon 1 --delta 1e-6
  inid release --help

\b
Exit codes: 0 fine (a release: charged and answered), 6 charged but unanswered,
130 interrupted and 143 terminated (the message says whether it was charged).
With the others nothing was charged: 1 unexpected, 2 usage, 3 refused by the
ledger, 4 a proof failed, 5 files.""",
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
stream = typer.Typer(
    help="Release the same statistics, period after period.",
    epilog="\b\nExamples:\n  inid stream open --help\n  inid stream release --help",
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.add_typer(stream, name="stream")

# The keys of all commands, any of which may stand in one file.
_KEYS = {option.name for command in (*COMMANDS, *LEDGER_COMMANDS, *STREAM_COMMANDS) for option in command.options} - {
    "config"
}


def _version(flag: bool) -> None:
    if flag:
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


def _say(sentence: str) -> None:
    """One failure on the error stream; a refusal may end with a table, and within its lines nothing breaks a line."""
    with suppress(OSError):  # nobody reads it: the exit code stays what it is
        typer.echo("inid: " + "\n".join(one_line(line) for line in sentence.split("\n")), err=True)


def _settle_output() -> None:
    """Let go of what could not be printed: the interpreter would try again at its end, and change the exit code."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            with Path(os.devnull).open("w", encoding="utf-8") as nowhere, suppress(OSError, ValueError):
                os.dup2(nowhere.fileno(), stream.fileno())
        except (AttributeError, ValueError):  # there is no such stream, or it is closed
            continue


def _add(place: typer.Typer, command: Command) -> None:
    """Register a command; typer reads its flags from a signature made of its options."""

    def run(**flags: Any) -> None:
        try:
            command.run(read_values(command.options, flags, _KEYS))
            process.finish()
        except OutputClosedError:  # the reader has seen enough; a release whose answer is lost says so itself
            process.finish()
            raise typer.Exit(ExitCode.FINE) from None
        except Exception as error:
            process.finish()
            if isinstance(error, (typer.Exit, typer.Abort)):
                raise
            sentence, code = outcome(error)
            if os.environ.get("INID_TRACEBACK") == "1":
                traceback.print_exc()
            _say(sentence)
            raise typer.Exit(code) from None
        except KeyboardInterrupt as stop:
            process.finish()
            _say(str(stop) or "stopped: no ledger was charged.")
            raise typer.Exit(ExitCode(process.code)) from None
        finally:
            _settle_output()

    run.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            inspect.Parameter(
                option.name,
                inspect.Parameter.KEYWORD_ONLY,
                default=None,
                annotation=Annotated[annotation(option), declaration(option)],
            )
            for option in command.options
        ]
    )
    run.__doc__ = command.text
    place.command(command.name, epilog="\b\nExamples:\n" + command.examples.strip("\n"))(run)


for _command in COMMANDS:
    _add(app, _command)
for _command in LEDGER_COMMANDS:
    _add(ledger, _command)
for _command in STREAM_COMMANDS:
    _add(stream, _command)
