"""Synthetic rows: Gaussian steps of fixed cost, and rows made from what they release."""

from inid.tables.questions.synthetic.blocks import Blocks
from inid.tables.questions.synthetic.coded import release_levels
from inid.tables.questions.synthetic.kind import SyntheticRows
from inid.tables.questions.synthetic.level_space import (
    LevelSpace,
    effective,
    entropic_rows,
    near_sample,
    raked,
    systematic,
)
from inid.tables.questions.synthetic.three_steps import SHARES, FirstStep, Steps, model_weights, parts_of
from inid.tables.questions.synthetic.values_in_bins import VALUES_SHARE, ValuesInBins
