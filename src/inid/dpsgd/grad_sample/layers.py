"""The formulas of per-sample gradients, layer by layer, and the table that says which layer has which.

A formula takes a layer, its input and the gradient that flows back to its output, batch first, and gives the
gradients of its parameters by name. A layer without one is run by its gates where it is recurrent, and else example by
example (see `recurrent_layers` and `vmap_gradients`). `register_layer` adds a formula for a layer of your own.
"""

import copy
import inspect
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from inid.dpsgd.grad_sample.ghost_clipping import (
    Sizes,
    ghost_convolution,
    ghost_embedding,
    ghost_linear,
    ghost_transposed,
    planar,
)
from inid.dpsgd.grad_sample.grad_samples import (
    DenseGrads,
    EmbeddingGrads,
    GradSampler,
    GradSamples,
    OuterGrads,
    SlicedGrads,
)
from inid.dpsgd.kernels import grad_sample_kernels
from inid.dpsgd.sharded_parameters import own_class
from inid.errors import ArgumentError, GuaranteeError

_ALLOWED = 1e-9  # relative to the largest gradient: far above float64's rounding, far below a wrong formula


def check_rule(rule: GradSampler, layer: nn.Module, inputs: Tensor) -> None:
    """Refuse a rule whose formula is not right for a layer and an input of some examples.

    Clipping bounds what an example adds to a sum only if its gradients are made of that example alone. A formula that
    adds over the wrong dimension breaks that without any sign. So a rule is taken only after its gradients were
    compared, in float64, with those of single examples; what else it states (positions, settings) is tried likewise.
    """
    if not isinstance(inputs, Tensor) or inputs.ndim == 0 or len(inputs) < 2:
        raise ArgumentError("inputs must be a tensor of two or more examples: pass made-up ones, such as torch.randn.")
    exact_layer = copy.deepcopy(layer).double()
    if not rule.is_for(exact_layer):
        raise ArgumentError(
            f"a rule is for a layer without parts, whose parameters it names ({', '.join(rule.parameters)}), got a "
            f"{type(layer).__name__} that is not: name its parameters, or leave it to be run example by example."
        )
    exact_inputs = inputs.detach().clone()
    exact_inputs = exact_inputs.double() if exact_inputs.is_floating_point() else exact_inputs
    _check_rows(rule, exact_layer, exact_inputs, "for every example")
    if rule.positions:
        try:
            several = torch.stack([exact_inputs, exact_inputs.flip(0)], 1)
            exact_layer(several)
        except Exception as error:
            raise GuaranteeError(
                f"{type(layer).__name__} does not take positions between the examples and its own dimensions: leave "
                "positions out of its rule."
            ) from error
        _check_rows(rule, exact_layer, several, "over positions")
    if rule.settings is not None:
        _check_settings(rule, exact_layer, exact_inputs)


def _check_rows(rule: GradSampler, layer: nn.Module, inputs: Tensor, how: str) -> None:
    output = layer(inputs)
    if not isinstance(output, Tensor) or output.ndim == 0 or len(output) != len(inputs):
        raise ArgumentError(
            f"{type(layer).__name__} must return one tensor with a row per example to have a rule: leave it to be run "
            "example by example."
        )
    gradients = _drawn(output)
    grads = rule.grad_samples(layer, inputs, gradients, len(inputs))
    parameters = dict(layer.named_parameters())
    missing = sorted(parameters.keys() - grads.keys())
    if missing:
        raise GuaranteeError(f"the formula gives no gradients for parameter {missing[0]!r}: return all by their names.")
    for name, parameter in parameters.items():
        alone = [
            torch.autograd.grad(layer(inputs[at : at + 1]), parameter, gradients[at : at + 1])[0].flatten()
            for at in range(len(inputs))
        ]
        if not _same(grads[name].dense(), torch.stack(alone)):
            raise GuaranteeError(
                f"the formula gives parameter {name!r} other gradients than autograd {how}: return row i of example i "
                "alone, of the shape of the parameter, summed over all else."
            )


