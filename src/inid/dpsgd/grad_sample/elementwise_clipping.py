"""Element-wise clipping: every entry of an example's gradient is clipped to a bound, and the entries are added.

Element-wise clipping needs every entry of every example's gradient once. Together they are many times what the cache
of a processor holds: written down at once, they would go to memory and back at every step of the calculation. A block
of them stays in the cache from the first step to the last. How gradients are cut into blocks goes by shapes alone.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np
import torch
from torch import Tensor

from inid.dpsgd.grad_sample.grad_samples import (
    DenseGrads,
    EmbeddingGrads,
    GradSamples,
    OuterGrads,
    SlicedGrads,
    truncated_,
)
from inid.dpsgd.kernels import grad_sample_kernels

_FEW = 32  # examples whose entries are added in their own precision; such sums are added in float64
_BYTES = 2**20  # of entries that are written down at a time
_BYTES_ON_GPU = 2**28  # the same where a launch takes longer than the work


def elementwise_clipped_sum(
    grads: GradSamples, scale: float, bound: float, *, quantum: float | None, kind: torch.dtype, padding: Tensor | None
) -> Tensor:
    """The sum of the gradients times `scale`, every entry held to a bound, flat. What is not finite counts as 0."""
    if isinstance(grads, SlicedGrads):
        return grads.by_column(
            lambda each: elementwise_clipped_sum(
                DenseGrads(each), scale, bound, quantum=quantum, kind=kind, padding=padding
            )
        )
    finite = grads.finite() if isinstance(grads, (OuterGrads, EmbeddingGrads)) else DenseGrads(grads.dense())
    numbers = (
        finite.gradients
        if isinstance(finite, OuterGrads)
        else finite.values
        if isinstance(finite, EmbeddingGrads)
        else finite.grads
    )
    count = finite.count if isinstance(finite, EmbeddingGrads) else len(numbers)
    if (
        isinstance(finite, DenseGrads)
        and quantum is None
        and kind == torch.float32
        and grad_sample_kernels.usable(numbers, count)
    ):
        swept = finite.finite().grads
        swept = swept if padding is None else swept.masked_fill(padding[:, None], 0.0)
        return grad_sample_kernels.elementwise_clipped_sum(swept, scale, _below(bound))
    # Exact sums are made of products that are exact themselves, and counted in quanta.
    wide = numbers.dtype == torch.float64 or (quantum is not None and isinstance(finite, OuterGrads))
    limit, unit = bound if wide and kind == torch.float64 else _below(bound), quantum or 1.0
    factors = numbers.new_full((count, 1), scale / unit, dtype=torch.float64 if wide else torch.float32)
    factors = factors if padding is None else factors.masked_fill_(padding[:, None], 0.0)
    hold = _Hold(limit / unit, exact=quantum is not None)
    if isinstance(finite, OuterGrads):
        total = _of_products(finite, factors, hold)
    elif isinstance(finite, EmbeddingGrads):
        total = _of_lines(finite, factors, hold)
    else:
        total = _of_dense(finite.grads, factors, hold)
    return total.mul_(unit)


@dataclass(frozen=True)
class _Hold:
    """What is done with entries: they are held to a limit, and cut to whole numbers where the sum is to be exact."""

    limit: float
    exact: bool

    def entries(self, block: Tensor) -> Tensor:
        block.clamp_(-self.limit, self.limit)
        return truncated_(block) if self.exact else block

    def summed(self, block: Tensor) -> Tensor:
        return self.entries(block).sum(0, dtype=torch.float64 if self.exact else None)


def _of_products(grads: OuterGrads, factors: Tensor, hold: _Hold) -> Tensor:
    """Products of a gradient and an input, for some outputs at a time."""
    most = torch.finfo(factors.dtype).max  # infinity times zero is not a number
    left, right = torch.mul(grads.gradients, factors).clamp_(-most, most), grads.inputs.to(factors.dtype)
    total = left.new_zeros(left.shape[1], right.shape[1], dtype=torch.float64)
    for examples, outputs, room in _blocks(left.shape, right.shape[1], factors):
        torch.mul(left[examples, outputs, None], right[examples, None], out=room)
        total[outputs].add_(hold.summed(room))
    return total.flatten()


def _of_dense(grads: Tensor, factors: Tensor, hold: _Hold) -> Tensor:
    """Gradients that are written down, for some columns at a time."""
    total = grads.new_zeros(grads.shape[1], dtype=torch.float64)
    for examples, columns, room in _blocks(grads.shape, 1, factors):
        entries = room.squeeze(-1).copy_(grads[examples, columns]).nan_to_num_(nan=0.0, posinf=0.0, neginf=0.0)
        total[columns].add_(hold.summed(entries.mul_(factors[examples])))
    return total


def _of_lines(grads: EmbeddingGrads, factors: Tensor, hold: _Hold) -> Tensor:
    """The lines of a table that examples looked up: all others are zero."""
    total = grads.values.new_zeros(grads.height, grads.values.shape[1], dtype=torch.float64)
    entries = hold.entries(grads.values * factors[grads.examples])
    return total.index_add_(0, grads.lines, entries.double()).flatten()


def _blocks(shape: torch.Size, width: int, factors: Tensor) -> Iterator[tuple[slice, slice, Tensor]]:
    """Some of either dimension of a shape, and room for `width` numbers at each place of such a block."""
    count, size = shape
    numbers = (_BYTES_ON_GPU if factors.is_cuda else _BYTES) // factors.itemsize
    few = max(1, min(count if factors.is_cuda else _FEW, count, numbers // width))
    many = max(1, min(size, numbers // (few * width)))
    room = factors.new_empty(few * many * width)
    for start, first in product(range(0, size, many), range(0, count, few)):
        block = min(few, count - first), min(many, size - start), width
        yield slice(first, first + few), slice(start, start + many), room[: math.prod(block)].view(block)


def _below(bound: float) -> float:
    """The largest float32 that is not above a number."""
    nearest = np.float32(bound)
    return float(nearest if float(nearest) <= bound else np.nextafter(nearest, np.float32(0)))
