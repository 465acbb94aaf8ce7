"""What can be asked of a table, one file or folder for each kind of question; this file registers them.

statistics  counts, sums, means, variances, covariances and histograms
marginals   many overlapping tables that agree with each other
ordered     distribution functions, quantiles and running totals
discovery   the keys of a column that nobody listed
choice      which of some groups is the largest
synthetic   rows like those of the table
"""

from inid.tables.question import register
from inid.tables.questions.choice import ChoiceQuestion
from inid.tables.questions.discovery.kind import Discovery
from inid.tables.questions.marginals.kind import Marginals
from inid.tables.questions.ordered.kind import OrderedColumns
from inid.tables.questions.statistics.kind import Statistics
from inid.tables.questions.synthetic.kind import SyntheticRows

register(Statistics)  # claims whatever the kinds after it do not
register(Marginals)
register(OrderedColumns)
register(Discovery)
register(ChoiceQuestion)
register(SyntheticRows)
