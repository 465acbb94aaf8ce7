"""How far one person can move the answer.

A `Sensitivity` is a set S of possible differences d = f(D) - f(D') between neighbouring datasets, plus the relation
that defines "neighbouring". `base` says what a plan asks of a set; each kind of set is one file that answers: `box`
(with its `caps`), `groups` (a ball is one group), `ellipsoid`. `moments` makes the ellipsoid of second moments (E8),
`disparity` measures how unequal a set is. All work on rows, not coordinates: a network of 10^9 parameters in 10^3
layers is a set of 10^3 rows.
"""

from inid.sets.base import Allocation, Sensitivity
from inid.sets.disparity import disparity, gini, majorizes, mse_reduction
from inid.sets.envelopes import Ratios
from inid.sets.record import Cells, Neighbours, read_order

__all__ = [
    "Allocation",
    "Cells",
    "Neighbours",
    "Ratios",
    "Sensitivity",
    "disparity",
    "gini",
    "majorizes",
    "mse_reduction",
    "read_order",
]
