"""`inid studio`: plan and release on a local page in the browser. The page itself is loaded when it is asked for."""

import tempfile
from contextlib import nullcontext
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from inid.cli.commands.base import Command, Values
from inid.cli.console import Console
from inid.cli.interrupts import process
from inid.cli.options import COMMON, LEDGER_NAME, NOISE, PART, PROMISE, TABLE, Option, argument
from inid.errors import ArgumentError, MissingExtraError
from inid.jobs import KEYS
from inid.jobs import values as check
from inid.jobs.demonstration import demonstration_csv, demonstration_job, demonstration_table
from inid.jobs.ledgers import make_ledger
from inid.promises import ApproxDP

__all__ = ["STUDIO"]

_NEEDED = ("starlette", "uvicorn", "jinja2")
_TOTAL = ApproxDP(epsilon=3, delta=1e-6)  # of the demonstration's ledger
_OUTPUTS = ("out", "report", "record")


def studio(values: Values) -> None:
    """Serve the page until it is interrupted."""
    missing = [name for name in _NEEDED if find_spec(name) is None]
    if missing:
        raise MissingExtraError(f"the page needs {', '.join(missing)}: run pip install 'inid[studio]' first.")
    console = Console(values)
    port = check.number(
        "--port", values.get("port"), "a port from 1 to 65535", lambda x: 0 <= x <= 65535 and x == int(x)
    )
    demo = check.switch("--demo", values.get("demo"))
    if demo and (values.get("table") or values.get("ledger")):
        raise ArgumentError("--demo brings a table and a ledger of its own: leave out TABLE and --ledger.")
    page = import_module("inid.studio")  # by name: the page and the command stand side by side
    with tempfile.TemporaryDirectory(prefix="inid-demo-") if demo else nullcontext() as folder:
        with console.working("Reading the names of the columns"):
            made = _demonstration(page, Path(folder)) if folder else _on_files(page, values)
        process.serve()
        page.serve(
            made,
            port=int(port or 0),
            browser=not check.switch("--no-browser", values.get("no_browser")),
            note=console.lines,
        )


def _on_files(page: Any, values: Values) -> Any:
    table, ledger = check.word("TABLE", values.get("table")), check.word("--ledger", values.get("ledger"))
    start = {key: value for key, value in values.items() if key in KEYS and key not in _OUTPUTS}
    made = page.Studio(page.Folder(Path.cwd(), table, ledger), start)
    if table is not None:
        made.planner.columns(made.folder.stated_table)  # a file that cannot be read is said in the terminal
    return made


def _demonstration(page: Any, folder: Path) -> Any:
    data = demonstration_table()
    (folder / "demo.csv").write_text(demonstration_csv(data), encoding="utf-8")
    make_ledger(str(folder / "demo.db"), "default", _TOTAL).close()
    job = demonstration_job(Path(), ApproxDP(epsilon=1, delta=1e-6)).to_dict()
    start = {key: value for key, value in job.items() if key not in _OUTPUTS}
    return page.Studio(page.Folder(folder), start, data)


STUDIO = Command(
    "studio",
    studio,
    (
        argument("table", "TABLE", "A CSV or Parquet file; or leave it out and choose one on the page."),
        *TABLE[1:],
        *PROMISE,
        PART,
        *NOISE,
        Option("ledger", "FILE", "The ledger to charge (a file or a postgresql:// address)."),
        LEDGER_NAME,
        Option("unit", "WORD", "With --person: what the ledger calls a person (default: the column)."),
        Option("label", "TEXT", "A note for the ledger's history."),
        Option("level", "P", "The probability of the intervals (default: 0.95)."),
        Option("demo", "", "A public medical table and a ledger of its own, to try it.", "switch", in_file=False),
        Option("port", "N", "The port on 127.0.0.1 (default: any that is free).", in_file=False),
        Option("no_browser", "", "Print the link and open no browser.", "switch", in_file=False),
        COMMON[0],
    ),
    """Plan and release on a page in the browser.

    A page on this machine alone: state public facts, see the expected error of every number before anything is spent,
    then release and download. Options fill in the form. Files under the current folder can be chosen; what is released
    is kept there in inid-releases.
    """,
    """
  inid studio --demo
  inid studio people.csv --ledger budget.db
  inid studio --config release.toml --no-browser --port 8765
""",
)
