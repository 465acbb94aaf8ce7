"""The transformer of the benchmarks, in plain torch: what an environment without inid can import too."""

import torch
from torch import Tensor, nn
from torch.nn import functional

__all__ = ["Transformer", "losses"]


class Block(nn.Module):
    """Attention and a network over positions, each after a normalisation."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attend, self.project = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        count, length, width = x.shape
        parts = self.attend(self.first(x)).chunk(3, -1)
        query, key, value = (each.reshape(count, length, self.heads, -1).transpose(1, 2) for each in parts)
        met = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.project(met.transpose(1, 2).reshape(count, length, width))
        return x + self.down(functional.gelu(self.up(self.second(x))))


class Transformer(nn.Module):
    """A decoder like GPT-2, with an output layer of its own."""

    def __init__(self, tokens: int = 50257, width: int = 768, layers: int = 12, heads: int = 12, length: int = 1024):
        super().__init__()
        self.tokens, self.places = nn.Embedding(tokens, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.last, self.out = nn.LayerNorm(width), nn.Linear(width, tokens, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        places = torch.arange(x.shape[1], device=x.device).repeat(x.shape[0], 1)
        h = self.tokens(x) + self.places(places)
        for block in self.blocks:
            h = block(h)
        return self.out(self.last(h))


def losses(logits: Tensor, following: Tensor) -> Tensor:
    """Each sequence's mean loss."""
    each = functional.cross_entropy(logits.flatten(0, 1), following.flatten(), reduction="none")
    return each.view(following.shape).mean(1)
