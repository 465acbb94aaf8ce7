"""Rows of a convolution by products with the windows that each position met, laid out for a few examples at a time.

For a 3 x 3 kernel the windows are nine times the input: those of a few examples stay in the processor's cache. Laying
them out takes about as long as the products. Where a stride leaves positions out, numbers that are read together do not
lie together; so the lines are laid out first, apart by where they lie within a stride, once for each column of the
kernel. Of these, what an entry of the kernel met is one stretch.
"""

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from inid.dpsgd.rows.gradient_rows import Dense

__all__ = ["convolution_rows"]

Sizes = tuple[int, ...]
Copies = list[tuple[Tensor, Tensor]]  # where to, and what

_AT_A_TIME = 2**18  # numbers of the windows that are laid out at a time


def convolution_rows(
    padded: Tensor, planes: Tensor, kernel: Sizes, stride: Sizes, dilation: Sizes, groups: int
) -> Dense:
    """The rows of a convolution's weight.

    Args:
        padded: The padded input, (examples, channels, height, width).
        planes: The gradients, (examples, outputs, height, width).
        kernel: The kernel's height and width; likewise `stride` and `dilation`.
        stride: See `kernel`.
        dilation: See `kernel`.
        groups: The convolution's groups.

    >>> rows = convolution_rows(torch.arange(3.0).view(1, 1, 1, 3), torch.ones(1, 1, 1, 2), (1, 2), (1, 1), (1, 1), 1)
    >>> rows.dense().tolist()
    [[1.0, 3.0]]
    """
    count, entries = len(planes), padded.shape[1] // groups * math.prod(kernel)
    positions = planes.shape[2] * planes.shape[3]
    pieces = planes.reshape(count * groups, planes.shape[1] // groups, positions)
    several = count if padded.is_cuda else max(1, min(count, _AT_A_TIME // (groups * entries * positions)))
    windows = padded.new_empty(several, padded.shape[1], *kernel, positions)
    flat = windows.view(several * groups, entries, positions)
    # Few outputs beside many entries: products are faster this way round.
    made = pieces.new_empty(count * groups, entries, pieces.shape[1])
    layouts = _laid_out(padded, windows, planes.shape[2:], stride, dilation)
    for start, layout in zip(range(0, count, several), layouts, strict=False):
        for place, part in layout:
            place.copy_(part)
        last = min(start + several, count)
        own = slice(start * groups, last * groups)
        torch.bmm(flat[: (last - start) * groups], pieces[own].mT, out=made[own])
    rows = Dense(made.view(count, -1), turned=(groups, entries, pieces.shape[1]))
    return Dense(rows.dense()) if padded.is_cuda else rows  # kernels for GPUs read rows as they lie


def _laid_out(padded: Tensor, windows: Tensor, sides: Sizes, stride: Sizes, dilation: Sizes) -> Iterator[Copies]:
    """For one part of the examples after another, what is to be copied so that windows hold what was met."""
    (several, channels, tall, wide, positions), count = windows.shape, len(padded)
    examples, channel, line, column = padded.stride()
    if stride[0] == 1 or dilation[0] > 1:
        steps = (line * dilation[0], column * dilation[1], line * stride[0], column * stride[1])
        met = padded.as_strided((count, channels, tall, wide, *sides), (examples, channel, *steps))
        whole = windows.view(several, channels, tall, wide, *sides)
        for part in torch.split(met, several):
            yield [(whole[: len(part)], part)]
        return
    most = sides[0] + (tall - 1) // stride[0]
    lines = padded.new_empty(several, channels, wide, most, sides[1])
    own = lines.stride()
    apart = (examples, channel, column * dilation[1], line * stride[0], column * stride[1])
    ways = []
    for first in range(min(stride[0], tall)):  # lines of the kernel that read the same lines of the input
        further = len(range(first, tall, stride[0]))
        high = sides[0] + further - 1
        at = padded.storage_offset() + first * line
        met = padded.as_strided((count, channels, wide, high, sides[1]), apart, at)
        read = lines.as_strided((several, channels, further, wide, positions), (*own[:2], sides[1], own[2], 1))
        ways.append((lines[..., :high, :], met, windows[:, :, first :: stride[0]], read))
    for start in range(0, count, several):
        here = min(several, count - start)
        yield [
            copy
            for held, met, place, read in ways
            for copy in ((held[:here], met[start : start + here]), (place[:here], read[:here]))
        ]
