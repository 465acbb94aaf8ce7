"""A release runs its engine once, whatever it asks: each engine gives what its queries give one by one."""

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import inid
from database_tables import DATABASES, execute, stored
from inid import tables
from inid.tables import Aggregation, PublicKeys, Question, Rows, View, read_condition, read_formula
from inid.tables.engines import DuckDB, Pandas, open_table, sql
from inid.tables.engines.sql import DatabaseTable
from internals import module_with
from published_people import FRAME, publication, table
from spark_session import spark_session

PROMISE = inid.ApproxDP(1.0, 1e-6)
UNITS = {"row": "row", "person": tables.Person("id", 1, order_by="pay")}


def opened(engine, folder):
    if engine in DATABASES:
        return stored(engine, pa.table(FRAME))
    if engine == "duckdb":
        own = duckdb.connect()
        own.register("people", pa.table(FRAME))
        return own.sql("FROM people")
    if engine in ("csv", "parquet"):
        frame, path = pl.from_pandas(FRAME), folder / f"people.{engine}"
        frame.write_csv(path) if engine == "csv" else frame.write_parquet(path)
        return path
    frames = {"pandas": lambda: FRAME, "polars": lambda: pl.from_pandas(FRAME), "arrow": lambda: pa.table(FRAME)}
    frames |= {"lazy": lambda: pl.from_pandas(FRAME).lazy(), "spark": lambda: spark_session().createDataFrame(FRAME)}
    return frames[engine]()


def wide_publication(t):
    """Filters and computed columns differ, and one name is computed in two ways."""
    late = t.with_columns(late="age - 18", bounds={"late": (0, 80)})
    early = t.where("sex == 'F'").with_columns(late="age / 2", bounds={"late": (0, 50)})
    return tables.Publication(
        **publication(t).queries,
        late=late.statistics(sum=["late"], mean=["pay"]),
        early=early.statistics(sum=["late"], count=True, by={"band": [0, 2, 4]}),
        shops=t.where("pay > 1500").marginals(1),
        levels=late.quantiles(cdf={"late": [(), ("sex",)]}, by={"sex": ["F", "M"]}),
    )


@pytest.fixture
def run_calls(monkeypatch):
    """How many aggregations each call of an engine adds up."""
    calls = []
    for engine in (tables.engines.Engine, DuckDB, Pandas, DatabaseTable):
        monkeypatch.setattr(
            engine,
            "run",
            lambda self, asked, *what, own=engine.run: calls.append(len(asked)) or own(self, asked, *what),
        )
    return calls


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize(
    "engine", ["pandas", "polars", "lazy", "arrow", "duckdb", "csv", "parquet", "spark", *DATABASES]
)
def test_exact_numbers_are_those_of_each_query_by_itself(engine, unit, tmp_path, run_calls, monkeypatch):
    """Oracle: the same queries, asked one by one of pandas."""
    pub = wide_publication(
        tables.Table(
            opened(engine, tmp_path),
            bounds={"age": (0, 100), "pay": (0, 5000)},
            domains={"sex": ["F", "M"], "band": range(5)},
            unit=UNITS[unit],
        )
    )
    plan = pub.plan(PROMISE)
    alone = wide_publication(table(rows=None, unit=UNITS[unit]))
    expected = [query.exact(plan.plans[name]) for name, query in alone.queries.items()]
    found, kinds = [], {type(query.question) for query in pub.queries.values()}
    for kind in kinds:
        own = kind.exact
        monkeypatch.setattr(kind, "exact", lambda *args, own=own: found.append(own(*args)) or found[-1])
    run_calls.clear()
    pub.release(plan)
    assert run_calls == [9]  # each ordered table is limited by itself
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("database", DATABASES)
def test_a_publication_is_one_transaction_of_a_database(database, monkeypatch):
    """Rows that come in while its queries run are in none of them; a second release counts them."""
    held = stored(database, pa.table(FRAME))
    pub = publication(tables.Table(held, bounds={"age": (0, 100), "pay": (0, 5000)}, domains=table().domains.keys))
    plan, asked, found, numbers = pub.plan(PROMISE), DatabaseTable._totals, [], []
    con, name = held.get_backend(), held.get_name()
    twice = f"INSERT INTO {name} SELECT * FROM {name}"  # noqa: S608 - of the tests

    def noted(self, every):
        made = asked(self, every)
        found.append([int(part.sums.sum()) for one in made for part in one])
        return made

    def begins(number, last):
        numbers.append((number, last))
        if len(numbers) == 2:  # between the first statement and the others
            con.con.cursor().execute(twice) if database == "in-duckdb" else execute(con, twice)

    monkeypatch.setattr(DatabaseTable, "_totals", noted)
    monkeypatch.setattr(sql.engine, "statement_begins", begins)
    pub.release(plan)
    assert numbers[0] == (1, len(numbers))
    assert len(numbers) > 2
    pub.release(plan)
    assert found[1] == [2 * number for number in found[0]]


def test_one_name_is_computed_for_each_view_as_it_says():
    source = open_table(pd.DataFrame({"x": [1.0, 2.0, 3.0]}))
    views = [View(derived={"y": read_formula("y", text, View())}) for text in ("x", "x * 2")]
    asked = [
        Aggregation({}, (Rows(),), (tables.aggregation.Grouping((), (0,)),), view=view.filtered(above))
        for view in views
        for above in [read_condition("y > 2", view)]
    ]
    assert [int(one.sums.sum()) for (one,) in source.run(asked)] == [1, 2]


def test_no_aggregation_is_no_run():
    assert open_table(pd.DataFrame({"x": [1.0]})).run([]) == []


def test_nothing_is_drawn_when_a_later_question_fails(monkeypatch):
    """The charge stands, and the source of noise is not asked."""
    pub = publication()
    plan = pub.plan(PROMISE)
    last = type(pub.queries["largest"].question)
    monkeypatch.setattr(last, "exact", lambda *_: (_ for _ in ()).throw(tables.EngineError("failed")))
    drawn = []
    for kind in Question.__subclasses__():
        monkeypatch.setattr(kind, "step_numbers", lambda *args: drawn.append(args))
    ledger = inid.Ledger(total=PROMISE)
    with pytest.raises(tables.EngineError, match="failed"):
        pub.release(plan, ledger)
    assert len(ledger.history()) == 1
    assert drawn == []


def test_rows_of_a_file_are_kept_while_the_queries_run_and_dropped_after(tmp_path, monkeypatch):
    source = tables.Table(opened("csv", tmp_path), domains={"sex": ["F", "M"]}).source
    keys = PublicKeys("sex", ("F", "M"))
    asked = Aggregation({"sex": keys}, (Rows(),), (tables.aggregation.Grouping(("sex",), (0,)),))
    statements = module_with("inid.tables.engines", "Statements").Statements
    own = statements.totals

    def file_gone(*args):
        (tmp_path / "people.csv").unlink(missing_ok=True)  # a second reading would fail
        return own(*args)

    monkeypatch.setattr(statements, "totals", file_gone)
    assert [found.sums.tolist() for (found,) in source.run([asked, asked])] == [[[266, 134]]] * 2
    left = source._connection.execute("SELECT table_name FROM duckdb_tables()").fetchall()
    assert left == []
