"""The text of a flag: read as it was meant, or refused; written so that it reads as before."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inid.errors import ArgumentError
from inid.schema import Cells, Fills, Intervals, Keys, Names, Numbers, NumbersByName


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (Intervals(), "age"),
        (Intervals(), "age=0"),
        (Intervals(), "age=0:1:2"),
        (Intervals(), "=0:1"),
        (Intervals(), "a=0:1,a=0:2"),
        (NumbersByName(), "a=1,2"),
        (NumbersByName(), "a=1,a=2"),
        (Keys(), "F,M"),
        (Keys(), "sex=F,sex=M"),
    ],
)
def test_malformed_texts_are_refused_by_name(kind, text):
    with pytest.raises(ArgumentError, match="--flag"):
        kind.from_text("--flag", text)


def test_a_name_may_hold_an_equals_sign_where_the_value_is_a_number():
    assert Intervals().from_text("--bounds", "a=b=0:1") == {"a=b": ["0", "1"]}
    assert NumbersByName().from_text("--tolerance", "mean(age)=1") == {"mean(age)": "1"}


KEYS = st.one_of(st.lists(st.integers(-99, 9999), min_size=1), st.lists(st.text(min_size=1), min_size=1))


@given(st.dictionaries(st.text(min_size=1), KEYS, min_size=1))
def test_keys_that_are_written_read_as_before_or_are_refused(value):
    try:
        text = Keys().to_text("--by", value)
    except ArgumentError:
        return
    read = Keys().from_text("--by", text)
    assert read == value
    assert [[type(key) for key in keys] for keys in read.values()] == [
        [type(key) for key in keys] for keys in value.values()
    ]


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        (Intervals(), {"age": [0, 100], "x": [-0.5, 1e6]}, "age=0:100,x=-0.5:1000000"),
        (Keys(), {"sex": ["F", "M"], "year": [2020, 2021]}, "sex=F,M,year=2020,2021"),
        (Keys(), {"code": ["1", "2"]}, "code='1','2'"),
        (Cells(), {"age": [0, 17.5, 100]}, "age=0,17.5,100"),
        (Fills(), {"age": 40, "sex": "F"}, "age=40,sex=F"),
        (NumbersByName(), {"mean(age)": 1.5}, "mean(age)=1.5"),
        (NumbersByName(), [1, 500], "1,500"),
        (Names(), ["age", "income"], "age,income"),
        (Numbers(), [1.0, 3.0], "1,3"),
    ],
)
def test_ordinary_values_are_written_as_people_write_them(kind, value, text):
    assert kind.to_text("--flag", value) == text


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (Names(), ["a,b"]),
        (Keys(), {"sex": ["F,M"]}),
        (Keys(), {"a=b": ["F"]}),
        (Keys(), {"x": [True]}),
    ],
)
def test_what_cannot_be_written_is_refused(kind, value):
    with pytest.raises(ArgumentError, match="TOML"):
        kind.to_text("--flag", value)


@pytest.mark.parametrize("text", ["pay=0:100,000", "age=0:110,pay=-1:2,500"])
def test_a_comma_between_thousands_of_a_limit_is_no_next_column(text):
    with pytest.raises(ArgumentError, match="thousands without commas"):
        Intervals().from_text("--bounds", text)
