"""Per-example gradients of one parameter, in the form that is cheapest to clip.

Every form answers the same questions: how long is each example's gradient, and what is a weighted sum of them.
`OuterGrads` and `EmbeddingGrads` answer without writing the gradients down. A length is always the length of the very
numbers that are summed: formulas that cancel (Gram matrices of long sequences) would let an example slip under its
threshold, so none is used here. (Forms that do use them, with allowances for what cancels, are in `ghost_clipping`.)

`GradSampler` says of a kind of layer how its per-example gradients are made.
"""

import math
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple, Protocol

import torch
from torch import Tensor, nn

from inid.dpsgd.kernels import grad_sample_kernels
from inid.errors import GuaranteeError

# Entries that are added in their own precision, times the order of the norm: adding 64 squares may be off by 64 units
# of rounding, which the root halves; the sum of absolute values has no root.
_CHUNK = 32

# Gradients up to this long are added in float64 on a CPU too: the fewest calls. Their length decides, which is public.
# How many there are may be up to all examples (lines of a table), and none may change the last digits of others.
_NARROW = 64

# What squares may lose to underflow, per entry: the smallest normal float32, since denormals may be flushed.
_LOST = 2.0**-126

# Beyond this norm either factor of an outer product is as good as infinite: the other may be so small that it would
# lose its digits when it is scaled, and a gradient that is scaled up, because the input beside it is next to nothing,
# would overflow, which no input makes good again. (A factor is at most 2^40, one over the least threshold, times the
# number of examples.)
_HUGE = 2.0**60


class Bounds(NamedTuple):
    """What bounds the norms: sqrt of the sum of `squares` over their second dimension, plus `part` times `absolute`."""

    squares: Tensor
    absolute: Tensor | None = None
    part: float = 0.0


class GradSamples(Protocol):
    """The gradients of one parameter, one gradient per example."""

    @property
    def is_cuda(self) -> bool:
        """Whether they lie on a GPU."""
        ...

    def powers(self, order: int) -> Tensor:
        """Per example the sum of |entry|**order, in float64."""
        ...

    def allowances(self) -> Tensor | None:
        """Per example what rounding can add to the norm, in float64; None where the norm is that of what is summed."""
        ...

    def bounds(self) -> Bounds:
        """Powers of order 2 and allowances in one, for `clipped_sums`; what is not finite counts as 0."""
        ...

    def add_to(self, place: Tensor, factors: Tensor, limit: float) -> None:
        """Add the sum of limit * factors[i] * gradient i to what stands at a place."""
        ...

    def finite(self) -> "GradSamples":
        """The same with 0 for every number that is not finite."""
        ...

    def dense(self) -> Tensor:
        """The gradients written down, shape (examples, size)."""
        ...


class AddsWeightedSum:
    """Adds its weighted sum to a place."""

    @abstractmethod
    def combined(self, factors: Tensor) -> Tensor:
        """The sum of factors[i] * gradient i, flat."""

    def add_to(self, place: Tensor, factors: Tensor, limit: float) -> None:
        place.add_(self.combined(factors), alpha=limit)


class _Exact(AddsWeightedSum):
    """Gradients that are measured as they are."""

    @abstractmethod
    def powers(self, order: int) -> Tensor:
        """Per example the sum of |entry|**order, in float64."""

    def allowances(self) -> None:
        return

    @abstractmethod
    def dense(self) -> Tensor:
        """The gradients written down, shape (examples, size)."""

    def bounds(self) -> Bounds:
        return Bounds(self.powers(2)[:, None])

    def add_separately(self, places: Sequence[Tensor], factors: Tensor, limit: float) -> None:
        several = (each.chunk(len(places)) for each in (factors, self.dense()))
        for place, factor, grads in zip(places, *several, strict=True):
            place.add_(_weighted(factor, grads), alpha=limit)


@dataclass(frozen=True, eq=False)
class DenseGrads(_Exact):
    """Gradients that are written down."""

    grads: Tensor
    squares: Tensor | None = None

    @property
    def is_cuda(self) -> bool:
        return self.grads.is_cuda

    def powers(self, order: int) -> Tensor:
        return _powers(self.grads, order) if self.squares is None or order != 2 else self.squares.clone()

    def bounds(self) -> Bounds:
        if self.squares is None and grad_sample_kernels.usable(self.grads, self.grads.shape[0]):
            return Bounds(grad_sample_kernels.square_sums(self.grads))
        return Bounds(self.squares[:, None]) if self.squares is not None else super().bounds()

    def add_to(self, place: Tensor, factors: Tensor, limit: float) -> None:
        if grad_sample_kernels.adds(place, self.grads, factors):
            grad_sample_kernels.add_weighted_sum(place, self.grads, factors, limit)
        else:
            super().add_to(place, factors, limit)

    def add_separately(self, places: Sequence[Tensor], factors: Tensor, limit: float) -> None:
        if factors.dtype == torch.float32 and grad_sample_kernels.usable(self.grads, len(self.grads)):
            sums = grad_sample_kernels.stretch_sums(self.grads, factors, len(places))
            torch._foreach_add_(list(places), list(sums.unbind()), alpha=limit)  # as torch's own optimizers do
        else:
            super().add_separately(places, factors, limit)

    def combined(self, factors: Tensor) -> Tensor:
        return _weighted(factors, self.grads)

    def finite(self) -> "DenseGrads":
        return self if self.squares is not None else replace(self, grads=_finite(self.grads))

    def dense(self) -> Tensor:
        return self.grads


