"""What a training run has spent stays spent: checkpoints, stages, ledgers, and noise that is not secret."""

import os
import warnings

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import inid
from inid import dpsgd
from inid.errors import ArgumentError, BudgetError, RecordError
from inid.testing import unsafe_no_noise, unsafe_seed
from training import make_private, private, row_squares, train_once

X = torch.randn(8, 6, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def net():
    torch.manual_seed(2)
    return nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 2)).double()


def made(**options):
    model = net()
    options = {"noise_multiplier": 1.0, **options}
    return make_private(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.0),
        data_loader=DataLoader(TensorDataset(X), batch_size=4),
        **options,
    )


def counted(*stretches):
    accountant = dpsgd.Accountant()
    for multiplier, steps in stretches:
        for _ in range(steps):
            accountant.step(mechanism="gaussian", noise_multiplier=multiplier, sample_rate=0.1)
    return accountant


@pytest.mark.parametrize(
    "loaded",
    [[(100.0, 101)], [(0.5, 99)], [(0.5, 99), (100.0, 5)], [(0.5, 100), (0.7, 3)], [(0.5, 100), (0.7, 4), (0.5, 1)]],
)
def test_what_was_counted_must_begin_what_is_loaded(loaded):
    """101 steps of hardly any cost once replaced 100 expensive ones: epsilon went from 31 to 9e-5."""
    held = counted((0.5, 100), (0.7, 4))
    before = held.get_epsilon(1e-5)
    record = counted(*loaded)
    if loaded[-1] == (0.5, 1):
        held.load_state_dict(record.state_dict())
        assert held.history == record.history
        return
    with pytest.raises(RecordError, match="stays spent"):
        held.load_state_dict(record.state_dict())
    assert held.get_epsilon(1e-5) == before


def test_an_early_checkpoint_is_refused_by_a_run_that_has_gone_on():
    training = private(net(), X, batch_size=2)
    early = training.optimizer.state_dict()
    train_once(training)
    spent = training.accountant.steps
    for load in (
        training.optimizer.load_state_dict,
        lambda s: training.accountant.load_state_dict(s["inid"]["accountant"]),
    ):
        with pytest.raises(RecordError, match="stays spent"):
            load(early)
    assert training.accountant.steps == spent


def test_a_target_counts_what_the_accountant_has_spent():
    used = counted((1.0, 300))
    spent = used.get_epsilon(1e-3)
    goal = {"noise_multiplier": None, "target_delta": 1e-3, "epochs": 1}
    fresh = made(target_epsilon=2 * spent, **goal)
    further = made(target_epsilon=2 * spent, accountant=used, **goal)
    assert further.noise_multiplier > 1.05 * fresh.noise_multiplier
    train_once(further)
    assert spent < used.get_epsilon(1e-3) <= 2 * spent
    with pytest.raises(BudgetError, match="has spent"):
        made(target_epsilon=0.9 * spent, accountant=counted((1.0, 300)), **goal)


def test_stages_share_an_accountant():
    first = private(net(), X)
    train_once(first)
    second = private(net(), X, accountant=first.accountant)
    train_once(second)
    assert second.accountant is first.accountant
    assert first.accountant.steps == 2


def test_a_run_that_outlasts_its_plan_says_so():
    training = made(noise_multiplier=None, target_epsilon=5.0, target_delta=1e-3, epochs=1)
    train_once(training)
    assert training.accountant.get_epsilon(1e-3) <= 5.0
    with pytest.warns(UserWarning, match="planned for 2 steps, and goes beyond them: it costs more than planned"):
        train_once(training)


def test_a_state_loaded_between_backward_and_step_drops_the_gradients():
    wide, narrow = (private(net(), X, max_grad_norm=[c, c], noise_multiplier=1e-9) for c in (100.0, 0.01))
    state = narrow.optimizer.state_dict()
    for (x,) in wide.data_loader:
        wide.optimizer.zero_grad()
        wide.backward(lambda row: row_squares(100 * row), wide.module(x))
        wide.optimizer.load_state_dict(state)
        wide.optimizer.step()
    assert max(float(p.grad.norm()) for p in wide.module.parameters()) < 1e-6


