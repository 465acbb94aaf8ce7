"""The text of a flag: read as it was meant, or refused; written so that it reads as before."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inid.errors import ArgumentError
from inid.jobs import flag_syntax as syntax


@pytest.mark.parametrize(
    ("read", "text"),
    [
        (syntax.intervals, "age"),
        (syntax.intervals, "age=0"),
        (syntax.intervals, "age=0:1:2"),
        (syntax.intervals, "=0:1"),
        (syntax.intervals, "a=0:1,a=0:2"),
        (syntax.named_numbers, "a=1,2"),
        (syntax.named_numbers, "a=1,a=2"),
        (syntax.keys, "F,M"),
        (syntax.keys, "sex=F,sex=M"),
    ],
)
def test_malformed_texts_are_refused_by_name(read, text):
    with pytest.raises(ArgumentError, match="--flag"):
        read("--flag", text)


def test_a_name_may_hold_an_equals_sign_where_the_value_is_a_number():
    assert syntax.intervals("--bounds", "a=b=0:1") == {"a=b": ["0", "1"]}
    assert syntax.named_numbers("--tolerance", "mean(age)=1") == {"mean(age)": "1"}


KEYS = st.one_of(st.lists(st.integers(-99, 9999), min_size=1), st.lists(st.text(min_size=1), min_size=1))


@given(st.dictionaries(st.text(min_size=1), KEYS, min_size=1))
def test_keys_that_are_written_read_as_before_or_are_refused(value):
    try:
        text = syntax.written("--by", value, syntax.keys)
    except ArgumentError:
        return
    read = syntax.keys("--by", text)
    assert read == value
    assert [[type(key) for key in keys] for keys in read.values()] == [
        [type(key) for key in keys] for keys in value.values()
    ]


@pytest.mark.parametrize(
    ("read", "value", "text"),
    [
        (syntax.intervals, {"age": [0, 100], "x": [-0.5, 1e6]}, "age=0:100,x=-0.5:1000000.0"),
        (syntax.keys, {"sex": ["F", "M"], "year": [2020, 2021]}, "sex=F,M,year=2020,2021"),
        (syntax.keys, {"code": ["1", "2"]}, "code='1','2'"),
        (syntax.cells, {"age": [0, 17.5, 100]}, "age=0,17.5,100"),
        (syntax.cells, {"age": 40, "sex": "F"}, "age=40,sex=F"),
        (syntax.named_numbers, {"mean(age)": 1.5}, "mean(age)=1.5"),
        (syntax.named_numbers, [1, 500], "1,500"),
        (syntax.names, ["age", "income"], "age,income"),
        (syntax.names, [1.0, 3.0], "1.0,3.0"),
    ],
)
def test_ordinary_values_are_written_as_people_write_them(read, value, text):
    assert syntax.written("--flag", value, read) == text


@pytest.mark.parametrize(
    ("read", "value"),
    [
        (syntax.names, ["a,b"]),
        (syntax.keys, {"sex": ["F,M"]}),
        (syntax.keys, {"a=b": ["F"]}),
        (syntax.keys, {"x": [True]}),
    ],
)
def test_what_cannot_be_written_is_refused(read, value):
    with pytest.raises(ArgumentError, match="TOML"):
        syntax.written("--flag", value, read)
