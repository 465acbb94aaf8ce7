"""The only source of randomness: a cryptographic keystream, keyed by the operating system.

A source is AES-256 in counter mode. Its key never leaves it, is replaced after a fixed volume and after a fork, and the
object refuses to be copied, so that no two readers ever see the same words: unless they are to, and hold a secret for
it (`SharedSource`).
"""

import contextlib
import contextvars
import hashlib
import os
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar, NoReturn, Protocol

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext, algorithms, modes
from numpy.typing import NDArray

from inid.errors import GuaranteeError

Words = NDArray[np.uint64]

_BYTES_PER_KEY = 1 << 30
_ZEROS = memoryview(bytes(1 << 17))
# Some versions of `cryptography` want room for one more block, less a byte, than the data they write.
_SPARE = 15


class Single:
    """What must not be pickled or copied, since whatever it holds would be used twice."""

    refusal: ClassVar[str]

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError(self.refusal)

    def __copy__(self) -> NoReturn:
        self.__reduce_ex__(None)

    def __deepcopy__(self, memo: object) -> NoReturn:
        self.__reduce_ex__(None)


class Recorder(Protocol):
    """What notes the numbers before noise; `inid.testing.record` has the only one."""

    def charged(self, plans: Sequence[Any]) -> None:
        """Plans, or promises, were charged together; their noise is drawn from here on."""
        ...

    def drawn(
        self, law: str, values: Any, scales: Any, draw: "Callable[[RandomSource], Any]", claim: Any = None
    ) -> Any:
        """The noisy values: `draw` from a source of the recorder's own, or what an earlier run drew.

        `claim` is the plan of this draw, where it is not one of those that were charged.
        """
        ...


class RandomSource(Single):
    """Uniform random 64-bit words from AES-256-CTR under a key from `os.urandom`.

    A source may be shared between threads. A forked child draws a new key before its first word, a source cannot be
    pickled or copied, and a key serves 2**30 bytes at most.
    """

    refusal = "a random source cannot be pickled or copied: noise would repeat. Make a new one instead."
    private: bool = True
    silent: bool = False
    recorder: Recorder | None = None

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._stream: CipherContext | None = None
        self._left = 0
        self._process = os.getpid()
        forget_after_fork(self)

    def fill(self, out: Words) -> Words:
        """Overwrite a contiguous array of unsigned 64-bit words with random ones, and return it."""
        if out.dtype != np.uint64 or not out.flags.c_contiguous:
            raise TypeError("a source fills contiguous arrays of unsigned 64-bit words only.")
        if out.size == 0:
            return out
        view = out.reshape(-1).view(np.uint8).data
        with self._lock:
            for start in range(0, len(view), len(_ZEROS)):
                self._write(view[start : start + len(_ZEROS)])
        return out

    def words(self, count: int) -> Words:
        """A fresh array of random words."""
        return self.fill(np.empty(count, np.uint64))

    def bits(self, count: int) -> int:
        """A random integer of `count` bits, for the paths that need few bits or a great many."""
        length = -(-count // 64)
        return int.from_bytes(self.words(length).tobytes(), "little") >> (64 * length - count)

    def _new_stream(self) -> CipherContext:
        return Cipher(algorithms.AES(os.urandom(32)), modes.CTR(os.urandom(16))).encryptor()

    def _write(self, view: memoryview) -> None:
        if self._process != os.getpid():
            self._forget()
        if self._stream is None or self._left < len(view):
            self._stream, self._left = self._new_stream(), _BYTES_PER_KEY
        self._left -= len(view)
        bulk = max(len(view) - _SPARE, 0)
        if bulk:
            self._stream.update_into(_ZEROS[:bulk], view)
        view[bulk:] = self._stream.update(_ZEROS[: len(view) - bulk])

    def _forget(self) -> None:
        """Drop the key: the next word comes from a new one."""
        self._stream, self._left, self._process = None, 0, os.getpid()

    def _after_fork(self) -> None:
        # Another thread may have held the lock at the moment of the fork; in the child nobody would ever release it.
        self._lock = threading.Lock()
        self._forget()


class SharedSource(RandomSource):
    """The words of `RandomSource` under keys that follow from a secret: the same wherever the secret is the same.

    For what several processes must draw alike. A secret serves one source in each of them, and in the process that made
    it: a forked child, which would draw what its parent draws, gets no word at all.
    """

    def __init__(self, secret: int) -> None:
        super().__init__()
        self._secret, self._keys, self._made_in = secret, 0, os.getpid()

    def _new_stream(self) -> CipherContext:
        if self._made_in != os.getpid():
            raise GuaranteeError(
                "a source that several processes share was asked for words in a forked child, where they would repeat: "
                "draw from it in the process that made it."
            )
        self._keys += 1
        return keyed_stream(f"inid.noise secret {self._secret:x} key {self._keys}")


def keyed_stream(name: str) -> CipherContext:
    """The keystream under a key that follows from a name, as secret as the name is."""
    return Cipher(algorithms.AES(hashlib.sha256(name.encode()).digest()), modes.CTR(bytes(16))).encryptor()


class Forgetful(Protocol):
    """What holds randomness that only one process may use."""

    def _after_fork(self) -> None:
        """Drop it: called in the child before anything else."""


_alive: "weakref.WeakSet[Forgetful]" = weakref.WeakSet()
_of_thread = threading.local()
_chosen: contextvars.ContextVar[RandomSource | None] = contextvars.ContextVar("inid_random_source", default=None)


def forget_after_fork(holder: Forgetful) -> None:
    """Have a holder of randomness drop it in every forked child, for as long as the holder lives."""
    _alive.add(holder)


def _renew_after_fork() -> None:
    for holder in list(_alive):
        holder._after_fork()  # noqa: SLF001 - the hook belongs to the class, but must outlive any one holder


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_after_fork)


def current_source() -> RandomSource:
    """The source to draw from here: this thread's own, unless a test has put another in its place."""
    chosen = _chosen.get()
    if chosen is not None:
        return chosen
    source: RandomSource | None = getattr(_of_thread, "source", None)
    if source is None:
        source = _of_thread.source = RandomSource()
    return source


@contextlib.contextmanager
def source_in_use(source: RandomSource) -> Iterator[RandomSource]:
    """Draw from `source` inside a block, in this thread and this asynchronous task only."""
    token = _chosen.set(source)
    try:
        yield source
    finally:
        _chosen.reset(token)
