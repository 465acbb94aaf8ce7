"""Weights of rows whose tables are to be those wanted."""

import numpy as np
import pytest

from inid.tables.questions.synthetic import LevelSpace, effective, raked


def test_weights_stay_finite_where_rows_are_far_from_the_wanted_tables():
    # Independent rows, and columns that are wanted equal: every pair takes a factor of most rows, hundreds of times.
    space, rng = LevelSpace((10,) * 20), np.random.default_rng(0)
    equal = space.tables(np.repeat(np.arange(10, dtype=np.int32)[:, None], 20, axis=1))
    codes = rng.integers(0, 10, (500, 20)).astype(np.int32)
    with np.errstate(all="raise"):
        weights = raked(space, equal, codes, rng, lambda _: None)
    assert weights.sum() == pytest.approx(1)
    assert 1 <= effective(weights) < 100
