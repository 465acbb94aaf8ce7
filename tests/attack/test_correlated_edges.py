"""Runs with correlated noise at the edges: one step, a checkpoint of another kind of run, any order of crashes.

Every group is drawn whole in its turn, as in `test_correlated_training`.
"""

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from attack.test_correlated_training import BANDS, SIZE, made, steps_of
from correlated_runs import fed
from inid import ApproxDP, Ledger
from inid.errors import RecordError


def all_at_once():
    """A loader that draws everybody in every step, which costs what a round does."""
    return DataLoader(TensorDataset(torch.arange(SIZE, dtype=torch.float64)[:, None]), batch_size=SIZE)


@pytest.mark.parametrize("noise", ["torch", "exact"])
def test_a_run_of_one_step_has_noise_of_its_own(noise):
    training = made(steps=1, noise=noise)
    ((_, value),) = steps_of(training)
    assert value != 0
    assert training.accountant.steps == 1


def test_the_noise_of_one_step_is_fresh_noise():
    with fed([1.0]):
        ((_, value),) = steps_of(made(steps=1))
    assert value == pytest.approx(1.0)


def test_rounds_are_not_counted_as_steps_of_a_checkpoint():
    """Steps are counted one by one, rounds all at once: the accountant of the one would miss rounds of the other."""
    with Ledger(total=ApproxDP(99.0, 1e-5), neighbours="zero_out") as paid:
        first = made(ledger=paid, noise_multiplier=9.0, correlation=None, data_loader=all_at_once())
        list(steps_of(first, 1))
        state = first.optimizer.state_dict()
        second = made(ledger=paid, noise_multiplier=9.0)
        with pytest.raises(RecordError, match="rounds of turns"):
            second.optimizer.load_state_dict(state)
        assert second.accountant.steps == 0
        # The twin: a state that says otherwise.
        state["inid"]["ledger"]["unit"] = "rounds of turns"
        second.optimizer.load_state_dict(state)
        came = [took for took, _ in steps_of(second, 2 * BANDS)]
        assert sum(0 in took for took in came) == 2
        assert second.accountant.steps == 1


def test_a_checkpoint_from_before_there_were_rounds_goes_on():
    with Ledger(total=ApproxDP(99.0, 1e-5), neighbours="zero_out") as paid:
        first = made(ledger=paid, correlation=None, noise_multiplier=9.0)
        list(steps_of(first, 1))
        state = first.optimizer.state_dict()
        del state["inid"]["ledger"]["unit"]
        second = made(ledger=paid, correlation=None, noise_multiplier=9.0)
        second.optimizer.load_state_dict(state)
        list(steps_of(second, 1))
        assert second.accountant.steps == 2
