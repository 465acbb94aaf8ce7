"""What each noisy cell counts in an estimate: the law of noise on the tables after least squares (M10)."""

import math
from collections.abc import Mapping

import numpy as np

from inid.tables.questions.marginals.basis import Floats, analyse, synthesise
from inid.tables.questions.marginals.least_squares import precisions
from inid.tables.questions.marginals.workload import Workload

__all__ = ["coefficients"]


def coefficients(workload: Workload, tau: Floats, wanted: Mapping[tuple[int, ...], Floats]) -> list[Floats]:
    """What each noisy cell of each asked table counts in the least-squares estimate of a linear combination.

    Statement: with G_B the residual of the combination's coefficients in block B, cell y of table A counts
    sum_B s_B (C^T diag(1/q) G_B)_y / prod_{A minus B} n_i / tau_A^2. Why: the estimate is T P^-1 L^T D^-1 y, with
    P = L^T D^-1 L = diag(1 / s_B).

    Args:
        workload: What was asked.
        tau: The standard deviation of the noise in the cells of each table.
        wanted: The combination: for each table (its channel, then its attributes, ascending), what its cells count.
    """
    exact = precisions(workload, tau)
    blocks = {(at, *workload.attributes(block)): block for block, at in enumerate(workload.blocks[:, 0].tolist())}
    gathered: dict[int, Floats] = {}
    for (channel, *attributes), counts in wanted.items():
        for (own, *inside), block in blocks.items():
            if own == channel and set(inside) <= set(attributes):
                others = tuple(at for at, i in enumerate(attributes) if i not in inside)
                spread = math.prod(workload.sizes[attributes[at]] for at in others)
                part = analyse(counts.sum(axis=others)) / spread
                gathered[block] = gathered[block] + part if block in gathered else part
    found = [np.zeros(tuple(workload.sizes[i] for i in table if i >= 0)) for table in workload.tables[:, 1:].tolist()]
    for table, block in zip(workload.table_of.tolist(), workload.block_of.tolist(), strict=True):
        if block in gathered:
            whole = [int(i) for i in workload.tables[table, 1:] if i >= 0]
            axes = tuple(whole.index(i) for i in workload.attributes(block))
            part = synthesise(gathered[block], found[table].shape, axes)
            found[table] += part / (exact[block] * tau[table] ** 2)
    return found
