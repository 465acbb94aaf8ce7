"""Totals on the page: they are the sums of what was released, and an interval is exact or there is none."""

import math
from functools import partial

import numpy as np
import pandas as pd
import pytest
from scipy.special import ndtri
from scipy.stats import binom

import inid
import inid.testing
from inid import tables
from inid.noise import grid
from inid.tables import PageFacts, Words, as_estimates, published_blocks, report_inputs

FRAME = pd.DataFrame({"sex": ["F", "M", "M"] * 40, "job": ["a", "b"] * 60, "age": range(120)})
DOMAINS = {"sex": ["F", "M"], "job": ["a", "b", "c"]}
TABLE = tables.Table(FRAME, bounds={"age": (0, 120)}, domains=DOMAINS, rows=120)
GAUSS, LAPLACE = inid.GaussianDP(0.5), inid.PureDP(1.0)


def blocks(query, budget, seed=3, **facts):
    with inid.testing.unsafe_seed(seed):
        result = query.release(query.plan(budget))
    return result, report_inputs(result, PageFacts("x", **facts)).blocks


@pytest.mark.parametrize("budget", [GAUSS, LAPLACE], ids=["gaussian", "laplace"])
def test_totals_of_counts_are_sums_with_the_law_of_independent_noises(budget):
    query = TABLE.statistics(count=True, sum=["age"], mean=["age"], by=DOMAINS)
    result, (counts, sums, means) = blocks(query, budget)
    cells = np.reshape([row.estimate for row in counts.estimates], (2, 3))
    for kept, axis in (((), None), ((0,), 1), ((1,), 0)):
        shown = [row.estimate for row in counts.totals[kept]]
        assert shown == pytest.approx(np.ravel(cells.sum(axis=axis)))
    deviation = math.sqrt(sum(row.std**2 for row in counts.estimates))
    whole = counts.totals[()][0]
    assert whole.std == pytest.approx(deviation)
    if budget is GAUSS:
        rounding = sum(float(grid(np.array([row.std]))[0]) for row in counts.estimates) / 2
        assert whole.upper - whole.estimate == pytest.approx(-ndtri(0.025) * deviation + rounding)
    assert [row.lower for rows in sums.totals.values() for row in rows] == [None] * 6  # rounding may add up: not known
    assert sums.totals[()][0].estimate == pytest.approx(sum(row.estimate for row in sums.estimates))
    assert means.totals == {}
    assert result.private is False


@pytest.mark.parametrize("budget", [GAUSS, LAPLACE], ids=["gaussian", "laplace"])
def test_intervals_of_totals_hold_the_exact_total_as_often_as_they_say(budget):
    """400 releases: a right law leaves the bounds with probability below 1e-6.

    Two twins leave them: one adds up the half widths of the cells, the other takes that of a single cell.
    """
    least, most = binom.ppf(5e-7, 400, 0.95), binom.isf(5e-7, 400, 0.95)
    query = TABLE.statistics(count=True, by=DOMAINS)
    plan = query.plan(budget)
    hits = wide = narrow = 0
    for seed in range(400):
        with inid.testing.unsafe_seed(seed):
            result = query.release(plan)
        (block,) = published_blocks(
            result.question, result.release, result.level, as_estimates(result.answers), Words(), None
        )
        total = block.totals[()][0]
        hits += total.lower <= 120 <= total.upper
        half = [(row.upper - row.lower) / 2 for row in block.estimates]
        wide += abs(total.estimate - 120) <= sum(half)
        narrow += abs(total.estimate - 120) <= half[0]
    assert least <= hits <= most
    assert wide > most
    assert narrow < least


def test_totals_of_tables_are_their_exact_linear_combinations():
    query = TABLE.marginals([("sex", "job")])
    result, (block,) = blocks(query, GAUSS)
    levels = [*DOMAINS["job"], "(other)"]
    for at, sex in enumerate([*DOMAINS["sex"], "(other)"]):
        found = result.combine({("sex", "job"): {(sex, job): 1 for job in levels}})
        row = block.totals[(0,)][at]
        assert (row.estimate, row.lower, row.upper) == pytest.approx((found.estimate, found.lower, found.upper))
    assert block.totals[()][0].estimate == pytest.approx(sum(row.estimate for row in block.estimates))


def test_what_is_tidied_or_rounded_has_totals_of_what_is_shown_and_no_intervals():
    tidy, (block,) = blocks(TABLE.marginals([("sex", "job")]), GAUSS, tidy=True, integers=True)
    whole = block.totals[()][0]
    assert whole.estimate == sum(row.estimate for row in block.estimates)
    assert (whole.lower, whole.upper) == (None, None)
    assert tidy.answers[0].lower < tidy.answers[0].upper
    _, (rounded,) = blocks(TABLE.statistics(count=True, by=DOMAINS), LAPLACE, integers=True)
    assert [row.estimate for row in rounded.totals[(0,)]] == [
        sum(row.estimate for row in rounded.estimates[at : at + 3]) for at in (0, 3)
    ]


def test_people_who_may_stand_in_several_groups_are_not_added_up():
    frame = pd.DataFrame({"id": [1, 1, 2, 3], "job": ["a", "b", "a", "b"]})
    table = tables.Table(frame, unit=tables.Person("id", 2))
    ask = partial(table.statistics, by={"job": ["a", "b"]})
    _, (people,) = blocks(ask(count_distinct=True), LAPLACE)
    assert people.totals == {}
    _, (rows,) = blocks(ask(count=True), LAPLACE)
    assert len(rows.totals[()]) == 1


def test_of_three_keys_the_whole_has_a_total():
    query = tables.Table(FRAME.assign(k=[0, 1, 2] * 40)).statistics(count=True, by=DOMAINS | {"k": [0, 1, 2]})
    _, (block,) = blocks(query, GAUSS)
    assert list(block.totals) == [()]


def test_a_total_is_marked_by_its_own_interval():
    query = TABLE.statistics(count=True, by=DOMAINS)
    _, (block,) = blocks(query, inid.PureDP(0.5), too_noisy=0.5)
    marks = [row.too_noisy for row in block.estimates]
    assert any(marks)
    whole = block.totals[()][0]
    assert whole.too_noisy == (whole.upper - whole.lower > 0.5 * whole.estimate)
    assert not whole.too_noisy
