"""A default device of the user's changes nothing: what the loop makes lies where its examples and parameters do.

Here the default is torch's "meta", whose tensors hold nothing: whatever forgets to say where it lies fails at once.
"""

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from inid import dpsgd
from inid.testing import unsafe_no_noise
from training import make_private

ROWS, CLASSES = 12, 4
DRAW = torch.Generator().manual_seed(5)
X = torch.randn(ROWS, 3, 8, 8, generator=DRAW)
Y = torch.randint(0, CLASSES, (ROWS,), generator=DRAW)


class Recurrent(nn.Module):
    """A layer without a formula of its own for gradients by example."""

    def __init__(self):
        super().__init__()
        self.layer = nn.LSTM(64, CLASSES, batch_first=True)

    def forward(self, x):
        return self.layer(x.flatten(2))[0][:, -1]


MODELS = {
    "dense": lambda: nn.Sequential(nn.Flatten(), nn.Linear(192, 8), nn.LayerNorm(8), nn.Linear(8, CLASSES)),
    "convolution": lambda: nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.GroupNorm(2, 8), nn.ReLU(), nn.Flatten(), nn.Linear(288, CLASSES)
    ),
    "recurrent": Recurrent,
}
LOOPS = {
    "scalar": lambda p, x, y: p.loss(functional.cross_entropy, p.module(x), y).backward(),
    "function": lambda p, x, y: p.backward(functional.cross_entropy, p.module(x), y),
    "twice": lambda p, x, y: p.backward(lambda own, y: functional.cross_entropy(own, y) * 2, p.module(x), y),
    "ignored": lambda p, x, y: p.backward(
        nn.CrossEntropyLoss(ignore_index=CLASSES - 1, label_smoothing=0.1), p.module(x), y
    ),
}
OPTIONS = {
    "global": {},
    "adaptive": {"clipping": "per_layer", "thresholds": dpsgd.Adaptive()},
    "elementwise": {"clipping": "elementwise"},
    "parts": {"max_physical_batch_size": 4},
    "views": {"augmentations": 2},
    "exact": {"noise": "exact"},
}
CASES = [("dense", "function", options) for options in OPTIONS]
CASES += [("dense", "scalar", "global"), ("convolution", "twice", "global"), ("recurrent", "ignored", "global")]


def steps(make, loop, options, *, device):
    torch.manual_seed(0)
    model = make()
    training = make_private(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9),
        data_loader=DataLoader(TensorDataset(X, Y), batch_size=ROWS),
        noise_multiplier=1.0,
        **options,
    )
    with torch.device(device), unsafe_no_noise():
        for _ in range(2):
            for x, y in training.data_loader:
                training.optimizer.zero_grad()
                loop(training, x, y)
                training.optimizer.step()
    return list(model.parameters())


@pytest.mark.parametrize(("model", "loop", "options"), CASES)
def test_steps_are_the_same(model, loop, options):
    usual, elsewhere = (steps(MODELS[model], LOOPS[loop], OPTIONS[options], device=where) for where in ("cpu", "meta"))
    assert all(torch.allclose(one, other) for one, other in zip(usual, elsewhere, strict=True))
