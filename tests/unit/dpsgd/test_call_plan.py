"""A trial of a model holds no more of its runs than it has to."""

import weakref

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from inid import dpsgd
from inid.dpsgd import per_example_gradients
from inid.dpsgd.trial_trace import Trace
from inid.dpsgd.units import Unit


def test_single_runs_are_let_go_one_by_one(monkeypatch):
    # A large model fills a GPU: so the joint run and one single run are held at a time.
    alive, most = weakref.WeakSet(), []

    class Watched(Trace):
        def __init__(self, *args):
            super().__init__(*args)
            most.append(1 + len(alive))
            alive.add(self)

    monkeypatch.setattr(per_example_gradients, "Trace", Watched)
    net = nn.Sequential(nn.Linear(2, 3), nn.LayerNorm(3))
    made = dpsgd.make_private(
        module=net,
        optimizer=torch.optim.SGD(net.parameters(), lr=0.1),
        data_loader=DataLoader(TensorDataset(torch.randn(8, 2)), batch_size=4),
        noise_multiplier=1.0,
    )
    for (x,) in made.data_loader:
        made.optimizer.zero_grad()
        made.module(x).square().mean().backward()
        made.optimizer.step()
    assert len(most) >= 8
    assert max(most) == 2
    assert not alive


def test_outputs_are_noted_where_they_are_asked_for():
    trace = Trace(1, frozenset())
    for layer, formula in ((nn.Linear(2, 2), lambda *_: {}), (nn.GRU(2, 2), None)):
        unit = Unit("", layer, formula, {})
        trace.note(unit, [torch.ones(1, 2)], torch.ones(1, 2, dtype=torch.bfloat16))
    assert [len(output) for _, _, output, _ in trace.calls] == [0, 1]
    assert trace.rounding == torch.finfo(torch.bfloat16).eps
