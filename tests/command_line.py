"""Running the `inid` command in tests: in this process or in one of its own, in a folder with a table."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import inid
from inid.cli import COMMANDS, app, read_values

DOCS = Path(__file__).resolve().parents[1] / "docs" / "command.md"
HIDDEN = "Wilhelmina"
QUESTION = "people.csv --bounds age=0:100,income=0:500000 --mean age,income --by sex=F,M --tolerance age=1,income=500"
COLUMNS = ["statistic", "column", "sex", "estimate", "lower", "upper", "std"]


def run(line):
    """Run one command line in this process; the result has exit_code, stdout and stderr."""
    words = shlex.split(line)
    return CliRunner().invoke(app, words[1:] if words[:1] == ["inid"] else words, catch_exceptions=False)


def flags(line, commands=COMMANDS):
    """The values that a command line states, read as the command reads them."""
    words = shlex.split(line)
    command = next(command for command in commands if command.name == words[1])
    found, at = {}, 2
    if not words[2].startswith("--"):
        found["table"], at = words[2], 3
    while at < len(words):
        option = next(option for option in command.options if option.flag == words[at])
        if option.is_switch:
            found[option.name], at = True, at + 1
        else:
            value, at = words[at + 1], at + 2
            found[option.name] = [*found.get(option.name, []), value] if option.type.repeats else value
    return read_values(command.options, found)


def script(line, **environment):
    """Run one command line in a process of its own."""
    command = [sys.executable, "-W", "error", "-m", "inid.cli", *shlex.split(line)]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | environment)


def sqlite_charges(path):
    """How many charges a ledger in a file holds."""
    with inid.Ledger.open(path) as ledger:
        return len(ledger.history())


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with a table in it, one cell of which no message may ever show."""
    monkeypatch.chdir(tmp_path)
    with (tmp_path / "people.csv").open("w", encoding="utf-8") as stream:
        stream.write("user_id,age,income,sex\n")
        for at in range(400):
            stream.write(f"u{at // 2},{20 + at % 60},{1000 * (at % 90)},{'FM'[at % 3 == 0]}\n")
        stream.write(f"u999,{HIDDEN},77777123,F\n")
    block = re.search(r"^```toml\n(.*?)^```", DOCS.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    (tmp_path / "release.toml").write_text(block.group(1), encoding="utf-8")
    return tmp_path
