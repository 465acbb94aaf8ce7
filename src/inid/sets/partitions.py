"""Partitions: what one row moves lies in one cell of each, and there it is a box. Counts and sums by group are one.

A difference is the sum of at most m moves in each partition. A move changes the numbers of a single cell, each by at
most its own sensitivity. Partitions are independent of each other: a row may lie in any cell of each.

Groups in l1 norms (m times the sensitivity for each number, over all cells) hold all of these differences, and for
Gaussian and Laplace noise that is alike in all cells they are no larger: their worst differences have all moves in one
cell. Noise that is drawn jointly needs the partition itself, since groups would also let a person move one number in
one cell and another number in another.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from inid import arguments
from inid.arguments import Floats, integer, shown
from inid.errors import ArgumentError, RangeError
from inid.numbers.sums import float_up
from inid.sets.base import StepBoxes, listed, read_counts, read_neighbours
from inid.sets.groups import Groups

_MOST_CELLS = 2**40


@dataclass(frozen=True, eq=False, repr=False)
class Partitions(Groups):
    """`boxes` has the number of entries of each partition, `moves` how many cells of each a person changes at most."""

    boxes: tuple[int, ...] = ()
    moves: tuple[int, ...] = ()

    kind: ClassVar[str] = "partitions"
    limits_name: ClassVar[str] = "limits of a move"
    fields: ClassVar[tuple[str, ...]] = (*Groups.fields, "boxes", "moves")

    @classmethod
    def read_boxes(cls, boxes: object, cells: object, *, moves: object, labels: object, neighbours: object) -> Self:
        """The partitions of a user's arguments: see `Sensitivity.partitions`."""
        cure = "pass one list of bounds per partition"
        if not isinstance(boxes, (list, tuple)) or not boxes:
            raise ArgumentError(f"boxes must be a list of boxes, got {shown(boxes)}: {cure}.")
        parts = [arguments.array(f"boxes[{at}]", box, up=True, cure=cure) for at, box in enumerate(boxes)]
        numbers = _read_each("cells", cells, len(parts))
        many = _read_each("moves", moves, len(parts))
        sizes = [part.size for part in parts]
        limits = np.concatenate(parts)
        counts = read_counts("cells", np.repeat(numbers, sizes), limits.size)
        names = arguments.labels(labels, limits.size)
        fixed = (limits, counts, None, None, None, None, names, read_neighbours(neighbours))
        partitions = cls(*fixed, tuple(sizes), tuple(many))
        if not float(partitions.reach.max()) < float("inf"):
            raise RangeError("a sensitivity times its moves is no float: use another unit.")
        return partitions

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Self:
        """The partitions of a record's fields."""
        sizes, counts, limits = record["boxes"], record["counts"], record["limits"]
        lists = all(isinstance(one, list) for one in (sizes, counts, limits))
        valid = lists and sizes and all(type(size) is int and size >= 1 for size in sizes)
        if not (valid and sum(sizes) == len(limits) == len(counts)):
            raise ArgumentError("partitions have one entry of limits and counts for each number of their boxes")
        starts = np.cumsum([0, *sizes[:-1]]).tolist()
        boxes = [limits[start : start + size] for start, size in zip(starts, sizes, strict=True)]
        names = ("moves", "labels", "neighbours")
        return cls.read_boxes(boxes, [counts[at] for at in starts], **{name: record[name] for name in names})

    @property
    def _norm(self) -> int:
        return 1

    @cached_property
    def reach(self) -> Floats:
        """The largest change of one number: all moves of a person in one cell, rounded up."""
        return arguments.frozen(
            np.array(
                [
                    float_up(Fraction(limit) * many)
                    for limit, many in zip(
                        self.limits.tolist(), np.repeat(self.moves, self.boxes).tolist(), strict=True
                    )
                ]
            )
        )

    def step_boxes(self, most: int) -> StepBoxes | None:
        """One box for each partition, repeated in its cells."""
        if self.limits.size > most:
            return None
        of = np.repeat(np.arange(len(self.boxes)), self.boxes)
        assert self.counts is not None  # noqa: S101 - always given
        return StepBoxes(self.limits, self.counts, np.array(self.moves)[of], of)

    def read_weights(self, weights: object, name: str = "weights") -> Floats | None:
        """One positive number per entry: cells are alike."""
        if weights is None:
            return None
        self.check_names(name, weights)
        cure = "pass one positive number per entry of the boxes, for all cells alike"
        return arguments.array(name, weights, positive=True, length=self.limits.size, cure=cure)

    def _words(self) -> str:
        number = len(self.boxes)
        return f"{number} partition{'s' if number > 1 else ''} of {self.dimension} coordinates in all"

    def _arguments(self) -> str:
        starts = np.cumsum([0, *self.boxes[:-1]])
        boxes = ", ".join(listed(part) for part in np.split(self.limits, starts[1:]))
        assert self.counts is not None  # noqa: S101 - always given
        return f"[{boxes}], cells={listed(self.counts[starts])}, moves={list(self.moves)}"


def _read_each(name: str, value: ArrayLike | object, size: int) -> list[int]:
    """One whole number of at least 1 for each partition, or one for all."""
    cure = "pass a whole number of at least 1, or one for each partition"
    values = list(value) if isinstance(value, (list, tuple, np.ndarray)) else [value] * size
    if len(values) != size:
        raise ArgumentError(f"{name} must have one entry for each of {size} partitions, got {len(values)}: {cure}.")
    numbers = [integer(f"{name}[{at}]", one, least=1, cure=cure) for at, one in enumerate(values)]
    if max(numbers) > _MOST_CELLS:
        raise ArgumentError(f"{name} must be at most {_MOST_CELLS}: {cure}.")
    return numbers
