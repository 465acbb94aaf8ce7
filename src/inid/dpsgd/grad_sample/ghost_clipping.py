"""Ghost clipping: norms and weighted sums of per-sample gradients that are never written down, and when that pays.

**Forms.** Positions of a linear layer or a convolution, and lookups of a table, answer what clipping in the l2 norm
asks: a bound on each example's norm, in two parts (`ghost_norms` has the claim), and a weighted sum. Bounds are worked
out when they are first asked for, so that uses of one weight can be put together before.

**When it pays.** An example's gradient has d_in d_out entries, its inputs and gradients T (d_in + d_out). Gradients
that are written down are clipped without any allowance for rounding; so they are where they are no longer than what
made them, or few. Ghost clipping serves the l2 norm with floating-point noise: exact noise, l1 norms and element-wise
clipping need the gradients themselves.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from inid.dpsgd.grad_sample.grad_samples import AddsWeightedSum, Bounds, DenseGrads, GradSampler, GradSamples
from inid.dpsgd.kernels.ghost_norms import (
    CHUNKS,
    add_products,
    direct_bound,
    gram_bound,
    products,
    table_bound,
    table_sum,
    tied_bound,
    weighted_product,
)
from inid.dpsgd.kernels.rounding import UNIT, accumulated, argument_rounding, chunked, rounded_product

# The most that the lengths of an example's terms add up to, in thresholds (see `ghost_norms` on others). Positions at
# right angles add up to sqrt(T) of them, so that nothing but what all but cancels is shortened by it.
_LONGEST = 2.0**8


class Measured(NamedTuple):
    """Bounds on the norms of gradients, one number per example in float64, infinite for one that adds nothing."""

    square: Tensor
    absolute: Tensor
    lost: float
    rounding: float


class _Bounded(AddsWeightedSum, ABC):
    """What the forms have in common."""

    @abstractmethod
    def _measure(self) -> Measured: ...

    @cached_property
    def measured(self) -> Measured:
        return self._measure()

    def powers(self, order: int) -> Tensor:
        assert order == 2  # noqa: S101 - the strategy for l1 norms writes gradients down
        measured = self.measured
        return _with_least_norm(measured.square, measured.absolute, measured.lost + measured.rounding)

    def allowances(self) -> Tensor:
        measured = self.measured
        return (measured.lost + measured.rounding) * measured.absolute

    def bounds(self) -> Bounds:
        measured = self.measured
        return Bounds(self.powers(2)[:, None], measured.absolute, measured.lost + measured.rounding)


class PositionGrads(_Bounded):
    """A linear layer's gradients, sum_t g_t a_t^T."""

    def __init__(self, gradients: Tensor, inputs: Tensor, windows: Callable[[Tensor], Tensor] | None = None) -> None:
        self.gradients, self._inputs, self._windows_of = gradients, inputs, windows

    @property
    def inputs(self) -> Tensor:
        """What the layer met at each position, shape (examples, positions, d_in)."""
        return self._inputs if self._windows_of is None else self._windows_of(self._inputs)

    @property
    def is_cuda(self) -> bool:
        return self.gradients.is_cuda

    def _measure(self) -> Measured:
        inputs, gradients = self.inputs, self.gradients
        count, inputs_size, outputs_size = inputs.shape[1], inputs.shape[2], gradients.shape[2]
        kind, arguments = gradients.dtype, argument_rounding(gradients.dtype)
        if count * (inputs_size + outputs_size) < inputs_size * outputs_size and not arguments:
            (square, absolute), gamma = gram_bound(inputs, gradients), 0.0
        else:
            square, absolute, gamma = direct_bound(inputs, gradients)
        u = rounded_product(UNIT[kind] * (1 + 2.0**-10), arguments, accumulated(count, kind))
        return Measured(square, absolute, gamma, u)

    def combined(self, factors: Tensor) -> Tensor:
        return weighted_product(self.inputs, self.gradients, factors).to(factors.dtype)

    def add_to(self, place: Tensor, factors: Tensor, limit: float) -> None:
        self.add_separately([place], factors, limit)

    def add_separately(self, places: Sequence[Tensor], factors: Tensor, limit: float) -> None:
        inputs = self.inputs
        if not add_products(places, inputs, self.gradients, factors, limit):
            parts = (each.chunk(len(places)) for each in (inputs, self.gradients, factors))
            for place, of_inputs, back, factor in zip(places, *parts, strict=True):
                place.add_(weighted_product(of_inputs, back, factor).to(factor.dtype), alpha=limit)

    def finite(self) -> "PositionGrads":
        return self

    def dense(self) -> Tensor:
        return products(self.gradients.mT, self.inputs).flatten(1)

    def with_use(self, other: "PositionGrads") -> "PositionGrads":
        """Another use of the same weight: more positions of the same gradient."""
        gradients = torch.cat([self.gradients, other.gradients], 1)
        return PositionGrads(gradients, torch.cat([self.inputs, other.inputs], 1))


