"""Runs with correlated noise that crash, go back, look twice or are copied: nobody takes part more often than charged.

Every group is drawn whole in its turn (rate 1), so that who takes part follows from turns alone. Guards are taken away
one by one in twins, which then break what the test asserts.
"""

import copy
import io
import os
import pickle
import warnings
from collections import Counter
from itertools import islice
from types import SimpleNamespace
from unittest import mock

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import ConcatDataset, DataLoader, Subset, TensorDataset

from correlated_runs import fed, noise_map, squared_shift
from inid import ApproxDP, Ledger, dpsgd
from inid.dpsgd import ChargedRun
from inid.dpsgd.noise import CorrelatedRun
from inid.dpsgd.sampling import CyclicSchedule
from inid.errors import ArgumentError, BudgetError, GuaranteeError, InidError
from inid.testing import unsafe_seed
from internals import module_with
from needs import needs
from training import make_private

correlated_noise = module_with("inid.dpsgd.noise", "RunNoise")
correlated_run = module_with("inid.dpsgd.noise", "CorrelatedRun")

SIZE, BATCH, BANDS, STEPS = 12, 2, 6, 24  # four rounds


def made(**options):
    """A run over examples that are their numbers; its model has one parameter."""
    torch.manual_seed(0)
    model = nn.Linear(1, 1, bias=False).double()
    data = TensorDataset(torch.arange(SIZE, dtype=torch.float64)[:, None])
    given = {
        "data_loader": DataLoader(data, batch_size=BATCH),
        "noise_multiplier": 1.0,
        "steps": STEPS,
        "loss_reduction": "sum",
        "correlation": dpsgd.Banded(BANDS),
    }
    return make_private(module=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.0), **given | options)


def steps_of(training, most=STEPS, factor=0.0):
    """Take up to so many steps: who took part in each, and what was released."""
    for (x,) in islice(training.data_loader, most):
        training.optimizer.zero_grad()
        training.backward(lambda row: factor * row.sum(), training.module(x))
        training.optimizer.step()
        took = set(x[training.data_loader.drawn.mask].flatten().int().tolist())
        yield took, float(next(training.module.parameters()).grad)


def ledger():
    return Ledger(total=ApproxDP(200.0, 1e-5), neighbours="zero_out")


def crash_loop(crashes, after, **options):
    """Who took part in each step of a run that goes back to its first checkpoint again and again."""
    state, came = None, []
    for attempt in range(crashes + 1):
        training = made(**options)
        if state is not None:
            training.optimizer.load_state_dict(state)
        try:
            for took, _ in steps_of(training, after if attempt < crashes else STEPS):
                came.append(took)
                state = training.optimizer.state_dict() if state is None else state
        except (BudgetError, GuaranteeError):
            break
    return came


def most_often(came):
    return max(Counter(example for took in came for example in took).values())


def leased_by_steps():
    """The twin: steps are leased, not rounds, and numbers begin again at the checkpoint."""
    left = iter(range(STEPS))

    def take_step(self):
        if self.charge is None:
            self.charge = self._new_charge()
        if next(left, None) is None:
            raise BudgetError("all steps have been taken.")

    return (
        mock.patch.object(ChargedRun, "take_step", take_step),
        mock.patch.object(ChargedRun, "left", return_value=STEPS),
        mock.patch.object(CyclicSchedule, "begins_round", return_value=True),
    )


@pytest.mark.filterwarnings("ignore:the run ends")
@pytest.mark.parametrize("after", [1, 3, 5, 7])
def test_a_crash_loop_takes_nobody_more_often_than_charged(after):
    """T4: six crashes after step 3. Four rounds are charged."""
    with ledger() as paid:
        came = crash_loop(6, after, ledger=paid)
        assert most_often(came) <= 4
        assert len(paid.history()) == 1
        assert paid.steps_left(paid.history()[0].id) == 0


