"""Clipped sums are those of a slow loop over examples, for every layer and every way of clipping."""

import copy

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrizations

from inid.dpsgd.grad_sample import DenseGrads, OuterGrads
from inid.testing import unsafe_no_noise
from internals import module_with
from training import Picked, Tokens, assert_close, groups_of, private, slow_sums, squares, sums, train_once

clipping_module = module_with("inid.dpsgd.grad_sample", "Rule")

EXAMPLES = 5


class Scale(nn.Module):
    """A parameter of its own around a layer."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.tensor([0.5, -1.0, 2.0]))
        self.inner = nn.Linear(3, 4)

    def forward(self, x):
        return self.inner(x * self.scale) + self.scale.sum()


class Heated(nn.Module):
    """A parameter without dimensions, beside a layer."""

    def __init__(self):
        super().__init__()
        self.heat, self.inner = nn.Parameter(torch.tensor(0.3)), nn.Linear(3, 4)

    def forward(self, x):
        return self.inner(x) * self.heat.exp()


class Bent(nn.Linear):
    """A subclass that computes something else than a linear layer."""

    def forward(self, x):
        return super().forward(x).sin()


class Cell(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.GRUCell(3, 4)

    def forward(self, x):
        state = x.new_zeros(len(x), 4)
        for at in range(x.shape[1]):
            state = self.cell(x[:, at], state)
        return state


class Both(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Bilinear(3, 3, 4)

    def forward(self, x):
        return self.layer(x, x.flip(1))


LAYERS = {
    "linear": (lambda: nn.Linear(7, 4), (7,)),
    "linear without bias": (lambda: nn.Linear(7, 4, bias=False), (7,)),
    "linear on sequences": (lambda: nn.Linear(3, 4), (5, 3)),
    "linear on planes": (lambda: nn.Linear(3, 4), (2, 5, 3)),
    "conv1d": (lambda: nn.Conv1d(3, 4, 3), (3, 9)),
    "conv1d, stride, dilation, padding": (lambda: nn.Conv1d(4, 6, 3, 2, 3, 2, groups=2), (4, 11)),
    "conv1d, same": (lambda: nn.Conv1d(2, 3, 4, padding="same", dilation=2), (2, 9)),
    "conv2d": (lambda: nn.Conv2d(3, 4, 3), (3, 7, 6)),
    "conv2d, wide input": (lambda: nn.Conv2d(2, 3, 3, padding=1), (2, 9, 8)),
    "conv2d, many channels": (lambda: nn.Conv2d(20, 3, 3), (20, 4, 4)),
    "conv2d, stride": (lambda: nn.Conv2d(2, 3, 3, stride=2, padding=1), (2, 7, 6)),
    "conv2d, stride along one side": (lambda: nn.Conv2d(2, 3, (3, 2), stride=(1, 2)), (2, 7, 6)),
    "conv2d, dilation": (lambda: nn.Conv2d(2, 3, (2, 3), dilation=(3, 2)), (2, 9, 8)),
    "conv2d, groups": (lambda: nn.Conv2d(4, 6, 3, groups=2, padding=(1, 0)), (4, 6, 7)),
    "conv2d, depthwise": (lambda: nn.Conv2d(4, 8, 3, groups=4, bias=False), (4, 6, 6)),
    "conv2d, one by one": (lambda: nn.Conv2d(4, 5, 1), (4, 3, 3)),
    "conv2d, same": (lambda: nn.Conv2d(2, 3, (2, 4), padding="same", dilation=(1, 2)), (2, 6, 7)),
    "conv2d, valid": (lambda: nn.Conv2d(2, 3, 3, padding="valid"), (2, 6, 7)),
    "conv2d, circular": (lambda: nn.Conv2d(2, 3, 3, padding=1, padding_mode="circular"), (2, 5, 5)),
    "conv1d, reflected": (lambda: nn.Conv1d(2, 3, 3, padding=2, padding_mode="reflect"), (2, 5)),
    "group norm": (lambda: nn.GroupNorm(2, 6), (6, 4, 3)),
    "group norm without planes": (lambda: nn.GroupNorm(3, 6), (6,)),
    "layer norm": (lambda: nn.LayerNorm(6), (4, 6)),
    "layer norm over two": (lambda: nn.LayerNorm((4, 6)), (2, 4, 6)),
    "layer norm without bias": (lambda: nn.LayerNorm(6, bias=False), (6,)),
    "instance norm 1d": (lambda: nn.InstanceNorm1d(4, affine=True), (4, 6)),
    "instance norm 2d": (lambda: nn.InstanceNorm2d(4, affine=True), (4, 5, 3)),
    "instance norm 3d": (lambda: nn.InstanceNorm3d(2, affine=True), (2, 3, 2, 3)),
    "rms norm": (lambda: nn.RMSNorm(6), (4, 6)),
    "embedding": (lambda: Tokens(nn.Embedding(7, 3), 7), (6,)),
    "embedding of one token": (lambda: Tokens(nn.Embedding(7, 3), 7), ()),
    "embedding with padding": (lambda: Tokens(nn.Embedding(4, 3, padding_idx=1), 4), (6,)),
    "embedding by frequency": (lambda: Tokens(nn.Embedding(4, 3), 4), (2, 3)),
    "embedding bag": (lambda: Tokens(nn.EmbeddingBag(5, 3, mode="sum"), 5), (6,)),
    "lstm": (lambda: Picked(nn.LSTM(3, 4, num_layers=2, batch_first=True, bidirectional=True)), (4, 3)),
    "gru": (lambda: Picked(nn.GRU(3, 4, batch_first=True)), (4, 3)),
    "gru cell, many times": (Cell, (4, 3)),
    "attention": (lambda: Picked(nn.MultiheadAttention(4, 2, batch_first=True), three_times=True), (3, 4)),
    "transformer": (lambda: nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True), (3, 4)),
    "weight norm": (lambda: parametrizations.weight_norm(nn.Linear(3, 4)), (3,)),
    "spectral norm": (lambda: parametrizations.spectral_norm(nn.Linear(3, 4)).eval(), (3,)),
    "transposed convolution": (lambda: nn.ConvTranspose2d(2, 3, 3), (2, 4, 4)),
    "conv3d": (lambda: nn.Conv3d(2, 3, 2), (2, 3, 4, 3)),
    "bilinear": (Both, (3,)),
    "prelu": (lambda: nn.PReLU(3), (3, 4)),
    "own parameter": (Scale, (3,)),
    "parameter without dimensions": (Heated, (3,)),
    "subclass": (lambda: Bent(3, 4), (3,)),
}


def built(make, shape, dtype, seed=0):
    """A layer with nothing zero in it, and examples whose gradients are of very different lengths."""
    torch.manual_seed(seed)
    model = make().to(dtype)
    with torch.no_grad():
        for p in model.parameters():
            p.add_(0.1 * torch.randn_like(p))
    lengths = torch.logspace(-1, 1, EXAMPLES, dtype=dtype).view(-1, *[1] * len(shape))
    return model, torch.randn(EXAMPLES, *shape, dtype=dtype) * lengths


def middle_threshold(model, x, groups, norm=2):
    """Thresholds that some examples exceed and some do not."""
    found = []
    for names in groups:
        lengths = []
        for at in range(len(x)):
            one = slow_sums(model, x[at : at + 1], [1e12] * len(groups), groups=groups)
            flat = torch.cat([one[name].flatten() for name in names])
            lengths.append(float(torch.linalg.vector_norm(flat, ord=norm)))
        found.append(max(sorted(lengths)[len(x) // 2] * 0.7, 1e-3))
    return found


@pytest.mark.filterwarnings("ignore:Using padding='same'")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
@pytest.mark.parametrize("name", LAYERS)
def test_every_layer(name, dtype):
    model, x = built(*LAYERS[name], dtype)
    groups = groups_of(model)
    thresholds = middle_threshold(model, x, groups)
    wanted = slow_sums(model, x, thresholds, groups=groups)
    assert_close(sums(model, x, max_grad_norm=thresholds), wanted, dtype)
    whole = slow_sums(model, x, [1e12] * len(groups), groups=groups)
    assert any(not torch.allclose(wanted[key], whole[key], rtol=0.01) for key in whole), "nothing was clipped"


def network():
    return nn.Sequential(
        nn.Conv2d(2, 4, 3), nn.GroupNorm(2, 4), nn.Tanh(), nn.Flatten(), nn.Linear(16, 3), nn.Tanh(), nn.Linear(3, 3)
    )


WAYS = [
    ("global", None),
    ("per_layer", None),
    ("per_layer", 0.7),
    ("elementwise", None),
]


@pytest.mark.parametrize("noise", ["torch", "exact"])
@pytest.mark.parametrize("allocation", ["optimal", "spr", "iid"])
@pytest.mark.parametrize("mechanism", ["gaussian", "laplace"])
@pytest.mark.parametrize(("clipping", "total"), WAYS)
def test_every_way_of_clipping(clipping, total, mechanism, allocation, noise):
    """Exact sums are cut to a 2^-16th of the noise's scale and rounded to its grid: half a thousandth is plenty."""
    model, x = built(network, (2, 4, 4), torch.float64)
    groups, norm = groups_of(model, clipping), 2 if mechanism == "gaussian" else 1
    thresholds = [0.9] if clipping == "global" else [0.5, 0.1, 0.3, 0.4]
    options = {"clipping": clipping, "total": total, "mechanism": mechanism, "allocation": allocation, "noise": noise}
    training = private(model, x, max_grad_norm=thresholds, **options)
    found = sums(model, x, max_grad_norm=thresholds, **options)
    wanted = slow_sums(model, x, thresholds, groups=groups, norm=norm, clipping=clipping, total=total)
    if noise == "torch":
        assert_close(found, wanted, torch.float64)
        return
    scale = max(scale for scale, _ in training.optimizer.plan.runs)
    for name, sum_ in wanted.items():
        assert float((found[name] - sum_).abs().max()) <= scale * (EXAMPLES * 2.0**-16 + 2.0**-11)


