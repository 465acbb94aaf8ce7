"""Counts and sums of people without a stated limit: what one person moves, what is refused, and what is released."""

import itertools
import json
import math

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pytest

import inid
from inid import tables
from inid.accounting import verify_record
from inid.releasing import charge_together
from inid.tables import drawn_steps, record_digest
from inid.testing import unsafe_no_noise, unsafe_seed

COLUMNS = ["id", "shop", "price"]
TYPES = {"id": pl.String, "shop": pl.String, "price": pl.Float64}
OTHERS = [("p", "A", 4.0), ("q", "B", 1.0), ("q", "A", 3.0), ("q", "B", None)]
OWN = [("x", shop, price) for shop, price in itertools.product(["A", "B", "Z"], [-1e9, 7.0, None])]
PROMISE = inid.PureDP(1.0)


def table(rows, engine=pl.DataFrame, at_most=8, **facts):
    frame = engine(pl.DataFrame(rows, schema=TYPES, orient="row"))
    unit = tables.Person("id", contribution=tables.Private(at_most))
    return tables.Table(frame, unit=unit, bounds={"price": (0, 8)}, **facts)


def total(rows, *, by=True, **facts):
    return table(rows, **facts).statistics(sum=["price"], by={"shop": ["A", "B"]} if by else None)


class Chosen:
    """A first release of this position."""

    def __init__(self, at):
        self.values = np.array([float(at)])


def vectors(query, plan):
    """The scores, and the numbers of the second step for each limit that may be chosen."""
    exact, question = query.exact(plan), query.question
    scores = question.step_numbers(exact, ())
    return scores, np.array([question.step_numbers(exact, (Chosen(at),)) for at in range(len(scores))])


@pytest.mark.parametrize(("relation", "by"), [*itertools.product(["add_remove", "replace", "zero_out"], [False, True])])
def test_no_person_leaves_the_sets_of_both_steps(relation, by):
    """All lists of up to two rows of a person, and some longer ones: ranges of scores, and l1 norms for every limit."""
    lists = [own for n in range(3) for own in itertools.combinations(OWN, n)]
    lists += [(("x", "A", 0.3), ("x", "B", 1e300)), *(tuple(OWN[:k] * n) for k in (3, 9) for n in (1, 4))]
    query = total(OTHERS, by=by, neighbours=relation)
    plan = query.plan(PROMISE)
    found = [vectors(total([*OTHERS, *own], by=by, neighbours=relation), plan) for own in lists]
    pairs = itertools.combinations(found[::2], 2) if relation == "replace" else [(one, found[0]) for one in found]
    ranges, norms = [], []
    for (scores, numbers), (others, other_numbers) in pairs:
        moved = scores - others
        ranges.append(max(moved.max(), 0) - min(moved.min(), 0))
        norms.append(np.abs(numbers - other_numbers).sum(axis=1).max())
    choice, noise = plan.steps
    (reach,) = choice.sensitivity.limits
    (limit,) = noise.sensitivity.limits
    assert max(ranges) == reach == 1
    assert limit == pytest.approx(2 if by and relation == "replace" else 1, rel=1e-4)
    assert limit * (1 - 1e-4) <= max(norms) <= limit


def test_a_limit_for_each_group_would_leave_the_set():
    """The broken twin: cut in each group by itself, one person moves every group by the whole limit."""
    heavy = [("x", shop, 8.0) for shop in "AB" for _ in range(8)]
    query = total(OTHERS)
    plan = query.plan(PROMISE)
    whole = vectors(total([*OTHERS, *heavy]), plan)[1] - vectors(query, plan)[1]
    groups = [
        vectors(table([*OTHERS, *heavy]).where(f"shop == '{shop}'").statistics(sum=["price"]), plan)[1][:, 0]
        - vectors(table(OTHERS).where(f"shop == '{shop}'").statistics(sum=["price"]), plan)[1][:, 0]
        for shop in "AB"
    ]
    (limit,) = plan.steps[1].sensitivity.limits
    assert np.abs(whole).sum(axis=1).max() <= limit < np.abs(groups).sum(axis=0).max()


