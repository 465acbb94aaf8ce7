"""Many overlapping tables at once, with the least noise that any Gaussian mechanism can have (M1 to M8).

Independent noise on the cells of overlapping tables is not optimal; independent, non-identical noise in a basis of
*residuals* is, among all Gaussian mechanisms. Every table is a sum of blocks, one for each subset of its attributes;
overlapping tables share blocks, so their answers agree with each other by construction.
"""

from inid.tables.questions.marginals.basis import (
    analyse,
    contrast_matrix,
    contrasts,
    square_norms,
    square_places,
    synthesise,
)
from inid.tables.questions.marginals.consistency import Consistency, integer_tables, onto_simplex, rounded, tidied
from inid.tables.questions.marginals.kind import Marginals
from inid.tables.questions.marginals.measurements import Answers, LeastSquares, answers_of, precisions
from inid.tables.questions.marginals.sensitivity import order_of, residuals
from inid.tables.questions.marginals.table_answers import Noisy, TableAnswers, fieller, one_cell, ratio_width
from inid.tables.questions.marginals.table_statistics import TableStatistic
from inid.tables.questions.marginals.workload import (
    Contribution,
    least_maximum,
    least_sum,
    of_missing,
    of_number,
    workload_of,
)
