"""Distribution functions, quantiles and running totals from noisy prefix sums of ordered columns (M9)."""

from inid.tables.questions.prefix_sums.kind import PrefixSums
from inid.tables.questions.prefix_sums.strategy import Prefixes, best_strategy, strategy
