"""A small model over tokens, private, whose clipped sums are asked for by tests of losses."""

import copy

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from inid.testing import unsafe_no_noise
from training import make_private

__all__ = [
    "CLASSES",
    "CLIP",
    "LABELS",
    "LENGTH",
    "NET",
    "ROWS",
    "TOKENS",
    "WEIGHTS",
    "WIDTH",
    "X",
    "first",
    "made",
    "trained",
]

torch.set_num_threads(1)
ROWS, WIDTH, CLASSES, LENGTH = 12, 5, 4, 3
CLIP = 0.5
DRAW = torch.Generator().manual_seed(3)
X = torch.randn(ROWS, LENGTH, WIDTH, generator=DRAW)
TOKENS = torch.randint(0, CLASSES, (ROWS, LENGTH), generator=DRAW)
LABELS = torch.randint(0, 2, (ROWS,), generator=DRAW)
WEIGHTS = torch.tensor([1.0, 1.0, 1.0, 1000.0])


class Net(nn.Module):
    """Logits by token, (rows, tokens, classes), and a number by row that is kept as an attribute."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.into, self.out = nn.Linear(WIDTH, 7), nn.Linear(7, CLASSES)

    def forward(self, x):
        hidden = self.into(x).tanh()
        self.kept = (hidden @ hidden.mT).diagonal(dim1=1, dim2=2).sum(1)
        return self.out(hidden)


NET = Net()


def made(labels=LABELS, tokens=TOKENS, **options):
    model = copy.deepcopy(NET)
    data = TensorDataset(X, labels, tokens)
    return make_private(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.0),
        data_loader=DataLoader(data, batch_size=ROWS),
        noise_multiplier=1.0,
        max_grad_norm=CLIP,
        **options,
    )


def trained(training, loss, steps=1):
    """The clipped sums after some steps with a loss of logits, labels, tokens and the training."""
    with unsafe_no_noise():
        for _ in range(steps):
            for x, y, tokens in training.data_loader:
                training.optimizer.zero_grad()
                loss(training.module(x), y, tokens, training)
                if training.data_loader.drawn.complete:
                    found = training.optimizer.step_state.sums.flat.clone()
                training.optimizer.step()
    return found


def first(logits):
    return logits[:, 0]
