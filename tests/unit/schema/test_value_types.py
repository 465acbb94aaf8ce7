"""Values of a configuration are read as they were meant, or refused by the name of their key."""

from decimal import Decimal

import pytest

from inid.errors import ArgumentError
from inid.schema import (
    Cells,
    File,
    Fills,
    Intervals,
    Keys,
    Names,
    Number,
    Numbers,
    NumbersByName,
    Switch,
    Word,
    keys,
    positive,
    probability,
    whole,
)


@pytest.mark.parametrize(
    ("kind", "text", "plain"),
    [
        (Names(), "age, income,", ["age", "income"]),
        (Intervals(), "a=0:100,b=-1e3:1.5", {"a": [0, 100], "b": [Decimal("-1e3"), Decimal("1.5")]}),
        (NumbersByName(), "a=1,b=.5", {"a": 1, "b": "0.5"}),
        (Numbers(), "1,3,40", [1, 3, 40]),
        (Keys(), "sex=F,M,year=2020,2021", {"sex": ["F", "M"], "year": [2020, 2021]}),
        (Cells(), "age=0,20.5,sex=F,M", {"age": [0, Decimal("20.5")], "sex": ["F", "M"]}),
    ],
)
def test_texts_of_flags_and_values_of_files_read_alike(kind, text, plain):
    assert kind.read("key", kind.from_text("--flag", text)) == kind.read("key", plain)


def test_names_that_a_flag_cannot_hold_can_be_written_in_a_file():
    odd = "a=b, c"
    assert Names().read("mean", [odd]) == (odd,)
    assert Intervals().read("bounds", {odd: [0, 1]}) == {odd: (0.0, 1.0)}
    assert Keys().read("by", {odd: ["x,y", "2020"]}) == {odd: ("x,y", "2020")}


def test_a_promise_keeps_every_digit_that_was_written():
    assert Number().read("epsilon", "0.10000000000000000001") == Decimal("0.10000000000000000001")
    assert Number().read("epsilon", 1) == 1


@pytest.mark.parametrize("key", keys(), ids=lambda key: key.name)
def test_what_is_not_stated_is_nothing(key):
    if key.name == "periods":
        with pytest.raises(ArgumentError, match="periods is missing"):
            key.type.read("periods", None)
    else:
        assert key.type.read(key.name, None) == key.type.nothing


@pytest.mark.parametrize("text", ["", "x", "nan", "inf", "1,2", "1e", True, [1], {"a": 1}, float("nan")])
def test_what_is_no_number_is_refused(text):
    with pytest.raises(ArgumentError, match="epsilon"):
        Number().read("epsilon", text)


@pytest.mark.parametrize("text", ["0", "1", "0.99999999999999999999", "1e-400", "-0.5", 2])
def test_what_is_no_probability_even_as_a_float_is_refused(text):
    with pytest.raises(ArgumentError, match="level"):
        probability("0.95").read("level", text)


@pytest.mark.parametrize("text", ["0", "-1", "1e400", "1e-400"])
def test_what_is_not_above_0_even_as_a_float_is_refused(text):
    with pytest.raises(ArgumentError, match="epsilon does not fit"):
        positive("1").read("epsilon", text)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (Names(), 5),
        (Names(), "age"),
        (Names(), ["a", 5]),
        (Names(), [""]),
        (Intervals(), ["age"]),
        (Intervals(), {"age": [0]}),
        (Intervals(), {"age": 1}),
        (Intervals(), {"age": [1, 0]}),
        (Intervals(), {"age": [0, "x"]}),
        (Intervals(), {"age": [0, "1e999"]}),
        (Intervals(), {"": [0, 1]}),
        (NumbersByName(), {"a": "x"}),
        (Keys(), ["F"]),
        (Keys(), {"sex": [["F"]]}),
        (Keys(), {"sex": []}),
        (Fills(), {"age": [1, 2]}),
        (Switch(), "yes"),
        (Word(), ""),
        (File(), 5),
        (whole(), "1.5"),
        (whole(), "1e999999"),
    ],
)
def test_malformed_values_are_refused_by_name(kind, value):
    with pytest.raises(ArgumentError, match="the key"):
        kind.read("the key", value)
