"""`inid studio`: plan and release on a local page in the browser. The page itself is loaded when it is asked for."""

import tempfile
from collections.abc import Mapping
from contextlib import nullcontext
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from inid.cli.console import Console
from inid.cli.interrupts import process
from inid.cli.options import COMMON, NOISE, PROMISE, TABLE, Command, Values, keys_named, switch
from inid.errors import ArgumentError, MissingExtraError
from inid.jobs import job_keys
from inid.jobs.demonstration import demonstration_csv, demonstration_publication, demonstration_table
from inid.jobs.ledgers import make_ledger
from inid.promises import ApproxDP
from inid.schema import Key, key
from inid.schema.values import Whole

_NEEDED = ("starlette", "uvicorn", "jinja2")
_TOTAL = ApproxDP(epsilon=3, delta=1e-6)  # of the demonstration's ledger
_OUTPUTS = ("out", "report", "record", "rows_out")
_DEMO = switch("demo", "Try it on a public medical table with its own ledger.", in_file=False)
_PORT = Key(
    "port",
    Whole("a port from 1 to 65535", lambda x: 0 <= x <= 65535 and x == int(x)),
    "N",
    "The port on 127.0.0.1 (default: any that is free).",
    in_file=False,
)
_NO_BROWSER = switch("no_browser", "Print the link and open no browser.", in_file=False)


def studio(values: Values) -> None:
    """Serve the page until it is interrupted."""
    missing = [name for name in _NEEDED if find_spec(name) is None]
    if missing:
        raise MissingExtraError(f"the page needs {', '.join(missing)}: run pip install '.[studio]' in inid's checkout.")
    console = Console(values)
    port, demo = _PORT.of(values), _DEMO.of(values)
    if demo and (values.get("table") or values.get("ledger")):
        raise ArgumentError("--demo has its own table and ledger: leave out TABLE and --ledger.")
    page = import_module("inid.studio")  # by name: the page and the command stand side by side
    with tempfile.TemporaryDirectory(prefix="inid-demo-") if demo else nullcontext() as folder:
        with console.working("Reading the names of the columns"):
            studio_run = _demonstration(page, Path(folder)) if folder else _on_files(page, values)
        process.serve()
        page.serve(studio_run, port=port or 0, browser=not _NO_BROWSER.of(values), note=console.lines)


def _on_files(page: Any, values: Values) -> Any:
    table, ledger = key("table").of(values), key("ledger").of(values)
    start = _without_files({name: value for name, value in values.items() if name in job_keys()})
    studio_run = page.Studio(page.Folder(Path.cwd(), table, ledger), start)
    if table is not None:
        studio_run.planner.columns(studio_run.folder.stated_table)  # a file that cannot be read is said in the terminal
    return studio_run


def _without_files(job: Mapping[str, Any]) -> dict[str, Any]:
    """A job without the files that it writes: the page has names of its own for them."""
    keys = {name: value for name, value in job.items() if name not in _OUTPUTS}
    if isinstance(questions := keys.get("question"), Mapping):
        options = {name: fields for name, fields in questions.items() if isinstance(fields, Mapping)}
        keys["question"] = dict(questions) | {name: _without_files(fields) for name, fields in options.items()}
    return keys


def _demonstration(page: Any, folder: Path) -> Any:
    data = demonstration_table()
    (folder / "demo.csv").write_text(demonstration_csv(data), encoding="utf-8")
    make_ledger(str(folder / "demo.db"), "default", _TOTAL, currency="mu^2").close()
    job = demonstration_publication(Path(), ApproxDP(epsilon=1, delta=1e-6)).to_dict()
    start = _without_files(job)
    return page.Studio(page.Folder(folder), start, data)


STUDIO = Command(
    "studio",
    studio,
    (
        key("table").saying("A CSV or Parquet file; or leave it out and choose one on the page."),
        *TABLE[1:],
        *PROMISE,
        *NOISE,
        key("ledger").saying("The ledger to charge (a file or a postgresql:// address)."),
        *keys_named("name", "unit", "label", "level"),
        _DEMO,
        _PORT,
        _NO_BROWSER,
        COMMON[0],
    ),
    """Plan and release on a page in the browser.

    The page stays on this machine. State public facts, see the expected error of every number before anything is spent,
    then release and download. Options fill in the form. Files under the current folder can be chosen; what is released
    is kept there in inid-releases.
    """,
    """
  inid studio --demo
  inid studio people.csv --ledger budget.db
  inid studio --config release.toml --no-browser --port 8765
""",
)
