"""Real interrupts of the process that runs `inid release`: its exit code and what it says are what the books say.

Either the answer came, and the code is 0, or the code is 130 (143 where SIGTERM told the process to end), and the
message says whether the ledger was charged.
"""

import os
import signal
import subprocess
import sys
import time

import pytest

import inid
from command_line import folder  # noqa: F401 - a fixture

LINE = "release people.csv --bounds age=0:100 --count --mean age --epsilon 1 --ledger budget.db"
LAST = "An equal split would have"  # begins the last line of an answer
STANDS, NOTHING = "Charge 1 of the ledger stands", "o ledger was charged"

# A process that interrupts itself when it comes to a moment, once, and goes on to be interrupted at its end.
CHILD = """
import atexit, os, signal, sys
import inid.cli

def interrupt():
    if interrupted:
        return
    interrupted.append(1)
    os.kill(os.getpid(), int(os.environ["SENT"]))

interrupted = []

def at(owner, name, before=True):
    work = getattr(owner, name)
    def changed(*args, **named):
        if before:
            interrupt()
        result = work(*args, **named)
        interrupt()
        return result
    setattr(owner, name, changed)

{moment}
inid.cli.main()
"""
MOMENTS = {
    "loading": ("inid.cli.find_spec = lambda name: interrupt()", False),
    "reading flags": ("import inid.cli.application as app; at(app.typer.core.TyperGroup, 'parse_args')", False),
    "planning": ("import inid.cli.commands.release as r; at(r, 'plan_job')", False),
    "before the charge": ("import inid; at(inid.Ledger, 'charge')", False),
    "after the charge": ("import inid; at(inid.Ledger, 'charge', before=False)", True),
    "summing": ("from inid.tables.engines import DuckDB; at(DuckDB, 'run')", True),
    "noise": ("from inid.noise import RandomSource; at(RandomSource, 'fill')", True),
    "printing": ("import inid.cli.commands.release as r; at(r, 'print_estimates')", True),
    "the last lines": ("import inid.cli.commands.release as r; at(r, 'print_gain')", True),
}
ENDS = {
    "after the command": "import inid.cli.application as app; at(app, '_settle_output')",
    "at exit": "atexit.register(interrupt)",
    "twice": "import inid.cli.application as app; at(app, '_settle_output'); "
    "atexit.register(lambda: os.kill(os.getpid(), 2))",
}


def charges():
    if not inid.Ledger.names("budget.db"):
        return 0
    with inid.Ledger.open("budget.db") as ledger:
        return len(ledger.history())


def started(moment, sent=signal.SIGINT):
    command = [sys.executable, "-c", CHILD.format(moment=moment), *LINE.split()]
    environment = os.environ | {"SENT": str(int(sent))}
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=environment)


def check(ended, code, charged):
    assert ended.returncode == code, ended.stderr
    assert "Traceback" not in ended.stderr
    assert charges() == int(charged)
    assert (STANDS in ended.stderr, NOTHING in ended.stderr) == (charged, not charged), ended.stderr


@pytest.mark.parametrize("moment", MOMENTS)
def test_an_interrupt_before_the_end_exits_with_130_and_says_what_was_charged(folder, moment):  # noqa: F811
    patch, charged = MOMENTS[moment]
    check(started(patch), 130, charged)


@pytest.mark.parametrize("moment", ["loading", "reading flags", "before the charge", "after the charge", "printing"])
def test_a_process_that_is_told_to_end_says_the_same(folder, moment):  # noqa: F811
    """SIGTERM: it used to kill the process without a word."""
    patch, charged = MOMENTS[moment]
    check(started(patch, signal.SIGTERM), 143, charged)


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_second_interrupt_changes_nothing(folder, moment):  # noqa: F811
    """It comes just before the first is answered, when it used to be taken for one before anything was done."""
    patch, charged = MOMENTS[moment]
    again = "from inid.cli.interrupts import Process; said = Process.finish"
    again += "\nProcess.finish = lambda self: (os.kill(os.getpid(), signal.SIGINT), said(self))[1]"
    check(started(f"{patch}\n{again}"), 130, charged)


@pytest.mark.parametrize(("end", "sent"), [*((end, signal.SIGINT) for end in ENDS), ("at exit", signal.SIGTERM)])
def test_an_interrupt_after_the_answer_changes_nothing(folder, end, sent):  # noqa: F811
    ended = started(ENDS[end], sent)
    assert (ended.returncode, charges()) == (0, 1), ended.stderr
    assert LAST in ended.stdout
    assert "Traceback" not in ended.stderr


def test_a_failure_keeps_its_code_when_it_is_interrupted_while_it_is_said(folder):  # noqa: F811
    ended = started("import inid.cli.application as app; sys.argv.append('--no-such'); at(app, '_settle_output')")
    assert (ended.returncode, charges()) == (2, 0), ended.stderr
    failing = "import inid.cli.application as app, inid.cli.commands.release as r; at(app, '_say')\n"
    failing += "def broken(*_, **__): raise OSError(28, 'No space left on device')\nr.print_estimates = broken"
    ended = started(failing)
    assert (ended.returncode, charges()) == (6, 1), ended.stderr
    assert STANDS in ended.stderr


def test_a_process_that_is_interrupted_at_any_time_says_whether_it_was_charged(folder):  # noqa: F811
    """A signal from outside, at whatever moment it comes."""
    rows = "".join(f"u{at},{at % 100},{at},{'FM'[at % 2]}\n" for at in range(200_000))
    (folder / "people.csv").write_text("user_id,age,income,sex\n" + rows, encoding="utf-8")
    for wait in (1.0, 2.0, 3.0):
        (folder / "budget.db").unlink(missing_ok=True)
        command = [sys.executable, "-m", "inid.cli", *LINE.split()]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        time.sleep(wait)
        process.send_signal(signal.SIGINT)
        answer, said = process.communicate(timeout=120)
        if process.returncode == -signal.SIGINT:  # before the first line of the command was run
            assert (charges(), answer) == (0, "")
            assert "inid/cli" not in said
        elif process.returncode == 0:
            assert charges() == 1
            assert LAST in answer
        else:
            assert process.returncode == 130, said
            assert (STANDS in said, NOTHING in said) == (charges() == 1, charges() == 0), said
