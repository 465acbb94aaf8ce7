"""Layers have one rule each: the oracle of every formula is autograd, one example at a time."""

import pytest
import torch
from torch import nn
from torch.nn import functional
from transformers.pytorch_utils import Conv1D

from inid import dpsgd
from inid.dpsgd.grad_sample import check_rule
from inid.errors import ArgumentError, GuaranteeError
from internals import module_with
from training import assert_close, groups_of, private, slow_sums, sums

layers = module_with("inid.dpsgd", "grad_sampler_of")

TOLERANCE = torch.float32


class Bilinear(nn.Module):
    """y = (x U) V^T, with two parameters that are not called weight and bias."""

    def __init__(self, width=4, rank=2, made=3):
        super().__init__()
        self.down, self.up = nn.Parameter(torch.randn(width, rank)), nn.Parameter(torch.randn(made, rank))

    def forward(self, x):
        return x @ self.down @ self.up.T


def by_autograd(layer, x, g):
    """By a formula: g (V (x)) over positions."""
    x, g = x.reshape(len(x), -1, x.shape[-1]), g.reshape(len(g), -1, g.shape[-1])
    return {"down": x.mT @ (g @ layer.up), "up": g.mT @ (x @ layer.down)}


RULE = dpsgd.GradSampler(formula=by_autograd, parameters=("down", "up"), positions=True)


class Scale(nn.Module):
    def __init__(self, size=4):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(size))

    def forward(self, x):
        return x * self.weight


@pytest.fixture(autouse=True)
def own_rules(monkeypatch):
    """A registration ends with its test."""
    monkeypatch.setattr(layers, "_SAMPLERS", dict(layers._SAMPLERS))


KNOWN = {
    "linear": (nn.Linear(4, 3), torch.randn(3, 4)),
    "linear without bias": (nn.Linear(4, 3, bias=False), torch.randn(3, 5, 4)),
    "one dimension": (nn.Conv1d(4, 6, 3, stride=2, groups=2), torch.randn(3, 4, 9)),
    "two dimensions": (nn.Conv2d(3, 4, (3, 2), padding="same", dilation=2), torch.randn(3, 3, 7, 6)),
    "groups": (nn.GroupNorm(2, 4), torch.randn(3, 4, 5)),
    "instances": (nn.InstanceNorm2d(4, affine=True), torch.randn(3, 4, 5, 5)),
    "entries": (nn.LayerNorm((2, 4)), torch.randn(3, 2, 4)),
    "mean squares": (nn.RMSNorm(4), torch.randn(3, 4)),
    "transposed": (Conv1D(3, 4), torch.randn(3, 5, 4)),
    "table": (nn.Embedding(7, 4, padding_idx=2), torch.randint(0, 7, (3, 5))),
}


@pytest.mark.parametrize("name", KNOWN)
def test_the_rules_of_torchs_layers_pass_the_check_that_own_ones_must(name):
    layer, inputs = KNOWN[name]
    check_rule(layers.grad_sampler_of(layer), layer, inputs)


@pytest.mark.parametrize("shape", [(5, 4), (5, 3, 4)], ids=["rows", "positions"])
@pytest.mark.parametrize("clipping", ["global", "per_layer", "elementwise"])
def test_a_registered_layer_has_the_sums_of_the_slow_loop(clipping, shape):
    dpsgd.register_layer(Bilinear, RULE, examples=[(Bilinear(), torch.randn(3, 4))])
    torch.manual_seed(1)
    model, x = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), Bilinear()).double(), torch.randn(*shape, dtype=torch.float64)
    groups = groups_of(model, clipping)
    thresholds = [0.3 + 0.1 * at for at in range(len(groups))]
    wanted = slow_sums(model, x, thresholds, groups=groups, clipping=clipping)
    asked = []
    watched = dpsgd.GradSampler(formula=lambda *args: asked.append(1) or by_autograd(*args), parameters=("down", "up"))
    layers._SAMPLERS[Bilinear] = watched
    assert_close(sums(model, x, clipping=clipping, max_grad_norm=thresholds), wanted, TOLERANCE)
    assert asked  # the formula did it, not torch.func


def test_a_subclass_a_changed_forward_and_more_parameters_have_no_rule():
    dpsgd.register_layer(Bilinear, RULE, examples=[(Bilinear(), torch.randn(3, 4))])
    assert layers.grad_sampler_of(Bilinear()) is RULE
    assert layers.grad_sampler_of(type("Other", (Bilinear,), {})()) is None
    changed, more = Bilinear(), Bilinear()
    changed.forward = lambda x: x @ changed.down
    more.bias = nn.Parameter(torch.zeros(3))
    assert layers.grad_sampler_of(changed) is layers.grad_sampler_of(more) is None


def over_all(_layer, x, g):
    return {"weight": (x * g).sum(0, keepdim=True).expand(len(x), -1)}


def of_the_next(_layer, x, g):
    return {"weight": (x * g).roll(1, 0)}


