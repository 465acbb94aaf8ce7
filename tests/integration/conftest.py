"""A PostgreSQL server of the tests' own: made in a temporary folder, on a free local port, gone afterwards."""

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from needs import needs


@dataclass(frozen=True)
class Server:
    """Where the server listens, and how to stop and start it."""

    url: str
    control: tuple[str, ...]
    account: dict[str, Any]

    def stop(self) -> None:
        self._run("stop", "-m", "immediate")

    def start(self) -> None:
        self._run("start")

    def _run(self, *words: str) -> None:
        subprocess.run([*self.control, *words], check=True, capture_output=True, timeout=60, **self.account)


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    programs = Path(needs("postgres")).resolve().parent
    initdb, pg_ctl = programs / "initdb", programs / "pg_ctl"
    folder = Path(tempfile.mkdtemp(prefix="inid-postgres-"))
    account: dict[str, Any] = {}
    if os.geteuid() == 0:  # the server refuses to run as root
        account = {"user": "nobody", "group": "nogroup", "extra_groups": [], "cwd": "/"}
        shutil.chown(folder, "nobody", "nogroup")
    data = folder / "data"
    subprocess.run(
        [initdb, "-D", data, "-U", "tester", "--auth=trust", "--no-sync", "--encoding=UTF8", "--locale=C"],
        check=True,
        capture_output=True,
        timeout=120,
        **account,
    )
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    options = f"-c listen_addresses=127.0.0.1 -c port={port} -c unix_socket_directories= -c max_connections=50"
    control = (str(pg_ctl), "-D", str(data), "-w", "-l", str(folder / "log"), "-o", options)
    made = Server(f"postgresql://tester@127.0.0.1:{port}/postgres", control, account)
    try:
        made.start()
        yield made
    finally:
        subprocess.run([*control, "stop", "-m", "immediate"], check=False, capture_output=True, timeout=60, **account)
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(params=["sqlite", "postgres"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A place for a ledger, on each kind of database."""
    if request.param == "sqlite":
        return str(tmp_path / "budget.db")
    return str(request.getfixturevalue("server").url)


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A ledger's name that no other test uses: all tests share one server."""
    return str(request.node.nodeid)
