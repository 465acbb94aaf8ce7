"""The record of a sensitivity set: its numbers, rows and labels; equality, fingerprint and text."""

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from inid import arguments
from inid.arguments import Floats
from inid.numbers.rational_sums import Counts
from inid.sets.reading import Neighbours

__all__ = ["FIELDS", "SetRecord", "listed"]

FIELDS = ("limits", "counts", "norm", "l1", "l2", "total", "labels", "neighbours")
_CAPS = ("l1", "l2", "total")


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
