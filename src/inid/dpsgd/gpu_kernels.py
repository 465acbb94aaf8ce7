"""Per-example gradients on a GPU in one kernel per layer, where Triton is at hand (torch's CUDA builds bring it).

A batched product over windows spends its time on writing the windows down and on tiles that are far larger than a
convolution's few channels; these kernels read the input where it lies. Rows are long to read: their norms are taken
where they are made, and their sums in one reading.
"""

import torch
from torch import Tensor

from inid.dpsgd.triton_kernels import convolution_kernel, group_norm_kernel, sum_kernel

__all__ = ["convolution_rows", "group_norm_rows", "held_sum", "usable", "weighted_sum"]

_MOST_PROGRAMS = 65535  # along the second axis of a launch
_SUM_TILE, _SUM_ROWS = 128, 8  # the columns and rows that are added at a time
_FILLED = 2048  # programs that keep a GPU busy


def usable(tensor: Tensor, programs: int) -> bool:
    """Whether the kernels can take a tensor: on a GPU, of a precision they know, and not too many examples."""
    known = tensor.dtype in (torch.float32, torch.bfloat16, torch.float16)
    return convolution_kernel is not None and tensor.is_cuda and known and 0 < programs <= _MOST_PROGRAMS


def convolution_rows(
    padded: Tensor,
    planes: Tensor,
    kernel: tuple[int, ...],
    stride: tuple[int, ...],
    dilation: tuple[int, ...],
    groups: int,
) -> tuple[Tensor, Tensor]:
    """Rows of a convolution's weight, in float32, with 0 for what is not finite, and their squared norms in float64.

    Args:
        padded: The padded input, (examples, channels, height, width).
        planes: The gradients, (examples, outputs, height, width).
        kernel: The kernel's height and width; likewise `stride` and `dilation`.
        stride: See `kernel`.
        dilation: See `kernel`.
        groups: The convolution's groups.
    """
    padded, planes = padded.contiguous(), planes.contiguous()
    count, channels, outputs = planes.shape[0] * groups, padded.shape[1] // groups, planes.shape[1] // groups
    length, entries = planes.shape[2] * planes.shape[3], kernel[0] * kernel[1]
    tiles = {"O_TILE": _tile(outputs), "E_TILE": _tile(channels * entries), "T_TILE": 64 if length >= 64 else 16}
    blocks = -(-outputs // tiles["O_TILE"]) * -(-channels * entries // tiles["E_TILE"])
    out = torch.empty(count, outputs * channels * entries, dtype=torch.float32, device=planes.device)
    squares = torch.empty(count, blocks, dtype=torch.float64, device=planes.device)
    convolution_kernel[(blocks, count)](
        padded,
        planes,
        out,
        squares,
        channels,
        outputs,
        length,
        planes.shape[3],
        padded.shape[2] * padded.shape[3],
        padded.shape[3],
        kernel[1],
        entries,
        stride[0],
        stride[1],
        dilation[0],
        dilation[1],
        PRECISION="tf32" if _rounding_allowed() else "ieee",
        **tiles,
    )
    return out.view(planes.shape[0], -1), squares.view(planes.shape[0], -1).sum(1)


def group_norm_rows(inputs: Tensor, gradients: Tensor, groups: int, eps: float) -> tuple[Tensor, Tensor]:
    """Rows of the weight and the bias of a group normalisation, in float32.

    Args:
        inputs: What it saw, (examples, channels, ...).
        gradients: What flows back, of the same shape.
        groups: How many groups of channels are normalised together.
        eps: The layer's own.
    """
    inputs, gradients = inputs.contiguous(), gradients.contiguous()
    count, channels = inputs.shape[:2]
    length = inputs[0, 0].numel()
    weight, bias = (torch.empty(count, channels, dtype=torch.float32, device=inputs.device) for _ in range(2))
    tile = min(1024, _power_of_two(length))
    group_norm_kernel[(groups, count)](
        inputs, gradients, weight, bias, channels, length, channels // groups, eps, TILE=tile
    )
    return weight, bias


def weighted_sum(rows: Tensor, factors: Tensor) -> Tensor:
    """The sum of factors[i] * row i, in float32: no product rounds its arguments first, whatever torch is set to."""
    return _sum(rows, factors.float().contiguous(), 1.0, 0.0, held=False)


def held_sum(rows: Tensor, scale: float, bound: float) -> Tensor:
    """The sum of the rows times `scale`, every entry held to a bound, in float32."""
    return _sum(rows, rows, scale, bound, held=True)


def _sum(rows: Tensor, factors: Tensor, scale: float, bound: float, *, held: bool) -> Tensor:
    rows = rows.contiguous()
    count, size = rows.shape
    columns = -(-size // _SUM_TILE)
    shares = max(1, min(_FILLED // columns, count // _SUM_ROWS))
    out = torch.empty(shares, size, dtype=torch.float32, device=rows.device)
    share = -(-count // shares)
    sum_kernel[(columns, shares)](
        rows, factors, out, count, size, share, scale, bound, HELD=held, ROW_TILE=_SUM_ROWS, TILE=_SUM_TILE
    )
    return out[0] if shares == 1 else out.sum(0)


def _rounding_allowed() -> bool:
    """Whether the user lets products of float32 round their arguments, as `torch.matmul` would."""
    try:
        return torch.get_float32_matmul_precision() != "highest"
    except RuntimeError:  # torch's old and new settings were mixed, and it does not say which holds
        return False


def _tile(size: int) -> int:
    return min(64, max(16, _power_of_two(size)))


def _power_of_two(size: int) -> int:
    return 1 << (size - 1).bit_length()
