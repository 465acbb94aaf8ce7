"""What can be asked of a table, one file or folder for each kind of question; this file registers them."""

from inid.tables.question import register
from inid.tables.questions.clipped_total import ClippedTotal
from inid.tables.questions.largest_group import LargestGroup
from inid.tables.questions.marginals.kind import Marginals
from inid.tables.questions.partition_selection import PartitionSelection
from inid.tables.questions.prefix_sums.kind import PrefixSums
from inid.tables.questions.statistics.kind import Statistics
from inid.tables.questions.synthetic.kind import SyntheticRows

register(Statistics)  # claims whatever the kinds after it do not
register(ClippedTotal)
register(Marginals)
register(PrefixSums)
register(PartitionSelection)
register(LargestGroup)
register(SyntheticRows)
