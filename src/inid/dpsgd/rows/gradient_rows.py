"""Per-example gradients of one parameter, in the form that is cheapest to clip.

Every form answers the same questions: how long is each example's row, what is a weighted sum of the rows, what is the
sum of the rows held entry by entry. `Outer` and `Spread` answer without writing the rows down. A length is always the
length of the very numbers that are summed: formulas that cancel (Gram matrices of long sequences) would let an example
slip under its threshold, so none is used here. (Forms that do use them, with allowances for what cancels, are in
`fused_positions`.)
"""

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from inid.dpsgd.kernels import row_kernels

__all__ = ["Bounds", "Dense", "Outer", "Rows", "Sliced", "Spread", "Summed", "cut_off", "raised", "row_norms"]

# Entries that are added in the rows' own precision, times the order of the norm: adding 64 squares may be off by 64
# units of rounding, which the root halves; the sum of absolute values has no root.
_CHUNK = 32

# Rows up to this long are added in float64 on a CPU too: the fewest calls. It goes by their length, which is public.
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
    """What bounds the norms: sqrt of the sum of `squares` over their second dimension, plus `part` times `whole`."""

    squares: Tensor
    whole: Tensor | None = None
    part: float = 0.0


class Rows(Protocol):
    """The gradients of one parameter, one row per example."""

    @property
    def is_cuda(self) -> bool:
        """Whether they lie on a GPU."""
        ...

    def powers(self, order: int) -> Tensor:
        """Per example the sum of |entry|**order, in float64."""
        ...

    def allowances(self) -> Tensor | None:
        """Per example what rounding can add to the norm, in float64; None for rows that are measured as they are."""
        ...

    def bounds(self) -> Bounds:
        """Powers of order 2 and allowances in one, for `gpu_clipping`; what is not finite counts as 0."""
        ...

    def add_to(self, place: Tensor, factors: Tensor, limit: float) -> None:
        """Add the sum of limit * factors[i] * row i to what stands at a place."""
        ...

    def finite(self) -> "Rows":
        """The same with 0 for every number that is not finite."""
        ...

    def dense(self) -> Tensor:
        """The rows written down, shape (examples, size)."""
        ...


class Summed:
    """Adds its weighted sum to a place."""

    @abstractmethod
    def combined(self, factors: Tensor) -> Tensor:
        """The sum of factors[i] * row i, flat."""

    def add_to(self, place: Tensor, factors: Tensor, limit: float) -> None:
        """Add the sum of limit * factors[i] * row i."""
        place.add_(self.combined(factors), alpha=limit)


class _Unrounded(Summed):
    """Rows that are measured as they are."""

    @abstractmethod
    def powers(self, order: int) -> Tensor:
        """Per example the sum of |entry|**order, in float64."""

    def allowances(self) -> None:
        """None: the norm is that of the very numbers that are summed."""
        return

    @abstractmethod
    def dense(self) -> Tensor:
        """The rows written down, shape (examples, size)."""

    def bounds(self) -> Bounds:
        """Powers of order 2."""
        return Bounds(self.powers(2)[:, None])

    def add_apart(self, places: Sequence[Tensor], factors: Tensor, limit: float) -> None:
        """Add the sums of as many equal stretches of rows as there are places, each to its own."""
        several = (each.chunk(len(places)) for each in (factors, self.dense()))
        for place, own, rows in zip(places, *several, strict=True):
            place.add_(_weighted(own, rows), alpha=limit)


