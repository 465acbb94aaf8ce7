"""Sources of randomness that repeat, for tests only: what is released with them is not private."""

import contextlib
from collections.abc import Iterator

from cryptography.hazmat.primitives.ciphers import CipherContext

from inid import arguments
from inid.noise.source import RandomSource, keyed_stream, source_in_use


class SeededSource(RandomSource):
    """The words of `RandomSource` under keys derived from a seed. Not secret, and never to be used for a release."""

    private = False

    def __init__(self, seed: int, *, silent: bool = False) -> None:
        super().__init__()
        self.silent = silent
        self._seed = arguments.integer("seed", seed, least=0, cure="pass a whole number, for example 7")
        self._keys = 0

    def _new_stream(self) -> CipherContext:
        name = f"inid.testing seed {self._seed} key {self._keys}"
        self._keys += 1
        return keyed_stream(name)


@contextlib.contextmanager
def unsafe_seed(seed: int) -> Iterator[RandomSource]:
    """Make noise repeatable inside a block. Everything drawn inside is public knowledge.

    Holds for this thread and this asynchronous task only: a thread started inside draws secret noise, as always.

    >>> from inid.noise import add_noise
    >>> with unsafe_seed(7):
    ...     first = add_noise([0.0], [1.0], "laplace")
    >>> with unsafe_seed(7):
    ...     bool(first == add_noise([0.0], [1.0], "laplace"))
    True
    """
    with source_in_use(SeededSource(seed)) as source:
        yield source


@contextlib.contextmanager
def unsafe_no_noise() -> Iterator[RandomSource]:
    """Leave noise out inside a block: values are rounded to their grid and nothing else.

    >>> from inid.noise import add_noise
    >>> with unsafe_no_noise():
    ...     add_noise([0.1, 5.0], [4096.0, 1.0], "gaussian").tolist()
    [0.0, 5.0]
    """
    with source_in_use(SeededSource(0, silent=True)) as source:
        yield source
