"""Adam with its second moment corrected for noise: the recursion by hand, its limits, and what it is told."""

import copy
import math

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from inid import dpsgd
from inid.errors import ArgumentError
from training import make_private

DRAW = torch.Generator().manual_seed(3)
X = torch.randn(16, 4, generator=DRAW, dtype=torch.float64)


def by_hand(start, gradients, variances, *, lr, betas, floor, eps, weight_decay):
    """The recursion, with sums written out."""
    one, two, at = *betas, start.clone()
    for t in range(1, len(gradients) + 1):
        past = list(zip(range(t), gradients, variances, strict=False))
        mean = sum(one ** (t - 1 - i) * g for i, g, _ in past) * (1 - one) / (1 - one**t)
        weights = [two ** (t - 1 - i) * (1 - two) / (1 - two**t) for i, _, _ in past]
        square = sum(w * g**2 for w, (_, g, _) in zip(weights, past, strict=True))
        noise = sum(w * v for w, (_, _, v) in zip(weights, past, strict=True))
        deviation = math.sqrt(2 * sum(w**2 for w in weights)) * noise
        second = torch.maximum(square - noise, torch.tensor(floor * deviation))
        at = at * (1 - lr * weight_decay) - lr * mean / (second.sqrt() + eps)
    return at


@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
@pytest.mark.parametrize("variances", [[0.0] * 5, [0.3] * 5, [0.1, 0.2, 0.3, 0.2, 0.1]], ids=str)
def test_it_is_the_recursion(variances, weight_decay):
    settings = {"lr": 0.1, "betas": (0.8, 0.95), "floor": 1.5, "eps": 1e-8, "weight_decay": weight_decay}
    start = torch.randn(7, generator=DRAW, dtype=torch.float64)
    gradients = [torch.randn(7, generator=DRAW, dtype=torch.float64) for _ in variances]
    parameter = nn.Parameter(start.clone())
    optimizer = dpsgd.AdamBC([parameter], **settings)
    for gradient, variance in zip(gradients, variances, strict=True):
        parameter.grad, optimizer.variances = gradient, {parameter: variance}
        optimizer.step()
    assert torch.allclose(parameter.detach(), by_hand(start, gradients, variances, **settings), rtol=1e-12)


def test_without_noise_it_is_adam():
    ours, theirs = (nn.Parameter(torch.ones(5, dtype=torch.float64)) for _ in range(2))
    pair = dpsgd.AdamBC([ours], lr=0.1, weight_decay=0.1), torch.optim.AdamW([theirs], lr=0.1, weight_decay=0.1)
    for _ in range(9):
        ours.grad = theirs.grad = torch.randn(5, generator=DRAW, dtype=torch.float64)
        for optimizer in pair:
            optimizer.step()
    assert torch.allclose(ours, theirs, rtol=1e-12)


def private(batch_size=16, **options):
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 2)).double()
    return make_private(
        module=model,
        optimizer=dpsgd.AdamBC(model.parameters(), lr=0.0),
        data_loader=DataLoader(TensorDataset(X), batch_size=batch_size),
        **{"noise_multiplier": 2.0} | options,
    )


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"clipping": "per_layer"},
        {"clipping": "elementwise"},
        {"mechanism": "laplace"},
        {"noise": "exact"},
        {"loss_reduction": "sum"},
        {"clipping": "per_layer", "thresholds": "adaptive", "max_grad_norm": 5.0},
    ],
    ids=str,
)
def test_it_is_told_the_variance_of_the_noise_that_a_step_had(options):
    """Of a loss of 0 the gradients are noise alone; the sums of their squares are as long as was said."""
    training = private(**options)
    squares = count = 0.0
    for _ in range(60):
        for (x,) in training.data_loader:
            training.optimizer.zero_grad()
            training.backward(lambda row: row.sum() * 0, training.module(x))
            training.optimizer.step()
        for parameter, variance in training.optimizer.original.variances.items():
            squares += float(parameter.grad.square().sum()) / variance
            count += parameter.numel()
    # The variance of a square, relative to the mean's own square, is 2 for normal and 5 for Laplace noise.
    assert abs(squares / count - 1) < 6 * math.sqrt(5 / count)


def test_it_is_told_of_thresholds_before_they_move():
    training = private(clipping="per_layer", thresholds="adaptive", max_grad_norm=5.0)
    before = training.optimizer.plan.runs[0][0] / 16
    for (x,) in training.data_loader:
        training.backward(lambda row: row.sum(), training.module(x))
        training.optimizer.step()
    assert training.optimizer.plan.runs[0][0] / 16 != before
    assert math.isclose(training.optimizer.original.variances[training.module[0].weight], before**2)


def test_a_checkpoint_goes_on():
    parameter = nn.Parameter(torch.ones(3))
    optimizer = dpsgd.AdamBC([parameter], lr=0.1)
    for _ in range(3):
        parameter.grad, optimizer.variances = torch.randn(3, generator=DRAW), {parameter: 0.2}
        optimizer.step()
    other = nn.Parameter(parameter.detach().clone())
    resumed = dpsgd.AdamBC([other], lr=0.1)
    resumed.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    other.grad = parameter.grad = torch.randn(3, generator=DRAW)
    resumed.variances = {other: 0.2}
    optimizer.step()
    resumed.step()
    assert torch.equal(parameter, other)


def test_noise_that_is_correlated_is_refused():
    with pytest.raises(ArgumentError, match="leave correlation out"):
        private(correlation=dpsgd.Banded(bands=2), steps=4, batch_size=4)


@pytest.mark.parametrize(
    "settings",
    [{"lr": -1.0}, {"betas": (0.9, 1.0)}, {"betas": (-0.1, 0.9)}, {"floor": float("nan")}, {"eps": -1e-8}],
    ids=str,
)
def test_settings_that_cannot_be_meant_are_refused(settings):
    with pytest.raises(ArgumentError):
        dpsgd.AdamBC([nn.Parameter(torch.ones(1))], **settings)
