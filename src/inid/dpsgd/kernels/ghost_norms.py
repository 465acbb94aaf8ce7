"""Norms, rounded upwards, and weighted sums of per-sample gradients that are never written down.

**Setting.** A weight that an example meets at positions t = 1..T has the gradient G = sum_t g_t a_t^T, for the inputs
a_t and the gradients g_t of the outputs *as they are stored*: norm and sum read the same numbers, and whether the
layer saw them is of no account. Let |.| be the Euclidean norm and S = sum_t |g_t| |a_t|, computed with lengths that
are rounded up and have a floor (see `rounding`), so that a dot product is off by at most `accumulated` times
both lengths.

**Gram.** |G|^2 = sum_{t,s} (a_t . a_s) (g_t . g_s). Let A and B be the computed dot products, off by at most x
|a_t||a_s| and y |g_t||g_s|. A product AB is off by (x + y + x y) |a_t||a_s||g_t||g_s|, and adding T^2 of them in
float64 by a relative z = T^2 2^-52 of their absolute values. Since sum_{t,s} |a_t||a_s||g_t||g_s| = S^2,

    |G|^2 <= Q + kappa S^2,     kappa = (1 + x) (1 + y) (1 + z) - 1.

Positions may cancel, so that |G| is far below S: the error is relative to S, never to Q.

**Direct.** The product P = sum_t g_t a_t^T, computed and squared at once, is off by at most gamma |g_t||a_t| summed, so
|G| <= |P| + gamma S. Its own squares are positive and added in float64: 1 + 2^-30 covers them.

**Sum.** What the example adds to the sum is K = sum_t h_t b_t^T, where h_t is f g_t rounded to the stored type and
b_t is a_t as the product reads it. Then |K - f G| <= f u S with u = (1 + unit) (1 + arguments)^2 (1 + accumulated(T))
- 1: the last factor is the rounding of the example's own T terms in the accumulator. (What other examples in the same
accumulator do to its rounding is the floating-point error of the sum, on which `noise="torch"` rests anyway.)

**Others.** Terms that cancel may be far longer than the threshold: f S could be 1 / u, which is 2^22 / (T + 16) in
float32. Where a kernel splits the positions of one example between two accumulators (at the edge of a block, or of a
part of the sum that other threads add), the terms of others that follow are rounded in units of what stands there: M
terms by up to M 2^-24 f S, M 2^-53 f S in float64. So f S <= 256 in every type, as it is in bfloat16 through its unit:
a norm is taken to be at least S / 256.

**Claim.** For parts l = 1..L of one gradient (the layers under one threshold), with n_l^2 the bound of the first kind
(Q + kappa S^2, or |P|^2) and e_l = (gamma_l + u_l) S_l, the contribution to the sum has the norm

    |K| <= f ( sqrt(sum_l n_l^2) + sqrt(sum_l e_l^2) ):

|K_l| <= f (n_l + e_l) for every l, and the Euclidean norm of a sum of two vectors (n_l)_l + (e_l)_l is at most the
sum of theirs. So f = C / (that) keeps |K| <= C. A number f g_t below 2^-126 may become zero: that adds at most T
sqrt(d_out) 2^-126 max|a_t| <= T sqrt(d_out) 2^-66 to a contribution scaled to length 1, which the margin of
`clipped_sums` holds. For that, inputs and gradients longer than 2^60 count as infinite, and so does what is not a
number.

**Tied weights.** Uses of one weight are positions of one gradient: concatenate them. A table (whose gradient is sum_t
e_t on line k_t) that is also an output layer has |E + G|^2 = |E|^2 + |G|^2 + 2 sum_{t,s} (e_t . a_s) g_s[k_t], with
|g_s[k]| <= |g_s|: the cross terms are off by at most kappa' S_E S_G each way.

**Weighted sums** are one product over all examples and positions. A factor of 0 (an example that is not finite, or
padding) leaves the example out whatever its numbers are: they are replaced, not multiplied, since infinity times zero
is not a number. The factor stays in the sums' own precision; its product with a gradient is rounded once, to the
gradient's type.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from inid.dpsgd.kernels import ghost_kernels
from inid.dpsgd.kernels.rounding import accumulated, argument_rounding, chunked, floor_of, rounded_product

# Longer inputs and gradients count as infinite.
_MOST_LENGTH = 2.0**60

# Columns whose products are added in float32 before float64 takes over: few, so that kappa is small, where S^2 counts
# for more than it costs (bfloat16 has an allowance that dwarfs kappa).
CHUNKS = {torch.bfloat16: 512, torch.float16: 512, torch.float32: 128, torch.float64: 2**20}

_SLICE = 2**26  # entries of a product that are written down at a time


def lengths(vectors: Tensor) -> Tensor:
    """Upper bounds on the lengths of vectors (the last dimension), in float64; infinite where one is not to be used."""
    kind = torch.float64 if vectors.dtype == torch.float64 else torch.float32
    norms = torch.linalg.vector_norm(vectors, dim=-1, dtype=kind).double()
    norms = norms.mul_(1 + accumulated(vectors.shape[-1] + 2, kind)).add_(floor_of(vectors))
    return torch.where(norms <= _MOST_LENGTH, norms, torch.inf)


def absolute_sum(inputs: Tensor, gradients: Tensor) -> Tensor:
    """S: an upper bound on sum_t |g_t| |a_t| for every example."""
    return (lengths(inputs) * lengths(gradients)).sum(1) * (1 + 2.0**-30)


def products(left: Tensor, right: Tensor) -> Tensor:
    """The product of batches of matrices, or of two, accumulated in float32 (float64 for float64) and left so."""
    if left.dtype not in {torch.bfloat16, torch.float16}:
        return left @ right
    if left.dtype == torch.bfloat16 and left.is_cuda:
        return (torch.bmm if left.ndim == 3 else torch.mm)(left, right, out_dtype=torch.float32)
    return left.float() @ right.float()


def gram_bound(inputs: Tensor, gradients: Tensor) -> tuple[Tensor, Tensor]:
    """(Q + kappa S^2, S) by dot products between positions, for every example, in float64."""
    if argument_rounding(inputs.dtype):  # relative to S^2, arguments that are rounded would cost a root of their error
        inputs, gradients = inputs.double(), gradients.double()
    positions, last = inputs.shape[1], (inputs.shape[2], gradients.shape[2])
    if ghost_kernels.usable(inputs, gradients):
        return ghost_kernels.gram(inputs, gradients, _MOST_LENGTH)
    absolute = absolute_sum(inputs, gradients)
    total = (_dots(inputs) * _dots(gradients)).sum((1, 2))
    x, y = (chunked(size, CHUNKS[inputs.dtype], inputs.dtype) for size in last)
    kappa = (1 + x) * (1 + y) * (1 + positions**2 * 2.0**-52) - 1
    return _up(total.clamp_min(0.0), kappa, absolute), absolute


def _up(square: Tensor, kappa: float, absolute: Tensor) -> Tensor:
    """Square + kappa * S^2, infinite where either is not a number that one can use."""
    total = (square + kappa * absolute.square()) * (1 + 2.0**-40)
    return torch.where(torch.isfinite(absolute) & torch.isfinite(total), total, torch.inf)


def _dots(vectors: Tensor) -> Tensor:
    """Dot products between the positions of each example: chunks of columns, whose products are added in float64."""
    dots: Tensor | None = None
    for chunk in torch.split(vectors, CHUNKS[vectors.dtype], dim=2):
        chunk_dots = products(chunk, chunk.mT).double()
        dots = chunk_dots if dots is None else dots.add_(chunk_dots)
    assert dots is not None  # noqa: S101 - for the type checker: a layer has inputs
    return dots


def direct_bound(inputs: Tensor, gradients: Tensor) -> tuple[Tensor, Tensor, float]:
    """(|P|^2, S, gamma) by the product itself, a few examples at a time."""
    gamma = rounded_product(0.0, argument_rounding(inputs.dtype), accumulated(inputs.shape[1], inputs.dtype))
    if ghost_kernels.usable(inputs, gradients):
        return *ghost_kernels.direct(inputs, gradients, _MOST_LENGTH), gamma
    absolute = absolute_sum(inputs, gradients)
    few = max(1, _SLICE // (inputs.shape[2] * gradients.shape[2]))
    squares = [
        torch.linalg.vector_norm(products(gradient.mT, input_part), dim=(1, 2), dtype=torch.float64).square_()
        for gradient, input_part in zip(torch.split(gradients, few), torch.split(inputs, few), strict=True)
    ]
    total = torch.cat(squares) * (1 + 2.0**-30)
    return _up(total, 0.0, absolute), absolute, gamma


def table_bound(tokens: Tensor, gradients: Tensor) -> tuple[Tensor, Tensor]:
    """(Q + kappa S^2, S) of a table's gradient, sum_t e_t on line k_t, where lines may occur many times.

    The dot products are taken in float64, so that lines whose gradients cancel keep their digits.
    """
    used = tokens >= 0
    absolutes = torch.where(used, lengths(gradients), 0.0)
    wide = gradients.double()
    same = (tokens[:, :, None] == tokens[:, None, :]) & used[:, :, None]
    squares = torch.where(same, wide @ wide.mT, 0.0)
    kappa = accumulated(gradients.shape[2] + tokens.shape[1] ** 2, torch.float64)
    if ghost_kernels.boundable(absolutes):
        return ghost_kernels.bounded(squares.flatten(1), absolutes, kappa)
    absolute, total = absolutes.sum(1) * (1 + 2.0**-30), squares.sum((1, 2))
    return _up(total.clamp_min(0.0), kappa, absolute), absolute


def tied_bound(tokens: Tensor, table: Tensor, inputs: Tensor, gradients: Tensor, bounds: tuple[Tensor, ...]) -> Tensor:
    """An upper bound on the squared norm of a weight that is a table and an output layer at once."""
    square_e, absolute_e, square_g, absolute_g = bounds
    dots = table.double() @ inputs.double().mT  # e_t . a_s
    lines = tokens.clamp_min(0)[:, None, :].expand(-1, gradients.shape[1], -1)
    tied = gradients.gather(2, lines).mT.double()  # g_s[k_t]
    cross = torch.where((tokens >= 0)[:, :, None], dots * tied, 0.0).sum((1, 2))
    kappa = accumulated(table.shape[2] + 2 + dots.shape[1] * dots.shape[2], torch.float64)
    total = square_e + square_g + 2 * cross
    off = torch.where(torch.isfinite(total), total.clamp_min(0.0), torch.inf)
    return _up(off, 2 * kappa, (absolute_e * absolute_g).sqrt())


_TOGETHER = 2**26  # numbers of several sums that are written down before they are added to their places


def folded(vectors: Tensor, factors: Tensor, *, scaled: bool) -> Tensor:
    """Each example's vectors times its factor (or as they are), zero where the factor is; one row per position."""
    if ghost_kernels.foldable(vectors):
        return ghost_kernels.folded(vectors, factors.float(), scaled=scaled)
    column = factors[:, None, None]
    if not vectors.is_cuda and bool((factors != 0).all()):  # nothing to leave out; to look would make a GPU wait
        scaled_vectors = torch.mul(vectors, column, out=torch.empty_like(vectors)) if scaled else vectors
    else:
        scaled_vectors = torch.where(column != 0, vectors * column if scaled else vectors, 0.0).to(vectors.dtype)
    return scaled_vectors.flatten(0, 1)