@dataclass(frozen=True, eq=False)
class SlicedGrads(_Exact):
    """Gradients that are written down in slices of one size, in another order than the parameter's: a convolution."""

    slices: Tensor
    sizes: tuple[int, ...]
    order: tuple[int, ...]

    @property
    def is_cuda(self) -> bool:
        return self.slices.is_cuda

    def powers(self, order: int) -> Tensor:
        several, count = self.slices.shape[:2]
        by_slice = _powers(self.slices.flatten(0, 1), order).view(several, count)
        return by_slice[0] if several == 1 else raised(by_slice.sum(0), several)

    def combined(self, factors: Tensor) -> Tensor:
        return self.by_column(partial(_weighted, factors))

    def by_column(self, work: Callable[[Tensor], Tensor]) -> Tensor:
        """What is made column by column, such as a sum, of each slice; in the order of the parameter."""
        columns = torch.stack([work(each) for each in self.slices])
        return columns.view(len(columns), *self.sizes).permute(self.order).flatten()

    def finite(self) -> "SlicedGrads":
        return replace(self, slices=_finite(self.slices))

    def dense(self) -> Tensor:
        several, count = self.slices.shape[:2]
        grads = self.slices.view(several, count, *self.sizes).transpose(0, 1)
        return grads.permute(0, *(1 + axis for axis in self.order)).flatten(1)


