"""M3: answers are unbiased, agree with each other, and have the standard deviation that is stated."""

import numpy as np
import pytest

import inid
from exact_residuals import exact_residuals
from inid import testing
from inid.errors import ArgumentError
from inid.noise import add_noise
from inid.tables.questions.marginals import Answers, least_maximum, residuals, workload_of

SIZES, TABLES = [3, 4, 2], [(0, 1), (1, 2), (2,)]


@pytest.fixture(scope="module")
def setting():
    work = workload_of(SIZES, TABLES)
    made = residuals(work, least_maximum(work, np.ones(3)).s, neighbours="add_remove")
    plan = inid.plan(made.sensitivity(), inid.GaussianDP(mu=0.5), mechanism="gaussian")
    full = np.random.default_rng(5).integers(0, 30, SIZES).astype(float)
    inside = {block: (0, *work.attributes(block)) for block in made.blocks.tolist()}
    return made, plan, full, exact_residuals(made, {0: full}, inside)


def margin(full, attributes):
    return full.sum(axis=tuple(at for at in range(3) if at not in attributes))


def test_without_noise_the_tables_are_exact(setting):
    made, plan, full, exact = setting
    answers = Answers(made, exact, plan.scales)
    for attributes in [*TABLES, (0,), (1,), ()]:
        assert np.allclose(answers.table(attributes), margin(full, attributes))
    assert np.allclose(answers.table((1, 0)), margin(full, (0, 1)).T)
    with pytest.raises(ArgumentError, match="not inside any table"):
        answers.table((0, 2))


def test_noisy_tables_agree_and_spread_as_stated(setting):
    made, plan, full, exact = setting
    draws = 4000
    wanted = {(0, 1): np.arange(12.0).reshape(3, 4), (1, 2): -np.ones((4, 2)), (): np.array(0.5)}
    truth = sum((c * margin(full, a)).sum() for a, c in wanted.items())
    with testing.unsafe_seed(11):
        values = add_noise(np.tile(exact, draws), np.tile(plan.scales, draws), "gaussian").reshape(draws, -1)
    # Estimates are linear in the released numbers: many releases are read by what single numbers make of the tables.
    units = [Answers(made, unit, plan.scales) for unit in np.eye(exact.size)]
    errors = (values - exact) @ np.array([unit.table((0, 1)).ravel() for unit in units])
    corner = (values - exact) @ np.array([unit.table((1,))[2] for unit in units])
    combined = (values - exact) @ np.array([unit.combine(wanted)[0] for unit in units])
    for at in range(20):
        answers = Answers(made, values[at], plan.scales)
        one = answers.table((0, 1))
        assert np.allclose(one.sum(axis=0), answers.table((1,)))
        assert np.allclose(answers.table((1, 2)).sum(axis=1), answers.table((1,)))
        assert np.allclose(one.ravel() - margin(full, (0, 1)).ravel(), errors[at])
        estimate, deviation = answers.combine(wanted)
        assert np.isclose(estimate - truth, combined[at])
    cells = len(errors[0])
    # Sample variances of n normal numbers spread by sqrt(2 / n): six of these are exceeded once in 5e8 draws.
    for found, stated, number in (
        (np.square(errors).mean(), answers.deviation((0, 1)), draws),
        (np.square(corner).mean(), answers.deviation((1,)), draws),
        (np.square(combined).mean(), deviation, draws),
    ):
        assert abs(found / stated**2 - 1) < 6 * np.sqrt(2 / number)
        assert abs(found / (1.3 * stated) ** 2 - 1) > 6 * np.sqrt(2 / number)  # a deviation wrong by 30 % is seen
    assert cells == 12
