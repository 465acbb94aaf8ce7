"""Small networks of the benchmarks, in plain torch: what an environment without inid can import too."""

from torch import Tensor, nn
from torch.nn import functional

__all__ = ["LAYERS", "Adapted", "Recurrent", "convolutional"]

LAYERS = {"LSTM": nn.LSTM, "GRU": nn.GRU}  # a peer may have others in their place


class Recurrent(nn.Module):
    """A recurrent layer over tokens, and a head on its last output."""

    def __init__(self, kind: str, tokens: int = 1000, width: int = 128, classes: int = 10) -> None:
        super().__init__()
        self.table = nn.Embedding(tokens, width // 2)
        self.layer = LAYERS[kind](width // 2, width, batch_first=True)
        self.head = nn.Linear(width, classes)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(self.layer(self.table(tokens))[0][:, -1])


def convolutional() -> nn.Sequential:
    """Two convolutions and two linear layers for images of 28 x 28, as in Opacus's example for MNIST."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 8, 2, padding=3),
        nn.ReLU(),
        nn.MaxPool2d(2, 1),
        nn.Conv2d(16, 32, 4, 2),
        nn.ReLU(),
        nn.MaxPool2d(2, 1),
        nn.Flatten(),
        nn.Linear(32 * 4 * 4, 32),
        nn.ReLU(),
        nn.Linear(32, 10),
    )


class _Beside(nn.Module):
    """A frozen linear layer with a trained product of low rank beside it."""

    def __init__(self, width: int, rank: int) -> None:
        super().__init__()
        self.frozen = nn.Linear(width, width).requires_grad_(False)
        self.down, self.up = nn.Linear(width, rank, bias=False), nn.Linear(rank, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.frozen(x) + self.up(self.down(x))


class _Block(nn.Module):
    """A transformer's block whose queries and values are adapted; all else is frozen."""

    def __init__(self, width: int, heads: int, rank: int) -> None:
        super().__init__()
        self.heads = heads
        self.first, self.second = (nn.LayerNorm(width).requires_grad_(False) for _ in range(2))
        self.query, self.value = _Beside(width, rank), _Beside(width, rank)
        self.key, self.project = (nn.Linear(width, width).requires_grad_(False) for _ in range(2))
        self.up = nn.Linear(width, 4 * width).requires_grad_(False)
        self.down = nn.Linear(4 * width, width).requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        seen = self.first(x)
        query, key, value = (
            layer(seen).view(*seen.shape[:2], self.heads, -1).transpose(1, 2)
            for layer in (self.query, self.key, self.value)
        )
        heard = functional.scaled_dot_product_attention(query, key, value)
        x = x + self.project(heard.transpose(1, 2).flatten(2))
        return x + self.down(functional.gelu(self.up(self.second(x))))


class Adapted(nn.Module):
    """A transformer of two blocks, adapted by LoRA, with a trained head."""

    def __init__(self, tokens: int = 1000, width: int = 128, heads: int = 4, rank: int = 8, classes: int = 4) -> None:
        super().__init__()
        self.table = nn.Embedding(tokens, width).requires_grad_(False)
        self.blocks = nn.Sequential(_Block(width, heads, rank), _Block(width, heads, rank))
        self.head = nn.Linear(width, classes)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(self.blocks(self.table(tokens)).mean(1))
