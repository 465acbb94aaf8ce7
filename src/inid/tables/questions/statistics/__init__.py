"""Counts, sums, means, variances, covariances and histograms, any number together."""

from inid.tables.questions.statistics.column_statistics import ColumnStatistic, Estimate, estimate, slopes
from inid.tables.questions.statistics.kind import Statistics
from inid.tables.questions.statistics.sensitivity import Statistic, narrowest
