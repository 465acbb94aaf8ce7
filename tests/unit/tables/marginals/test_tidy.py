"""Tidy tables: no count below 0, one total, and in agreement with each other, as whole numbers too."""

from itertools import combinations

import numpy as np
import pandas as pd
import pytest

import inid
from inid.tables import Table
from inid.tables.questions.marginals import Consistency, integer_tables, onto_simplex, rounded, tidied, workload_of
from internals import module_with

inside_integer_tables = module_with("inid.tables.questions.marginals", "integer_tables")
_onto_simplex = module_with("inid.tables.questions.marginals", "tidied")._onto_simplex

SIZES = [3, 2, 4, 5]
PAIRS = list(combinations(range(4), 2))
TREE = [(0, 1, 2), (1, 2, 3), (0,)]
RING = list(combinations(range(4), 3))


def summed(table, values, part):
    return values.sum(axis=tuple(at for at, i in enumerate(table) if i not in part))


def disagreement(tables):
    """The largest difference between sums that two tables have in common, the totals included."""
    worst = 0.0
    for (one, first), (two, second) in combinations(tables.items(), 2):
        common = set(one) & set(two)
        for width in range(len(common) + 1):
            for part in combinations(sorted(common), width):
                worst = max(worst, np.abs(summed(one, first, part) - summed(two, second, part)).max())
    return worst


def noisy_tables(asked, seed, noise):
    rng = np.random.default_rng(seed)
    people = rng.poisson(0.7, SIZES).astype(float)
    exact = {table: summed(range(4), people, table) for table in asked}
    return exact, {at: values + rng.normal(0, noise, values.shape) for at, values in enumerate(exact.values())}


@pytest.mark.parametrize("asked", [PAIRS, TREE, RING, [(0, 1), (2,), ()]])
@pytest.mark.parametrize("seed", range(5))
def test_tidy_tables_are_non_negative_keep_the_total_and_agree(asked, seed):
    exact, noisy = noisy_tables(asked, seed, noise=6)
    total = float(next(iter(exact.values())).sum())
    made = tidied(workload_of(SIZES, asked), noisy, np.ones(len(asked)), total)
    own = dict(zip(asked, made.values(), strict=True))
    assert all((values >= 0).all() and np.isclose(values.sum(), total) for values in own.values())
    assert disagreement(own) < 1e-9 * total
    errors = [
        sum(np.abs(values[at] - exact[table]).sum() for at, table in enumerate(asked)) for values in (made, noisy)
    ]
    assert errors[0] < errors[1]


def test_projecting_ten_times_would_leave_tables_apart():
    """The broken twin: the two projections one after the other, and no agreement at the end."""
    exact, noisy = noisy_tables(RING, 1, noise=6)
    total, together = float(exact[RING[0]].sum()), Consistency(workload_of(SIZES, RING), np.ones(4))
    for _ in range(10):
        noisy = {at: onto_simplex(values, total) for at, values in noisy.items()}
        together.settle(list(noisy.values()))
    apart = {table: onto_simplex(noisy[at], total) for at, table in enumerate(RING)}
    assert disagreement(apart) > 1e-4 * total


def sorted_onto_simplex(values, total):
    """The textbook way: the threshold by a sort."""
    flat = np.sort(values, axis=None)[::-1]
    excess = (np.cumsum(flat) - total) / np.arange(1, flat.size + 1)
    return np.maximum(values - excess[np.flatnonzero(flat - excess > 0)[-1]], 0.0)


@pytest.mark.parametrize("asked", [PAIRS, TREE, RING])
def test_the_rounds_are_those_of_douglas_and_rachford(asked):
    """Written out, with a dense projection onto the tables that agree."""
    exact, noisy = noisy_tables(asked, 2, noise=6)
    total, tau = float(exact[asked[0]].sum()), np.linspace(1, 3, len(asked))
    people = np.eye(np.prod(SIZES)).reshape(-1, *SIZES)
    sums = [np.array([summed(range(4), one, table).ravel() for one in people]).T for table in asked]
    onto = np.concatenate([part / own for part, own in zip(sums, tau, strict=True)])
    project = onto @ np.linalg.pinv(onto)
    ends = np.cumsum([values.size for values in noisy.values()])
    weights = np.repeat(1 / tau, [values.size for values in noisy.values()])
    x = np.concatenate([(values + (total - values.sum()) / values.size).ravel() for values in noisy.values()])
    rest = 1.0
    while rest > 2.0**-10:
        near = np.concatenate([sorted_onto_simplex(part, total) for part in np.split(x, ends[:-1])])
        agreed = project @ ((2 * near - x) * weights) / weights
        lowest = np.array([max(-part.min() * part.size / total, 0.0) for part in np.split(agreed, ends[:-1])])
        rest = (lowest / (lowest + 1)).max()
        x = x + agreed - near
    made = tidied(workload_of(SIZES, asked), noisy, tau, total)
    for part, values in zip(np.split(agreed, ends[:-1]), made.values(), strict=True):
        assert np.allclose(
            np.maximum((1 - rest) * part + rest * total / part.size, 0.0), values.ravel(), atol=1e-9 * total
        )


