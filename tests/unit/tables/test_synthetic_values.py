"""Values inside the bins of synthetic rows: the set of their sums and counts, what is released, and what is drawn."""

import json
from itertools import pairwise, product

import numpy as np
import pandas as pd
import pytest

import inid
from inid import tables
from inid.testing import record, replay, unsafe_no_noise, unsafe_seed
from internals import module_with
from rough_rows import rough_fit

InBins = module_with("inid.tables.questions.synthetic", "InBins").InBins
RELATIONS = ("add_remove", "replace", "zero_out")
PROMISE = inid.ApproxDP(1.0, 1e-6)


def workers(n=20_000, seed=0):
    """Hours with heaps at 0 and 40, ages whose mean in a bin is not its middle, pay with a tail."""
    rng = np.random.default_rng(seed)
    hours = np.where(rng.random(n) < 0.3, 40, np.where(rng.random(n) < 0.2, 0, rng.integers(0, 80, n)))
    age = 20 + np.floor(60 * rng.random(n) ** 2)
    return pd.DataFrame({"hours": hours, "age": age.astype(int), "pay": 500.25 * rng.exponential(3.0, n)})


BINS = {"hours": [0, 20, 50, 80], "age": [20, 30, 50, 80], "pay": [0, 1000, 4000, 20_000.5]}


def query_of(frame=None, asked=None, **facts):
    return tables.Table(workers() if frame is None else frame, bins=BINS, **facts).synthesize(**(asked or {}))


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("people", [1, 2])
def test_the_set_of_values_holds_every_difference_and_a_twin_does_not(people, relation):
    """By the engine: every pair of rows of one person, at ends of bins, in the middle, missing and outside."""
    values = [(-5, 1e9), (0, 0.0), (19, 999.9), (20, 1000.0), (40, 2500.0), (49, np.inf), (80, np.nan), (None, 4000.0)]
    frame = {"hours": 3 * [0], "pay": 3 * [10.0], "who": [1, 2, 3]}
    bins = {"hours": BINS["hours"], "pay": BINS["pay"]}
    unit = tables.Person("who", people) if people > 1 else "row"

    def numbers(rows):
        own = pd.DataFrame(frame).astype({"hours": "Int64", "pay": float})
        more = pd.DataFrame(rows, columns=["hours", "pay"]).astype({"hours": "Int64", "pay": float}).assign(who=9)
        t = tables.Table(pd.concat([own, more]), bins=bins, unit=unit, neighbours=relation)
        query = t.synthesize(heaps={"hours": [0, 40, 80]})
        return query.exact(query.plan(PROMISE)).values, query.question.values

    several = [[one] * people for one in values] + [[*values[:people]], [*values[3 : 3 + people]]]
    with_rows = [numbers(rows)[0] for rows in several]
    nothing, own = numbers([])
    if relation == "replace":
        moved = [one - two for one, two in product(with_rows, repeat=2)] + [one - nothing for one in with_rows]
    else:
        moved = [one - nothing for one in with_rows]
    made = own.sensitivity()
    radii = np.repeat(made.limits, 1)
    ends = np.cumsum([0, *own.sizes])
    norms = np.array([[np.linalg.norm(d[a:b]) for a, b in pairwise(ends)] for d in moved])
    assert (norms <= radii + 1e-12).all()
    assert (norms.max(axis=0) > 0.99 * radii).all()  # and no larger than it must be
    if relation == "replace":  # the twin takes a sum for a count (M7 in place of M8)
        assert norms[:, 0].max() > 1.4 * people * np.sqrt(2)
    assert norms[:, 0].max() > people - 0.01  # nor for that of one row


def test_no_value_that_bins_hold_is_drawn_outside_and_means_hold():
    rng, number = np.random.default_rng(3), 40_000
    for edges in ([0.0, 1.0, 5.0, 6.0, 16.0], [0.25, 1.0, 1.5, 9.0]):
        column = module_with("inid.tables.questions.synthetic", "LevelColumn").LevelColumn(
            "x", bins=module_with("inid.tables", "Bins").Bins(tuple(edges)), other=False
        )
        low, high = column.ends
        for part in (0.0, 0.03, 0.5, 0.81, 1.0):
            means = low + part * (high - low)
            for at in range(low.size):
                drawn = InBins(column, means).drawn(np.full(number, at, dtype=np.int32), rng)
                assert low[at] <= drawn.min() <= drawn.max() <= high[at]
                assert (np.digitize(drawn, edges[1:-1]) == at).all()
                assert not column.whole or np.array_equal(drawn, np.rint(drawn))
                assert abs(drawn.mean() - means[at]) <= 5 * (high[at] - low[at]) / np.sqrt(number)
    plain = column.drawn(np.zeros(number, dtype=np.int32), rng)  # even, where nothing is known
    assert np.histogram(plain, bins=5, range=(0.25, 1.0))[0] == pytest.approx(np.full(5, number / 5), rel=0.1)


