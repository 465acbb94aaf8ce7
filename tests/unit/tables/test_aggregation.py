"""One value for every engine: keys, a limit for each person, groups, sums of whole numbers, compared with a loop."""

import math
from collections import defaultdict

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from inid.fixed_point import Grid
from inid.tables import (
    Aggregation,
    Bins,
    Categories,
    EngineError,
    FoundKeys,
    GridKeys,
    Grouping,
    Inside,
    Pair,
    People,
    Person,
    PublicKeys,
    Rows,
    Value,
    View,
    read_condition,
)
from inid.tables.engines import open_table

RNG = np.random.default_rng(11)
ROWS = 300
WORDS = RNG.choice(["a", "b", "c", None], ROWS).tolist()
CODES = RNG.integers(0, 5, ROWS).tolist()
NUMBERS = [None if RNG.random() < 0.2 else float(RNG.uniform(-2, 12)) for _ in range(ROWS)]
OTHERS = [None if RNG.random() < 0.1 else float(RNG.uniform(0, 4)) for _ in range(ROWS)]
PEOPLE = RNG.integers(0, 60, ROWS).tolist()
COLUMNS = {"word": WORDS, "code": CODES, "x": NUMBERS, "y": OTHERS, "who": PEOPLE}
FINE, COARSE, LEVELS = Grid.of("x", (0.0, 10.0), 2**20), Grid.of("y", (0.0, 4.0), 2**10), Grid.of("x", (0.0, 10.0), 16)


@pytest.fixture(params=["pandas", "polars", "arrow", "csv"])
def source(request, tmp_path):
    if request.param == "csv":
        pl.DataFrame(COLUMNS).write_csv(tmp_path / "rows.csv")
        return open_table(tmp_path / "rows.csv")
    made = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "arrow": pa.table}[request.param]
    return open_table(made(COLUMNS))


def added(term, row):
    """What a row adds, by hand."""
    if any(row[name] is None for name in getattr(term, "present", ())):
        return 0
    if isinstance(term, Rows):
        return 1
    if isinstance(term, Value):
        return term.grid.integer(row[term.column])
    if isinstance(term, Pair):
        one, two = (grid.integer(row[name]) for name, grid in zip(term.columns, term.grids, strict=True))
        return one * two - term.shift
    if isinstance(term.cells, Categories):
        return int(row[term.column] == term.cells.values[term.at])
    low, high = term.cells.edges[term.at : term.at + 2]
    return int(low <= row[term.column] < high or row[term.column] == high == term.cells.edges[-1])


def cell_of(key, row):
    """The cell of a row, or None where it has none."""
    value = row[key.column]
    if isinstance(key, GridKeys):
        return None if value is None else key.grid.integer(value) - key.grid.least
    if isinstance(key, FoundKeys):
        return value
    return key.keys.index(value) if value in key.keys else len(key.keys) if key.cell else None


def by_hand(asked):
    """The sums of every grouping as dictionaries by cell, without those that are 0 throughout."""
    rows = [dict(zip(COLUMNS, values, strict=True)) for values in zip(*COLUMNS.values(), strict=True)]
    counted = []
    for row in rows:
        cells = {name: cell_of(key, row) for name, key in asked.keys.items()}
        if None not in cells.values():
            adds = [None if isinstance(term, People) else added(term, row) for term in asked.terms]
            counted.append((row, cells, adds))
    if asked.person is not None:
        # Keys sort as themselves; those of the cell for others as the first public one, after it.
        counted.sort(key=lambda one: ([one[0][name] for name in asked.person.order], one[2], *_ties(asked, one)))
        kept, seen = [], defaultdict(int)
        for one in counted:
            seen[one[0]["who"]] += 1
            if seen[one[0]["who"]] <= asked.person.max_rows:
                kept.append(one)
        counted = kept
    found = []
    for grouping in asked.groupings:
        sums, people = {}, set()
        for row, cells, adds in counted:
            cell = tuple(cells[name] for name in grouping.keys)
            own = [adds[at] if adds[at] is not None else int((row["who"], cell) not in people) for at in grouping.terms]
            people.add((row["who"], cell))
            sums[cell] = [a + b for a, b in zip(sums.get(cell, [0] * len(own)), own, strict=True)]
        found.append({cell: values for cell, values in sums.items() if any(values)})
    return found


def _ties(asked, one):
    row, cells, _ = one
    keys, flags = [], []
    for name, key in asked.keys.items():
        other = isinstance(key, PublicKeys) and key.cell and cells[name] == len(key.keys)
        keys.append(key.keys[0] if other else cells[name] if isinstance(key, GridKeys) else row[key.column])
        flags.append(other)
    return keys, flags


def as_cells(totals):
    places = zip(*np.nonzero(totals.sums.any(axis=0)), strict=True) if totals.sums.ndim > 1 else [()]
    return {
        tuple(totals.keys[at] if totals.keys else int(at) for at in place): totals.sums[(slice(None), *place)].tolist()
        for place in places
    }


