"""Cyclic sampling: one rate, one group for every example, and no example more often than rounds are charged for."""

from fractions import Fraction
from itertools import chain, permutations

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from inid.dpsgd import PoissonLoader
from inid.dpsgd.sampling import CyclicGroups, CyclicSchedule, RandomPartition, bernoulli, partition_examples
from inid.errors import ArgumentError, GuaranteeError
from inid.testing import unsafe_seed
from internals import module_with

FIVE = CyclicGroups(Fraction(1, 5), groups=2, steps=6000)


def in_turns(size, batch, groups, steps, **options):
    """A loader over the numbers of examples, whose groups take turns."""
    loader = PoissonLoader(DataLoader(TensorDataset(torch.arange(size)), batch_size=batch), steps=steps, **options)
    turns = CyclicSchedule(CyclicGroups(loader.plain_rate, groups, steps), alone=True)
    loader.follow_schedule(turns, key=2**100)
    return loader, turns


def drawn_in(loader, turns):
    """Who is drawn in each step, all of which are taken."""
    for (x,) in loader:
        turns.take(loader.drawn.number)
        yield x[loader.drawn.mask].tolist()


def at_the_charged_rate(drawn):
    """Within six standard deviations of the charged rate: a false alarm has a probability below 1e-7."""
    turns = FIVE.blocks
    found = np.bincount(list(chain.from_iterable(drawn)), minlength=5) / turns
    return bool((np.abs(found - FIVE.rate) < 6 * np.sqrt(FIVE.rate * (1 - FIVE.rate) / turns)).all())


@pytest.mark.parametrize("padded", [True, False])
def test_every_example_is_drawn_at_the_charged_rate_in_groups_of_unequal_size(padded, monkeypatch):
    """n = 5, b = 2. A draw that does not fit is made again, so padded draws come a little less often than charged."""
    with unsafe_seed(11):
        loader, turns = in_turns(5, 1, 2, FIVE.steps, padded=padded, max_physical_batch_size=3)
        assert sorted(loader._partition.examples_of(group).size for group in (0, 1)) == [2, 3]
        assert FIVE.rate == loader.sample_rate == 0.4
        assert at_the_charged_rate(drawn_in(loader, turns))

    def by_the_size_of_the_group(self, group, *, padded):
        own = self.examples_of(group)
        return [own[bernoulli(own.size, 1 / own.size)]]

    # The twin: every group gives a batch of the same size, so the smaller one's examples are drawn more often.
    monkeypatch.setattr(RandomPartition, "draw", by_the_size_of_the_group)
    with unsafe_seed(11):
        loader, turns = in_turns(5, 1, 2, FIVE.steps, padded=False)
        assert not at_the_charged_rate(drawn_in(loader, turns))


