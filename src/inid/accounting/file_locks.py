"""Locks on a ledger's file that no other use of the file can drop.

SQLite locks a file by POSIX record locks. A process loses those as soon as it closes *any* descriptor of the file: a
thread that copies the file to a backup is enough, and then two processes write at once. So every transaction holds a
lock of its own around SQLite's, shared for reading and alone for writing:

    Linux                   an open-file-description lock on one byte of the database itself, far behind those that
                            SQLite uses. It belongs to the descriptor that took it, so closing others does not matter,
                            and to the file rather than its name, so hard and symbolic links meet in it.
    other Unix systems      `flock` on a file beside the database, at its resolved path: PATH.lock. A file with several
                            hard links has several such paths, so it is refused.
    Windows                 none: SQLite's own locks belong to the handle there, and closing others does not drop them.

Locks are released explicitly, since a forked child shares the descriptor and would keep them alive otherwise.
"""

import errno
import os
import random
import struct
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from threading import Lock

if sys.platform != "win32":
    import fcntl

FileIdentity = tuple[int, int]  # device and inode: one file, whatever it is called

_BYTE = 2**62  # SQLite locks bytes around 2^30
_LONGEST_PAUSE = 0.02
_LINK_PATIENCE = 1.0  # a file that is being made has a second name for a moment


class LockError(OSError):
    """A lock was not granted in time, or cannot be had on this file."""


def file_lock(path: Path, *, alone: bool, timeout: float) -> AbstractContextManager[FileIdentity]:
    """Hold a lock on a file that exists, shared or alone; yields which file it is on."""
    return _LOCK(path, alone, timeout)


def has_locks() -> bool:
    """Whether this system has such locks: Windows has none, and a file is held there for one transaction at most."""
    return _LOCK is not no_lock


def identity(path: Path) -> FileIdentity:
    """Which file a path leads to."""
    status = path.stat()
    return status.st_dev, status.st_ino


def read_bytes(path: Path, at: int, count: int) -> bytes:
    """Some bytes of a file, read without dropping the locks that SQLite holds on it in another thread."""
    descriptor, which = _DESCRIPTORS.take(path)
    try:
        os.lseek(descriptor, at, os.SEEK_SET)
        return os.read(descriptor, count)
    finally:
        _DESCRIPTORS.give_back(descriptor, which)


@contextmanager
def description_lock(path: Path, alone: bool, timeout: float) -> Iterator[FileIdentity]:
    """Linux: a lock of an open file description on the file itself."""
    descriptor, which = _DESCRIPTORS.take(path)
    try:
        _wait(lambda: _set(descriptor, fcntl.F_WRLCK if alone else fcntl.F_RDLCK), timeout)
        try:
            yield which
        finally:
            _set(descriptor, fcntl.F_UNLCK)
    finally:
        _DESCRIPTORS.give_back(descriptor, which)


@contextmanager
def side_file_lock(path: Path, alone: bool, timeout: float) -> Iterator[FileIdentity]:
    """Other Unix systems: `flock` on a file beside the database."""
    target = path.resolve()
    which = identity(target)
    _wait(lambda: target.stat().st_nlink == 1, min(timeout, _LINK_PATIENCE), "it has several names (hard links)")
    side = target.with_name(f"{target.name}.lock")
    descriptors: list[int] = []

    def attempt() -> bool:
        descriptor = os.open(side, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(descriptor, (fcntl.LOCK_EX if alone else fcntl.LOCK_SH) | fcntl.LOCK_NB)
            if os.path.samestat(os.fstat(descriptor), side.stat()):  # else it was deleted, and others lock a new one
                descriptors.append(descriptor)
        except (BlockingIOError, FileNotFoundError):
            pass
        finally:
            if not descriptors:
                os.close(descriptor)
        return bool(descriptors)

    _wait(attempt, timeout)
    try:
        yield which
    finally:
        fcntl.flock(descriptors[0], fcntl.LOCK_UN)
        os.close(descriptors[0])


@contextmanager
def no_lock(path: Path, alone: bool, timeout: float) -> Iterator[FileIdentity]:  # noqa: ARG001 - as the others
    """Windows: SQLite's own locks are enough."""
    yield identity(path)


def _set(descriptor: int, kind: int) -> bool:
    """Take, change or release the lock of an open file description; False where somebody else is in the way."""
    try:
        fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, struct.pack("hhqqi0q", kind, os.SEEK_SET, _BYTE, 1, 0))
    except OSError as error:
        if error.errno in (errno.EAGAIN, errno.EACCES):
            return False
        if error.errno == errno.EBADF:
            raise PermissionError(errno.EACCES, "the file may only be read") from None
        raise LockError(
            error.errno, f"its file system has no locks that a copy cannot drop ({error.strerror})"
        ) from None
    return True


def _wait(attempt: Callable[[], bool], timeout: float, what: str = "it is locked by another process") -> None:
    end, pause = time.monotonic() + timeout, 0.0005
    while not attempt():
        if time.monotonic() >= end:
            raise LockError(errno.EAGAIN, what)
        time.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311 - keeps processes out of step, no secret
        pause = min(2 * pause, _LONGEST_PAUSE)


class _Descriptors:
    """The descriptors that this process locks by, closed only while none of its transactions is on their file.

    To close one earlier would drop the POSIX locks that SQLite holds in another thread: inid's own processes would
    still keep apart, but not other programs that read the file.
    """

    def __init__(self) -> None:
        self._guard = Lock()
        self._busy: dict[FileIdentity, set[int]] = {}
        self._idle: dict[FileIdentity, list[int]] = {}

    def take(self, path: Path) -> tuple[int, FileIdentity]:
        """A descriptor of the file that the path leads to now, which nobody else in this process uses."""
        with self._guard:
            which = identity(path)
            descriptor = self._idle[which].pop() if self._idle.get(which) else _open(path)
            status = os.fstat(descriptor)
            which = status.st_dev, status.st_ino
            self._busy.setdefault(which, set()).add(descriptor)
        return descriptor, which

    def give_back(self, descriptor: int, which: FileIdentity) -> None:
        """Let go of a descriptor that holds no lock any more."""
        with self._guard:
            self._busy[which].discard(descriptor)
            self._idle.setdefault(which, []).append(descriptor)
            if not self._busy[which]:
                del self._busy[which]
                for one in self._idle.pop(which):
                    os.close(one)

    def forget(self) -> None:
        """In a forked child: close what the parent locks by, which stays locked there."""
        for one in [
            *(d for descriptors in self._busy.values() for d in descriptors),
            *(d for f in self._idle.values() for d in f),
        ]:
            os.close(one)
        self.__init__()  # type: ignore[misc]  # a lock that was held at the fork would never be free again


def _open(path: Path) -> int:
    try:
        return os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except (PermissionError, OSError) as error:
        if error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS):
            raise
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)  # enough to read


_DESCRIPTORS = _Descriptors()
_LOCK: Callable[[Path, bool, float], AbstractContextManager[FileIdentity]] = no_lock
if sys.platform == "linux":
    _LOCK = description_lock
    os.register_at_fork(after_in_child=_DESCRIPTORS.forget)
elif sys.platform != "win32":
    _LOCK = side_file_lock
