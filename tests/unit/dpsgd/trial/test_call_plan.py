"""A trial of a model holds no more of its runs than it has to, and tells rounding from mixing."""

import weakref

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from inid import dpsgd
from inid.dpsgd.rows.units import Unit
from inid.dpsgd.trial import call_plan
from inid.dpsgd.trial.fixed_randomness import no_randomness
from inid.dpsgd.trial.trace import Trace
from inid.errors import GuaranteeError


def train(net):
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


class Steep(nn.Module):
    """Doubles 16 times over what its first layer rounds differently for other numbers of examples; may mix them."""

    def __init__(self, mixing):
        super().__init__()
        self.first, self.last, self.mixing = nn.Linear(2, 3), nn.Linear(3, 1), mixing

    def forward(self, x):
        h = self.first(x)
        h = (h * (1 + len(x) * torch.finfo(h.dtype).eps) + self.mixing * h.mean(0)).sigmoid()
        for _ in range(16):
            h = 4 * h * (1 - h)
        return self.last(h)


def test_rounding_that_a_steep_network_enlarges_is_not_taken_for_mixing():
    net = Steep(0.0)
    kinds = {each.data_ptr(): each.dtype for each in net.parameters()}
    train(net)
    assert {each.data_ptr(): each.dtype for each in net.parameters()} == kinds


@pytest.mark.parametrize("mixing", [0.5, 1e-6])
def test_mixing_in_a_steep_network_is_refused(mixing):
    with pytest.raises(GuaranteeError, match="three examples"):
        train(Steep(mixing))


def test_single_runs_are_let_go_one_by_one(monkeypatch):
    # A large model fills a GPU: so the joint run and one single run are held at a time.
    alive, most = weakref.WeakSet(), []

    class Watched(Trace):
        def __init__(self, examples, shared, far=True):
            super().__init__(examples, shared, far)
            most.append(1 + len(alive))
            alive.add(self)

    monkeypatch.setattr(call_plan, "Trace", Watched)
    train(nn.Sequential(nn.Linear(2, 3), nn.LayerNorm(3)))
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


class Halved(nn.Module):
    """A frozen part in bfloat16 below a head in float32: the two meet under autocast alone."""

    def __init__(self, mixing=0.0):
        super().__init__()
        self.base, self.head, self.mixing = nn.Linear(2, 3).bfloat16().requires_grad_(False), nn.Linear(3, 1), mixing

    def forward(self, x):
        h = self.base(x)
        return self.head(h + self.mixing * h.mean(0))


def test_a_model_that_runs_under_autocast_alone_is_tried_there():
    with torch.autocast("cpu", dtype=torch.bfloat16):
        train(Halved())
        with pytest.raises(GuaranteeError, match="three examples"):
            train(Halved(0.5))
    with pytest.raises(RuntimeError, match="dtype"):
        train(Halved())


class Cast(Halved):
    """A frozen part in bfloat16 below a head that gets float32."""

    def forward(self, x):
        h = self.base(x.to(self.base.weight.dtype)).to(self.head.weight.dtype)
        return self.head(h + self.mixing * h.mean(0))


def test_mixing_beside_bfloat16_is_seen_in_float64():
    """What bfloat16 may round differently is as much as mixing gives."""
    train(Cast())
    with pytest.raises(GuaranteeError, match="three examples"):
        train(Cast(0.5))


def test_layers_of_zeros_are_filled_in_without_spending_the_users_randomness():
    net = nn.Sequential(nn.Linear(4, 5), nn.Linear(5, 2))
    nn.init.zeros_(net[1].weight)
    state = torch.get_rng_state()
    with no_randomness(net) as fixed:
        assert not fixed.met  # a model that draws nothing is not looked at again for what it draws
        assert len(net[1].weight.unique()) == 10
    assert torch.equal(torch.get_rng_state(), state)
    assert not net[1].weight.any()


def held(gradient):
    return gradient.clamp(-1e3, 1e3)  # entry by entry, which is each example's own


def shortened(gradient):
    return gradient * (1e3 / gradient.norm()).clamp(max=1.0)  # all examples together, where they are long


class Backward(nn.Module):
    """Changes what flows back between two layers."""

    def __init__(self, change):
        super().__init__()
        self.first, self.last, self.change = nn.Linear(2, 3), nn.Linear(3, 1), change

    def forward(self, x):
        h = self.first(x)
        if self.change is not None and h.requires_grad:
            h.register_hook(self.change)
        return self.last(h)


@pytest.mark.parametrize(("change", "sent"), [(None, 1), (held, 4), (shortened, None)])
def test_long_gradients_are_sent_to_single_examples_where_they_do_not_flow_as_others(monkeypatch, change, sent):
    """Property: one backward of long gradients is enough where it is the other one, a million times as large.

    Where a hook changes that, each example's own is compared: a change of each entry is accepted, and one that takes
    all examples together is refused.
    """
    far = []
    own = call_plan.Trace.differentiate

    def noted(self, *args):
        made = own(self, *args)
        far.append(bool(self.large))
        return made

    monkeypatch.setattr(call_plan.Trace, "differentiate", noted)
    if sent is None:
        with pytest.raises(GuaranteeError, match="gradients that flow back"):
            train(Backward(change))
        return
    train(Backward(change))
    assert far[:4] == [True] + [sent == 4] * 3
