"""Correlated noise on a GPU: rows that follow one another, also under fast products, and recorded steps."""

import numpy as np
import pytest
import torch
from scipy.linalg import toeplitz
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from correlated_runs import ONE
from inid import dpsgd
from inid.dpsgd.noise import CorrelatedNoise, Recipe
from internals import module_with
from needs import needs

row_kernels = module_with("inid.dpsgd.kernels", "convolution_grad_samples")
correlated_noise = module_with("inid.dpsgd.noise", "RunNoise")

BANDS, STEPS, SIZE = 6, 20, 100_003


@pytest.fixture(autouse=True)
def gpu():
    needs("gpu")


@pytest.mark.parametrize("precision", ["highest", "high", "medium"])
def test_rows_are_the_inverse_of_the_strategy_whatever_products_are_rounded_to(precision, monkeypatch):
    """Within a millionth of the noise: float32 rounds to 6e-8, TF32 to 5e-4."""
    fresh = torch.randn(STEPS, SIZE, device="cuda")
    left = iter(fresh)
    monkeypatch.setattr(correlated_noise, "standard_noise", lambda like, _: next(left).clone())
    c = dpsgd.Banded(BANDS).coefficients(STEPS)
    noise = CorrelatedNoise(c)
    plan = Recipe("global", (SIZE,), "gaussian", "optimal", None, ONE.level).plan([1.0])
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(precision)
    try:
        zero = torch.zeros(SIZE, device="cuda")
        found = torch.stack([noise.noisy(zero, plan, None, (0, t)) for t in range(STEPS)])
    finally:
        torch.set_float32_matmul_precision(before)
    matrix = toeplitz(np.concatenate([c, np.zeros(STEPS - BANDS)]), np.zeros(STEPS))
    wanted = np.linalg.solve(matrix, fresh.double().cpu().numpy())
    assert np.abs(found.double().cpu().numpy() - wanted).max() < 5e-6 * np.abs(wanted).max()


def own_loss(row):
    return row.square().mean()


@pytest.mark.parametrize("recorded", [False, True])
def test_a_run_on_a_gpu_takes_all_its_turns(recorded):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(20, 30), nn.ReLU(), nn.Linear(30, 2)).cuda()
    data = TensorDataset(torch.randn(480, 20).cuda())
    training = dpsgd.make_private(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        data_loader=DataLoader(data, batch_size=8),
        noise_multiplier=1.0,
        steps=60,
        clipping="per_layer",
        correlation=dpsgd.Banded(BANDS),
    )
    backward = dpsgd.captured_backward(training, lambda x: training.loss(own_loss, training.module(x)))
    released = []
    for (x,) in training.data_loader:
        training.optimizer.zero_grad()
        if recorded:
            backward(x)
        else:
            training.backward(own_loss, training.module(x))
        training.optimizer.step()
        released.append(torch.cat([p.grad.flatten() for p in model.parameters()]))
    assert training.optimizer._correlated.schedule.next == 60
    assert training.accountant.steps == 10
    assert len({float(each[0]) for each in released}) == 60
    assert all(bool(each.isfinite().all()) for each in released)


@pytest.mark.parametrize("size", [1, 1023, 100_003, 2**31 // 15 + 7])
def test_one_kernel_mixes_the_rows(size):
    """Against products in float64, at both ends; in all the places of the last case, entries are past 2^31."""
    rows = torch.randn(15, size, device="cuda")
    fresh, weights, before = torch.randn(size, device="cuda"), torch.randn(15, device="cuda"), rows[:, -1000:].clone()
    ends = [slice(1000), slice(-1000, None)]
    wanted = [0.7 * fresh[at].double() + rows[:, at].double().T @ weights.double() for at in ends]
    assert row_kernels.mixed(fresh, rows, weights, 0.7, 14)
    for at, own in zip(ends, wanted, strict=True):
        assert (fresh[at].double() - own).abs().max() < 1e-5
        assert torch.equal(rows[14, at], fresh[at])
    assert torch.equal(rows[:14, -1000:], before[:14])
