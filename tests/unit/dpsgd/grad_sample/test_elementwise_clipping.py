"""Sums of held entries are those of a loop over examples and entries, and only blocks of rows are written down."""

from fractions import Fraction
from types import SimpleNamespace

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from inid.dpsgd.grad_sample import (
    DenseGrads,
    EmbeddingGrads,
    OuterGrads,
    SlicedGrads,
    elementwise_clipped_sum,
    truncated_,
)
from internals import module_with

held_sums = module_with("inid.dpsgd.grad_sample", "elementwise_clipped_sum")

EXAMPLES, MADE, MET = 11, 7, 5


def rows_of(kind, dtype, seed=0):
    torch.manual_seed(seed)
    gradients, inputs = torch.randn(EXAMPLES, MADE, dtype=dtype), torch.randn(EXAMPLES, MET, dtype=dtype)
    if kind == "outer":
        return OuterGrads(gradients, inputs)
    if kind == "spread":
        return EmbeddingGrads.of_tokens(
            torch.randint(0, MET, (EXAMPLES, 4)), gradients[:, None].repeat(1, 4, 1), MET, 2
        )
    if kind == "sliced":
        return SlicedGrads(torch.einsum("em,ei->iem", gradients, inputs), (MADE,), (1, 0))
    return DenseGrads((gradients[:, :, None] * inputs[:, None]).flatten(1))


def small_blocks(monkeypatch, at_a_time=48):
    monkeypatch.setattr(held_sums, "_BYTES", at_a_time * 8)
    monkeypatch.setattr(held_sums, "_FEW", 3)


KINDS = ["outer", "dense", "spread", "sliced"]


@pytest.mark.parametrize("blocks", ["one", "small"])
@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("kind", KINDS)
def test_the_sum_is_that_of_every_entry(kind, dtype, padded, blocks, monkeypatch):
    """Oracle: entries one by one, in float64."""
    if blocks == "small":
        small_blocks(monkeypatch)
    rows, scale, bound = rows_of(kind, dtype), 3.0, 0.8
    padding = torch.arange(EXAMPLES) % 3 == 1 if padded else None
    found = elementwise_clipped_sum(rows, scale, bound, quantum=None, kind=dtype, padding=padding)
    entries = (rows.dense().double() * scale).clamp(-bound, bound)
    wanted = entries.sum(0) if padding is None else entries[~padding].sum(0)
    assert (found - wanted).abs().max() <= (1e-6 if dtype == torch.float32 else 1e-14) * EXAMPLES
    assert not torch.allclose(wanted, (rows.dense().double() * scale).sum(0), atol=0.1), "nothing was held"


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("kind", KINDS)
def test_exact_sums_are_exact(kind, dtype, monkeypatch):
    """Oracle: rational numbers. A scale of 4 is a power of two, so that no product with it is rounded."""
    small_blocks(monkeypatch)
    rows, quantum, bound = rows_of(kind, dtype, seed=1), 2.0**-20, 0.8
    found = elementwise_clipped_sum(rows, 4.0, bound, quantum=quantum, kind=torch.float64, padding=None)
    limit = Fraction(bound) if dtype == torch.float64 or kind == "outer" else Fraction(held_sums._below(bound))
    for at, column in enumerate(rows.dense().T.tolist()):
        held = [max(-limit, min(limit, 4 * Fraction(entry))) for entry in column]
        assert Fraction(float(found[at])) == sum(int(each / Fraction(quantum)) for each in held) * Fraction(quantum)


@pytest.mark.parametrize("quantum", [None, 2.0**-20])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("kind", KINDS)
def test_what_one_example_adds_is_within_the_bound(kind, dtype, quantum):
    """Numbers at the ends of their type, zeros beside them, and what is not finite: no sum leaves the bound."""
    most = torch.finfo(dtype).max
    odd = torch.tensor([most, -most, 0.0, 1e-30, 1.0, torch.inf, torch.nan], dtype=dtype)
    other = torch.tensor([[0.0, most, 1e-30, -torch.inf, 1.0]], dtype=dtype)
    rows = OuterGrads(odd[None], other)
    if kind == "dense":
        rows = DenseGrads(torch.cat([odd, other[0]])[None])
    if kind == "sliced":
        rows = SlicedGrads(torch.cat([odd, other[0]]).view(4, 1, 3), (3,), (1, 0))
    if kind == "spread":
        rows = EmbeddingGrads.of_tokens(torch.tensor([[1]]), odd[None, None], MET, None)
    bound = 0.1  # not a number of float32: the nearest one is above it
    found = elementwise_clipped_sum(
        rows, 64.0, bound, quantum=quantum, kind=dtype if quantum is None else torch.float64, padding=None
    )
    assert bool(found.isfinite().all())
    assert all(abs(Fraction(number)) <= Fraction(bound) for number in found.tolist())
    assert bool((found != 0).any())


def test_without_its_guard_a_large_number_beside_a_zero_is_not_a_number(monkeypatch):
    """The twin of the test above: 3e38 * 64 is infinite where it is not held to the type's largest number."""
    rows = OuterGrads(torch.tensor([[3e38]]), torch.tensor([[0.0]]))
    monkeypatch.setattr(torch, "finfo", lambda _: SimpleNamespace(max=torch.inf))
    assert bool(elementwise_clipped_sum(rows, 64.0, 0.1, quantum=None, kind=torch.float32, padding=None).isnan().all())


class Largest(TorchDispatchMode):
    """Notes the largest tensor that is made."""

    def __init__(self):
        super().__init__()
        self.numbers = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        made = func(*args, **(kwargs or {}))
        if isinstance(made, torch.Tensor):
            self.numbers = max(self.numbers, made.numel())
        return made


@pytest.mark.parametrize("quantum", [None, 2.0**-20])
def test_memory_is_that_of_a_block(quantum):
    """64 rows of a layer of 512 x 300 are 9.8 million numbers; no tensor has more than a block or the sum."""
    torch.manual_seed(2)
    rows = OuterGrads(torch.randn(64, 300), torch.randn(64, 512))
    with Largest() as seen:
        elementwise_clipped_sum(rows, 64.0, 0.01, quantum=quantum, kind=torch.float32, padding=None)
    assert seen.numbers <= max(held_sums._BYTES // 4, 300 * 512)
    with Largest() as twin:
        elementwise_clipped_sum(DenseGrads(rows.dense()), 64.0, 0.01, quantum=quantum, kind=torch.float32, padding=None)
    assert twin.numbers == 64 * 300 * 512


def test_numbers_are_cut_as_trunc_does():
    torch.manual_seed(3)
    for dtype in (torch.float32, torch.float64):
        numbers = torch.cat([torch.randn(1000, dtype=dtype) * 2.0**power for power in range(-30, 70, 5)])
        assert torch.equal(truncated_(numbers.clone()), numbers.trunc())
