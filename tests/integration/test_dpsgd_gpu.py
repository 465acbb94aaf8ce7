"""On a GPU: the kernels against the same in float64 on the CPU, and clipped sums against those of the CPU."""

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from inid import dpsgd
from inid.dpsgd.grad_sample import convolution_grad_samples
from internals import module_with
from needs import needs
from training import Picked, groups_of, slow_sums, sums

row_kernels = module_with("inid.dpsgd.kernels", "convolution_grad_samples")

# examples, channels, outputs, side of the padded input, kernel, stride, dilation, groups
CONVOLUTIONS = [
    (5, 3, 16, 32, (3, 3), (1, 1), (1, 1), 1),
    (7, 16, 32, 32, (3, 3), (2, 2), (1, 1), 1),
    (3, 128, 80, 9, (1, 5), (1, 2), (2, 1), 2),
    (2, 24, 12, 10, (3, 2), (2, 1), (1, 2), 3),
]


@pytest.fixture(autouse=True)
def gpu():
    needs("gpu")


def planes_of(case, dtype):
    """The padded input of a convolution and the gradient of its output, at random, and how they meet."""
    count, channels, outputs, side, kernel, stride, dilation, groups = case
    high, wide = ((side - d * (k - 1) - 1) // s + 1 for k, s, d in zip(kernel, stride, dilation, strict=True))
    draw = torch.Generator("cuda").manual_seed(1)
    padded = torch.randn(count, channels, side, side, device="cuda", generator=draw).to(dtype)
    planes = torch.randn(count, outputs, high, wide, device="cuda", generator=draw).to(dtype)
    return padded, planes, (kernel, stride, dilation, groups)


@pytest.mark.parametrize("case", CONVOLUTIONS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_rows_of_convolutions(case, dtype):
    padded, planes, how = planes_of(case, dtype)
    made, squares = row_kernels.convolution_grad_samples(padded, planes, *how)
    slow = convolution_grad_samples(padded.double().cpu(), planes.double().cpu(), *how).dense()
    assert (made.double().cpu() - slow).abs().max() <= 1e-5 * slow.abs().max()
    assert torch.allclose(squares, made.double().square().sum(1), rtol=1e-14, atol=0)


@pytest.mark.parametrize("case", CONVOLUTIONS)
def test_what_is_not_finite_is_left_out_of_rows_and_norms(case):
    padded, planes, how = planes_of(case, torch.float32)
    whole, _ = row_kernels.convolution_grad_samples(padded, planes, *how)
    padded[0, 0, 1, 1] = torch.inf
    planes[1, 0, 0, 0] = torch.nan
    made, squares = row_kernels.convolution_grad_samples(padded, planes, *how)
    assert made.isfinite().all()
    assert (made[:2] == 0).any(1).all()
    assert torch.equal(made[2:], whole[2:])
    assert torch.allclose(squares, made.double().square().sum(1), rtol=1e-14, atol=0)


@pytest.mark.parametrize(("count", "size"), [(1, 1), (5, 7), (33, 128), (1000, 2304), (300, 36_864)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_sums_of_rows(count, size, dtype):
    draw = torch.Generator("cuda").manual_seed(4)
    rows = torch.randn(count, size, device="cuda", generator=draw).to(dtype)
    factors = torch.rand(count, device="cuda", generator=draw)
    wide = rows.double()
    slow = (wide * factors.double()[:, None]).sum(0)
    assert (row_kernels.weighted_sum(rows, factors) - slow).abs().max() <= 1e-5 * slow.abs().max()
    slow = (3 * wide).clamp(-0.5, 0.5).sum(0)
    assert (row_kernels.elementwise_clipped_sum(rows, 3.0, 0.5) - slow).abs().max() <= 1e-5 * slow.abs().max()


@pytest.mark.parametrize("precision", ["highest", "high", "medium"])
def test_sums_do_not_round_what_they_multiply(precision):
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(precision)
    try:
        one = torch.full((1, 64), 1 + 2.0**-20, device="cuda")
        assert torch.equal(row_kernels.weighted_sum(one, torch.ones(1, device="cuda")), one[0])
    finally:
        torch.set_float32_matmul_precision(before)


@pytest.mark.parametrize(("shape", "groups"), [((5, 16, 1024), 8), ((3, 30, 77), 5), ((2, 32, 256), 8)])
def test_rows_of_group_norm(shape, groups):
    draw = torch.Generator("cuda").manual_seed(2)
    inputs = 3 * torch.randn(shape, device="cuda", generator=draw) + 5
    gradients = torch.randn(shape, device="cuda", generator=draw)
    weight, bias = (
        rows.double().cpu() for rows in row_kernels.group_norm_grad_samples(inputs, gradients, groups, 1e-5)
    )
    back = gradients.double().cpu()
    slow = (back * nn.functional.group_norm(inputs.double().cpu(), groups, eps=1e-5)).sum(2)
    assert (weight - slow).abs().max() <= 1e-5 * slow.abs().max()
    assert (bias - back.sum(2)).abs().max() <= 1e-5 * back.sum(2).abs().max()


@pytest.mark.parametrize("options", [{}, {"clipping": "global"}, {"clipping": "elementwise"}, {"total": 0.5}])
def test_clipped_sums(options):
    torch.manual_seed(3)
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1),
        nn.GroupNorm(2, 8),
        nn.ReLU(),
        nn.Conv2d(8, 4, 3, stride=2),
        nn.Flatten(),
        nn.Linear(36, 5),
    )
    x = torch.randn(6, 3, 8, 8)
    clipping = options.get("clipping", "per_layer")
    groups = groups_of(model, clipping)
    thresholds = [0.3 + 0.1 * at for at in range(len(groups))]
    found = sums(model.cuda(), x.cuda(), max_grad_norm=thresholds, **options)
    slow = slow_sums(model.cpu(), x, thresholds, groups=groups, clipping=clipping, total=options.get("total"))
    for name, wanted in slow.items():
        assert (found[name].double().cpu() - wanted).abs().max() <= 1e-4 * wanted.abs().max()


@pytest.mark.parametrize("precision", ["highest", "high"])
def test_examples_are_found_apart_where_convolutions_round_their_arguments(precision):
    """Convolutions choose their kernels by the size of the batch, and round to TF32: neither is taken for mixing."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(precision)
    try:
        blocks = [nn.Conv2d(3, 16, 3, padding=1), nn.GroupNorm(8, 16), nn.ReLU()]
        for _ in range(8):
            blocks += [nn.Conv2d(16, 16, 3, padding=1, bias=False), nn.GroupNorm(8, 16), nn.ReLU()]
        net = nn.Sequential(*blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10)).cuda()
        images, labels = torch.randn(64, 3, 32, 32, device="cuda"), torch.randint(0, 10, (64,), device="cuda")
        made = dpsgd.make_private(
            module=net,
            optimizer=torch.optim.SGD(net.parameters(), lr=0.1),
            data_loader=DataLoader(TensorDataset(images, labels), batch_size=16),
            noise_multiplier=1.0,
            max_grad_norm=1.0,
        )
        for x, y in made.data_loader:
            made.optimizer.zero_grad()
            made.backward(nn.functional.cross_entropy, made.module(x), y)
            made.optimizer.step()
        assert made.accountant.steps == 4
    finally:
        torch.set_float32_matmul_precision(before)


@pytest.mark.parametrize(("count", "size"), [(1, 1), (5, 7), (33, 128), (1000, 2304), (8, 300_001), (3000, 40)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_norms_and_added_sums_leave_out_what_is_not_finite(count, size, dtype):
    draw = torch.Generator("cuda").manual_seed(5)
    rows = torch.randn(count, size, device="cuda", generator=draw).to(dtype)
    rows[0, 0], rows[-1, -1] = torch.nan, torch.inf
    wide = torch.nan_to_num(rows.double(), nan=0.0, posinf=0.0, neginf=0.0)
    assert torch.allclose(row_kernels.square_sums(rows).sum(1), wide.square().sum(1), rtol=1e-13, atol=0)
    factors = torch.rand(count, device="cuda", generator=draw)
    place = torch.ones(size, device="cuda")
    row_kernels.add_weighted_sum(place, rows, factors, 0.25)
    slow = 1 + 0.25 * (wide * factors.double()[:, None]).sum(0)
    assert (place - slow).abs().max() <= 1e-5 * slow.abs().max()


def test_shares_are_those_of_the_cpu():
    """Two tables of squares, an allowance, padding, and norms that are infinite, absurd or tiny."""
    squares = torch.tensor([4.0, 0.0, 1e-30, torch.inf, 1e60, 9.0], device="cuda", dtype=torch.float64)[:, None]
    more = torch.tensor([[5.0, 0.0]] * 6, device="cuda", dtype=torch.float64)
    whole = torch.tensor([1.0, 0.0, 0.0, 1.0, 1.0, 1.0], device="cuda", dtype=torch.float64)
    padding = torch.tensor([False] * 5 + [True], device="cuda")
    norms, shares = row_kernels.norms_and_shares([squares, more], whole, 0.5, 3.2, 2.0**-80 / 3.2, padding)
    wanted = (squares[:, 0] + 5).sqrt() + 0.5 * whole
    assert torch.allclose(norms, wanted, rtol=1e-6)
    assert bool((norms >= wanted).all())
    assert torch.allclose(shares.cpu(), torch.tensor([1 / 3.5, 1 / 3.2, 1 / 3.2, 0.0, 0.0, 0.0]), rtol=1e-6)


@pytest.mark.parametrize("bf16", [False, True])
@pytest.mark.parametrize("made", ["attention", "encoder"])
def test_attention_of_torch_is_that_of_a_slow_loop(made, bf16):
    """Inside vmap torch's attention for GPUs does not keep what the backward needs.

    The loop computes in the same precision: in bfloat16 a ReLU may decide otherwise than in float32, and does here.
    """
    torch.manual_seed(6)
    options = {"batch_first": True, "dropout": 0.0}
    if made == "encoder":
        model = nn.Sequential(nn.TransformerEncoderLayer(16, 4, 32, **options), nn.Flatten(), nn.Linear(96, 3))
    else:
        model = nn.Sequential(Picked(nn.MultiheadAttention(16, 4, **options), three_times=True), nn.Flatten())
    x, groups = torch.randn(6, 6, 16), groups_of(model)
    with torch.autocast("cuda", dtype=torch.bfloat16, enabled=bf16):
        found = sums(model.cuda(), x.cuda(), max_grad_norm=[0.4] * len(groups))
        slow = slow_sums(model.cuda(), x.cuda(), [0.4] * len(groups), groups=groups)
    for name, wanted in slow.items():
        assert (found[name].double() - wanted).abs().max() <= (0.04 if bf16 else 1e-4) * wanted.abs().max()


def test_steps_with_a_gpu_as_the_default_device():
    before = torch.get_default_device()
    torch.set_default_device("cuda")
    try:
        net, x = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3)), torch.randn(12, 4)
        assert all(each.is_cuda for each in sums(net, x, batch_size=4).values())
    finally:
        torch.set_default_device(before)
