"""Rows of a convolution by products with what each position met, laid out for a few examples at a time.

For a 3 x 3 kernel the windows are nine times the input, and laying them out takes as long as the products. So lines are
laid out once for each column of the kernel, three times the input: what an entry of the kernel met is one stretch of
them, which begins a line later for the next line of the kernel, and products read it where it lies. A stride leaves
lines out: those that are read together are laid out together. What a few examples met stays in the processor's cache.
"""

import torch
from torch import Tensor

from inid.dpsgd.rows.gradient_rows import Dense, Sliced

__all__ = ["convolution_rows"]

Sizes = tuple[int, ...]

_AT_A_TIME = 2**18  # numbers of the lines that are laid out at a time


def convolution_rows(
    padded: Tensor, planes: Tensor, kernel: Sizes, stride: Sizes, dilation: Sizes, groups: int
) -> Dense | Sliced:
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
    (tall, wide), (high, across) = kernel, planes.shape[2:]
    count, channels, outputs = len(planes), padded.shape[1] // groups, planes.shape[1] // groups
    # Lines of the kernel that are so many apart read the same lines, each `later` by so many than the one before. Where
    # a stride does not divide the kernel, or lies beside a dilation, each has lines of its own.
    apart = stride[0] if tall % stride[0] == 0 and 1 in (stride[0], dilation[0]) else tall
    later = dilation[0] if stride[0] == 1 else 1
    shifts, entries = tall // apart, channels * wide
    most = high + (shifts - 1) * later
    whole = groups * apart * entries * most * across
    several = count if padded.is_cuda else max(1, min(count, _AT_A_TIME // whole))
    lines = padded.new_empty(several, groups, apart, channels, wide, most, across)
    pieces = planes.reshape(count * groups, outputs, high * across).mT
    made = padded.new_empty(shifts, count * groups, apart * entries, outputs)  # few outputs: faster this way round
    example, channel, line, column = padded.stride()
    steps = (example, channels * channel, channel, column * dilation[1], line * stride[0], column * stride[1])
    for start in range(0, count, several):
        here = min(several, count - start)
        for first in range(apart):
            at = padded.storage_offset() + start * example + first * dilation[0] * line
            met = padded.as_strided((here, groups, channels, wide, most, across), steps, at)
            lines[:here, :, first].copy_(met)
        own = slice(start * groups, (start + here) * groups)
        for shift in range(shifts):
            strides = (whole // groups, most * across, 1)
            read = lines.as_strided((here * groups, apart * entries, high * across), strides, shift * later * across)
            torch.bmm(read, pieces[own], out=made[shift, own])
    rows = Sliced(made.view(shifts, count, -1), (groups, apart, channels, wide, outputs), (1, 5, 3, 0, 2, 4))
    return Dense(rows.dense()) if padded.is_cuda else rows  # kernels for GPUs read rows as they lie