def test_scores_by_their_distance_from_a_rank_would_move_twice_as_far():
    """The broken twin of the first step: scores that rise for low limits and fall for high ones have a range of 2."""
    query = total(OTHERS, by=False)
    plan = query.plan(PROMISE)
    heights = query.exact(plan).heights
    above = [-(vectors(total([*OTHERS, *own], by=False), plan)[0] + heights) for own in ([], [("x", "A", 7.0)] * 3)]
    moved = np.subtract(*(-np.abs(counts - 1.5) for counts in above))
    assert moved.max() - moved.min() == 2 > plan.steps[0].sensitivity.limits[0]


@pytest.mark.parametrize("epsilon", [1e-90, 1e-9, 1.0, 1e9])
def test_scores_are_not_rounded_whatever_the_promise(epsilon):
    query = total(OTHERS, by=False)
    exact = query.exact(query.plan(inid.PureDP(epsilon)))
    fewer, more = (total([*OTHERS, *own], by=False) for own in ([], [("x", "A", 7.0)]))
    plan = fewer.plan(inid.PureDP(epsilon))
    moved = vectors(fewer, plan)[0] - vectors(more, plan)[0]
    assert set(moved.tolist()) == {0.0, 1.0}
    assert (np.diff(exact.heights) >= 0).all()


@pytest.mark.parametrize("at_most", [2, 8, 2**20])
def test_totals_are_cut_over_all_groups_together(at_most):
    """Against the definition, in floats."""
    rows = [
        (name, shop, float(price)) for name, n in (("a", 1), ("b", 5), ("c", 30)) for price in range(n) for shop in "AB"
    ]
    query = total(rows, at_most=at_most)
    plan = query.plan(PROMISE)
    sums = pd.DataFrame(rows, columns=COLUMNS)
    sums["price"] = sums.price.clip(0, 8)
    sums = sums.groupby(["id", "shop"]).price.sum().unstack()
    for at, numbers in enumerate(vectors(query, plan)[1]):
        limit = query.question.limit(at)
        cut = sums.mul(np.minimum(1, limit / sums.sum(axis=1)), axis=0)
        assert numbers * limit == pytest.approx(cut.sum().to_numpy(), rel=1e-6)
    assert query.question.limit(-1) >= 8 * at_most


def arrow(frame):
    return frame.to_arrow()


def in_duckdb(frame):
    return duckdb.from_arrow(frame.to_arrow())


def in_pandas(frame):
    return frame.to_pandas()


@pytest.mark.parametrize("engine", [in_pandas, arrow, in_duckdb, pl.DataFrame.lazy])
def test_every_engine_has_the_same_whole_numbers(engine):
    rows = [*OTHERS, *OWN, (None, "A", 5.0), *[("y", "A", 1 / 3)] * 50]
    facts = {"missing": {"price": 2.5}, "at_most": 100}
    exact = total(rows, **facts).exact(total(rows, **facts).plan(PROMISE))
    other = total(rows, engine=engine, **facts)
    found = other.exact(other.plan(PROMISE))
    assert (found.people, found.within, found.beyond) == (exact.people, exact.within, exact.beyond)
    assert sum(found.people) == 4


