"""Which layers get their norms and sums without writing gradients down, and when that pays.

An example's row has d_in d_out entries, its inputs and gradients T (d_in + d_out). Written down, rows are clipped
without any allowance for rounding; so they are where they are no longer than what made them, or few. Fused sums serve
l2 clipping with floating-point noise: exact noise, l1 norms and entry-wise clipping need the rows.
"""

import math
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from inid.dpsgd.kernels.fused_norms import CHUNKS
from inid.dpsgd.kernels.fused_rounding import UNIT, accumulated, argument_rounding, chunked, rounded_product
from inid.dpsgd.rows.fused_positions import Lookups, Positions
from inid.dpsgd.rows.gradient_rows import Dense, Rows
from inid.dpsgd.rows.layer_rule import LayerRule

__all__ = [
    "fused_convolution",
    "fused_linear",
    "fused_rows",
    "fused_table",
    "fused_transposed",
    "loss_of",
    "narrowed",
    "product_rows",
    "stored",
    "typical_loss",
]

_FEW = 2**22  # entries of all rows together that are always written down
_MANY = 2**27  # and that never are, since they would be the most that a step holds
_KINDS = (torch.bfloat16, torch.float32, torch.float64)  # float16 would overflow where a factor is large


def fused_rows(
    rule: LayerRule, layer: nn.Module, inputs: Tensor, gradients: Tensor, *, kept: bool, tied: bool, layers: int = 1
) -> dict[str, Rows] | None:
    """The gradients of a layer's parameters without rows, or None where rows are to be written down.

    Args:
        rule: The layer's rule.
        layer: The layer.
        inputs: What it met, examples first.
        gradients: What flows back to its output.
        kept: Whether the gradients stay until others are known (global clipping).
        tied: Whether the weight has other uses.
        layers: How many layers like this one the examples are of (see `stacked_layers`); one layer's decide.
    """
    if rule.fused is None or gradients.dtype not in _KINDS:
        return None
    return rule.fused(layer, inputs, gradients, kept=kept, tied=tied, layers=layers)


def product_rows(inputs: Tensor, gradients: Tensor, *, kept: bool, layers: int = 1) -> Positions | None:
    """The gradients of a weight over positions without rows, or None where rows are to be written down.

    Args:
        inputs: What the weight met, shape (examples, positions, width).
        gradients: What flows back.
        kept: Whether the gradients stay until others are known.
        layers: How many layers like this one the examples are of.
    """
    pays = gradients.dtype in _KINDS and _pays(gradients, inputs.shape[-1], layers, kept=kept)
    return Positions(gradients, inputs) if pays else None


def fused_linear(
    layer: nn.Module, inputs: Tensor, gradients: Tensor, *, kept: bool, tied: bool, layers: int
) -> dict[str, Rows] | None:
    """A linear layer over positions."""
    del tied
    if inputs.ndim <= 2:
        return None
    back = gradients.flatten(1, -2)
    rows = product_rows(inputs.flatten(1, -2), back, kept=kept, layers=layers)
    if rows is None:
        return None
    made: dict[str, Rows] = {"weight": rows}
    return made if layer.bias is None else {**made, "bias": _added(back, 1)}


def fused_transposed(
    layer: nn.Module, inputs: Tensor, gradients: Tensor, *, kept: bool, tied: bool, layers: int
) -> dict[str, Rows] | None:
    """The same with a weight that is stored transposed: sum_t a_t g_t^T."""
    made = fused_linear(layer, inputs, gradients, kept=kept, tied=tied, layers=layers)
    if made is None:
        return None
    weight = cast("Positions", made["weight"])
    return {**made, "weight": Positions(weight.inputs, weight.gradients)}


def fused_convolution(
    layer: nn.Module, inputs: Tensor, gradients: Tensor, *, kept: bool, tied: bool, layers: int
) -> dict[str, Rows] | None:
    """A convolution in one group of channels."""
    del kept, tied
    assert isinstance(layer, (nn.Conv1d, nn.Conv2d))  # noqa: S101 - for the type checker: the table of rules says so
    if layer.groups != 1:
        return None
    back = gradients.flatten(2)
    # The windows that each position met would have to be laid out first: rows are cheaper even where they stay
    # until the norm is known (ResNet-20 on an H200: a step took several times as long without rows).
    if not _pays(back.mT, layer.weight.shape[1:].numel(), layers, kept=False):
        return None
    made: dict[str, Rows] = {"weight": Positions(back.mT, inputs, lambda met: _windows(layer, met))}
    return made if layer.bias is None else {**made, "bias": _added(back, 2)}