def test_leases_of_single_steps_let_one_group_take_part_more_often():
    one, two, three = leased_by_steps()
    same_deal = SimpleNamespace(bits=lambda _: 2**100, silent=False)
    with ledger() as paid, one, two, three, mock.patch.object(correlated_run, "current_source", return_value=same_deal):
        assert most_often(crash_loop(6, 3, ledger=paid)) == 7


@pytest.mark.filterwarnings("ignore:the run ends")
def test_no_fresh_noise_is_drawn_twice():
    drawn, draw = [], correlated_noise.standard_noise

    def noted(like, mechanism):
        drawn.append(draw(like, mechanism).clone())
        return drawn[-1].clone()

    with mock.patch.object(correlated_noise, "standard_noise", noted), ledger() as paid:
        crash_loop(2, 3, ledger=paid)
        assert len(drawn) > 6
        assert len({float(each) for each in drawn}) == len(drawn)
        drawn.clear()
        for _ in range(2):  # the twin: a generator that was put back to where it was
            with unsafe_seed(3):
                list(steps_of(made(), 3))
        assert len({float(each) for each in drawn}) == 3


def released(scenario):
    """What a scenario releases, and who took part in each release."""
    found = list(scenario())
    return [took for took, _ in found], [value for _, value in found]


def interrupted():
    """Five steps, back to the checkpoint after the third, and seven more."""
    with ledger() as paid:
        first = made(ledger=paid)
        states = []
        for each in steps_of(first, 5):
            states.append(first.optimizer.state_dict())
            yield each
        first.optimizer.load_state_dict(states[2])
        yield from steps_of(first, 7)


def passed_over():
    """Batches that are drawn ahead, of which the fourth is not stepped on."""
    training = made()
    with mock.patch.object(training.data_loader._loader, "num_workers", 0):
        turns, ahead = training.optimizer._correlated.schedule, [3]
        find = turns.next_number

        def skipping(last):
            if ahead and turns.next == ahead[0]:
                return find(ahead.pop())
            return find(last)

        with mock.patch.object(turns, "next_number", skipping):
            yield from steps_of(training, 11)


@pytest.mark.parametrize("scenario", [lambda: steps_of(made(), 12), interrupted, passed_over])
def test_nobody_is_revealed_more_than_by_as_many_steps_of_their_own(scenario):
    """Participations at rate 1 and multiplier 1 are charged a squared shift of 1 each."""
    with unsafe_seed(1):  # deals and draws alike in every run
        came, _ = released(scenario)

    def values():
        with unsafe_seed(1):
            return released(scenario)[1]

    matrix = noise_map(values, len(came))
    for example in range(SIZE):
        took = np.array([example in each for each in came], dtype=float)
        assert took.sum() >= 1
        assert squared_shift(matrix, took) <= took.sum() * (1 + 1e-9)


def test_noise_that_is_held_over_a_resume_reveals_more():
    def values():
        with unsafe_seed(1):
            return released(interrupted)[1]

    class Keeping(correlated_noise.NoiseHistory):
        def before(self, like, row):
            self._last = (row[0], row[1] - 1)
            return super().before(like, row)

        def forget(self):
            if self._vectors is None or self._last is None:
                super().forget()

    with unsafe_seed(1):
        came, _ = released(interrupted)
    with (
        mock.patch.object(correlated_noise, "NoiseHistory", Keeping),
        mock.patch.object(correlated_noise.CorrelatedNoise, "forget", return_value=None),
    ):
        matrix = noise_map(values, len(came))
    over = []
    for example in range(SIZE):
        took = np.array([example in each for each in came], dtype=float)
        over.append(squared_shift(matrix, took) / took.sum())
    assert max(over) > 1.05


def test_without_a_ledger_a_checkpoint_begins_a_stage_that_is_charged_as_a_whole():
    first = made()
    list(steps_of(first, 3))
    assert [each.steps for each in first.accountant.history] == [4]  # all four rounds, from the first step on
    second = made()
    with pytest.warns(UserWarning, match="new stage of 24 steps"):
        second.optimizer.load_state_dict(first.optimizer.state_dict())
    list(steps_of(second, 1))
    assert [each.steps for each in second.accountant.history] == [8]
    list(steps_of(second, 5))
    assert second.accountant.steps == 8


