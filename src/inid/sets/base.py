"""What every sensitivity set has: runs of equal coordinates, labels, a record, and what a plan asks of it.

A set S holds the possible differences d = f(D) - f(D') between neighbouring datasets. A plan asks it four things, all
for an exponent q (2 where sums of squares are spent, 1 where sums of absolute values are; see `inid.mechanisms`):

    log_profile   the effective profile: the box whose least-error noise is that of S (E1)
    shapes        the shape of the least-error noise
    supremum      what given scales spend: the supremum over S of sum (|d_i| / scale_i)^q, exactly or rounded up
    ratios        the worst neighbours for Laplace noise, as ratios whose privacy curve bounds all of S (E5)

Each kind of set is one file that answers them: `box`, `groups` (a ball is one group), `partitions`, `ellipsoid`. Boxes
and partitions also say what one step moves (`step_boxes`), for noise that is drawn jointly.
"""

import hashlib
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Literal, NamedTuple, Self, TypeVar, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from inid import arguments
from inid.arguments import Floats, choice, real, shown, shown_entry
from inid.errors import ArgumentError, GuaranteeError, RecordError
from inid.mechanisms import Exponent, Mechanism, MechanismName
from inid.numbers.sums import Counts, log2
from inid.sets.envelopes import Ratios

# The numbers that make a sensitivity set: read from arguments, kept in run-length form, recorded and compared.

_Entry = TypeVar("_Entry", bound=np.generic)

# "add_remove": one person more or less, the number of people is secret. "replace": one person's data change, and the
# number is public. "zero_out": one person's data become nothing, which adds 0 to every sum and count, and the number
# stays public.
Neighbours = Literal["add_remove", "replace", "zero_out"]

FIELDS = ("limits", "counts", "norm", "l1", "l2", "total", "labels", "neighbours")
_CAPS = ("l1", "l2", "total")
_LARGEST_ORDER = 1e6  # beyond, the error is the maximum for all purposes and its powers leave the range of logarithms


def read_counts(name: str, value: object, size: int) -> Counts | None:
    """Whole numbers >= 1, one per run; None stays None."""
    if value is None:
        return None
    cure = "pass one whole number of at least 1 per entry"
    numbers = arguments.array(name, value, positive=True, length=size, cure=cure)
    at = int(np.argmin((numbers == np.floor(numbers)) & (numbers < 2.0**53)))
    if not (numbers[at] == np.floor(numbers[at]) and numbers[at] < 2.0**53):
        raise ArgumentError(
            f"{name}[{at}] must be a whole number below 2^53, got {shown_entry(value, numbers, at)}: {cure}."
        )
    integers = numbers.astype(np.int64)
    if not sum(integers.tolist()) < 2**53:  # as Python integers: the sum of 64-bit ones may wrap
        raise ArgumentError(f"{name} must add up to less than 2^53 coordinates: {cure}.")
    integers.flags.writeable = False
    return integers


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
    """Coordinates that share a run and a weight: how many each cell holds and to which run it belongs."""

    counts: Counts | None  # None: one each
    runs: Counts | None  # None: cell i is run i

    def spread(self, values: NDArray[_Entry]) -> NDArray[_Entry]:
        """One entry per cell from one entry per run."""
        return values if self.runs is None else values[self.runs]

    def times(self, size: int) -> Counts:
        """How many coordinates each of `size` cells holds, spelled out."""
        return np.ones(size, dtype=np.int64) if self.counts is None else self.counts

    def run_of(self, size: int) -> Counts:
        """The run of each of `size` cells, spelled out."""
        return np.arange(size) if self.runs is None else self.runs


class StepBoxes(NamedTuple):
    """What a person moves, in steps: in each partition at most `moves` times the numbers of one of `cells` cells.

    One entry for each number; those of one partition move together, each by at most its limit. A box is one partition
    of one cell, which is moved once.
    """

    limits: Floats
    cells: Counts
    moves: Counts
    partition: Counts


