"""On a GPU: layers that are clipped together give the sums that they give one by one, and keep to their thresholds."""

import pytest
import torch
from torch import nn

from attack.test_clipped_sums import added, assert_within, limits_of
from internals import module_with
from needs import needs
from training import private, squares
from unit.dpsgd.grad_sample.test_stacked_layers import built

row_kernels = module_with("inid.dpsgd.kernels", "convolution_grad_samples")
fused_layers = module_with("inid.dpsgd.grad_sample", "ghost_grads")
gathered_rows = module_with("inid.dpsgd", "GradAccumulator")


@pytest.fixture(autouse=True)
def gpu():
    needs("gpu")


def sums_of(name, clipping, *, narrow, rows=slice(None), factor=1.0):
    model, x = built(name, torch.float32)
    training = private(model.cuda(), x[rows].cuda(), max_grad_norm=0.3, clipping=clipping)
    with torch.autocast("cuda", dtype=torch.bfloat16, enabled=narrow):
        return training, added(training, lambda output: squares(output).float() * factor).cpu()


@pytest.mark.parametrize("narrow", [True, False])
@pytest.mark.parametrize("clipping", ["global", "per_layer"])
@pytest.mark.parametrize("name", ["blocks", "pictures"])
def test_sums_are_those_of_one_layer_after_another(name, clipping, narrow, monkeypatch):
    monkeypatch.setattr(fused_layers, "_FEW", 0)
    _, together = sums_of(name, clipping, narrow=narrow)
    monkeypatch.setattr(gathered_rows, "room", lambda _device: 0)
    _, apart = sums_of(name, clipping, narrow=narrow)
    assert torch.allclose(together, apart, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("factor", [1e30, float("inf"), float("nan"), 1.0])
@pytest.mark.parametrize("narrow", [True, False])
@pytest.mark.parametrize("clipping", ["global", "per_layer"])
@pytest.mark.parametrize("name", ["blocks", "pictures"])
def test_one_example_stays_within_the_plan(name, clipping, narrow, factor, monkeypatch):
    monkeypatch.setattr(fused_layers, "_FEW", 0)
    training, found = sums_of(name, clipping, narrow=narrow, rows=slice(0, 1), factor=factor)
    assert_within(found, limits_of(training))


@pytest.mark.parametrize("shape", [(3, 7, 20), (1, 1, 5), (2, 300, 768), (70, 33, 64)])
def test_rows_of_a_layer_normalisation_are_those_of_the_formula(shape):
    torch.manual_seed(0)
    x, g = torch.randn(shape, device="cuda") * 3 + 1, torch.randn(shape, device="cuda")
    weight, bias = row_kernels.layer_norm_grad_samples(x, g, shape[-1], 1e-5)
    normalised = nn.functional.layer_norm(x.double(), shape[-1:])
    assert torch.allclose(weight.double(), (g * normalised).sum(1), atol=1e-3)
    assert torch.allclose(bias.double(), g.double().sum(1), atol=1e-3)
