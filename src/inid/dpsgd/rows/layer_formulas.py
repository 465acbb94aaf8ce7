"""Per-example gradients of the layers of torch, by formulas.

Each function takes a layer, its input and the gradient that flows back to its output, batch first, and gives the rows
of its parameters by name; `layers` says which layer has which. For what has no formula here see `layers_without_rule`.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional

from inid.dpsgd.kernels import row_kernels
from inid.dpsgd.rows.convolution_rows import convolution_rows
from inid.dpsgd.rows.gradient_rows import Dense, Outer, Rows, Spread

__all__ = [
    "convolution",
    "embedding",
    "group_norm",
    "instance_norm",
    "layer_norm",
    "linear",
    "rms_norm",
    "transposed_linear",
]

_WIDEST = 2**13  # what a program of a layer normalisation holds at a time


def linear(layer: nn.Module, inputs: Tensor, gradients: Tensor) -> dict[str, Rows]:
    """Y = x W^T + b, over any number of positions."""
    rows = {"weight": _linear_rows(inputs, gradients)}
    return rows if layer.bias is None else {**rows, "bias": _bias_rows(gradients)}


def transposed_linear(_layer: nn.Module, inputs: Tensor, gradients: Tensor) -> dict[str, Rows]:
    """GPT-2's `Conv1D`: a linear layer whose weight is stored transposed."""
    return {"weight": _linear_rows(gradients, inputs), "bias": _bias_rows(gradients)}


def _linear_rows(inputs: Tensor, gradients: Tensor) -> Rows:
    """The rows of the weight W of y = x W^T, over any number of positions."""
    if inputs.ndim == 2:
        return Outer(gradients, inputs)
    inputs, gradients = inputs.flatten(1, -2), gradients.flatten(1, -2)
    return Dense((gradients.mT @ inputs).flatten(1))


def _bias_rows(gradients: Tensor) -> Rows:
    return Dense(gradients if gradients.ndim == 2 else gradients.flatten(1, -2).sum(1))


def convolution(layer: nn.Module, inputs: Tensor, gradients: Tensor) -> dict[str, Rows]:
    """Convolutions of one or two dimensions."""
    assert isinstance(layer, (nn.Conv1d, nn.Conv2d))  # noqa: S101 - for the type checker: the table of rules says so
    around = layer._reversed_padding_repeated_twice  # noqa: SLF001 - the layer's own padding
    padded = functional.pad(inputs, around) if any(around) else inputs
    if isinstance(layer, nn.Conv1d):
        padded, planes = padded.unsqueeze(2), gradients.unsqueeze(2)
        kernel, stride, dilation = (1, *layer.kernel_size), (1, *layer.stride), (1, *layer.dilation)
    else:
        planes, kernel, stride, dilation = gradients, layer.kernel_size, layer.stride, layer.dilation
    if row_kernels.usable(planes, len(planes) * layer.groups):
        whole, squares = row_kernels.convolution_rows(padded, planes, kernel, stride, dilation, layer.groups)
        made: dict[str, Rows] = {"weight": Dense(whole, squares=squares)}
    else:
        made = {"weight": convolution_rows(padded, planes, kernel, stride, dilation, layer.groups)}
    return made if layer.bias is None else {**made, "bias": Dense(gradients.flatten(2).sum(2))}


def _channel_norm(normalised: Tensor, gradients: Tensor) -> dict[str, Rows]:
    """Weight and bias per channel: group and instance normalisation."""
    normalised, gradients = (entry.reshape(*entry.shape[:2], -1) for entry in (normalised, gradients))
    return {"weight": Dense((gradients * normalised).sum(2)), "bias": Dense(gradients.sum(2))}


def group_norm(layer: nn.Module, inputs: Tensor, gradients: Tensor) -> dict[str, Rows]:
    """Group normalisation."""
    assert isinstance(layer, nn.GroupNorm)  # noqa: S101 - as above
    if row_kernels.usable(gradients, len(gradients)):
        weight, bias = row_kernels.group_norm_rows(inputs, gradients, layer.num_groups, layer.eps)
        return {"weight": Dense(weight), "bias": Dense(bias)}
    return _channel_norm(torch.group_norm(inputs, layer.num_groups, eps=layer.eps), gradients)


def instance_norm(layer: nn.Module, inputs: Tensor, gradients: Tensor) -> dict[str, Rows]:
    """Instance normalisation."""
    return _channel_norm(functional.instance_norm(inputs, eps=float(layer.eps)), gradients)  # type: ignore[arg-type]


def _entry_norm(normalised: Tensor, gradients: Tensor, size: int) -> dict[str, Rows]:
    """Weight and bias per entry of the trailing dimensions: layer and root-mean-square normalisation."""
    gradients, normalised = (entry.reshape(entry.shape[0], -1, size) for entry in (gradients, normalised))
    return {"weight": Dense((gradients * normalised).sum(1)), "bias": Dense(gradients.sum(1))}


def layer_norm(layer: nn.Module, inputs: Tensor, gradients: Tensor) -> dict[str, Rows]:
    """Layer normalisation."""
    assert isinstance(layer, nn.LayerNorm)  # noqa: S101 - as above
    if layer.weight.numel() <= _WIDEST and row_kernels.usable(gradients, len(gradients)):
        weight, bias = row_kernels.layer_norm_rows(inputs, gradients, layer.weight.numel(), layer.eps)
        return {"weight": Dense(weight), "bias": Dense(bias)}
    normalised = functional.layer_norm(inputs, layer.normalized_shape, eps=layer.eps)
    return _entry_norm(normalised, gradients, layer.weight.numel())


def rms_norm(layer: nn.Module, inputs: Tensor, gradients: Tensor) -> dict[str, Rows]:
    """Root-mean-square normalisation."""
    assert isinstance(layer, nn.RMSNorm)  # noqa: S101 - as above
    normalised = functional.rms_norm(inputs, layer.normalized_shape, eps=layer.eps)
    return _entry_norm(normalised, gradients, layer.weight.numel())


def embedding(layer: nn.Module, inputs: Tensor, gradients: Tensor) -> dict[str, Rows]:
    """A table of vectors; rows name the entries that an example looked up."""
    assert isinstance(layer, nn.Embedding)  # noqa: S101 - as above
    tokens = inputs.reshape(inputs.shape[0], -1)
    flat = gradients.reshape(*tokens.shape, -1)
    return {"weight": Spread.gathered(tokens, flat, layer.num_embeddings, layer.padding_idx)}