def test_stages_of_other_bands_count_their_own_rounds():
    first = made(steps=7)
    list(steps_of(first, 7))
    assert first.accountant.steps == 2
    second = made(steps=7, correlation=dpsgd.Banded(3), accountant=first.accountant)
    list(steps_of(second, 7))
    assert [(each.sample_rate, each.steps) for each in first.accountant.history] == [(1.0, 2), (0.5, 3)]


def test_a_run_that_stops_is_charged_for_all_of_it():
    whole, stopped = made(noise_multiplier=3.0), made(noise_multiplier=3.0)
    list(steps_of(whole))
    list(steps_of(stopped, 1))
    assert whole.accountant.get_epsilon(1e-5) == stopped.accountant.get_epsilon(1e-5) > 0


def test_a_run_does_not_outlast_its_steps():
    training = made()
    assert len(list(steps_of(training))) == STEPS
    with pytest.raises(GuaranteeError, match="all 24 steps"):
        next(iter(training.data_loader))


def test_a_look_at_batches_takes_no_turn():
    training = made()
    for _ in range(5):
        looking = iter(training.data_loader)
        next(looking)
        looking.close()
    came = [took for took, _ in steps_of(training)]
    assert len(came) == STEPS
    assert most_often(came) == 4


def test_a_batch_whose_turn_is_over_is_refused():
    """As one would be that another iterator had drawn for the first step, before it was taken."""
    training = made()
    list(steps_of(training, 2))
    with mock.patch.object(training.data_loader.drawn, "number", 0):
        training.data_loader.drawn.batch += 1
        with pytest.raises(GuaranteeError, match="turn is over"):
            training.optimizer.step()


def test_workers_draw_ahead_and_nobody_comes_more_often():
    data = TensorDataset(torch.arange(SIZE, dtype=torch.float64)[:, None])
    training = made(data_loader=DataLoader(data, batch_size=BATCH, num_workers=1))
    came = [took for took, _ in steps_of(training, 9)]  # what was drawn ahead is given up
    came += [took for took, _ in steps_of(training)]
    assert len(came) == STEPS
    for at, took in enumerate(came[:-BANDS]):
        assert took == came[at + BANDS]


def test_a_step_that_draws_nobody_has_noise_too():
    data = TensorDataset(torch.arange(SIZE, dtype=torch.float64)[:, None])
    with unsafe_seed(4):
        training = made(data_loader=DataLoader(data, batch_size=1), correlation=dpsgd.Banded(2), steps=40)
        found = list(steps_of(training, 40, factor=1.0))
    nobody = [value for took, value in found if not took]
    assert len(nobody) > 3
    assert all(value != 0 for value in nobody)
    noisy = correlated_noise.CorrelatedNoise.noisy

    def only_where_somebody_is(self, sums, plan, counts, row):
        return noisy(self, sums, plan, counts, row) if sums.any() else sums.clone()

    # The twin shows that nobody was drawn.
    with mock.patch.object(correlated_noise.CorrelatedNoise, "noisy", only_where_somebody_is), unsafe_seed(4):
        training = made(data_loader=DataLoader(data, batch_size=1), correlation=dpsgd.Banded(2), steps=40)
        assert 0.0 in [value for took, value in steps_of(training, 40, factor=1.0) if not took]


def test_one_person_named_twice_would_be_in_two_groups_and_is_refused():
    numbers = TensorDataset(torch.arange(SIZE, dtype=torch.float64)[:, None])
    twice = [Subset(numbers, [*range(SIZE), 0]), ConcatDataset([numbers, Subset(numbers, [3])])]
    for data in twice:
        with pytest.raises(ArgumentError, match="twice"):
            made(data_loader=DataLoader(data, batch_size=BATCH))
    # The twin: without the check the example of both names takes part in the turns of two groups.
    named = mock.patch("inid.dpsgd.sampling.poisson_loader._example_identities", return_value=np.arange(2)[:, None])
    with named, unsafe_seed(2):
        training = made(data_loader=DataLoader(twice[0], batch_size=2), correlation=dpsgd.Banded(6), sample_rate=1 / 6)
        assert most_often([took for took, _ in steps_of(training)]) > 4


