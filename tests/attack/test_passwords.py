"""An address with a password, well formed or not, where a ledger, a table or a file is named: nobody shows it."""

import json
import pickle
import shlex
from pathlib import Path

import pytest

import inid
from command_line import folder, run
from inid import tables
from inid.accounting import place, read_address
from inid.errors import without_passwords

SECRET = "s3cretPW"  # noqa: S105 - nobody's
ADDRESSES = {
    "address": f"postgresql://ann:{SECRET}@127.0.0.1:1/x",
    "two at signs": f"postgresql://ann:x@{SECRET}@127.0.0.1:1/x",
    "slash in the password": f"postgresql://ann:x/{SECRET}@127.0.0.1:1/x",
    "question mark in the password": f"postgresql://ann:x?{SECRET}@127.0.0.1:1/x",
    "option": f"postgresql://127.0.0.1:1/x?user=ann&password={SECRET}",
    "option of another name": f"postgresql://127.0.0.1:1/x?sslpassword={SECRET}",
    "no slashes": f"postgresql:ann:{SECRET}@127.0.0.1/x",
    "one slash": f"postgresql:/ann:{SECRET}@127.0.0.1/x",
    "no scheme": f"//ann:{SECRET}@127.0.0.1/x",
    "user and host": f"ann:{SECRET}@127.0.0.1",
    "another driver": f"postgresql+asyncpg://ann:{SECRET}@127.0.0.1/x",
    "Java's": f"jdbc:postgresql://ann:{SECRET}@127.0.0.1/x",
    "another database": f"mysql://ann:{SECRET}@127.0.0.1/x",
    "libpq's words": f"host=127.0.0.1 password={SECRET} dbname=x",
    "libpq's words, the secret first": f"password={SECRET} host=127.0.0.1",
    "libpq's words, the secret quoted": f"host=127.0.0.1 password='my {SECRET}' dbname=x",
    "libpq's words, a mark in the secret": f"host=127.0.0.1 password='it\\'s {SECRET}' dbname=x",
    "libpq's words, the secret escaped": f"host=127.0.0.1 password=my\\ {SECRET} dbname=x",
    "libpq's words, with spaces": f"password = {SECRET} host = 127.0.0.1",
    "space in the password": f"postgresql://ann:my {SECRET}@127.0.0.1:1/x",
    "space and mark in the password": f"postgresql://ann:it's {SECRET} now@127.0.0.1:1/x",
    "space in an option": f"postgresql://127.0.0.1:1/x?password=my {SECRET}",
    "space and no scheme": f"ann:my {SECRET}@127.0.0.1",
    "line feed": f"postgresql://ann:{SECRET}@127.0.0.1:1/x\n",
    "signed link": f"https://example.invalid/people.csv?X-Amz-Signature={SECRET}",
    "link of a user": f"https://ann:{SECRET}@example.invalid/people.csv",
}
RELEASE = "release people.csv --bounds age=0:100 --mean age --epsilon 1"
COMMANDS = {
    "ledger": RELEASE + " --ledger {}",
    "a part of it": "release people.csv --bounds age=0:100 --mean age --part 1/3 --ledger {}",
    "plan": "plan people.csv --bounds age=0:100 --mean age --epsilon 1 --ledger {}",
    "file of options": "release --config job.toml",
    "create": "ledger create {} --epsilon 1",
    "show": "ledger show {}",
    "history": "ledger history {}",
    "backup of it": "ledger backup {} copy.db",
    "backup to it": "ledger backup people.csv {}",
    "adopt": "ledger adopt {}",
    "verify": "verify {}",
    "table": "release {} --count --epsilon 1",
    "results": RELEASE + " --out {}",
    "report": RELEASE + " --report {}",
    "record": RELEASE + " --record {}",
    "results and ledger": RELEASE + " --out {} --ledger {}",
    "options": "release --config {}",
    "stream": "stream show {}",
    "period of a stream": "stream release {} 2024 people.csv",
    "rows": "rows {}",
    "name of a ledger": "ledger show new.db --name {}",
    "name of a column": "release people.csv --mean {} --epsilon 1",
    "formula": "release people.csv --count --where {} --epsilon 1",
    "text as a formula": 'release people.csv --count --where "\'"{}"\'" --epsilon 1',
}

__all__ = ["folder"]


@pytest.mark.parametrize("name", ADDRESSES)
@pytest.mark.parametrize("command", COMMANDS)
def test_no_command_shows_a_password(command: str, name: str, folder: Path) -> None:
    address = ADDRESSES[name]
    if command in ("results", "report", "record") and "/" not in address:
        return  # a file of this name is what was asked for
    job = f'table = "people.csv"\ncount = true\nepsilon = 1\nledger = {json.dumps(address)}\n'
    (folder / "job.toml").write_text(job, encoding="utf-8")
    done = run(COMMANDS[command].replace("{}", shlex.quote(address)))
    assert done.exit_code not in (0, 1)
    assert SECRET not in "".join((done.stdout + done.stderr).split())
    assert not any(SECRET in found.name for found in folder.rglob("*"))


@pytest.mark.parametrize("name", ADDRESSES)
def test_no_error_of_python_shows_a_password(name: str) -> None:
    address = ADDRESSES[name]
    calls = [
        lambda: inid.Ledger.open(address, total=inid.PureDP(1.0), timeout=1),
        lambda: inid.Ledger.names(address, timeout=1),
        lambda: tables.Table(address),
        lambda: tables.Table(Path(address)),
        lambda: read_address(Path(address)),
        lambda: tables.Stream.open(address),
        lambda: tables.col("age") + address,
    ]
    for call in calls:
        with pytest.raises(inid.InidError) as caught:
            call()
        error = pickle.loads(pickle.dumps(caught.value))  # noqa: S301 - made here
        assert SECRET not in str(error) + repr(error) + repr(vars(error))
    assert SECRET not in place(address)


@pytest.mark.parametrize("name", [name for name in ADDRESSES if "link" not in name and name != "another database"])
def test_what_reads_like_a_server_is_no_file(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of that name would be a second budget beside the one on the server."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(inid.InidError):
        inid.Ledger.open(ADDRESSES[name], total=inid.PureDP(1.0), timeout=1)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "path",
    [
        "/data/a:b@c/x.db",
        "my host=1.db",
        "budget.db",
        "a b.db",
        "team@work.db",
        "2024:budget.db",
        "user/x=1.db",
        "C:\\data\\a@b.db",
        "hosts.db",
    ],
)
def test_names_of_files_stay_names_of_files(path: str) -> None:
    assert read_address(path).path is not None
    hidden = path.replace(":b@", ":***@")  # nobody can tell it from a password
    assert without_passwords(f"no file {path}: make it") == f"no file {hidden}: make it"
