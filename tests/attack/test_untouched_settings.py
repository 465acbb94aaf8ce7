"""A model that somebody touches between two forwards is checked again: its numbers, texts, switches and parts."""

import pytest
import torch
from torch import nn

from inid.dpsgd.grad_sample import ModuleSnapshot
from inid.errors import GuaranteeError
from internals import module_with
from training import private, train_once

PerExampleGradients = module_with("inid.dpsgd", "PerExampleGradients").PerExampleGradients

X = torch.randn(8, 6, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def mixed(x):
    return x - x.mean(0)


class Mixing(nn.Module):
    def forward(self, x):
        return mixed(x)


class Still(nn.Module):
    """Mixes examples once one of its settings is touched, and touches none itself."""

    def __init__(self):
        super().__init__()
        self.layer, self.last, self.part = nn.Linear(6, 4).double(), nn.Linear(4, 2).double(), nn.Identity()
        self.number, self.yes, self.real, self.text, self.nothing = 7, True, 0.5, "a", None
        self.spare = Mixing()  # a part that waits
        self.register_buffer("buffer", torch.zeros(1))
        self.register_buffer("other", torch.ones(1))
        self.start = self.seen()

    def seen(self):
        found = (self.number, self.yes, self.real, self.text, self.nothing)
        return str((found, self.training, self.part.training, hasattr(self, "late")))

    def forward(self, x):
        return self.last(self.part(self.layer(x if self.seen() == self.start else mixed(x))))


def put(name, value):
    return lambda model: setattr(model, name, value)


def exchanged_buffer(model):
    model.buffer = torch.ones(1)


def exchanged_names(held, one, other):
    """The same objects in the same order, of which two have each other's name."""
    entries = [({one: other, other: one}.get(name, name), value) for name, value in held.items()]
    held.clear()
    held.update(entries)


def another_class(model):
    model.part.__class__ = Mixing


CHANGES = {
    "int": put("number", 8),
    "switch": put("yes", False),
    "float": put("real", 0.25),
    "text": put("text", "b"),
    "None": put("nothing", 0),
    "new attribute": put("late", 1),
    "another part": lambda m: setattr(m, "part", Mixing()),
    "class of a part": another_class,
    "mode": lambda m: m.eval(),
    "mode of a part": lambda m: m.part.eval(),
}


def ready():
    training = private(Still(), X)
    for _ in range(5):
        train_once(training)
    return training


@pytest.mark.parametrize("name", CHANGES)
def test_each_change_is_seen_at_the_next_forward(name):
    training = ready()
    CHANGES[name](training.module)
    with pytest.raises(GuaranteeError, match="example"):
        train_once(training)
    assert training.accountant.steps == 5


@pytest.mark.parametrize("name", sorted(set(CHANGES) - {"mode"}))
def test_a_twin_that_does_not_look_misses_the_change(name, monkeypatch):
    training = ready()
    monkeypatch.setattr(PerExampleGradients, "_watch_settings", lambda _: None)
    CHANGES[name](training.module)
    train_once(training)
    assert training.accountant.steps == 6


def exchanged_parameter(model):
    model.last.bias = nn.Parameter(torch.zeros(2, dtype=torch.float64), requires_grad=False)


PARTS = {
    "a parameter": exchanged_parameter,
    "a parameter less": lambda m: setattr(m.last, "bias", None),
    "a buffer": exchanged_buffer,
    "a buffer less": lambda m: delattr(m, "buffer"),
    "a buffer more": lambda m: m.last.register_buffer("late", torch.zeros(1)),
    "a part": lambda m: setattr(m, "part", nn.Identity()),
    "a part more": lambda m: m.add_module("late", nn.Identity()),
    "a part less": lambda m: delattr(m, "part"),
    "names": lambda m: exchanged_names(m._modules, "part", "spare"),
    "a dictionary": lambda m: vars(m.last).update(_parameters=dict(m.last._parameters)),
}


@pytest.mark.parametrize("name", PARTS)
def test_a_model_that_is_made_of_others_is_walked_again(name):
    model = Still()
    walked = ModuleSnapshot(model, list(model.parameters()))
    assert walked.now() is walked
    PARTS[name](model)
    assert walked.now() is not walked
