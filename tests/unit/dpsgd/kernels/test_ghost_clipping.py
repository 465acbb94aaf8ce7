"""Gradients that are never written down give the sums of a slow loop, in models as people write them."""

import pytest
import torch
from torch import nn
from torch.nn import functional
from transformers.pytorch_utils import Conv1D

from attack.test_clipped_sums import added, assert_within, limits_of
from inid.dpsgd import grad_sampler_of
from inid.dpsgd.grad_sample import LookupGrads, PositionGrads, TiedGrads, ghost_grads, typical_loss
from internals import module_with
from training import assert_close, groups_of, private, slow_sums, squares, sums

fused_norms = module_with("inid.dpsgd.kernels", "lengths")
fused_layers = module_with("inid.dpsgd.grad_sample", "ghost_grads")
gathered_rows = module_with("inid.dpsgd", "GradAccumulator")


class Block(nn.Module):
    """A small transformer: a table tied to the output layer, norms, biases, a layer that is used twice."""

    def __init__(self, width=24, height=30):
        super().__init__()
        self.height = height
        self.table, self.out = nn.Embedding(height, width, padding_idx=1), nn.Linear(width, height, bias=False)
        self.out.weight = self.table.weight
        self.norm, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, 40), nn.Linear(40, width)
        self.twice = nn.Linear(width, width)

    def forward(self, x):
        h = self.table((x.abs() * 10).long() % self.height)
        h = h + self.down(functional.gelu(self.up(self.norm(h))))
        return self.out(self.twice(self.twice(h).tanh()))


def convolutions():
    return nn.Sequential(
        nn.Conv2d(3, 40, 3, stride=2, padding=1),
        nn.Tanh(),
        nn.Conv2d(40, 50, (2, 3), dilation=(2, 1), padding="same"),
        nn.Flatten(2),
        nn.Conv1d(50, 40, 3, padding=1, stride=2),
        nn.Flatten(),
        nn.Linear(120, 3),
    )


def transposed():
    """GPT-2's linear layers."""
    return nn.Sequential(nn.Unflatten(1, (4, 6)), Conv1D(40, 6), nn.Tanh(), Conv1D(50, 40), nn.Flatten(), nn.Tanh())


MODELS = {"transformer": (Block, (6,)), "convolutions": (convolutions, (3, 4, 6)), "transposed": (transposed, (24,))}


@pytest.fixture
def seen(monkeypatch):
    """All rows that may be fused are, however few; what forms they took."""
    monkeypatch.setattr(fused_layers, "_FEW", 0)
    forms = []
    fused, together = gathered_rows.ghost_grads, gathered_rows.sum_of_uses

    def watched(*args, **kwargs):
        rows = fused(*args, **kwargs)
        forms.extend(type(each) for each in (rows or {}).values())
        return rows

    def joined(*args):
        rows = together(*args)
        forms.append(type(rows))
        return rows

    monkeypatch.setattr(gathered_rows, "ghost_grads", watched)
    monkeypatch.setattr(gathered_rows, "sum_of_uses", joined)
    return forms


def built(name, dtype):
    make, shape = MODELS[name]
    torch.manual_seed(0)
    model = make().to(dtype)
    lengths = torch.logspace(-1, 1, 5, dtype=dtype).view(-1, *[1] * len(shape))
    return model, torch.randn(5, *shape, dtype=dtype) * lengths


@pytest.mark.parametrize(("clipping", "total"), [("global", None), ("per_layer", None), ("per_layer", 0.7)])
@pytest.mark.parametrize("name", MODELS)
def test_sums_are_those_of_a_slow_loop(name, clipping, total, seen):
    model, x = built(name, torch.float64)
    groups = groups_of(model, clipping)
    thresholds = [0.3] * len(groups)
    wanted = slow_sums(model, x, thresholds, groups=groups, clipping=clipping, total=total)
    found = sums(model, x, max_grad_norm=thresholds, clipping=clipping, total=total)
    assert PositionGrads in seen
    assert name != "transformer" or {LookupGrads, TiedGrads} <= set(seen)
    for key, sum_ in wanted.items():
        assert torch.allclose(found[key], sum_, rtol=1e-7, atol=1e-9), key


@pytest.mark.parametrize("clipping", ["global", "per_layer"])
@pytest.mark.parametrize("name", MODELS)
def test_float32_loses_less_than_the_allowances(name, clipping, seen):
    """The sums of single examples are the slow loop's, shortened by a little and never lengthened."""
    model, x = built(name, torch.float32)
    groups = groups_of(model, clipping)
    thresholds = [0.01] * len(groups)
    for at in range(5):
        wanted = slow_sums(model, x[at : at + 1], thresholds, groups=groups, clipping=clipping)
        found = sums(model, x[at : at + 1], max_grad_norm=thresholds, clipping=clipping)
        for key, sum_ in wanted.items():
            ratio = float(torch.linalg.vector_norm(found[key]) / torch.linalg.vector_norm(sum_))
            assert 0.99 < ratio <= 1 + 1e-6, key
    assert PositionGrads in seen


