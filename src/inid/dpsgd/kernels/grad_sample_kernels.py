"""Per-example gradients on a GPU in one kernel per layer, where Triton is at hand (torch's CUDA builds bring it).

A batched product over windows spends its time on writing the windows down and on tiles that are far larger than a
convolution's few channels; these kernels read the input where it lies. Gradients take long to read: their norms are
taken where they are made, and their sums in one reading.
"""

import torch
from torch import Tensor

from inid.dpsgd.kernels.triton_kernels import (
    convolution_kernel,
    group_norm_kernel,
    layer_norm_kernel,
    mixed_kernel,
    share_kernel,
    square_kernel,
    sum_kernel,
)

MOST_PROGRAMS = 65535  # along the second axis of a launch
_ENTRIES = 4096  # that one program adds at a time
_PROGRAM_LOOPS = 16  # times that a program goes on before its gradients are shared with others
_FILLED = 2048  # programs that keep a GPU busy
_SQUARED = 16384  # entries whose squares one program adds
_MIXED, _TILE = 64, 1024  # most vectors of noise that are mixed in one kernel, and columns of one program


def usable(tensor: Tensor, programs: int) -> bool:
    """Whether the kernels can take a tensor: on a GPU, of a precision they know, and not too many examples."""
    known = tensor.dtype in (torch.float32, torch.bfloat16, torch.float16)
    return convolution_kernel is not None and tensor.is_cuda and known and 0 < programs <= MOST_PROGRAMS


def convolution_grad_samples(
    padded: Tensor,
    planes: Tensor,
    kernel: tuple[int, ...],
    stride: tuple[int, ...],
    dilation: tuple[int, ...],
    groups: int,
) -> tuple[Tensor, Tensor]:
    """Gradients of a convolution's weight, in float32, 0 for what is not finite, and squared norms in float64."""
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


def group_norm_grad_samples(inputs: Tensor, gradients: Tensor, groups: int, eps: float) -> tuple[Tensor, Tensor]:
    """Gradients of the weight and the bias of a group normalisation, in float32."""
    inputs, gradients = inputs.contiguous(), gradients.contiguous()
    count, channels = inputs.shape[:2]
    length = inputs[0, 0].numel()
    weight, bias = (torch.empty(count, channels, dtype=torch.float32, device=inputs.device) for _ in range(2))
    tile = min(1024, power_of_two(length))
    group_norm_kernel[(groups, count)](
        inputs, gradients, weight, bias, channels, length, channels // groups, eps, TILE=tile
    )
    return weight, bias


