"""The sensitivity sets: boxes, balls, groups and ellipsoids, in run-length form."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, Self, get_args

import numpy as np
from numpy.typing import NDArray

from inid import arguments
from inid.arguments import Floats, choice, integer, real, shown
from inid.errors import ArgumentError, RecordError
from inid.mechanisms import Mechanism
from inid.numbers.rational_sums import Counts
from inid.sets.allocation import log2
from inid.sets.profiles import Cells, log_profile

__all__ = ["Neighbours", "Sensitivity", "read_order"]

# "add_remove": one person more or less, the number of people is secret. "replace": one person's data change, and the
# number is public. "zero_out": one person's data become nothing, which adds 0 to every sum and count, and the number
# stays public.
Neighbours = Literal["add_remove", "replace", "zero_out"]
Kind = Literal["box", "ball", "groups", "ellipsoid"]

_LARGEST_ORDER = 1e6  # beyond, the error is the maximum for all purposes and its powers leave the range of logarithms

_FIELDS = ("kind", "limits", "counts", "norm", "l1", "l2", "total", "labels", "neighbours")


@dataclass(frozen=True, eq=False)
class Sensitivity:
    """A sensitivity set. Make one with `box`, `ball`, `groups` or `ellipsoid`.

    >>> s = Sensitivity.box([1.0, 3.0, 40.0], labels=["age", "visits", "income"])
    >>> s.dimension, s.neighbours
    (3, 'add_remove')
    """

    kind: Kind
    limits: Floats
    counts: Counts | None
    norm: int | None
    l1: float | None
    l2: float | None
    total: float | None
    labels: tuple[str, ...] | None
    neighbours: Neighbours

    def __post_init__(self) -> None:
        object.__setattr__(self, "limits", arguments.frozen(self.limits))
        if self.counts is not None:
            object.__setattr__(self, "counts", arguments.frozen(self.counts))

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), tuple(getattr(self, name) for name in _FIELDS)  # without what was cached

    @classmethod
    def box(
        cls,
        sensitivity: object,
        *,
        l1: float | None = None,
        l2: float | None = None,
        counts: object = None,
        labels: object = None,
        neighbours: str = "add_remove",
    ) -> Self:
        """Every coordinate moves by at most its own sensitivity: |d_i| <= sensitivity_i (the paper's setting).

        Args:
            sensitivity: One finite number >= 0 per coordinate; 0 means that the coordinate depends on nobody.
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
        cure = "pass one bound per coordinate, for example box([1.0, 3.0, 40.0])"
        limits = arguments.array("sensitivity", sensitivity, up=True, cure=cure)
        return cls(
            "box",
            limits,
            _counts("counts", counts, limits.size),
            None,
            _cap("l1", l1),
            _cap("l2", l2),
            None,
            arguments.labels(labels, limits.size),
            _neighbours(neighbours),
        )

    @classmethod
    def ball(
        cls, dimension: int, *, l1: float | None = None, l2: float | None = None, neighbours: str = "add_remove"
    ) -> Self:
        """The whole difference is bounded in one norm, in any direction.

        Args:
            dimension: The number of coordinates.
            l1: The bound on the sum of |d_i|; or
            l2: the bound on the root of the sum of d_i^2.
            neighbours: "add_remove", "replace" or "zero_out".

        >>> Sensitivity.ball(dimension=100, l2=1.0)
        Sensitivity.ball(dimension=100, l2=1.0)
        """
        size = integer("dimension", dimension, least=1, cure="pass the number of coordinates")
        norm, bound = _one_norm("ball", l1, l2)
        limits = _frozen(np.array([_bound(f"l{norm}", bound, cure="pass one number, the ball's radius")]))
        return cls(
            "ball", limits, _counts("dimension", [size], 1), norm, None, None, None, None, _neighbours(neighbours)
        )

    @classmethod
    def groups(
        cls,
        sizes: object,
        *,
        l1: object = None,
        l2: object = None,
        total: float | None = None,
        labels: object = None,
        neighbours: str = "add_remove",
    ) -> Self:
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
        norm, bounds = _one_norm("groups", l1, l2)
        if sizes is None:
            raise ArgumentError("sizes must be given: pass the number of coordinates of each group.")
        groups = arguments.array("sizes", sizes, positive=True, cure="pass the number of coordinates of each group")
        limits = arguments.array(
            f"l{norm}", bounds, length=groups.size, up=True, cure="pass one bound per entry of sizes"
        )
        number = _counts("sizes", sizes, limits.size)
        names = arguments.labels(labels, limits.size)
        return cls("groups", limits, number, norm, None, None, _cap("total", total), names, _neighbours(neighbours))

    @classmethod
    def ellipsoid(
        cls, radii: object, *, counts: object = None, labels: object = None, neighbours: str = "add_remove"
    ) -> Self:
        """The difference lies in an axis-aligned ellipsoid: sum d_i^2 / radii_i^2 <= 1 (E4).

        Args:
            radii: One finite number >= 0 per coordinate; 0 means that the coordinate depends on nobody.
            counts: Run-length form: how many coordinates each entry stands for.
            labels: One name per entry.
            neighbours: "add_remove", "replace" or "zero_out".

        >>> Sensitivity.ellipsoid([1.0, 0.5, 0.5]).dimension
        3
        """
        limits = arguments.array("radii", radii, up=True, cure="pass one radius per coordinate")
        number = _counts("counts", counts, limits.size)
        names = arguments.labels(labels, limits.size)
        return cls("ellipsoid", limits, number, None, None, None, None, names, _neighbours(neighbours))

    @cached_property
    def dimension(self) -> int:
        """K, the number of coordinates."""
        return self.limits.size if self.counts is None else sum(self.counts.tolist())

    @cached_property
    def reach(self) -> Floats:
        """Per row, the largest change of one coordinate: the limits, tightened by the caps."""
        caps = [cap for cap in (self.l1, self.l2, self.total) if cap is not None]
        return _frozen(np.minimum(self.limits, min(caps))) if caps else self.limits

    @cached_property
    def has_still(self) -> bool:
        """Whether some coordinate depends on nobody (its sensitivity is 0)."""
        return not float(self.reach.min()) > 0

    @property
    def profile(self) -> Floats:
        """The paper's sensitivity profile: the largest change of each coordinate, an array of length K.

        >>> Sensitivity.box([1.0, 3.0, 40.0], l2=10.0).profile
        array([ 1.,  3., 10.])
        """
        return self.reach if self.counts is None else np.repeat(self.reach, self.counts)

    def effective_profile(self, mechanism: str, *, weights: object = None, order: float = 2) -> Floats:
        """The box that this set is worth: feeding it to the paper's formulas gives the least-error noise (E1).

        Args:
            mechanism: "gaussian" or "laplace" (under pure DP).
            weights: alpha, one per row or one per coordinate; all 1 when left out.
            order: p of the error, at least 1.

        Returns:
            An array of length K.

        >>> Sensitivity.groups(sizes=[4, 1], l2=[1.0, 1.0]).effective_profile("gaussian")
        array([0.5, 0.5, 0.5, 0.5, 1. ])
        """
        kind: Mechanism = "gaussian" if choice("mechanism", mechanism, get_args(Mechanism)) == "gaussian" else "laplace"
        alpha = self.read_weights(weights)
        cells = self.cells(self.limits.size if alpha is None else alpha.size)
        logs = log_profile(self, kind, 0.0 if alpha is None else log2(alpha), read_order(order), cells)
        values = np.exp2(logs)
        return values if cells.counts is None else np.repeat(values, cells.counts)

    def cells(self, number: int) -> Cells:
        """The cells of a vector with one entry per row or one per coordinate."""
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
        """Weights as given by a user: one positive number per row or per coordinate, or None."""
        if weights is None:
            return None
        self.check_names(name, weights)
        cure = "pass one positive number per coordinate (or per row of the run-length form)"
        return arguments.array(name, weights, positive=True, length=[self.limits.size, self.dimension], cure=cure)

    def to_dict(self) -> dict[str, Any]:
        """A JSON-safe dictionary from which `from_dict` makes the same set, bit for bit.

        >>> s = Sensitivity.ball(dimension=3, l1=0.1)
        >>> Sensitivity.from_dict(s.to_dict()) == s
        True
        """
        record: dict[str, Any] = {name: getattr(self, name) for name in _FIELDS}
        record["limits"] = self.limits.tolist()
        record["counts"] = None if self.counts is None else self.counts.tolist()
        record["labels"] = None if self.labels is None else list(self.labels)
        return record

    @classmethod
    def from_dict(cls, record: object) -> Self:
        """The set that `to_dict` described.

        Raises:
            RecordError: The record does not parse.
        """
        if not isinstance(record, Mapping) or set(record) != set(_FIELDS):
            raise RecordError(f"a sensitivity's record must be a dictionary with exactly {', '.join(_FIELDS)}.")
        try:
            made = cls._from_fields(record)
        except ArgumentError as error:
            raise RecordError(f"the sensitivity's record does not parse: {error}") from None
        if made.to_dict() != dict(record):  # a cap on a kind that has none, say: not what anybody meant
            raise RecordError("the sensitivity's record contradicts itself: store sets by to_dict.")
        return made

    @classmethod
    def _from_fields(cls, record: Mapping[str, Any]) -> Self:
        kind, norm = record["kind"], record["norm"]
        named = {"neighbours": record["neighbours"], "labels": record["labels"]}
        if kind == "box":
            return cls.box(record["limits"], counts=record["counts"], l1=record["l1"], l2=record["l2"], **named)
        if kind == "ellipsoid":
            return cls.ellipsoid(record["limits"], counts=record["counts"], **named)
        if kind == "groups" and norm in (1, 2):
            return cls.groups(record["counts"], total=record["total"], **{f"l{norm}": record["limits"]}, **named)
        if kind == "ball" and norm in (1, 2):
            cure = "a ball's record holds one of each"
            (size,) = arguments.array("counts", record["counts"], length=1, cure=cure).tolist()
            (bound,) = arguments.array("limits", record["limits"], length=1, cure=cure).tolist()
            return cls.ball(size, **{f"l{norm}": bound}, neighbours=record["neighbours"])
        raise RecordError(f"unknown kind of sensitivity {shown(kind)} with norm {shown(norm)}.")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sensitivity):
            return NotImplemented
        same = all(getattr(self, n) == getattr(other, n) for n in _FIELDS if n not in ("limits", "counts"))
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
        words = f"l{self.norm} " if self.norm is not None else ""
        rows = f" in {self.limits.size} groups" if self.kind == "groups" else ""
        span = f"{low:g}" if low == high else f"{low:g} to {high:g}"
        caps = "".join(
            f", {n} at most {getattr(self, n):g}" for n in ("l1", "l2", "total") if getattr(self, n) is not None
        )
        name = {"box": "limits", "ball": "radius", "groups": "norms", "ellipsoid": "radii"}[self.kind]
        what = f"{words}{self.kind} of {self.dimension} coordinates{rows}"
        return f"{what}, {name} {span}{caps}, neighbours: {self.neighbours}"

    def __repr__(self) -> str:
        limits, counts = _listed(self.limits), None if self.counts is None else _listed(self.counts)
        caps = "".join(f", {n}={getattr(self, n)!r}" for n in ("l1", "l2", "total") if getattr(self, n) is not None)
        if self.neighbours != "add_remove":
            caps += f", neighbours={self.neighbours!r}"
        if self.kind == "ball":
            return f"Sensitivity.ball(dimension={self.dimension}, l{self.norm}={float(self.limits[0])!r}{caps})"
        if self.kind == "groups":
            return f"Sensitivity.groups(sizes={counts}, l{self.norm}={limits}{caps})"
        return f"Sensitivity.{self.kind}({limits}{'' if counts is None else f', counts={counts}'}{caps})"


