"""Attacks by one person's label: no label changes how another's is read, and none is an error."""

import warnings
from decimal import Decimal
from unittest.mock import patch

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import inid
from inid import learn
from inid.learn import read_labels, read_rows
from inid.testing import unsafe_seed
from internals import module_with

inputs = module_with("inid.learn", "Matrix")

BUDGET = inid.ApproxDP(epsilon=1.0, delta=1e-6)
ROWS = 40
X = np.linspace(0, 1, 2 * ROWS).reshape(ROWS, 2)
LARGE = 2**60  # beyond 2^53 floats merge neighbours


class Refuses:
    """A label that cannot be compared with anything."""

    def __eq__(self, other):
        raise RuntimeError("no comparison")

    __hash__ = None


STRANGE = {
    "text": "other", "text of a number": "1", "bytes": b"1", "undecodable bytes": b"\xff", "complex": 1j, "None": None,
    "NA": pd.NA, "NaT": pd.NaT, "NaN": np.nan, "infinity": np.inf, "a half": 0.5, "tuple": (1, 2), "a list of one": [1],
    "list": [1, 0], "dict": {}, "array of one": np.array([1]), "array": np.array([1, 0]), "huge": 10**400,
    "date": np.datetime64("2020-01-01"), "duration": np.timedelta64(3, "s"), "signalling": Decimal("sNaN"),
    "small type": np.int8(3), "short float": np.float16(0.1), "frame": pd.DataFrame({"a": [1]}), "object": Refuses(),
}  # fmt: skip


def matched(y, label=1, rows=ROWS):
    """What is read, for a user who has asked for every error and every warning there is."""
    with np.errstate(all="raise"), warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", learn.NoisyFitWarning)  # which released numbers decide
        return read_labels(None, read_rows(np.zeros((rows, 1))), y).matches(label).tolist()


def objects(entries):
    out = np.empty(len(entries), dtype=object)
    for at, entry in enumerate(entries):
        out[at] = entry
    return out


