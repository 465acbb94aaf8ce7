"""The fit of synthetic rows: what it is near to, how well, and that an interrupt spoils nothing."""

import tracemalloc

import numpy as np
import pytest

import inid
from inid import tables
from inid.tables.questions.synthetic import LevelSpace, entropic_rows, near_sample, raked, systematic
from internals import module_with
from published_people import table
from rough_rows import rough_fit

mixture = module_with("inid.tables.questions.synthetic", "TargetTables")
model = module_with("inid.tables.questions.synthetic", "Effort")
particles = module_with("inid.tables.questions.synthetic", "entropic_rows")
raking = module_with("inid.tables.questions.synthetic", "raked")
thinning = module_with("inid.tables.questions.synthetic", "near_sample")


def coupled(columns, levels, rows=20_000):
    """Columns that are mostly equal: far from independent, where every chain starts."""
    rng = np.random.default_rng(0)
    space, common = LevelSpace((levels,) * columns), rng.choice(levels, rows, p=rng.dirichlet(np.ones(levels)))
    other = rng.integers(0, levels, (rows, columns))
    return space, np.where(rng.random((rows, columns)) < 0.1, other, common[:, None]).astype(np.int32)


def off(space, tables, others):
    """The mean total variation of the tables of pairs."""
    return np.abs(tables - others)[space.other_columns].sum() / (2 * len(space.sizes) * (len(space.sizes) - 1))


def test_tables_of_rows_are_those_of_matrices_of_ones():
    rng, space = np.random.default_rng(0), LevelSpace((3, 2, 4))
    codes = np.column_stack([rng.integers(0, size, 5000) for size in space.sizes]).astype(np.int32)
    weights = rng.random(5000)
    ones = np.concatenate([part for _, part in space.chunks(codes)], axis=1)
    assert ones.sum(axis=0).tolist() == [3.0] * 5000
    assert space.tables(codes) == pytest.approx(ones @ ones.T / 5000)
    assert space.tables(codes, weights) == pytest.approx((ones * weights) @ ones.T / weights.sum())


@pytest.mark.parametrize(("columns", "levels", "most"), [(4, 3, 0.1), (10, 10, 0.3)])
def test_rows_come_near_tables_that_are_far_from_independent_and_raking_does_the_rest(columns, levels, most):
    space, codes = coupled(columns, levels)
    wanted, rng = space.tables(codes), np.random.default_rng(1)
    alone = np.outer(np.diag(wanted), np.diag(wanted))
    made = entropic_rows(space, wanted, 10_000, rng, lambda _: None)
    weights = raked(space, wanted, made, rng, lambda _: None)
    assert off(space, space.tables(made), wanted) < most * off(space, alone, wanted)
    assert off(space, space.tables(made, weights), wanted) < 0.02
    assert raking.effective(weights) > 0.3 * len(weights)


def test_steps_become_smaller_where_rows_move_away(monkeypatch):
    # A step of 3 overshoots at once. The twin that keeps it never comes near.
    space, codes = coupled(5, 4)
    wanted = space.tables(codes)
    monkeypatch.setattr(particles, "_STEP", 3.0)
    held = entropic_rows(space, wanted, 4000, np.random.default_rng(1), lambda _: None)
    monkeypatch.setattr(particles, "_FARTHER", np.inf)
    twin = entropic_rows(space, wanted, 4000, np.random.default_rng(1), lambda _: None)
    assert off(space, space.tables(held), wanted) < 0.5 * off(space, space.tables(twin), wanted)


def weighted(number):
    space, codes = coupled(5, 4)
    weights = np.random.default_rng(2).gamma(5.0, size=len(codes))
    weights /= weights.sum()
    wanted = space.tables(codes, weights)
    return space, codes, weights, wanted, near_sample(space, wanted, codes, weights, number, np.random.default_rng(3))


