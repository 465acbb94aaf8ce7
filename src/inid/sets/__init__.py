"""How far one person can move the answer.

A `Sensitivity` is a set S of possible differences d = f(D) - f(D') between neighbouring datasets, plus the relation
that defines "neighbouring" (`sets`). It answers two questions: which shape of independent noise has the least error on
S (`profiles`, E1 to E4), and how much privacy given scales spend on S (`spending`). Both work on rows, not coordinates:
a network of 10^9 parameters in 10^3 layers is a set of 10^3 rows.
"""

from inid.sets.base import Neighbours, Sensitivity, read_order
from inid.sets.disparity import disparity, gini, majorizes, mse_reduction
from inid.sets.profiles import Allocation, Cells, is_solved, log_profile, shapes
from inid.sets.ratios import laplace_ratios
from inid.sets.spending import supremum

__all__ = [
    "Allocation",
    "Cells",
    "Neighbours",
    "Sensitivity",
    "disparity",
    "gini",
    "is_solved",
    "laplace_ratios",
    "log_profile",
    "majorizes",
    "mse_reduction",
    "read_order",
    "shapes",
    "supremum",
]
