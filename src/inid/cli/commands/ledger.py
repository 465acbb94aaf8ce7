"""`inid ledger create`, `show`, `history`, `backup` and `adopt`."""

from pathlib import Path

from inid.accounting.stores import is_file
from inid.cli.console import Console
from inid.cli.options import COMMON, PROMISE, Command, Values, argument, flag_name
from inid.errors import ArgumentError
from inid.jobs import read_budget
from inid.jobs.ledgers import make_ledger, open_existing
from inid.jobs.outputs import check_writable
from inid.jobs.planned_job import missing_promise
from inid.report import LedgerState
from inid.schema import key, keys

_DATABASE = argument("ledger", "LEDGER", "A file, or postgresql://user:password@host/database.")
_NAME, _UNIT = key("name"), key("unit").saying("What one neighbour adds, removes or changes (default: row).")
_NEIGHBOURS = key("neighbours").saying("add_remove (the default), replace or zero_out.")
_RULE, _CURRENCY, _RESERVE = keys("new ledger")
_BACKUP = argument("path", "PATH", "The file to make; there must be none of this name.")


def create(values: Values) -> None:
    """Make a ledger with a total of its own."""
    console = Console(values)
    address, name = _address(values), _name(values)
    total = read_budget(values, flag_name)
    if total is None:
        raise missing_promise(flag_name)
    reserve = _RESERVE.of(values)
    if is_file(address):
        check_writable("LEDGER", Path(address))
    with make_ledger(
        address,
        name,
        total,
        rule=_RULE.of(values) or "auto",
        neighbours=_NEIGHBOURS.of(values) or "add_remove",
        unit=_UNIT.of(values) or "row",
        currency=_CURRENCY.of(values),
        reserve=None if reserve is None else float(reserve),
    ) as ledger:
        parts = ledger.parts_table("1/3")
        document = {"command": "ledger create", "ledger": LedgerState.of(ledger).to_dict(), "thirds": list(parts.rows)}
        console.document(document)
        console.lines(str(ledger))
        console.line()
        console.lines(str(parts))


def show(values: Values) -> None:
    """Print what a ledger holds and what is left of it."""
    console = Console(values)
    with open_existing(_address(values), _name(values)) as ledger:
        state = LedgerState.of(ledger)
        console.document({"command": "ledger show", "ledger": state.to_dict()})
        console.lines(str(ledger))
        if state.fits:
            console.line(f"The largest release of each kind that fits: {state.all_that_fits(str)}.")


def history(values: Values) -> None:
    """Print every charge, oldest first."""
    console = Console(values)
    with open_existing(_address(values), _name(values)) as ledger:
        records = ledger.history()
        console.document({"command": "ledger history", "charges": [record.to_dict() for record in records]})
    lines = [["charge", "time (UTC)", "by", "label", "promise", "noise", "cost"]]
    lines += [
        [
            str(record.id),
            record.time[:19].replace("T", " "),
            record.by,
            record.label,
            record.promise,
            record.noise,
            str(record.cost),
        ]
        for record in records
    ]
    if records:
        console.table(lines, left=7)
    else:
        console.line("No charge yet.")


def backup(values: Values) -> None:
    """Copy the file of a ledger to another that is marked as a backup."""
    console = Console(values)
    path = _BACKUP.of(values)
    if path is None:
        raise ArgumentError("the file to make is missing: name it, for example budget-backup.db.")
    with open_existing(_address(values), _name(values)) as ledger:
        ledger.backup(path)
    console.document({"command": "ledger backup", "path": path})
    console.line(f"{path} is a backup: it takes no charges until somebody runs inid ledger adopt {path}.")


def adopt(values: Values) -> None:
    """Take a copy of a ledger for the one that counts."""
    console = Console(values)
    with open_existing(_address(values), _name(values)) as ledger:
        ledger.adopt()
        console.document({"command": "ledger adopt", "ledger": LedgerState.of(ledger).to_dict()})
        console.lines(str(ledger))
        console.line(
            "This copy takes charges now. Charges that only other copies hold were spent too, but are not counted "
            "here. No other copy may take charges any more."
        )


def _address(values: Values) -> str:
    text = _DATABASE.of(values)
    if text is None:
        raise ArgumentError("a ledger is missing: name its file, for example budget.db.")
    return str(text)


def _name(values: Values) -> str:
    return _NAME.of(values) or "default"


CREATE = Command(
    "create",
    create,
    (_DATABASE, *PROMISE, _NAME, _RULE, _NEIGHBOURS, _CURRENCY, _RESERVE, _UNIT, *COMMON),
    """Make a ledger with a total of its own.

    The total is the promise that all its releases together keep. It never changes.
    """,
    """
  inid ledger create year.db --epsilon 3 --delta 1e-6 --currency renyi
  inid ledger create keys.db --epsilon 3 --delta 1e-6 --reserve 1e-7
  inid ledger create year.db --name survey --mu 0.5 --unit user_id
""",
)

SHOW = Command(
    "show",
    show,
    (_DATABASE, _NAME, *COMMON),
    """Show what is spent and what is left.""",
    """
  inid ledger show budget.db
  inid ledger show budget.db --json
""",
)

HISTORY = Command(
    "history",
    history,
    (_DATABASE, _NAME, *COMMON),
    """List every charge, oldest first.

    Each one is read anew and checked.
    """,
    """
  inid ledger history budget.db
""",
)

BACKUP = Command(
    "backup",
    backup,
    (_DATABASE, _BACKUP, _NAME, *COMMON),
    """Copy a ledger's file to another that is marked as a backup.

    All ledgers in the file are copied, as of one moment. The copy takes no charges until it is adopted.
    """,
    """
  inid ledger backup budget.db budget-2027-03-31.db
""",
)

ADOPT = Command(
    "adopt",
    adopt,
    (_DATABASE, _NAME, *COMMON),
    """Let a copy of a ledger take charges: it is the one that counts from now on.

    Backups, and copies that are older than what you saw of the ledger before, refuse charges: charges that were made
    may be missing in them. Whoever adopts one acknowledges that those are spent and no longer counted, and that no
    other copy takes charges any more.
    """,
    """
  inid ledger adopt budget-2027-03-31.db
""",
)
