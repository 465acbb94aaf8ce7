"""The GPU's kernels and their twins in plain torch calls: the same numbers, within the same bounds."""

import pytest
import torch

from inid.dpsgd.kernels import absolute_sum, add_products, chunked, direct_bound, folded, gram_bound, weighted_product
from internals import module_with
from needs import needs

fused_kernels = module_with("inid.dpsgd.kernels", "gram")


@pytest.fixture(autouse=True)
def gpu():
    needs("gpu")


SHAPES = [(3, 128, 768, 3072), (2, 70, 100, 300), (1, 5, 20, 7), (2, 257, 768, 5025), (130, 64, 64, 50)]


def made(shape, *, cancel):
    count, positions, met, back = shape
    torch.manual_seed(7)
    a = torch.randn(count, positions, met, device="cuda").bfloat16()
    g = torch.randn(count, positions, back, device="cuda").bfloat16()
    if cancel:
        a[:], g[:, 1::2] = a[:, :1], -g[:, : 2 * (positions // 2) : 2][:, : g[:, 1::2].shape[1]]
    return a, g


@pytest.mark.parametrize("cancel", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
def test_norms_are_within_the_bounds(shape, cancel):
    a, g = made(shape, cancel=cancel)
    assert fused_kernels.usable(a, g)
    square, whole = fused_kernels.gram(a, g, 2.0**60)
    true = torch.stack([(back.double().T @ met.double()).square().sum() for met, back in zip(a, g, strict=True)])
    exact = (a.double().norm(dim=2) * g.double().norm(dim=2)).sum(1)
    x, y = (chunked(size, fused_kernels.CHUNK, between=2.0**-24) for size in shape[2:])
    assert bool((square >= true).all())
    assert bool((square - true <= 2.01 * (x + y + x * y) * exact.square()).all())
    assert bool((whole >= exact).all())
    assert bool((whole <= absolute_sum(a, g) * 1.001).all())
    twin, _ = gram_bound(a.cpu(), g.cpu())
    assert bool((twin.cuda() >= true).all())


def test_what_is_not_finite_or_too_long_is_infinite():
    a, g = made((4, 70, 100, 300), cancel=False)
    a[1, 69, 99], g[2, 0, 0], a[3, 5, 5] = float("nan"), float("inf"), 2.0**61
    bound, whole = gram_bound(a, g)
    assert torch.isinf(bound).tolist() == torch.isinf(whole).tolist() == [False, True, True, True]


@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float32])
@pytest.mark.parametrize("shape", SHAPES)
def test_folding_is_the_twin_to_the_last_bit(shape, kind):
    _, g = made(shape, cancel=False)
    g = g.to(kind)
    factors = torch.rand(shape[0], device="cuda")
    factors[0] = 0.0
    g[0, 0, 0] = float("nan")
    for scaled in (True, False):
        assert torch.equal(folded(g, factors, scaled=scaled).cpu(), folded(g.cpu(), factors.cpu(), scaled=scaled))


def test_sums_are_the_twins():
    a, g = made((6, 128, 96, 1001), cancel=False)
    factors = torch.rand(6, device="cuda") / 1000
    wanted = weighted_product(a.cpu().double(), g.cpu().double(), factors.cpu().double())
    found = weighted_product(a, g, factors)
    assert found.dtype == torch.float32
    assert float((found.cpu() - wanted).norm() / wanted.norm()) < 4e-3


@pytest.mark.parametrize("cancel", [False, True])
@pytest.mark.parametrize("shape", [*SHAPES, (2, 1000, 200, 130)])
def test_direct_norms_are_within_the_bounds(shape, cancel):
    a, g = made(shape, cancel=cancel)
    square, whole, gamma = direct_bound(a, g)
    true = torch.stack([(back.double().T @ met.double()).norm() for met, back in zip(a, g, strict=True)])
    exact = (a.double().norm(dim=2) * g.double().norm(dim=2)).sum(1)
    assert bool((square.sqrt() + gamma * whole >= true).all())
    assert bool((square.sqrt() - true <= gamma * whole + 1e-5 * true).all())
    assert bool((whole >= exact).all())
    assert bool((whole <= absolute_sum(a, g) * 1.001).all())
    twin, sizes, same = direct_bound(a.cpu(), g.cpu())
    assert same == gamma
    assert bool((twin.cuda().sqrt() + gamma * sizes.cuda() >= true).all())


def test_direct_norms_of_what_is_not_finite_or_too_long_are_infinite():
    a, g = made((4, 70, 100, 300), cancel=False)
    a[1, 69, 99], g[2, 0, 0], a[3, 5, 5] = float("nan"), float("inf"), 2.0**61
    bound, whole, _ = direct_bound(a, g)
    assert torch.isinf(bound).tolist() == torch.isinf(whole).tolist() == [False, True, True, True]


@pytest.mark.parametrize("shape", SHAPES)
def test_sums_are_added_to_what_stands_there(shape):
    a, g = made(shape, cancel=False)
    g[0, 0, 0] = float("nan")
    factors = torch.rand(shape[0], device="cuda") / 1000
    factors[0] = 0.0
    place = torch.ones(shape[2] * shape[3], device="cuda")
    assert add_products([place], a, g, factors, 0.5)
    wanted = 1 + 0.5 * weighted_product(a, g, factors)
    assert bool(place.isfinite().all())
    assert float((place - wanted).abs().max()) <= 1e-5 * float((wanted - 1).abs().max()) + 2.0**-22