@pytest.mark.parametrize(("number", "part"), [(200, 0.75), (1316, 0.5), (8000, 0.5)])
def test_a_sample_has_nearer_tables_than_one_at_random_and_each_row_as_often_as_its_weight_says(number, part):
    space, codes, weights, wanted, drawn = weighted(number)
    plain = systematic(weights, number, np.random.default_rng(3))
    assert off(space, space.tables(codes[drawn]), wanted) < part * off(space, space.tables(codes[plain]), wanted)
    counts = np.bincount(drawn, minlength=len(codes))
    assert counts.sum() == number
    assert (np.abs(counts - number * weights) < 1.5).all()


@pytest.mark.parametrize("number", [3, 49, 20_001])
def test_small_samples_and_those_of_more_rows_than_there_are_stay_as_they_were_drawn(number):
    _, _, weights, _, drawn = weighted(number)
    assert drawn.tolist() == sorted(systematic(weights, number, np.random.default_rng(3)).tolist())


def test_exchanges_that_make_a_sample_worse_are_taken_back(monkeypatch):
    # All at once overshoot; the twin that keeps the last exchange is worse than the sample that it began with.
    monkeypatch.setattr(thinning, "_FIRST", 1.0)
    space, codes, weights, wanted, drawn = weighted(8000)
    plain = systematic(weights, 8000, np.random.default_rng(3))
    start = off(space, space.tables(codes[plain]), wanted)
    assert off(space, space.tables(codes[drawn]), wanted) <= start
    monkeypatch.setattr(thinning, "_WORSE", np.inf)
    *_, twin = weighted(8000)
    assert off(space, space.tables(codes[twin]), wanted) > 2 * start


def test_an_interrupt_loses_nothing_and_progress_goes_from_0_to_1(monkeypatch):
    rough_fit(monkeypatch)
    query = table(bins={"age": 4}).synthesize(["sex", "band", "age"])
    promise = inid.ApproxDP(1.0, 1e-6)
    ledger, seen = inid.Ledger(total=promise), []
    result = query.release(query.plan(promise), ledger)

    def interrupted(done):
        if done > 0.5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        result.rows(progress=interrupted)
    assert len(result.rows(2500, progress=seen.append)) == 2500
    assert seen == sorted(seen)
    assert seen[0] < 0.1
    assert seen[-1] == pytest.approx(1)
    assert len(ledger.history()) == 1
    assert tables.synthetic_rows(result.to_dict(), 5).num_rows == 5


@pytest.mark.parametrize("sizes", [(20,) * 20, (2, 3, 4)], ids=["20 columns of 20", "3 columns"])
def test_the_plan_says_about_what_rows_take_in_memory(sizes, monkeypatch):
    monkeypatch.setattr(mixture, "_ROUNDS", 3)
    monkeypatch.setattr(particles, "_ROUNDS_OF_MOVES", ((1, 6), (1, 1)))
    # NumPy's arrays are traced. Fewer rounds hold as much; the pool is as large as it gets.
    rng, space = np.random.default_rng(0), LevelSpace(sizes)
    codes = np.column_stack([rng.integers(0, size, 60_000) for size in sizes]).astype(np.int32)
    wanted = space.tables(codes)
    residuals = [np.diag(wanted)[span] - 1 / size for span, size in zip(space.spans, sizes, strict=True)]
    pairs = {(0, 1): np.zeros((sizes[0], sizes[1]))}
    tracemalloc.start()
    mixture.fitted_tables(
        space,
        mixture.TargetTables(residuals, [1.0] * len(sizes), pairs, {(0, 1): 1.0}),
        [np.diag(wanted)[span] for span in space.spans],
        rng,
        lambda _: None,
    )
    made = entropic_rows(space, wanted, 60_000, rng, lambda _: None)
    near_sample(space, wanted, made, raked(space, wanted, made, rng, lambda _: None), 50_000, rng)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    said = model.effort(sizes)
    assert peak / 1e6 < said.megabytes + 5
    assert peak / 1e6 > said.megabytes / 4
    assert peak / 1e6 < 300
    assert model.effort([*sizes, 9]).seconds > said.seconds
