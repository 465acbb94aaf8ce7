"""Whatever a loop does with its batches, padding stays padding: a look at another batch, sorted rows, validation."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from inid import dpsgd
from inid.errors import GuaranteeError
from inid.testing import unsafe_seed
from internals import module_with
from training import make_private

poisson_draw = module_with("inid.dpsgd.sampling", "StepPlaces")

X = torch.randn(60, 5, generator=torch.Generator().manual_seed(0))


def made(monkeypatch, draws, steps=None, model=None, **options):
    """A private training over physical batches of 12 rows, whose draws are the first examples: so many."""
    numbers = iter(draws)
    monkeypatch.setattr(poisson_draw, "bernoulli", lambda size, _: np.arange(size) < next(numbers))
    model = model or nn.Linear(5, 1)
    return make_private(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.0),
        data_loader=DataLoader(TensorDataset(X), batch_size=6),
        noise_multiplier=1.0,
        max_physical_batch_size=12,
        steps=steps,
        **options,
    )


def train(training, x):
    training.optimizer.zero_grad()
    training.backward(lambda row: row.square().mean(), training.module(x))
    training.optimizer.step()


def test_a_look_at_another_batch_inside_the_loop_is_refused(monkeypatch):
    """Two examples were drawn, and ten copies of the first counted beside them."""
    training = made(monkeypatch, [2, 12, 12])
    for (x,) in training.data_loader:
        next(iter(training.data_loader))  # something to look at
        with pytest.raises(GuaranteeError, match="read ahead"):
            train(training, x)
        break
    assert training.accountant.steps == 0


def test_processes_that_were_joined_after_make_private_are_refused(monkeypatch):
    """Each would train on all examples by itself, and what they make together would be paid for once."""
    training = made(monkeypatch, [2, 3])
    batches = iter(training.data_loader)
    train(training, next(batches)[0])
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.distributed, "get_rank", lambda: 0)
    monkeypatch.setattr(torch.distributed, "get_world_size", lambda: 2)
    with pytest.raises(GuaranteeError, match="after init_process_group"):
        train(training, next(batches)[0])
    assert training.accountant.steps == 1


def test_a_look_after_the_training_or_before_a_new_loop_is_fine(monkeypatch):
    training = made(monkeypatch, [2, 12, 3, 4, 5], steps=4)
    batches = iter(training.data_loader)
    train(training, next(batches)[0])
    next(iter(training.data_loader))
    with pytest.warns(UserWarning, match="no step was taken"):
        (x,) = next(batches)
    train(training, x)
    del batches
    for (x,) in training.data_loader:
        train(training, x)
        break
    assert training.accountant.steps == 3


def test_a_loop_may_begin_anew_after_one_that_was_refused(monkeypatch):
    """In a notebook the iterators of loops that failed live on."""
    training = made(monkeypatch, [2] * 9)
    alive = [iter(training.data_loader) for _ in range(3)]
    next(alive[0])
    (x,) = next(alive[1])
    with pytest.raises(GuaranteeError, match="read ahead"):
        train(training, x)
    train(training, next(alive[2])[0])


@pytest.mark.parametrize("steps", [1, 3])
def test_a_loader_that_was_read_through_may_be_read_again(steps, monkeypatch):
    training = made(monkeypatch, [2] * 9, steps=steps)
    batches = list(training.data_loader)
    assert len(batches) == steps
    if steps == 1:  # this cannot be told from a loop that reads ahead
        with pytest.raises(GuaranteeError, match="read ahead"):
            train(training, next(iter(training.data_loader))[0])
    for (x,) in training.data_loader:
        train(training, x)


def test_reading_ahead_over_several_rounds_is_refused(monkeypatch):
    training = made(monkeypatch, [2, 12], steps=1)
    (x,) = next(held := iter(training.data_loader))
    assert next(held, None) is None
    next(iter(training.data_loader))
    with pytest.raises(GuaranteeError, match="read ahead"):
        train(training, x)


def test_validation_does_not_hide_that_a_loop_reads_ahead(monkeypatch):
    training = made(monkeypatch, [2, 12])
    batches = iter(training.data_loader)
    (x,) = next(batches)
    training.module(X[:5])  # without torch.no_grad()
    next(batches)
    with pytest.raises(GuaranteeError, match="read ahead"):
        train(training, x)


ORDERS = {
    "sorted": lambda x: x[x[:, 0].argsort()],
    "shuffled": lambda x: x[torch.randperm(len(x), generator=torch.Generator().manual_seed(1))],
    "flipped": lambda x: x.flip(0),
    "sorted and cut": lambda x: x[x[:, 0].argsort()][:, :3],
}


@pytest.mark.parametrize("name", ORDERS)
@pytest.mark.parametrize("options", [{}, {"loss_reduction": "sum"}])
def test_rows_in_another_order_are_refused(name, options, monkeypatch):
    """As loops do for packed sequences: copies of the first row counted in place of examples."""
    training = made(monkeypatch, [5], **options)
    with unsafe_seed(0):  # places that are their own mirror image hide that rows were flipped: one in twenty
        (x,) = next(iter(training.data_loader))
    training.module.weight.data = training.module.weight.data[:, : ORDERS[name](x).shape[1]].clone()
    outputs = training.module(ORDERS[name](x))
    with pytest.raises(GuaranteeError, match="not one of the drawn batch"):
        training.backward(lambda row: row.square().sum(), outputs)


def test_rows_changed_by_themselves_are_fine_inside_the_module(monkeypatch):
    changes = [lambda x: x, lambda x: 2 * x, lambda x: x + torch.randn_like(x), lambda x: x.clone()]

    class Changing(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer, self.at = nn.Linear(5, 1), 0

        def forward(self, x):
            return self.layer(changes[self.at](x))

    training = made(monkeypatch, [5, 6, 7, 8], steps=4, model=Changing())
    for at, (x,) in enumerate(training.data_loader):
        training.module.at = at
        train(training, x)
    assert training.accountant.steps == 4


def mixed(samples):
    """As torchvision's MixUp is used."""
    x = torch.stack([sample[0] for sample in samples])
    return [0.7 * x + 0.3 * x.roll(1, 0)]


