"""Least squares over tables with noise of their own: one estimate of every residual, so that all tables agree (M10).

For noise on the tables themselves (Laplace noise, under pure DP or where few tables are asked) the residuals of block B
can be read off every asked table A that contains B, with variance tau_A^2 prod_{A minus B} n_i in units of q.

Statement (M10): their mean weighted by the inverse variances is the least-squares estimate, block by block. Why: the
residuals of different blocks of one table are uncorrelated and have one variance each. They are not independent unless
the noise is Gaussian.
"""

from collections.abc import Mapping

import numpy as np

from inid.tables.marginals.basis import Floats, analyse, synthesise
from inid.tables.marginals.workload import Workload

__all__ = ["block_estimates", "consistent", "precisions"]


def precisions(workload: Workload, tau: Floats) -> Floats:
    """1 / s_B of the least-squares estimate of each block, for noise of standard deviation tau_A in table A.

    >>> from inid.tables.marginals.workload import workload_of
    >>> precisions(workload_of([2, 3], [(0,), (0, 1)]), np.array([1.0, 1.0])).round(4).tolist()
    [0.6667, 1.3333, 0.5, 1.0]
    """
    parts = 1 / (np.square(tau)[workload.table_of] * workload.outside)
    return np.asarray(np.bincount(workload.block_of, parts, minlength=len(workload.blocks)), dtype=np.float64)


def block_estimates(workload: Workload, tables: Mapping[int, Floats], tau: Floats) -> dict[int, Floats]:
    """The least-squares estimate of the residuals of every block.

    Args:
        workload: What was asked, all in one channel.
        tables: The noisy tables by their number in the workload, axes in the order of their attributes.
        tau: The standard deviation of the noise in the cells of each table.
    """
    sums: dict[int, Floats] = {}
    exact = precisions(workload, tau)
    for table, block, outside in _pairs(workload):
        values, axes = tables[table], _axes(workload, table, block)
        others = tuple(at for at in range(values.ndim) if at not in axes)
        part = analyse(values.sum(axis=others)) * (1 / (tau[table] ** 2 * outside * exact[block]))
        sums[block] = sums[block] + part if block in sums else part
    return sums


def consistent(workload: Workload, tables: Mapping[int, Floats], tau: Floats) -> dict[int, Floats]:
    """The asked tables after least squares: unbiased like the ones given, and in agreement with each other.

    The arguments are those of `block_estimates`.
    """
    blocks = block_estimates(workload, tables, tau)
    found = {number: np.zeros(values.shape) for number, values in tables.items()}
    for table, block, _ in _pairs(workload):
        found[table] += synthesise(blocks[block], found[table].shape, _axes(workload, table, block))
    return found


def _pairs(workload: Workload) -> list[tuple[int, int, float]]:
    """Each table, each block inside it, and the product of the sizes outside the block."""
    return list(zip(workload.table_of.tolist(), workload.block_of.tolist(), workload.outside.tolist(), strict=True))


def _axes(workload: Workload, table: int, block: int) -> tuple[int, ...]:
    whole = [int(i) for i in workload.tables[table, 1:] if i >= 0]
    return tuple(whole.index(i) for i in workload.attributes(block))
