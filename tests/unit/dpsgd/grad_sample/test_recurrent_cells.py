"""Recurrent cells, called once per position: clipped sums are those of autograd, example by example, without a loop.

The oracle is autograd on torch's own cells: every example's gradient by itself, clipped by the definition, added up.
"""

import pytest
import torch
from torch import nn

from internals import module_with
from training import assert_close, assert_close_under_autocast, groups_of, slow_sums, sums

layers_without_rule = module_with("inid.dpsgd.grad_sample", "run_without_sampler")
recurrent_layers = module_with("inid.dpsgd.grad_sample", "serves")

EXAMPLES, POSITIONS, WIDTH = 5, 4, 3


class Walk(nn.Module):
    """A cell from position to position; its state before the first is zero, or follows from the example."""

    def __init__(self, cell, *, started=False):
        super().__init__()
        self.cell, self.start = cell, nn.Linear(WIDTH, cell.hidden_size) if started else None

    def forward(self, x):
        state = None
        if self.start is not None:
            h = self.start(x[:, 0]).tanh()
            state = (h, h.sin()) if isinstance(self.cell, nn.LSTMCell) else h
        for at in range(x.shape[1]):
            state = self.cell(x[:, at], state)
        return torch.cat(state, 1) if isinstance(state, tuple) else state


class Frozen(Walk):
    def __init__(self):
        super().__init__(nn.GRUCell(WIDTH, 4))
        self.cell.weight_hh.requires_grad_(False)
        self.cell.bias_ih.requires_grad_(False)


MODELS = {
    "lstm": lambda: Walk(nn.LSTMCell(WIDTH, 4)),
    "lstm, started, without bias": lambda: Walk(nn.LSTMCell(WIDTH, 4, bias=False), started=True),
    "gru": lambda: Walk(nn.GRUCell(WIDTH, 4)),
    "gru, started": lambda: Walk(nn.GRUCell(WIDTH, 4), started=True),
    "rnn": lambda: Walk(nn.RNNCell(WIDTH, 4), started=True),
    "rnn with relu": lambda: Walk(nn.RNNCell(WIDTH, 4, nonlinearity="relu", bias=False)),
    "partly frozen": Frozen,
}


@pytest.fixture
def no_loop(monkeypatch):
    """A cell that is run example by example would pass every test here, slowly."""

    def refused(*_, **__):
        raise AssertionError("a recurrent cell was run example by example")

    monkeypatch.setattr(layers_without_rule, "run_with_parameters_per_example", refused)


def built(make):
    torch.manual_seed(3)
    lengths = torch.logspace(-1, 1, EXAMPLES, dtype=torch.float64).view(-1, 1, 1)
    return make().double(), torch.randn(EXAMPLES, POSITIONS, WIDTH, dtype=torch.float64) * lengths


@pytest.mark.usefixtures("no_loop")
@pytest.mark.parametrize("clipping", ["per_layer", "global", "elementwise"])
@pytest.mark.parametrize("name", MODELS)
def test_sums_are_those_of_single_examples(name, clipping):
    model, x = built(MODELS[name])
    groups = groups_of(model, clipping)
    thresholds = [0.3] * len(groups)
    wanted = slow_sums(model, x, thresholds, groups=groups, clipping=clipping)
    assert_close(sums(model, x, max_grad_norm=thresholds, clipping=clipping), wanted, torch.float64)


@pytest.mark.parametrize("name", ["LSTMCell", "GRUCell", "RNNCell"])
def test_an_example_moves_no_other(name):
    """Whatever one example is, also not a number, the rows of the others are the same to the last bit."""
    torch.manual_seed(7)
    cell, x, found = getattr(nn, name)(WIDTH, 4), torch.randn(EXAMPLES, WIDTH), []
    for odd in (0.0, 1e30, float("inf"), float("nan")):
        x[2, 1] = odd
        seen = {}

        def collect(key, met, flowed, seen=seen):
            seen[key] = flowed if met is None else torch.cat([met, flowed], -1)

        made = recurrent_layers.run_cell(cell, (x,), {}, collect)
        (made[0] if isinstance(made, tuple) else made).square().sum().backward()
        found.append({key: torch.cat([own[:2], own[3:]]) for key, own in seen.items()})
    assert len(found[0]) == 4
    for other in found[1:]:
        assert all(torch.equal(found[0][key], own) for key, own in other.items())


@pytest.mark.parametrize("name", ["LSTMCell", "GRUCell", "RNNCell"])
def test_half_precision_under_autocast(name):
    torch.manual_seed(8)
    model = nn.Sequential(nn.Linear(WIDTH, WIDTH), Walk(getattr(nn, name)(WIDTH, 4)))
    assert_close_under_autocast(model, torch.randn(EXAMPLES, POSITIONS, WIDTH))


class Louder(nn.GRUCell):
    def forward(self, x, hx=None):
        return super().forward(2 * x, hx)


def replaced():
    model = Walk(nn.GRUCell(WIDTH, 4))
    plain = model.cell.forward
    model.cell.forward = lambda x, hx=None: plain(2 * x, hx)
    return model


def same_weights():
    model = Walk(nn.GRUCell(WIDTH, WIDTH))
    model.cell.weight_hh = model.cell.weight_ih
    return model


@pytest.mark.parametrize("make", [lambda: Walk(Louder(WIDTH, 4)), replaced, same_weights])
def test_what_computes_something_else_is_left_to_the_loop(make, monkeypatch):
    model, x = built(make)
    wanted = slow_sums(model, x, [0.5], groups=groups_of(model))
    assert_close(sums(model, x, max_grad_norm=[0.5]), wanted, torch.float64)
    twin = {nn.GRUCell: "GRU", Louder: "GRU"}
    monkeypatch.setattr(recurrent_layers, "_CELL_MODES", twin)
    monkeypatch.setattr(layers_without_rule, "serves_cell", lambda *_: True)  # the twin without the guard
    with pytest.raises(AssertionError):
        assert_close(sums(model, x, max_grad_norm=[0.5]), wanted, torch.float64)
