"""A MariaDB server for tests, one for a whole process, in a temporary folder; it is gone afterwards."""

import atexit
import shutil
import subprocess
import time
from functools import cache

import pymysql

from needs import needs
from postgres_server import free_port, server_folder

__all__ = ["mariadb_run", "mariadb_url"]


@cache
def mariadb_url() -> str:
    """The address of the server's database "rows"; the running test is skipped where MariaDB is missing."""
    program = needs("mariadb")
    folder, account = server_folder("inid-mariadb-")
    install = shutil.which("mariadb-install-db") or "mariadb-install-db"
    data = f"--datadir={folder / 'data'}"
    subprocess.run(
        [install, "--no-defaults", data, "--auth-root-authentication-method=normal", "--skip-name-resolve"],
        check=True,
        capture_output=True,
        timeout=120,
        **account,
    )
    port = free_port()
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen(
            [
                *(program, "--no-defaults", data, f"--port={port}", "--bind-address=127.0.0.1"),
                *(f"--socket={folder / 'socket'}", f"--pid-file={folder / 'pid'}", f"--tmpdir={folder}"),
                *(
                    "--innodb-flush-log-at-trx-commit=0",
                    "--innodb-flush-method=nosync",
                    "--character-set-server=utf8mb4",
                ),
                *("--collation-server=utf8mb4_unicode_ci", "--skip-name-resolve"),
            ],
            stdout=log,
            stderr=log,
            **account,
        )

    def gone() -> None:
        server.kill()
        server.wait(60)
        shutil.rmtree(folder, ignore_errors=True)

    atexit.register(gone)
    url = f"mariadb://root@127.0.0.1:{port}/rows"
    _wait(server, port)
    return url


def _wait(server: subprocess.Popen[bytes], port: int) -> None:
    """Until the server answers, and its database is there."""
    for _ in range(600):
        if server.poll() is not None:
            raise RuntimeError("MariaDB did not start: its log is in the temporary folder")
        try:
            with pymysql.connect(host="127.0.0.1", port=port, user="root") as con, con.cursor() as cursor:
                cursor.execute("CREATE DATABASE IF NOT EXISTS `rows` CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_ci")
                return
        except pymysql.err.OperationalError:
            time.sleep(0.1)
    raise RuntimeError("MariaDB did not answer within a minute")


def mariadb_run(statements: str, rows: object = None, **settings: object) -> list[tuple[object, ...]]:
    """Have statements run and committed in a session with names in double quotes; what the last one answers.

    With rows the statement is one that stores them, with a place for each value.
    """
    from urllib.parse import urlsplit

    port = urlsplit(mariadb_url()).port
    stated = {"sql_mode": "ANSI_QUOTES,PIPES_AS_CONCAT,NO_BACKSLASH_ESCAPES,STRICT_TRANS_TABLES"} | settings
    several = pymysql.constants.CLIENT.MULTI_STATEMENTS
    with pymysql.connect(
        host="127.0.0.1", port=port, user="root", database="rows", charset="utf8mb4", client_flag=several, **stated
    ) as con:
        with con.cursor() as cursor:
            if rows is None:
                cursor.execute(statements)
                answer = list(cursor.fetchall())
                while cursor.nextset():
                    answer = list(cursor.fetchall())
            else:
                answer = []
                cursor.executemany(statements, rows)
        con.commit()
    return answer
