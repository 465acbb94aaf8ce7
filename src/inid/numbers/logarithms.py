"""Sums of powers of any size, kept as base-2 logarithms.

Sensitivities and weights may lie anywhere in the range of the floats; as logarithms their powers and products neither
overflow nor vanish. Zero is -inf.
"""

import math

import numpy as np

from inid.arguments import Floats
from inid.numbers.rational_sums import Counts

__all__ = ["group_sums", "log2", "log2_sum"]


def log2(values: Floats | float) -> Floats:
    """Base-2 logarithms, with -inf for zero and no warning."""
    with np.errstate(divide="ignore"):
        return np.asarray(np.log2(values), dtype=np.float64)


@np.errstate(under="ignore")
def log2_sum(logs: Floats, counts: Counts | None = None) -> float:
    """log2 of sum_i counts_i 2^logs_i without overflow; -inf for an empty sum.

    >>> log2_sum(np.array([2000.0, 2000.0]))
    2001.0
    """
    top = float(logs.max(initial=-math.inf))
    if top == -math.inf:
        return top
    terms = np.exp2(logs - top)
    return top + math.log2(float(terms.sum() if counts is None else terms @ counts))


def group_sums(logs: Floats, counts: Counts, groups: Counts, number: int) -> Floats:
    """log2 of the sums over each group, cells of one group being consecutive."""
    starts = np.searchsorted(groups, np.arange(number))
    tops = np.maximum.reduceat(logs, starts)
    return tops + np.log2(np.add.reduceat(np.exp2(logs - tops[groups]) * counts, starts))
