"""Texts that pandas takes for one another, objects without a hash, files of several types, failed transactions."""

import duckdb
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import inid
from inid import tables

KINDS = [object, "string[python]", "string[pyarrow]", pd.ArrowDtype(pa.string())]


def exact(data, **options):
    table = tables.Table(data, bounds={"x": (0, 10)}, unit=tables.Person("u", 1, **options))
    return table.statistics(count=True, sum=["x"]).exact_sums().tolist()


def people(names, orders, values, kind):
    frame = pd.DataFrame({"u": names, "o": orders, "x": values})
    return frame.astype({"u": kind, "o": kind})


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_a_missing_order_of_one_person_says_nothing_of_others(kind):
    # Each of fifty people has two rows that differ after a NUL; the first of them has the value 10.
    names = [f"p{at}" for at in range(50) for _ in range(2)]
    orders = ["a\0" + "12"[at % 2] for at in range(100)]
    values = [10, 0] * 50
    alone = exact(people(names, orders, values, kind), order_by="o")
    beside = exact(people([*names, "q"], [*orders, None], [*values, 5], kind), order_by="o")
    assert beside[0] - alone[0] == 1
    assert beside[-1] == alone[-1]  # 5 is the middle of the bounds
    turned = exact(people(names, orders[::-1], values, kind), order_by="o")
    assert turned[-1] == -alone[-1] != 0


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_people_whose_names_differ_after_a_nul_are_two(kind):
    assert exact(people(["ann\0a", "ann\0b"], ["a", "b"], [0, 10], kind))[0] == 2
    assert exact(people(["ann\0a", "ann\0a"], ["a", "b"], [0, 10], kind))[0] == 1


@pytest.mark.parametrize("key", ["a\0x", "\ud800"])
def test_keys_that_engines_read_differently_are_refused(key):
    table = tables.Table(pd.DataFrame({"k": ["a"]}), bounds={})
    with pytest.raises(inid.InidError, match="NUL or half a character"):
        table.statistics(count=True, by={"k": ["b", key]})
    with pytest.raises(inid.InidError, match="NUL or half a character"):
        table.statistics(histogram={"k": [key]})


def test_who_has_no_hash_is_nobody():
    frame = pd.DataFrame({"u": [{"a": 1, "b": 2}, {"b": 2, "a": 1}, "c"], "o": ["a"] * 3, "x": [1, 2, 3]})
    assert exact(frame)[0] == 1


def test_of_several_files_types_decide_and_not_values(tmp_path):
    def summed(second, values):
        pq.write_table(pa.table({"x": pa.array([1, 2], pa.int32())}), tmp_path / "1.parquet")
        pq.write_table(pa.table({"x": pa.array(values, second)}), tmp_path / "2.parquet")
        table = tables.Table(str(tmp_path / "*.parquet"), bounds={"x": (0, 10)})
        return table.statistics(count=True).exact_sums().tolist()

    assert summed(pa.int64(), [10**12]) == summed(pa.float64(), [1e300]) == summed(pa.int64(), [3]) == [3]
    for words in (["3"], ["zz"]):
        with pytest.raises(inid.ArgumentError, match="holds Int32 and String"):
            summed(pa.string(), words)


def test_a_query_that_fails_in_a_transaction_says_so_and_leaves_the_safe_setting():
    connection = duckdb.connect()
    connection.execute("CREATE TABLE t AS SELECT * FROM (VALUES ('1'), ('zz')) AS v(word)")
    connection.execute("BEGIN")
    data = connection.sql("SELECT CAST(word AS DOUBLE) AS x FROM t")
    query = tables.Table(data, bounds={"x": (0, 10)}).statistics(sum=["x"])
    with pytest.raises(tables.EngineError, match="ConversionException"):  # not that nothing can be set any more
        query.exact_sums()
    connection.execute("ROLLBACK")
    ((setting,),) = connection.execute("SELECT current_setting('disabled_optimizers')").fetchall()
    assert setting == "statistics_propagation"
    connection.execute("DELETE FROM t WHERE word = 'zz'")
    assert query.exact_sums()[0] == 1