@pytest.mark.parametrize("way", [{"noise": "exact"}, {"mechanism": "laplace"}, {"clipping": "elementwise"}])
def test_exact_sums_other_norms_and_entries_keep_their_rows(way, seen):
    model, x = built("transformer", torch.float64)
    sums(model, x, max_grad_norm=0.3, **way)
    assert not {PositionGrads, LookupGrads, TiedGrads} & set(seen)


@pytest.mark.parametrize("factor", [1e30, 1e-30, float("inf"), float("nan"), 1.0])
@pytest.mark.parametrize("clipping", ["global", "per_layer"])
@pytest.mark.parametrize("name", MODELS)
def test_one_example_stays_within_the_plan(name, clipping, factor, seen):
    model, x = built(name, torch.float32)
    for kind in (torch.float32, torch.bfloat16):
        training = private(model, x[:1], max_grad_norm=0.5, clipping=clipping)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=kind == torch.bfloat16):
            found = added(training, lambda output: squares(output).float() * factor)
        assert_within(found, limits_of(training))
    assert PositionGrads in seen


def test_adaptive_thresholds_get_their_norms(seen):
    model, x = built("transformer", torch.float64)
    training = private(model, x, max_grad_norm=0.3, thresholds="adaptive")
    added(training)
    inside = training.optimizer.step_state.sums.inside
    assert bool((inside >= 0).all())
    assert bool((inside < len(x)).any())


def test_rows_are_written_where_they_are_short_or_few():
    layer, few = nn.Linear(700, 800), torch.randn(2, 3, 800)
    rule = grad_sampler_of(layer)
    assert ghost_grads(rule, layer, torch.randn(2, 3, 700), few, stored=False, tied=False) is None
    assert (
        ghost_grads(rule, layer, torch.randn(9, 3, 700), torch.randn(9, 3, 800), stored=False, tied=False) is not None
    )
    long = torch.randn(9, 400, 800)
    assert ghost_grads(rule, layer, torch.randn(9, 400, 700), long, stored=False, tied=False) is None
    assert ghost_grads(rule, layer, torch.randn(9, 400, 700), long, stored=True, tied=False) is not None
    half = torch.randn(9, 3, 800).half()
    assert ghost_grads(rule, layer, torch.randn(9, 3, 700).half(), half, stored=False, tied=False) is None


def test_the_typical_loss_is_what_positions_at_right_angles_lose():
    for kind in (torch.bfloat16, torch.float32):
        g, a = torch.randn(3, 32, 300).to(kind), torch.eye(32, 400).expand(3, -1, -1).to(kind)
        rows = PositionGrads(g, a)
        true = torch.linalg.vector_norm(g.double().mT @ a.double(), dim=(1, 2))
        lost = 1 - true / (rows.powers(2).sqrt() + rows.allowances())
        wanted = typical_loss(32, 400, 300, kind)
        assert bool((lost <= wanted * 1.01).all())
        assert bool((lost >= wanted * 0.8).all())


def test_few_examples_at_a_time_give_the_same_norms(monkeypatch):
    g, a = torch.randn(7, 9, 5), torch.randn(7, 9, 6)
    wanted = fused_norms.direct_bound(a, g)[0]
    monkeypatch.setattr(fused_norms, "_SLICE", 61)
    assert torch.allclose(fused_norms.direct_bound(a, g)[0], wanted, rtol=1e-6)


def test_it_is_the_same_for_float64_and_the_rows(seen):
    """One model, fused and by rows: the same sums to the last digits of float64."""
    model, x = built("convolutions", torch.float64)
    found = sums(model, x, max_grad_norm=0.3)
    fused_layers._FEW = 2**40
    assert_close(found, sums(model, x, max_grad_norm=0.3), torch.float64)


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize(
    "layer",
    [
        nn.Conv2d(3, 5, 3, stride=2, padding=1, dilation=2),
        nn.Conv2d(4, 5, (2, 3), stride=(1, 2), padding=(1, 0)),
        nn.Conv2d(2, 3, 1),
        nn.Conv2d(3, 4, (3, 5), padding="same"),
        nn.Conv1d(3, 4, 3, stride=2, padding=1),
    ],
)
def test_windows_are_what_each_position_met(layer, layout):
    plane = isinstance(layer, nn.Conv2d)
    inputs = torch.randn(6, layer.in_channels, *((11, 12) if plane else (13,)))
    inputs = inputs.to(memory_format=layout) if plane else inputs
    wanted = layer(inputs)
    found = fused_layers._windows(layer, inputs) @ layer.weight.flatten(1).T + layer.bias
    assert torch.allclose(found.mT.reshape(wanted.shape), wanted, atol=1e-5)
