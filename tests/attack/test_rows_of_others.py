"""What one row holds does not change another's, forward or backward, not by a bit: tested, since no library says so.

Libraries may go another way for a whole vector of numbers, where one of them is large, tiny or not a number.
"""

import pytest
import torch
from torch import nn
from torch.nn import functional

ROWS = 23  # rows lie across the vectors of every processor
ODD = [0.0, 300.0, 1e30, 1e-42, torch.inf, torch.nan]


class Attention(nn.Module):
    def forward(self, x):
        x = x.view(len(x), 2, 5, 8)
        return functional.scaled_dot_product_attention(x, x, x, is_causal=True)


class Sine(nn.Module):
    def forward(self, x):
        return x.sin() + x.cos()


LAYERS = {
    "linear 3 1": (nn.Linear(3, 1), (3,)),
    "linear 9 8": (nn.Linear(9, 8), (9,)),
    "linear 100 33": (nn.Linear(100, 33), (100,)),
    "linear over positions": (nn.Linear(12, 5), (6, 12)),
    "convolution": (nn.Conv2d(3, 5, 3, padding=1), (3, 7, 7)),
    "convolution by channel": (nn.Conv2d(8, 8, 3, groups=8), (8, 9, 9)),
    "convolution 1d": (nn.Conv1d(4, 8, 3), (4, 20)),
    "layer norm": (nn.LayerNorm(7), (7,)),
    "group norm": (nn.GroupNorm(2, 4), (4, 3, 3)),
    "softmax": (nn.LogSoftmax(-1), (11,)),
    "attention": (Attention(), (80,)),
    "pooling": (nn.MaxPool2d(2), (3, 6, 6)),
    **{kind.__name__: (kind(), (3,)) for kind in (nn.GELU, nn.Tanh, nn.SiLU, nn.Mish, nn.Softplus, nn.ELU, Sine)},
}


def both_ways(layer, x, back):
    x = x.clone().requires_grad_()
    output = layer(x)
    (gradient,) = torch.autograd.grad(output, x, back)
    return output.detach(), gradient


def untouched(layer, shape, kind):
    """Whether odd rows leave the others as they are."""
    torch.manual_seed(0)
    layer = layer.to(kind)
    x = torch.randn(ROWS, *shape).to(kind)
    back = torch.randn(layer(x).shape).to(kind)
    odd = torch.rand(ROWS) < 0.3
    before = both_ways(layer, x, back)
    after = []
    for value in ODD:
        x[odd], back[odd] = value, value
        after.append(both_ways(layer, x, back))
    return all(torch.equal(a[~odd], b[~odd]) for each in after for a, b in zip(each, before, strict=True))


@pytest.mark.parametrize("kind", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", LAYERS)
def test_odd_rows_leave_the_others_as_they_are(name, kind):
    assert untouched(*LAYERS[name], kind)


class AnotherWay(nn.Module):
    """The broken twin: a kernel that goes another way for all where one number is large."""

    def forward(self, x):
        return torch.where(x.abs().max() > 1e6, x * (1 + 2.0**-20), x)


def test_twin_that_goes_another_way_for_all():
    assert not untouched(AnotherWay(), (3,), torch.float32)
