"""A table passed by mistake, as any argument, is called by its type: no message prints a value of it."""

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import inid
from inid import tables

PLACE = "Zanzibar"
WORDS = [PLACE, PLACE + "2", PLACE]
FOREIGN = {
    "series": pd.Series(WORDS),
    "comparison": pd.Series(WORDS, index=WORDS) == PLACE,
    "frame": pd.DataFrame({"v": WORDS}),
    "index": pd.Index(WORDS),
    "categories": pd.Categorical(WORDS),
    "groups": pd.DataFrame({"v": WORDS}).groupby("v"),
    "polars": pl.Series(WORDS),
    "polars frame": pl.DataFrame({"v": WORDS}),
    "polars expression": pl.lit(PLACE) == pl.col("v"),
    "arrow": pa.array(WORDS),
    "arrow value": pa.scalar(PLACE),
    "flat array": np.array(WORDS),
    "mixed array": np.array([1.5, PLACE], dtype=object),
    "values": pd.Series(WORDS).to_numpy(),
    "array": np.array([[PLACE], [PLACE]], dtype=object),
    "relation": duckdb.sql(f"SELECT '{PLACE}' AS v"),
    "lines": (word for word in WORDS),
    "in a list": [pd.Series(WORDS)],
    "in a dictionary": {"v": pd.Series(WORDS, index=WORDS)},
}
AGE = tables.col("age")


def table():
    return tables.Table(pd.DataFrame({"age": [1.0], "sex": ["F"]}), bounds={"age": (0, 9)}, domains={"sex": ["F"]})


def said_to(call, argument):
    """The message of a call that fails; nothing, where it does not."""
    try:
        call(argument)
    except Exception as error:  # noqa: BLE001 - whoever raises it
        return str(error)
    return ""


CALLS = {
    "where": lambda x: table().where(x),
    "with_columns": lambda x: table().with_columns(w=x),
    "and": lambda x: (AGE > 1) & x,
    "or": lambda x: (AGE > 1) | x,
    "equal": AGE.__eq__,
    "less": AGE.__lt__,
    "plus": AGE.__add__,
    "power": AGE.__pow__,
    "is_in": AGE.is_in,
    "is_missing": AGE.is_missing,
    "col": tables.col,
    "when": lambda x: tables.when(x, 1, 2),
    "when value": lambda x: tables.when(AGE > 1, x, 2),
    "minimum": lambda x: tables.minimum(AGE, x),
    "expression": tables.expression,
    "bounds": lambda x: tables.Table(pd.DataFrame({"age": [1.0]}), bounds=x),
    "bound": lambda x: tables.Table(pd.DataFrame({"age": [1.0]}), bounds={"age": x}),
    "missing": lambda x: tables.Table(pd.DataFrame({"age": [1.0]}), missing=x),
    "missing value": lambda x: tables.Table(pd.DataFrame({"age": [1.0]}), missing={"age": x}),
    "unit": lambda x: tables.Table(pd.DataFrame({"age": [1.0]}), unit=x),
    "neighbours": lambda x: tables.Table(pd.DataFrame({"age": [1.0]}), neighbours=x),
    "rows": lambda x: tables.Table(pd.DataFrame({"age": [1.0]}), rows=x),
    "max_rows": lambda x: tables.Table(pd.DataFrame({"age": [1.0]}), max_rows=x),
    "domains": lambda x: tables.Table(pd.DataFrame({"age": [1.0]}), domains=x),
    "domain": lambda x: tables.Table(pd.DataFrame({"age": [1.0]}), domains={"age": x}),
    "other": lambda x: tables.Table(pd.DataFrame({"age": [1.0]}), other=x),
    "person": lambda x: tables.Person(x, 1),
    "person rows": lambda x: tables.Person("sex", x),
    "order": lambda x: tables.Person("sex", 1, [x]),
    "categories": tables.Categories,
    "ordered": tables.Ordered,
    "by keys": lambda x: table().statistics(count=True, by={"sex": x}),
    "mean": lambda x: table().statistics(mean=[x]),
    "histogram": lambda x: table().statistics(histogram={"age": x}),
    "quantile": lambda x: table().quantiles({"age": x}),
    "keys per person": lambda x: table().select_partitions("sex", delta=1e-6, max_keys_per_person=x),
    "delta": lambda x: table().select_partitions("sex", delta=x),
    "budget": lambda x: table().statistics(count=True).plan(x),
    "mechanism": lambda x: table().statistics(count=True).plan(inid.PureDP(1.0), mechanism=x),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("foreign", FOREIGN)
def test_no_message_prints_a_value_of_a_table(call, foreign):
    assert PLACE not in said_to(CALLS[call], FOREIGN[foreign])


NUMBER = 987654
COLUMNS = {
    "twice": [3, NUMBER, NUMBER],
    "falling": [NUMBER, 3],
    "floats": [0.5, NUMBER + 0.5, 1.5],
    "mixed": ["F", NUMBER],
    "far": [3, NUMBER * 10**30],
    "missing": [NUMBER + 0.5, np.nan],
}
LISTS = ("domain", "ordered", "categories", "by keys", "histogram")


@pytest.mark.parametrize("call", LISTS)
@pytest.mark.parametrize("column", COLUMNS)
@pytest.mark.parametrize("kind", ["list", "array", "series"])
def test_lists_of_keys_and_edges_are_refused_by_place_and_type(call, column, kind):
    """The values of a column may have been passed by mistake, as an array or as a list."""
    values = COLUMNS[column]
    made = {"list": values, "array": np.array(values, dtype=object), "series": pd.Series(values)}[kind]
    assert str(NUMBER) not in said_to(CALLS[call], made)


def test_a_series_by_mistake_is_called_by_its_type():
    with pytest.raises(inid.ArgumentError, match="where takes a condition, got <Series>"):
        table().where(FOREIGN["comparison"])
