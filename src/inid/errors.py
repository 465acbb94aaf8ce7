"""The library's errors.

Every message says what is wrong, where (the argument and, for a sequence, the position), the value when it is a public
argument, and what cures it. No message ever holds a value that came from the data being protected.
"""

__all__ = [
    "ArgumentError",
    "BudgetError",
    "GuaranteeError",
    "InidError",
    "MissingExtraError",
    "RangeError",
    "RecordError",
]


class InidError(Exception):
    """Base of every error that this library raises on purpose.

    >>> import inid
    >>> try:
    ...     inid.PureDP(epsilon=-1)
    ... except inid.InidError as error:
    ...     print(error)
    epsilon must be a finite number greater than 0, got -1: pass a positive privacy budget, for example epsilon=1.0.
    """


class ArgumentError(InidError, ValueError):
    """A public argument is malformed; nothing was computed and nothing was charged."""


class BudgetError(InidError):
    """A promise cannot be kept by the mechanism asked for, or a budget has no room for a charge."""


class RangeError(InidError, ArithmeticError):
    """The arguments are sound but the result would not be a normal floating-point number."""


class GuaranteeError(InidError):
    """A plan does not meet its promise: its own numbers, re-checked exactly, break the guarantee."""


class RecordError(InidError):
    """A stored record (a plan's dictionary, a ledger's row) does not parse or is of an unknown version."""


class MissingExtraError(InidError, ImportError):
    """An optional dependency is absent; the message names the extra that brings it."""