def test_it_is_charged_once_and_its_record_is_verified(tmp_path):
    rows = [(str(n), "AB"[n % 2], 5.0) for n in range(400)] * 2
    ledger = inid.Ledger(total=inid.ApproxDP(1.0, 1e-6), unit="id")
    query = total(rows)
    plan = query.plan(inid.ApproxDP(1.0, 1e-6))
    assert plan.budget == PROMISE
    plan.verify()
    with unsafe_no_noise():
        result = query.release(plan)
    assert [one.keys["limit_of_a_person"] for one in result.answers] == ["16", "16"]
    assert [round(one.estimate) for one in result.answers] == [2000, 2000]
    result = query.release(plan, ledger)
    (charge,) = ledger.history()
    assert verify_record(charge).promise == "2 parts under PureDP(epsilon=1.0)"
    assert not ledger.can_afford(inid.PureDP(1e-3))
    record = json.loads(json.dumps(result.to_dict()))
    assert dict(tables.verify_result(record).costs)["epsilon"] == 1
    result.report(tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert "total was cut to" in page
    (first,) = record["earlier"]
    for entries in (
        {"promise": inid.PureDP(0.5).to_dict()},
        {"earlier": []},
        {"earlier": [first | {"values": [2.5]}]},
        {"earlier": [first | {"values": [99.0]}]},
        {"earlier": [first | {"values": [0.0]}]},  # the answers are of another limit
        {"question": record["question"] | {"neighbours": "replace"}},
        {"question": record["question"] | {"clipped_total": {"column": "price", "bounds": [-1, 8], "fill": None}}},
        {"question": record["question"] | {"person": {"column": "id", "max_rows": 1, "order_by": []}}},
    ):
        changed = record | entries
        with pytest.raises(inid.InidError):
            tables.verify_result(changed | {"digest": record_digest(changed)})


def test_intervals_hold_the_totals_after_the_cut():
    rows = [(str(n), "A", 3.0) for n in range(60) for _ in range(1 + n % 5)]
    query = table(rows).statistics(count=True)
    plan = query.plan(PROMISE)
    exact, sizes = query.exact(plan), pd.Series([row[0] for row in rows]).value_counts()
    inside, limits = 0, set()
    with unsafe_seed(3):
        for _ in range(400):
            paid = iter(charge_together(plan.noises, plan.charge, None, ""))
            (first, last), _ = drawn_steps(query.question, plan, query.question.draws(plan), exact, paid)
            (answer,) = query.question.answers(last, 0.8, (), (first,))
            limit = float(answer.keys["limit_of_a_person"])
            inside += answer.lower <= sizes.clip(upper=limit).sum() <= answer.upper
            limits.add(limit)
    assert abs(inside - 320) < 5.3 * math.sqrt(400 * 0.8 * 0.2)  # a false alarm in ten million
    assert len(limits) > 1


def test_several_are_asked_in_a_publication():
    rows = [(str(n), "A", 3.0) for n in range(60)]
    t = table(rows)
    both = tables.Publication(visits=t.statistics(count=True), paid=t.statistics(sum=["price"]))
    with pytest.raises(inid.ArgumentError, match="no stated error"):
        both.plan(PROMISE)
    ledger = inid.Ledger(total=PROMISE, unit="id")
    with unsafe_no_noise():
        found = both.release(both.plan(PROMISE, share={"visits": "1/4", "paid": "3/4"}))
    assert found["visits"].answers[0].estimate == pytest.approx(60)
    assert found["paid"].answers[0].estimate == pytest.approx(180)
    both.release(both.plan(PROMISE, share={"visits": "1/4", "paid": "3/4"}), ledger)
    assert not ledger.can_afford(inid.PureDP(1e-3))


def test_what_needs_a_limit_is_refused():
    t = table(OTHERS, domains={"shop": ["A", "B"]})
    for ask in (
        lambda: t.marginals([("shop",)]),
        lambda: t.quantiles({"price": [0.5]}),
        lambda: t.select_partitions("shop", delta=1e-8),
        lambda: t.largest_group({"shop": ["A", "B"]}),
        lambda: t.statistics(mean=["price"]),
        lambda: t.statistics(count=True, sum=["price"]),
        lambda: t.statistics(count_distinct=True),
    ):
        with pytest.raises(inid.ArgumentError, match=r"limit on the rows of a\s+person"):
            ask()
    with pytest.raises(inid.ArgumentError, match="at least 0"):
        t.with_bounds({"price": (-1, 8)}).statistics(sum=["price"])
    with pytest.raises(inid.BudgetError, match="PureDP or ApproxDP"):
        t.statistics(count=True).plan(inid.GaussianDP(1.0))
    with pytest.raises(inid.ArgumentError, match="max_rows"):
        tables.Person("id")
    with pytest.raises(inid.ArgumentError, match="leave them out"):
        tables.Person("id", 5, contribution=tables.Private())
    with pytest.raises(inid.ArgumentError, match="at_most"):
        tables.Private(at_most=2**31)
    assert t.per_person("id", visits=tables.count(bounds=(0, 5))).statistics(count=True).exact_sums() == [2]
