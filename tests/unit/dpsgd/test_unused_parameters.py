"""Parameters that no layer of a step uses get no noise: their sums are 0 whatever the examples are, by public facts."""

import random

import pytest
import torch
from torch import nn

from inid.dpsgd.step_state import StepState
from inid.testing import unsafe_no_noise, unsafe_seed
from training import groups_of, private, slow_sums, train_once

N, WIDTH = 12, 24
X = torch.randn(N, WIDTH, generator=torch.Generator().manual_seed(1))


class Optional(nn.Module):
    """A table that is looked up where that is asked for, as LUKE's of entities, beside two layers."""

    def __init__(self, use=False):
        super().__init__()
        torch.manual_seed(2)
        self.use, self.first, self.table, self.last = (
            use,
            nn.Linear(WIDTH, WIDTH),
            nn.Embedding(5, WIDTH),
            nn.Linear(WIDTH, 2),
        )

    def forward(self, x):
        h = self.first(x)
        if self.use:
            h = h + self.table(x[:, 0].abs().long() % 5)
        return self.last(h)


def has_noise(gradient):
    """Whether numbers have noise; one of thousands may be 0 by chance, where normal numbers have 24 bits."""
    return (gradient == 0).double().mean() < 0.01


WAYS = [
    {"clipping": "global"},
    {"clipping": "automatic"},
    {"clipping": "per_layer"},
    {"clipping": "elementwise"},
    {"clipping": "per_layer", "total": 0.7},
    {"clipping": "per_layer", "thresholds": "adaptive"},
    {"noise": "exact"},
    {"mechanism": "laplace"},
    {"max_physical_batch_size": 4},
]


@pytest.mark.parametrize("options", WAYS, ids=str)
def test_they_have_no_gradient_and_all_others_have_noise(options):
    training = private(Optional(), X, **options)
    train_once(training)
    assert training.module.table.weight.grad is None
    with unsafe_no_noise():
        without = private(Optional(), X, **options)
        train_once(without)
    for name, parameter in training.module.named_parameters():
        if name != "table.weight":
            assert not torch.equal(parameter.grad, without.module.get_parameter(name).grad), name
    training.module.use = True  # a public number of the model
    train_once(training)
    assert has_noise(training.module.table.weight.grad)  # also in lines that nobody looked up
    training.module.use = False
    train_once(training)
    assert training.module.table.weight.grad is None


def test_the_sums_and_the_noise_of_the_others_are_as_before():
    training = private(Optional(), X, clipping="global", max_grad_norm=0.5)
    wanted = slow_sums(Optional(), X, [0.5], groups=groups_of(Optional(), "global"))
    with unsafe_no_noise():
        train_once(training)
    for name, parameter in training.module.named_parameters():
        assert torch.allclose(
            wanted[name].float(), torch.zeros(()) if parameter.grad is None else parameter.grad, atol=1e-6
        )
    found = []
    with unsafe_seed(3):
        for _ in range(30):
            train_once(training)
            found.append(training.module.first.weight.grad - wanted["first.weight"])
    scale = float(training.optimizer.plan.scales[0])
    assert abs(float(torch.stack(found).std()) / scale - 1) < 0.04  # 17,280 draws: seven deviations


def test_a_step_that_uses_one_in_a_single_physical_batch_has_noise_for_it():
    training = private(Optional(), X, max_physical_batch_size=4)
    for at, (x,) in enumerate(training.data_loader):
        training.module.use = at == 1
        training.optimizer.zero_grad()
        training.backward(lambda row: row.square().sum(), training.module(x))
        training.optimizer.step()
    assert has_noise(training.module.table.weight.grad)


class Dropped(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers, self.last = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(4)), nn.Linear(WIDTH, 2)

    def forward(self, x):
        for layer in self.layers:
            x = x + layer(x) if random.random() > 0.5 else x  # noqa: S311 - what models draw from
        return self.last(x)


def test_layers_that_chance_leaves_out_have_noise_in_every_step():
    random.seed(1)
    training = private(Dropped(), X)
    for _ in range(5):
        train_once(training)
        assert all(has_noise(parameter.grad) for parameter in training.module.parameters())


def test_twin_that_forgets_what_was_used_releases_nothing_of_it(monkeypatch):
    """What is left out is left out whole: no sum goes out without its noise."""
    training = private(Optional(use=True), X)
    known = training.module.last.bias
    monkeypatch.setattr(StepState, "used", property(lambda _: {known}, lambda *_: None), raising=False)
    train_once(training)
    assert [name for name, p in training.module.named_parameters() if p.grad is not None] == ["last.bias"]
