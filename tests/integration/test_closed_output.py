"""Output that nobody reads to its end (`| head`), or that cannot be written: every command, in a process of its own."""

import subprocess
import sys

import pytest

from command_line import folder, run, sqlite_charges  # noqa: F401 - a fixture

COUNT = "release people.csv --count --epsilon 0.1 --ledger budget.db"
COMMANDS = [
    "plan people.csv --count --epsilon 1",
    "compare --sensitivity 1,3 --epsilon 1",
    "accuracy --sensitivity 1,3 --tolerance 1,1",
    "verify budget.db",
    "ledger show budget.db",
    "ledger history budget.db",
    "ledger history budget.db --json",
    "ledger create other.db --epsilon 1",
    "demo --quiet",
    "release --help",
    "--version",
    f"{COUNT} --out r.csv",
    f"{COUNT} --record r.json --json",
]


@pytest.fixture
def books(folder):  # noqa: F811
    assert run("ledger create budget.db --epsilon 3").exit_code == 0
    assert run(COUNT).exit_code == 0
    return folder


def closed(line, *, errors=False):
    """Run a command whose standard output (and standard error) nobody reads."""
    process = subprocess.Popen(
        [sys.executable, "-m", "inid.cli", *line.split()],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT if errors else subprocess.PIPE,
    )
    process.stdout.close()
    with process:
        said = b"" if errors else process.stderr.read()
    return process.returncode, said.decode()


@pytest.mark.parametrize("line", COMMANDS)
def test_a_reader_who_has_seen_enough_is_no_failure(books, line):
    code, said = closed(line)
    assert code == 0, said
    assert "roken pipe" not in said
    assert "Traceback" not in said
    assert "Exception ignored" not in said
    assert sqlite_charges("budget.db") == 1 + line.startswith("release people")


def test_results_that_were_to_be_printed_alone_are_lost_and_the_code_says_so(books):
    for at, line in enumerate((COUNT, f"{COUNT} --json"), start=2):
        code, said = closed(line)
        assert code == 6, said
        assert f"Charge {at} of the ledger stands" in said
    code, _ = closed(COUNT, errors=True)
    assert (code, sqlite_charges("budget.db")) == (6, 4)


@pytest.mark.parametrize("kept", ["", "--out r.csv", "--json"])
def test_a_full_device_is_a_failure_of_a_release_that_was_charged(books, kept):
    with open("/dev/full", "w", encoding="utf-8") as full:  # noqa: PTH123 - a device
        command = [sys.executable, "-m", "inid.cli", *COUNT.split(), *kept.split()]
        ended = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert ended.returncode == 6, ended.stderr
    assert "Charge 2 of the ledger stands" in ended.stderr
    assert "No space left" in ended.stderr
