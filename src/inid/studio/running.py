"""Which releases run now, of this process or of another one: each holds a lock on a file in its folder meanwhile.

The system lets go of the lock when the process ends, however it ends: a file that nobody holds was left by a crash.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

__all__ = ["is_running", "running"]

_FILE = ".running"

if sys.platform == "win32":
    import msvcrt

    def _hold(handle: int, *, wait: bool) -> None:
        msvcrt.locking(handle, msvcrt.LK_LOCK if wait else msvcrt.LK_NBLCK, 1)

else:
    import fcntl

    def _hold(handle: int, *, wait: bool) -> None:
        fcntl.flock(handle, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)


@contextmanager
def running(place: Path) -> Iterator[None]:
    """Say, to every process, that the release of this folder runs.

    Raises:
        OSError: The folder cannot be written.
    """
    handle = os.open(place / _FILE, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        with suppress(OSError):  # some file systems have no locks: others then see a release without results
            _hold(handle, wait=True)  # somebody who looks holds it for a moment
        yield
    finally:
        os.close(handle)
        with suppress(OSError):
            (place / _FILE).unlink()


def is_running(place: Path) -> bool:
    """Whether some process is at work on the release of this folder.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as name:
    ...     with running(Path(name)):
    ...         during = is_running(Path(name))
    ...     during, is_running(Path(name))
    (True, False)
    """
    try:
        handle = os.open(place / _FILE, os.O_RDWR)
    except OSError:
        return False
    try:
        _hold(handle, wait=False)
    except OSError:
        return True
    finally:
        os.close(handle)
    return False
