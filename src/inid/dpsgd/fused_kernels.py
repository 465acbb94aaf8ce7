"""Fused norms and factors on a GPU, where Triton is at hand (torch's CUDA builds bring it).

Each kernel has a twin in plain torch calls (`fused_norms.gram_bound`, `fused_sums.folded`) that does the same sums with
other roundings, within the same bounds.
"""

import torch
from torch import Tensor

from inid.dpsgd.fused_rounding import chunked, floor_of
from inid.dpsgd.fused_triton import fold_kernel, gram_kernel

__all__ = ["CHUNK", "foldable", "folded", "gram", "usable"]

CHUNK = 256  # columns that one accumulator takes
_TILE, _STEP = 64, 64
_MOST_PROGRAMS = 65535  # along the second axis of a launch
_FOLDED = 4096  # entries that one program scales


def usable(inputs: Tensor, gradients: Tensor) -> bool:
    """Whether the norms can be taken here: on a GPU, of a type that tensor cores multiply without rounding it first."""
    known = inputs.dtype == gradients.dtype == torch.bfloat16
    return gram_kernel is not None and inputs.is_cuda and known and 0 < len(inputs) <= _MOST_PROGRAMS


def gram(inputs: Tensor, gradients: Tensor, most: float = 2.0**60) -> tuple[Tensor, Tensor]:
    """The sum of (a_t . a_s) (g_t . g_s) over positions, and S, for every example, in float64.

    A length is taken from the computed dot product of a vector with itself, which is off by a relative x (see
    `fused_rounding.chunked`): |v| <= sqrt(computed) (1 + x) + what underflows, for which there is the floor.

    Args:
        inputs: Shape (examples, positions, d_in).
        gradients: Shape (examples, positions, d_out).
        most: Longer vectors count as infinite.
    """
    inputs, gradients = inputs.contiguous(), gradients.contiguous()
    count, positions, size = inputs.shape
    tiles = -(-positions // _TILE)
    pairs = tiles * (tiles + 1) // 2
    out = torch.empty(2, count, pairs, dtype=torch.float64, device=inputs.device)
    slacks = [1 + chunked(each.shape[2], CHUNK, between=2.0**-24) for each in (inputs, gradients)]
    gram_kernel[(pairs, count)](
        inputs,
        gradients,
        out,
        positions,
        size,
        gradients.shape[2],
        *slacks,
        floor_of(inputs),
        floor_of(gradients),
        most,
        TILE=_TILE,
        STEP=_STEP,
        CHUNK=CHUNK,
        num_warps=4,
        num_stages=2,
    )
    total = out.sum(2)
    return total[0], total[1] * (1 + 2.0**-30)


def foldable(vectors: Tensor) -> bool:
    """Whether `folded` can take a tensor."""
    known = vectors.dtype in {torch.float32, torch.bfloat16}
    return fold_kernel is not None and vectors.is_cuda and known and vectors.numel() > 0


def folded(vectors: Tensor, factors: Tensor, *, scaled: bool) -> Tensor:
    """Each example's vectors times its factor (or as they are), zero where the factor is; rows start at 16 bytes.

    Args:
        vectors: Shape (examples, positions, size).
        factors: One per example, float32.
        scaled: Whether to multiply.
    """
    vectors = vectors.contiguous()
    _, positions, size = vectors.shape
    rows, line = vectors.numel() // size, -(-size // 8) * 8
    out = torch.empty(rows, line, dtype=vectors.dtype, device=vectors.device)
    tile = min(2048, max(16, 1 << (size - 1).bit_length()))
    row_tile = max(1, _FOLDED // tile)
    while -(-rows // row_tile) > _MOST_PROGRAMS:
        row_tile *= 2
    fold_kernel[(-(-size // tile), -(-rows // row_tile))](
        vectors, factors, out, rows, positions, size, line, SCALED=scaled, ROW_TILE=row_tile, TILE=tile
    )
    return out[:, :size]