def _check_settings(rule: GradSampler, layer: nn.Module, inputs: Tensor) -> None:
    """Layers that agree in their settings are taken as one: the formula may not depend on their parameters."""
    absent = [name for name in rule.settings or () if not hasattr(layer, name)]
    if absent:
        raise ArgumentError(f"settings must be attributes of the layer, got {absent[0]!r}: name what formula reads.")
    other = copy.deepcopy(layer)
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.copy_(_drawn(parameter))
    gradients = _drawn(layer(inputs))
    one, two = (rule.grad_samples(each, inputs, gradients, len(inputs)) for each in (layer, other))
    if not all(_same(one[name].dense(), two[name].dense()) for name in one):
        raise GuaranteeError(
            "the formula depends on the values of the layer's parameters, so that layers cannot be taken together: "
            "pass settings=None."
        )


def _drawn(like: Tensor) -> Tensor:
    """Fixed normal numbers: nothing here is secret, and a rule is taken or not, whenever it is tried."""
    draw = torch.Generator().manual_seed(7)
    return torch.randn(like.shape, generator=draw, dtype=torch.float64).to(like.device)


def _same(one: Tensor, two: Tensor) -> bool:
    if one.shape != two.shape:
        return False
    return bool((one - two).abs().max() <= _ALLOWED * two.abs().max())


_WIDEST = 2**13  # what a program of a layer normalisation holds at a time


def linear(layer: nn.Module, inputs: Tensor, gradients: Tensor) -> dict[str, GradSamples]:
    """Y = x W^T + b, over any number of positions."""
    grads = {"weight": _linear_grads(inputs, gradients)}
    return grads if layer.bias is None else {**grads, "bias": _bias_grads(gradients)}


def transposed_linear(_layer: nn.Module, inputs: Tensor, gradients: Tensor) -> dict[str, GradSamples]:
    """GPT-2's `Conv1D`: a linear layer whose weight is stored transposed."""
    return {"weight": _linear_grads(gradients, inputs), "bias": _bias_grads(gradients)}


def _linear_grads(inputs: Tensor, gradients: Tensor) -> GradSamples:
    """The gradients of the weight W of y = x W^T, over any number of positions."""
    if inputs.ndim == 2:
        return OuterGrads(gradients, inputs)
    inputs, gradients = inputs.flatten(1, -2), gradients.flatten(1, -2)
    return DenseGrads((gradients.mT @ inputs).flatten(1))


def _bias_grads(gradients: Tensor) -> GradSamples:
    return DenseGrads(gradients if gradients.ndim == 2 else gradients.flatten(1, -2).sum(1))


def convolution(layer: nn.Module, inputs: Tensor, gradients: Tensor) -> dict[str, GradSamples]:
    """Convolutions of one or two dimensions."""
    assert isinstance(layer, (nn.Conv1d, nn.Conv2d))  # noqa: S101 - for the type checker: the table of samplers says so
    padded, kernel, stride, dilation = planar(layer, inputs)
    planes = gradients.unsqueeze(2) if isinstance(layer, nn.Conv1d) else gradients
    if grad_sample_kernels.usable(planes, len(planes) * layer.groups):
        dense, squares = grad_sample_kernels.convolution_grad_samples(
            padded, planes, kernel, stride, dilation, layer.groups
        )
        grads_of: dict[str, GradSamples] = {"weight": DenseGrads(dense, squares=squares)}
    else:
        grads_of = {"weight": convolution_grad_samples(padded, planes, kernel, stride, dilation, layer.groups)}
    return grads_of if layer.bias is None else {**grads_of, "bias": DenseGrads(gradients.flatten(2).sum(2))}


def _channel_norm(normalised: Tensor, gradients: Tensor) -> dict[str, GradSamples]:
    """Weight and bias per channel: group and instance normalisation."""
    normalised, gradients = (entry.reshape(*entry.shape[:2], -1) for entry in (normalised, gradients))
    return {"weight": DenseGrads((gradients * normalised).sum(2)), "bias": DenseGrads(gradients.sum(2))}


def group_norm(layer: nn.Module, inputs: Tensor, gradients: Tensor) -> dict[str, GradSamples]:
    """Group normalisation."""
    assert isinstance(layer, nn.GroupNorm)  # noqa: S101 - as above
    if grad_sample_kernels.usable(gradients, len(gradients)):
        weight, bias = grad_sample_kernels.group_norm_grad_samples(inputs, gradients, layer.num_groups, layer.eps)
        return {"weight": DenseGrads(weight), "bias": DenseGrads(bias)}
    return _channel_norm(torch.group_norm(inputs, layer.num_groups, eps=layer.eps), gradients)


