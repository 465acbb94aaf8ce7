"""The check of a model tells rounding from mixing, in any precision."""

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from inid import dpsgd
from inid.errors import GuaranteeError
from internals import module_with

check = module_with("inid.dpsgd.independence", "Independence")


def train(net):
    made = dpsgd.make_private(
        module=net,
        optimizer=torch.optim.SGD(net.parameters(), lr=0.1),
        data_loader=DataLoader(TensorDataset(torch.randn(8, 2)), batch_size=4),
        noise_multiplier=1.0,
    )
    for (x,) in made.data_loader:
        made.optimizer.zero_grad()
        made.backward(lambda row: row.square().mean(), made.module(x))
        made.optimizer.step()


class Steep(nn.Module):
    """Doubles 16 times over what its first layer rounds differently for other numbers of examples; may mix them."""

    def __init__(self, mixing):
        super().__init__()
        self.first, self.last, self.mixing = nn.Linear(2, 3), nn.Linear(3, 1), mixing

    def forward(self, x):
        h = self.first(x)
        h = h * (1 + len(x) * torch.finfo(h.dtype).eps)
        h = (h + self.mixing * h.mean(0) if self.mixing else h).sigmoid()
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
    with pytest.raises(GuaranteeError, match=r"does not see every example|for one example depend on other examples"):
        train(Steep(mixing))


class Halved(nn.Module):
    """A frozen part in bfloat16 below a head in float32: the two meet under autocast alone."""

    def __init__(self, mixing=0.0):
        super().__init__()
        self.base, self.head, self.mixing = nn.Linear(2, 3).bfloat16().requires_grad_(False), nn.Linear(3, 1), mixing

    def forward(self, x):
        h = self.base(x)
        return self.head(h + self.mixing * h.mean(0) if self.mixing else h)


def test_a_model_that_runs_under_autocast_alone_is_tried_there():
    with torch.autocast("cpu", dtype=torch.bfloat16):
        train(Halved())
        with pytest.raises(GuaranteeError, match="does not see every example"):
            train(Halved(0.5))
    with pytest.raises(RuntimeError, match="dtype"):
        train(Halved())


class Cast(Halved):
    """A frozen part in bfloat16 below a head that gets float32."""

    def forward(self, x):
        h = self.base(x.to(self.base.weight.dtype)).to(self.head.weight.dtype)
        return self.head(h + self.mixing * h.mean(0) if self.mixing else h)


def test_mixing_beside_bfloat16_is_seen_in_float64():
    """What bfloat16 may round differently is as much as mixing gives."""
    train(Cast())
    with pytest.raises(GuaranteeError, match="does not see every example"):
        train(Cast(0.5))


def test_layers_of_zeros_are_filled_in_without_spending_the_users_randomness():
    net = nn.Sequential(nn.Linear(4, 5), nn.Linear(5, 2))
    nn.init.zeros_(net[1].weight)
    state = torch.get_rng_state()
    with check._no_silent_weights(net):
        assert len(net[1].weight.unique()) == 10
    assert torch.equal(torch.get_rng_state(), state)
    assert not net[1].weight.any()


class Warming(nn.Module):
    """Rounds differently in its first calls, as kernels do that are compiled or chosen then; may mix examples."""

    def __init__(self, cold, mixing):
        super().__init__()
        self.first, self.last, self.left, self.mixing = nn.Linear(2, 3), nn.Linear(3, 1), iter(range(cold)), mixing

    def forward(self, x):
        h = self.first(x)
        h = h if next(self.left, None) is None else h * (1 + 4 * torch.finfo(h.dtype).eps)
        return self.last(h + self.mixing * h.mean(0) if self.mixing else h)


@pytest.mark.parametrize("cold", range(2, 20, 3))
def test_kernels_that_round_differently_in_the_first_runs_are_not_taken_for_mixing(cold):
    train(Warming(cold, 0.0))
    with pytest.raises(GuaranteeError, match="does not see every example"):
        train(Warming(cold, 1e-3))


def reordered(gradient):
    """A last bit of one row, as from sums that are added in another order."""
    gradient = gradient.clone()
    gradient[0] *= 1 + 4 * torch.finfo(gradient.dtype).eps
    return gradient


