"""Clipped sums of small random networks are those of a slow loop, and shares of a threshold add up to it."""

import itertools
import math

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from example_counts import examples
from inid.dpsgd.thresholds import share_thresholds
from training import assert_close, groups_of, slow_sums, sums

SETTINGS = examples(20, 60)
ACTIVATIONS = st.sampled_from([nn.Tanh, nn.Sigmoid, nn.Softplus, nn.GELU])


@SETTINGS
@given(
    st.lists(st.integers(1, 9), min_size=2, max_size=4),
    st.booleans(),
    st.sampled_from(["global", "per_layer", "elementwise"]),
    st.sampled_from(["gaussian", "laplace"]),
    st.sampled_from(["optimal", "spr", "iid"]),
    st.integers(1, 5),
    st.floats(-3, 3),
    st.integers(0, 2**20),
    st.one_of(st.none(), st.integers(1, 4)),
)
def test_random_dense_networks(widths, bias, clipping, mechanism, allocation, examples, level, seed, part):
    torch.manual_seed(seed)
    layers = []
    for before, after in itertools.pairwise(widths):
        layers += [nn.Linear(before, after, bias=bias), nn.Tanh()]
    model = nn.Sequential(*layers).double()
    x = torch.randn(examples, widths[0], dtype=torch.float64) * 10 ** torch.rand(examples, 1, dtype=torch.float64)
    compare(model, x, clipping, mechanism, allocation, 10**level, part)


@SETTINGS
@given(
    st.data(),
    st.sampled_from(["global", "per_layer", "elementwise"]),
    st.sampled_from(["gaussian", "laplace"]),
    st.floats(-2, 2),
)
def test_random_networks_of_every_layer(data, clipping, mechanism, level):
    channels, length, examples = (data.draw(st.integers(low, high)) for low, high in ((1, 4), (5, 9), (1, 4)))
    torch.manual_seed(data.draw(st.integers(0, 2**20)))
    x = torch.randn(examples, channels, length, dtype=torch.float64)
    layers = []
    for _ in range(data.draw(st.integers(0, 3))):
        layer = data.draw(layer_for(channels, length))
        made = layer.double()(torch.zeros(1, channels, length, dtype=torch.float64))
        if made.shape[2] < 2:
            continue
        layers += [layer, data.draw(ACTIVATIONS)()]
        _, channels, length = made.shape
    layers += [nn.Flatten(), nn.Linear(channels * length, 2)]
    compare(nn.Sequential(*layers).double(), x, clipping, mechanism, "optimal", 10**level, None)


@st.composite
def layer_for(draw, channels, length):
    kind = draw(st.sampled_from(["conv", "conv", "group", "layer", "rms", "linear", "fallback"]))
    if kind == "conv":
        groups = draw(st.sampled_from([g for g in (1, 2, 3, 4) if channels % g == 0]))
        kernel, dilation = draw(st.sampled_from([(1, 1), (2, 1), (3, 1), (2, 2)]))
        stride, padding = draw(st.integers(1, 2)), draw(st.integers(0, 2))
        outputs = groups * draw(st.integers(1, 3))
        return nn.Conv1d(channels, outputs, kernel, stride, padding, dilation, groups, bias=draw(st.booleans()))
    return {
        "group": lambda: nn.GroupNorm(draw(st.sampled_from([g for g in (1, 2, 3, 4) if channels % g == 0])), channels),
        "layer": lambda: nn.LayerNorm(length),
        "rms": lambda: nn.RMSNorm((channels, length)),
        "linear": lambda: nn.Linear(length, draw(st.integers(2, 5))),
        "fallback": lambda: nn.PReLU(channels),
    }[kind]()


def compare(model, x, clipping, mechanism, allocation, total, part):
    groups, norm = groups_of(model, clipping), 2 if mechanism == "gaussian" else 1
    thresholds = [total * (at + 1) for at in range(len(groups))]
    options = {"clipping": clipping, "mechanism": mechanism, "allocation": allocation, "max_physical_batch_size": part}
    found = sums(model, x, max_grad_norm=thresholds, **options)
    wanted = slow_sums(model, x, thresholds, groups=groups, norm=norm, clipping=clipping)
    assert_close(found, wanted, torch.float64)


@given(
    st.floats(1e-6, 1e6),
    st.lists(st.integers(1, 10**6), min_size=1, max_size=30),
    st.sampled_from([1, 2]),
    st.sampled_from(["flat", "sqrt_size"]),
)
def test_shares_of_a_threshold_add_up_to_it(total, sizes, norm, rule):
    shares = share_thresholds(total, sizes, norm, rule)
    assert all(share > 0 for share in shares)
    assert math.isclose(sum(share**norm for share in shares) ** (1 / norm), total, rel_tol=1e-9)
    if rule == "flat":
        assert len(set(shares)) == 1