def instance_norm(layer: nn.Module, inputs: Tensor, gradients: Tensor) -> dict[str, GradSamples]:
    """Instance normalisation."""
    return _channel_norm(functional.instance_norm(inputs, eps=float(layer.eps)), gradients)  # type: ignore[arg-type]


def _entry_norm(normalised: Tensor, gradients: Tensor, size: int) -> dict[str, GradSamples]:
    """Weight and bias per entry of the trailing dimensions: layer and root-mean-square normalisation."""
    gradients, normalised = (entry.reshape(entry.shape[0], -1, size) for entry in (gradients, normalised))
    return {"weight": DenseGrads((gradients * normalised).sum(1)), "bias": DenseGrads(gradients.sum(1))}


def layer_norm(layer: nn.Module, inputs: Tensor, gradients: Tensor) -> dict[str, GradSamples]:
    """Layer normalisation."""
    assert isinstance(layer, nn.LayerNorm)  # noqa: S101 - as above
    if layer.weight.numel() <= _WIDEST and grad_sample_kernels.usable(gradients, len(gradients)):
        weight, bias = grad_sample_kernels.layer_norm_grad_samples(inputs, gradients, layer.weight.numel(), layer.eps)
        return {"weight": DenseGrads(weight), "bias": DenseGrads(bias)}
    normalised = functional.layer_norm(inputs, layer.normalized_shape, eps=layer.eps)
    return _entry_norm(normalised, gradients, layer.weight.numel())


def rms_norm(layer: nn.Module, inputs: Tensor, gradients: Tensor) -> dict[str, GradSamples]:
    """Root-mean-square normalisation."""
    assert isinstance(layer, nn.RMSNorm)  # noqa: S101 - as above
    normalised = functional.rms_norm(inputs, layer.normalized_shape, eps=layer.eps)
    return _entry_norm(normalised, gradients, layer.weight.numel())


def embedding(layer: nn.Module, inputs: Tensor, gradients: Tensor) -> dict[str, GradSamples]:
    """A table of vectors; gradients name the entries that an example looked up."""
    assert isinstance(layer, nn.Embedding)  # noqa: S101 - as above
    tokens = inputs.reshape(inputs.shape[0], -1)
    flat = gradients.reshape(*tokens.shape, -1)
    return {"weight": EmbeddingGrads.of_tokens(tokens, flat, layer.num_embeddings, layer.padding_idx)}


_AT_A_TIME = 2**18  # numbers of the lines that are laid out at a time


