"""Per-example gradients of the layers that have a formula of their own.

Each function takes a layer, its input and the gradient that flows back to its output, batch first, and gives the rows
of its parameters by name. What is not here is differentiated example by example (see `vmap_gradients`).
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

from inid.dpsgd import gpu_kernels
from inid.dpsgd.gradient_rows import Dense, Outer, Rows, Spread

__all__ = ["Formula", "formula_of", "has_batch"]

Formula = Callable[[nn.Module, Tensor, Tensor], dict[str, Rows]]
Sizes = tuple[int, ...]


def formula_of(layer: nn.Module) -> Formula | None:
    """The formula of a layer, or None where torch.func has to do the work.

    >>> formula_of(nn.Linear(2, 3)) is not None, formula_of(nn.LSTM(2, 3)) is None
    (True, True)
    """
    # A subclass may compute something else, and so may a layer whose weight is made from other parameters.
    found = _FORMULAS.get(type(layer))
    plain = set(layer._parameters) <= {"weight", "bias"} and not any(layer.children())  # noqa: SLF001 - no other way
    # A hook or a replaced forward may change what the layer computes.
    touched = bool(layer._forward_hooks) or "forward" in vars(layer)  # noqa: SLF001 - the same
    if found is None or not plain or touched or not isinstance(getattr(layer, "weight", None), nn.Parameter):
        return None
    if isinstance(layer, (nn.Conv1d, nn.Conv2d)) and layer.padding_mode != "zeros":
        return None
    if isinstance(layer, nn.Embedding) and (layer.scale_grad_by_freq or layer.sparse):
        return None
    return found


def has_batch(layer: nn.Module, inputs: Tensor) -> bool:
    """Whether a layer with a formula takes the first dimension of its input for the examples.

    Some layers also take a single example without that dimension, and would mix a batch that looks like one.

    >>> layer = nn.Conv1d(3, 4, 2)
    >>> has_batch(layer, torch.zeros(3, 3, 5)), has_batch(layer, torch.zeros(3, 5))
    (True, False)
    """
    if isinstance(layer, (nn.LayerNorm, nn.RMSNorm)):
        return inputs.ndim > len(layer.normalized_shape)
    wanted = _DIMENSIONS.get(type(layer))
    return inputs.ndim == wanted if wanted else inputs.ndim > (not isinstance(layer, nn.Embedding))


def _linear(layer: nn.Module, inputs: Tensor, gradients: Tensor) -> dict[str, Rows]:
    if inputs.ndim == 2:
        rows: dict[str, Rows] = {"weight": Outer(gradients, inputs)}
        return rows if layer.bias is None else {**rows, "bias": Dense(gradients)}
    inputs, gradients = inputs.flatten(1, -2), gradients.flatten(1, -2)
    rows = {"weight": Dense((gradients.mT @ inputs).flatten(1))}
    return rows if layer.bias is None else {**rows, "bias": Dense(gradients.sum(1))}


def _convolution(layer: nn.Module, inputs: Tensor, gradients: Tensor) -> dict[str, Rows]:
    assert isinstance(layer, (nn.Conv1d, nn.Conv2d))  # noqa: S101 - for the type checker: the table of formulas says so
    padded = functional.pad(inputs, layer._reversed_padding_repeated_twice)  # noqa: SLF001 - the layer's own padding
    if isinstance(layer, nn.Conv1d):
        padded, planes = padded.unsqueeze(2), gradients.unsqueeze(2)
        kernel, stride, dilation = (1, *layer.kernel_size), (1, *layer.stride), (1, *layer.dilation)
    else:
        planes, kernel, stride, dilation = gradients, layer.kernel_size, layer.stride, layer.dilation
    if gpu_kernels.usable(planes, len(planes) * layer.groups):
        whole, squares = gpu_kernels.convolution_rows(padded, planes, kernel, stride, dilation, layer.groups)
        rows = Dense(whole, squares=squares)
    else:
        rows = _in_torch(padded, planes, kernel, stride, dilation, layer.groups)
    made: dict[str, Rows] = {"weight": rows}
    return made if layer.bias is None else {**made, "bias": Dense(gradients.flatten(2).sum(2))}


def _in_torch(padded: Tensor, planes: Tensor, kernel: Sizes, stride: Sizes, dilation: Sizes, groups: int) -> Dense:
    # Windows written down whole are nine times the input for a 3 x 3 kernel; lines of windows three times, for one more
    # product per line of the kernel, which pays unless planes are small.
    lines = stride[0] == 1 and planes.shape[2] * planes.shape[3] >= padded.shape[1]
    return (_by_lines if lines else _by_windows)(padded, planes, kernel, stride, dilation, groups)


def _by_windows(padded: Tensor, planes: Tensor, kernel: Sizes, stride: Sizes, dilation: Sizes, groups: int) -> Dense:
    size = (*padded.shape[:2], *kernel, *planes.shape[2:])
    examples, channels, rows, columns = padded.stride()
    steps = (rows * dilation[0], columns * dilation[1], rows * stride[0], columns * stride[1])
    met = padded.as_strided(size, (examples, channels, *steps))  # what each entry of the kernel met
    pieces = planes.reshape(len(planes) * groups, planes.shape[1] // groups, -1)
    windows = met.reshape(pieces.shape[0], size[1] // groups * kernel[0] * kernel[1], -1)
    return Dense((pieces @ windows.mT).reshape(len(planes), -1))


def _by_lines(padded: Tensor, planes: Tensor, kernel: Sizes, stride: Sizes, dilation: Sizes, groups: int) -> Dense:
    count, outputs, height, width = planes.shape
    examples, channels, rows, columns = padded.stride()
    size = (*padded.shape[:2], kernel[1], padded.shape[2], width)
    met = padded.as_strided(size, (examples, channels, columns * dilation[1], rows, columns * stride[1]))
    flat = met.reshape(count * groups, size[1] // groups * kernel[1], -1)
    pieces = planes.reshape(count * groups, outputs // groups, -1)
    made = pieces.new_empty(count * groups, kernel[0], outputs // groups, flat.shape[1])
    for line in range(kernel[0]):
        start = line * dilation[0] * width
        torch.bmm(pieces, flat[:, :, start : start + height * width].mT, out=made[:, line])
    # To bring the rows into the weight's own order would be to copy them all; it is done to their sum.
    stored = (groups, kernel[0], outputs // groups, size[1] // groups, kernel[1])
    return Dense(made.view(count, -1), stored, (0, 2, 3, 1, 4))


def _channel_norm(normalised: Tensor, gradients: Tensor) -> dict[str, Rows]:
    """Weight and bias per channel: group and instance normalisation."""
    normalised, gradients = (entry.reshape(*entry.shape[:2], -1) for entry in (normalised, gradients))
    return {"weight": Dense((gradients * normalised).sum(2)), "bias": Dense(gradients.sum(2))}


def _group_norm(layer: nn.Module, inputs: Tensor, gradients: Tensor) -> dict[str, Rows]:
    assert isinstance(layer, nn.GroupNorm)  # noqa: S101 - as above
    if gpu_kernels.usable(gradients, len(gradients)):
        weight, bias = gpu_kernels.group_norm_rows(inputs, gradients, layer.num_groups, layer.eps)
        return {"weight": Dense(weight), "bias": Dense(bias)}
    return _channel_norm(torch.group_norm(inputs, layer.num_groups, eps=layer.eps), gradients)


def _instance_norm(layer: nn.Module, inputs: Tensor, gradients: Tensor) -> dict[str, Rows]:
    return _channel_norm(functional.instance_norm(inputs, eps=float(layer.eps)), gradients)  # type: ignore[arg-type]


def _entry_norm(normalised: Tensor, gradients: Tensor, size: int) -> dict[str, Rows]:
    """Weight and bias per entry of the trailing dimensions: layer and root-mean-square normalisation."""
    gradients, normalised = (entry.reshape(entry.shape[0], -1, size) for entry in (gradients, normalised))
    return {"weight": Dense((gradients * normalised).sum(1)), "bias": Dense(gradients.sum(1))}


def _layer_norm(layer: nn.Module, inputs: Tensor, gradients: Tensor) -> dict[str, Rows]:
    assert isinstance(layer, nn.LayerNorm)  # noqa: S101 - as above
    normalised = functional.layer_norm(inputs, layer.normalized_shape, eps=layer.eps)
    return _entry_norm(normalised, gradients, layer.weight.numel())


def _rms_norm(layer: nn.Module, inputs: Tensor, gradients: Tensor) -> dict[str, Rows]:
    assert isinstance(layer, nn.RMSNorm)  # noqa: S101 - as above
    normalised = functional.rms_norm(inputs, layer.normalized_shape, eps=layer.eps)
    return _entry_norm(normalised, gradients, layer.weight.numel())


def _embedding(layer: nn.Module, inputs: Tensor, gradients: Tensor) -> dict[str, Rows]:
    assert isinstance(layer, nn.Embedding)  # noqa: S101 - as above
    tokens = inputs.reshape(inputs.shape[0], -1)
    flat = gradients.reshape(*tokens.shape, -1)
    return {"weight": Spread.gathered(tokens, flat, layer.num_embeddings, layer.padding_idx)}


_FORMULAS: dict[type[nn.Module], Formula] = {
    nn.Linear: _linear,
    nn.Conv1d: _convolution,
    nn.Conv2d: _convolution,
    nn.GroupNorm: _group_norm,
    nn.InstanceNorm1d: _instance_norm,
    nn.InstanceNorm2d: _instance_norm,
    nn.LayerNorm: _layer_norm,
    nn.RMSNorm: _rms_norm,
    nn.Embedding: _embedding,
}

_DIMENSIONS: dict[type[nn.Module], int] = {nn.Conv1d: 3, nn.Conv2d: 4, nn.InstanceNorm1d: 3, nn.InstanceNorm2d: 4}
