"""Whoever waits for a long query may watch it: which statement runs, of how many.

Both numbers follow from the question. How far a statement itself is depends on rows, and databases do not say it.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_WATCHER: ContextVar[Callable[[int, int], None] | None] = ContextVar("watcher", default=None)


@contextmanager
def watched(told: Callable[[int, int], None]) -> Iterator[None]:
    """Call a function with the number of each statement that begins, from 1, and how many there are.

    >>> with watched(lambda at, of: print(f"statement {at} of {of}")):
    ...     statement_begins(1, 2)
    statement 1 of 2
    """
    token = _WATCHER.set(told)
    try:
        yield
    finally:
        _WATCHER.reset(token)


def statement_begins(at: int, of: int) -> None:
    """Tell whoever watches."""
    watcher = _WATCHER.get()
    if watcher is not None:
        watcher(at, of)
