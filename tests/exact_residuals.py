"""The coordinates of a plan of residuals, from exact tables: what the library computes in another way."""

import numpy as np

from inid.tables.questions.marginals import analyse, square_norms, square_places

__all__ = ["exact_residuals"]


def exact_residuals(residuals, tables, largest):
    """One number per coordinate: by the sizes of the block, then by the squared length of the residual, then by block.

    Args:
        residuals: Which blocks are released.
        tables: Tables by number, as arrays.
        largest: For each released block, the number of a table that contains it, and its axes there.
    """
    work, found = residuals.workload, []
    for block in residuals.blocks.tolist():
        number, *axes = largest[block]
        table = tables[number]
        others = tuple(axis for axis in range(table.ndim) if axis not in axes)
        values = analyse(table.sum(axis=others)).reshape(-1)
        sizes = tuple(work.sizes[i] for i in work.attributes(block))
        channel = int(work.blocks[block, 0])
        squares, which = square_norms(sizes)[0], square_places(sizes)
        found += [
            ((len(sizes), channel, sizes, squares[which[at]], block, at), value) for at, value in enumerate(values)
        ]
    return np.array([value for _, value in sorted(found)])
