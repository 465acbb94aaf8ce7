"""The coordinates of a plan of residuals, from exact tables: what the library computes in another way."""

import numpy as np

from inid.tables.marginals.basis import analyse

__all__ = ["exact_residuals"]


def exact_residuals(residuals, tables, largest):
    """One number per coordinate.

    Args:
        residuals: Which blocks are released, in which order.
        tables: Tables by number, as arrays.
        largest: For each released block, the number of a table that contains it, and its axes there.
    """
    parts = []
    for block, order in zip(residuals.blocks.tolist(), residuals.orders, strict=True):
        number, *axes = largest[block]
        table = tables[number]
        others = tuple(axis for axis in range(table.ndim) if axis not in axes)
        parts.append(analyse(table.sum(axis=others)).reshape(-1)[order])
    return np.concatenate(parts)