def convolution_grad_samples(
    padded: Tensor, planes: Tensor, kernel: Sizes, stride: Sizes, dilation: Sizes, groups: int
) -> DenseGrads | SlicedGrads:
    """The gradients of a convolution's weight, by products with what each position met, for a few examples at a time.

    For a 3 x 3 kernel the windows are nine times the input, and laying them out takes as long as the products. So lines
    are laid out once for each column of the kernel, three times the input: what an entry of the kernel met is one
    stretch of them, which begins a line later for the next line of the kernel, and products read it where it lies. A
    stride leaves lines out: those that are read together are laid out together. What a few examples met stays in the
    processor's cache.
    """
    (tall, wide), (high, across) = kernel, planes.shape[2:]
    count, channels, outputs = len(planes), padded.shape[1] // groups, planes.shape[1] // groups
    # Lines of the kernel that are so many apart read the same lines, each `later` by so many than the one before. Where
    # a stride does not divide the kernel, or lies beside a dilation, each has lines of its own.
    phases = stride[0] if tall % stride[0] == 0 and 1 in (stride[0], dilation[0]) else tall
    later = dilation[0] if stride[0] == 1 else 1
    shifts, entries = tall // phases, channels * wide
    most = high + (shifts - 1) * later
    work = groups * phases * entries * most * across
    several = count if padded.is_cuda else max(1, min(count, _AT_A_TIME // work))
    lines = padded.new_empty(several, groups, phases, channels, wide, most, across)
    pieces = planes.reshape(count * groups, outputs, high * across).mT
    products = padded.new_empty(shifts, count * groups, phases * entries, outputs)  # few outputs: faster this way round
    example, channel, line, column = padded.stride()
    steps = (example, channels * channel, channel, column * dilation[1], line * stride[0], column * stride[1])
    for start in range(0, count, several):
        here = min(several, count - start)
        for first in range(phases):
            at = padded.storage_offset() + start * example + first * dilation[0] * line
            windows = padded.as_strided((here, groups, channels, wide, most, across), steps, at)
            lines[:here, :, first].copy_(windows)
        group_slice = slice(start * groups, (start + here) * groups)
        for shift in range(shifts):
            strides = (work // groups, most * across, 1)
            read = lines.as_strided((here * groups, phases * entries, high * across), strides, shift * later * across)
            torch.bmm(read, pieces[group_slice], out=products[shift, group_slice])
    grads = SlicedGrads(products.view(shifts, count, -1), (groups, phases, channels, wide, outputs), (1, 5, 3, 0, 2, 4))
    return DenseGrads(grads.dense()) if padded.is_cuda else grads  # kernels for GPUs read gradients as they lie


_WHERE = re.compile(r"transformers\.models\.\w+\.modeling_\w+")

_NAMES = ("RMSNorm", "LayerNorm")

_PLAIN = (bool, int, float, str, type(None))

_TRIED: dict[type[nn.Module], GradSampler | None] = {}


def _scaled(layer: nn.Module, inputs: Tensor, gradients: Tensor) -> dict[str, Tensor]:
    width = gradients.shape[-1]
    with in_place(layer, {"weight": gradients.new_ones(width)}):
        output = type(layer).forward(layer, inputs)
    return {"weight": (gradients * output).reshape(len(output), -1, width).sum(1)}


def scaling_norm_sampler(kind: type[nn.Module]) -> GradSampler | None:
    """The sampler of a normalisation of Hugging Face's models; None for any other class.

    Each model has a class of its own, and most compute the same: w f(x), entry by entry, of their weight w and input x.
    What flows to w is then what flows to the output times f(x), and the layer itself says what f(x) is, rounded as it
    rounds: it is run with ones for a weight. Whether a class is one of these is tried out once, as the formulas of
    `register_layer` are.
    """
    if kind not in _TRIED:
        _TRIED[kind] = _tried(kind)
    return _TRIED[kind]


def _tried(kind: type[nn.Module]) -> GradSampler | None:
    known = _WHERE.fullmatch(kind.__module__) is not None and kind.__name__.endswith(_NAMES)
    if not known or len(inspect.signature(kind.forward).parameters) != 2:  # itself and one input
        return None
    draw = torch.Generator(device="cpu").manual_seed(7)
    try:
        with torch.device("cpu"), torch.enable_grad():
            layer = kind(6)
            attributes = {name: value for name, value in vars(layer).items() if name != "training" and name[0] != "_"}
            settings = tuple(attributes) if all(isinstance(value, _PLAIN) for value in attributes.values()) else None
            sampler = GradSampler(formula=_scaled, parameters=("weight",), positions=True, settings=settings)
            nn.init.normal_(layer.get_parameter("weight"), generator=draw)
            check_rule(sampler, layer, torch.randn(3, 6, generator=draw))
    except Exception:  # noqa: BLE001 - a class that cannot be made, or run, or is not such a layer
        return None
    return sampler


@contextmanager
def in_place(module: nn.Module, tensors: Mapping[str, Tensor]) -> Iterator[None]:
    """Let a module find tensors where its parameters are."""
    parameters: dict[str, Any] = module._parameters  # noqa: SLF001 - as torch.func.functional_call does
    before = {name: parameters[name] for name in tensors}
    try:
        parameters.update(tensors)
        yield
    finally:
        parameters.update(before)


def _padded_with_zeros(layer: nn.Module) -> bool:
    return layer.padding_mode == "zeros"


def _of_single_lookups(layer: nn.Module) -> bool:
    return not (layer.scale_grad_by_freq or layer.sparse)


_CONVOLUTION = GradSampler(
    formula=convolution,
    narrowed=True,
    settings=("kernel_size", "stride", "padding", "dilation", "groups"),
    accepts=_padded_with_zeros,
    ghost=ghost_convolution,
)

_INSTANCE_NORM = GradSampler(formula=instance_norm)

# A subclass may compute something else, so that a sampler is for a class alone.
_SAMPLERS: dict[type[nn.Module], GradSampler] = {
    nn.Linear: GradSampler(formula=linear, positions=True, narrowed=True, settings=(), ghost=ghost_linear),
    nn.Conv1d: _CONVOLUTION,
    nn.Conv2d: _CONVOLUTION,
    nn.GroupNorm: GradSampler(formula=group_norm, settings=("num_groups", "eps")),
    nn.InstanceNorm1d: _INSTANCE_NORM,
    nn.InstanceNorm2d: _INSTANCE_NORM,
    nn.LayerNorm: GradSampler(formula=layer_norm, positions=True, settings=("normalized_shape", "eps")),
    nn.RMSNorm: GradSampler(formula=rms_norm, positions=True, settings=("normalized_shape", "eps")),
    nn.Embedding: GradSampler(formula=embedding, positions=True, accepts=_of_single_lookups, ghost=ghost_embedding),
}

# Known by name, since its library need not be there: GPT-2's linear layer, whose weight is stored transposed.
_OF_MODULES = {
    ("transformers.pytorch_utils", "Conv1D"): GradSampler(
        formula=transposed_linear, positions=True, narrowed=True, settings=(), ghost=ghost_transposed
    ),
}


def grad_sampler_of(layer: nn.Module) -> GradSampler | None:
    """The sampler of a layer, or None (see `vmap_gradients`)."""
    kind = own_class(layer)
    sampler = _SAMPLERS.get(kind) or _OF_MODULES.get((kind.__module__, kind.__name__)) or scaling_norm_sampler(kind)
    return sampler if sampler is not None and sampler.is_for(layer) else None


def register_layer(
    kind: type[nn.Module], sampler: GradSampler, *, examples: Sequence[tuple[nn.Module, Tensor]]
) -> None:
    """Give layers of a class a formula for their per-sample gradients; call it before `make_private`.

    The formula is checked first, on what you pass: it must give the gradients that autograd gives for each example
    alone. It is for the class itself, not for subclasses, and for layers without parts that take one tensor and return
    one.

    Args:
        kind: The class of the layers.
        sampler: The formula, and what may be done with it.
        examples: Layers of the class, one for each way to set one up, each with an input of two or more made-up
            examples.

    Raises:
        ArgumentError: What is passed is not as above, or the class has a formula.
        GuaranteeError: The formula gives other gradients than autograd, or depends on more than the sampler says.

    >>> import torch
    >>> class Scale(nn.Module):
    ...     def __init__(self, size):
    ...         super().__init__()
    ...         self.weight = nn.Parameter(torch.ones(size))
    ...     def forward(self, x):
    ...         return self.weight * x
    >>> sampler = GradSampler(formula=lambda layer, inputs, gradients: {"weight": inputs * gradients})
    >>> register_layer(Scale, sampler, examples=[(Scale(3), torch.randn(4, 3))])
    >>> grad_sampler_of(Scale(3)) is sampler
    True
    """
    if not (isinstance(kind, type) and issubclass(kind, nn.Module)):
        raise ArgumentError(f"kind must be a class of layers, got {type(kind).__name__}: pass the class itself.")
    if not isinstance(sampler, GradSampler):
        raise ArgumentError(f"sampler must be a GradSampler, got {type(sampler).__name__}: make one of your formula.")
    if kind in _SAMPLERS or (kind.__module__, kind.__name__) in _OF_MODULES or scaling_norm_sampler(kind) is not None:
        raise ArgumentError(f"kind {kind.__name__} has a formula already: register a class of your own.")
    if not isinstance(examples, Sequence) or not examples:
        raise ArgumentError("examples must be pairs of a layer and its input, got none: pass at least one.")
    for layer, inputs in examples:
        if type(layer) is not kind:
            raise ArgumentError(
                f"examples must be layers of class {kind.__name__}, got {type(layer).__name__}: pass one."
            )
        check_rule(sampler, layer, inputs)
    _SAMPLERS[kind] = sampler