@pytest.mark.parametrize("total", [1e-3, 0.7, 300.0, 1e7])
def test_the_nearest_array_with_a_sum_is_that_of_a_sort(total):
    rng = np.random.default_rng(3)
    for values in (rng.normal(0, 9, 400), rng.normal(50, 1, (4, 5)), np.repeat([2.0, -1.0], 7), np.array([-1e6])):
        wanted, found = sorted_onto_simplex(values, total), onto_simplex(values, total)
        assert np.allclose(found, wanted, rtol=1e-9, atol=1e-9)
        for guess in (float(values.min()) - 99.0, 1.5, float(values.max()), float(values.max()) + 99.0):
            _onto_simplex(values, found, total, guess)
            assert np.allclose(found, wanted, rtol=1e-9, atol=1e-9)


def test_nobody_at_all():
    assert not tidied(workload_of([2], [(0,)]), {0: np.array([-3.0, 1.0])}, np.ones(1), -2.0)[0].any()
    assert np.isclose(onto_simplex(np.array([-5.0, -7.0]), 3.0).sum(), 3.0)
    assert onto_simplex(np.array([-5.0, -7.0]), 0.0).tolist() == [0.0, 0.0]


@pytest.mark.parametrize(
    "asked", [PAIRS, TREE[:2], [(0, 1, 2, 3)], [(0, 1), (1, 2), (2, 3)], [(0, 1, 2), (2, 3)], RING]
)
@pytest.mark.parametrize("seed", range(8))
def test_whole_tables_agree(asked, seed):
    exact, noisy = noisy_tables(asked, seed, noise=3)
    total = float(exact[asked[0]].sum()) + 0.4
    made = tidied(workload_of(SIZES, asked), noisy, np.ones(len(asked)), total)
    values = dict(zip(asked, made.values(), strict=True))
    whole = integer_tables(values, round(total))
    for table, found in whole.items():
        assert found.sum() == round(total)
        assert (found >= 0).all()
        assert (found == np.floor(found)).all()
        assert np.abs(found - values[table]).max() < 3
    assert disagreement(whole) == 0 or (asked == RING and disagreement(whole) <= 2)


@pytest.mark.parametrize("at_once", [1, 7, 10**6])
def test_cells_are_filled_one_after_the_other(monkeypatch, at_once):
    """However many are looked at together: the largest remainder that all fixed sums still lack comes first."""
    monkeypatch.setattr(inside_integer_tables, "_AT_ONCE", at_once)
    rng = np.random.default_rng(9)
    for _ in range(20):
        values = rng.exponential(1.0, (5, 4)).T  # not in the order of its memory
        fixed = {(0,): np.floor(values.sum(axis=1)), (1,): np.floor(values.sum(axis=0))}
        whole = np.floor(values)
        lack = [fixed[0,] - whole.sum(axis=1), fixed[1,] - whole.sum(axis=0)]
        for cell in sorted(np.ndindex(4, 5), key=lambda cell: whole[cell] - values[cell]):
            if all(own[key] > 0 for own, key in zip(lack, cell, strict=True)) and lack[0].sum() > 0:
                whole[cell] += 1
                for own, key in zip(lack, cell, strict=True):
                    own[key] -= 1
        found = rounded(values, fixed)
        assert (found >= whole).all()
        assert found.sum() - whole.sum() == lack[0].sum()


def test_tables_rounded_one_by_one_would_not_agree():
    """The broken twin of the overlaps that are rounded first."""
    exact, noisy = noisy_tables(PAIRS, 3, noise=3)
    total = float(exact[PAIRS[0]].sum())
    made = tidied(workload_of(SIZES, PAIRS), noisy, np.ones(6), total)
    apart = {table: rounded(made[at], {(): np.array(round(total))}) for at, table in enumerate(PAIRS)}
    assert disagreement(apart) > 0


@pytest.mark.parametrize("budget", [inid.ApproxDP(1.0, 1e-6), inid.PureDP(0.2)])
def test_what_is_published_agrees(budget):
    rng = np.random.default_rng(4)
    frame = pd.DataFrame({name: rng.integers(0, 4, 300) for name in "abcd"} | {"x": rng.random(300)})
    table = Table(frame, domains={name: range(4) for name in "abcd"}, bounds={"x": (0, 1)})
    asked = [*combinations("abcd", 2), ("a",)]
    query = table.marginals(asked, mean={"x": [("a", "b", "c")]})
    result = query.release(query.plan(budget))
    for integers in (False, True):
        shown = {own: result.marginal(*own, tidy=True, integers=integers) for own in asked}
        sums = {}
        for own, found in shown.items():
            assert (found["estimate"] >= 0).all()
            assert not integers or (found["estimate"] == found["estimate"].round()).all()
            for name in own:
                sums.setdefault(name, []).append(found.groupby(name, sort=False)["estimate"].sum().tolist())
        assert all(np.allclose(other, first, atol=1e-6) for first, *others in sums.values() for other in others)
        inside = result.marginal("d", tidy=True, integers=integers)["estimate"]
        assert np.allclose(inside, sums["d"][0], atol=1e-6)
        rows = result.shown(tidy=True, integers=integers)
        assert [row.estimate for row in rows[:25]] == shown["a", "b"]["estimate"].tolist()


def test_the_total_alone_beside_means_is_a_whole_number_too():
    frame = pd.DataFrame({"a": [0, 1] * 50, "x": [0.5] * 100})
    query = Table(frame, domains={"a": [0, 1]}, bounds={"x": (0, 1)}).marginals([()], mean={"x": [("a",)]})
    result = query.release(query.plan(inid.PureDP(1.0)))
    total = result.marginal(tidy=True)["estimate"].tolist()
    assert result.marginal(tidy=True, integers=True)["estimate"].tolist() == [round(total[0])]
