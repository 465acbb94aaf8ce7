# mypy: ignore-errors
"""What a GPU runs for `row_kernels`, in Triton's own language; the names are None where Triton is not installed."""

from typing import Any

try:
    import triton
    import triton.language as tl
except ImportError:
    triton = None

__all__ = [
    "convolution_kernel",
    "group_norm_kernel",
    "layer_norm_kernel",
    "mixed_kernel",
    "share_kernel",
    "square_kernel",
    "sum_kernel",
]

convolution_kernel: Any = None
group_norm_kernel: Any = None
layer_norm_kernel: Any = None
sum_kernel: Any = None
square_kernel: Any = None
share_kernel: Any = None
mixed_kernel: Any = None

if triton is not None:

    @triton.jit
    def convolution_kernel(
        x, g, out, squares, channels, outputs, length, width, plane, line, kernel_width, entries,
        stride_h, stride_w, dilation_h, dilation_w,
        PRECISION: tl.constexpr, O_TILE: tl.constexpr, E_TILE: tl.constexpr, T_TILE: tl.constexpr,
    ):  # fmt: skip
        """One program: one example, a tile of output channels, and a tile of the kernel entries that each of them has.

        Entries lie side by side in the weight, input channel by input channel, so that rows are written in one stretch.
        """
        size = channels * entries
        block = tl.program_id(0)
        example = tl.program_id(1).to(tl.int64)
        across = tl.cdiv(size, E_TILE)
        o = (block // across) * O_TILE + tl.arange(0, O_TILE)
        e = (block % across) * E_TILE + tl.arange(0, E_TILE)
        entry = e % entries
        shift = (
            (e // entries) * plane + (entry // kernel_width) * dilation_h * line + (entry % kernel_width) * dilation_w
        )
        x += example * channels * plane
        g += example * outputs * length
        total = tl.zeros((O_TILE, E_TILE), dtype=tl.float32)
        for start in range(0, length, T_TILE):
            t = start + tl.arange(0, T_TILE)
            met = (t // width) * stride_h * line + (t % width) * stride_w
            left = tl.load(
                g + o[:, None] * length + t[None, :], mask=(o[:, None] < outputs) & (t[None, :] < length), other=0.0
            )
            right = tl.load(
                x + met[:, None] + shift[None, :], mask=(t[:, None] < length) & (e[None, :] < size), other=0.0
            )
            total += tl.dot(left, right, input_precision=PRECISION)
        total = tl.where(tl.abs(total) < float("inf"), total, 0.0)
        place = (example * outputs + o[:, None]) * size + e[None, :]
        tl.store(out + place, total, mask=(o[:, None] < outputs) & (e[None, :] < size))
        wide = total.to(tl.float64)
        tl.store(squares + example * tl.num_programs(0) + block, tl.sum(tl.sum(wide * wide, 1), 0))

    @triton.jit
    def sum_kernel(
        rows, factors, out, count, size, share, scale, bound,
        HELD: tl.constexpr, ADDED: tl.constexpr, ROW_TILE: tl.constexpr, TILE: tl.constexpr,
    ):  # fmt: skip
        """One program: a tile of columns, a share of the rows; each entry held, or each row times its factor.

        Where rows are multiplied, what is not finite counts as 0. If ADDED, `scale` times the sum is added to `out`.
        """
        column = tl.program_id(0) * TILE + tl.arange(0, TILE)
        first = tl.program_id(1) * share
        last = tl.minimum(first + share, count)
        total = tl.zeros((ROW_TILE, TILE), dtype=tl.float32)
        for start in range(first, last, ROW_TILE):
            row = start + tl.arange(0, ROW_TILE)
            known = (row[:, None] < last) & (column[None, :] < size)
            place = row[:, None].to(tl.int64) * size + column[None, :]
            own = tl.load(rows + place, mask=known, other=0.0).to(tl.float32)
            if HELD:
                total += tl.minimum(tl.maximum(own * scale, -bound), bound)
            else:
                own = tl.where(tl.abs(own) < float("inf"), own, 0.0)
                total += own * tl.load(factors + row, mask=row < last, other=0.0)[:, None]
        added = tl.sum(total, 0)
        out += tl.program_id(1).to(tl.int64) * size + column
        if ADDED:
            added = tl.load(out, mask=column < size, other=0.0) + scale * added
        tl.store(out, added, mask=column < size)

    @triton.jit
    def mixed_kernel(fresh, rows, weights, size, scale, place, ROWS: tl.constexpr, TILE: tl.constexpr):
        """One program: a tile of columns; `scale` times fresh and the weighted rows, written over fresh and a row."""
        column = tl.program_id(0).to(tl.int64) * TILE + tl.arange(0, TILE)
        known = column < size
        total = tl.load(fresh + column, mask=known, other=0.0) * scale
        start = column
        for row in tl.static_range(ROWS):
            total += tl.load(rows + start, mask=known, other=0.0) * tl.load(weights + row)
            start += size
        tl.store(fresh + column, total, mask=known)
        tl.store(rows + column + tl.cast(place, tl.int64) * size, total, mask=known)

    @triton.jit
    def square_kernel(rows, out, size, share, TILE: tl.constexpr):
        """One program: one example, a share of its entries; the sum of their squares, 0 for what is not finite."""
        example = tl.program_id(1).to(tl.int64)
        first = tl.program_id(0) * share
        last = tl.minimum(first + share, size)
        total = tl.zeros((TILE,), dtype=tl.float64)
        for start in range(first, last, TILE):
            column = start + tl.arange(0, TILE)
            own = tl.load(rows + example * size + column, mask=column < last, other=0.0).to(tl.float32)
            wide = tl.where(tl.abs(own) < float("inf"), own, 0.0).to(tl.float64)
            total += wide * wide
        tl.store(out + example * tl.num_programs(0) + tl.program_id(0), tl.sum(total, 0))

    @triton.jit
    def share_kernel(
        first, second, whole, padding, norms, shares, of_first, of_second, part, least, cut,
        SECOND: tl.constexpr, WHOLE: tl.constexpr, PADDED: tl.constexpr, TILE: tl.constexpr,
    ):  # fmt: skip
        """One program: one example; its norm from sums of squares and an allowance, and its share."""
        example = tl.program_id(0).to(tl.int64)
        total = tl.zeros((TILE,), dtype=tl.float64)
        for start in range(0, of_first, TILE):
            column = start + tl.arange(0, TILE)
            total += tl.load(first + example * of_first + column, mask=column < of_first, other=0.0)
        if SECOND:
            for start in range(0, of_second, TILE):
                column = start + tl.arange(0, TILE)
                total += tl.load(second + example * of_second + column, mask=column < of_second, other=0.0)
        norm = tl.sqrt(tl.sum(total, 0))
        if WHOLE:
            norm += tl.load(whole + example) * part
        tl.store(norms + example, norm)
        share = 1.0 / tl.maximum(norm, least)
        usable = (share > cut) & (norm < float("inf"))
        if PADDED:
            usable = usable & (tl.load(padding + example) == 0)
        tl.store(shares + example, tl.where(usable, share, 0.0).to(tl.float32))

    @triton.jit
    def group_norm_kernel(x, g, weight, bias, channels, length, together, eps, TILE: tl.constexpr):
        """One program: one example, one group of channels."""
        example = tl.program_id(1).to(tl.int64)
        first = example * channels + tl.program_id(0) * together
        x += first * length
        g += first * length
        size = together * length
        total = tl.zeros((TILE,), dtype=tl.float32)
        for start in range(0, size, TILE):
            t = start + tl.arange(0, TILE)
            total += tl.load(x + t, mask=t < size, other=0.0).to(tl.float32)
        mean = tl.sum(total, 0) / size
        total = tl.zeros((TILE,), dtype=tl.float32)
        for start in range(0, size, TILE):
            t = start + tl.arange(0, TILE)
            away = tl.load(x + t, mask=t < size, other=0.0).to(tl.float32) - mean
            total += tl.where(t < size, away * away, 0.0)
        scale = 1.0 / tl.sqrt(tl.sum(total, 0) / size + eps)
        for channel in range(together):
            by_input = tl.zeros((TILE,), dtype=tl.float32)
            alone = tl.zeros((TILE,), dtype=tl.float32)
            for start in range(0, length, TILE):
                t = start + tl.arange(0, TILE)
                back = tl.load(g + channel * length + t, mask=t < length, other=0.0).to(tl.float32)
                met = tl.load(x + channel * length + t, mask=t < length, other=0.0).to(tl.float32) - mean
                by_input += back * tl.where(t < length, met, 0.0)
                alone += back
            tl.store(weight + first + channel, tl.sum(by_input, 0) * scale)
            tl.store(bias + first + channel, tl.sum(alone, 0))

    @triton.jit
    def layer_norm_kernel(
        x, g, weight, bias, positions, size, share, eps, ROW_TILE: tl.constexpr, TILE: tl.constexpr
    ):  # fmt: skip
        """One program: one example, a share of its positions."""
        example = tl.program_id(1).to(tl.int64)
        first = tl.program_id(0) * share
        last = tl.minimum(first + share, positions)
        column = tl.arange(0, TILE)
        x += example * positions * size
        g += example * positions * size
        by_input = tl.zeros((ROW_TILE, TILE), dtype=tl.float32)
        alone = tl.zeros((ROW_TILE, TILE), dtype=tl.float32)
        for start in range(first, last, ROW_TILE):
            t = start + tl.arange(0, ROW_TILE)
            known = (t[:, None] < last) & (column[None, :] < size)
            place = t[:, None].to(tl.int64) * size + column[None, :]
            met = tl.load(x + place, mask=known, other=0.0).to(tl.float32)
            met = tl.where(known, met - (tl.sum(met, 1) / size)[:, None], 0.0)
            scale = 1.0 / tl.sqrt(tl.sum(met * met, 1) / size + eps)
            back = tl.load(g + place, mask=known, other=0.0).to(tl.float32)
            by_input += back * met * scale[:, None]
            alone += back
        place = (example * tl.num_programs(0) + tl.program_id(0)) * size + column
        tl.store(weight + place, tl.sum(by_input, 0), mask=column < size)
        tl.store(bias + place, tl.sum(alone, 0), mask=column < size)
