"""Many group-bys at once: every table is in exactly one block, and the cells are those of plain group-bys."""

from itertools import combinations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import inid
from inid.tables import PublicKeys, Table
from inid.tables.engines import CellTable, EngineError, blocks_of, coded, packing_of, run_cell_sums
from internals import module_with
from table_sums import relation_of


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
    assert coded(rows, {"k": PublicKeys("k", ("b", "a"), cell=True)})["k"].to_pylist() == [1, 0, 2]
    with pytest.raises(EngineError, match="not asked for"):
        coded(rows, {"k": PublicKeys("k", ("a", "c"), cell=True)})
    rows = pa.table({"k": [b"a", None, b"c"], "one": [1, 1, 1]})
    assert coded(rows, {"k": PublicKeys("k", ("c", "a"), cell=True)})["k"].to_pylist() == [1, 2, 0]
    with pytest.raises(EngineError, match="not asked for"):
        coded(rows, {"k": PublicKeys("k", ("c", "a"))})


@pytest.mark.parametrize("other", ["cell", "drop"])
def test_many_tables_of_counts_and_sums_are_the_same_on_every_engine(other):
    rng = np.random.default_rng(4)
    rows = 300
    frame = pd.DataFrame({f"c{at}": rng.integers(0, 4 + at, rows) for at in range(6)})
    frame["word"] = rng.choice(["u", "v", "w"], rows)
    frame["flag"] = rng.random(rows) < 0.5
    frame["v"] = np.where(rng.random(rows) < 0.2, np.nan, rng.normal(3, 9, rows))
    domains = {f"c{at}": range(3 + at) for at in range(6)} | {"word": ["u", "v"], "flag": [True, False]}
    asked = {"count": 2, "mean": {"v": [("c0",), ("c1", "word"), ()]}, "sum": {"v": [("flag", "c2")]}}
    answers = []
    for data in (frame, pl.from_pandas(frame), relation_of(frame), pa.Table.from_pandas(frame)):
        query = Table(data, domains=domains, other=other, bounds={"v": (-10.0, 20.0)}).marginals(**asked)
        answers.append(query.exact(query.plan(inid.GaussianDP(1.0), mechanism="gaussian")))
    for found in answers[1:]:
        assert np.array_equal(answers[0], found)
    assert np.abs(answers[0]).max() > 100


def test_packed_blocks_hold_every_table_once_and_name_its_digits():
    rng = np.random.default_rng(5)
    names = [f"k{at}" for at in range(14)]
    sizes = {name: int(rng.integers(2, 14)) for name in names}
    tables = [CellTable(chosen, ("one",)) for number in (0, 1, 2, 3) for chosen in combinations(names, number)]
    packing = packing_of(tables, sizes)
    made = [number for block in packing.blocks for number, _ in block.tables]
    assert sorted([*made, *packing.alone]) == list(range(len(tables)))
    assert len(made) > len(tables) / 20
    assert sorted(key for keys in packing.columns for key in keys) == sorted(names)
    for block in packing.blocks:
        keys = [packing.columns[at] for at in block.columns]
        widths = [int(np.prod([sizes[key] for key in own])) for own in keys]
        assert np.prod(widths) <= 2**12
        for number, digits in block.tables:
            for key, digit in zip(tables[number].keys, digits, strict=True):
                own = keys[digit.column]
                places = np.unravel_index(np.arange(widths[digit.column]), [sizes[name] for name in own])
                found = np.arange(widths[digit.column]) // digit.divisor % digit.size
                assert np.array_equal(places[own.index(key)], found)


@pytest.mark.parametrize(("number", "most"), [(3, 1), (26, 120), (100, 1850)])
def test_triples_serve_the_pairs_of_columns_of_ten(number, most):
    names = [f"k{at}" for at in range(number)]
    packing = packing_of([CellTable(pair, ("one",)) for pair in combinations(names, 2)], dict.fromkeys(names, 10))
    assert all(len(block.tables) == 3 for block in packing.blocks)
    assert len(packing.blocks) + len(packing.alone) <= most  # a third of the pairs is the least


@pytest.mark.parametrize("seed", range(3))
def test_many_group_bys_of_duckdb_are_those_of_numpy(seed):
    """Tables of every width, whole and in part, with sums, in several batches of blocks."""
    rng = np.random.default_rng(seed)
    rows, names = 500, [f"key_{at}" for at in range(9)]
    sizes = {name: int(rng.integers(2, 12)) for name in names}
    data = {name: rng.integers(0, size, rows).astype(np.uint8) for name, size in sizes.items()}
    data |= {"one": np.ones(rows, np.int64), "sum_0": rng.integers(-(2**40), 2**40, rows)}
    every = [chosen for number in (0, 1, 2, 3) for chosen in combinations(names, number)]
    tables = [
        CellTable(tuple(rng.permutation(chosen).tolist()), ("one",) if rng.random() < 0.5 else ("one", "sum_0"))
        for chosen in every
        if rng.random() < 0.7
    ]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(module_with("inid.tables.engines", "run_cell_sums"), "_HELD", 5)
        found = run_cell_sums(pa.table(data), sizes, tables)
    for table, array in zip(tables, found, strict=True):
        for name, part in zip(table.sums, array, strict=True):
            shape = tuple(sizes[key] for key in table.keys)
            plain = np.zeros((1, *shape), np.int64)
            np.add.at(plain, (np.zeros(rows, int), *(data[key].astype(int) for key in table.keys)), data[name])
            assert np.array_equal(part, plain.reshape(shape)), table