class LookupGrads(_Bounded):
    """A table's gradients, sum_t e_t on line k_t."""

    def __init__(self, tokens: Tensor, gradients: Tensor, height: int) -> None:
        self.tokens, self.gradients, self.height = tokens, gradients, height

    @property
    def is_cuda(self) -> bool:
        return self.gradients.is_cuda

    def _measure(self) -> Measured:
        square, absolute = table_bound(self.tokens, self.gradients)
        # Each term is rounded to its type once; a line adds the example's own terms in float32 or float64.
        kind = torch.float64 if self.gradients.dtype == torch.float64 else torch.float32
        unit = UNIT[self.gradients.dtype] * (1 + 2.0**-10)
        u = rounded_product(unit, 0.0, accumulated(self.tokens.shape[1], kind))
        return Measured(square, absolute, 0.0, u)

    def combined(self, factors: Tensor) -> Tensor:
        return table_sum(self.tokens, self.gradients, factors, self.height)

    def finite(self) -> "LookupGrads":
        return self

    def dense(self) -> Tensor:
        ones = torch.ones(1, dtype=self.gradients.dtype, device=self.gradients.device)
        each = zip(torch.split(self.tokens, 1), torch.split(self.gradients, 1), strict=True)
        return torch.stack([table_sum(tokens, gradients, ones, self.height) for tokens, gradients in each])

    def with_use(self, other: "LookupGrads") -> "LookupGrads":
        """Another use of the same table."""
        tokens, gradients = torch.cat([self.tokens, other.tokens], 1), torch.cat([self.gradients, other.gradients], 1)
        return LookupGrads(tokens, gradients, self.height)


class TiedGrads(_Bounded):
    """The gradients of a weight that is a table and an output layer at once."""

    def __init__(self, table: LookupGrads, layer: PositionGrads) -> None:
        self.table, self.layer = table, layer

    @property
    def is_cuda(self) -> bool:
        return self.table.is_cuda

    def _measure(self) -> Measured:
        table, layer = self.table.measured, self.layer.measured
        second = layer.square
        if layer.lost:  # not zero times S, which may be infinite
            second = (second.sqrt() + layer.lost * layer.absolute).square_() * (1 + 2.0**-40)
        tied = tied_bound(
            self.table.tokens,
            self.table.gradients,
            self.layer.inputs,
            self.layer.gradients,
            (table.square, table.absolute, second, layer.absolute),
        )
        # The two sums are rounded apart, and added: one more rounding of what is at most S long.
        units = [UNIT[each.gradients.dtype] for each in (self.table, self.layer)]
        allowance = table.rounding * table.absolute + layer.rounding * layer.absolute
        both = table.absolute + layer.absolute
        # Under autocast the table is float32 beside a layer in bfloat16: `allowance` has the finer unit for both.
        tied = _with_least_norm(tied, both, min(units))
        return Measured(tied, allowance * (1 + 2.0**-20) + both * min(max(units), UNIT[torch.float32]), 0.0, 1.0)

    def combined(self, factors: Tensor) -> Tensor:
        return self.table.combined(factors).add_(self.layer.combined(factors))

    def finite(self) -> "TiedGrads":
        return self

    def dense(self) -> Tensor:
        return self.table.dense() + self.layer.dense()


