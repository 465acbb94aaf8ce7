"""Expressions: their text and back, and what is refused, before anything is read."""

import datetime as dt

import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import inid
from inid import tables
from inid.errors import ArgumentError, RecordError
from inid.tables import View, col, expression, maximum, minimum, when
from inid.tables.questions.statistics import Statistics

FRAME = pd.DataFrame(
    {"age": [31.0, 17.0], "sex": ["F", "M"], "body mass": [70.0, 60.0], "born": pd.to_datetime(["2001-02-03", None])}
)
names = st.sampled_from(["age", "x1", "body mass", "and", "é", "col", "it's", 'a"b'])
numbers = st.one_of(st.integers(-(2**60), 2**60), st.floats(-1e100, 1e100, allow_nan=False))
columns = st.builds(col, names)


def _joined(operator, one, two):
    return {"+": lambda: one + two, "-": lambda: one - two, "*": lambda: one * two, "/": lambda: one / two}.get(
        operator, lambda: (minimum if operator == "min" else maximum)(one, two)
    )()


def _compared(operator, one, two):
    made = {"<": one.__lt__, "<=": one.__le__, ">": one.__gt__, ">=": one.__ge__, "==": one.__eq__, "!=": one.__ne__}
    return made[operator](two)


values = st.recursive(
    columns,
    lambda inner: st.one_of(
        st.builds(_joined, st.sampled_from(["+", "-", "*", "/", "min", "max"]), inner, st.one_of(inner, numbers)),
        st.builds(lambda x, y: y - x, inner, numbers),
        st.builds(abs, inner),
        st.builds(lambda x: x.floor(), inner),
        st.builds(lambda c, x: when(c > 1, x, 2.5), columns, inner),
    ),
    max_leaves=6,
)
simple = st.one_of(
    st.builds(_compared, st.sampled_from(["<", "<=", ">", ">=", "==", "!="]), values, st.one_of(values, numbers)),
    st.builds(lambda c, text: c == text, columns, st.sampled_from(["F", "it's", 'say "x"', "\\", "\n"])),
    st.builds(lambda c, day: c >= day, columns, st.dates()),
    st.builds(lambda c, keys: c.is_in(keys), columns, st.lists(st.integers(-9, 9), min_size=1, unique=True)),
    st.builds(lambda c, kind: c.is_missing(kind), columns, st.sampled_from(["number", "text", "date", "truth"])),
)
conditions = st.recursive(
    simple,
    lambda inner: st.one_of(
        st.builds(lambda a, b: a & b, inner, inner),
        st.builds(lambda a, b: a | b, inner, inner),
        st.builds(lambda a: ~a, inner),
    ),
    max_leaves=6,
)


def same(one, two):
    """Equal piece by piece: `==` makes a condition of two expressions."""
    if type(one) is not type(two):
        return False
    if isinstance(one, tables.Expression):
        return all(same(getattr(one, name), getattr(two, name)) for name in one.__dataclass_fields__)
    return one == two


@given(st.one_of(values, conditions))
def test_the_text_of_an_expression_is_read_as_the_same_expression(made):
    assert same(expression(str(made)), made), str(made)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("age >", "does not parse"),
        ("age", "takes a condition"),
        ("age + 1", "takes a condition"),
        ("Age >= 18", "'Age', which the table lacks: did you mean 'age'"),
        ("income > 3", "the table lacks"),
        ("sex > 3", "not numbers"),
        ("sex in [1, 2]", "holds"),
        ("age >= '18'", "== and != only"),
        ("age >= date('2020-01-01')", "as a date"),
        ("3 < 4", "names no column"),
        ("year(age) > 3", "as a date"),
        ("age > 1e200", "2\\^500"),
        ("age not in [3]", "do not have"),
        ("x" * 20_000, "at most 10000 letters"),
        (" + ".join(["age"] * 250) + " > 1", "at most 200 parts"),
    ],
)
def test_conditions_that_do_not_fit_are_refused(text, words):
    frame = pl.from_pandas(FRAME)
    with pytest.raises(ArgumentError, match=words):
        tables.Table(frame).where(text)


