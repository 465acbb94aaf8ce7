"""A look at what a training loop does to the first batches: padding is told by its place, and a sum from a mean."""

import warnings
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from inid.dpsgd.grad_sample.output_leaves import output_leaves
from inid.dpsgd.loss.nodes import Edge, reduction_of
from inid.dpsgd.sampling.batch_state import BatchState
from inid.errors import GuaranteeError


def watched(output: Any, met: Tensor | None, drawn: BatchState, *, mean: bool) -> Any:
    """The output of the model, after which a mean loss over the drawn examples alone is refused in the backward.

    Such a mean divides by their secret number. Rows in another order than the loader's are refused at once.

    Padding repeats the first drawn row, so a loss over all rows sends a gradient back to it whenever it does to that.
    """
    if (
        drawn.ahead or not drawn.to_be_watched
    ):  # of several batches that are out none is trained on: the backward refuses
        return output
    drawn.watched += 1
    mask = drawn.mask
    if not 0 < drawn.examples < len(drawn.placed):
        return output
    first = int(mask.nonzero()[0])
    if (
        met is not None
        and met.shape[0] == drawn.rows
        and _reordered(met, [each for each, _ in drawn.tensors], first, ~mask)
    ):
        raise GuaranteeError(
            "the rows of a physical batch were brought into another order, so that padding takes the place of examples "
            "and counts: sort in the collate_fn (places are given after it), or leave the order as it is."
        )

    def check(gradient: Tensor) -> None:
        if not drawn.quiet and bool(gradient[first].any()) and not bool(gradient[~mask.to(gradient.device)].any()):
            raise GuaranteeError(
                "the loss leaves the padding out, so that its mean divides by the secret number of drawn examples: "
                "take the mean over all rows (padding counts nowhere anyway), and keep drawn.mask for metrics."
            )

    for leaf in output_leaves(output) if mean else ():
        if isinstance(leaf, Tensor) and leaf.requires_grad and leaf.ndim and leaf.shape[0] == drawn.rows:
            leaf.register_hook(check)  # type: ignore[no-untyped-call]
    return output


def check_reduction(ends: Sequence[Edge], *, mean: bool) -> None:
    """Warn of a loss that adds up otherwise than `loss_reduction` says; the promise holds, but training suffers."""
    found = reduction_of(ends[0]) if len(ends) == 1 else None
    if found is not None and (found == "mean") is not mean:
        said = "mean" if mean else "sum"
        effect = "long, and nearly all are clipped" if mean else "short, and drown in noise"
        warnings.warn(
            f"the loss is a {found} over the rows and loss_reduction is {said!r}, so that gradients are as many times "
            f"too {effect}: pass loss_reduction={found!r} to make_private, or take the {said}.",
            stacklevel=2,
        )


@torch.no_grad()
def _reordered(met: Tensor, handed: Sequence[Tensor], first: int, padding: Tensor) -> bool:
    """Whether a row that should be padding is another of the rows that were handed out, maybe cut.

    Padding is copies of the first drawn row. What changes rows by themselves keeps the copies equal, or, at random,
    makes rows that nobody else has.
    """
    if any(met is each for each in handed):
        return False
    copies = met[padding.to(met.device)]
    if not bool((copies != met[first]).any()):
        return False
    for each in handed:
        if each.ndim != met.ndim or each.dtype != met.dtype:
            continue
        own = each[tuple(slice(size) for size in met.shape)].to(met.device)
        if own.shape != met.shape:
            continue
        others = (own != own[first]).flatten(1).any(1)
        moved = copies[(copies != own[first]).flatten(1).any(1)][:1]
        if len(moved) and bool(((own == moved).flatten(1).all(1) & others).any()):
            return True
    return False
