"""The average of the parameters is made of released parameters alone, once per step."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from torch.utils.data import DataLoader, TensorDataset

from inid import dpsgd
from inid.errors import ArgumentError, RecordError
from internals import module_with
from training import make_private

poisson_draw = module_with("inid.dpsgd.sampling", "StepPlaces")

SIZE = 12


def private(seed=0, **options):
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)).double()
    model[0].bias.requires_grad_(False)
    return make_private(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.5),
        data_loader=DataLoader(TensorDataset(torch.randn(SIZE, 3, dtype=torch.float64)), batch_size=4),
        noise_multiplier=1.0,
        max_physical_batch_size=2,
        **options,
    )


def train(training, after=lambda: None):
    """Two epochs; returns the parameters after every step."""
    released = []
    for _ in range(2):
        for (x,) in training.data_loader:
            training.optimizer.zero_grad()
            training.backward(lambda row: row.square().mean(), training.module(x))
            training.optimizer.step()
            after()
            if training.data_loader.drawn.complete:
                released.append([p.detach().clone() for p in training.module.parameters() if p.requires_grad])
    return released


def test_it_is_the_recursion_over_released_parameters():
    training = private()
    start = [p.detach().clone() for p in training.module.parameters() if p.requires_grad]
    average = dpsgd.ParameterAverage(training, decay=0.6)
    released = train(training)
    assert average.steps == len(released) == 6
    for t, parameters in enumerate(released, 1):
        decay = min(0.6, (1 + t) / (10 + t))
        start = [torch.lerp(mean, p, 1 - decay) for mean, p in zip(start, parameters, strict=True)]
    made = average.module()
    found = [p for p in made.parameters() if p.requires_grad]
    assert all(torch.equal(mean, p) for mean, p in zip(start, found, strict=True))
    assert torch.equal(made[0].bias, training.module[0].bias)
    assert not any(torch.equal(p, q) for p, q in zip(found, released[-1], strict=True))
    made(torch.ones(1, 3, dtype=torch.float64)).sum().backward()  # an ordinary model
    assert training.accountant.steps == 6


@pytest.mark.parametrize("drawn", [1, 6])
def test_it_moves_once_per_step_and_not_once_per_physical_batch(drawn, monkeypatch):
    """One that moves in the loop moves three times per step, whatever was drawn."""
    monkeypatch.setattr(poisson_draw, "bernoulli", lambda size, rate: np.arange(size) < drawn)
    training = private()
    average = dpsgd.ParameterAverage(training, decay=0.9)
    twin = AveragedModel(training.module, multi_avg_fn=get_ema_multi_avg_fn(0.9))
    train(training, lambda: twin.update_parameters(training.module))
    assert average.steps == 6
    assert int(twin.n_averaged) == 6 * 3  # the broken twin counts physical batches


def test_checkpoints_and_bad_arguments():
    training, other = private(), private(1)
    average, copied = dpsgd.ParameterAverage(training), dpsgd.ParameterAverage(other)
    train(training)
    copied.load_state_dict(average.state_dict())
    assert copied.steps == 6
    pairs = zip(copied.module().parameters(), average.module().parameters(), strict=True)
    assert all(torch.equal(p, q) for p, q in pairs if p.requires_grad)
    for state in ({}, {"steps": 1, "means": []}, {"means": average.state_dict()["means"]}, None):
        with pytest.raises(RecordError, match="not of an average"):
            copied.load_state_dict(state)
    for decay in (0.0, 1.0, float("nan"), "a"):
        with pytest.raises(ArgumentError, match="decay"):
            dpsgd.ParameterAverage(training, decay=decay)
    with pytest.raises(ArgumentError, match="what make_private returned"):
        dpsgd.ParameterAverage(training.module)
