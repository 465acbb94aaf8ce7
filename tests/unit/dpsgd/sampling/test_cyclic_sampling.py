"""Cyclic sampling: one rate, one group for every position, and steps that are counted by their leases."""

import numpy as np
import pytest

from inid.dpsgd.sampling.cyclic_sampling import CyclicGroups
from inid.dpsgd.sampling.poisson_draw import bernoulli, dealt
from inid.errors import ArgumentError, GuaranteeError
from inid.testing import unsafe_seed

FIVE = CyclicGroups(positions=5, batch=1, groups=2, steps=6000)


def frequencies(draw):
    """How often each of five positions is drawn in its group's turns."""
    with unsafe_seed(11):
        drawn = [draw(number) for number in range(FIVE.steps)]
    return np.bincount(np.concatenate(drawn), minlength=5) / (FIVE.steps / 2)


def at_the_charged_rate(found):
    """Within six standard deviations of the charged rate: a false alarm has a probability below 1e-8."""
    return bool((np.abs(found - FIVE.rate) < 6 * np.sqrt(FIVE.rate * (1 - FIVE.rate) * 2 / FIVE.steps)).all())


def by_the_size_of_the_group(number):
    """The twin: every group gives a batch of the same size, so the smaller one's examples are drawn more often."""
    own = FIVE.members(number)
    return own[bernoulli(own.size, FIVE.batch / own.size)]


def test_every_position_is_drawn_at_the_charged_rate_in_groups_of_unequal_size():
    assert [len(FIVE.members(number)) for number in (0, 1)] == [3, 2]
    assert FIVE.rate == 0.4
    assert at_the_charged_rate(frequencies(FIVE.draw))
    assert not at_the_charged_rate(frequencies(by_the_size_of_the_group))


@pytest.mark.parametrize(("positions", "groups"), [(5, 2), (7, 7), (100, 9), (4, 1)])
def test_every_position_has_one_group_for_the_whole_run(positions, groups):
    turns = CyclicGroups(positions, 1, groups, steps=3 * groups + 1)
    took = np.zeros((turns.steps, positions), dtype=int)
    for number in range(turns.steps):
        took[number, turns.members(number)] = 1
    assert took.sum(0).max() == turns.blocks
    assert (took[:groups].sum(0) == 1).all()
    for position in took.T:
        assert set(np.diff(np.flatnonzero(position))) <= {groups}


def crashed_runs(turns, group_of):
    """The most often that one position can take part when a run crashes six times after its third step.

    A lease gives every number once, and those that a crash lost are gone; the checkpoint is at the beginning.
    """
    took, leased = np.zeros(turns.positions, dtype=int), iter(range(turns.steps))
    for attempt in range(7):
        for done in range(3 if attempt < 6 else turns.steps):
            if (number := next(leased, None)) is None:
                return took.max()
            took[turns.members(group_of(number, done))] += 1
    return took.max()


def test_a_crash_loop_takes_no_example_more_often_than_charged():
    turns = CyclicGroups(positions=12, batch=1, groups=6, steps=24)
    assert crashed_runs(turns, lambda number, _: number) <= turns.blocks == 4
    assert crashed_runs(turns, lambda _, done: done) > turns.blocks  # counted from the checkpoint


@pytest.mark.parametrize("number", [-1, 24, 1000])
def test_a_step_that_was_not_charged_for_draws_nobody(number):
    with pytest.raises(GuaranteeError, match="0 to 23"):
        CyclicGroups(positions=12, batch=1, groups=6, steps=24).draw(number)


@pytest.mark.parametrize(("positions", "batch", "groups"), [(5, 3, 2), (100, 50, 3), (10, 11, 1)])
def test_more_groups_than_batches_are_refused(positions, batch, groups):
    with pytest.raises(ArgumentError, match="a group must hold a batch"):
        CyclicGroups(positions, batch, groups, steps=9)
    CyclicGroups(positions, batch, 1, steps=9) if batch <= positions else None


@pytest.mark.parametrize("name", ["positions", "batch", "groups", "steps"])
@pytest.mark.parametrize("value", [0, -3, 1.5, None, "2"])
def test_malformed_numbers_are_refused(name, value):
    given = {"positions": 100, "batch": 5, "groups": 2, "steps": 9, name: value}
    with pytest.raises(ArgumentError, match=name):
        CyclicGroups(**given)


def group_of_the_other(key, examples, positions, groups):
    """The group of one example, which stands after the one more that there may be."""
    held = dealt(examples, positions, rank=0, world=1, key=key)
    return int(np.flatnonzero(held == examples - 1)[0]) % groups


def law(of):
    keys = range(2**64, 2**64 + 4000)
    return np.bincount([of(key) for key in keys], minlength=2) / len(keys)


def test_with_a_secret_number_one_example_more_leaves_the_law_of_the_others_groups():
    """Two examples, three positions, two groups: positions are dealt with the empty ones among them."""
    alone, together = (law(lambda key, n=n: group_of_the_other(key, n, 3, 2)) for n in (1, 2))
    exact = np.array([2 / 3, 1 / 3])  # positions 0 and 2, and position 1
    bound = 6 * np.sqrt(2 / 9 / 4000)
    assert np.abs(alone - exact).max() < bound
    assert np.abs(together - exact).max() < bound
    # The twin deals those who are present, in order: the other's group shows whether there is one more.
    present = [law(lambda _, n=n: (n - 1) % 2) for n in (1, 2)]
    assert np.abs(present[0] - present[1]).max() == 1