def sum_of_uses(one: GradSamples, other: GradSamples) -> GradSamples:
    """The gradients of one parameter from two uses: one gradient per example, the sum, which is clipped once."""
    if isinstance(one, PositionGrads) and isinstance(other, PositionGrads) and _alike(one, other):
        return one.with_use(other)
    if isinstance(one, LookupGrads) and isinstance(other, LookupGrads) and _alike(one, other):
        return one.with_use(other)
    if isinstance(one, TiedGrads) and isinstance(other, LookupGrads) and _alike(one.table, other):
        return TiedGrads(one.table.with_use(other), one.layer)
    if isinstance(one, TiedGrads) and isinstance(other, PositionGrads) and _alike(one.layer, other):
        return TiedGrads(one.table, one.layer.with_use(other))
    for table, layer in ((one, other), (other, one)):
        if isinstance(table, LookupGrads) and isinstance(layer, PositionGrads):
            return TiedGrads(table, layer)
    return DenseGrads(one.dense() + other.dense())


def _with_least_norm(square: Tensor, absolute: Tensor, of_inputs: float) -> Tensor:
    """A bound on the squared norm for which S is at most so many times the norm, where the allowance alone is not."""
    return square if of_inputs * _LONGEST >= 1 else torch.maximum(square, (absolute / _LONGEST).square())


def _alike(one: PositionGrads | LookupGrads, other: PositionGrads | LookupGrads) -> bool:
    return one.gradients.dtype == other.gradients.dtype


Sizes = tuple[int, ...]

_FEW = 2**22  # entries of all gradients together that are always written down

_MANY = 2**27  # and that never are, since they would be the most that a step holds

_KINDS = (torch.bfloat16, torch.float32, torch.float64)  # float16 would overflow where a factor is large


def ghost_grads(
    sampler: GradSampler,
    layer: nn.Module,
    inputs: Tensor,
    gradients: Tensor,
    *,
    stored: bool,
    tied: bool,
    layers: int = 1,
) -> dict[str, GradSamples] | None:
    """The gradients of a layer's parameters without writing them down, or None where that does not pay."""
    if sampler.ghost is None or gradients.dtype not in _KINDS:
        return None
    return sampler.ghost(layer, inputs, gradients, stored=stored, tied=tied, layers=layers)


def ghost_product(inputs: Tensor, gradients: Tensor, *, stored: bool, layers: int = 1) -> PositionGrads | None:
    """The gradients of a weight over positions without writing them down, or None where that does not pay."""
    pays = gradients.dtype in _KINDS and _pays(gradients, inputs.shape[-1], layers, stored=stored)
    return PositionGrads(gradients, inputs) if pays else None


def ghost_linear(
    layer: nn.Module, inputs: Tensor, gradients: Tensor, *, stored: bool, tied: bool, layers: int
) -> dict[str, GradSamples] | None:
    """A linear layer over positions."""
    del tied
    if inputs.ndim <= 2:
        return None
    back = gradients.flatten(1, -2)
    grads = ghost_product(inputs.flatten(1, -2), back, stored=stored, layers=layers)
    if grads is None:
        return None
    grads_of: dict[str, GradSamples] = {"weight": grads}
    return grads_of if layer.bias is None else {**grads_of, "bias": _added(back, 1)}


def ghost_transposed(
    layer: nn.Module, inputs: Tensor, gradients: Tensor, *, stored: bool, tied: bool, layers: int
) -> dict[str, GradSamples] | None:
    """The same with a weight that is stored transposed: sum_t a_t g_t^T."""
    grads_of = ghost_linear(layer, inputs, gradients, stored=stored, tied=tied, layers=layers)
    if grads_of is None:
        return None
    weight = cast("PositionGrads", grads_of["weight"])
    return {**grads_of, "weight": PositionGrads(weight.inputs, weight.gradients)}


def ghost_convolution(
    layer: nn.Module, inputs: Tensor, gradients: Tensor, *, stored: bool, tied: bool, layers: int
) -> dict[str, GradSamples] | None:
    """A convolution in one group of channels."""
    del stored, tied
    assert isinstance(layer, (nn.Conv1d, nn.Conv2d))  # noqa: S101 - for the type checker: the table of samplers says so
    if layer.groups != 1:
        return None
    back = gradients.flatten(2)
    # The windows that each position met would have to be laid out first: writing gradients down is cheaper even where
    # they stay until the norm is known (ResNet-20 on an H200: a step with ghost clipping took several times as long).
    if not _pays(back.mT, layer.weight.shape[1:].numel(), layers, stored=False):
        return None
    grads_of: dict[str, GradSamples] = {
        "weight": PositionGrads(back.mT, inputs, lambda images: _windows(layer, images))
    }
    return grads_of if layer.bias is None else {**grads_of, "bias": _added(back, 2)}


