"""Weighted sums of gradients that are never written down: one product over all examples and positions.

A factor of 0 (an example that is not finite, or padding) leaves the example out whatever its numbers are: they are
replaced, not multiplied, since infinity times zero is not a number. The factor stays in the sums' own precision; its
product with a gradient is rounded once, to the gradient's type (see `fused_norms`).
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from inid.dpsgd.kernels import fused_kernels
from inid.dpsgd.kernels.fused_norms import products

__all__ = ["add_products", "folded", "table_sum", "weighted_product"]

_TOGETHER = 2**26  # numbers of several sums that are written down before they are added to their places


def folded(vectors: Tensor, factors: Tensor, *, scaled: bool) -> Tensor:
    """Each example's vectors times its factor (or as they are), zero where the factor is; one row per position.

    Args:
        vectors: Shape (examples, positions, size).
        factors: One per example.
        scaled: Whether to multiply.

    >>> folded(torch.tensor([[[2.0]], [[float("nan")]]]), torch.tensor([0.5, 0.0]), scaled=True).tolist()
    [[1.0], [0.0]]
    """
    if fused_kernels.foldable(vectors):
        return fused_kernels.folded(vectors, factors.float(), scaled=scaled)
    column = factors[:, None, None]
    if not vectors.is_cuda and bool((factors != 0).all()):  # nothing to leave out; to look would make a GPU wait
        made = torch.mul(vectors, column, out=torch.empty_like(vectors)) if scaled else vectors
    else:
        made = torch.where(column != 0, vectors * column if scaled else vectors, 0.0).to(vectors.dtype)
    return made.flatten(0, 1)


def weighted_product(inputs: Tensor, gradients: Tensor, factors: Tensor) -> Tensor:
    """The sum over examples of factors[i] sum_t g_t a_t^T, flat, in float32 (float64 for float64).

    >>> a, g = torch.ones(2, 3, 2), torch.ones(2, 3, 1)
    >>> weighted_product(a, g, torch.tensor([1.0, 0.5])).tolist()
    [4.5, 4.5]
    """
    left, right = folded(gradients, factors, scaled=True), folded(inputs, factors, scaled=False)
    return products(left.mT, right).flatten()


def add_products(places: Sequence[Tensor], inputs: Tensor, gradients: Tensor, factors: Tensor, limit: float) -> bool:
    """Add `limit` times what `weighted_product` gives to a place, in one call where a GPU can; says whether it did.

    With several places, as many equal stretches of examples have their sums added, each to its own place. A product
    adds to what stands there after its own sum, so that roundings are those of the two steps apart.
    """
    known = inputs.dtype == gradients.dtype == torch.bfloat16 and places[0].dtype == torch.float32
    if not known or not fused_kernels.foldable(gradients):
        return False
    left, right = fused_kernels.folded_pair(gradients, inputs, factors.float())
    several, numbers = len(places), left.shape[1] * right.shape[1]
    if several > 1 and several * numbers <= _TOGETHER:  # one launch in place of many
        made = products(left.view(several, -1, left.shape[1]).mT, right.view(several, -1, right.shape[1]))
        torch._foreach_add_(list(places), list(made.flatten(1).unbind()), alpha=limit)  # as torch's own do
        return True
    for place, back, met in zip(places, left.chunk(several), right.chunk(several), strict=True):
        whole = place.view(left.shape[1], right.shape[1])
        torch.addmm(whole, back.mT, met, out_dtype=torch.float32, beta=1, alpha=limit, out=whole)
    return True


def table_sum(tokens: Tensor, gradients: Tensor, factors: Tensor, height: int) -> Tensor:
    """The sum over examples of factors[i] e_t on line k_t of a table, flat; negative lines are left out.

    >>> table_sum(torch.tensor([[1, 1, -1]]), torch.ones(1, 3, 1), torch.tensor([0.5]), 3).tolist()
    [0.0, 1.0, 0.0]
    """
    rows = folded(gradients, factors, scaled=True).to(factors.dtype)
    lines = tokens.flatten()
    rows = torch.where((lines >= 0)[:, None], rows, 0.0)
    table = rows.new_zeros(height, rows.shape[1])
    return table.index_add_(0, lines.clamp_min(0), rows).flatten()
