"""Losses that keep examples apart."""

from torch import Tensor
from torch.nn import functional

from inid.errors import ArgumentError


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