@dataclass(frozen=True, eq=False, repr=False)
class SetRecord:
    """The numbers that make a set, one per run of equal coordinates. A field that a kind of set lacks is None."""

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
    fields: ClassVar[tuple[str, ...]] = FIELDS
    """The names of what a set of this kind holds, as its record has them."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "limits", arguments.frozen(self.limits))
        if self.counts is not None:
            object.__setattr__(self, "counts", arguments.frozen(self.counts))

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), tuple(getattr(self, name) for name in self.fields)  # without what was cached

    @cached_property
    def dimension(self) -> int:
        """K, the number of coordinates."""
        return self.limits.size if self.counts is None else sum(self.counts.tolist())

    def to_dict(self) -> dict[str, Any]:
        """A JSON-safe dictionary from which `from_dict` makes the same set, bit for bit."""
        record: dict[str, Any] = {"kind": self.kind} | {name: getattr(self, name) for name in self.fields}
        record |= {name: list(record[name]) for name in self.fields[len(FIELDS) :]}
        record["limits"] = self.limits.tolist()
        record["counts"] = None if self.counts is None else self.counts.tolist()
        record["labels"] = None if self.labels is None else list(self.labels)
        return record

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SetRecord):
            return NotImplemented
        names = ("kind", *(name for name in self.fields if name not in ("limits", "counts")))
        same = self.kind == other.kind and all(getattr(self, n) == getattr(other, n) for n in names)
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
        more = tuple(getattr(self, name) for name in self.fields[len(FIELDS) :])
        digest = hashlib.sha256(repr(facts + more).encode())
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


Allocation = Literal["optimal", "iid", "spr"]


@dataclass(frozen=True, eq=False, repr=False)
class Sensitivity(SetRecord, ABC):
    """A sensitivity set. Make one with `box`, `ball`, `groups`, `partitions` or `ellipsoid`.

    >>> s = Sensitivity.box([1.0, 3.0, 40.0], labels=["age", "visits", "income"])
    >>> s.dimension, s.neighbours
    (3, 'add_remove')
    """

    @staticmethod
    def box(
        sensitivity: ArrayLike,
        *,
        l1: float | None = None,
        l2: float | None = None,
        counts: ArrayLike | None = None,
        labels: Sequence[str] | None = None,
        neighbours: Neighbours = "add_remove",
    ) -> "Sensitivity":
        """Every coordinate moves by at most its own sensitivity: |d_i| <= sensitivity_i (the paper's setting).

        Args:
            sensitivity: One finite number >= 0 per coordinate; 0 means that nobody's data move the coordinate.
            l1: Optional cap on the sum of |d_i| (E2), for coordinates that cannot all move at once.
            l2: Optional cap on the root of the sum of d_i^2 (E2).
            counts: Run-length form: how many coordinates each entry stands for.
            labels: One name per entry, shown in tables.
            neighbours: "add_remove", "replace" or "zero_out", the relation for which these bounds hold.

        Raises:
            ArgumentError: An argument is not as described.

        >>> Sensitivity.box([1.0, 1.0, 5.0], l1=5.0)
        Sensitivity.box([1.0, 1.0, 5.0], l1=5.0)
        """
        from inid.sets.box import Box

        return Box.read(sensitivity, l1=l1, l2=l2, counts=counts, labels=labels, neighbours=neighbours)

    @staticmethod
    def ball(
        dimension: int, *, l1: float | None = None, l2: float | None = None, neighbours: Neighbours = "add_remove"
    ) -> "Sensitivity":
        """The whole difference is bounded in one norm, in any direction.

        Args:
            dimension: The number of coordinates.
            l1: The bound on the sum of |d_i|; or
            l2: the bound on the root of the sum of d_i^2.
            neighbours: "add_remove", "replace" or "zero_out".

        >>> Sensitivity.ball(dimension=100, l2=1.0)
        Sensitivity.ball(dimension=100, l2=1.0)
        """
        from inid.sets.groups import Ball

        return Ball.read_one(dimension, l1=l1, l2=l2, neighbours=neighbours)

    @staticmethod
    def groups(
        sizes: ArrayLike,
        *,
        l1: ArrayLike | None = None,
        l2: ArrayLike | None = None,
        total: float | None = None,
        labels: Sequence[str] | None = None,
        neighbours: Neighbours = "add_remove",
    ) -> "Sensitivity":
        """Coordinates come in groups (layers, partitions), each bounded in norm as a whole (E3).

        Args:
            sizes: The number of coordinates of each group, in order.
            l1: One bound per group on its sum of |d_i|; or
            l2: one bound per group on its root of the sum of d_i^2.
            total: Optional bound, in the same norm, on all groups together.
            labels: One name per group.
            neighbours: "add_remove", "replace" or "zero_out".

        >>> s = Sensitivity.groups(sizes=[432, 32, 650], l2=[0.2, 0.2, 0.2])
        >>> s.dimension
        1114
        """
        from inid.sets.groups import Groups

        return Groups.read(sizes, l1=l1, l2=l2, total=total, labels=labels, neighbours=neighbours)

    @staticmethod
    def partitions(
        boxes: Sequence[ArrayLike],
        cells: int | Sequence[int],
        *,
        moves: int | Sequence[int] = 1,
        labels: Sequence[str] | None = None,
        neighbours: Neighbours = "add_remove",
    ) -> "Sensitivity":
        """Numbers that are asked in every cell of a partition: all that one row moves lies in one cell.

        State a partition only where that is so. A row may lie in any cell of each partition, so two histograms are two
        partitions, also if they have as many bins; and a number of the whole table beside them is one of one cell.

        Args:
            boxes: For each partition how far one row moves each number of its cell.
            cells: How many cells each partition has; one number is that of all.
            moves: How many rows of one person can change: with m rows each, m under "add_remove" and "zero_out", and 2m
                under "replace", where a row leaves one cell and enters another.
            labels: One name per number, in the order of the boxes.
            neighbours: "add_remove", "replace" or "zero_out".

        Coordinates stand number by number, each cell by cell.

        >>> s = Sensitivity.partitions([[1.0, 50.0]], cells=4, labels=["count", "age"])  # by four groups
        >>> s.dimension
        8
        >>> s
        Sensitivity.partitions([[1.0, 50.0]], cells=[4], moves=[1])
        """
        from inid.sets.partitions import Partitions

        return Partitions.read_boxes(boxes, cells, moves=moves, labels=labels, neighbours=neighbours)

    @staticmethod
    def ellipsoid(
        radii: ArrayLike,
        *,
        counts: ArrayLike | None = None,
        labels: Sequence[str] | None = None,
        neighbours: Neighbours = "add_remove",
    ) -> "Sensitivity":
        """The difference lies in an axis-aligned ellipsoid: sum d_i^2 / radii_i^2 <= 1 (E4).

        Args:
            radii: One finite number >= 0 per coordinate; 0 means that nobody's data move the coordinate.
            counts: Run-length form: how many coordinates each entry stands for.
            labels: One name per entry.
            neighbours: "add_remove", "replace" or "zero_out".

        >>> Sensitivity.ellipsoid([1.0, 0.5, 0.5]).dimension
        3
        """
        from inid.sets.ellipsoid import Ellipsoid

        return Ellipsoid.read(radii, counts=counts, labels=labels, neighbours=neighbours)

    @cached_property
    def reach(self) -> Floats:
        """Per run, the largest change of one coordinate: the limits, tightened by the caps.

        :meta private:
        """
        caps = [cap for cap in (self.l1, self.l2, self.total) if cap is not None]
        if not caps:
            return self.limits
        reach = np.minimum(self.limits, min(caps))
        reach.flags.writeable = False
        return reach

    @property
    def profile(self) -> Floats:
        """The paper's sensitivity profile: the largest change of each coordinate, an array of length K.

        >>> Sensitivity.box([1.0, 3.0, 40.0], l2=10.0).profile
        array([ 1.,  3., 10.])
        """
        return self.reach if self.counts is None else np.repeat(self.reach, self.counts)

    def effective_profile(
        self, mechanism: MechanismName, *, weights: ArrayLike | None = None, order: float = 2
    ) -> Floats:
        """The box that this set is worth: feeding it to the paper's formulas gives the least-error noise (E1).

        Args:
            mechanism: "gaussian" or "laplace" (under pure DP).
            weights: alpha, one per run or one per coordinate; all 1 when left out.
            order: p of the error, at least 1.

        Returns:
            An array of length K.

        >>> Sensitivity.groups(sizes=[4, 1], l2=[1.0, 1.0]).effective_profile("gaussian")
        array([0.5, 0.5, 0.5, 0.5, 1. ])
        """
        exponent = Mechanism.named(mechanism).exponent
        alpha = self.read_weights(weights)
        cells = self.cells(self.limits.size if alpha is None else alpha.size)
        values = np.exp2(self.log_profile(exponent, 0.0 if alpha is None else log2(alpha), read_order(order), cells))
        return values if cells.counts is None else np.repeat(values, cells.counts)

    @abstractmethod
    def is_solved(self, exponent: Exponent) -> bool:
        """Whether the least-error shape is known in closed form (E1 to E4); otherwise a bound is reported.

        :meta private:
        """

    @abstractmethod
    def log_profile(self, exponent: Exponent, weights: Floats | float, order: float, cells: Cells) -> Floats:
        """log2 of the effective profile of each cell; a valid profile inside the hull where no closed form is known.

        :meta private:
        """

    def shapes(
        self, exponent: Exponent, allocation: Allocation, weights: Floats | float, order: float, cells: Cells
    ) -> list[Floats]:
        """log2 of candidate shapes for the scales, fresh arrays; with several, the caller takes the one of least error.

        Only sets without a closed form (`is_solved` is False) have several for the optimal allocation.

        :meta private:
        """
        if allocation == "iid":
            return [np.zeros(self.limits.size if cells.runs is None else cells.runs.size)]
        if allocation == "spr":
            return [cells.spread(log2(self.reach))]
        return self._best_shapes(exponent, weights, order, cells)

    def supremum(self, exponent: Exponent, scales: Floats, cells: Cells) -> Fraction:
        """What scales spend on this set, never below the truth: the supremum over d of sum_i (|d_i| / scale_i)^q.

        That is mu squared for Gaussian noise and exponent 2, epsilon for Laplace noise and exponent 1. Equal to the
        truth wherever a closed form exists and the number of terms permits rationals, above it by rounding otherwise.

        Raises:
            GuaranteeError: A scale is not a finite number >= 0, or a coordinate that somebody can move has scale 0.

        :meta private:
        """
        least, most = float(scales.min()), float(scales.max())
        if not (least >= 0 and most < math.inf):  # written for what is wanted, so that NaN fails
            at = int(np.argmin((scales >= 0) & (scales < math.inf)))
            raise GuaranteeError(f"scales[{at}] must be a finite number of at least 0, got {float(scales[at])!r}.")
        if self._least_reach > 0 and least > 0:
            return self._supremum(exponent, scales, cells)
        moved = cells.spread(self.reach) > 0
        if not (scales[moved] > 0).all():
            at = int(np.flatnonzero(moved & ~(scales > 0))[0])
            name = self.labels[int(cells.run_of(scales.size)[at])] if self.labels else f"entry {at}"
            raise GuaranteeError(f"{name} depends on people but has no noise: its scale must be greater than 0.")
        return self._supremum(exponent, scales, cells) if moved.any() else Fraction(0)

    def ratios(self, scales: Floats, cells: Cells) -> Ratios:
        """Ratios, rounded up, and how often each occurs: their curve is at least that of every difference in the set.

        Exact for boxes, l1 balls and l1 groups; an envelope for the others (`inid.sets.envelopes`). Scales must be
        positive wherever somebody can move the coordinate.

        :meta private:
        """
        if not float(self.reach.max()) > 0:
            return np.zeros(0), np.zeros(0, dtype=np.int64)
        return self._ratios(scales, cells)

    def step_boxes(self, most: int) -> StepBoxes | None:  # noqa: ARG002 - most sets have none
        """What one step moves, for noise that is drawn jointly over at most so many entries; None where no box does.

        :meta private:
        """
        return None

    @cached_property
    def corner_size(self) -> int:
        """The most coordinates that one extreme difference moves: 1 means that all of S is bounded by single ratios.

        :meta private:
        """
        return int(np.count_nonzero(self.reach)) if self.counts is None else int(self.counts[self.reach > 0].sum())

    @cached_property
    def _least_reach(self) -> float:
        """How far somebody can move the coordinate that moves least; 0 where nobody can."""
        return float(self.reach.min())

    @abstractmethod
    def _best_shapes(self, exponent: Exponent, weights: Floats | float, order: float, cells: Cells) -> list[Floats]: ...

    @abstractmethod
    def _supremum(self, exponent: Exponent, scales: Floats, cells: Cells) -> Fraction: ...

    @abstractmethod
    def _ratios(self, scales: Floats, cells: Cells) -> Ratios: ...

    def cells(self, number: int) -> Cells:
        """The cells of a vector with one entry per run or one per coordinate.

        :meta private:
        """
        if number == self.limits.size:
            return Cells(self.counts, None)
        if number != self.dimension or self.counts is None:
            raise ArgumentError(
                f"a vector for this sensitivity must have {self.limits.size} or {self.dimension} entries, got {number}."
            )
        return Cells(None, np.repeat(np.arange(self.limits.size), self.counts))

    def check_names(self, name: str, value: object) -> None:
        """Refuse a series whose own names are not this set's labels in this order: it would be read by position.

        Raises:
            ArgumentError: They differ. Only names are compared and shown.

        :meta private:
        """
        index = getattr(value, "index", None)
        if self.labels is None or index is None or callable(index):  # lists have a method of that name
            return
        names = tuple(index)
        if all(isinstance(word, str) for word in names) and names != self.labels and len(names) == len(self.labels):
            raise ArgumentError(
                f"{name} has the index {shown(list(names))}, the labels are {shown(list(self.labels))}: "
                f"reorder it first, for example {name}[list(labels)]."
            )

    def read_weights(self, weights: object, name: str = "weights") -> Floats | None:
        """Weights as given by a user: one positive number per run or per coordinate, or None.

        :meta private:
        """
        if weights is None:
            return None
        self.check_names(name, weights)
        cure = "pass one positive number per coordinate (or per run of the run-length form)"
        return arguments.array(name, weights, positive=True, length=[self.limits.size, self.dimension], cure=cure)

    @staticmethod
    def from_dict(record: object) -> "Sensitivity":
        """The set that `to_dict` described.

        Raises:
            RecordError: The record does not parse.
        """
        kinds = _kinds()
        kind = record.get("kind") if isinstance(record, Mapping) else None
        names = ("kind", *(kinds[kind].fields if isinstance(kind, str) and kind in kinds else FIELDS))
        if not isinstance(record, Mapping) or set(record) != set(names):
            raise RecordError(f"a sensitivity's record must be a dictionary with exactly {', '.join(names)}.")
        if not (isinstance(record["kind"], str) and record["kind"] in kinds):
            raise RecordError(f"unknown kind of sensitivity {shown(record['kind'])}: known are {', '.join(kinds)}.")
        try:
            sensitivity = kinds[record["kind"]].from_record(record)
        except ArgumentError as error:
            raise RecordError(f"the sensitivity's record does not parse: {error}") from None
        if sensitivity.to_dict() != dict(record):  # a cap on a kind that has none, say: not what anybody meant
            raise RecordError("the sensitivity's record contradicts itself: store sets as they are written.")
        return sensitivity

    @classmethod
    @abstractmethod
    def from_record(cls, record: Mapping[str, Any]) -> Self:
        """The set of this kind with the fields of a record, read like a user's arguments.

        :meta private:
        """


def _kinds() -> dict[str, type[Sensitivity]]:
    from inid.sets import box, ellipsoid, groups, partitions

    every = (box.Box, groups.Ball, groups.Groups, ellipsoid.Ellipsoid, partitions.Partitions)
    return {kind.kind: kind for kind in every}
