"""Mixing of examples that a first look would miss: in odd outputs, under masks, by kind, by chance, later, backward."""

import random

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from inid import dpsgd
from inid.errors import GuaranteeError
from internals import module_with
from training import private, row_squares, squares, sums, train_once

check = module_with("inid.dpsgd.independence", "Independence")

N, E = 8, 6
X = torch.randn(N, E, generator=torch.Generator().manual_seed(1))


class Model(nn.Module):
    """A function of the batch and two layers."""

    def __init__(self, function, **parts):
        super().__init__()
        torch.manual_seed(3)
        self.function, self.a, self.b = function, nn.Linear(E, E), nn.Linear(E, 3)
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, x, *more):
        return self.function(self, x, *more)


def centred(x):
    return x - x.mean(0)


class Named(dict):
    __getattr__ = dict.__getitem__


class Listed(list):
    pass


class Slotted:
    __slots__ = ("y",)

    def __init__(self, y):
        self.y = y


OUTPUTS = {
    "a dictionary of its own kind": (lambda y: Named(y=y), lambda made: made.y),
    "a list of its own kind": (lambda y: Listed([y]), lambda made: made[0]),
    "an object with slots": (Slotted, lambda made: made.y),
    "a large constant beside": (lambda y: y.masked_fill(torch.tensor([1, 0, 0]).bool(), -1e9), lambda y: y),
    "a large mask added": (lambda y: y + torch.tensor([-1e4, 0, 0]), lambda y: y),
}


@pytest.mark.parametrize("name", OUTPUTS)
def test_mixing_is_seen_in_whatever_is_returned(name):
    wrap, unwrap = OUTPUTS[name]
    training = private(Model(lambda m, x: wrap(centred(m.b(m.a(x))))), X)
    with pytest.raises(GuaranteeError, match="depends on other examples"):
        train_once(training, squares, unwrap)
    train_once(private(Model(lambda m, x: wrap(m.b(m.a(x)))), X), unwrap=unwrap)


def test_complex_numbers_are_compared_too():
    with pytest.raises(GuaranteeError, match="depends on other examples"):
        sums(Model(lambda m, x: torch.fft.fftn(m.b(m.a(x)))), X, loss=lambda made: squares(made.abs()))
    sums(Model(lambda m, x: torch.fft.fft(m.b(m.a(x)))), X, loss=lambda made: squares(made.abs()))


def balanced(m, x):
    """As mixtures of experts do: a loss over the whole batch, kept for the loop to add."""
    made = m.b(m.a(x))
    m.balance = [made.softmax(1).mean(0).square().sum()]
    return made


def test_a_loss_that_the_model_keeps_is_no_part_of_a_private_loss():
    train_once(private(Model(balanced), X))
    for with_outputs in (True, False):
        training = private(Model(balanced), X)
        (x,) = next(iter(training.data_loader))
        loss = training.loss(row_squares, training.module(x))
        loss = training.module.balance[0] + (loss if with_outputs else 0)
        with pytest.raises(GuaranteeError, match="row by row"):
            loss.backward()


def class_means(m, x, kinds):
    same = (kinds[:, None] == kinds[None]).to(x)
    return m.b(same @ m.a(x) / same.sum(1, keepdim=True))


def looked_up_once(m, x, kinds):
    kinds, places = kinds.unique(return_inverse=True)
    return m.b(m.a(x) + m.table(kinds)[places])


@pytest.mark.parametrize("shape", [(N,), (N, 1)])
@pytest.mark.parametrize("function", [class_means, looked_up_once])
def test_examples_of_one_kind_do_not_meet(function, shape):
    """Labels that all differ hide it."""
    if len(shape) == 2:
        flat, function = function, lambda m, x, kinds: flat(m, x, kinds[:, 0])
    model = Model(function, table=nn.Embedding(5, E))
    data = DataLoader(TensorDataset(X, torch.arange(N).view(shape) % 5), batch_size=N)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    training = dpsgd.make_private(module=model, optimizer=optimizer, data_loader=data, noise_multiplier=1.0)
    x, kinds = next(iter(training.data_loader))
    with pytest.raises(GuaranteeError):
        training.module(x, kinds)


def swapped(m, x):
    """Swap noise, as tabular autoencoders have it."""
    return m.b(m.a(torch.where(torch.rand_like(x) < 0.15, x[torch.randperm(len(x))], x)))


def paired(m, x):
    return m.b(m.a(x + x[torch.randint(len(x), (len(x),))] * (torch.rand(len(x), 1) < 0.1)))


@pytest.mark.parametrize("function", [swapped, paired])
def test_what_happens_by_chance_is_looked_at_both_ways(function):
    with pytest.raises(GuaranteeError):
        sums(Model(function), X)


