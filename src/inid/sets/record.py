"""The numbers that make a sensitivity set: read from arguments, kept in run-length form, recorded and compared."""

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal, NamedTuple, TypeVar, get_args

import numpy as np
from numpy.typing import NDArray

from inid import arguments
from inid.arguments import Floats, choice, real, shown, shown_entry
from inid.errors import ArgumentError
from inid.numbers.sums import Counts

__all__ = [
    "FIELDS",
    "Cells",
    "Neighbours",
    "SetRecord",
    "listed",
    "read_bound",
    "read_cap",
    "read_counts",
    "read_neighbours",
    "read_norm",
    "read_order",
]

_Entry = TypeVar("_Entry", bound=np.generic)

# "add_remove": one person more or less, the number of people is secret. "replace": one person's data change, and the
# number is public. "zero_out": one person's data become nothing, which adds 0 to every sum and count, and the number
# stays public.
Neighbours = Literal["add_remove", "replace", "zero_out"]

FIELDS = ("limits", "counts", "norm", "l1", "l2", "total", "labels", "neighbours")
_CAPS = ("l1", "l2", "total")
_LARGEST_ORDER = 1e6  # beyond, the error is the maximum for all purposes and its powers leave the range of logarithms


def read_counts(name: str, value: object, size: int) -> Counts | None:
    """Whole numbers >= 1, one per row; None stays None."""
    if value is None:
        return None
    cure = "pass one whole number of at least 1 per entry"
    numbers = arguments.array(name, value, positive=True, length=size, cure=cure)
    at = int(np.argmin((numbers == np.floor(numbers)) & (numbers < 2.0**53)))
    if not (numbers[at] == np.floor(numbers[at]) and numbers[at] < 2.0**53):
        raise ArgumentError(
            f"{name}[{at}] must be a whole number below 2^53, got {shown_entry(value, numbers, at)}: {cure}."
        )
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


class Cells(NamedTuple):
    """Coordinates that share a row and a weight: how many each cell holds and to which row it belongs."""

    counts: Counts | None  # None: one each
    rows: Counts | None  # None: cell i is row i

    def spread(self, values: NDArray[_Entry]) -> NDArray[_Entry]:
        """One entry per cell from one entry per row."""
        return values if self.rows is None else values[self.rows]

    def times(self, size: int) -> Counts:
        """How many coordinates each of `size` cells holds, spelled out."""
        return np.ones(size, dtype=np.int64) if self.counts is None else self.counts

    def row_of(self, size: int) -> Counts:
        """The row of each of `size` cells, spelled out."""
        return np.arange(size) if self.rows is None else self.rows


@dataclass(frozen=True, eq=False, repr=False)
class SetRecord:
    """The numbers that make a set, one per row in run-length form. A field that a kind of set lacks is None."""

    limits: Floats
    counts: Counts | None
    norm: int | None
    l1: float | None
    l2: float | None
    total: float | None
    labels: tuple[str, ...] | None
    neighbours: Neighbours

    kind: ClassVar[str]
    limits_name: ClassVar[str]  # what `limits` are called in words

    def __post_init__(self) -> None:
        object.__setattr__(self, "limits", arguments.frozen(self.limits))
        if self.counts is not None:
            object.__setattr__(self, "counts", arguments.frozen(self.counts))

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), tuple(getattr(self, name) for name in FIELDS)  # without what was cached

    @cached_property
    def dimension(self) -> int:
        """K, the number of coordinates."""
        return self.limits.size if self.counts is None else sum(self.counts.tolist())

    def to_dict(self) -> dict[str, Any]:
        """A JSON-safe dictionary from which `from_dict` makes the same set, bit for bit.

        >>> import inid
        >>> s = inid.Sensitivity.ball(dimension=3, l1=0.1)
        >>> inid.Sensitivity.from_dict(s.to_dict()) == s
        True
        """
        record: dict[str, Any] = {"kind": self.kind} | {name: getattr(self, name) for name in FIELDS}
        record["limits"] = self.limits.tolist()
        record["counts"] = None if self.counts is None else self.counts.tolist()
        record["labels"] = None if self.labels is None else list(self.labels)
        return record

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SetRecord):
            return NotImplemented
        names = ("kind", *(name for name in FIELDS if name not in ("limits", "counts")))
        same = all(getattr(self, n) == getattr(other, n) for n in names)
        if not (same and np.array_equal(self.limits, other.limits)):
            return False
        if self.counts is None or other.counts is None:
            return self.counts is other.counts
        return np.array_equal(self.counts, other.counts)

    def __hash__(self) -> int:
        return hash((self.kind, self.limits.size, self.dimension, self.norm, self.l1, self.l2, self.total))

    @cached_property
    def fingerprint(self) -> str:
        """Sixteen hexadecimal digits that pin down the set, bit for bit (labels aside): the start of a SHA-256."""
        facts = (self.kind, self.limits.size, self.norm, self.l1, self.l2, self.total, self.neighbours)
        digest = hashlib.sha256(repr(facts).encode())
        digest.update(self.limits.astype("<f8", copy=False).data)
        if self.counts is not None:
            digest.update(self.counts.astype("<i8", copy=False).data)
        return digest.hexdigest()[:16]

    def __str__(self) -> str:
        low, high = float(self.limits.min()), float(self.limits.max())
        span = f"{low:g}" if low == high else f"{low:g} to {high:g}"
        caps = "".join(f", {n} at most {getattr(self, n):g}" for n in _CAPS if getattr(self, n) is not None)
        return f"{self._words()}, {self.limits_name} {span}{caps}, neighbours: {self.neighbours}"

    def _words(self) -> str:
        return f"{self.kind} of {self.dimension} coordinates"

    def __repr__(self) -> str:
        caps = "".join(f", {n}={getattr(self, n)!r}" for n in _CAPS if getattr(self, n) is not None)
        if self.neighbours != "add_remove":
            caps += f", neighbours={self.neighbours!r}"
        return f"Sensitivity.{self.kind}({self._arguments()}{caps})"

    def _arguments(self) -> str:
        """The arguments before the caps, as they are written in a call."""
        return listed(self.limits) + ("" if self.counts is None else f", counts={listed(self.counts)}")


def listed(values: NDArray[Any]) -> str:
    """The first few entries as Python writes a list of them."""
    words = [repr(v) for v in values[:8].tolist()]
    return f"[{', '.join(words)}{', ...' if values.size > 8 else ''}]"