@pytest.mark.parametrize("noise", ["torch", "exact"])
@pytest.mark.parametrize("mechanism", ["gaussian", "laplace"])
@pytest.mark.parametrize(("clipping", "total"), WAYS)
def test_the_way_that_a_gpu_takes(clipping, total, mechanism, noise, monkeypatch):
    """Rows that say they lie on a GPU are swept without a look and joined where they are short: the same sums."""
    model, x = built(network, (2, 4, 4), torch.float64)
    x[1, 0, 0, 0] = float("nan")
    thresholds = [0.9] if clipping == "global" else [0.5, 0.1, 0.3, 0.4]
    options = {"clipping": clipping, "total": total, "mechanism": mechanism, "noise": noise}
    # A CPU cuts the two sides of a linear layer's rows, a GPU their entries: entries are cut on either side here.
    monkeypatch.setattr(clipping_module, "_bits", lambda *_: 0)
    wanted = sums(model, x, max_grad_norm=thresholds, **options)
    joined = []
    cat = torch.cat
    for kind in (DenseGrads, OuterGrads):
        monkeypatch.setattr(kind, "is_cuda", property(lambda rows: True))
    monkeypatch.setattr(clipping_module, "_SHORT", 50)
    monkeypatch.setattr(torch, "cat", lambda rows, *more: joined.append(len(rows)) or cat(rows, *more))
    found = sums(model, x, max_grad_norm=thresholds, **options)
    assert joined  # weight and bias of the normalisation
    assert_close(found, {name: sum_.double() for name, sum_ in wanted.items()}, torch.float64)
    assert all(bool(sum_.isfinite().all()) for sum_ in found.values())