def test_a_damaged_state_is_refused_and_changes_nothing():
    training = private(net(), X)
    train_once(training)
    state = training.optimizer.state_dict()
    damaged = [
        3,
        {},
        {**state, "inid": 5},
        {**state, "inid": {**state["inid"], "thresholds": [1.0]}},
        {**state, "inid": {**state["inid"], "thresholds": [1.0, float("nan")]}},
        {**state, "inid": {**state["inid"], "thresholds": [1.0, "a"]}},
        {**state, "inid": {"thresholds": [1.0, 1.0]}},
        {**state, "inid": {**state["inid"], "accountant": {"inid_accountant": 1, "history": [["gaussian"]]}}},
    ]
    for wrong in damaged:
        with pytest.raises(RecordError):
            training.optimizer.load_state_dict(wrong)
    with pytest.raises((ValueError, KeyError)):
        training.optimizer.load_state_dict({**state, "param_groups": []})
    assert training.optimizer.state_dict()["inid"] == state["inid"]


# Ledgers.

TOTAL = inid.ApproxDP(epsilon=8.0, delta=1e-5)


def zero_out_ledger():
    return inid.Ledger(total=TOTAL, neighbours="zero_out")


def test_a_ledger_pays_for_the_run_once_before_the_first_step():
    ledger = zero_out_ledger()
    training = made(ledger=ledger, epochs=3, noise_multiplier=2.0)
    assert not ledger.history()
    for _ in range(3):
        train_once(training)
    (record,) = [record for record in ledger.history() if record.plan]
    assert record.neighbours == "zero_out"
    assert training.accountant.steps == 6
    with pytest.raises(BudgetError, match="0 of its 6 steps left"):
        train_once(training)
    assert training.accountant.steps == 6


def test_a_run_that_does_not_fit_takes_no_step():
    training = made(ledger=zero_out_ledger(), epochs=3, noise_multiplier=0.01)
    before = [p.clone() for p in training.module.parameters()]
    with pytest.raises(BudgetError):
        train_once(training)
    assert training.accountant.steps == 0
    assert all(map(torch.equal, before, training.module.parameters()))


def test_going_back_to_a_checkpoint_takes_steps_of_the_same_charge():
    ledger = zero_out_ledger()
    run = {"ledger": ledger, "epochs": 2, "noise_multiplier": 2.0}
    training = made(**run)
    train_once(training)
    state = training.optimizer.state_dict()
    again = made(**run)
    again.optimizer.load_state_dict(state)
    train_once(again)
    assert len([record for record in ledger.history() if record.plan]) == 1
    once_more = made(**run)
    once_more.optimizer.load_state_dict(state)
    with pytest.raises(BudgetError, match="steps left"):
        train_once(once_more)  # the charge was for four steps, and four were taken


def test_a_process_that_forks_off_leases_steps_of_its_own(tmp_path, monkeypatch):
    ledger = inid.Ledger.open(tmp_path / "ledger.db", total=TOTAL, neighbours="zero_out")
    training = made(ledger=ledger, steps=300, noise_multiplier=20.0)
    batches, left = iter(training.data_loader), []
    for process in (None, None, 1, 1):
        if process is not None:
            monkeypatch.setattr(os, "getpid", lambda: -1)
        (x,) = next(batches)
        training.optimizer.zero_grad()
        training.backward(lambda row: row.square().sum(), training.module(x))
        training.optimizer.step()
        left.append(ledger.steps_left(training.optimizer.state_dict()["inid"]["ledger"]["charge"][0]))
    assert left == [297, 297, 294, 294]