def test_python_slips_are_refused():
    for slip in (
        lambda: col("age") > 3 and col("age") < 5,
        lambda: not col("age"),
        lambda: 3 < col("age") < 5,
        lambda: col("born") > dt.datetime(2020, 1, 1, tzinfo=dt.UTC),
        lambda: when(col("age") > 1, "a", 2),
        lambda: when(col("age") > 1, "a", "b") + 1,
        lambda: col("age") ** 0.5,
        lambda: (col("age") > 3) & True,
        lambda: col(""),
        lambda: col("age") + "x",
        lambda: col("sex").is_in("F"),
        lambda: col("age") == "half \ud800",
        lambda: col("age").is_missing("words"),
        lambda: expression(3),
    ):
        with pytest.raises(ArgumentError):
            slip()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"age": "age * 2"}, "already"),
        ({"double": "age * 2", "bounds": {"age": (0, 1)}}, "no new column"),
        ({"double": 3}, "takes a formula"),
        ({"double": "'text'"}, "takes a formula"),
        ({"word": "when(age > 1, 'a', 'b')", "bounds": {"word": (0, 1)}}, "not numbers"),
        ({"word": "when(age > 1, 'a', 'b')", "domains": {"word": [1, 2]}}, "cast one of the two"),
        ({"word": "when(age > 1, 'a', 'b')", "more": "word + 1"}, "computed as a text"),
        ({"double": "age * 2", "more": "when(double == 'x', 1, 2)"}, "computed as a number"),
    ],
)
def test_formulas_that_do_not_fit_are_refused(arguments, words):
    with pytest.raises(ArgumentError, match=words):
        tables.Table(FRAME).with_columns(**arguments)


def test_a_view_is_printed_and_recorded_and_its_record_is_read_again():
    table = tables.Table(FRAME, bounds={"age": (0, 100)}, rows=500)
    table = (
        table.with_columns(double="age * 2", bounds={"double": (0, 200)})
        .where("double > 4")
        .where("sex == 'F'", rows=80)
    )
    query = table.statistics(mean=["double"])
    plan = query.plan(inid.PureDP(1.0))
    assert plan.rows == 80
    assert "rows: double > 4 and sex == 'F'" in str(plan)
    assert "column double: age * 2" in str(plan)
    assert plan.to_dict()["where"] == "double > 4 and sex == 'F'"
    record = query.release(plan).to_dict()
    assert record["question"]["derive"] == {"double": "age * 2"}
    assert tables.verify_result(record).promise == "PureDP(epsilon=1.0)"
    read = Statistics.from_dict(record["question"])
    assert read.to_dict() == record["question"]
    assert read.rows_can_vanish
    with pytest.raises(RecordError):
        Statistics.from_dict(record["question"] | {"where": "import os"})
    assert not View()
    assert not View.from_dict({})


def test_the_table_itself_is_left_as_it_was():
    table = tables.Table(FRAME, bounds={"age": (0, 100)})
    filtered = table.where("age > 20")
    assert table.statistics(count=True).exact_sums().tolist() == [2]
    assert filtered.statistics(count=True).exact_sums().tolist() == [1]
    assert not table.rows_can_vanish
    assert filtered.rows_can_vanish
    assert filtered.under("replace").rows_can_vanish


def test_estimators_refuse_a_filtered_table_where_rows_are_public():
    from inid import learn

    facts = {"bounds": {"age": (0, 100), "mass": (0, 200)}, "neighbours": "replace"}
    table = tables.Table(FRAME.rename(columns={"body mass": "mass"}), **facts)
    model = learn.PrivateLinearRegression(budget=inid.PureDP(1.0))
    with pytest.raises(ArgumentError, match="filter"):
        model.fit(table.where("age > 3"), "mass")
