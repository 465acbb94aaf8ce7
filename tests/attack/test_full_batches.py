"""Examples that meet only where there are many of them: a few made-up ones do not show it, a full batch does."""

import pytest
import torch
from torch import nn
from torch.nn import functional

from inid.errors import GuaranteeError
from internals import module_with
from training import private, sums, train_once

check = module_with("inid.dpsgd.independence", "Independence")
N, E = 12, 4
X = torch.randn(N, E, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


class Model(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function
        self.route, self.first, self.last = nn.Linear(E, 2), nn.Linear(E, E), nn.Linear(E, E)
        self.double()

    def forward(self, x):
        return self.function(self, x)


def experts(m, x, room=4):
    """The layers are experts with room for a few; who comes later is left out."""
    chosen = functional.one_hot(m.route(x).argmax(1), 2)
    taken = chosen * (chosen.cumsum(0) <= room)
    return torch.stack([m.first(x), m.last(x)], 2) @ taken.to(x)[:, :, None]


def by_groups(m, x):
    return m.last(torch.cat([part - part.mean(0) * (len(part) == 4) for part in m.first(x).split(4)]))


MIXING = {
    "experts with little room": experts,
    "statistics of four rows": by_groups,
    "a choice by the size": lambda m, x: m.last(m.first(x) - (x.mean(0) if len(x) > 8 else 0)),
    "a choice at the end": lambda m, x: m.last(m.first(x)).softmax(0 if len(x) > 8 else 1),
    "more calls for more rows": lambda m, x: m.last(m.first(m.first(x) if len(x) > 8 else x)),
}


@pytest.mark.parametrize("name", MIXING)
def test_what_mixes_many_examples_is_refused(name):
    torch.manual_seed(1)
    with pytest.raises(GuaranteeError, match=r"other examples|every example|other layers"):
        train_once(private(Model(MIXING[name]), X))


def test_without_the_comparison_one_example_moves_the_others(monkeypatch):
    """The broken twin: without the comparison somebody's absence moves the sum by more than his threshold."""
    monkeypatch.setattr(check, "_difference", lambda *_: None)
    torch.manual_seed(1)
    model = Model(lambda m, x: experts(m, x, room=N // 2))
    nn.init.zeros_(model.route.weight)  # all go to one expert: without the first, another has room
    with_all, without = (sums(model, x, clipping="global", max_grad_norm=0.1) for x in (X, X[1:]))
    moved = torch.cat([(with_all[name] - without[name]).flatten() for name in with_all])
    assert float(moved.norm()) > 0.101


@pytest.mark.parametrize("rows", [1, 2, 3, 4, 12])
def test_experts_with_room_for_all_and_rows_of_any_number_are_fine(rows):
    torch.manual_seed(1)
    training = private(Model(lambda m, x: experts(m, x, room=len(x))), X[:rows])
    train_once(training)
    assert training.accountant.steps == 1


class Backwards(torch.autograd.Function):
    """Changes nothing on the way forward; on the way back a function of the gradients of all rows takes their place."""

    @staticmethod
    def forward(ctx, x, changed):
        ctx.changed = changed
        return x.clone()

    @staticmethod
    def backward(ctx, gradients):
        return ctx.changed(gradients), None


BACKWARDS = {
    "a mean over many rows": lambda g: g - g.mean(0) if len(g) > 3 else g,
    "a neighbour's gradient": lambda g: g.roll(1, 0) if len(g) > 3 else g,
    "long ones of many rows are shortened together": lambda g: g / g.norm() if len(g) > 3 and g.norm() > 1e3 else g,
    "the longest leaves nothing to others": lambda g: (
        g * (g.norm(dim=1, keepdim=True) >= g.norm(dim=1).max() / 2**10) if len(g) > 3 else g
    ),
    "a little of all the others": lambda g: g + 1e-3 * g.sum(0) if len(g) > 3 else g,
    "groups of four": lambda g: torch.cat([p - p.mean(0) * (len(p) == 4) for p in g.split(4)]),
}


def backwards(changed):
    return Model(lambda m, x: m.last(Backwards.apply(m.first(x), changed)))


@pytest.mark.parametrize("name", BACKWARDS)
def test_a_backward_that_mixes_many_examples_is_refused(name):
    """Attack: few examples show nothing of it."""
    torch.manual_seed(1)
    with pytest.raises(GuaranteeError, match=r"gradients that flow back to layer 'first'"):
        train_once(private(backwards(BACKWARDS[name]), X))


def test_without_comparing_gradients_one_example_moves_the_others(monkeypatch):
    """The broken twin: rows share one gradient unseen, and one absence moves the sum by more than its threshold."""
    monkeypatch.setattr(check, "_difference", lambda *_: None)
    torch.manual_seed(1)
    model = backwards(lambda g: g.sum(0).expand_as(g) if len(g) > 3 else g)
    far = torch.cat([100 * X[:1], X[1:]])
    with_all, without = (sums(model, x, clipping="global", max_grad_norm=0.1) for x in (far, far[1:]))
    moved = torch.cat([(with_all[name] - without[name]).flatten() for name in with_all])
    assert float(moved.norm()) > 0.101


@pytest.mark.parametrize(
    "changed",
    [lambda g: 2 * g, lambda g: g.clamp(-1, 1), lambda g: g / g.norm(dim=1, keepdim=True).clamp(min=1)],
)
def test_a_backward_that_keeps_many_examples_apart_is_accepted(changed):
    """Property: what is done to the gradient of each row alone is no mixing, however long those of others are."""
    torch.manual_seed(1)
    train_once(private(backwards(changed), X))
