"""Norms and shares of a group on a GPU, in few launches: what `clipped_sums` does elsewhere, with the same margin."""

import torch
from torch import Tensor

from inid.dpsgd.kernels import row_kernels
from inid.dpsgd.kernels.stacked_layers import Apart, Together
from inid.dpsgd.rows.gradient_rows import Dense, Rows

__all__ = ["serves", "shares", "swept"]

_TOGETHER = 2  # tables of squares that one kernel reads


def serves(pieces: list[tuple[Tensor, Rows]]) -> bool:
    """Whether all rows lie on a GPU, of types that the kernels know, and are added in float32."""
    return all(
        place.dtype == torch.float32
        and own.is_cuda
        and ((written := _written(own)) is None or row_kernels.usable(written.rows, written.rows.shape[0]))
        for place, own in pieces
    )


def _written(own: Rows) -> Dense | None:
    """The rows that are written down, also those of several layers."""
    inside = own.rows if isinstance(own, (Apart, Together)) else own
    return inside if isinstance(inside, Dense) else None


def swept(pieces: list[tuple[Tensor, Rows]]) -> list[tuple[Tensor, Rows]]:
    """Rows without what is not finite; the kernels that read written rows leave it out themselves."""
    return [(place, own if _written(own) is not None else own.finite()) for place, own in pieces]


def shares(
    pieces: list[tuple[Tensor, Rows]], least: float, longest: float, padding: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Per example the norm in float64, and in float32 what to multiply its row by so that it is at most 1 long.

    That is 1 / norm, or 1 / `least` where the norm is less; 0 where the norm is beyond `longest` times `least`, not
    finite, or where the row is padding.

    Args:
        pieces: Places and rows.
        least: See above.
        longest: See above.
        padding: True for rows that are padding, or None.
    """
    found = [own.bounds() for _, own in pieces]
    squares = [each.squares for each in found]
    if len(squares) > _TOGETHER:
        squares = [torch.cat(squares, 1)]
    extra = [(each.whole, each.part) for each in found if each.whole is not None]
    if len(extra) > 1:  # each part may be longer by its allowance: together by the length of the vector of them
        allowed = torch._foreach_mul([whole for whole, _ in extra], [part for _, part in extra])  # noqa: SLF001 - as torch's own optimizers do
        extra = [(torch.linalg.vector_norm(torch.stack(allowed), dim=0), 1.0)]
    whole, part = extra[0] if extra else (None, 0.0)
    return row_kernels.norms_and_shares(squares, whole, part, least, 1 / (longest * least), padding)
