# mypy: ignore-errors
"""What a GPU runs for `kernels`, in Triton's own language; both names are None where Triton is not installed."""

from typing import Any

try:
    import triton
    import triton.language as tl
except ImportError:
    triton = None

__all__ = ["convolution_kernel", "group_norm_kernel"]

convolution_kernel: Any = None
group_norm_kernel: Any = None

if triton is not None:

    @triton.jit
    def convolution_kernel(
        x, g, out, channels, outputs, length, width, plane, line, kernel_width, entries,
        stride_h, stride_w, dilation_h, dilation_w,
        PRECISION: tl.constexpr, O_TILE: tl.constexpr, C_TILE: tl.constexpr, T_TILE: tl.constexpr,
    ):  # fmt: skip
        """One program: one example, one entry of the kernel, a tile of output and of input channels."""
        entry = tl.program_id(0) % entries
        block = tl.program_id(0) // entries
        example = tl.program_id(1).to(tl.int64)
        across = tl.cdiv(channels, C_TILE)
        o = (block // across) * O_TILE + tl.arange(0, O_TILE)
        c = (block % across) * C_TILE + tl.arange(0, C_TILE)
        shift = (entry // kernel_width) * dilation_h * line + (entry % kernel_width) * dilation_w
        x += example * channels * plane + shift
        g += example * outputs * length
        total = tl.zeros((O_TILE, C_TILE), dtype=tl.float32)
        for start in range(0, length, T_TILE):
            t = start + tl.arange(0, T_TILE)
            met = (t // width) * stride_h * line + (t % width) * stride_w
            left = tl.load(
                g + o[:, None] * length + t[None, :], mask=(o[:, None] < outputs) & (t[None, :] < length), other=0.0
            )
            right = tl.load(
                x + met[:, None] + c[None, :] * plane, mask=(t[:, None] < length) & (c[None, :] < channels), other=0.0
            )
            total += tl.dot(left, right, input_precision=PRECISION)
        place = ((example * outputs + o[:, None]) * channels + c[None, :]) * entries + entry
        tl.store(out + place, total, mask=(o[:, None] < outputs) & (c[None, :] < channels))

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