def weighted_product(inputs: Tensor, gradients: Tensor, factors: Tensor) -> Tensor:
    """The sum over examples of factors[i] sum_t g_t a_t^T, flat, in float32 (float64 for float64)."""
    left, right = folded(gradients, factors, scaled=True), folded(inputs, factors, scaled=False)
    return products(left.mT, right).flatten()


def add_products(places: Sequence[Tensor], inputs: Tensor, gradients: Tensor, factors: Tensor, limit: float) -> bool:
    """Add `limit` times what `weighted_product` gives to a place, in one call where a GPU can; says whether it did.

    With several places, as many equal stretches of examples have their sums added, each to its own place. A product
    adds to what stands there after its own sum, so that roundings are those of the two steps apart.
    """
    known = inputs.dtype == gradients.dtype == torch.bfloat16 and places[0].dtype == torch.float32
    if not known or not ghost_kernels.foldable(gradients):
        return False
    left, right = ghost_kernels.folded_pair(gradients, inputs, factors.float())
    several, numbers = len(places), left.shape[1] * right.shape[1]
    if several > 1 and several * numbers <= _TOGETHER:  # one launch in place of many
        product = products(left.view(several, -1, left.shape[1]).mT, right.view(several, -1, right.shape[1]))
        torch._foreach_add_(list(places), list(product.flatten(1).unbind()), alpha=limit)  # as torch's own do
        return True
    for place, back, right_part in zip(places, left.chunk(several), right.chunk(several), strict=True):
        matrix = place.view(left.shape[1], right.shape[1])
        torch.addmm(matrix, back.mT, right_part, out_dtype=torch.float32, beta=1, alpha=limit, out=matrix)
    return True


def table_sum(tokens: Tensor, gradients: Tensor, factors: Tensor, height: int) -> Tensor:
    """The sum over examples of factors[i] e_t on line k_t of a table, flat; negative lines are left out."""
    vectors = folded(gradients, factors, scaled=True).to(factors.dtype)
    lines = tokens.flatten()
    vectors = torch.where((lines >= 0)[:, None], vectors, 0.0)
    table = vectors.new_zeros(height, vectors.shape[1])
    return table.index_add_(0, lines.clamp_min(0), vectors).flatten()
