"""PostgreSQL servers for tests, mostly one for a whole process.

Each has a temporary folder and a free local port, and is gone afterwards.
"""

import atexit
import os
import shutil
import socket
import subprocess
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from needs import needs

__all__ = ["Server", "free_port", "new_server", "postgres_server", "server_folder"]


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


@cache
def postgres_server() -> Server:
    """The server that the tests of a process share. Never stop it: others hold connections."""
    return new_server()


def server_folder(prefix: str) -> tuple[Path, dict[str, Any]]:
    """A temporary folder, and the account that a server runs under: none refuses nobody, and all refuse root."""
    folder = Path(tempfile.mkdtemp(prefix=prefix))
    if os.geteuid() != 0:
        return folder, {}
    shutil.chown(folder, "nobody", "nogroup")
    return folder, {"user": "nobody", "group": "nogroup", "extra_groups": [], "cwd": "/"}


def free_port() -> int:
    """A port of this machine that nobody listens at."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def new_server() -> Server:
    """A server that ends with the process; the running test is skipped where PostgreSQL is missing."""
    programs = Path(needs("postgres")).resolve().parent
    initdb, pg_ctl = programs / "initdb", programs / "pg_ctl"
    folder, account = server_folder("inid-postgres-")
    data = folder / "data"
    subprocess.run(
        [initdb, "-D", data, "-U", "tester", "--auth=trust", "--no-sync", "--encoding=UTF8", "--locale=C"],
        check=True,
        capture_output=True,
        timeout=120,
        **account,
    )
    port = free_port()
    options = f"-c listen_addresses=127.0.0.1 -c port={port} -c unix_socket_directories= -c max_connections=50"
    control = (str(pg_ctl), "-D", str(data), "-w", "-l", str(folder / "log"), "-o", options)
    made = Server(f"postgresql://tester@127.0.0.1:{port}/postgres", control, account)

    def gone() -> None:
        subprocess.run([*control, "stop", "-m", "immediate"], check=False, capture_output=True, timeout=60, **account)
        shutil.rmtree(folder, ignore_errors=True)

    atexit.register(gone)
    made.start()
    return made
