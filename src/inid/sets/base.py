"""What every sensitivity set has: rows, labels, a record, and the questions that a plan asks of it.

A set S holds the possible differences d = f(D) - f(D') between neighbouring datasets. A plan asks it four things, all
for an exponent q (2 where sums of squares are spent, 1 where sums of absolute values are; see `inid.mechanisms`):

    log_profile   the effective profile: the box whose least-error noise is that of S (E1)
    shapes        the shape of the least-error noise
    supremum      what given scales spend: the supremum over S of sum (|d_i| / scale_i)^q, exactly or rounded up
    ratios        the worst neighbours for Laplace noise, as ratios whose privacy curve bounds all of S (E5)

Each kind of set is one file that answers them: `box`, `groups` (a ball is one group), `ellipsoid`.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike

from inid import arguments
from inid.arguments import Floats, shown
from inid.errors import ArgumentError, GuaranteeError, RecordError
from inid.mechanisms import Exponent, Mechanism, MechanismName
from inid.numbers.sums import log2
from inid.sets.envelopes import Ratios
from inid.sets.record import FIELDS, Cells, Neighbours, SetRecord, read_order

__all__ = ["Allocation", "Sensitivity"]

Allocation = Literal["optimal", "iid", "spr"]


@dataclass(frozen=True, eq=False, repr=False)
class Sensitivity(SetRecord, ABC):
    """A sensitivity set. Make one with `box`, `ball`, `groups` or `ellipsoid`.

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
        """Per row, the largest change of one coordinate: the limits, tightened by the caps.

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
            weights: alpha, one per row or one per coordinate; all 1 when left out.
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
            return [np.zeros(self.limits.size if cells.rows is None else cells.rows.size)]
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
            name = self.labels[int(cells.row_of(scales.size)[at])] if self.labels else f"entry {at}"
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
        """The cells of a vector with one entry per row or one per coordinate.

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
        """Weights as given by a user: one positive number per row or per coordinate, or None.

        :meta private:
        """
        if weights is None:
            return None
        self.check_names(name, weights)
        cure = "pass one positive number per coordinate (or per row of the run-length form)"
        return arguments.array(name, weights, positive=True, length=[self.limits.size, self.dimension], cure=cure)

    @staticmethod
    def from_dict(record: object) -> "Sensitivity":
        """The set that `to_dict` described.

        Raises:
            RecordError: The record does not parse.
        """
        names = ("kind", *FIELDS)
        if not isinstance(record, Mapping) or set(record) != set(names):
            raise RecordError(f"a sensitivity's record must be a dictionary with exactly {', '.join(names)}.")
        kinds = _kinds()
        if not (isinstance(record["kind"], str) and record["kind"] in kinds):
            raise RecordError(f"unknown kind of sensitivity {shown(record['kind'])}: known are {', '.join(kinds)}.")
        try:
            made = kinds[record["kind"]].from_record(record)
        except ArgumentError as error:
            raise RecordError(f"the sensitivity's record does not parse: {error}") from None
        if made.to_dict() != dict(record):  # a cap on a kind that has none, say: not what anybody meant
            raise RecordError("the sensitivity's record contradicts itself: store sets as they are written.")
        return made

    @classmethod
    @abstractmethod
    def from_record(cls, record: Mapping[str, Any]) -> Self:
        """The set of this kind with the fields of a record, read like a user's arguments.

        :meta private:
        """


def _kinds() -> dict[str, type[Sensitivity]]:
    from inid.sets import box, ellipsoid, groups

    return {kind.kind: kind for kind in (box.Box, groups.Ball, groups.Groups, ellipsoid.Ellipsoid)}