def ghost_embedding(
    layer: nn.Module, inputs: Tensor, gradients: Tensor, *, stored: bool, tied: bool, layers: int
) -> dict[str, GradSamples] | None:
    """A table of vectors."""
    del stored, layers
    assert isinstance(layer, nn.Embedding)  # noqa: S101 - as above
    if not (gradients.is_cuda or tied):
        return None
    tokens = inputs.reshape(inputs.shape[0], -1)
    if layer.padding_idx is not None:
        tokens = torch.where(tokens == layer.padding_idx, -1, tokens)
    return {"weight": LookupGrads(tokens, gradients.reshape(*tokens.shape, -1), layer.num_embeddings)}


def _pays(gradients: Tensor, inputs_size: int, layers: int, *, stored: bool) -> bool:
    count, positions, outputs_size = gradients.shape[0] // layers, *gradients.shape[1:]
    # Gradients that stay until the norm of all layers is known add up; those of one layer are dropped at once.
    most = positions * (inputs_size + outputs_size) // (4 if stored else 1)
    return count * inputs_size * outputs_size > _FEW and (
        inputs_size * outputs_size > most or count * inputs_size * outputs_size > _MANY
    )


def _added(gradients: Tensor, over: int) -> DenseGrads:
    kind = torch.float64 if gradients.dtype == torch.float64 else torch.float32
    return DenseGrads(gradients.sum(over, dtype=kind))


def planar(layer: nn.Conv1d | nn.Conv2d, inputs: Tensor) -> tuple[Tensor, Sizes, Sizes, Sizes]:
    """The padded input of a convolution, its kernel, stride and dilation, all of two dimensions."""
    around = layer._reversed_padding_repeated_twice  # noqa: SLF001 - the layer's own padding
    padded = functional.pad(inputs, around) if any(around) else inputs
    if isinstance(layer, nn.Conv1d):
        return padded.unsqueeze(2), (1, *layer.kernel_size), (1, *layer.stride), (1, *layer.dilation)
    return padded, layer.kernel_size, layer.stride, layer.dilation


def _windows(layer: nn.Conv1d | nn.Conv2d, inputs: Tensor) -> Tensor:
    """What each position of a convolution's output met, in the order of the weight."""
    padded, kernel, stride, dilation = planar(layer, inputs)
    sides = [
        (size - d * (k - 1) - 1) // s + 1
        for size, k, s, d in zip(padded.shape[2:], kernel, stride, dilation, strict=True)
    ]
    examples, channels, lines, columns = padded.stride()
    steps = (lines * stride[0], columns * stride[1], channels, lines * dilation[0], columns * dilation[1])
    windows = padded.as_strided((len(padded), *sides, padded.shape[1], *kernel), (examples, *steps))
    # In one copy for all examples: functional.unfold makes one for each, and another kernel turns them over.
    return windows.reshape(len(padded), sides[0] * sides[1], -1)


def loss_of(grads: GradSamples, shape: torch.Size) -> float:
    """What allowances typically cost of the gradient of a weight of this shape (see `typical_loss`)."""
    if not isinstance(grads, PositionGrads):
        return 0.0
    positions = grads.gradients[0].numel() // shape[0]
    return typical_loss(positions, shape[1:].numel(), shape[0], grads.gradients.dtype)


def typical_loss(positions: int, inputs_size: int, outputs_size: int, kind: torch.dtype = torch.float32) -> float:
    """By how much the allowances shorten a clipped gradient, for positions whose gradients are at right angles.

    Then S is sqrt(T) times the norm. Positions that agree lose less (S is the norm), those that cancel more. It depends
    on shapes alone, so that plans and documents may print it.
    """
    ratio, rounding = math.sqrt(positions), argument_rounding(kind)
    u = rounded_product(UNIT[kind], rounding, accumulated(positions, kind))
    if positions * (inputs_size + outputs_size) < inputs_size * outputs_size and not rounding:
        kappa = (1 + chunked(inputs_size, CHUNKS[kind], kind)) * (1 + chunked(outputs_size, CHUNKS[kind], kind)) - 1
        return 1 - 1 / (math.sqrt(1 + kappa * ratio**2) + u * ratio)
    gamma = rounded_product(0.0, rounding, accumulated(positions, kind))
    return 1 - 1 / (1 + (u + gamma) * ratio)
