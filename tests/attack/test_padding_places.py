"""Padding is left out whatever a collate function does with the order of the examples."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

from inid import dpsgd
from inid.errors import ArgumentError, GuaranteeError
from internals import module_with
from training import make_private

poisson_draw = module_with("inid.dpsgd.sampling", "StepPlaces")

NUMBER = 12
X = torch.randn(NUMBER, 5, generator=torch.Generator().manual_seed(0))


class Sequences(Dataset):
    def __len__(self):
        return NUMBER

    def __getitem__(self, at):
        return {"x": X[at], "length": (NUMBER - at) % 7}


def sort_by_length(samples):
    samples = sorted(samples, key=lambda sample: -sample.pop("length"))  # as some collate functions do, in place
    return {"x": torch.stack([sample["x"] for sample in samples]), "names": ["ann"] * len(samples)}


def clipped_sum(drawn, monkeypatch):
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 1))
    training = make_private(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.0),
        data_loader=DataLoader(Sequences(), batch_size=6, collate_fn=sort_by_length),
        noise_multiplier=1.0,
        max_physical_batch_size=40,
    )
    monkeypatch.setattr(poisson_draw, "bernoulli", lambda size, rate: drawn)
    batch = next(iter(training.data_loader))
    assert len(batch["names"]) == len(batch["x"]) == 40
    training.backward(lambda row: (100 * row).square().mean(), training.module(batch["x"]))
    return training.optimizer.step_state.sums.flat.double()


@pytest.mark.parametrize("left_out", [0, 3, NUMBER - 1])
def test_examples_that_a_collate_function_sorts_count_once(left_out, monkeypatch):
    """With padding before the sort the first example counted a dozen times."""
    every = np.ones(NUMBER, dtype=bool)
    moved = clipped_sum(every, monkeypatch) - clipped_sum(np.arange(NUMBER) != left_out, monkeypatch)
    assert moved.norm() <= 1.0


class Ragged(Dataset):
    """Sequences of two numbers; the second sequence may be longer."""

    def __init__(self, length):
        self.rows = [torch.full((length if at == 1 else 2,), float(at)) for at in range(NUMBER)]

    def __len__(self):
        return NUMBER

    def __getitem__(self, at):
        return torch.zeros(1), self.rows[at]


def strung_together(samples):
    return torch.stack([first for first, _ in samples]), torch.cat([row for _, row in samples])


def pairwise(samples):
    return torch.stack([x for x, _ in samples]), torch.zeros(len(samples), len(samples))


def boundaries(samples):
    return torch.stack([x for x, _ in samples]), torch.arange(len(samples) + 1)


@pytest.mark.parametrize("collate", [strung_together, pairwise, boundaries])
def test_rows_that_cannot_be_told_apart_are_refused(collate):
    """One sequence of another length moved the rows of all behind it, each into the next one's."""
    loader = dpsgd.PoissonLoader(DataLoader(Ragged(9), batch_size=NUMBER, collate_fn=collate))
    with pytest.raises(ArgumentError, match="cannot be told apart"):
        next(iter(loader))


def test_sequences_of_one_length_strung_together_are_told_apart():
    loader = dpsgd.PoissonLoader(DataLoader(Ragged(2), batch_size=NUMBER, collate_fn=strung_together))
    _, rows = next(iter(loader))
    assert sorted(rows.view(-1, 2)[:, 0].tolist()) == list(range(NUMBER))
    # The broken twin: of sequences that differ in length, twos are others' from the second on.
    _, flat = strung_together(list(Ragged(9)))
    assert flat[: 2 * NUMBER].view(-1, 2)[:, 0].tolist().count(1.0) >= 4


def read_ahead(loader):
    """A prefetcher: takes the next batch before the one at hand is used."""
    batches = iter(loader)
    held = next(batches)
    for following in batches:
        yield held
        held = following
    yield held


@pytest.mark.parametrize("part", [40, 10])
def test_a_loop_that_reads_ahead_is_refused(part, monkeypatch):
    """The padding of one batch was taken for the examples of the next: one person counted 28 times."""
    model = nn.Linear(5, 1)
    training = make_private(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.0),
        data_loader=DataLoader(TensorDataset(X.repeat(5, 1)), batch_size=10),
        noise_multiplier=1.0,
        max_physical_batch_size=part,
    )
    draws = iter([3, 30, 3, 3, 3, 3, 3])
    monkeypatch.setattr(poisson_draw, "bernoulli", lambda size, rate: np.arange(size) < next(draws))
    (x,) = next(read_ahead(training.data_loader))
    with pytest.raises(GuaranteeError, match=r"read ahead|another order"):
        training.backward(torch.sum, training.module(x))


def test_a_look_at_a_batch_before_training_is_fine():
    model = nn.Linear(5, 1)
    training = dpsgd.make_private(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.0),
        data_loader=DataLoader(TensorDataset(X), batch_size=4),
        noise_multiplier=1.0,
    )
    next(iter(training.data_loader))
    for (x,) in training.data_loader:
        training.backward(torch.mean, training.module(x))
        training.optimizer.step()
    assert training.accountant.steps == 3


def test_a_batch_taken_between_forward_and_backward_is_refused(monkeypatch):
    model = nn.Linear(5, 1)
    training = make_private(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.0),
        data_loader=DataLoader(TensorDataset(X), batch_size=4),
        noise_multiplier=1.0,
        max_physical_batch_size=12,
    )
    draws = iter([2, 12, 12])
    monkeypatch.setattr(poisson_draw, "bernoulli", lambda size, rate: np.arange(size) < next(draws))
    batches = iter(training.data_loader)
    loss = training.loss(torch.sum, training.module(next(batches)[0]))
    next(batches)
    with pytest.raises(GuaranteeError, match="read ahead"):
        loss.backward()


def test_a_mean_over_the_drawn_examples_alone_is_refused(monkeypatch):
    """It divides by how many were drawn: with inputs 1 and one -1, 21 drawn, one example moved 1.9 thresholds."""
    model = nn.Linear(5, 1)
    training = make_private(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.0),
        data_loader=DataLoader(TensorDataset(X), batch_size=4),
        noise_multiplier=1.0,
        max_physical_batch_size=12,
    )
    monkeypatch.setattr(poisson_draw, "bernoulli", lambda size, _: np.arange(size) < 5)
    (x,) = next(iter(training.data_loader))
    outputs, mask = training.module(x), training.data_loader.drawn.mask
    with pytest.raises(GuaranteeError, match="changed between"):
        training.loss(torch.mean, outputs[mask])
    with pytest.raises(GuaranteeError, match="row by row"):
        outputs.square().flatten()[mask].mean().backward()
