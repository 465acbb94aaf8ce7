"""The `inid` command: plans, releases, ledgers and reports from a shell. `main` is the console script.

`app` holds the list of commands and what their failures become; start reading there. Nothing heavy is imported here,
because the script exists in the core install, where it says which extra brings the rest.
"""

import importlib
import sys
from importlib.util import find_spec
from typing import NoReturn

from inid.cli.interrupts import process

__all__ = ["main"]

_INTERRUPTED = 130  # what the parser of flags makes of every interrupt
_NEEDED = ("typer", "rich", "duckdb", "narwhals", "pyarrow", "jinja2")


def main() -> None:
    """Run the command line; without the extra, name it and exit with 2."""
    process.start()
    try:
        missing = [name for name in _NEEDED if find_spec(name) is None]
        if missing:
            sys.stderr.write(
                f"inid: the command needs {', '.join(missing)}: run pip install '.[cli]' in inid's checkout.\n"
            )
            sys.exit(2)
        from inid.cli.application import app
    except KeyboardInterrupt:  # loading takes a second; from here on `app` says what an interrupt means
        _stop()
    try:
        app(prog_name="inid")
    except KeyboardInterrupt:
        _stop()
    except SystemExit as end:
        if end.code == _INTERRUPTED and not process.is_over:  # while flags were read
            _stop()
        # Output of the parser itself (help, the version) that its reader has closed: the wrapper is its sign for that.
        if type(sys.stdout).__name__ == "PacifyFlushWrapper":
            sys.exit(0)
        raise


def _stop() -> NoReturn:
    """Say that nothing was begun, and end."""
    process.finish()
    sys.stderr.write("inid: stopped before anything was done: no ledger was charged.\n")
    sys.exit(process.code)


_MODULES = {  # of the names that are loaded when they are first asked for
    "application": ("app",),
    "commands": ("COMMANDS", "LEDGER_COMMANDS", "STREAM_COMMANDS"),
    "console": ("CommandError", "Console", "ExitCode", "one_line", "outcome"),
    "options": ("STATED", "job_from", "read_values"),
}


def __getattr__(name: str) -> object:
    """Load a module when one of its names is first asked for."""
    for module, names in _MODULES.items():
        if name in names:
            return getattr(importlib.import_module(f"inid.cli.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
