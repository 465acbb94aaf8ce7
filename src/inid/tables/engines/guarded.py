"""Where the library meets an engine: optional imports, and failures whose messages may quote the data."""

import importlib
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType, ModuleType
from typing import TypeVar

import numpy as np

from inid.errors import InidError, MissingExtraError

_T = TypeVar("_T")


class EngineError(InidError):
    """The engine failed while it read or ran a query; its own message is withheld, since it may quote the data."""


def optional(name: str, extra: str = "tables") -> ModuleType:
    """An optional dependency, imported when it is first used."""
    try:
        return importlib.import_module(name)
    except ImportError:
        raise MissingExtraError(f"tables need {name}: run pip install '.[{extra}]' in inid's checkout.") from None


def guarded(work: Callable[[], _T], what: str) -> _T:
    """Run the engine; what it raises is reported by its type alone.

    NumPy is kept from raising: under `np.seterr` one person's value could decide whether an answer comes at all. An
    interrupt by the user stays one, whatever the engine makes of it.
    """
    with _interrupts() as interrupts:
        try:
            with np.errstate(all="ignore"):
                return work()
        except (KeyboardInterrupt, SystemExit, GeneratorExit):
            raise
        # An engine may raise anything, and its message may hold data; a panic of Polars is no Exception.
        except BaseException as error:
            if interrupts:
                raise KeyboardInterrupt from None
            if isinstance(error, InidError):
                raise
            raise EngineError(
                f"the engine could not {what} ({type(error).__name__}; its message may quote data and is not shown): "
                "run an ordinary aggregate on the same frame to see the cause."
            ) from None


@contextmanager
def _interrupts() -> Iterator[list[int]]:
    """The interrupts that come meanwhile: DuckDB raises an error of its own instead of passing them on.

    Only the main thread gets signals. A handler that somebody else has installed (Spark does) is called as before; what
    counts is that it raises.
    """
    signals: list[int] = []
    usual = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(usual):
        yield signals
        return

    def noted(number: int, frame: FrameType | None) -> None:
        try:
            usual(number, frame)
        except KeyboardInterrupt:
            signals.append(number)
            raise

    signal.signal(signal.SIGINT, noted)
    try:
        yield signals
    finally:
        # The work itself may have installed one: a first session of Spark does.
        if signal.getsignal(signal.SIGINT) is noted:
            signal.signal(signal.SIGINT, usual)