class SeldomReordered(nn.Module):
    """Adds in another order once in many runs, as atomic sums on a GPU do, but where that is forbidden."""

    def __init__(self, every, mixing):
        super().__init__()
        self.first, self.last, self.runs, self.mixing = nn.Linear(2, 3), nn.Linear(3, 1), iter(range(10**6)), mixing
        self.every = every

    def forward(self, x):
        h = self.first(x) * 1
        seldom = next(self.runs) % self.every == self.every - 1
        if seldom and h.requires_grad and not torch.are_deterministic_algorithms_enabled():
            h.register_hook(reordered)
        return self.last(h + self.mixing * h.mean(0) if self.mixing else h)


@pytest.mark.parametrize("every", [5, 7, 11, 13])
def test_sums_that_are_seldom_added_in_another_order_are_not_taken_for_mixing(every):
    train(SeldomReordered(every, 0.0))
    with pytest.raises(GuaranteeError, match="does not see every example"):
        train(SeldomReordered(every, 1e-3))


class FusedAttention(torch.autograd.Function):
    """Adds in another order now and then unless the flag is strict, as the kernels of attention do on a GPU."""

    runs = 0

    @staticmethod
    def forward(_ctx, x):
        return x.clone()

    @staticmethod
    def backward(_ctx, gradient):
        FusedAttention.runs += 1
        strict = torch.are_deterministic_algorithms_enabled()
        strict = strict and not torch.is_deterministic_algorithms_warn_only_enabled()
        return gradient if strict or FusedAttention.runs % 5 else reordered(gradient)


class Attending(nn.Module):
    """Two layers with attention between them; may mix examples."""

    def __init__(self, mixing):
        super().__init__()
        self.first, self.last, self.mixing = nn.Linear(2, 3), nn.Linear(3, 1), mixing

    def forward(self, x):
        h = FusedAttention.apply(self.first(x))
        return self.last(h + self.mixing * h.mean(0) if self.mixing else h)


@pytest.mark.parametrize("_", range(5))
def test_attention_is_asked_to_add_in_one_order(_):
    train(Attending(0.0))
    assert not torch.are_deterministic_algorithms_enabled()
    with pytest.raises(GuaranteeError, match="does not see every example"):
        train(Attending(1e-3))


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
        h = self.first(x) * 1
        if self.change is not None and h.requires_grad:
            h.register_hook(self.change)
        return self.last(h)


@pytest.mark.parametrize("change", [None, held, lambda gradient: 2 * gradient])
def test_a_change_of_each_entry_of_long_gradients_is_accepted(change):
    train(Backward(change))


def test_a_change_of_all_examples_where_gradients_are_long_is_refused():
    with pytest.raises(GuaranteeError, match="gradients that flow back"):
        train(Backward(shortened))


class Counting(nn.Module):
    """Leaves a counter behind, as an attribute or a buffer, in the forward or in the backward."""

    def __init__(self, how):
        super().__init__()
        self.layer, self.how, self.count = nn.Linear(2, 1), how, 0
        self.register_buffer("calls", torch.zeros((), dtype=torch.long))

    def forward(self, x):
        if self.how == "attribute":
            self.count += 1
        elif self.how == "buffer":
            self.calls += 1
        elif self.how == "input":
            x = x.mul_(1.0)
        made = self.layer(x)
        if self.how == "backward" and made.requires_grad:
            made.register_hook(self._count)
        return made

    def _count(self, _):
        self.count += 1


@pytest.mark.parametrize("how", ["attribute", "buffer", "input", "backward"])
def test_what_every_forward_changes_alike_is_fine(how):
    model = Counting(how)
    train(model)
    assert (int(model.calls), model.count) == {"buffer": (2, 0), "input": (0, 0)}.get(how, (0, 2))


class Average(nn.Module):
    """A buffer that follows the examples."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2, 1)
        self.register_buffer("mean", torch.zeros(2))

    def forward(self, x):
        self.mean.mul_(0.9).add_(x.detach().mean(0), alpha=0.1)
        return self.layer(x)


def test_a_buffer_that_follows_the_examples_is_refused():
    with pytest.raises(GuaranteeError, match=r"buffer 'mean' of module '' \(Average\)"):
        train(Average())
