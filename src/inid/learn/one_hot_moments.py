"""Moments of columns of which some are one-hot: which of them are released, and how far one row moves them.

Let z have at most one 1 among the columns of a group, and 0 in the others (`encoded_bounds`; such columns are not
centred). Then

* the products of two columns of one group are 0, so they are no part of the release;
* z_i^2 is z_i, so where the sums of the columns are released, their squares are not;
* the products of a group with another column, another group or the constant are a *block*: a row adds to one of its
  entries, by at most the size of the other factor, however many categories there are.

A column that is in no group is a block of its own with every other, so without groups blocks are single entries.
"""

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from inid.arguments import Floats
from inid.learn.encoded_bounds import Groups, no_group
from inid.sets import Neighbours, Sensitivity

__all__ = ["MomentLayout", "block_sets", "moment_layout"]

_UP = 1 + 2.0**-48  # more than the rounding of the few operations that make a radius


@dataclass(frozen=True)
class MomentLayout:
    """Which moments are released, block after block.

    All of them are the upper triangle of products, row by row, then the sums, with `mean`, then the number of rows,
    with `count`: the products of z, and of the constant 1, which is the column after the last.

    Attributes:
        width: The number of columns.
        groups: The one-hot groups.
        mean: Whether the sums are released.
        count: Whether the number of rows, or the sum of weights, is.

    >>> layout = MomentLayout(3, ((1, 3),), mean=True, count=False)
    >>> [*zip(layout.i.tolist(), layout.j.tolist())], layout.sizes.tolist()
    ([(0, 0), (0, 1), (0, 2), (0, 3), (1, 3), (2, 3)], [1, 2, 1, 2])
    >>> layout.whole(np.array([9.0, 5.0, 6.0, 7.0, 3.0, 4.0])).tolist()
    [9.0, 5.0, 6.0, 3.0, 0.0, 4.0, 7.0, 3.0, 4.0]
    """

    width: int
    groups: Groups
    mean: bool
    count: bool

    @cached_property
    def unit(self) -> NDArray[np.intp]:
        """The number of what each column is part of, a group or itself alone; of the constant too."""
        first = np.ones(self.width + 1, bool)
        for start, end in self.groups:
            first[start + 1 : end] = False
        return np.asarray(np.cumsum(first) - 1, dtype=np.intp)

    @cached_property
    def one_hot(self) -> NDArray[np.bool_]:
        """Whether each column is one of a group; the constant is not."""
        return np.append(~no_group(self.width, self.groups), False)

    @cached_property
    def _all(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        i, j = np.triu_indices(self.width)
        if self.mean:
            i, j = np.append(i, np.arange(self.width)), np.append(j, np.full(self.width, self.width))
        return (np.append(i, self.width), np.append(j, self.width)) if self.count else (i, j)

    @cached_property
    def picked(self) -> NDArray[np.intp]:
        """The places of what is released among all of them, in the order of the release."""
        i, j = self._all
        if not self.groups:
            return np.arange(i.size)
        square = self.one_hot[i] & (i == j)
        kept = np.flatnonzero(((self.unit[i] != self.unit[j]) | (i == j)) & ~(square & self.mean))
        i, j = i[kept], j[kept]
        return np.asarray(kept[np.lexsort((j, i, self.unit[j], self.unit[i], j == self.width))])

    @cached_property
    def i(self) -> NDArray[np.intp]:
        """The first factor of each moment that is released."""
        return self._all[0][self.picked]

    @cached_property
    def j(self) -> NDArray[np.intp]:
        """The second factor."""
        return self._all[1][self.picked]

    @cached_property
    def starts(self) -> NDArray[np.intp]:
        """Where each block begins."""
        same = np.diff(self.unit[self.i]) | np.diff(self.unit[self.j])
        return np.append(0, np.flatnonzero(same) + 1) if self.groups else np.arange(self.i.size)

    @cached_property
    def sizes(self) -> NDArray[np.intp]:
        """How many entries each block has."""
        return np.diff(np.append(self.starts, self.i.size))

    def whole(self, released: Floats) -> Floats:
        """All moments, from those that are released."""
        if not self.groups:
            return released
        i, j = self._all
        found = np.zeros(i.size)
        found[self.picked] = released
        if self.mean:
            found[(i == j) & self.one_hot[i]] = found[(j == self.width) & self.one_hot[i]]
        return found


@lru_cache(maxsize=8)
def moment_layout(width: int, groups: Groups, *, mean: bool, count: bool) -> MomentLayout:
    """The layout of these moments, which a fit asks for several times."""
    return MomentLayout(width, groups, mean, count)


def block_sets(
    layout: MomentLayout, low: Floats, high: Floats, widest: Floats, neighbours: Neighbours
) -> list[Sensitivity]:
    """Sets that hold every change of the blocks when one row changes; all other moments are blocks of one entry.

    Statement. Let the other factor q of a block (1, if it is a group as well) lie in [low, high], |q| <= B.

    * zero_out and add_remove: one entry changes, by at most B: norm B, in l1 as in l2.
    * replace: two entries change by q and q', or one by q - q' or by q alone: 2 B in l1 norm, and in l2 norm the larger
      of sqrt(2) B and high - low.

    Args:
        layout: The moments.
        low: The least value of each column, the constant's last.
        high: The greatest.
        widest: How far one row moves each moment by itself.
        neighbours: The relation.
    """
    i, j = layout.i[layout.starts], layout.j[layout.starts]
    hot, alone = layout.one_hot[i] | layout.one_hot[j], widest[layout.starts]
    if neighbours != "replace":  # of a block, what one row moves is one entry
        return [Sensitivity.groups(sizes=layout.sizes, l1=alone, neighbours=neighbours)]
    other = np.where(layout.one_hot[i], j, i)
    size = np.maximum(np.abs(low), np.abs(high))[other]
    apart = np.maximum(math.sqrt(2) * size, (high - low)[other]) * _UP
    return [
        Sensitivity.groups(sizes=layout.sizes, l1=np.where(hot, 2 * size, alone), neighbours=neighbours),
        Sensitivity.groups(sizes=layout.sizes, l2=np.where(hot, apart, alone), neighbours=neighbours),
    ]
