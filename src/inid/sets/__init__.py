"""How far one person can move the answer: a `Sensitivity` is the set of differences between neighbouring datasets.

`base` says what a plan asks of a set, and each kind of set is one file that answers. Sets are kept in run-length form:
a network of 10^9 parameters in 10^3 layers is a set of 10^3 runs.
"""

from inid.sets.base import Allocation, Cells, Neighbours, Sensitivity, StepBoxes, read_order
from inid.sets.disparity import disparity, gini, majorizes, mse_reduction
from inid.sets.envelopes import Ratios
from inid.sets.groups import group_scales
from inid.sets.moments import replaced_products

__all__ = [
    "Allocation",
    "Cells",
    "Neighbours",
    "Ratios",
    "Sensitivity",
    "StepBoxes",
    "disparity",
    "gini",
    "majorizes",
    "mse_reduction",
    "read_order",
]