WRONG = {
    "rows are added up": dpsgd.GradSampler(formula=over_all),
    "rows are moved": dpsgd.GradSampler(formula=of_the_next),
    "a factor is missing": dpsgd.GradSampler(formula=lambda _, x, g: {"weight": 2 * x * g}),
    "not a number": dpsgd.GradSampler(formula=lambda _, x, g: {"weight": x * g * torch.nan}),
    "one number": dpsgd.GradSampler(formula=lambda _, x, g: {"weight": (x * g).sum()}),
    "no rows": dpsgd.GradSampler(formula=lambda _, x, g: {"weight": (x * g).sum(0)}),
    "another name": dpsgd.GradSampler(formula=lambda _, x, g: {"scale": x * g}),
    "positions are not added": dpsgd.GradSampler(formula=lambda _, x, g: {"weight": x * g}, positions=True),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_formula_is_refused_when_it_is_registered(name):
    with pytest.raises(GuaranteeError):
        dpsgd.register_layer(Scale, WRONG[name], examples=[(Scale(), torch.randn(4, 4))])
    assert layers.grad_sampler_of(Scale()) is None


def test_a_formula_that_reads_a_weight_cannot_be_stacked():
    rule = dpsgd.GradSampler(formula=by_autograd, parameters=("down", "up"), settings=())
    with pytest.raises(GuaranteeError, match="settings=None"):
        dpsgd.register_layer(Bilinear, rule, examples=[(Bilinear(), torch.randn(3, 4))])


def test_without_the_check_one_example_moves_every_clipped_gradient():
    """The guard's twin: a formula that mixes rows lets one example move the sum by more than its threshold."""
    layers._SAMPLERS[Scale] = WRONG["rows are added up"]
    x = torch.randn(6, 4)
    with_it = sums(Scale(), x, max_grad_norm=1.0, clipping="global", loss=lambda out: out.sum(1))
    changed = torch.cat([-100 * x.sum(0, keepdim=True), x[1:]])
    without = sums(Scale(), changed, max_grad_norm=1.0, clipping="global", loss=lambda out: out.sum(1))
    assert float(torch.linalg.vector_norm(with_it["weight"] - without["weight"])) > 5.0


@pytest.mark.parametrize(
    ("kind", "rule", "examples", "said"),
    [
        (3, RULE, [], "class of layers"),
        (Scale, by_autograd, [], "GradSampler"),
        (nn.Linear, RULE, [(nn.Linear(2, 2), torch.ones(2, 2))], "already"),
        (Scale, WRONG["rows are moved"], [], "at least one"),
        (Scale, WRONG["rows are moved"], [(nn.Tanh(), torch.ones(2, 2))], "got Tanh"),
        (Scale, WRONG["rows are moved"], [(Scale(), torch.ones(1, 4))], "two or more"),
        (Scale, RULE, [(Scale(), torch.ones(2, 4))], "down, up"),
        (Scale, dpsgd.GradSampler(formula=lambda _, x, g: {"weight": x * g}, settings=("eps",)), None, "'eps'"),
    ],
)
def test_what_cannot_be_registered_is_refused_with_the_cure(kind, rule, examples, said):
    given = [(Scale(), torch.randn(3, 4))] if examples is None else examples
    with pytest.raises(ArgumentError, match=said):
        dpsgd.register_layer(kind, rule, examples=given)


def test_several_entries_per_example_in_front_are_added():
    """A model may fold positions into the first dimension: an example's rows are added before they are clipped."""

    class Folded(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = Scale()

        def forward(self, x):
            return self.layer(x.flatten(0, 1)).unflatten(0, x.shape[:2])

    rule = dpsgd.GradSampler(formula=lambda _, x, g: {"weight": x * g})
    dpsgd.register_layer(Scale, rule, examples=[(Scale(), torch.randn(3, 4))])
    torch.manual_seed(2)
    model, x = Folded().double(), torch.randn(4, 3, 4, dtype=torch.float64)
    wanted = slow_sums(model, x, [0.4], groups=groups_of(model, "global"), clipping="global")
    assert_close(sums(model, x, clipping="global", max_grad_norm=[0.4]), wanted, TOLERANCE)


def test_a_rule_trains():
    dpsgd.register_layer(Bilinear, RULE, examples=[(Bilinear(), torch.randn(3, 4))])
    training = private(nn.Sequential(Bilinear(), nn.Linear(3, 2)), torch.randn(8, 4), batch_size=4)
    for (x,) in training.data_loader:
        training.optimizer.zero_grad()
        training.backward(lambda out: functional.softplus(out).sum(), training.module(x))
        training.optimizer.step()
    assert training.accountant.steps == 2


class Gated(Scale):
    """Takes a second tensor, of which a formula never hears."""

    def forward(self, x, gate=None):
        return super().forward(x) * (1.0 if gate is None else gate.sigmoid())


class Around(nn.Module):
    def __init__(self, *, gated):
        super().__init__()
        self.scale, self.last, self.gated = Gated(), nn.Linear(4, 2), gated

    def forward(self, x):
        return self.last(self.scale(x, x.flip(1)) if self.gated else self.scale(x))


def test_a_second_tensor_that_a_formula_does_not_know_is_refused():
    """Accepts: the same layer with one tensor; and with two where its class has no rule. Else rows would be wrong."""
    torch.manual_seed(2)
    x = torch.randn(6, 4)

    def check(model):
        wanted = slow_sums(model, x, [0.4], groups=groups_of(model, "global"), clipping="global")
        assert_close(sums(model, x, clipping="global", max_grad_norm=[0.4]), wanted, TOLERANCE)

    check(Around(gated=True))
    rule = dpsgd.GradSampler(formula=lambda _, met, g: {"weight": met * g}, parameters=("weight",))
    dpsgd.register_layer(Gated, rule, examples=[(Gated(), torch.randn(3, 4))])
    check(Around(gated=False))
    with pytest.raises(GuaranteeError, match="called with several tensors"):
        sums(Around(gated=True), x)
