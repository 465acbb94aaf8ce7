"""A training that is given up goes, wherever it was given up; a graph that outlives it is refused."""

import gc
from functools import partial
from weakref import ref

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from inid import dpsgd
from inid.errors import GuaranteeError
from internals import module_with

per_example_gradients = module_with("inid.dpsgd", "PerExampleGradients")

ROWS, WIDTH = 6, 4


class Keeps(nn.Module):
    """Keeps what lies between its layers, with its graph."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(WIDTH, 3), nn.Linear(3, 2)

    def forward(self, x):
        self.kept = self.first(x).tanh()
        return self.last(self.kept)


class Curved(nn.Module):
    """A layer without a rule, which is run example by example."""

    def __init__(self):
        super().__init__()
        self.bends = nn.Parameter(torch.rand(WIDTH))

    def forward(self, x):
        return (x * self.bends).tanh()


class Opened(nn.Module):
    """A parameter beside the layers, as tokens of classes are."""

    def __init__(self):
        super().__init__()
        self.token = nn.Parameter(torch.zeros(1, WIDTH))
        self.layer = nn.Linear(WIDTH, 2)

    def forward(self, x):
        return self.layer(x + self.token.expand(len(x), -1))


class Remembers(nn.Module):
    """A recurrent layer, whose gates are taken at all positions at once."""

    def __init__(self):
        super().__init__()
        self.layer = nn.GRU(2, 2, batch_first=True)

    def forward(self, x):
        return self.layer(x.view(len(x), -1, 2))[0][:, -1]


MODELS = {
    "a recurrent layer": Remembers,
    "layers with rules": lambda: nn.Sequential(nn.Linear(WIDTH, 3), nn.Tanh(), nn.Linear(3, 2)),
    "a layer without": lambda: nn.Sequential(Curved(), nn.Linear(WIDTH, 2)),
    "bare parameters": Opened,
    "kept outputs": Keeps,
}


def made(name):
    model = MODELS[name]()
    data = TensorDataset(torch.ones(ROWS, WIDTH), torch.zeros(ROWS, dtype=torch.long))
    return dpsgd.make_private(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        data_loader=DataLoader(data, batch_size=ROWS),
        noise_multiplier=1.0,
        max_grad_norm=1.0,
    )


def given_up(name, where):
    """Weak references to a model and an output of a training that was given up there."""
    training = made(name)
    x, y = next(iter(training.data_loader))
    output = training.module(x)
    if where == "after a refusal":
        with pytest.raises(GuaranteeError):
            (training.loss(nn.functional.cross_entropy, output, y) * output.std()).backward()
    elif where == "after a backward":
        training.backward(nn.functional.cross_entropy, output, y)
    return ref(training.module), ref(output)


@pytest.mark.parametrize("where", ["after a forward", "after a refusal", "after a backward"])
@pytest.mark.parametrize("name", MODELS)
def test_a_training_that_is_given_up_goes(name, where):
    model, output = given_up(name, where)
    gc.collect()
    assert model() is None
    assert output() is None


@pytest.mark.parametrize("name", MODELS)
def test_hooks_that_hold_their_training_would_keep_it_for_good(name, monkeypatch):
    monkeypatch.setattr(per_example_gradients, "graph_hook", partial)
    model, _ = given_up(name, "after a forward")
    gc.collect()
    assert model() is not None


@pytest.mark.parametrize("name", MODELS)
def test_a_graph_whose_forward_is_forgotten_is_refused(name):
    training = made(name)
    x, y = next(iter(training.data_loader))
    loss = training.loss(nn.functional.cross_entropy, training.module(x), y)
    state = training.optimizer.step_state
    state.latest = None
    gc.collect()
    with pytest.raises(GuaranteeError, match="an earlier forward"):
        loss.backward()
    assert not state.sums.begun
    assert all(parameter.grad is None for parameter in training.module.parameters())
