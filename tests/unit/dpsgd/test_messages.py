"""Honest mistakes of a training loop: one sentence each that names the cure, and what is harmless stays so."""

import warnings

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from inid import dpsgd
from inid.errors import ArgumentError, GuaranteeError
from training import make_private


def made(**options):
    model = nn.Linear(3, 2)
    return make_private(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        data_loader=DataLoader(TensorDataset(torch.randn(20, 3), torch.randint(0, 2, (20,))), batch_size=5),
        noise_multiplier=1.0,
        **options,
    )


@pytest.mark.parametrize("said", ["mean", "sum"])
def test_losses_by_rows_add_up_as_they_should(said):
    training = made(loss_reduction=said)
    x, y = next(iter(training.data_loader))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        outputs = training.module(x)
        found = training.backward(functional.cross_entropy, outputs, y)
    assert torch.allclose(found, functional.cross_entropy(outputs, y, reduction=said))


def test_clip_grad_norm_finds_nothing_and_changes_nothing():
    """Before the step there is no gradient: what is clipped is every example's own."""
    training = made()
    x, y = next(iter(training.data_loader))
    training.backward(functional.cross_entropy, training.module(x), y)
    before = training.optimizer.step_state.sums.flat.clone()
    assert float(nn.utils.clip_grad_norm_(training.module.parameters(), 1e-6)) == 0
    assert torch.equal(training.optimizer.step_state.sums.flat, before)
    training.optimizer.step()
    assert all(p.grad is not None for p in training.module.parameters())


def test_arguments_without_names_are_refused():
    model = nn.Linear(3, 2)
    with pytest.raises(ArgumentError, match="by name, got 2 without: pass module="):
        dpsgd.make_private(model, torch.optim.SGD(model.parameters(), lr=0.1), noise_multiplier=1.0)


@pytest.mark.parametrize(
    ("name", "cure"),
    [
        ("poisson_sampling", "leave it out"),
        ("grad_sample_mode", "leave it out"),
        ("criterion", "private.backward"),
        ("secure_mode", 'noise="exact"'),
        ("total_steps", "steps="),
        ("noise_generator", "leave it out"),
    ],
)
def test_arguments_of_opacus_are_refused_with_what_to_do_here(name, cure):
    with pytest.raises(ArgumentError, match=rf"^{name} is an argument of Opacus; here .*{cure}"):
        made(**{name: True})


@pytest.mark.parametrize(
    ("word", "cure"), [("flat", 'clipping="global"'), ("adaptive", r'dpsgd.Clipping\(thresholds="adaptive"\)')]
)
def test_opacus_s_words_for_clipping_are_refused_with_those_of_here(word, cure):
    with pytest.raises(ArgumentError, match=rf'^clipping="{word}" is a word of Opacus; .*: pass {cure}\.$'):
        made(clipping=word)


def test_other_names_are_pythons_own_business():
    with pytest.raises(TypeError, match="unexpected keyword argument 'epochz'"):
        made(epochz=3)


def test_two_batches_in_one_step_name_accumulation():
    training = made()
    batches = iter(training.data_loader)
    x, y = next(batches)
    training.backward(functional.cross_entropy, training.module(x), y)
    x, y = next(batches)
    outputs = training.module(x)
    with pytest.raises(GuaranteeError, match=r"accumulate_grad_batches=1.*max_physical_batch_size"):
        training.backward(functional.cross_entropy, outputs, y)


def test_batches_read_ahead_name_accumulation():
    """As Trainer does with gradient_accumulation_steps: several batches are taken before the first is used."""
    training = made()
    batches = iter(training.data_loader)
    (x, y), _ = next(batches), next(batches)
    outputs = training.module(x)
    with pytest.raises(GuaranteeError, match=r"gradient_accumulation_steps=1.*max_physical_batch_size"):
        training.backward(functional.cross_entropy, outputs, y)


def pictures(**options):
    """A pretrained part whose batch normalisation is frozen, and a new head."""
    model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4, **options), nn.Flatten(), nn.Linear(4 * 16, 2))
    model[:2].requires_grad_(False)
    return model