def fused_table(
    layer: nn.Module, inputs: Tensor, gradients: Tensor, *, kept: bool, tied: bool, layers: int
) -> dict[str, Rows] | None:
    """A table of vectors."""
    del kept, layers
    assert isinstance(layer, nn.Embedding)  # noqa: S101 - as above
    if not (gradients.is_cuda or tied):
        return None
    tokens = inputs.reshape(inputs.shape[0], -1)
    if layer.padding_idx is not None:
        tokens = torch.where(tokens == layer.padding_idx, -1, tokens)
    return {"weight": Lookups(tokens, gradients.reshape(*tokens.shape, -1), layer.num_embeddings)}


def narrowed(rule: LayerRule, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """The arguments of a layer with the input as autocast will make it, so that it is made and kept once.

    >>> rule = LayerRule(formula=lambda layer, inputs, gradients: {}, narrowed=True)
    >>> with torch.autocast("cpu", dtype=torch.bfloat16):
    ...     narrowed(rule, (torch.ones(2),))[0].dtype
    torch.bfloat16
    """
    if rule.narrowed and len(args) == 1 and args[0].dtype == torch.float32:
        kind = args[0].device.type
        if torch.is_autocast_enabled(kind):
            return (args[0].to(torch.get_autocast_dtype(kind)),)
    return args


def stored(inputs: Tensor, output: Tensor) -> Tensor:
    """A layer's input as it is to be kept for the backward: under autocast, in the type in which the layer met it.

    >>> stored(torch.ones(2), torch.ones(2, dtype=torch.bfloat16)).dtype
    torch.bfloat16
    """
    narrower = inputs.is_floating_point() and output.dtype in {torch.bfloat16, torch.float16}
    return inputs.to(output.dtype) if narrower else inputs


def _pays(gradients: Tensor, met: int, layers: int, *, kept: bool) -> bool:
    count, positions, made = gradients.shape[0] // layers, *gradients.shape[1:]
    # Rows that stay until the norm of all layers is known add up; those of one layer are dropped at once.
    most = positions * (met + made) // (4 if kept else 1)
    return count * met * made > _FEW and (met * made > most or count * met * made > _MANY)


def _added(gradients: Tensor, over: int) -> Dense:
    kind = torch.float64 if gradients.dtype == torch.float64 else torch.float32
    return Dense(gradients.sum(over, dtype=kind))


def _windows(layer: nn.Conv1d | nn.Conv2d, inputs: Tensor) -> Tensor:
    """What each position of a convolution's output met, in the order of the weight."""
    padded = functional.pad(inputs, layer._reversed_padding_repeated_twice)  # noqa: SLF001 - the layer's own padding
    if isinstance(layer, nn.Conv1d):
        padded = padded.unsqueeze(2)
        kernel, stride, dilation = (1, *layer.kernel_size), (1, *layer.stride), (1, *layer.dilation)
    else:
        kernel, stride, dilation = layer.kernel_size, layer.stride, layer.dilation
    sides = [
        (size - d * (k - 1) - 1) // s + 1
        for size, k, s, d in zip(padded.shape[2:], kernel, stride, dilation, strict=True)
    ]
    examples, channels, rows, columns = padded.stride()
    steps = (rows * stride[0], columns * stride[1], channels, rows * dilation[0], columns * dilation[1])
    met = padded.as_strided((len(padded), *sides, padded.shape[1], *kernel), (examples, *steps))
    # In one copy for all examples: functional.unfold makes one for each, and another kernel turns them over.
    return met.reshape(len(padded), sides[0] * sides[1], -1)


def loss_of(rows: Rows, shape: torch.Size) -> float:
    """What allowances typically cost of the gradient of a weight of this shape (see `typical_loss`)."""
    if not isinstance(rows, Positions):
        return 0.0
    positions = rows.gradients[0].numel() // shape[0]
    return typical_loss(positions, shape[1:].numel(), shape[0], rows.gradients.dtype)


def typical_loss(positions: int, met: int, made: int, kind: torch.dtype = torch.float32) -> float:
    """By how much the allowances shorten a clipped gradient, for positions whose gradients are at right angles.

    Then S is sqrt(T) times the norm. Positions that agree lose less (S is the norm), those that cancel more. It depends
    on shapes alone, so that plans and documents may print it.

    Args:
        positions: T.
        met: d_in.
        made: d_out.
        kind: The type in which inputs and gradients are stored.

    >>> round(typical_loss(128, 768, 768, torch.bfloat16), 3), typical_loss(128, 768, 768, torch.float64) < 1e-6
    (0.053, True)
    """
    ratio, rounding = math.sqrt(positions), argument_rounding(kind)
    u = rounded_product(UNIT[kind], rounding, accumulated(positions, kind))
    if positions * (met + made) < met * made and not rounding:
        kappa = (1 + chunked(met, CHUNKS[kind], kind)) * (1 + chunked(made, CHUNKS[kind], kind)) - 1
        return 1 - 1 / (math.sqrt(1 + kappa * ratio**2) + u * ratio)
    gamma = rounded_product(0.0, rounding, accumulated(positions, kind))
    return 1 - 1 / (1 + (u + gamma) * ratio)