def layer_norm_grad_samples(inputs: Tensor, gradients: Tensor, size: int, eps: float) -> tuple[Tensor, Tensor]:
    """Gradients of the weight and the bias of a layer normalisation, in float32."""
    inputs, gradients = inputs.contiguous(), gradients.contiguous()
    count, positions = len(inputs), inputs[0].numel() // size
    tile = power_of_two(size)
    row_tile = min(power_of_two(positions), max(1, _ENTRIES // tile))
    shares = max(1, min(-(-positions // row_tile), _FILLED // count))
    out = torch.empty(2, count, shares, size, dtype=torch.float32, device=inputs.device)
    layer_norm_kernel[(shares, count)](
        inputs, gradients, out[0], out[1], positions, size, -(-positions // shares), eps, ROW_TILE=row_tile, TILE=tile
    )
    weight, bias = out[:, :, 0] if shares == 1 else out.sum(2)
    return weight, bias


def weighted_sum(grads: Tensor, factors: Tensor) -> Tensor:
    """The sum of factors[i] * gradient i, in float32: no product rounds its arguments first, whatever torch is set to.

    Numbers that are not finite count as 0.
    """
    return _sum(grads, factors.float().contiguous(), 1.0, 0.0, clip=False)


def stretch_sums(grads: Tensor, factors: Tensor, stretches: int) -> Tensor:
    """What `weighted_sum` gives, for each of some stretches of the same length; shape (stretches, size)."""
    grads = grads.contiguous()
    count, size = grads.shape
    share = count // stretches
    tile, row_tile = _sum_tiles(share, size)
    out = torch.empty(stretches, size, dtype=torch.float32, device=grads.device)
    sum_kernel[(-(-size // tile), stretches)](
        grads, factors, out, count, size, share, 1.0, 0.0, CLIPPED=False, ADDED=False, ROW_TILE=row_tile, TILE=tile
    )
    return out


def elementwise_clipped_sum(grads: Tensor, scale: float, bound: float) -> Tensor:
    """The sum of the gradients times `scale`, every entry held to a bound, in float32."""
    return _sum(grads, grads, scale, bound, clip=True)


def adds(place: Tensor, grads: Tensor, factors: Tensor) -> bool:
    """Whether `add_weighted_sum` takes these."""
    return place.dtype == factors.dtype == torch.float32 and place.is_contiguous() and usable(grads, grads.shape[0])


def add_weighted_sum(place: Tensor, grads: Tensor, factors: Tensor, limit: float) -> None:
    """Add the sum of limit * factors[i] * gradient i to what stands at a place, in float32, as `weighted_sum` does."""
    grads = grads.contiguous()
    count, size = grads.shape
    tile, row_tile = _sum_tiles(count, size)
    if -(-count // row_tile) > _PROGRAM_LOOPS:
        place.add_(weighted_sum(grads, factors), alpha=limit)
        return
    sum_kernel[(-(-size // tile), 1)](
        grads, factors, place, count, size, count, limit, 0.0, CLIPPED=False, ADDED=True, ROW_TILE=row_tile, TILE=tile
    )


def mixed(fresh: Tensor, history: Tensor, weights: Tensor, scale: float, place: int) -> bool:
    """Make `scale` times fresh plus weights[i] * history[i], over fresh and history[place]; says whether it could."""
    if not usable(fresh, 1) or fresh.dtype != torch.float32 or len(history) > _MIXED:
        return False
    mixed_kernel[(-(-fresh.numel() // _TILE),)](
        fresh, history, weights, fresh.numel(), scale, place, STEPS=len(history), TILE=_TILE
    )
    return True


def square_sums(grads: Tensor) -> Tensor:
    """Sums of squares of parts of each gradient, in float64, shape (examples, parts); 0 for what is not finite."""
    grads = grads.contiguous()
    count, size = grads.shape
    parts = max(1, -(-size // _SQUARED))
    out = torch.empty(count, parts, dtype=torch.float64, device=grads.device)
    tile = min(1024, max(16, power_of_two(size)))
    square_kernel[(parts, count)](grads, out, size, min(size, _SQUARED), TILE=tile)
    return out


def norms_and_shares(
    squares: list[Tensor], absolute: Tensor | None, part: float, least: float, cut: float, padding: Tensor | None
) -> tuple[Tensor, Tensor]:
    """What `clipped_sums.gpu_shares` says."""
    first, second = squares[0].contiguous(), squares[-1].contiguous()
    count = first.shape[0]
    norms = torch.empty(count, dtype=torch.float64, device=first.device)
    shares = torch.empty(count, dtype=torch.float32, device=first.device)
    share_kernel[(count,)](
        first,
        second,
        norms if absolute is None else absolute,
        norms if padding is None else padding.view(torch.uint8),
        norms,
        shares,
        first.shape[1],
        second.shape[1],
        part * (1 + 2.0**-22),  # kernels get numbers as float32
        least,
        cut,
        SECOND=len(squares) > 1,
        ABSOLUTE=absolute is not None,
        PADDED=padding is not None,
        TILE=16 if max(first.shape[1], second.shape[1]) <= 16 else 128,
    )
    return norms, shares


def _sum(grads: Tensor, factors: Tensor, scale: float, bound: float, *, clip: bool) -> Tensor:
    grads = grads.contiguous()
    count, size = grads.shape
    tile, row_tile = _sum_tiles(count, size)
    columns = -(-size // tile)
    shares = max(1, min(_FILLED // columns, count // row_tile))
    out = torch.empty(shares, size, dtype=torch.float32, device=grads.device)
    share = -(-count // shares)
    sum_kernel[(columns, shares)](
        grads, factors, out, count, size, share, scale, bound, CLIPPED=clip, ADDED=False, ROW_TILE=row_tile, TILE=tile
    )
    return out[0] if shares == 1 else out.sum(0)


def _sum_tiles(count: int, size: int) -> tuple[int, int]:
    """The columns and examples that are added at a time."""
    few = min(32, max(8, power_of_two(count)))
    tile = min(_ENTRIES // few, max(16, power_of_two(size)))
    return tile, min(_ENTRIES // tile, max(8, power_of_two(count)))


def _rounding_allowed() -> bool:
    """Whether the user lets products of float32 round their arguments, as `torch.matmul` would."""
    try:
        return torch.get_float32_matmul_precision() != "highest"
    except RuntimeError:  # torch's old and new settings were mixed, and it does not say which holds
        return False


def _tile(size: int) -> int:
    return min(64, max(16, power_of_two(size)))


def power_of_two(size: int) -> int:
    """The least power of two that is not below a number."""
    return 1 << (size - 1).bit_length()
