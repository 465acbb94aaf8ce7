"""Losses that keep examples apart, and a look at those that leave padding out."""

from typing import Any

from torch import Tensor
from torch.nn import functional

from inid.dpsgd.call_plan import output_leaves
from inid.dpsgd.poisson_loader import Drawn
from inid.errors import ArgumentError, GuaranteeError

__all__ = ["per_example_loss", "to_be_watched", "watched"]

_WATCHED = 16  # physical batches with padding that are looked at: on a GPU each look waits for the backward


def per_example_loss(logits: Tensor, labels: Tensor, *, ignore_index: int = -100, shift: bool = False) -> Tensor:
    """The cross-entropy of each example: the mean over its own labels, whatever the others have.

    A mean over all labels of a batch divides by how many there are in all examples, so that one example changes the
    gradients of the others: that is what torch's `cross_entropy` does with `ignore_index`, and a Hugging Face model
    with `labels=`. Take the mean (or sum) of what this returns instead: `per_example_loss(logits, labels).mean()`.

    Args:
        logits: Shape (examples, classes), or (examples, positions, classes).
        labels: Shape (examples,), or (examples, positions).
        ignore_index: Labels that do not count; an example that has no other has a loss of 0.
        shift: For language models: each position predicts the next label.

    Returns:
        One loss per example.

    Raises:
        ArgumentError: The shapes do not fit.

    >>> import torch
    >>> logits, labels = torch.zeros(2, 3, 4), torch.tensor([[1, 2, -100], [0, 0, 0]])
    >>> per_example_loss(logits, labels).tolist() == [torch.tensor(4.0).log().item()] * 2
    True
    """
    if logits.ndim not in {2, 3} or logits.shape[:-1] != labels.shape:
        raise ArgumentError(
            f"logits of shape {tuple(logits.shape)} do not fit labels of shape {tuple(labels.shape)}: pass (examples, "
            "classes) with (examples,), or (examples, positions, classes) with (examples, positions)."
        )
    if logits.ndim == 2:
        logits, labels = logits.unsqueeze(1), labels.unsqueeze(1)
    if shift:
        logits, labels = logits[:, :-1], labels[:, 1:]
    losses = functional.cross_entropy(logits.mT, labels, ignore_index=ignore_index, reduction="none")
    counted = (labels != ignore_index).sum(1).clamp(min=1)
    return losses.sum(1) / counted


def to_be_watched(drawn: Drawn) -> bool:
    """Whether the batch that is out is among the first that have padding."""
    return 0 < drawn.examples * drawn.views < drawn.rows and drawn.watched < _WATCHED


def watched(output: Any, drawn: Drawn) -> Any:
    """The output of the model, after which a mean loss over the drawn examples alone is refused in the backward.

    Such a mean divides by their secret number.

    Padding repeats the first row, so a loss over all rows sends a gradient back to it whenever it does to that row.

    Args:
        output: What the model returned.
        drawn: What the loader handed out.
    """
    if not to_be_watched(drawn):
        return output
    drawn.watched += 1
    first = drawn.examples * drawn.views

    def check(gradient: Tensor) -> None:
        if bool(gradient[0].any()) and not bool(gradient[first:].any()):
            raise GuaranteeError(
                "the loss leaves the padding out, so that its mean divides by the secret number of drawn examples: "
                "take the mean over all rows (padding counts nowhere anyway), and keep drawn.mask for metrics."
            )

    for leaf in output_leaves(output):
        if isinstance(leaf, Tensor) and leaf.requires_grad and leaf.ndim and leaf.shape[0] == drawn.rows:
            leaf.register_hook(check)  # type: ignore[no-untyped-call]
    return output
