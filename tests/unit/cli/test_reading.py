"""What users write is read as they meant it, or refused in a sentence."""

from decimal import Decimal

import pytest

from inid.cli import reading
from inid.errors import ArgumentError


def test_texts_and_file_values_read_alike():
    assert reading.words("mean", "age, income,") == reading.words("mean", ["age", "income"]) == ["age", "income"]
    assert reading.intervals("bounds", "a=0:100,b=-1e3:1.5") == reading.intervals(
        "bounds", {"a": [0, 100], "b": [Decimal("-1e3"), Decimal("1.5")]}
    )
    assert reading.named_numbers("tolerance", "a=1,b=.5") == reading.named_numbers("tolerance", {"a": 1, "b": "0.5"})
    assert reading.numbers("sensitivity", "1,3,40") == reading.numbers("sensitivity", [1, 3, 40])
    assert reading.keys("by", "sex=F,M,year=2020,2021") == reading.keys("by", {"sex": ["F", "M"], "year": [2020, 2021]})
    assert reading.cells("histogram", "age=0,20.5,sex=F,M") == reading.cells(
        "histogram", {"age": [0, Decimal("20.5")], "sex": ["F", "M"]}
    )


def test_names_that_a_text_cannot_hold_can_be_written_in_a_file():
    odd = "a=b, c"
    assert reading.words("mean", [odd]) == [odd]
    assert reading.intervals("bounds", {odd: [0, 1]}) == {odd: (0.0, 1.0)}
    assert reading.keys("by", {odd: ["x,y", "2020"]}) == {odd: ["x,y", "2020"]}


def test_a_name_may_hold_an_equals_sign_where_the_value_is_a_number():
    assert reading.intervals("bounds", "a=b=0:1") == {"a=b": (0.0, 1.0)}
    assert reading.named_numbers("tolerance", "mean(age)=1") == {"mean(age)": 1.0}


def test_a_promise_keeps_every_digit_that_was_written():
    assert reading.number("epsilon", "0.10000000000000000001") == Decimal("0.10000000000000000001")
    assert reading.number("epsilon", 1) == 1
    assert reading.number("epsilon", None) is None


@pytest.mark.parametrize("text", ["", "x", "nan", "inf", "1,2", "1e", True, [1], {"a": 1}])
def test_what_is_no_number_is_refused(text):
    with pytest.raises(ArgumentError, match="epsilon"):
        reading.number("epsilon", text)


@pytest.mark.parametrize(
    ("read", "value"),
    [
        (reading.words, 5),
        (reading.words, ["a", 5]),
        (reading.words, [""]),
        (reading.intervals, "age"),
        (reading.intervals, "age=0"),
        (reading.intervals, "age=0:1:2"),
        (reading.intervals, "=0:1"),
        (reading.intervals, "age=0:x"),
        (reading.intervals, ["age"]),
        (reading.intervals, {"age": [0]}),
        (reading.intervals, {"age": 1}),
        (reading.intervals, "a=0:1,a=0:2"),
        (reading.named_numbers, "a=1,2"),
        (reading.named_numbers, "a=x"),
        (reading.named_numbers, "a=1,a=2"),
        (reading.keys, "F,M"),
        (reading.keys, ["F"]),
        (reading.keys, "sex=F,sex=M"),
        (reading.keys, {"sex": [["F"]]}),
        (reading.fills, "age=1,2"),
        (reading.switch, "yes"),
        (reading.word, ""),
        (reading.whole, "1.5"),
    ],
)
def test_malformed_values_are_refused_by_name(read, value):
    with pytest.raises(ArgumentError, match="the option"):
        read("the option", value)
