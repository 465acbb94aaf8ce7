"""No message prints an entry of an array: a column of a table may have been passed by mistake, as any argument."""

import math

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import inid
from inid import learn, tables

NUMBER = 987654
ENTRIES = {
    "falling pair": [NUMBER, 3.0],
    "falling": [NUMBER, 3.0, 2.0],
    "equal": [NUMBER, NUMBER],
    "negative": [3.0, -NUMBER, 1.0],
    "NaN": [NUMBER, math.nan, 1.0],
    "infinite": [1.0, NUMBER, math.inf],
    "alone": [NUMBER],
    "fractions": [NUMBER + 0.5, 3.5],
}
KINDS = {
    "array": lambda values: np.array(values, dtype=np.float64),
    "single precision": lambda values: np.array(values, dtype=np.float32),
    "objects": lambda values: np.array(values, dtype=object),
    "matrix": lambda values: np.array([values, values], dtype=np.float64),
    "pair of arrays": lambda values: (np.array(values), np.array(values)),
    "list of entries": lambda values: list(np.array(values, dtype=np.float64)),
    "series": pd.Series,
    "polars": lambda values: pl.Series(values, dtype=pl.Float64),
    "arrow": pa.array,
}
BOX = inid.Sensitivity.box([1.0, 2.0, 3.0])
PURE = inid.PureDP(1.0)


def table():
    return tables.Table(pd.DataFrame({"age": [1.0], "sex": ["F"]}), bounds={"age": (0, 9)}, domains={"sex": ["F"]})


def fitted(**more):
    stated = {"budget": PURE, "bounds": (0, 1), "bounds_y": (0, 1)} | more
    return learn.PrivateRidge(**stated).fit(np.zeros((4, 2)), np.zeros(4))


CALLS = {
    "box": inid.Sensitivity.box,
    "l1": lambda x: inid.Sensitivity.box([1.0, 2.0], l1=x),
    "counts": lambda x: inid.Sensitivity.box([1.0, 2.0, 3.0], counts=x),
    "labels": lambda x: inid.Sensitivity.box([1.0, 2.0, 3.0], labels=x),
    "ball": lambda x: inid.Sensitivity.ball(dimension=3, l2=x),
    "sizes": lambda x: inid.Sensitivity.groups(sizes=x, l2=[1.0, 2.0, 3.0]),
    "groups": lambda x: inid.Sensitivity.groups(sizes=[1, 2, 3], l2=x),
    "ellipsoid": inid.Sensitivity.ellipsoid,
    "weights": lambda x: inid.plan(BOX, PURE, weights=x),
    "tolerance": lambda x: inid.plan(BOX, PURE, tolerance=x),
    "accuracy": lambda x: inid.plan_for_accuracy(BOX, x, failure=0.05),
    "failure": lambda x: inid.plan_for_accuracy(BOX, [1.0, 1.0, 1.0], failure=x),
    "epsilon": inid.PureDP,
    "curve by epsilon": lambda x: inid.plan(BOX, PURE).delta(x),
    "curve by delta": lambda x: inid.plan(BOX, PURE).epsilon(x),
    "values": lambda x: inid.release(x, inid.plan(BOX, PURE)),
    "level": lambda x: inid.release([1.0, 2.0, 3.0], inid.plan(BOX, PURE)).interval(x),
    "gini": inid.gini,
    "majorizes": lambda x: inid.majorizes(x, [1.0]),
    "bounds": lambda x: tables.Table(pd.DataFrame({"age": [1.0]}), bounds={"age": x}),
    "missing": lambda x: tables.Table(pd.DataFrame({"age": [1.0]}), bounds={"age": (0, 9)}, missing={"age": x}),
    "quantile": lambda x: table().quantiles({"age": x}),
    "cdf": lambda x: table().quantiles(cdf={"age": x}),
    "mean": lambda x: table().statistics(mean=x),
    "bins": lambda x: table().statistics(histogram={"age": x}),
    "tolerance of a mean": lambda x: table().statistics(mean=["age"]).plan(PURE, tolerance={"age": x}),
    "bounds of a fit": lambda x: fitted(bounds=x),
    "bounds of a target": lambda x: fitted(bounds_y=x),
    "penalty": lambda x: fitted(alpha=x),
}


def said_to(call, argument):
    """The message of a call that fails; nothing, where it does not."""
    try:
        call(argument)
    except Exception as error:  # noqa: BLE001 - whoever raises it
        return str(error)
    return ""


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("kind", KINDS)
def test_no_message_prints_a_number_of_an_array(call, kind):
    for entries in ENTRIES.values():
        said = said_to(CALLS[call], KINDS[kind](entries))
        assert str(NUMBER) not in said.replace(",", "")
        assert f"{NUMBER:g}" not in said


@pytest.mark.parametrize(
    ("method", "argument"), [("statistics", "mean"), ("statistics", "sum"), ("marginals", "count")]
)
def test_columns_that_are_named_twice_are_named_by_their_places(method, argument):
    """The values of a column may have been passed as a list."""
    said = said_to(lambda x: getattr(table(), method)(**{argument: x}), ["Zanzibar", "Zanzibar"])
    assert said
    assert "Zanzibar" not in said


def test_what_was_written_as_a_list_is_shown():
    with pytest.raises(inid.ArgumentError, match=r"tolerance\[1\] .* got -2\.5"):
        inid.plan(BOX, PURE, tolerance=[1.0, -2.5, 1.0])
    with pytest.raises(inid.ArgumentError, match=r"got \(5, 3\): swap"):
        tables.Table(pd.DataFrame({"age": [1.0]}), bounds={"age": (5, 3)})
    with pytest.raises(inid.ArgumentError, match=r"column 0 .* got \(5, 3\)"):
        fitted(bounds=(5, 3))
