"""What a forward writes into buffers and parameters would outlive the step without noise: it is refused."""

import pytest
import torch
from torch import nn

from inid.errors import GuaranteeError
from training import private, sums, train_once

X = torch.randn(8, 6, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def new_buffer(model, x):
    model.layer.register_buffer("seen", x.mean(0))


def in_place(model, x):
    model.seen += x.sum(0)


def put_another(model, x):
    model.seen = x.sum(0)


def frozen_parameter(model, x):
    model.held.weight.add_(x.mean())


def trained_parameter(model, x):
    model.layer.bias.copy_(x.mean().expand(3))


class Writing(nn.Module):
    def __init__(self, write):
        super().__init__()
        self.write, self.layer, self.held = write, nn.Linear(6, 3).double(), nn.Linear(1, 1).double()
        self.held.requires_grad_(False)
        self.register_buffer("seen", torch.zeros(6, dtype=torch.float64))

    def forward(self, x):
        with torch.no_grad():
            self.write(self, x)
        return self.layer(x)


@pytest.mark.parametrize("write", [new_buffer, in_place, put_another, frozen_parameter, trained_parameter])
def test_a_forward_that_writes_state_is_refused(write):
    with pytest.raises(
        GuaranteeError, match=r"changed one of its buffers or parameters|'seen' .* differs for other made-up examples"
    ):
        sums(Writing(write), X)


def test_state_that_stays_is_fine_and_between_forwards_it_is_the_users():
    training = private(Writing(lambda model, x: None), X)
    for _ in range(3):
        train_once(training)
        training.module.seen += 1


# Interrupts, copies, evaluation.