@pytest.mark.parametrize("seed", range(8))
def test_single_numbers_are_thrown_several_times(seed, monkeypatch):
    """Mixup by NumPy's generator: some draws mix little, or everybody with himself."""

    def mixup(m, x):
        share, order = np.random.beta(0.2, 0.2), np.random.permutation(len(x))  # noqa: NPY002 - as models do
        return m.b(m.a(share * x + (1 - share) * x[torch.from_numpy(order)]))

    def sometimes(m, x):
        return m.b(m.a(centred(x) if random.random() < 0.5 else x))  # noqa: S311 - as models do

    monkeypatch.setattr(check, "_FIRST_SEED", 1000 * seed)
    before = random.getstate(), str(np.random.get_state())  # noqa: NPY002 - as above
    for function in (mixup, sometimes):
        with pytest.raises(GuaranteeError, match="does not see every example"):
            sums(Model(function), X)
    assert before == (random.getstate(), str(np.random.get_state()))  # noqa: NPY002 - as above


def test_chance_by_example_is_still_fine():
    for function in (
        lambda m, x: m.b(torch.where(torch.rand_like(x) < 0.5, torch.zeros_like(x), m.a(x))),
        lambda m, x: m.b(m.a(x) * (keep := torch.rand_like(x) > 0.5) / keep.sum(1, keepdim=True)),
    ):
        train_once(private(Model(function), X))


def test_hooks_of_the_whole_model_are_a_part_of_it():
    for hook in ("register_forward_pre_hook", "register_forward_hook"):
        training = private(Model(lambda m, x: m.b(m.a(x))), X)
        train_once(training)
        getattr(training.module, hook)(lambda *seen: centred(seen[-1][0]) if len(seen) == 2 else centred(seen[-1]))
        with pytest.raises(GuaranteeError, match=r"depends on other|does not see every"):
            train_once(training)


def hooked(change):
    def function(m, x):
        y = m.a(x)
        if y.requires_grad:
            y.register_hook(change)
        return m.b(y.tanh())

    return Model(function)


def layer_hooked(change):
    model = Model(lambda m, x: m.b(m.a(x).tanh()))
    model.b.register_full_backward_hook(lambda _layer, inner, _outer: (change(inner[0]),))
    return model


class Scaled(torch.autograd.Function):
    @staticmethod
    def forward(_ctx, x):
        return x.clone()

    @staticmethod
    def backward(_ctx, gradient):
        return gradient / gradient.norm()


@pytest.mark.parametrize("make", [hooked, layer_hooked])
def test_gradients_that_meet_on_their_way_back_are_refused(make):
    """Divided by their norm over the batch: one example changes everybody's gradient."""
    for change in (lambda g: g / g.norm(), lambda g: g - g.mean(0), lambda g: g * (1 / g.abs().max())):
        model = make(change)
        if make is hooked:  # on the output of the first layer: what comes before is changed
            model = nn.Sequential(nn.Linear(E, E), model)
        with pytest.raises(GuaranteeError, match="gradients that flow back"):
            sums(model, X)
    for change in (lambda g: g.clamp(-1e-3, 1e-3), lambda g: 10 * g, lambda g: g / (1 + g.norm(dim=1, keepdim=True))):
        sums(make(change), X)
    with pytest.raises(GuaranteeError, match="gradients that flow back"):
        sums(Model(lambda m, x: m.b(Scaled.apply(m.a(x)))), X)


class Centred(nn.Module):
    def forward(self, x):
        return centred(x) if self.training else x


def test_modes_and_flags_that_change_later_are_looked_at_anew():
    training = private(Model(lambda m, x: m.b(m.part(m.a(x))), part=Centred()), X)
    training.module.part.eval()
    train_once(training)
    training.module.part.train()
    with pytest.raises(GuaranteeError, match="does not see every example"):
        train_once(training)
    model = Model(lambda m, x: m.b(centred(m.a(x)) if m.mixed else m.a(x)))
    model.mixed = False
    training = private(model, X)
    train_once(training)
    training.module.mixed = True
    with pytest.raises(GuaranteeError, match="does not see every example"):
        train_once(training)


COUNTED = [0]


def test_what_changes_unseen_is_found_before_as_many_steps_again():
    """A number outside the model that a loop counts up: looked at again at forwards 2, 4, 8, ..."""
    model = Model(lambda m, x: m.b(centred(m.a(x)) if COUNTED[0] > 5 else m.a(x)))
    training = private(model, X)
    for COUNTED[0] in range(7):
        train_once(training)
    with pytest.raises(GuaranteeError, match="does not see every example"):
        train_once(training)


class Follows(nn.Module):
    """Running statistics as some write them, around torch's version counters."""

    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(E))

    def forward(self, x):
        self.mean.data.mul_(0.9).add_(0.1 * x.detach().mean(0))
        return x


def test_what_is_written_through_data_is_seen():
    with pytest.raises(GuaranteeError, match="depends on its examples"):
        sums(Model(lambda m, x: m.b(m.follows(m.a(x))), follows=Follows()), X)


class FilledLate(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("table", torch.zeros(E))
        self.filled = False

    def forward(self, x):
        if not self.filled:
            self.table.copy_(torch.arange(E).sin())
            self.filled = True
        return x + self.table


def test_a_table_that_is_filled_in_the_first_forward_is_fine():
    train_once(private(Model(lambda m, x: m.b(m.late(m.a(x))), late=FilledLate()), X))
