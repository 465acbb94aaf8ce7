"""A layer that is run example by example, in a loop, carries nothing from one example to the next."""

import threading

import pytest
import torch
from torch import nn

from inid.errors import GuaranteeError
from training import groups_of, private, row_squares, slow_sums, sums, train_once

N, E = 6, 4
X = torch.randn(N, E, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


class Memory:
    """What Hugging Face calls a cache: an object that layers write to and read from."""

    def __init__(self, state=None):
        self.state = state


class Locked(Memory):
    def __init__(self):
        super().__init__()
        self.lock = threading.Lock()


class Remembering(nn.Module):
    """A layer that `vmap` cannot run (it reads a number), and that adds what it finds in the memory."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(E))

    def forward(self, x, memory):
        float(x.detach().sum())  # a loop over examples it is
        made = x * self.scale
        if memory.state is not None:
            made = made + 3 * memory.state
        memory.state = made.detach()
        return made


class InPlace(Remembering):
    """The same with a tensor that is written in place."""

    def forward(self, x, memory):
        float(x.detach().sum())
        made = x * self.scale + 3 * memory.state
        with torch.no_grad():
            memory.state.copy_(made.detach()[0])
        return made


class Returning(Remembering):
    """The same, which also gives the memory back."""

    def forward(self, x, memory):
        return super().forward(x, memory), memory


class Model(nn.Module):
    def __init__(self, layer, memory):
        super().__init__()
        torch.manual_seed(3)
        self.first, self.layer, self.memory = nn.Linear(E, E), layer, memory
        self.double()

    def forward(self, x):
        made = self.layer(self.first(x), self.memory())
        return made[0] if isinstance(made, tuple) else made


MEMORIES = {
    "an attribute": (Remembering, Memory),
    "in place": (InPlace, lambda: Memory(torch.zeros(E, dtype=torch.float64))),
    "returned": (Returning, Memory),
}


@pytest.mark.parametrize("name", MEMORIES)
def test_an_object_that_a_looped_layer_writes_to_is_each_examples_own(name):
    layer, memory = MEMORIES[name]
    model = Model(layer(), memory)
    groups = groups_of(model)
    found = sums(model, X, max_grad_norm=[0.5] * len(groups))
    wanted = slow_sums(model, X, [0.5] * len(groups), groups=groups)
    for key, each in wanted.items():
        assert torch.allclose(found[key], each, rtol=1e-9, atol=1e-12), key


def test_no_example_moves_another_through_an_object():
    """Without copies the clipped sum moved by several thresholds of one example."""
    model = Model(Remembering(), Memory)
    changed = X.clone()
    changed[0] *= 100
    clip = 0.5
    one, other = (sums(model, x, clipping="global", max_grad_norm=clip) for x in (X, changed))
    apart = torch.cat([(one[key] - other[key]).flatten() for key in one])
    assert float(apart.norm()) <= 2 * clip * (1 + 1e-9)


def test_the_object_itself_stays_as_it_was():
    kept = []

    def memory():
        kept.append(Memory())
        return kept[-1]

    train_once(private(Model(Remembering(), memory), X))
    assert kept[-1].state is None


def test_an_object_that_lives_on_between_forwards_is_refused():
    kept = Memory()
    training = private(Model(Remembering(), lambda: kept), X)
    with pytest.raises((GuaranteeError, RuntimeError)):  # what it holds of other batches does not fit
        train_once(training)
    assert training.accountant.steps == 0


def test_an_object_that_cannot_be_copied_is_refused():
    training = private(Model(Remembering(), Locked), X)
    with pytest.raises(GuaranteeError, match="Locked that cannot be copied"):
        train_once(training)
    assert training.accountant.steps == 0


class Writing(nn.Module):
    """A layer that writes to a tensor that all examples share."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(E))

    def forward(self, x, shared):
        float(x.detach().sum())
        made = x * self.scale + 0 * shared
        with torch.no_grad():
            shared.zero_()
        return made


def test_a_tensor_of_all_examples_that_a_looped_layer_writes_to_is_refused():
    model = Model(Writing(), lambda: torch.zeros(E, dtype=torch.float64))
    with pytest.raises(GuaranteeError, match="in place"):
        train_once(private(model, X))


class Numbered(Remembering):
    def forward(self, x, memory):
        return super().forward(x, memory), float(x.detach().abs().max()) > 100  # no made-up example is so large


class ByNumber(Model):
    def forward(self, x):
        made, large = self.layer(self.first(x), self.memory())
        return made * 2 if large else made


def test_a_number_that_a_looped_layer_reads_of_one_example_is_not_that_of_all():
    mixed = X.clone()
    mixed[-1] *= 1e4
    with pytest.raises(GuaranteeError, match="returns a bool of its own"):
        train_once(private(ByNumber(Numbered(), Memory), mixed))


class ByKeyword(nn.Module):
    """A model that runs in float32 alone, called as Trainer calls models."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(3)
        self.first, self.last = nn.Linear(E, E), nn.Linear(E, 2)

    def forward(self, *, x):
        return self.last(self.first(x.float()).tanh())


def test_calls_by_keyword_alone_are_looked_at_as_others_are():
    training = private(ByKeyword(), X.float())
    for (batch,) in training.data_loader:
        training.backward(row_squares, training.module(x=batch))
        training.optimizer.step()
    assert training.accountant.steps == 1