def test_a_state_goes_with_its_ledger_and_its_noise():
    ledger = zero_out_ledger()
    training = made(ledger=ledger, epochs=2, noise_multiplier=2.0)
    train_once(training)
    state = training.optimizer.state_dict()
    for other in (
        made(noise_multiplier=2.0),
        made(ledger=ledger, epochs=2, noise_multiplier=1.0),
        made(ledger=zero_out_ledger(), epochs=2, noise_multiplier=2.0),
    ):
        with pytest.raises(RecordError, match="ledger"):
            other.optimizer.load_state_dict(state)


def test_the_relation_is_that_of_the_ledger():
    with pytest.raises(ArgumentError, match=r"epochs= or steps="):
        made(ledger=zero_out_ledger())
    with pytest.raises(ArgumentError, match=r'^neighbours="replace" is not accounted for'):
        made(neighbours="replace")
    with pytest.raises(ArgumentError, match=r'^the ledger counts neighbours="replace"'):
        made(ledger=inid.Ledger(total=TOTAL, neighbours="replace"), epochs=1)
    with pytest.raises(ArgumentError, match=r"sample_rate=\.\.\.\) and steps="):
        made(ledger=inid.Ledger(total=TOTAL), epochs=1)
    with pytest.raises(ArgumentError, match=r"inid\.Ledger"):
        made(ledger="budget.db", epochs=1)
    for ledger in (inid.Ledger(total=TOTAL), zero_out_ledger()):
        training = made(ledger=ledger, neighbours="add_remove", sample_rate=0.5, steps=3, noise_multiplier=2.0)
        train_once(training)
        assert training.accountant.steps == 3
        assert training.accountant.composition().neighbours == "add_remove"
        assert training.optimizer.plan.sensitivity.neighbours == "add_remove"


def test_the_relation_is_zero_out_where_the_number_of_examples_is_public():
    training = made()
    train_once(training)
    assert training.accountant.composition().neighbours == "zero_out"
    assert training.optimizer.plan.sensitivity.neighbours == "zero_out"


def test_with_a_stated_rate_nothing_public_depends_on_the_number_of_examples():
    seen = set()
    for count in (40, 41, 55):  # up to a tenth more than 20 / 0.4
        model = net()
        training = make_private(
            module=model,
            optimizer=torch.optim.SGD(model.parameters(), lr=0.0),
            data_loader=DataLoader(TensorDataset(torch.ones(count, 6).double()), batch_size=20),
            noise_multiplier=1.0,
            neighbours="add_remove",
            sample_rate=0.4,
            steps=5,
        )
        loader = training.data_loader
        seen.add((repr(loader), loader.physical_batch_size, loader.expected_batch_size, len(loader)))
    assert len(seen) == 1


# Noise that is not secret.


def not_private(make=unsafe_no_noise):
    with make():
        training = private(net(), X)
        train_once(training)
    return training.accountant


READINGS = [
    lambda accountant: accountant.get_epsilon(1e-5),
    lambda accountant: accountant.get_delta(1.0),
    lambda accountant: accountant.composition().epsilon(1e-5),
]


@pytest.mark.parametrize("make", [unsafe_no_noise, lambda: unsafe_seed(3)], ids=["no noise", "seeded"])
@pytest.mark.parametrize("read", READINGS, ids=["epsilon", "delta", "composition"])
def test_the_cost_of_a_run_with_a_tests_noise_is_not_given_silently(read, make):
    accountant = not_private(make)
    with pytest.warns(UserWarning, match="NOT private") as told:
        read(accountant)
    assert told[0].filename == __file__  # whoever asked
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for again in READINGS:  # once is enough
            again(accountant)


def test_a_record_of_a_run_with_a_tests_noise_warns_too():
    accountant = dpsgd.Accountant()
    accountant.load_state_dict(not_private().state_dict())
    with pytest.warns(UserWarning, match="NOT private"):
        accountant.get_epsilon(1e-5)


def test_a_private_run_and_an_empty_one_do_not_warn():
    training = private(net(), X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        training.accountant.get_epsilon(1e-5)
        train_once(training)
        training.accountant.get_epsilon(1e-5)