def mixed_at_random(samples):
    x = torch.stack([sample[0] for sample in samples])
    share = np.random.beta(0.2, 0.2)  # noqa: NPY002 - as such functions do
    return [share * x + (1 - share) * x[torch.randperm(len(x))]]


def scaled(samples):
    x = torch.stack([sample[0] for sample in samples])
    return [x / x.abs().max()]


def sorted_with_noise(samples):
    x = torch.stack(sorted((sample[0] for sample in samples), key=lambda row: -float(row[0])))
    return [x + torch.rand(len(x), 1).sort(0).values * 0]


@pytest.mark.parametrize("collate", [mixed, mixed_at_random, scaled, sorted_with_noise])
def test_a_collate_function_that_mixes_examples_is_refused(collate):
    model = nn.Linear(5, 1)
    training = dpsgd.make_private(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.0),
        data_loader=DataLoader(TensorDataset(X), batch_size=6, collate_fn=collate),
        noise_multiplier=1.0,
    )
    before = torch.random.get_rng_state()
    if collate is sorted_with_noise:
        train(training, next(iter(training.data_loader))[0])
        return
    with pytest.raises(GuaranteeError, match="mixes examples"):
        next(iter(training.data_loader))
    assert torch.equal(torch.random.get_rng_state(), before)


def test_batches_that_workers_fetched_from_a_tests_source_are_not_private():
    """They were drawn inside, and are handed out outside."""
    loader = dpsgd.PoissonLoader(DataLoader(TensorDataset(X), batch_size=6, num_workers=1))
    with unsafe_seed(0):
        batches = iter(loader)
        next(batches)
    next(batches)
    assert not loader.drawn.private
    loader = dpsgd.PoissonLoader(DataLoader(TensorDataset(X), batch_size=6))
    next(iter(loader))
    assert loader.drawn.private
