"""Many group-bys at once: every table is in exactly one block, and the cells are those of plain group-bys."""

from itertools import combinations

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import inid
from inid.tables import Table
from inid.tables.engines import EngineError
from inid.tables.engines.cell_codes import CellTable, blocks_of, coded


def test_blocks_hold_every_table_once():
    rng = np.random.default_rng(3)
    names = [f"k{at}" for at in range(12)]
    sizes = {name: int(rng.integers(2, 40)) for name in names}
    tables = [CellTable(pair, ("one",)) for pair in combinations(names, 2)]
    tables += [CellTable((name,), ("one", "sum_0")) for name in names]
    blocks = blocks_of(tables, sizes)
    assert sorted(at for block in blocks for at in block.tables) == list(range(len(tables)))
    for block in blocks:
        assert all(set(tables[at].keys) <= set(block.keys) and tables[at].sums == block.sums for at in block.tables)
        cells = np.prod([sizes[name] for name in block.keys])
        assert len(block.tables) == 1 or cells <= 4096
    assert len(blocks) < len(tables) / 1.5


def test_unknown_keys_are_the_last_and_foreign_ones_stop():
    rows = pa.table({"k": ["a", "b", "a"], "k_unknown": [0, 0, 1], "one": [1, 1, 1]})
    assert coded(rows, {"k": ["b", "a"]})["k"].to_pylist() == [1, 0, 2]
    with pytest.raises(EngineError, match="not asked for"):
        coded(rows, {"k": ["a", "c"]})


@pytest.mark.parametrize("other", ["cell", "drop"])
def test_many_tables_of_counts_and_sums_are_the_same_on_every_engine(other):
    rng = np.random.default_rng(4)
    rows = 300
    frame = pd.DataFrame({f"c{at}": rng.integers(0, 4 + at, rows) for at in range(6)})
    frame["word"] = rng.choice(["u", "v", "w"], rows)
    frame["flag"] = rng.random(rows) < 0.5
    frame["v"] = np.where(rng.random(rows) < 0.2, np.nan, rng.normal(3, 9, rows))
    domains = {f"c{at}": range(3 + at) for at in range(6)} | {"word": ["u", "v"], "flag": [True, False]}
    asked = {"marginals": 2, "mean": {"v": [("c0",), ("c1", "word"), ()]}, "sum": {"v": [("flag", "c2")]}}
    answers = []
    for data in (frame, pl.from_pandas(frame), duckdb.from_df(frame), pa.Table.from_pandas(frame)):
        query = Table(data, domains=domains, other=other, bounds={"v": (-10.0, 20.0)}).query(**asked)
        answers.append(query.exact_values(query.plan(inid.GaussianDP(1.0), mechanism="gaussian")))
    for found in answers[1:]:
        assert np.array_equal(answers[0], found)
    assert np.abs(answers[0]).max() > 100
