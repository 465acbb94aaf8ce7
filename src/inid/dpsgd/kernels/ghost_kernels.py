"""Norms and factors for ghost clipping on a GPU, where Triton is at hand (torch's CUDA builds bring it).

Each kernel has a twin in plain torch calls (`gram_bound` and `folded` of `ghost_norms`) that does the same sums with
other roundings, within the same bounds.
"""

import torch
from torch import Tensor

from inid.dpsgd.kernels.grad_sample_kernels import MOST_PROGRAMS, power_of_two
from inid.dpsgd.kernels.rounding import accumulated, chunked, floor_of
from inid.dpsgd.kernels.triton_kernels import (
    absolute_kernel,
    bound_kernel,
    direct_kernel,
    fold_kernel,
    gram_kernel,
    pair_kernel,
)

CHUNK = 256  # columns that one accumulator takes
_TILE, _STEP = 64, 128
_FOLDED = 4096  # entries that one program scales
_SQUARE, _DEEP, _NEAR = 128, 64, 8  # the direct product: tiles, positions at a time, tiles near each other
_LINES, _WIDE = 4, 1024  # positions and columns whose squares one program adds at a time
_SLACK = 1 + 2.0**-20  # covers sums in float64, and numbers that kernels get as float32


def usable(inputs: Tensor, gradients: Tensor) -> bool:
    """Whether the norms can be taken here: on a GPU, of a type that tensor cores multiply without rounding it first.

    Places within an example, and within the table of partial sums, are counted in 32 bits.
    """
    known = inputs.dtype == gradients.dtype == torch.bfloat16
    count, positions = inputs.shape[:2]
    widest = max(inputs.shape[2], gradients.shape[2])
    small = (positions + _TILE) * (widest + CHUNK) < 2**31 and 2 * count * (positions // _TILE + 1) ** 2 < 2**31
    return gram_kernel is not None and inputs.is_cuda and known and small and 0 < count <= MOST_PROGRAMS


def gram(inputs: Tensor, gradients: Tensor, most: float) -> tuple[Tensor, Tensor]:
    """An upper bound on the squared norm, and S, for every example, in float64: what `ghost_norms.gram_bound` gives.

    A length is taken from the computed dot product of a vector with itself, which is off by a relative x (see
    `rounding.chunked`): |v| <= sqrt(computed) (1 + x) + what underflows, for which there is the floor.
    """
    inputs, gradients = inputs.contiguous(), gradients.contiguous()
    count, positions, size = inputs.shape
    tiles = -(-positions // _TILE)
    pairs = tiles * (tiles + 1) // 2
    out = torch.empty(2, count, pairs, dtype=torch.float64, device=inputs.device)
    x, y = (chunked(each.shape[2], CHUNK, between=2.0**-24) for each in (inputs, gradients))
    kappa = (1 + x) * (1 + y) * (1 + positions**2 * 2.0**-52) - 1
    gram_kernel[(pairs, count)](
        inputs,
        gradients,
        out,
        positions,
        size,
        gradients.shape[2],
        _up(1 + x),
        _up(1 + y),
        _up(floor_of(inputs)),
        _up(floor_of(gradients)),
        most,
        TILE=_TILE,
        STEP=_STEP,
        CHUNK=CHUNK,
        num_warps=4,
        num_stages=3,
    )
    return bounded(out[0], out[1], kappa)


def direct(inputs: Tensor, gradients: Tensor, most: float) -> tuple[Tensor, Tensor]:
    """|P|^2 and S for every example, in float64: what `ghost_norms.direct_bound` gives, and nothing written down."""
    inputs, gradients = inputs.contiguous(), gradients.contiguous()
    count, positions, size = inputs.shape
    tiles = -(-size // _SQUARE) * -(-gradients.shape[2] // _SQUARE)
    squares = torch.empty(count, tiles, dtype=torch.float64, device=inputs.device)
    absolutes = torch.empty(count, -(-positions // _LINES), dtype=torch.float64, device=inputs.device)
    direct_kernel[(tiles, count)](
        inputs,
        gradients,
        squares,
        positions,
        size,
        gradients.shape[2],
        TILE=_SQUARE,
        STEP=_DEEP,
        TOGETHER=_NEAR,
        num_warps=4,
        num_stages=3,
    )
    slacks = [_up(1 + accumulated(each.shape[2] + 2)) for each in (inputs, gradients)]
    absolute_kernel[(absolutes.shape[1], count)](
        inputs,
        gradients,
        absolutes,
        positions,
        size,
        gradients.shape[2],
        *slacks,
        _up(floor_of(inputs)),
        _up(floor_of(gradients)),
        most,
        ROW_TILE=_LINES,
        TILE=_WIDE,
        num_warps=4,
    )
    return bounded(squares, absolutes, 0.0)


def boundable(absolutes: Tensor) -> bool:
    """Whether `bounded` can take parts, in float64."""
    return bound_kernel is not None and absolutes.is_cuda and absolutes.shape[0] > 0


def bounded(squares: Tensor, absolutes: Tensor, kappa: float) -> tuple[Tensor, Tensor]:
    """Q + kappa S^2, and S, from the parts of Q and of S, shape (examples, parts); infinite where S or Q is."""
    squares, absolutes, count = squares.contiguous(), absolutes.contiguous(), squares.shape[0]
    bounds = torch.empty(2, count, dtype=torch.float64, device=squares.device)
    bound_kernel[(count,)](
        squares, absolutes, bounds, count, squares.shape[1], absolutes.shape[1], _up(kappa), _SLACK, TILE=128
    )
    return bounds[0], bounds[1]


def _up(number: float) -> float:
    """A number that is still not below the one given when a kernel gets it as a float32, as all are."""
    return number * (1 + 2.0**-22)


def foldable(vectors: Tensor) -> bool:
    """Whether `folded` can take a tensor."""
    known = vectors.dtype in {torch.float32, torch.bfloat16}
    return fold_kernel is not None and vectors.is_cuda and known and vectors.numel() > 0


def folded(vectors: Tensor, factors: Tensor, *, scaled: bool) -> Tensor:
    """Each example's vectors times its factor (or as they are), zero where the factor is; lines start at 16 bytes."""
    vectors = vectors.contiguous()
    _, positions, size = vectors.shape
    lines = vectors.numel() // size
    out = _lines(vectors)
    tile, row_tile = _fold_tiles(size, lines)
    fold_kernel[(-(-size // tile), -(-lines // row_tile))](
        vectors, factors, out, lines, positions, size, out.shape[1], SCALED=scaled, ROW_TILE=row_tile, TILE=tile
    )
    return out[:, :size]


def folded_pair(gradients: Tensor, inputs: Tensor, factors: Tensor) -> tuple[Tensor, Tensor]:
    """`folded` gradients, scaled, and `folded` inputs, as they are."""
    inputs, gradients = inputs.contiguous(), gradients.contiguous()
    _, positions, outputs_size = gradients.shape
    lines, inputs_size = gradients.numel() // outputs_size, inputs.shape[2]
    left, right = _lines(gradients), _lines(inputs)
    tile, row_tile = _fold_tiles(max(outputs_size, inputs_size), lines)
    tiles = -(-outputs_size // tile)
    pair_kernel[(tiles + -(-inputs_size // tile), -(-lines // row_tile))](
        gradients,
        inputs,
        factors,
        left,
        right,
        lines,
        positions,
        outputs_size,
        inputs_size,
        left.shape[1],
        right.shape[1],
        tiles,
        ROW_TILE=row_tile,
        TILE=tile,
    )
    return left[:, :outputs_size], right[:, :inputs_size]


def _lines(vectors: Tensor) -> Tensor:
    """Room for the vectors, one behind the other, each starting at 16 bytes."""
    size = vectors.shape[2]
    return torch.empty(vectors.numel() // size, -(-size // 8) * 8, dtype=vectors.dtype, device=vectors.device)


def _fold_tiles(size: int, lines: int) -> tuple[int, int]:
    """Columns and lines that one program scales."""
    tile = min(2048, max(16, power_of_two(size)))
    row_tile = max(1, _FOLDED // tile)
    while -(-lines // row_tile) > MOST_PROGRAMS:
        row_tile *= 2
    return tile, row_tile
