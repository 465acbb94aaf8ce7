"""Where the library meets an engine: optional imports, and failures whose messages may quote the data."""

import importlib
from collections.abc import Callable
from types import ModuleType
from typing import TypeVar

import numpy as np

from inid.errors import InidError, MissingExtraError

__all__ = ["EngineError", "guarded", "optional"]

_T = TypeVar("_T")


class EngineError(InidError):
    """The engine failed while it read or ran a query; its own message is withheld, since it may quote the data."""


def optional(name: str, extra: str = "tables") -> ModuleType:
    """An optional dependency, imported when it is first used.

    Raises:
        MissingExtraError: It is not installed; the message names the extra that brings it.
    """
    try:
        return importlib.import_module(name)
    except ImportError:
        raise MissingExtraError(f"tables need {name}: run pip install 'inid[{extra}]'.") from None


def guarded(work: Callable[[], _T], what: str) -> _T:
    """Run the engine; what it raises is reported by its type alone.

    NumPy is kept from raising: under `np.seterr` one person's value could decide whether an answer comes at all.
    """
    try:
        with np.errstate(all="ignore"):
            return work()
    except (InidError, KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    # An engine may raise anything, and its message may hold data; a panic of Polars is no Exception.
    except BaseException as error:  # noqa: BLE001
        raise EngineError(
            f"the engine could not {what} ({type(error).__name__}; its message may quote data and is not shown): "
            "run an ordinary aggregate on the same frame to see the cause."
        ) from None
