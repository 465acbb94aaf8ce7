"""Continual release: the same statistics, period after period, under one promise, with noise correlated over time."""

from inid.tables.streams.plan import StreamPlan, period_query
from inid.tables.streams.results import release_values
from inid.tables.streams.strategies import (
    Toeplitz,
    Tree,
    choose_strategy,
    scaled_toeplitz,
    scaled_tree,
    strategy_from_dict,
)
from inid.tables.streams.stream_file import StoredRelease, StreamFile