@dataclass(frozen=True, eq=False)
class Dense(_Unrounded):
    """Rows that are written down.

    Attributes:
        rows: Shape (examples, size).
        squares: Per example the sum of squares in float64, where it is known; then every entry is finite.

    >>> Dense(torch.tensor([[3.0, 4.0], [0.0, 1.0]])).powers(2).round().tolist()   # rounded up a little
    [25.0, 1.0]
    """

    rows: Tensor
    squares: Tensor | None = None

    @property
    def is_cuda(self) -> bool:
        """Whether they lie on a GPU."""
        return self.rows.is_cuda

    def powers(self, order: int) -> Tensor:
        """Per example the sum of |entry|**order, in float64."""
        return _powers(self.rows, order) if self.squares is None or order != 2 else self.squares.clone()

    def bounds(self) -> Bounds:
        """Powers of order 2, without what is not finite."""
        if self.squares is None and row_kernels.usable(self.rows, self.rows.shape[0]):
            return Bounds(row_kernels.square_sums(self.rows))
        return Bounds(self.squares[:, None]) if self.squares is not None else super().bounds()

    def add_to(self, place: Tensor, factors: Tensor, limit: float) -> None:
        """Add the sum of limit * factors[i] * row i."""
        if row_kernels.adds(place, self.rows, factors):
            row_kernels.add_weighted_sum(place, self.rows, factors, limit)
        else:
            super().add_to(place, factors, limit)

    def add_apart(self, places: Sequence[Tensor], factors: Tensor, limit: float) -> None:
        """Add the sums of as many equal stretches of rows as there are places, each to its own."""
        if factors.dtype == torch.float32 and row_kernels.usable(self.rows, len(self.rows)):
            made = row_kernels.stretch_sums(self.rows, factors, len(places))
            torch._foreach_add_(list(places), list(made.unbind()), alpha=limit)  # as torch's own optimizers do
        else:
            super().add_apart(places, factors, limit)

    def combined(self, factors: Tensor) -> Tensor:
        """The sum of factors[i] * row i, flat."""
        return _weighted(factors, self.rows)

    def finite(self) -> "Dense":
        """The same with 0 for every number that is not finite."""
        return self if self.squares is not None else replace(self, rows=_finite(self.rows))

    def dense(self) -> Tensor:
        """The rows."""
        return self.rows


@dataclass(frozen=True, eq=False)
class Sliced(_Unrounded):
    """Rows that are written down in slices of one size, in another order than the parameter's: a convolution.

    Attributes:
        slices: Shape (slices, examples, size).
        sizes: The axes of a slice of a row.
        order: The order of the slices and of these axes that makes a row the parameter's.

    >>> rows = Sliced(torch.tensor([[[1.0, 2.0]], [[3.0, 4.0]]]), (2,), (1, 0))
    >>> rows.dense().tolist(), rows.combined(torch.ones(1)).tolist()
    ([[1.0, 3.0, 2.0, 4.0]], [1.0, 3.0, 2.0, 4.0])
    """

    slices: Tensor
    sizes: tuple[int, ...]
    order: tuple[int, ...]

    @property
    def is_cuda(self) -> bool:
        """Whether they lie on a GPU."""
        return self.slices.is_cuda

    def powers(self, order: int) -> Tensor:
        """Per example the sum of |entry|**order, in float64."""
        several, count = self.slices.shape[:2]
        made = _powers(self.slices.flatten(0, 1), order).view(several, count)
        return made[0] if several == 1 else raised(made.sum(0), several)

    def combined(self, factors: Tensor) -> Tensor:
        """The sum of factors[i] * row i, flat."""
        return self.by_column(partial(_weighted, factors))

    def by_column(self, work: Callable[[Tensor], Tensor]) -> Tensor:
        """What is made of rows column by column, such as a sum, made of each slice; in the order of the parameter."""
        made = torch.stack([work(each) for each in self.slices])
        return made.view(len(made), *self.sizes).permute(self.order).flatten()

    def finite(self) -> "Sliced":
        """The same with 0 for every number that is not finite."""
        return replace(self, slices=_finite(self.slices))

    def dense(self) -> Tensor:
        """The rows, in the order of the parameter."""
        several, count = self.slices.shape[:2]
        rows = self.slices.view(several, count, *self.sizes).transpose(0, 1)
        return rows.permute(0, *(1 + axis for axis in self.order)).flatten(1)