def test_nothing_that_is_secret_leaves_through_state_copies_or_pickles():
    training = made()
    list(steps_of(training, 4))
    held = training.optimizer._correlated._noise._history
    secret = {float(each) for each in held._vectors.flatten() if each}
    assert len(secret) == 4
    stored = io.BytesIO()
    torch.save(training.optimizer.state_dict(), stored)
    stored.seek(0)
    state = torch.load(stored)

    def numbers(value):
        if isinstance(value, dict):
            return {each for inner in value.values() for each in numbers(inner)}
        if isinstance(value, (list, tuple)):
            return {each for inner in value for each in numbers(inner)}
        return set(value.flatten().tolist()) if isinstance(value, torch.Tensor) else {value}

    assert not secret & numbers(state)
    for name in ("optimizer", "data_loader"):
        for duplicate in (copy.copy if name == "optimizer" else copy.deepcopy, copy.deepcopy, pickle.dumps):
            with pytest.raises((ArgumentError, TypeError)):
                duplicate(getattr(training, name))
    shown = f"{training.optimizer!r}{training.data_loader!r}{training.optimizer.correlation}{held!r}"
    assert not any(f"{each:.6f}"[:8] in shown for each in secret)


def test_a_forked_child_begins_a_stage_of_its_own():
    fork, training = needs("fork"), made()
    list(steps_of(training, 4))
    child = fork()
    if not child:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            list(steps_of(training, 1))
            right = training.accountant.steps == 8 and training.optimizer._correlated.schedule.next == 1
        os._exit(0 if right else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert training.accountant.steps == 4


def test_an_error_of_the_ledger_takes_no_turn():
    with Ledger(total=ApproxDP(0.5, 1e-5), neighbours="zero_out") as paid:
        training = made(ledger=paid)
        with pytest.raises(BudgetError, match="rounds of turns fit"):
            list(steps_of(training))
        assert training.accountant.steps == 0
        assert training.optimizer._correlated.schedule.next == 0


REFUSED = [
    ({"mechanism": "laplace"}, "l1 norm"),
    ({"neighbours": "replace"}, "zero_out"),
    ({"correlation": dpsgd.Banded(7)}, "at most 6"),
    ({"correlation": "best"}, "correlation"),
    ({"correlation": 6}, "correlation"),
    ({"steps": None}, "steps= or epochs="),
    ({"correlation": "auto"}, "target_epsilon"),
    ({"noise": "exact", "thresholds": "adaptive"}, "grid"),
    ({"data_loader": DataLoader(TensorDataset(torch.zeros(9, 1).double()), batch_size=9)}, "at most 1"),
]


@pytest.mark.parametrize(("changed", "names"), REFUSED)
def test_what_the_claim_does_not_cover_is_refused_before_anything_is_changed(changed, names):
    with ledger() as paid:
        with pytest.raises(InidError, match=names):
            made(ledger=paid, **changed)
        assert not paid.history()


def test_the_guards_are_those_of_the_run():
    assert isinstance(made().optimizer._correlated, CorrelatedRun)
    assert (
        made(correlation=None).optimizer._correlated is made(correlation=dpsgd.Banded(1)).optimizer._correlated is None
    )


def test_fed_noise_is_what_is_released():
    """That the maps above see what is released: fresh noise of 1 in the first step is released times 1 / c_0."""
    with fed([1.0]):
        (_, value), *_ = steps_of(made(), 1)
    assert value == pytest.approx(1 / dpsgd.Banded(BANDS).coefficients(STEPS)[0])