TERMS = (
    Rows(),
    Rows(("x", "y")),
    Value("x", FINE, ("x",)),
    Value("x", FINE, ("x", "y")),
    Pair(("y", "y"), (COARSE, COARSE), COARSE.size**2 // 2, ("y",)),
    Inside("x", Bins((0.0, 5.0, 10.0)), 1, ("x",)),
    Inside("word", Categories(["a", "c"]), 1),
)
WORD, CELL = PublicKeys("word", ("a", "c")), PublicKeys("word", ("a", "c"), cell=True)
CODE, GAPS = PublicKeys("code", (0, 1, 2, 3)), PublicKeys("code", (3, 0), cell=True)
ALL = tuple(range(len(TERMS)))
ASKED = {
    "total": Aggregation({}, TERMS, (Grouping((), ALL),)),
    "one table": Aggregation({"word": WORD, "code": CODE}, TERMS, (Grouping(("code", "word"), ALL),)),
    "many tables": Aggregation(
        {"word": CELL, "code": GAPS}, TERMS, (Grouping(("word",), (2, 0)), Grouping(("word", "code"), (0, 1)))
    ),
    "dropped": Aggregation({"word": WORD, "code": CODE}, TERMS, (Grouping(("word",), (0,)), Grouping((), ALL))),
    "levels": Aggregation({"word": CELL, "x": GridKeys("x", LEVELS)}, TERMS, (Grouping(("word", "x"), (0, 1)),)),
}


@pytest.mark.parametrize("people", [False, True], ids=["rows", "people"])
@pytest.mark.parametrize("name", ASKED)
def test_sums_are_those_of_a_loop(source, name, people):
    asked = ASKED[name]
    if people:
        own = {"person": Person("who", 2, "code"), "view": asked.view}
        terms = (*asked.terms, People()) if len(asked.groupings) == 1 else asked.terms
        groupings = [Grouping(one.keys, (*one.terms, *range(len(TERMS), len(terms)))) for one in asked.groupings]
        asked = Aggregation(asked.keys, terms, tuple(groupings), **own)
    source.check([asked])
    (found,) = source.run([asked])
    assert [one.sums.shape[0] for one in found] == [len(grouping.terms) for grouping in asked.groupings]
    assert [as_cells(one) for one in found] == by_hand(asked)


@pytest.mark.parametrize("most", [1, 2, None])
@pytest.mark.parametrize("term", [Rows(), People()], ids=["rows", "people"])
def test_keys_that_were_found_are_those_of_a_loop(source, term, most):
    asked = Aggregation(
        {"word": FoundKeys("word", "str")}, (term,), (Grouping(("word",), (0,)),), {}, Person("who", 4, "code"), most
    )
    ((found,),) = source.run([asked])
    kept, expected = defaultdict(list), defaultdict(int)
    rows = sorted(zip(PEOPLE, CODES, [word or "" for word in WORDS], strict=True))
    for who, _, word in rows:
        if word and len(kept[who]) < 4:
            kept[who].append(word)
    for words in kept.values():
        keys = sorted(set(words), key=lambda word: (-words.count(word), word))[:most]
        for word in keys:
            expected[word] += 1 if isinstance(term, People) else words.count(word)
    assert dict(zip(found.keys, found.sums[0].tolist(), strict=True)) == expected
    assert list(found.keys) == sorted(expected)


def test_a_table_without_rows_has_no_keys_and_sums_of_0(source):
    nobody = source.seen(View().filtered(read_condition("code > 9", View())))
    asked = [Aggregation({"word": key}, TERMS, (Grouping(("word",), ALL),), view=nobody.view) for key in (CELL, WORD)]
    asked.append(Aggregation({"word": FoundKeys("word", "str")}, (), (Grouping(("word",), ()),), view=nobody.view))
    asked.append(Aggregation({}, TERMS, (Grouping((), ALL),), view=nobody.view))
    found = [source.run([one])[0][0] for one in asked]
    assert [one.sums.any() for one in found] == [False] * 4
    assert [one.sums.shape for one in found] == [(len(TERMS), 3), (len(TERMS), 2), (0, 0), (len(TERMS),)]
    assert found[2].keys == ()


def test_several_aggregations_are_run_each_as_by_itself(source):
    asked = [ASKED["levels"], ASKED["one table"], ASKED["many tables"]]
    view = asked[0].view
    together = [Aggregation(one.keys, one.terms, one.groupings, view=view) for one in asked]
    apart = [source.run([one])[0] for one in together]
    for one, two in zip(source.run(together), apart, strict=True):
        assert [as_cells(totals) for totals in one] == [as_cells(totals) for totals in two]


@pytest.mark.parametrize("row", [("b", 1), (None, 1), (math.nan, 1)], ids=str)
def test_a_key_that_was_not_asked_for_is_refused_without_its_name(monkeypatch, row):
    source = open_table(pd.DataFrame(COLUMNS))
    monkeypatch.setattr("inid.tables.engines.pandas.Pandas.rows", lambda *_: [row])
    with pytest.raises(EngineError, match="not asked for") as error:
        source.run([Aggregation({"word": WORD}, (Rows(),), (Grouping(("word",), (0,)),))])
    assert repr(row[0]) not in str(error.value)
