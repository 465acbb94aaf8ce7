"""Least squares over tables with noise of their own: one estimate of every residual, so that all tables agree (M10).

For noise on the tables themselves (Laplace noise, under pure DP or where few tables are asked) the residuals of block B
can be read off every asked table A that contains B, with variance tau_A^2 prod_{A minus B} n_i in units of q.

Statement (M10): their mean weighted by the inverse variances is the least-squares estimate, block by block. Why: the
residuals of different blocks of one table are uncorrelated and have one variance each. They are not independent unless
the noise is Gaussian.
"""

from collections.abc import Mapping

import numpy as np

from inid.tables.questions.marginals.basis import Floats, contrasted
from inid.tables.questions.marginals.workload import Workload

__all__ = ["LeastSquares", "block_weights", "precisions"]

_Places = tuple[
    slice | int, ...
]  # where a block stands in a table: its residuals along its own axes, sums along others


def precisions(workload: Workload, tau: Floats) -> Floats:
    """1 / s_B of the least-squares estimate of each block, for noise of standard deviation tau_A in table A.

    >>> from inid.tables.questions.marginals.workload import workload_of
    >>> precisions(workload_of([2, 3], [(0,), (0, 1)]), np.array([1.0, 1.0])).round(4).tolist()
    [0.6667, 1.3333, 0.5, 1.0]
    """
    parts = 1 / (np.square(tau)[workload.table_of] * workload.outside)
    return np.asarray(np.bincount(workload.block_of, parts, minlength=len(workload.blocks)), dtype=np.float64)


def block_weights(workload: Workload, tau: Floats) -> Floats:
    """Of each pair (table, block inside it), what the table counts in the estimate of the block; they add up to 1."""
    weights = 1 / (np.square(tau)[workload.table_of] * workload.outside)
    return np.asarray(weights / precisions(workload, tau)[workload.block_of])


class LeastSquares:
    """The estimates that noisy tables give together.

    Args:
        workload: What was asked.
        tau: The standard deviation of the noise in the cells of each table.
    """

    def __init__(self, workload: Workload, tau: Floats) -> None:
        columns = (workload.table_of.tolist(), workload.block_of.tolist(), block_weights(workload, tau).tolist())
        self._inside: dict[int, list[tuple[int, _Places, float]]] = {}
        for table, block, weight in zip(*columns, strict=True):
            own = set(workload.attributes(block))
            places = tuple(slice(1, None) if i in own else 0 for i in workload.tables[table, 1:].tolist() if i >= 0)
            self._inside.setdefault(table, []).append((block, places, weight))

    def blocks(self, tables: Mapping[int, Floats]) -> dict[int, Floats]:
        """The estimate of the residuals of every block.

        Args:
            tables: The noisy tables by their number in the workload, axes in the order of their attributes.
        """
        found: dict[int, Floats] = {}
        for table, inside in self._inside.items():
            whole = _along_all_axes(tables[table])
            for block, places, weight in inside:
                part = whole[places] * weight
                found[block] = found[block] + part if block in found else part
        return found


def _along_all_axes(table: Floats) -> Floats:
    """From cells to sums and residuals along every axis: blocks are parts of the result."""
    for axis in range(table.ndim):
        table = np.concatenate([table.sum(axis=axis, keepdims=True), contrasted(table, axis)], axis=axis)
    return table
