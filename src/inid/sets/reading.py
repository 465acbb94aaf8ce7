"""Reading the arguments from which a sensitivity set is made."""

from typing import Literal, get_args

import numpy as np

from inid import arguments
from inid.arguments import choice, real, shown
from inid.errors import ArgumentError
from inid.numbers.rational_sums import Counts

__all__ = ["Neighbours", "read_bound", "read_cap", "read_counts", "read_neighbours", "read_norm", "read_order"]

# "add_remove": one person more or less, the number of people is secret. "replace": one person's data change, and the
# number is public. "zero_out": one person's data become nothing, which adds 0 to every sum and count, and the number
# stays public.
Neighbours = Literal["add_remove", "replace", "zero_out"]

_LARGEST_ORDER = 1e6  # beyond, the error is the maximum for all purposes and its powers leave the range of logarithms


def read_counts(name: str, value: object, size: int) -> Counts | None:
    """Whole numbers >= 1, one per row; None stays None."""
    if value is None:
        return None
    cure = "pass one whole number of at least 1 per entry"
    numbers = arguments.array(name, value, positive=True, length=size, cure=cure)
    at = int(np.argmin((numbers == np.floor(numbers)) & (numbers < 2.0**53)))
    if not (numbers[at] == np.floor(numbers[at]) and numbers[at] < 2.0**53):
        raise ArgumentError(f"{name}[{at}] must be a whole number below 2^53, got {shown(float(numbers[at]))}: {cure}.")
    whole = numbers.astype(np.int64)
    if not sum(whole.tolist()) < 2**53:  # as Python integers: the sum of 64-bit ones may wrap
        raise ArgumentError(f"{name} must add up to less than 2^53 coordinates: {cure}.")
    whole.flags.writeable = False
    return whole


def read_cap(name: str, value: object) -> float | None:
    """An optional bound."""
    return None if value is None else read_bound(name, value, cure="pass one finite bound, or leave it out")


def read_bound(name: str, value: object, cure: str) -> float:
    """A number >= 0, rounded up where no float holds it exactly."""
    real(name, value, least=0, cure=cure)
    return float(arguments.array(name, [value], up=True, cure=cure)[0])


def read_neighbours(value: object) -> Neighbours:
    """The relation for which bounds hold."""
    return choice("neighbours", value, get_args(Neighbours))  # type: ignore[return-value]


def read_norm(what: str, l1: object, l2: object) -> tuple[int, object]:
    """The norm that is bounded, 1 or 2, and its bound: exactly one of the two must be given."""
    if (l1 is None) == (l2 is None):
        given = "neither" if l1 is None else "both"
        raise ArgumentError(f"{what} needs exactly one of l1 and l2, got {given}: say which norm is bounded.")
    return (1, l1) if l2 is None else (2, l2)


def read_order(value: object) -> float:
    """P of the error, at least 1."""
    cure = "pass the power p of the error, for example order=2"
    order = real("order", value, least=1, cure=cure)
    if not order <= _LARGEST_ORDER:
        raise ArgumentError(f"order must be at most {_LARGEST_ORDER:g}, got {shown(value)}: {cure}.")
    return order
