"""On a GPU: adversarial gradients stay within their threshold as the kernels add them, and sums are those of a CPU."""

import pytest
import torch

from attack.test_ghost_rounding import CASES, THRESHOLD
from inid.dpsgd.grad_sample import DenseGrads, OuterGrads, PositionGrads, Rule, Sums
from inid.dpsgd.kernels import direct_bound, gram_bound
from internals import module_with
from needs import needs

fused_kernels = module_with("inid.dpsgd.kernels", "gram")
fused_positions = module_with("inid.dpsgd.grad_sample", "Measured")

MARGIN = 2.0**-18


@pytest.fixture(autouse=True)
def gpu():
    needs("gpu")


def added(groups, sizes, device, examples=None):
    """The sums of groups of rows, of which the first `examples` are no padding."""
    sums = Sums(sizes, torch.float32, torch.device(device))
    if examples is not None:
        sums.begin(torch.arange(len(groups[0][0].dense())) < examples)
    for at, rows in enumerate(groups):
        sums.add_group(at, rows, 37.0, Rule(2, [THRESHOLD] * len(groups), MARGIN))
    return sums.flat.double()


@pytest.mark.parametrize("way", ["gram", "direct"])
@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float32])
@pytest.mark.parametrize("case", CASES)
def test_one_example_at_a_time_stays_within_its_threshold(case, kind, way, monkeypatch):
    if way == "direct":
        monkeypatch.setattr(fused_positions, "gram_bound", by_the_direct_product)
    else:
        monkeypatch.setattr(fused_positions, "direct_bound", lambda a, g: (*gram_bound(a, g), 0.0))
    g, a = (each.cuda() for each in case(kind))
    sizes = [[g.shape[2] * a.shape[2], g.shape[2]]]
    for at in range(0, len(g), max(1, len(g) // 12)):
        own = slice(at, at + 1)
        bias = DenseGrads(g[own].sum(1, dtype=torch.float32))
        found = added([[PositionGrads(g[own], a[own]), bias]], sizes, "cuda")
        assert bool(found.isfinite().all())
        assert float(torch.linalg.vector_norm(found)) <= THRESHOLD


def by_the_direct_product(a, g):
    """A bound on the squared norm and S, as Gram products give them."""
    square, whole, gamma = direct_bound(a, g)
    return (square.sqrt() + gamma * whole).square(), whole


def test_a_direct_norm_without_its_allowance_would_be_too_short():
    """Many small terms between two large ones that cancel: the accumulator has lost them."""
    g, a = (torch.ones(1, 4096, 64, dtype=torch.bfloat16, device="cuda") for _ in range(2))
    g[0, 0], g[0, -1] = 2.0**26, -(2.0**26)
    assert fused_kernels.usable(a, g)
    square, whole, gamma = direct_bound(a, g)
    true = float(torch.linalg.vector_norm(g[0].double().T @ a[0].double()))
    assert float(square.sqrt()) < 0.9 * true
    assert float(square.sqrt() + gamma * whole) >= true


@pytest.mark.parametrize("examples", [None, 7])
def test_groups_of_all_forms_are_those_of_a_cpu(examples):
    draw = torch.Generator().manual_seed(8)

    def some(*shape):
        return torch.randn(shape, generator=draw) * 10.0 ** torch.randint(-2, 3, (shape[0], *[1] * (len(shape) - 1)))

    g, a, bias, single, gradient, met = some(9, 5, 6), some(9, 5, 7), some(9, 6), some(9, 40), some(9, 4), some(9, 3)
    bias[2, 1], single[3, 5], gradient[4, 0], g[5, 1, 1] = torch.nan, torch.inf, torch.nan, torch.inf
    sizes = [[42, 6], [40], [12, 40]]

    def groups(device):
        b, s, o, m = (each.to(device) for each in (bias, single, gradient, met))
        return [
            [PositionGrads(g.to(device), a.to(device)), DenseGrads(b)],
            [DenseGrads(s)],
            [OuterGrads(o, m), DenseGrads(s)],
        ]

    wanted, found = (added(groups(device), sizes, device, examples).cpu() for device in ("cpu", "cuda"))
    assert torch.allclose(found, wanted, rtol=1e-5, atol=1e-6)
