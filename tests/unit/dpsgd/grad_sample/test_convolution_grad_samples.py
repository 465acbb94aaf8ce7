"""Rows of convolutions against autograd, example by example (oracle), and rows that are written in slices."""

import itertools

import pytest
import torch
from torch import nn

from inid.dpsgd.grad_sample import DenseGrads, SlicedGrads, convolution
from internals import module_with

clipped_sums = module_with("inid.dpsgd.grad_sample", "Rule")
under_test = module_with("inid.dpsgd.grad_sample", "convolution_grad_samples")

KERNELS, STRIDES, DILATIONS = ((1, 1), (3, 2), (4, 4), (8, 3)), ((1, 1), (2, 2), (3, 1)), ((1, 1), (2, 1))


def _alone(layer: nn.Module, inputs: torch.Tensor, gradients: torch.Tensor) -> torch.Tensor:
    each = [
        torch.autograd.grad(layer(one[None]), layer.weight, back[None])[0].flatten()
        for one, back in zip(inputs, gradients, strict=True)
    ]
    return torch.stack(each)


@pytest.mark.parametrize("kernel", KERNELS)
def test_rows_are_those_of_autograd(kernel: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Oracle: each example alone, for every stride and dilation, in and out of order in memory, by a few at a time."""
    torch.manual_seed(3)
    settings = itertools.product(STRIDES, DILATIONS, (1, 2), (0, 2))
    for at, (stride, dilation, groups, padding) in enumerate(settings):
        monkeypatch.setattr(under_test, "_AT_A_TIME", (1, 3000, 2**18)[at % 3])
        layer = nn.Conv2d(2 * groups, 3 * groups, kernel, stride, padding, dilation, groups).double()
        inputs = torch.randn(5, 2 * groups, 18, 11, dtype=torch.float64)
        if at % 5 < 2:
            inputs = inputs.contiguous(memory_format=torch.channels_last)
        gradients = torch.randn_like(layer(inputs))
        with torch.no_grad():
            rows = convolution(layer, inputs, gradients)["weight"]
        expected = _alone(layer, inputs, gradients)
        torch.testing.assert_close(rows.dense(), expected)
        factors = torch.rand(5, dtype=torch.float64)
        torch.testing.assert_close(rows.combined(factors), factors @ expected)
        torch.testing.assert_close(rows.powers(2), expected.square().sum(1))
        torch.testing.assert_close(rows.finite().dense(), expected)


def test_a_row_of_three_strides_reads_no_line_of_another_example() -> None:
    """Attack: numbers of one example are huge; rows of the others stay what they are to the bit."""
    layer = nn.Conv2d(1, 2, 5, 3)
    torch.manual_seed(0)
    inputs = torch.randn(4, 1, 14, 14)
    gradients = torch.randn_like(layer(inputs)).detach()
    before = convolution(layer, inputs, gradients)["weight"].dense()
    inputs[2] = 1e30
    after = convolution(layer, inputs, gradients)["weight"].dense()
    assert torch.equal(before[[0, 1, 3]], after[[0, 1, 3]])
    assert not torch.equal(before[2], after[2])


def test_sliced_rows_answer_as_rows_written_in_order() -> None:
    """Property: the same numbers in another order have the same lengths and sums, rounded and exact."""
    torch.manual_seed(1)
    rows = torch.randn(6, 4, 3, 2)  # a parameter of 4 x 3 x 2, written by its second axis first
    plain = DenseGrads(rows.flatten(1))
    sliced = SlicedGrads(rows.permute(2, 0, 3, 1).reshape(3, 6, 8), (2, 4), (2, 0, 1))
    assert torch.equal(sliced.dense(), plain.dense())
    for order in (1, 2):
        torch.testing.assert_close(sliced.powers(order), plain.powers(order), rtol=1e-6, atol=0.0)
    for factors in (torch.rand(6), torch.rand(6, dtype=torch.float64)):
        torch.testing.assert_close(sliced.combined(factors), plain.combined(factors))
    rule = clipped_sums.Rule(norm=2, thresholds=[1.0], margin=0.0, quanta=[2.0**-20])
    exact = []
    for own in (sliced, plain):
        sums = clipped_sums.Sums([[24]], torch.float64, torch.device("cpu"))
        sums.add_group(0, [own], 1.0, rule)
        exact.append(sums.flat * 2.0**20)
    assert torch.equal(exact[0], exact[0].round())
    torch.testing.assert_close(*exact, rtol=0.0, atol=6.0)  # in quanta: lengths may differ in their last digits
    assert exact[0].abs().max() > 1000
    sliced.slices[1, 2, 5] = torch.inf
    assert sliced.powers(2).isfinite().tolist() == [True, True, False, True, True, True]
    assert sliced.finite().dense()[2].count_nonzero() == 23