@pytest.mark.parametrize("heaps", [None, {"hours": [0, 40], "pay": []}])
def test_means_inside_bins_and_heaps_are_kept(heaps, monkeypatch):
    """The rows' own error is that of 20,000 draws, five deviations of it at most."""
    rough_fit(monkeypatch)
    frame = workers()
    query = query_of(frame, {"heaps": heaps})
    with unsafe_seed(5):
        result = query.release(query.plan(inid.ApproxDP(3.0, 1e-6)))
        rows = result.rows(20_000)
    for name, edges in BINS.items():
        truth = frame[name].clip(edges[0], edges[-1]).to_numpy()
        made = rows[name].dropna().to_numpy(float)
        for at, (low, high) in enumerate(pairwise(edges)):
            ours, theirs = (own[np.digitize(own, edges[1:-1]) == at] for own in (made, truth))
            width = high - low
            assert abs(ours.mean() - theirs.mean()) < 0.02 * width + 5 * ours.std() / np.sqrt(len(ours))
    for single in (0, 40):
        assert (rows["hours"] == single).mean() == pytest.approx((frame["hours"] == single).mean(), abs=0.03)
    assert (rows["hours"] == 41).mean() < 0.02  # no heap
    assert (rows["hours"].dropna() % 1 == 0).all()
    assert (rows["age"].dropna() % 1 == 0).all()


def test_without_noise_shares_of_heaps_and_means_are_exact():
    frame = pd.DataFrame(
        {"hours": [40] * 600 + [21] * 100 + [35] * 300, "age": [25, 60] * 500, "pay": [0.0, 9e9] * 500}
    )
    query = query_of(frame, {"heaps": {"hours": [40], "age": [25], "pay": [20_000.5]}})
    with unsafe_no_noise():
        result = query.release(query.plan(inid.GaussianDP(1e5)))
    hours, age, pay = (result.question.row_maker(result.release, result.earlier).inside[at] for at in range(3))
    drawn = hours.drawn(np.full(200_000, 1, dtype=np.int32), np.random.default_rng(0))
    assert (drawn == 40).mean() == pytest.approx(0.6, abs=0.01)
    assert drawn.mean() == pytest.approx(frame["hours"].mean(), abs=0.1)
    assert set(age.drawn(np.zeros(100, dtype=np.int32), np.random.default_rng(0))) == {25.0}
    assert set(pay.drawn(np.full(100, 2, dtype=np.int32), np.random.default_rng(0))) == {20_000.5}  # beyond the end


def test_bins_of_one_whole_number_need_no_step_and_stated_heaps_are_kept_in_a_record():
    frame = workers(200)
    narrow = tables.Table(frame, bins={"hours": [0, 1, 2, 3], "age": [1, 2, 3]}).synthesize()
    assert (narrow.question.steps, narrow.question.values) == (3, None)
    query = query_of(frame, {"heaps": {"hours": [40, 0]}})
    record = json.loads(json.dumps(query.release(query.plan(PROMISE)).to_dict()))
    assert record["question"]["values"] == [[0, [0.0, 40.0]], [1, None], [2, None]]
    assert tables.verify_result(record).count == 6  # tables of three columns are scored too
    assert tables.synthetic_rows(record, 10).num_rows == 10
    text = str(query.plan(PROMISE))
    assert "means inside bins: hours, age, pay" in text
    assert "heaps (single values): searched in age, pay; stated: hours 0, 40" in text


@pytest.mark.parametrize(
    ("heaps", "match"),
    [
        ([40], "dictionary"),
        ({"nobody": [1]}, "no column of the synthetic rows with bins"),
        ({"hours": 40}, "list of at most 100 numbers"),
        ({"hours": [200]}, "from 0 to 80"),
        ({"hours": [40, 40]}, "different numbers"),
        ({"hours": [0.5]}, "whole numbers"),
        ({"hours": ["x"]}, "heaps"),
        ({"hours": list(range(101))}, "at most 100"),
    ],
)
def test_heaps_are_checked_before_anything_is_charged(heaps, match):
    with pytest.raises(inid.ArgumentError, match=match):
        query_of(workers(20), {"heaps": heaps})


@pytest.mark.parametrize("name", ["x inside bins", "x by values", "X Inside Bins", "x by bins"])
@pytest.mark.parametrize("engine", ["pandas", "file"])
def test_no_computed_column_takes_the_place_of_the_ids_of_people(name, engine, tmp_path):
    """One person has forty rows, of which one counts: without them the numbers move by no more than is charged."""
    sexes, numbers = ["F", "M", "F", "M"] * 10, [1.0, 5.0, 9.0, 3.0] * 10
    alone = pd.DataFrame({"x": [2.0, 4.0], "sex": ["F", "M"], name: [2, 3]})
    everybody = pd.concat([pd.DataFrame({"x": numbers, "sex": sexes, name: [1] * 40}), alone], ignore_index=True)

    def released(frame):
        if engine == "file":
            frame.to_parquet(tmp_path / f"{len(frame)}.parquet")
            frame = tmp_path / f"{len(frame)}.parquet"
        t = tables.Table(frame, bins={"x": [0, 10, 20]}, domains={"sex": ["F", "M"]}, unit=tables.Person(name, 1))
        query = t.synthesize()
        return query.release(query.plan(inid.GaussianDP(1.0))).release.values

    assert not replay(record(released, everybody), alone).violations
