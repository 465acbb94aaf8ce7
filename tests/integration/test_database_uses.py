"""What else takes a table: streams have pandas' numbers on a database, estimators refuse one before they charge.

And what comes back is a line per group: the memory here does not grow with the rows there.
"""

import inspect
import tracemalloc
import warnings

import pyarrow as pa
import pytest
from sklearn.base import clone
from sklearn.linear_model import LinearRegression

import inid
import inid.testing
from database_tables import DATABASES, connection, execute, stored, table
from inid import learn, tables
from inid.tables.engines import Engine
from inid.tables.engines.sql import DatabaseTable

ROWS = pa.table({"g": [k % 2 for k in range(300)], "x": [float(k % 50) for k in range(300)], "y": [1.0] * 300})
BOUNDS = {"x": (0, 50), "y": (0, 2)}
BUDGET = inid.PureDP(0.5)


def streamed(data, folder):
    """The numbers of two periods, with the same noise for every engine."""
    folder.mkdir()
    budget = inid.GaussianDP(mu=1.0)
    facts = {"query": {"sum": ["x"], "by": {"g": [0, 1]}}, "periods": ["a", "b", "c"], "promise": budget}
    with inid.testing.unsafe_seed(5):
        stream = tables.Stream.open(
            folder / "stream.db", tables.Table(data, bounds=BOUNDS), ledger=inid.Ledger(total=budget), **facts
        )
        return [[row.estimate for row in stream.release(period, data).period.answers] for period in ("a", "b")]


@pytest.mark.parametrize("database", DATABASES)
def test_a_stream_of_a_database_is_that_of_pandas(database, tmp_path):
    wanted = streamed(ROWS.to_pandas(), tmp_path / "pandas")
    assert streamed(stored(database, ROWS), tmp_path / "database") == wanted


def estimators():
    """One of each class that is charged for a fit, by its name; a searcher and what learns from synthetic rows too."""
    found = {}
    for name in learn.__all__:
        kind = getattr(learn, name)
        if not (inspect.isclass(kind) and "ledger" in inspect.signature(getattr(kind, "fit", id)).parameters):
            continue
        usual = {"budget": BUDGET, "classes": [0, 1], "n_clusters": 2, "param_grid": {"alpha": [1.0, 2.0]}}
        usual["estimator"] = LinearRegression() if name == "OnSyntheticRows" else learn.PrivateRidge(budget=BUDGET)
        taken = inspect.signature(kind).parameters
        found[name] = kind(**{option: value for option, value in usual.items() if option in taken})
    return found


def fitted(name, data, relation):
    """What a fit to a table raises, and how often it was charged."""
    estimator = clone(estimators()[name])
    ledger = inid.Ledger(total=inid.ApproxDP(9.0, 1e-3), neighbours=relation)
    target = {"y": "g" if name.endswith("NB") else "y"}
    own = target if "y" in inspect.signature(estimator.fit).parameters else {}
    why = ""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            estimator.fit(tables.Table(data, bounds=BOUNDS, neighbours=relation), **own, ledger=ledger)
        except inid.ArgumentError as error:
            why = str(error)
    return why, len(ledger.history())


@pytest.mark.parametrize("relation", ["add_remove", "replace", "zero_out"])
def test_every_estimator_that_reads_tables_refuses_a_database_before_it_charges(relation):
    """Which read tables is found out by pandas' table: those are charged for it."""
    held = {database: stored(database, ROWS) for database in DATABASES}
    reading = []
    for name in estimators():
        _, charged = fitted(name, ROWS.to_pandas(), relation)
        for data in held.values():
            why, times = fitted(name, data, relation)
            assert (name, times) == (name, 0)
            assert why.endswith("write it to a Parquet file and pass the path.") if charged else why
        reading += [name] * bool(charged)
    assert {"PrivateRidge", "PrivateSearchCV", "PrivateMoments", "PrivateKMeans", "PrivatePCA"} <= {*reading}


def test_without_the_refusal_a_database_would_be_charged(monkeypatch):
    monkeypatch.setattr(DatabaseTable, "require_frames", Engine.require_frames)
    why, times = fitted("PrivateRidge", stored("in-duckdb", ROWS), "add_remove")
    assert why
    assert times == 1


def test_memory_here_does_not_grow_with_the_rows_there():
    con, peaks = connection("in-postgres"), []
    for rows in (10**5, 10**6):
        name = f"many_{rows}"
        made = f"SELECT CAST(i % 10 AS bigint) AS g, random() * 50 AS x FROM generate_series(1, {rows}) AS i"  # noqa: S608
        execute(con, f"DROP TABLE IF EXISTS {name}; CREATE UNLOGGED TABLE {name} AS {made}")
        query = tables.Table(table(con, name), bounds={"x": (0, 50)}).statistics(mean=["x"], by={"g": list(range(10))})
        query.exact_sums()  # what is loaded once
        tracemalloc.start()
        query.exact_sums()
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        execute(con, f"DROP TABLE {name}")
    assert peaks[1] < 2 * peaks[0] < 2 * 10**6
