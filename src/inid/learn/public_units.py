"""Columns in public units: x = centre + unit z, where the bounds make z a number between -1 and 1.

Noise, clipping and steps are planned for z, so the units in which a user keeps a column cost no accuracy. Each z is
mapped to a whole number of a public power of two (`inid.fixed_point`), so that sums are exact.

The number of rows is public or secret. Where it is secret ("add_remove"), the grid is made for `MOST_ROWS` rows. Beyond
them nothing is refused, since that would tell the number: sums are then held to what a float holds exactly, which moves
no two of them further apart.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from inid.arguments import Floats
from inid.fixed_point import Columns, fixed_columns, product_bits

__all__ = ["MOST_ROWS", "Units", "exact_floats"]

MOST_ROWS = 2**27  # a secret number of rows beyond this loses accuracy, not privacy
_EXACT = 2**53  # float64 holds every whole number up to here


@dataclass(frozen=True)
class Units:
    """The units of some columns.

    Attributes:
        centre: What is subtracted.
        unit: What the rest is divided by.
        grid: How z is mapped to whole numbers; its bounds are those of z, exactly.
    """

    centre: Floats
    unit: Floats
    grid: Columns

    @classmethod
    def of(
        cls,
        lower: Floats,
        upper: Floats,
        rows: int | None,
        *,
        centre: bool | NDArray[np.bool_],
        scale: bool,
        bits: int | None = None,
    ) -> Self:
        """The units for public bounds.

        Args:
            lower: The lower bounds.
            upper: The upper bounds.
            rows: The number of rows, None if it is secret.
            centre: Whether to subtract the middle of the bounds; or of which columns (one-hot ones are not centred).
            scale: Whether to divide by the largest size that is left.
            bits: Bits of z; as many as keep sums of products exact, by default.

        >>> units = Units.of(np.array([0.0]), np.array([4.0]), 10, centre=True, scale=True)
        >>> units.centre.tolist(), units.unit.tolist(), units.grid.size.tolist()
        ([2.0], [2.0], [1.0])
        """
        # The largest z is exactly 1, a power of two, for which the grid of the next more bits still has room.
        bits = product_bits(MOST_ROWS if rows is None else rows) + scale if bits is None else bits
        if not scale:
            grid = fixed_columns(lower, upper, bits, centre=centre)
            return cls(grid.centre, np.ones_like(lower), grid)
        middle = np.where(centre, lower / 2 + upper / 2, 0.0)
        low, high = lower - middle, upper - middle
        unit = np.maximum(np.abs(low), np.abs(high))
        return cls(middle, unit, fixed_columns(low / unit, high / unit, bits, centre=False))

    @property
    def size(self) -> Floats:
        """The largest size of each column of z, exactly."""
        return self.grid.size

    @property
    def mapping(self) -> Columns:
        """From the user's values to the whole numbers of the grid."""
        return Columns(self.centre, self.unit * self.grid.step, self.grid.least, self.grid.most)

    def chunks(self, X: Floats) -> Iterator[Floats]:
        """The whole numbers of a few rows at a time."""
        return self.mapping.chunks(X)


def exact_floats(sums: NDArray[np.int64]) -> Floats:
    """Whole numbers as floats, held to 2^53 in size: exact, and no two end further apart than they were."""
    return np.clip(sums, -_EXACT, _EXACT).astype(np.float64)