@dataclass(frozen=True, eq=False)
class Outer(_Unrounded):
    """Rows that are outer products of a gradient and an input: a linear layer that each example meets once.

    >>> rows = Outer(torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0, 4.0]]))
    >>> rows.powers(1).round().tolist(), rows.dense().tolist()
    ([21.0], [[3.0, 4.0, 6.0, 8.0]])
    """

    gradients: Tensor
    inputs: Tensor

    @property
    def is_cuda(self) -> bool:
        """Whether they lie on a GPU."""
        return self.gradients.is_cuda

    def powers(self, order: int) -> Tensor:
        """Per example the sum of |entry|**order, in float64."""
        flowed, met = (row_norms(each, order) for each in (self.gradients, self.inputs))
        norms = met.masked_fill_((met > _HUGE) | (flowed > _HUGE), torch.inf).mul_(flowed)
        # Infinity times zero is not a number, and counts as infinite.
        return (norms if order == 1 else norms.square_()).nan_to_num_(nan=torch.inf, posinf=torch.inf)

    def combined(self, factors: Tensor) -> Tensor:
        """The sum of factors[i] * row i, flat."""
        return _product(self.gradients * factors[:, None], self.inputs).flatten()

    def whole_sum(self, factors: Tensor, limit: float, bits: int) -> Tensor:
        """The sum of factors[i] * row i, each row cut so that the sum is exact, flat: one product of whole numbers.

        Claim: what a row adds is no longer than factors[i] * row i but for three roundings of float64, in the l1 and
        in the l2 norm, and up to 2^(53 - bits) rows are added without any rounding, in whatever order. A row is u v^T
        with v = input / s and u = factor * s * gradient, s the computed length of the input. Entries of u and v are cut
        towards zero to whole steps, which makes neither longer; s cancels but for the roundings of factor * s, of its
        product with the gradient and of the division. No entry of u is beyond the limit and none of v beyond 1, so
        that in steps their products are at most 2^bits: as many of them as said stay within 2^53, up to which float64
        counts and products, sums and their fusions are exact.

        Args:
            factors: In float64; factors[i] * row i is at most `limit` long, and 0 where a number is too large.
            limit: The threshold, less its margin.
            bits: How many bits an entry of a row has.
        """
        lengths = torch.linalg.vector_norm(self.inputs, dim=1, dtype=torch.float64)
        lengths = torch.where((lengths > 0) & lengths.isfinite(), lengths, 1.0)
        coarse, fine = 2.0 ** (math.frexp(limit)[1] - bits // 2), 2.0 ** -(bits - bits // 2)
        left = torch.mul(self.gradients, (factors * lengths / coarse)[:, None]).trunc_()
        right = (self.inputs.double() / lengths[:, None]).div_(fine).trunc_()
        return (left.T @ right).mul_(coarse * fine).flatten()

    def finite(self) -> "Outer":
        """The same with 0 for every number that is not finite."""
        return Outer(_finite(self.gradients), _finite(self.inputs))

    def of_those(self, factors: Tensor) -> "Outer":
        """The same with inputs of 0 where a factor is 0: what float64 cannot hold once it is multiplied is left out."""
        return Outer(self.gradients, self.inputs.masked_fill((factors == 0)[:, None], 0.0))

    def dense(self) -> Tensor:
        """The rows written down, in float64: a product of two large numbers of float32 fits."""
        return (self.gradients.double()[:, :, None] * self.inputs[:, None, :]).flatten(1)


@dataclass(frozen=True, eq=False)
class Spread(_Unrounded):
    """Rows that are zero but for a few lines of a table: an embedding.

    Attributes:
        examples: Whose line it is, one number per line.
        lines: Which line of the table; no line occurs twice for one example.
        values: The line's gradient, shape (lines, width).
        count: How many examples there are.
        height: How many lines the table has.
    """

    examples: Tensor
    lines: Tensor
    values: Tensor
    count: int
    height: int

    @classmethod
    def gathered(cls, tokens: Tensor, gradients: Tensor, height: int, skipped: int | None) -> "Spread":
        """Add up the gradients of equal tokens, example by example.

        Args:
            tokens: Which line each position reads, shape (examples, positions).
            gradients: What flows back to it, shape (examples, positions, width).
            height: How many lines the table has.
            skipped: A line that gets no gradient (padding), or None.

        >>> s = Spread.gathered(torch.tensor([[1, 1, 0]]), torch.ones(1, 3, 2), 4, None)
        >>> s.powers(1).round().tolist(), s.dense().tolist()
        ([6.0], [[1.0, 1.0, 2.0, 2.0, 0.0, 0.0, 0.0, 0.0]])
        """
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
        """Whether they lie on a GPU."""
        return self.values.is_cuda

    def powers(self, order: int) -> Tensor:
        """Per example the sum of |entry|**order, in float64."""
        out = torch.zeros(self.count, dtype=torch.float64, device=self.values.device)
        # By the height, which is public: how many lines there are in the batch is up to all its examples.
        return raised(out.index_add_(0, self.examples, _powers(self.values, order)), self.height)

    def combined(self, factors: Tensor) -> Tensor:
        """The sum of factors[i] * row i, flat."""
        table = factors.new_zeros(self.height, self.values.shape[1])
        return table.index_add_(0, self.lines, self.values * factors[self.examples, None]).flatten()

    def finite(self) -> "Spread":
        """The same with 0 for every number that is not finite."""
        return replace(self, values=_finite(self.values))

    def dense(self) -> Tensor:
        """The rows written down."""
        table = self.values.new_zeros(self.count, self.height, self.values.shape[1])
        table[self.examples, self.lines] = self.values
        return table.flatten(1)


def _finite(values: Tensor) -> Tensor:
    return torch.nan_to_num(values, nan=0.0, posinf=0.0, neginf=0.0)


def raised(added: Tensor, terms: int) -> Tensor:
    """Sums in float64 of so many numbers, none of them negative, or norms of so many: at or above the true ones.

    Whatever the order of the additions, each is off by at most 2^-53 of what it gives. (Numbers of float64 can lose as
    much as that: one, and then many that are each too small to count beside it.)

    >>> float(raised(torch.ones(1, dtype=torch.float64), 2**20)) == 1 + (2**20 + 2) * 2.0**-52
    True
    """
    return added * (1 + (terms + 2) * 2.0**-52)


def cut_off(numbers: Tensor) -> Tensor:
    """Cut numbers towards zero to whole ones, in place: `trunc_`, which takes three times as long on a CPU.

    What is cut off is exact, and so is the difference.

    >>> cut_off(torch.tensor([2.75, -2.75, 2.0**60])).tolist() == [2.0, -2.0, 2.0**60]
    True
    """
    return numbers.trunc_() if numbers.is_cuda else numbers.sub_(numbers.frac())


def row_norms(rows: Tensor, order: int) -> Tensor:
    """The norm of each row, in float64, rounded up."""
    return raised(torch.linalg.vector_norm(rows, ord=order, dim=1, dtype=torch.float64), rows.shape[1])


def _powers(rows: Tensor, order: int) -> Tensor:
    """Sums of |entry|**order per row, rounded little enough for `clipped_sums.MARGIN` whatever the order of summation.

    GPUs add in float64, and so does a CPU where rows are short; else a few entries at a time are added in the rows' own
    precision, and these in float64.
    """
    if rows.is_cuda or rows.shape[1] <= _NARROW:
        norms = row_norms(rows, order)
        return norms if order == 1 else norms.square_()
    rows = rows if rows.dtype == torch.float64 else rows.float()
    (count, size), chunk = rows.shape, _CHUNK * order
    whole = size - size % chunk
    total = torch.full((count,), size * _LOST, dtype=torch.float64, device=rows.device)
    parts = [rows[:, :whole].reshape(count, -1, chunk)] if whole else []
    if whole < size:
        parts.append(rows[:, whole:].unsqueeze(1))
    for part in parts:
        norms = torch.linalg.vector_norm(part, ord=order, dim=2).double()
        total += (norms if order == 1 else norms.square_()).sum(1)
    return raised(total, size // chunk + 2)


# torch's products may round their arguments to fewer bits (TF32 on a GPU, bfloat16 elsewhere, as settings say), which
# would let an example exceed its threshold. Products in float64 are exempt, and so are sums of one bag.


def _weighted(factors: Tensor, rows: Tensor) -> Tensor:
    if factors.dtype == torch.float32 and row_kernels.usable(rows, rows.shape[0]):
        return row_kernels.weighted_sum(rows, factors)
    # Rows of less precision are promoted in passing.
    if rows.is_cuda or rows.dtype != factors.dtype or rows.shape[1] <= _NARROW:
        return (rows * factors[:, None]).sum(0)
    everyone = torch.arange(rows.shape[0])
    # As functional.embedding_bag calls it: one bag, mode 0 for a sum.
    return torch.embedding_bag(rows, everyone, everyone[:1], False, 0, False, factors)[0][0]


def _product(left: Tensor, right: Tensor) -> Tensor:
    return (left.T.double() @ right.double()).to(left.dtype)