def trained_on_pictures(model):
    training = dpsgd.make_private(
        module=model,
        optimizer=torch.optim.SGD(model[3].parameters(), lr=0.1),
        data_loader=DataLoader(TensorDataset(torch.randn(20, 1, 6, 6), torch.randint(0, 2, (20,))), batch_size=5),
        noise_multiplier=1.0,
    )
    for x, y in training.data_loader:
        training.optimizer.zero_grad()
        training.backward(functional.cross_entropy, training.module(x), y)
        training.optimizer.step()
    return training


@pytest.mark.parametrize("affine", [True, False])
def test_frozen_batch_normalisation_is_accepted(affine):
    model = pictures(affine=affine)
    model[1].eval()
    before = {name: each.clone() for name, each in model[1].state_dict().items()}
    assert trained_on_pictures(model).accountant.steps == 4
    assert all(torch.equal(each, before[name]) for name, each in model[1].state_dict().items())


def test_batch_normalisation_that_takes_statistics_is_refused_though_it_is_frozen():
    """Without gradients it still mixes the examples of a batch, before make_private and after a train() in the loop."""
    with pytest.raises(ArgumentError, match=r"eval\(\)"):
        trained_on_pictures(pictures())
    with pytest.raises(ArgumentError):
        trained_on_pictures(pictures(track_running_stats=False).eval())
    model = pictures()
    model[1].eval()
    training = trained_on_pictures(model)
    model.train()  # as Trainer does before every epoch
    x, _ = next(iter(training.data_loader))
    with pytest.raises((ArgumentError, GuaranteeError)):
        training.module(x)


def shifted(out, y):
    return functional.cross_entropy(out[:, :-1].flatten(), y[:, 1:].flatten())  # an IndexError


def by_shape(out, _):
    rows, _ = out.shape  # a ValueError
    return out.sum() / rows


@pytest.mark.parametrize("loss", [shifted, by_shape])
def test_a_loss_of_a_whole_batch_is_told_that_it_gets_a_row(loss):
    training = made()
    x, y = next(iter(training.data_loader))
    with pytest.raises(GuaranteeError, match="one row of the outputs and of every target"):
        training.loss(loss, training.module(x), y)


def test_a_schedule_by_losses_is_warned_of_and_a_fixed_one_is_not():
    training = made()
    with pytest.warns(UserWarning, match="ReduceLROnPlateau decides by the numbers"):
        torch.optim.lr_scheduler.ReduceLROnPlateau(training.optimizer)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        torch.optim.lr_scheduler.StepLR(training.optimizer, 1)
        torch.optim.lr_scheduler.ReduceLROnPlateau(torch.optim.SGD(nn.Linear(1, 1).parameters(), lr=0.1))


def test_the_summary_says_what_the_run_promises_before_its_first_step_and_the_record_what_it_has_cost():
    training = made(epochs=3)
    summary = training.summary(delta=1e-3)
    planned = dpsgd.Accountant()
    planned.step(mechanism="gaussian", noise_multiplier=1.0, sample_rate=0.25, steps=12)
    assert f"epsilon {planned.get_epsilon(1e-3):.4f}"[:12] in summary
    for said in (
        "12 steps",
        "an example must hold all of a person",
        "multiplier 1",
        "5 examples expected",
        "rate      0.25",
    ):
        assert said in summary
    assert "at delta 0.005 for" in training.summary()  # a tenth of one in 20
    for x, y in training.data_loader:
        training.optimizer.zero_grad()
        training.backward(functional.cross_entropy, training.module(x), y)
        training.optimizer.step()
    record = training.record(delta=1e-3)
    assert record.verify() == training.accountant.get_epsilon(1e-3)
    assert record.facts["trained"] == 8
    assert record.facts["units"] == 20
    assert "epsilon" in record.card()


def test_where_the_number_of_examples_is_secret_no_delta_follows_from_it_and_no_record_has_it():
    training = made(sampling=dpsgd.Sampling(neighbours="add_remove", sample_rate=0.25), steps=2)
    with pytest.raises(ArgumentError, match="pass delta="):
        training.summary()
    assert "how many there are is secret" in training.summary(delta=1e-6)
    for x, y in training.data_loader:
        training.optimizer.zero_grad()
        training.backward(functional.cross_entropy, training.module(x), y)
        training.optimizer.step()
    assert "units" not in training.record(delta=1e-6).facts
