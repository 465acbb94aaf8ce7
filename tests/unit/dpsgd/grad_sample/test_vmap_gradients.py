"""Attention by plain operations is that of torch, with every option."""

import pytest
import torch
from torch import nn
from torch.nn import functional

from inid.dpsgd.grad_sample import plain_attention
from internals import module_with
from training import sums

vmap_gradients = module_with("inid.dpsgd.grad_sample", "plain_attention")

DRAW = torch.Generator().manual_seed(1)
QUERY, KEY, VALUE = (torch.randn(2, 4, rows, 8, generator=DRAW, dtype=torch.float64) for rows in (3, 5, 5))
BLIND = torch.tensor([[False] * 5, [True] * 5, [False, True, False, False, False]])


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"is_causal": True},
        {"scale": 0.3},
        {"attn_mask": BLIND},
        {"attn_mask": torch.randn(2, 1, 3, 5, generator=DRAW, dtype=torch.float64)},
    ],
)
def test_it_is_that_of_torch(options):
    found = plain_attention(QUERY, KEY, VALUE, **options)
    wanted = functional.scaled_dot_product_attention(QUERY, KEY, VALUE, **options)
    assert torch.allclose(found, wanted, rtol=1e-12, atol=1e-12)


def test_heads_that_share_keys():
    found = plain_attention(QUERY, KEY[:, :2], VALUE[:, :2], enable_gqa=True)
    wanted = functional.scaled_dot_product_attention(QUERY, KEY[:, :2], VALUE[:, :2], enable_gqa=True)
    assert torch.allclose(found, wanted, rtol=1e-12, atol=1e-12)


def test_dropped_weights_are_scaled():
    torch.manual_seed(2)
    one = torch.ones(1, 1, 1, 1)
    found = torch.cat([plain_attention(one, one, one, dropout_p=0.5).flatten() for _ in range(64)])
    assert set(found.tolist()) == {0.0, 2.0}


class Direct(nn.Module):
    """Attention called by its name, under parameters that no layer of torch has."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(8))

    def forward(self, x):
        return functional.scaled_dot_product_attention(x * self.scale, x, x)


@pytest.mark.parametrize("make", [lambda: nn.TransformerEncoderLayer(8, 2, 8, dropout=0.0, batch_first=True), Direct])
def test_torch_s_kernels_are_called_for_no_example_alone(make, monkeypatch):
    seen = []

    def counted(query, *args, **kwargs):
        seen.append(torch._C._functorch.maybe_get_level(query))
        return plain_attention(query, *args, **kwargs)

    monkeypatch.setattr(vmap_gradients, "plain_attention", counted)
    before = functional.scaled_dot_product_attention
    torch.manual_seed(3)
    sums(make(), torch.randn(4, 3, 8))
    assert seen
    assert set(seen) == {1}  # always inside vmap
    assert functional.scaled_dot_product_attention is before
