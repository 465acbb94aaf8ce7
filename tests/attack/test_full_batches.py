"""Examples that meet only where there are many of them: three made-up ones alone do not show it, a full batch does."""

import pytest
import torch
from torch import nn
from torch.nn import functional

from inid.dpsgd.trial.runs import Trial
from inid.errors import GuaranteeError
from training import private, sums, train_once

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
    with pytest.raises(GuaranteeError, match="full batch"):
        train_once(private(Model(MIXING[name]), X))


def test_three_examples_alone_do_not_show_it_and_one_then_moves_the_others(monkeypatch):
    """The broken twin: without the look at a full batch somebody's absence moves the sum by more than his threshold."""
    monkeypatch.setattr(Trial, "_look_among_many", lambda *_: None)
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