@pytest.mark.parametrize(("size", "groups"), [(5, 2), (7, 7), (100, 9), (4, 1)])
@pytest.mark.parametrize("world", [1, 3])
def test_every_example_has_one_group_in_one_process_for_the_whole_run(size, groups, world):
    held = [
        RandomPartition.of(size, size, rate=0.5, groups=groups, rank=r, world=world, key=2**90) for r in range(world)
    ]
    every = np.concatenate([own.examples_of(group) for own in held for group in range(groups)])
    assert sorted(every.tolist()) == list(range(size))
    assert {len(each) for own in held for each in own.members} == {-(-size // (groups * world)) + 1}


def test_a_group_has_its_turn_once_a_round():
    """All are drawn in every turn: each example comes once in each of the rounds, as many steps apart as groups."""
    loader, turns = in_turns(12, 3, 4, steps=18)
    came = [set(each) for each in drawn_in(loader, turns)]
    for example in range(12):
        at = [step for step, each in enumerate(came) if example in each]
        assert len(at) in (4, 5)
        assert set(np.diff(at)) == {4}
    assert turns.groups.blocks == 5


@pytest.mark.parametrize(("rate", "groups"), [(Fraction(3, 5), 2), (Fraction(1, 2), 3), (Fraction(11, 10), 1)])
def test_more_groups_than_batches_are_refused(rate, groups):
    with pytest.raises(ArgumentError, match="a group must hold a batch"):
        CyclicGroups(rate, groups, steps=9)


@pytest.mark.parametrize("name", ["groups", "steps"])
@pytest.mark.parametrize("value", [0, -3, 1.5, None, "2"])
def test_malformed_numbers_are_refused(name, value):
    given = {"sample_rate": Fraction(1, 20), "groups": 2, "steps": 9, name: value}
    with pytest.raises(ArgumentError, match=name):
        CyclicGroups(**given)


def laws(deal, most):
    """The law of the first example's group, without and with one more, over all orders that a key may give."""
    found = []
    for examples in range(1, most + 1):
        orders = list(permutations(range(3)))
        found.append(np.bincount([deal(examples, order) for order in orders], minlength=2) / len(orders))
    return found


def test_with_a_secret_number_one_example_more_leaves_the_law_of_the_others_groups(monkeypatch):
    """Two examples, three positions, two groups, enumerated: positions are dealt with the empty ones among them."""

    def positions_dealt(examples, order):
        monkeypatch.setattr(
            module_with("inid.dpsgd.sampling", "StepPlaces"),
            "random_places",
            lambda count, places, source: np.array(order[:count]),
        )
        held = partition_examples(examples, 3, rank=0, world=1, key=2**100)
        return int(np.flatnonzero(held == 0)[0]) % 2

    def present_dealt(examples, order):
        """The twin deals those who are present: halves of them, in a random order."""
        present = [each for each in order if each < examples]
        return present.index(0) * 2 // len(present)

    alone, together = laws(positions_dealt, 2)
    assert alone.tolist() == together.tolist() == [2 / 3, 1 / 3]
    alone, together = laws(present_dealt, 2)
    assert np.abs(alone - together).sum() / 2 == 0.5  # as theory has it


def test_a_loader_deals_by_its_key_and_draws_empty_positions():
    """Add_remove: with a tenth more positions than stated, the rate of a position is the charged one."""
    groups = [
        in_turns(50, 10, 5, 5, sample_rate=0.2, neighbours="add_remove")[0]._partition,
        in_turns(49, 10, 5, 5, sample_rate=0.2, neighbours="add_remove")[0]._partition,
    ]
    assert {len(each) - 1 for own in groups for each in own.members} == {11}
    full, less = ([set(own.examples_of(group).tolist()) for group in range(5)] for own in groups)
    assert [one - {49} for one in full] == less  # with the same words, everybody else stays


def test_numbers_are_taken_by_steps_and_not_by_draws():
    loader, turns = in_turns(12, 2, 3, steps=6)
    for _ in range(4):
        next(iter(loader))
        assert loader.drawn.number == turns.next == 0
    batches = iter(loader)
    next(batches), next(batches)
    assert loader.drawn.number == 0  # passed over, and drawn anew
    turns.take(0)
    next(batches)
    assert loader.drawn.number == 1


def test_a_turn_that_is_over_is_refused():
    _, turns = in_turns(12, 2, 3, steps=6)
    turns.take(2)
    for number in (0, 2, 6):
        with pytest.raises(GuaranteeError, match="turn is over"):
            turns.take(number)
    turns.take(5)


def test_several_processes_may_pass_no_turn_over():
    turns = CyclicSchedule(CyclicGroups(Fraction(1, 6), 3, 6), alone=False)
    turns.take(0)
    with pytest.raises(GuaranteeError, match="passed over"):
        turns.take(2)
    turns.take(1)


def test_a_loader_ends_with_its_run():
    loader, turns = in_turns(12, 2, 3, steps=6)
    turns.begin_stage(rounds=1)
    with pytest.warns(UserWarning, match="ends 3 steps early"):
        assert len(list(drawn_in(loader, turns))) == 3
    with pytest.raises(GuaranteeError, match="all 6 steps"):
        next(iter(loader))
