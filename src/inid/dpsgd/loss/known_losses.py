"""Losses that are known to keep rows apart: run for all rows at once, at the speed of a loss over flattened rows."""

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

from torch import Tensor, nn
from torch.nn import functional

from inid.errors import ArgumentError, GuaranteeError

_ELEMENTWISE: dict[Any, Callable[..., Tensor]] = {
    nn.MSELoss: functional.mse_loss,
    nn.L1Loss: functional.l1_loss,
    nn.SmoothL1Loss: functional.smooth_l1_loss,
    nn.HuberLoss: functional.huber_loss,
    nn.BCELoss: functional.binary_cross_entropy,
    nn.BCEWithLogitsLoss: functional.binary_cross_entropy_with_logits,
}
_LOSSES: dict[Any, Callable[..., Tensor]] = {nn.CrossEntropyLoss: functional.cross_entropy} | _ELEMENTWISE


def per_example_loss(logits: Tensor, labels: Tensor, *, ignore_index: int = -100, shift: bool = False) -> Tensor:
    """The cross-entropy of each example: the mean over its own labels, whatever the others have.

    A mean over all labels of a batch divides by how many there are in all examples, so that one example changes the
    gradients of the others: that is what torch's `cross_entropy` does with `ignore_index`, and a Hugging Face model
    with `labels=`. Pass this function to `private.backward`, or `functools.partial(per_example_loss, shift=True)`.

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
    if shift:  # of the labels, which are small
        labels = functional.pad(labels[:, 1:], (0, 1), value=ignore_index)
    return _cross_entropy(logits, labels, ignore_index=ignore_index)


def known_loss(loss_fn: Callable[..., Any], outputs: Any, targets: tuple[Any, ...]) -> Tensor | None:
    """The losses of all rows at once, as `loss_fn` has them for each; None of a function that is not known."""
    settings: dict[str, Any] = {}
    function: Any = loss_fn
    if isinstance(function, partial) and not function.args:
        function, settings = function.func, function.keywords
    if type(function) in _LOSSES:
        names = inspect.signature(_LOSSES[type(function)]).parameters
        settings = {name: getattr(function, name) for name in names if hasattr(function, name)}
        function = _LOSSES[type(function)]
    target = targets[0] if len(targets) == 1 else None
    if not isinstance(outputs, Tensor) or not isinstance(target, Tensor):
        return None
    if function is per_example_loss:
        made: Tensor = per_example_loss(outputs, target, **settings)
        return made
    if function is functional.cross_entropy and not {"size_average", "reduce"} & settings.keys():
        check_weights(outputs[0], target[0], **settings)
        if settings.get("reduction", "mean") not in {"mean", "sum"} or outputs.ndim not in {2, 3}:
            return None
        if target.shape in {outputs.shape, outputs.shape[:-1]}:
            whole = (outputs, target) if outputs.ndim == 3 else (outputs.unsqueeze(1), target.unsqueeze(1))
            return _cross_entropy(*whole, **settings)
    if function in _ELEMENTWISE.values() and outputs.shape == target.shape and outputs.ndim > 1:
        return _elementwise(function, outputs, target, **settings)
    return None


def check_weights(_input: Tensor, target: Tensor, weight: Tensor | None = None, *_: Any, **settings: Any) -> None:
    """Refuse class weights in the mean over a single label, where they cancel."""
    if weight is not None and settings.get("reduction", "mean") == "mean" and target.ndim == 0:
        raise GuaranteeError(
            "class weights cancel in the mean over one target, which divides by its weight: pass reduction='sum'."
        )


def _cross_entropy(
    logits: Tensor, labels: Tensor, weight: Tensor | None = None, reduction: str = "mean", **settings: Any
) -> Tensor:
    """Of logits by rows, positions and classes. Over a stride, as `logits.mT` has it, torch's softmax is slow."""
    flat = labels.flatten(0, 1)
    losses = functional.cross_entropy(logits.flatten(0, 1), flat, weight=weight, reduction="none", **settings)
    losses = losses.view(logits.shape[:2]).sum(1)
    if reduction != "mean":
        return losses
    if flat.is_floating_point():  # probabilities
        return losses / labels.shape[1]
    counted = labels != settings.get("ignore_index", -100)
    shares = counted if weight is None else weight[labels.where(counted, 0)] * counted
    total = shares.sum(1)
    made: Tensor = losses / total.where(total > 0, 1)
    return made


def _elementwise(
    function: Callable[..., Tensor], outputs: Tensor, target: Tensor, reduction: str = "mean", **settings: Any
) -> Tensor | None:
    tensors = [each for each in settings.values() if isinstance(each, Tensor)]
    if reduction not in {"mean", "sum"} or any(each.ndim >= outputs.ndim for each in tensors):
        return None
    losses = function(outputs, target, reduction="none", **settings).flatten(1)
    return losses.mean(1) if reduction == "mean" else losses.sum(1)
