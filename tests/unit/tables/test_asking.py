"""The methods of a table state the plans and results that the kinds of questions have."""

import inspect
import typing

import pandas as pd
import pytest

import inid
from inid import tables
from inid.tables import Asking
from internals import module_with

asking = module_with("inid.tables", "Asking")
question = module_with("inid.tables", "Question")

FRAME = pd.DataFrame({"age": [31.0, 44.0, 58.0] * 40, "sex": ["F", "M", "F"] * 40, "zip": ["a", "b", "a"] * 40})
TABLE = tables.Table(FRAME, bounds={"age": (0, 100)}, domains={"sex": ["F", "M"], "zip": ["a", "b"]})
KEYS = {"sex": ["F", "M"]}
ASKED = {
    "statistics": {"count": True, "mean": ["age"], "by": KEYS},
    "marginals": {"count": [("sex",)], "mean": {"age": [("sex",)]}},
    "quantiles": {"quantile": {"age": [0.5]}, "by": KEYS},
    "largest_group": {"by": KEYS},
    "select_partitions": {"column": "zip", "delta": 1e-8},
    "synthesize": {"columns": ["sex", "zip"]},
}


@pytest.mark.parametrize("name", ASKED)
def test_a_method_returns_what_it_says(name):
    query = getattr(TABLE, name)(**ASKED[name])
    plan = query.plan(inid.ApproxDP(1.0, 1e-6))
    with inid.testing.unsafe_seed(5):
        result = query.release(plan)
    said = inspect.signature(getattr(Asking, name)).return_annotation
    if said != f"Query[{type(plan).__name__}, {type(result).__name__}]":  # a query with methods of its own
        assert said == type(query).__name__
        (base,) = type(query).__orig_bases__
        assert [one.__name__ for one in typing.get_args(base)] == [type(plan).__name__, type(result).__name__]


def test_every_kind_has_a_method_and_every_method_a_kind():
    methods = {name for name, value in vars(Asking).items() if inspect.isfunction(value) and name[0] != "_"}
    assert methods == set(ASKED) == {kind.method for kind in question.kinds()}


def test_the_methods_ask_as_the_names_of_kinds_do():
    unlimited = tables.Table(FRAME, unit=tables.Person("zip", contribution=tables.Private()))
    for kind in question.kinds():
        table, asked = (TABLE, ASKED[kind.method]) if kind.kind != "clipped_total" else (unlimited, {"count": True})
        own, named = getattr(table, kind.method)(**asked), tables.ask(table, kind.kind, **asked)
        assert own.question.to_dict() == named.question.to_dict()
    with pytest.raises(inid.ArgumentError, match=r"no kind of question is called 'median'.*statistics"):
        tables.ask(TABLE, "median", column="age")


def test_what_a_method_does_not_take_is_refused_by_its_name():
    with pytest.raises(inid.ArgumentError, match="statistics takes no 'counts'"):
        TABLE.statistics(counts=True)
    with pytest.raises(TypeError):
        TABLE.quantiles({"age": [0.5]}, count=True)
    for nothing in ({}, {"quantile": {}}, {"cdf": None, "by": KEYS}):
        with pytest.raises(inid.ArgumentError, match="asks for nothing"):
            TABLE.quantiles(**nothing)
    with pytest.raises(inid.ArgumentError, match="no table over a column"):
        TABLE.marginals()


def test_kinds_are_imported_for_type_checkers_alone():
    assert not hasattr(asking, "MarginalsPlan")