def test_groups_of_the_users_choice():
    model, x = built(network, (2, 4, 4), torch.float64)
    groups = [["0.weight", "4.bias"], ["1", "0.bias"], ["4.weight", "6"]]
    names = groups_of(model, groups=groups)
    assert names == [["0.weight", "4.bias"], ["1.weight", "1.bias", "0.bias"], ["4.weight", "6.weight", "6.bias"]]
    thresholds = middle_threshold(model, x, names)
    wanted = slow_sums(model, x, thresholds, groups=names)
    assert_close(sums(model, x, max_grad_norm=thresholds, groups=groups), wanted, torch.float64)


class TiedGrads(nn.Module):
    """An embedding whose weight is also the output layer's, and a layer that is used twice."""

    def __init__(self):
        super().__init__()
        self.table, self.out, self.twice = nn.Embedding(6, 4), nn.Linear(4, 6, bias=False), nn.Linear(4, 4)
        self.out.weight = self.table.weight

    def forward(self, x):
        y = self.table((x.abs() * 10).long() % 6)
        return self.out(self.twice(self.twice(y).tanh()))


@pytest.mark.parametrize("clipping", ["global", "per_layer", "elementwise"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
def test_tied_and_twice_used_layers_are_clipped_once(clipping, dtype):
    model, x = built(TiedGrads, (3,), dtype)
    groups = groups_of(model, clipping)
    thresholds = [c / 2 for c in middle_threshold(model, x, groups)]
    wanted = slow_sums(model, x, thresholds, groups=groups, clipping=clipping)
    assert_close(sums(model, x, max_grad_norm=thresholds, clipping=clipping), wanted, dtype)


def test_a_layer_used_once_and_unused_later_in_the_loss():
    """A layer that runs but does not reach the loss has no gradient, and its group is clipped without it."""

    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.used, self.unused = nn.Linear(3, 2), nn.Linear(3, 2)

        def forward(self, x):
            self.unused(x)
            return self.used(x)

    model, x = built(Two, (3,), torch.float64)
    for options in ({"groups": [["used", "unused"]]}, {}, {"total": 0.5}):
        names = groups_of(model, groups=options.get("groups"))
        thresholds = [0.7] * len(names)
        wanted = slow_sums(model, x, thresholds, groups=names, total=options.get("total"))
        assert_close(sums(model, x, max_grad_norm=thresholds, **options), wanted, torch.float64)


@pytest.mark.parametrize("frozen", ["0", "4", "6"])
def test_frozen_parameters_stay_out(frozen):
    model, x = built(network, (2, 4, 4), torch.float64)
    model.get_submodule(frozen).requires_grad_(False)
    groups = groups_of(model)
    assert len(groups) == 3
    thresholds = middle_threshold(model, x, groups)
    wanted = slow_sums(model, x, thresholds, groups=groups)
    assert_close(sums(model, x, max_grad_norm=thresholds), wanted, torch.float64)


def test_in_place_activations_and_residuals():
    class Residual(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)

        def forward(self, x):
            y = self.first(x).relu_()
            z = self.second(y)
            z += x
            return z

    model, x = built(Residual, (4,), torch.float64)
    groups = groups_of(model)
    thresholds = middle_threshold(model, x, groups)
    wanted = slow_sums(model, x, thresholds, groups=groups)
    assert_close(sums(model, x, max_grad_norm=thresholds), wanted, torch.float64)


def test_a_model_that_is_itself_a_layer():
    model, x = built(lambda: nn.Linear(3, 2), (3,), torch.float64)
    assert_close(sums(model, x), slow_sums(model, x, [1.0], groups=groups_of(model)), torch.float64)


@pytest.mark.parametrize("clipping", ["global", "per_layer", "elementwise"])
@pytest.mark.parametrize("part", [1, 2, 3, 5, 9])
def test_parts_of_a_batch_add_up_to_the_whole(part, clipping):
    model, x = built(network, (2, 4, 4), torch.float64)
    groups = groups_of(model, clipping)
    thresholds = [0.3] * len(groups)
    wanted = slow_sums(model, x, thresholds, groups=groups, clipping=clipping)
    found = sums(model, x, max_grad_norm=thresholds, clipping=clipping, max_physical_batch_size=part)
    assert_close(found, wanted, torch.float64)


@pytest.mark.parametrize("part", [None, 2])
def test_a_mean_loss_gives_the_mean_over_the_expected_batch(part):
    model, x = built(network, (2, 4, 4), torch.float64)
    groups = groups_of(model)
    wanted = slow_sums(model, x, [0.3] * 4, groups=groups)
    found = sums(
        model,
        x,
        loss_reduction="mean",
        max_grad_norm=[0.3] * 4,
        max_physical_batch_size=part,
    )
    assert_close(found, {name: sum_ / EXAMPLES for name, sum_ in wanted.items()}, torch.float64)


def test_the_optimizer_steps_with_the_gradients_it_was_given():
    model, x = built(network, (2, 4, 4), torch.float64)
    own = copy.deepcopy(model)
    training = private(own, x, max_grad_norm=[0.3] * 4)
    twin = {name: p.detach().clone() for name, p in training.module.named_parameters()}
    training.optimizer.param_groups[0]["lr"] = 0.1
    with unsafe_no_noise():
        train_once(training)
    for name, p in training.module.named_parameters():
        assert torch.allclose(p, twin[name] - 0.1 * p.grad, rtol=0, atol=1e-15)
        assert float(p.grad.abs().max()) > 0.01


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("clipping", ["global", "per_layer", "elementwise"])
def test_autocast_gives_the_sums_to_its_precision(clipping, dtype):
    model, x = built(network, (2, 4, 4), torch.float32)
    x = x / 10
    groups = groups_of(model, clipping)

    def halves(output):
        return squares(output.float())

    class Cast(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = copy.deepcopy(model)

        def forward(self, x):
            with torch.autocast("cpu", dtype=dtype):
                return self.inner(x)

    found = sums(Cast(), x, loss=halves, max_grad_norm=[0.3] * len(groups), clipping=clipping)
    wanted = slow_sums(model, x, [0.3] * len(groups), groups=groups, clipping=clipping)
    for name, sum_ in wanted.items():
        error = float(torch.linalg.vector_norm(found[f"inner.{name}"].double() - sum_))
        assert error <= 0.1 * max(float(torch.linalg.vector_norm(sum_)), 0.05)
