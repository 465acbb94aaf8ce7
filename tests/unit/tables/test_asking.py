"""The overloads of `Table.query` state the plans and results that the kinds of questions have."""

import inspect
import typing

import pandas as pd
import pytest

import inid
from inid import tables
from inid.tables import Asking
from internals import module_with

asking = module_with("inid.tables", "Asking")

FRAME = pd.DataFrame({"age": [31.0, 44.0, 58.0] * 40, "sex": ["F", "M", "F"] * 40, "zip": ["a", "b", "a"] * 40})
TABLE = tables.Table(FRAME, bounds={"age": (0, 100)}, domains={"sex": ["F", "M"], "zip": ["a", "b"]})
KEYS = {"sex": ["F", "M"]}
ASKED = {
    "statistics": {"count": True, "mean": ["age"], "by": KEYS},
    "marginals": {"marginals": [("sex",)], "mean": {"age": [("sex",)]}},
    "counts": {"count": [("sex",), ("zip",)]},
    "quantiles": {"quantile": {"age": [0.5]}, "by": KEYS},
    "distribution": {"cdf": {"age": [()]}},
    "running": {"cumulative": {"age": [()]}},
    "choice": {"choose": KEYS},
    "found keys": {"count": True, "by": {"zip": tables.discover(delta=1e-8)}},
    "synthetic": {"synthetic": ["sex", "zip"]},
}


def stated(asked):
    """What the first overload that fits returns, by the names of its arguments and whether keys are to be found."""
    finds = any(type(keys).__name__ == "KeySelection" for keys in asked.get("by", {}).values())
    for one in typing.get_overloads(Asking.query):
        own = {name: p for name, p in inspect.signature(one).parameters.items() if name != "self"}
        needed = {name for name, p in own.items() if p.default is p.empty and p.kind is p.KEYWORD_ONLY}
        kind = str(own["count"].annotation) if "count" in own else ""
        fits = needed <= asked.keys() <= own.keys() and ("KeySelection" in str(own.get("by"))) == finds
        if fits and not ("count" in asked and isinstance(asked["count"], list) and "Sequence" not in kind):
            return inspect.signature(one).return_annotation
    raise AssertionError("no overload fits")


@pytest.mark.parametrize("name", ASKED)
def test_an_overload_returns_what_it_says(name):
    query = TABLE.query(**ASKED[name])
    promise = inid.ApproxDP(1.0, 1e-6)
    plan = query.plan(promise)
    with inid.testing.unsafe_seed(5):
        result = query.release(plan)
    made = f"Query[{type(plan).__name__}, {type(result).__name__}]"
    said = stated(ASKED[name])
    if said != made:  # a query with methods of its own, whose base says it
        assert said == type(query).__name__
        (base,) = type(query).__orig_bases__
        assert [one.__name__ for one in typing.get_args(base)] == [type(plan).__name__, type(result).__name__]


def test_the_last_overload_has_the_arguments_of_the_method_and_promises_no_kind():
    *_, last = typing.get_overloads(Asking.query)
    assert list(inspect.signature(last).parameters) == list(inspect.signature(Asking.query).parameters)
    assert inspect.signature(last).return_annotation == "Query[Any, Any]"


def test_kinds_are_imported_for_type_checkers_alone():
    assert not hasattr(asking, "MarginalsPlan")
