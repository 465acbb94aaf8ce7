"""Encoded columns: bounds that contradict themselves are refused before a charge, and no entry of a column is an error.

Noise is planned by the groups that `EncodedBounds` state. Groups that share a column, or one-hot columns with other
bounds than 0 and 1, would count one row for less than it moves.
"""

import copy
import datetime as dt

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import inid
from inid import learn
from inid.errors import ArgumentError

NAMES = ("a", "b", "c")
SOUND = {"names": NAMES, "lower": (0, 0, 0), "upper": (1, 1, 1), "groups": ((0, 3),)}
MALFORMED = {
    "groups share a column": {"groups": ((0, 2), (1, 3))},
    "one group twice": {"groups": ((0, 3), (0, 3))},
    "backwards": {"groups": ((3, 0),)},
    "empty": {"groups": ((1, 1),)},
    "beyond the columns": {"groups": ((0, 4),)},
    "below them": {"groups": ((-1, 2),)},
    "no whole numbers": {"groups": ((0.0, 3.0),)},
    "three numbers": {"groups": ((0, 2, 3),)},
    "a list": {"groups": [(0, 3)]},
    "a small upper bound": {"upper": (0.1, 1, 1)},
    "large upper bounds": {"upper": (1, 3, 3)},
    "a lower bound": {"lower": (0.5, 0, 0)},
    "no number": {"lower": (float("nan"), 0, 0)},
    "too few bounds": {"lower": (0, 0)},
    "too many": {"upper": (1, 1, 1, 1)},
    "bounds in an array": {"upper": np.ones(3)},
    "too few names": {"names": ("a", "b")},
}


def forged(**changed):
    """Bounds that were never made, as an unpickled object may be."""
    bounds = copy.copy(learn.EncodedBounds(**SOUND))
    for name, value in changed.items():
        object.__setattr__(bounds, name, value)
    return bounds


@pytest.mark.parametrize("changed", MALFORMED.values(), ids=MALFORMED)
def test_bounds_that_contradict_themselves_are_refused_when_made_and_when_used(changed):
    with pytest.raises(ArgumentError, match=r"EncodedBounds: .*: pass what PublicCategories"):
        learn.EncodedBounds(**SOUND | changed)
    ledger, budget = inid.Ledger(inid.GaussianDP(2.0)), inid.GaussianDP(1.0)
    for model in (learn.PrivateMoments(budget), learn.PrivateKMeans(2, budget=budget)):
        with pytest.raises(ArgumentError, match=r"EncodedBounds|encoded columns"):
            model.set_params(bounds=forged(**changed)).fit(np.eye(3), ledger=ledger)
    assert ledger.can_afford(inid.GaussianDP(2.0))


def test_what_the_encoder_states_is_in_order():
    encoder = learn.PublicCategories({"s": ["F", "M"], "t": ["x"]}, bounds={"n": (-3, 5)})
    made = encoder.fit(pd.DataFrame({"n": [1.0], "s": ["F"], "t": ["x"]})).get_bounds_out()
    assert (made.groups, made.lower, made.upper) == (((1, 3), (3, 4)), (-3.0, 0.0, 0.0, 0.0), (5.0, 1.0, 1.0, 1.0))


def no_text():
    """Two entries, of which the second is no UTF-8."""
    buffers = [None, pa.py_buffer(np.array([0, 1, 3], np.int32).tobytes()), pa.py_buffer(b"F\xff\xfe")]
    return pa.Array.from_buffers(pa.string(), 2, buffers)


DAY = 1577836800  # 2020-01-01
UNREADABLE = {
    "Arrow, no UTF-8": (lambda: pa.table({"s": no_text()}), "F"),
    "pandas of Arrow, no UTF-8": (lambda: pd.DataFrame({"s": pd.arrays.ArrowExtensionArray(no_text())}), "F"),
    "Arrow, beyond Python's years": (lambda: pa.table({"s": pa.array([DAY, 2**40], pa.timestamp("s"))}), None),
    "Polars, beyond Python's years": (
        lambda: pl.DataFrame({"s": pl.Series([DAY * 10**6, 2**58]).cast(pl.Datetime("us"))}),
        None,
    ),
}


@pytest.mark.parametrize(("make", "known"), UNREADABLE.values(), ids=UNREADABLE)
def test_an_entry_that_python_cannot_hold_is_no_category_and_no_error(make, known):
    encoder = learn.PublicCategories({"s": [known or dt.datetime(2020, 1, 1)]})
    assert encoder.fit_transform(make()).tolist() == [[1.0], [0.0]]
