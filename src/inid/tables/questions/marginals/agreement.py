"""The nearest tables that agree with each other: least squares over noisy tables, without a basis.

Statement. Let m_B(A) be the sums of table A over its attributes outside B, and r_B(A) the same with the mean taken off
along every axis. The least-squares tables (M10) are

    A + sum over the blocks B of A of (R_B - r_B(A)) / prod_{A minus B} n_i,

R_B the mean of r_B over the tables that contain B, weighted by 1 / (tau_A^2 prod_{A minus B} n_i).

Why: C^T diag(1/q) C takes the mean off (M1), so that r_B(A) is what the residuals of block B of table A add to its sums
over B, spread evenly along the other axes; A is the sum of these parts, and least squares replaces the residuals of
each block by their weighted mean.

A block that a single table contains is its own mean and adds nothing. Such is the largest block of every table that is
inside no other one, so that all the work beyond sums is on the overlaps.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from inid.tables.questions.marginals.basis import Floats
from inid.tables.questions.marginals.least_squares import block_weights
from inid.tables.questions.marginals.workload import Places, Workload

__all__ = ["Agreement"]


class _Inside(NamedTuple):
    """Sums of an overlap that are sums of another one, with one attribute more.

    Attributes:
        wider: The block of the other one.
        theirs: The places of the tables there.
        own: Their places here.
        axis: The axis of the attribute there; the first axis is the tables.
    """

    wider: int
    theirs: Places
    own: Places
    axis: int


class _OfTable(NamedTuple):
    """Sums of an overlap that are taken from a table itself.

    Attributes:
        own: The place of the table here.
        table: Its number.
        axes: The axes that are summed over, the last ones first.
        shape: The shape of the sums in the table: 1 along these axes.
        cells: How many cells are summed.
    """

    own: int
    table: int
    axes: tuple[int, ...]
    shape: tuple[int, ...]
    cells: int


@dataclass(frozen=True, eq=False)
class _Overlap:
    """A block of several tables: the sizes of its attributes, the weights of the tables, and where sums come from."""

    sizes: tuple[int, ...]
    weights: Floats
    inside: tuple[_Inside, ...]
    of_tables: tuple[_OfTable, ...]


class Agreement:
    """The projection of tables onto those that agree.

    Args:
        workload: What was asked.
        tau: The standard deviation of the noise in the cells of each table.
    """

    def __init__(self, workload: Workload, tau: Floats) -> None:
        self._workload = workload
        self._axes = [tuple(i for i in table if i >= 0) for table in workload.tables[:, 1:].tolist()]
        holders: dict[int, dict[int, float]] = {}
        columns = (workload.table_of.tolist(), workload.block_of.tolist(), block_weights(workload, tau).tolist())
        for table, block, weight in zip(*columns, strict=True):
            holders.setdefault(block, {})[table] = weight
        self._places = {
            block: {table: at for at, table in enumerate(own)} for block, own in holders.items() if len(own) > 1
        }
        # Wide ones first: the sums of narrow ones are sums of theirs.
        self._overlaps = {
            block: self._overlap(block, list(holders[block].values()))
            for block in sorted(self._places, key=lambda block: -len(workload.attributes(block)))
        }

    def _overlap(self, block: int, weights: Sequence[float]) -> _Overlap:
        work = self._workload
        channel, attributes = int(work.blocks[block, 0]), work.attributes(block)
        found: dict[tuple[int, int], list[tuple[int, int]]] = {}
        alone = []
        for table, own in self._places[block].items():
            for i in self._axes[table]:
                wide = tuple(sorted({*attributes, i}))
                wider = work.block_numbers[channel, *wide]
                if wider != block and wider in self._places:
                    found.setdefault((wider, wide.index(i) + 1), []).append((self._places[wider][table], own))
                    break
            else:
                sizes = {at: work.sizes[i] for at, i in enumerate(self._axes[table]) if i not in attributes}
                shape = tuple(1 if at in sizes else work.sizes[i] for at, i in enumerate(self._axes[table]))
                alone.append(_OfTable(own, table, tuple(sorted(sizes, reverse=True)), shape, math.prod(sizes.values())))
        inside = [
            _Inside(wider, np.array([their for their, _ in places]), np.array([own for _, own in places]), axis)
            for (wider, axis), places in found.items()
        ]
        own_sizes = tuple(work.sizes[i] for i in attributes)
        return _Overlap(own_sizes, np.array(weights), tuple(inside), tuple(alone))

    def settle(self, tables: Sequence[Floats]) -> None:
        """Replace tables, in the order of the workload and with ascending attributes, by the nearest that agree.

        >>> from inid.tables.questions.marginals.workload import workload_of
        >>> one, two = np.array([1.0, 2.0]), np.array([[2.0, 2.0], [2.0, 3.0]])
        >>> Agreement(workload_of([2, 2], [(0,), (0, 1)]), np.ones(2)).settle([one, two])
        >>> one.round(3).tolist(), two.round(3).tolist()
        ([2.0, 3.0], [[1.0, 1.0], [1.0, 2.0]])
        """
        sums: dict[int, Floats] = {}
        for block, overlap in self._overlaps.items():
            stack = np.empty((overlap.weights.size, *overlap.sizes))
            for wider, theirs, own, axis in overlap.inside:
                stack[own] = _sum_along(sums[wider][theirs], axis)
            for place, table, axes, _, _ in overlap.of_tables:
                part = tables[table]
                for axis in axes:
                    part = _sum_along(part, axis)
                stack[place] = part
            sums[block] = stack
        # What is added to the sums of each overlap: of narrow ones it is spread over a wider one, then over a table.
        added = {block: _apart(self._overlaps[block].weights, stack) for block, stack in sums.items()}
        for block, overlap in reversed(self._overlaps.items()):
            for wider, theirs, own, axis in overlap.inside:
                spread = np.expand_dims(added[block][own], axis)
                added[wider][theirs] += spread / self._overlaps[wider].sizes[axis - 1]
            for place, table, _, shape, cells in overlap.of_tables:
                into = tables[table]
                np.add(into, (added[block][place] / cells).reshape(shape), out=into)


def _apart(weights: Floats, stack: Floats) -> Floats:
    """R_B - r_B(A) of every table A, from their sums over B."""
    found = np.asarray(np.tensordot(weights, stack, axes=1) - stack)
    for axis in range(1, found.ndim):
        found -= np.expand_dims(_sum_along(found, axis) / found.shape[axis], axis)
    return found


def _sum_along(table: Floats, axis: int) -> Floats:
    """The sums along an axis, as a product with ones: several times faster than adding up."""
    shape, size = table.shape, table.shape[axis]
    before, after = shape[:axis], shape[axis + 1 :]
    if not after:
        return np.asarray(np.dot(table.reshape(-1, size), _ones(size)).reshape(before))
    return np.asarray(np.matmul(_ones(size), table.reshape(-1, size, math.prod(after))).reshape(before + after))


@lru_cache(maxsize=512)
def _ones(size: int) -> Floats:
    return np.ones(size)