@dataclass(frozen=True, eq=False)
class OuterGrads(_Exact):
    """Gradients that are outer products of a gradient and an input: a linear layer that each example meets once."""

    gradients: Tensor
    inputs: Tensor

    @property
    def is_cuda(self) -> bool:
        return self.gradients.is_cuda

    def powers(self, order: int) -> Tensor:
        flowed, input_norms = (vector_norms(each, order) for each in (self.gradients, self.inputs))
        norms = input_norms.masked_fill_((input_norms > _HUGE) | (flowed > _HUGE), torch.inf).mul_(flowed)
        # Infinity times zero is not a number, and counts as infinite.
        return (norms if order == 1 else norms.square_()).nan_to_num_(nan=torch.inf, posinf=torch.inf)

    def combined(self, factors: Tensor) -> Tensor:
        return _product(self.gradients * factors[:, None], self.inputs).flatten()

    def exact_sum(self, factors: Tensor, limit: float, bits: int) -> Tensor:
        """The sum of factors[i] * gradient i, each cut so that the sum is exact, flat: one product of whole numbers.

        Claim: what a gradient adds is no longer than factors[i] * gradient i but for three roundings of float64, in the
        l1 and in the l2 norm, and up to 2^(53 - bits) are added without any rounding, in whatever order. It is u v^T
        with v = input / s and u = factor * s * gradient, s the computed length of the input. Entries of u and v are cut
        towards zero to whole steps, which makes neither longer; s cancels but for the roundings of factor * s, of its
        product with the gradient and of the division. No entry of u is beyond the limit and none of v beyond 1, so
        that in steps their products are at most 2^bits: as many of them as said stay within 2^53, up to which float64
        counts and products, sums and their fusions are exact.
        """
        lengths = torch.linalg.vector_norm(self.inputs, dim=1, dtype=torch.float64)
        lengths = torch.where((lengths > 0) & lengths.isfinite(), lengths, 1.0)
        coarse, fine = 2.0 ** (math.frexp(limit)[1] - bits // 2), 2.0 ** -(bits - bits // 2)
        left = torch.mul(self.gradients, (factors * lengths / coarse)[:, None]).trunc_()
        right = (self.inputs.double() / lengths[:, None]).div_(fine).trunc_()
        return (left.T @ right).mul_(coarse * fine).flatten()

    def finite(self) -> "OuterGrads":
        return OuterGrads(_finite(self.gradients), _finite(self.inputs))

    def of_those(self, factors: Tensor) -> "OuterGrads":
        """The same with inputs of 0 where a factor is 0: what float64 cannot hold once it is multiplied is left out."""
        return OuterGrads(self.gradients, self.inputs.masked_fill((factors == 0)[:, None], 0.0))

    def dense(self) -> Tensor:
        return (self.gradients.double()[:, :, None] * self.inputs[:, None, :]).flatten(1)


@dataclass(frozen=True, eq=False)
class EmbeddingGrads(_Exact):
    """Gradients that are zero but for a few lines of a table: an embedding."""

    examples: Tensor
    lines: Tensor
    values: Tensor
    count: int
    height: int

    @classmethod
    def of_tokens(cls, tokens: Tensor, gradients: Tensor, height: int, skipped: int | None) -> "EmbeddingGrads":
        """Add up the gradients of equal tokens, example by example."""
        count = tokens.shape[0]
        owners = torch.arange(count, device=tokens.device)[:, None].expand_as(tokens)
        keys, places = torch.unique((owners * height + tokens).flatten(), return_inverse=True)
        values = gradients.new_zeros(keys.numel(), gradients.shape[-1])
        values.index_add_(0, places, gradients.flatten(0, 1))
        lines = keys % height
        if skipped is not None:
            values = values * (lines != skipped)[:, None]
        return cls(keys // height, lines, values, count, height)

    @property
    def is_cuda(self) -> bool:
        return self.values.is_cuda

    def powers(self, order: int) -> Tensor:
        out = torch.zeros(self.count, dtype=torch.float64, device=self.values.device)
        # By the height, which is public: how many lines there are in the batch is up to all its examples.
        return raised(out.index_add_(0, self.examples, _powers(self.values, order)), self.height)

    def combined(self, factors: Tensor) -> Tensor:
        table = factors.new_zeros(self.height, self.values.shape[1])
        return table.index_add_(0, self.lines, self.values * factors[self.examples, None]).flatten()

    def finite(self) -> "EmbeddingGrads":
        return replace(self, values=_finite(self.values))

    def dense(self) -> Tensor:
        table = self.values.new_zeros(self.count, self.height, self.values.shape[1])
        table[self.examples, self.lines] = self.values
        return table.flatten(1)


def _finite(values: Tensor) -> Tensor:
    return torch.nan_to_num(values, nan=0.0, posinf=0.0, neginf=0.0)


def raised(added: Tensor, terms: int) -> Tensor:
    """Sums in float64 of so many numbers, none of them negative, or norms of so many: at or above the true ones.

    Whatever the order of the additions, each is off by at most 2^-53 of what it gives. (Numbers of float64 can lose as
    much as that: one, and then many that are each too small to count beside it.)
    """
    return added * (1 + (terms + 2) * 2.0**-52)


def truncated_(numbers: Tensor) -> Tensor:
    """Cut numbers towards zero to whole ones, in place: `trunc_`, which takes three times as long on a CPU.

    What is cut off is exact, and so is the difference.
    """
    return numbers.trunc_() if numbers.is_cuda else numbers.sub_(numbers.frac())


def vector_norms(grads: Tensor, order: int) -> Tensor:
    """The norm of each gradient, in float64, rounded up."""
    return raised(torch.linalg.vector_norm(grads, ord=order, dim=1, dtype=torch.float64), grads.shape[1])


def _powers(grads: Tensor, order: int) -> Tensor:
    """Sums of |entry|**order, rounded little enough for `clipped_sums.MARGIN` whatever the order of summation.

    GPUs add in float64, and so does a CPU where gradients are short; else a few entries at a time are added in their
    own precision, and these in float64.
    """
    if grads.is_cuda or grads.shape[1] <= _NARROW:
        norms = vector_norms(grads, order)
        return norms if order == 1 else norms.square_()
    grads = grads if grads.dtype == torch.float64 else grads.float()
    (count, size), chunk = grads.shape, _CHUNK * order
    chunked = size - size % chunk
    total = torch.full((count,), size * _LOST, dtype=torch.float64, device=grads.device)
    parts = [grads[:, :chunked].reshape(count, -1, chunk)] if chunked else []
    if chunked < size:
        parts.append(grads[:, chunked:].unsqueeze(1))
    for part in parts:
        norms = torch.linalg.vector_norm(part, ord=order, dim=2).double()
        total += (norms if order == 1 else norms.square_()).sum(1)
    return raised(total, size // chunk + 2)


# torch's products may round their arguments to fewer bits (TF32 on a GPU, bfloat16 elsewhere, as settings say), which
# would let an example exceed its threshold. Products in float64 are exempt, and so are sums of one bag.


def _weighted(factors: Tensor, grads: Tensor) -> Tensor:
    if factors.dtype == torch.float32 and grad_sample_kernels.usable(grads, grads.shape[0]):
        return grad_sample_kernels.weighted_sum(grads, factors)
    # Gradients of less precision are promoted in passing.
    if grads.is_cuda or grads.dtype != factors.dtype or grads.shape[1] <= _NARROW:
        return (grads * factors[:, None]).sum(0)
    everyone = torch.arange(grads.shape[0])
    # As functional.embedding_bag calls it: one bag, mode 0 for a sum.
    return torch.embedding_bag(grads, everyone, everyone[:1], False, 0, False, factors)[0][0]


def _product(left: Tensor, right: Tensor) -> Tensor:
    return (left.T.double() @ right.double()).to(left.dtype)


Formula = Callable[[nn.Module, Tensor, Tensor], Mapping[str, Tensor | GradSamples]]
Ghost = Callable[..., dict[str, GradSamples] | None]


@dataclass(frozen=True, kw_only=True)
class GradSampler:
    """The per-sample gradients of a kind of layer that takes one tensor and returns one.

    Attributes:
        formula: Takes a layer, its input and the gradient that flows back to its output, examples first; gives by the
            name of each parameter its gradients: the shape of the parameter, examples first. Row i must come from
            example i alone.
        parameters: The names of the parameters that the formula knows. A layer with others has no sampler, and neither
            has one without the first.
        positions: Whether any dimensions between the first and the layer's own are positions, at which the layer does
            the same: the input of `Linear` may be (examples, width) or (examples, positions, width).
        narrowed: Whether autocast makes the layer's input narrower, as it does for products of matrices: then it is
            made so, and kept, once.
        settings: The attributes of the layer that the formula depends on. Layers that agree in them are taken together
            on a GPU, so the formula may not depend on anything else, such as a weight. None: layers are taken one by
            one.
        accepts: Whether the formula is right for a layer of the kind; None: for all.
        ghost: The same gradients without writing them down, for the layers of torch (see `ghost_clipping`).

    >>> def scaled(layer, inputs, gradients):
    ...     return {"weight": inputs * gradients}
    >>> GradSampler(formula=scaled, parameters=("weight",)).positions
    False
    """

    formula: Formula
    parameters: tuple[str, ...] = ("weight", "bias")
    positions: bool = False
    narrowed: bool = False
    settings: tuple[str, ...] | None = None
    accepts: Callable[[nn.Module], bool] | None = None
    ghost: Ghost | None = None

    def is_for(self, layer: nn.Module) -> bool:
        """Whether the formula is right for a layer: it computes what its class does, with parameters of its own."""
        plain = set(layer._parameters) <= set(self.parameters) and next(layer.children(), None) is None  # noqa: SLF001 - no other way
        # A replaced forward may compute something else; hooks run around the forward, where autograd sees them.
        replaced = getattr(layer.forward, "__func__", None) is not type(layer).forward
        # A weight may be made from other parameters.
        has_parameter = isinstance(getattr(layer, self.parameters[0], None), nn.Parameter)
        return plain and not replaced and has_parameter and (self.accepts is None or self.accepts(layer))

    def split_positions(self, examples: int, *tensors: Tensor) -> tuple[Tensor, ...]:
        """Inputs and gradients with the examples in the first dimension and positions in the second."""
        several = tensors[0].shape[0] // examples
        if several == 1 or not self.positions:
            return tensors
        return tuple(each.reshape(examples, several, *each.shape[1:]) for each in tensors)

    def grad_samples(
        self, layer: nn.Module, inputs: Tensor, gradients: Tensor, examples: int
    ) -> dict[str, GradSamples]:
        """The gradients of a layer whose input has one or several entries per example in its first dimension."""
        given = self.formula(layer, inputs, gradients)
        grads = {name: self._written(name, grads_of_one, len(inputs)) for name, grads_of_one in given.items()}
        if len(inputs) == examples:
            return grads
        several = len(inputs) // examples
        return {
            name: DenseGrads(grads_of_one.dense().view(examples, several, -1).sum(1))
            for name, grads_of_one in grads.items()
        }

    def alike(self, layer: nn.Module, inputs: Tensor) -> tuple[object, ...] | None:
        """What the formula depends on besides input and gradient; None for a layer that is always taken alone."""
        if self.settings is None or (inputs.ndim == 2 and self.positions):
            return None
        return type(layer), *(getattr(layer, name) for name in self.settings)

    def _written(self, name: str, grads: Tensor | GradSamples, examples: int) -> GradSamples:
        if not isinstance(grads, Tensor):
            return grads
        if grads.ndim == 0 or len(grads) != examples:
            raise GuaranteeError(
                f"the formula of a layer gave {name!r} gradients of shape {tuple(grads.shape)} for {examples} "
                "examples: return one gradient per example, in the order of the input."
            )
        return DenseGrads(grads.detach().reshape(examples, -1))
