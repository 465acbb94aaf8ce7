"""Naming a number never makes it worse: `inid.tables.error_targets`, for every kind of question.

Laplace noise on many tables is tested before least squares, which the statement is about; what least squares gives back
on top of it is not monotone.
"""

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import inid
from example_counts import examples
from inid import tables

FRAME = pd.DataFrame({"a": ["x"], "b": [1], "c": [1], "v": [1.0], "w": [2.0], "u": [1]})
GROUPINGS = [(), ("a",), ("b",), ("c",), ("a", "b"), ("b", "c"), ("a", "b", "c")]
PROMISES = [inid.ApproxDP(1.0, 1e-6), inid.PureDP(0.5), inid.GaussianDP(0.4)]
_SLACK = 1 + 2e-4  # of the least maximum, which is found up to that


@st.composite
def tables_of_people(draw):
    facts = {
        "bounds": {"v": (0, draw(st.sampled_from([1, 1000]))), "w": (-5, 5)},
        "domains": {"a": ["x", "y"], "b": range(draw(st.sampled_from([2, 5]))), "c": range(3)},
        "neighbours": draw(st.sampled_from(["add_remove", "replace"])),
        "rows": draw(st.sampled_from([10, 1000, 100_000])),
    }
    if draw(st.booleans()):
        facts["missing"] = {"v": 0.5, "w": 0}
    if draw(st.booleans()):
        facts["unit"] = tables.Person("u", draw(st.sampled_from([1, 3])))
    return tables.Table(FRAME, **facts)


@st.composite
def statistics(draw):
    asked = {
        "count": draw(st.booleans()),
        "mean": draw(st.sampled_from([["v"], ["v", "w"]])),
        "sum": draw(st.sampled_from([[], ["w"], ["v", "w"]])),
        "variance": draw(st.sampled_from([[], ["v"]])),
        "covariance": draw(st.sampled_from([[], [], ["v", "w"]])),
        "by": draw(st.sampled_from([{}, {"a": ["x", "y"]}])),
    }
    query = draw(tables_of_people()).statistics(**asked)
    return query, {s.label: at for at, s in enumerate(query.layout.statistics)}, {}


@st.composite
def many_tables(draw):
    some = st.lists(st.sampled_from(GROUPINGS), min_size=1, max_size=4, unique=True)
    asked = {"count": draw(some.filter(any))}
    if draw(st.booleans()):
        asked |= {"mean": {"v": draw(some)}}
    query = draw(tables_of_people()).marginals(**asked)
    places = {(s.name, s.table): at for at, s in enumerate(query.question.statistics)}
    return query, places, {"objective": draw(st.sampled_from(["max", "sum"]))}


@st.composite
def ordered(draw):
    asked = draw(
        st.sampled_from(
            [{"cdf": {"v": [()], "w": [("a",)]}}, {"quantile": {"v": [0.5], "w": [0.1, 0.9]}, "by": {"a": ["x", "y"]}}]
        )
    )
    query = draw(tables_of_people()).quantiles(**asked)
    return query, {table.column: at for at, table in enumerate(query.question.tables)}, {}


def errors(plan):
    """The error of each number; of many tables under Laplace noise, that of the noise itself."""
    if plan.question.kind == "marginals" and plan.mechanism == "laplace":
        question = plan.question.with_offset(0.0)
        return np.sqrt(2 * question.workload.gathered(np.square(question.scales(plan.noise)))).tolist()
    return [number.std for number in plan.planned_numbers()]


def is_proved(plan, options):
    """Least maxima of Laplace noise are made in proportion to tolerances, which is exact for one table per number."""
    return not (plan.mechanism == "laplace" and options.get("objective") == "max" and plan.question.summed)


factors = st.sampled_from([1e-3, 0.1, 0.5, 0.99, 1.01, 2.0, 100.0])


@examples(40, 2000)
@given(st.data(), st.one_of(statistics(), many_tables(), ordered()), st.sampled_from(PROMISES))
def test_naming_one_more_number_never_makes_it_worse(data, asked, promise):
    query, places, options = asked
    assume(len(places) > 1)
    number, *others = data.draw(st.permutations(sorted(places, key=str)))
    equal = query.question.equal(promise)
    named = {key: data.draw(factors) * equal[places[key]] for key in others[: data.draw(st.integers(1, 2))]}
    factor = data.draw(factors)
    before = query.plan(promise, tolerance=named, **options)
    after = query.plan(promise, tolerance=named | {number: factor * equal[places[number]]}, **options)
    at = places[number]
    if before.mechanism == after.mechanism and is_proved(after, options):
        assert errors(after)[at] <= errors(before)[at] * _SLACK
    elif before.mechanism != after.mechanism:
        assert after.planned_numbers()[at].std <= before.planned_numbers()[at].std * _SLACK
    if factor > 1:
        assert errors(after) == pytest.approx(errors(before), rel=1e-9)


@examples(20, 1000)
@given(st.one_of(statistics(), many_tables(), ordered()), st.sampled_from(PROMISES), st.data())
def test_an_equal_part_is_what_a_number_would_have_by_itself(asked, promise, data):
    """t_0 against a query that asks for nothing else, under an equal part of the promise, with the better noise."""
    query, places, _ = asked
    key = data.draw(st.sampled_from(sorted(places, key=str)))
    alone = query.question.only(query.question.statistics[places[key]]) if isinstance(key, tuple) else None
    assume(alone is not None and key[1])
    parts = [inid.PureDP(promise.epsilon / len(places))] if hasattr(promise, "epsilon") else []
    if not isinstance(promise, inid.PureDP):
        parts.append(inid.GaussianDP(promise.gaussian_mu / math.sqrt(len(places))))
    else:
        assert len(parts) == 1
    found = [tables.Query(query.table, alone).plan(part, objective="sum").planned_numbers()[0].std for part in parts]
    assert query.question.equal(promise)[places[key]] <= min(found) * (1 + 1e-6)