@pytest.mark.parametrize("label", [1, 1.0, True, np.int64(1), np.float32(1)], ids=repr)
@pytest.mark.parametrize("container", [list, tuple, objects, lambda entries: pd.Series(objects(entries), dtype=object)])
@pytest.mark.parametrize("what", STRANGE)
def test_a_strange_label_is_another_label_and_changes_nobody_elses(what, container, label):
    """NumPy would make the whole list text for one text, floats for one float, and raise for a list or a complex."""
    entries = [1, 0] * (ROWS // 2)
    entries[0] = STRANGE[what]
    assert matched(container(entries), label) == [0.0, 0.0] + [1.0, 0.0] * (ROWS // 2 - 1)


@pytest.mark.parametrize(("positive", "strange"), [("a", b"a"), ("a", b"\xff"), ("a", 1.0), (b"a", "a"), (b"a", 1)])
def test_text_and_bytes_are_told_apart_one_by_one(positive, strange):
    for label in (positive, np.asarray(positive)[()]):
        assert matched([strange] + [positive] * (ROWS - 1), label) == [0.0] + [1.0] * (ROWS - 1)


def test_one_persons_text_in_a_list_moves_the_fit_by_one_record_only():
    model = learn.PrivateLogisticRegression(budget=BUDGET, bounds=(0, 1), classes=(0, 1), passes=2)
    y = [1] * ROWS
    found = []
    for one in ("other", 0):
        with unsafe_seed(1):
            found.append(model.fit(X, [one, *y[1:]]).coef_.tolist())
    assert found[0] == found[1]


WITH_GAPS = {
    "list": list,
    "nullable": lambda entries: pd.Series(entries, dtype="Int64"),
    "backed by Arrow": lambda entries: pd.Series(entries, dtype="int64[pyarrow]"),
    "categories": lambda entries: pd.Series(pd.Categorical(entries, categories=[LARGE, LARGE + 1])),
    "categories alone": lambda entries: pd.Categorical(entries, categories=[LARGE, LARGE + 1]),
    "index of categories": lambda entries: pd.CategoricalIndex(entries, categories=[LARGE, LARGE + 1]),
    "Polars": lambda entries: pl.Series(entries, dtype=pl.Int64),
    "Arrow": lambda entries: pa.array(entries, type=pa.int64()),
    "Arrow in chunks": lambda entries: pa.chunked_array([entries[:7], entries[7:]], type=pa.int64()),
    "Arrow dictionary": lambda entries: pa.array(entries, type=pa.int64()).dictionary_encode(),
    "pandas frame": lambda entries: pd.DataFrame({"y": pd.array(entries, dtype="Int64")}),
    "Polars frame": lambda entries: pl.DataFrame({"y": pl.Series(entries, dtype=pl.Int64)}),
    "Arrow table": lambda entries: pa.table({"y": pa.array(entries, type=pa.int64())}),
}


@pytest.mark.parametrize("container", WITH_GAPS)
def test_a_gap_does_not_merge_the_large_integers_of_others(container):
    """Converted to floats, as a column with a gap is, 2^60 and 2^60 + 1 are one number."""
    entries = [LARGE + 1] * (ROWS // 2) + [LARGE] * (ROWS // 2)
    expected = [1.0] * (ROWS // 2) + [0.0] * (ROWS // 2)
    assert matched(WITH_GAPS[container](entries), LARGE + 1) == expected
    assert matched(WITH_GAPS[container]([None, *entries[1:]]), LARGE + 1) == [0.0, *expected[1:]]


def test_objects_are_compared_exactly():
    for label in (float(LARGE), np.float64(LARGE), np.int64(LARGE)):
        assert matched([LARGE + 1, LARGE, float(LARGE)], label, rows=3) == [0.0, 1.0, 1.0]


def undecodable(entries):
    text = b"".join(entries)
    offsets = np.cumsum([0, *map(len, entries)]).astype(np.int32)
    return pa.Array.from_buffers(pa.string(), len(entries), [None, pa.py_buffer(offsets), pa.py_buffer(text)])


def test_an_entry_that_python_cannot_hold_is_another_label():
    assert matched(undecodable([b"\xff", b"a", b"b"]), "a", rows=3) == [0.0, 1.0, 0.0]
    years = pa.array([2**62, 0, 1], type=pa.timestamp("s"))
    epoch = pd.Timestamp(0).to_pydatetime()
    assert matched(years, epoch, rows=3) == [0.0, 1.0, 0.0]
    assert matched(pd.Series(years, dtype=pd.ArrowDtype(years.type), index=[5, 6, 7]), epoch, rows=3) == [0.0, 1.0, 0.0]


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.longdouble])
def test_a_signalling_nan_is_another_label_and_no_error(dtype):
    y = np.ones(ROWS, dtype=dtype)
    if dtype == np.float32:
        y.view(np.uint32)[0] = 0x7F800001
    elif dtype == np.float64:
        y.view(np.uint64)[0] = 0x7FF0000000000001
    else:
        y[0] = np.nan
    for label in (1, 1.0, np.int64(1), np.float64(1)):
        assert matched(y, label) == [0.0] + [1.0] * (ROWS - 1)


@pytest.mark.parametrize("y", ["ab" * 20, b"ab" * 20, {1, 2}, 3, iter([1]), pd.DataFrame({"a": [1], "b": [2]})])
def test_what_is_no_column_is_refused_by_its_type(y):
    with pytest.raises(inid.ArgumentError, match="column of labels"):
        matched(y)


@pytest.mark.parametrize("y", [[1] * (ROWS - 1), np.ones(ROWS + 1), pl.Series([1])])
def test_a_column_of_another_length_is_refused(y):
    with pytest.raises(ValueError, match="inconsistent"):
        matched(y)


def test_arrays_and_series_that_declare_a_type_are_compared_at_once():
    with patch.object(inputs, "_same", side_effect=AssertionError):
        for y in (np.ones(ROWS), np.ones(ROWS, int), np.full(ROWS, "1"), pd.Series(np.ones(ROWS, bool))):
            assert len(matched(y)) == ROWS
