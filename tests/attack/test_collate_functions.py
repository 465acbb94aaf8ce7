"""A collate function that mixes examples is refused, whatever its entries are made of; one that does not is taken.

Tensors of floats were made up before, and nothing else: NumPy arrays that were centred by the batch moved a clipped sum
by up to 6.8 thresholds, where one replaced example may move it by two.
"""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812 - as everybody calls it
from torch.utils.data import DataLoader, Dataset

from inid import dpsgd
from inid.errors import GuaranteeError

SIZE, WIDTH = 12, 5
DRAW = np.random.default_rng(3)
VALUES = DRAW.standard_normal((SIZE, WIDTH)).astype(np.float32)


class Examples(Dataset):
    """Values and a label, as a function makes them."""

    def __init__(self, make):
        self.make = make

    def __len__(self):
        return SIZE

    def __getitem__(self, at):
        return self.make(VALUES[at], at % 3)


KINDS = {
    "tensors": lambda x, y: (torch.from_numpy(x), torch.tensor(y)),
    "arrays": lambda x, y: (x, y),
    "lists": lambda x, y: (x.tolist(), y),
    "dictionary": lambda x, y: {"x": torch.from_numpy(x), "y": y},
    "bytes": lambda x, y: (torch.from_numpy(np.clip(100 + 30 * x, 0, 255).astype(np.uint8)), y),
    "whole arrays": lambda x, y: (np.round(9 * x).astype(np.int64), np.int64(y)),
    "doubles": lambda x, y: (np.asarray(x, dtype=np.float64), float(y)),
    "nested": lambda x, y: {"in": [x, {"deep": x.tolist()}], "y": y},
}


def stacked(rows):
    """Values and labels of the examples, of whatever kind."""
    found = []
    for row in rows:
        if isinstance(row, dict):
            row = (row["in"][1]["deep"] if "in" in row else row["x"], row["y"])  # noqa: PLW2901 - the same example
        found.append((torch.as_tensor(np.asarray(row[0])).float(), int(row[1])))
    return torch.stack([x for x, _ in found]), torch.tensor([y for _, y in found])


def hot(y):
    return F.one_hot(y % 3, 3).float()


MIXING = {
    "centred": lambda x, y: (x - x.mean(0), y),
    "scaled": lambda x, y: (x / x.abs().max(), y),
    "shifted": lambda x, y: (x - x.min(), y),
    "mixed up": lambda x, y: ((x + x.roll(1, 0)) / 2, y),
    "mixed up at random": lambda x, y: ((x + x[torch.randperm(len(x))]) / 2, y),
    "labels mixed": lambda x, y: (x, (hot(y) + hot(y).roll(1, 0)) / 2),
    "labels standardised": lambda x, y: (x, (y - y.float().mean()) / (y.float().std() + 0.1)),
    "weights of classes": lambda x, y: (x, (1 / (torch.bincount(y % 3, minlength=3) + 1.0))[y % 3]),
    "arrays": lambda x, y: ((x - x.mean(0)).numpy(), y.numpy()),
    "lists": lambda x, y: (x, (y - y.float().mean()).tolist()),
    "dictionary": lambda x, y: {"x": [x - x.mean(0)], "y": y},
    "positions first": lambda x, y: ((x - x.mean(0)).T, y),
    "flat": lambda x, y: ((x - x.mean(0)).flatten(), y),
    "a fact beside the rows": lambda x, y: (x, y, x.mean(0)),
    "a number beside the rows": lambda x, y: {"x": x, "y": y, "largest": float(x.max())},
    "a count beside the rows": lambda x, y: {"x": x, "y": y, "ones": (y % 3 == 1).sum()},
}
APART = {
    "as they are": lambda x, y: (x, y),
    "scaled by row": lambda x, y: (x / (1 + x.norm(dim=1, keepdim=True)), hot(y)),
    "sorted": lambda x, y: (x[x[:, 0].argsort()], y[x[:, 0].argsort()]),
    "noisy": lambda x, y: (x + torch.rand(x.shape), y),
    "positions first": lambda x, y: (x.T, y),
    "arrays": lambda x, y: (x.numpy(), y.tolist()),
    "constants beside the rows": lambda x, y: {"x": x, "y": y, "mask": torch.ones(3, 3).tril(), "heads": 4},
    "random by value": lambda x, y: (
        x * torch.tensor([float(torch.rand(()) if each else 1) for each in y])[:, None],
        y,
    ),
    # NumPy draws two of them at once: an odd number and one more leave the generator where it is.
    "normal numbers by value": lambda x, y: (
        x + torch.tensor([float(np.random.randn()) if each < 4 else 0.0 for each in x[:, 0]])[:, None],  # noqa: NPY002
        y,
    ),
}


def private(kind, collate):
    model = nn.Linear(WIDTH, 3)
    return dpsgd.make_private(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.0),
        data_loader=DataLoader(Examples(KINDS[kind]), batch_size=6, collate_fn=lambda rows: collate(*stacked(rows))),
        noise_multiplier=1.0,
    )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", MIXING)
def test_a_collate_function_that_mixes_is_refused_whatever_examples_are_made_of(name, kind):
    training = private(kind, MIXING[name])
    before = torch.random.get_rng_state(), np.random.get_state()[1].tolist()  # noqa: NPY002 - what it draws from
    with pytest.raises(GuaranteeError, match="mixes examples"):
        next(iter(training.data_loader))
    assert torch.equal(torch.random.get_rng_state(), before[0])
    assert np.random.get_state()[1].tolist() == before[1]  # noqa: NPY002 - as above


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", APART)
def test_one_that_keeps_examples_apart_is_taken(name, kind):
    next(iter(private(kind, APART[name]).data_loader))
