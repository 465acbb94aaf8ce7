"""A run on made-up examples serves twice where it left everything as it was, and only there."""

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from inid import dpsgd

ROWS = 8


class Plain(nn.Module):
    """Counts its forwards where no look can see it."""

    def __init__(self, forwards):
        super().__init__()
        self.layer, self._note = nn.Linear(3, 2), lambda: forwards.append(1)

    def forward(self, x):
        self._note()
        return self.layer(x)


class Counting(Plain):
    def __init__(self, forwards):
        super().__init__(forwards)
        self.count = 0

    def forward(self, x):
        self.count += 1
        return super().forward(x)


class InPlace(Plain):
    def forward(self, x):
        return super().forward(x.mul_(1.0))


class Hooked(Plain):
    """Changes in the backward alone, alike for all examples."""

    def __init__(self, forwards):
        super().__init__(forwards)
        self.backwards = 0

    def forward(self, x):
        made = super().forward(x)
        if made.requires_grad:
            made.register_hook(self._count)
        return made

    def _count(self, _):
        self.backwards += 1


def forwards_of(kind):
    """How many forwards each of the first two steps takes, which have a look each."""
    forwards, found = [], []
    model = kind(forwards)
    x, y = torch.randn(ROWS, 3), torch.randint(0, 2, (ROWS,))
    training = dpsgd.make_private(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        data_loader=DataLoader(TensorDataset(x, y), batch_size=ROWS),
        noise_multiplier=1.0,
    )
    for _ in range(2):
        forwards.clear()
        for batch, labels in training.data_loader:
            nn.functional.cross_entropy(model(batch), labels).backward()
            training.optimizer.step()
        found.append(len(forwards))
    return found


@pytest.mark.parametrize("kind", [Counting, InPlace])
def test_a_run_that_leaves_something_behind_is_made_again(kind):
    """The first look differentiates the three once more for a full batch; later looks only run forward."""
    first, later = forwards_of(Plain)
    assert forwards_of(kind) == [first + 2, later + 1]


def test_so_is_one_whose_backward_does():
    """To others it looks as if somebody had changed the model between the steps: the second look is a first one."""
    assert forwards_of(Hooked) == 2 * [forwards_of(Plain)[0] + 2]