def _counts(name: str, value: object, size: int) -> Counts | None:
    """Whole numbers >= 1, one per row."""
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
    return _frozen(whole)


def _cap(name: str, value: object) -> float | None:
    return None if value is None else _bound(name, value, cure="pass one finite bound, or leave it out")


def _bound(name: str, value: object, cure: str) -> float:
    """A number >= 0, rounded up where no float holds it exactly."""
    real(name, value, least=0, cure=cure)
    return float(arguments.array(name, [value], up=True, cure=cure)[0])


def _neighbours(value: object) -> Neighbours:
    return choice("neighbours", value, get_args(Neighbours))  # type: ignore[return-value]


def read_order(value: object) -> float:
    """P of the error, at least 1."""
    cure = "pass the power p of the error, for example order=2"
    order = real("order", value, least=1, cure=cure)
    if not order <= _LARGEST_ORDER:
        raise ArgumentError(f"order must be at most {_LARGEST_ORDER:g}, got {shown(value)}: {cure}.")
    return order


def _one_norm(what: str, l1: object, l2: object) -> tuple[int, object]:
    if (l1 is None) == (l2 is None):
        given = "neither" if l1 is None else "both"
        raise ArgumentError(f"{what} needs exactly one of l1 and l2, got {given}: say which norm is bounded.")
    return (1, l1) if l2 is None else (2, l2)


def _frozen(values: NDArray[Any]) -> NDArray[Any]:
    values.flags.writeable = False
    return values


def _listed(values: NDArray[Any]) -> str:
    words = [repr(v) for v in values[:8].tolist()]
    return f"[{', '.join(words)}{', ...' if values.size > 8 else ''}]"
