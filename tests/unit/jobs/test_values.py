"""Values of a configuration are read as they were meant, or refused by the name of their key."""

from decimal import Decimal

import pytest

from inid.errors import ArgumentError
from inid.jobs import flag_syntax, values


def test_texts_of_flags_and_values_of_files_read_alike():
    def flag(syntax, text):
        return syntax("--flag", text)

    assert values.names("mean", flag(flag_syntax.names, "age, income,")) == values.names("mean", ["age", "income"])
    bounds = {"a": [0, 100], "b": [Decimal("-1e3"), Decimal("1.5")]}
    assert values.intervals_by_column("bounds", flag(flag_syntax.intervals, "a=0:100,b=-1e3:1.5")) == (
        values.intervals_by_column("bounds", bounds)
    )
    assert values.numbers_by_name("tolerance", flag(flag_syntax.named_numbers, "a=1,b=.5")) == (
        values.numbers_by_name("tolerance", {"a": 1, "b": "0.5"})
    )
    assert values.numbers("sensitivity", flag(flag_syntax.names, "1,3,40")) == values.numbers("sensitivity", [1, 3, 40])
    by = {"sex": ["F", "M"], "year": [2020, 2021]}
    assert values.keys_by_column("by", flag(flag_syntax.keys, "sex=F,M,year=2020,2021")) == (
        values.keys_by_column("by", by)
    )
    cells = {"age": [0, Decimal("20.5")], "sex": ["F", "M"]}
    assert values.cells_by_column("histogram", flag(flag_syntax.cells, "age=0,20.5,sex=F,M")) == (
        values.cells_by_column("histogram", cells)
    )


def test_names_that_a_flag_cannot_hold_can_be_written_in_a_file():
    odd = "a=b, c"
    assert values.names("mean", [odd]) == (odd,)
    assert values.intervals_by_column("bounds", {odd: [0, 1]}) == {odd: (0.0, 1.0)}
    assert values.keys_by_column("by", {odd: ["x,y", "2020"]}) == {odd: ("x,y", "2020")}


def test_a_promise_keeps_every_digit_that_was_written():
    assert values.number("epsilon", "0.10000000000000000001") == Decimal("0.10000000000000000001")
    assert values.number("epsilon", 1) == 1
    assert values.number("epsilon", None) is None


@pytest.mark.parametrize("text", ["", "x", "nan", "inf", "1,2", "1e", True, [1], {"a": 1}, float("nan")])
def test_what_is_no_number_is_refused(text):
    with pytest.raises(ArgumentError, match="epsilon"):
        values.number("epsilon", text)


@pytest.mark.parametrize("text", ["0", "1", "0.99999999999999999999", "-0.5", 2])
def test_what_is_no_probability_even_as_a_float_is_refused(text):
    with pytest.raises(ArgumentError, match="level"):
        values.probability("level", text, "0.95")


@pytest.mark.parametrize(
    ("read", "value"),
    [
        (values.names, 5),
        (values.names, "age"),
        (values.names, ["a", 5]),
        (values.names, [""]),
        (values.intervals_by_column, ["age"]),
        (values.intervals_by_column, {"age": [0]}),
        (values.intervals_by_column, {"age": 1}),
        (values.intervals_by_column, {"age": [1, 0]}),
        (values.intervals_by_column, {"age": [0, "x"]}),
        (values.intervals_by_column, {"age": [0, "1e999"]}),
        (values.intervals_by_column, {"": [0, 1]}),
        (values.numbers_by_name, {"a": "x"}),
        (values.keys_by_column, ["F"]),
        (values.keys_by_column, {"sex": [["F"]]}),
        (values.keys_by_column, {"sex": []}),
        (values.fills_by_column, {"age": [1, 2]}),
        (values.switch, "yes"),
        (values.word, ""),
        (values.path, 5),
        (values.whole, "1.5"),
        (values.whole, "1e999999"),
    ],
)
def test_malformed_values_are_refused_by_name(read, value):
    with pytest.raises(ArgumentError, match="the key"):
        read("the key", value)
