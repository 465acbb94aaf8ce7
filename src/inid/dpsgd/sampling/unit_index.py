"""People with several examples: a person is drawn as a whole, with a public number of rows."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from inid.errors import ArgumentError
from inid.noise import current_source

_KINDS = "iuUS"  # whole numbers and texts, of which none is missing


@dataclass(frozen=True, eq=False, repr=False)
class UnitIndex:
    """Whose each example is, and how many rows each person has in a step.

    A step that draws a person takes `rows` of their examples: a secret random choice where there are more, and some of
    them again where there are fewer. The gradients of these rows are averaged and clipped once, as those of the views
    of one example. So one person adds at most a threshold to a sum, however many examples they have, and the proof in
    `poisson_draw` holds with a person in the place of an example.
    """

    members: tuple[NDArray[np.int64], ...]
    rows: int

    @classmethod
    def of(cls, unit: ArrayLike, rows: int, examples: int) -> "UnitIndex":
        """Group the examples of a dataset by whose they are."""
        owners = np.asarray(unit)
        if owners.ndim != 1 or len(owners) != examples:
            raise ArgumentError(
                f"unit must name whose each example is, got shape {owners.shape} for {examples} examples: pass one "
                "whole number or text for each."
            )
        if owners.dtype.kind not in _KINDS:
            raise ArgumentError(
                f"unit must hold whole numbers or texts, got {owners.dtype}: give every example a person, also those "
                "whose person is not known."
            )
        _, at, counts = np.unique(owners, return_inverse=True, return_counts=True)
        return cls(tuple(np.split(np.argsort(at, kind="stable"), np.cumsum(counts)[:-1])), rows)

    def chosen(self, units: NDArray[np.int64]) -> NDArray[np.int64]:
        """The examples that stand for each of these people: one line for each, one column for each row."""
        examples = np.empty((len(units), self.rows), dtype=np.int64)
        for line, unit in zip(examples, units, strict=True):
            members = self.members[unit]
            line[:] = np.resize(members[np.argsort(current_source().words(len(members)))], self.rows)
        return examples
