"""Per-example gradients that are never written down: positions of a linear layer, of a convolution, of a table.

They answer the questions of `gradient_rows.Rows` that clipping in the l2 norm asks: a bound on each example's norm, in
two parts (`fused_norms` has the claim), and a weighted sum. Bounds are worked out when they are first asked for, so
that uses of one weight can be put together before.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

from inid.dpsgd.kernels.fused_norms import direct_bound, gram_bound, products, table_bound, tied_bound
from inid.dpsgd.kernels.fused_rounding import UNIT, accumulated, argument_rounding, rounded_product
from inid.dpsgd.kernels.fused_sums import add_products, table_sum, weighted_product
from inid.dpsgd.rows.gradient_rows import Bounds, Dense, Rows, Summed

__all__ = ["Lookups", "Positions", "Tied", "put_together"]

# The most that the lengths of an example's terms add up to, in thresholds (see `fused_norms` on others). Positions at
# right angles add up to sqrt(T) of them, so that nothing but what all but cancels is shortened by it.
_LONGEST = 2.0**8


class Measured(NamedTuple):
    """Bounds on the norms of gradients, one number per example in float64, infinite for one that adds nothing.

    Attributes:
        square: An upper bound on the squared norm, without what the direct product may have lost.
        whole: What the next two are parts of: S (for a tied weight, the allowance itself).
        lost: gamma: what the direct product may have lost of the norm.
        rounding: u: what rounding can add to the norm of a contribution, relative to its factor.
    """

    square: Tensor
    whole: Tensor
    lost: float
    rounding: float


class _Bounded(Summed, ABC):
    """What the forms have in common."""

    @abstractmethod
    def _measure(self) -> Measured: ...

    @cached_property
    def measured(self) -> Measured:
        """The bounds, worked out once."""
        return self._measure()

    def powers(self, order: int) -> Tensor:
        """Per example an upper bound on the squared norm, in float64, without the allowance."""
        assert order == 2  # noqa: S101 - the strategy for l1 norms writes rows down
        found = self.measured
        return _kept_short(found.square, found.whole, found.lost + found.rounding)

    def allowances(self) -> Tensor:
        """Per example what is to be added to the norm for rounding."""
        found = self.measured
        return (found.lost + found.rounding) * found.whole

    def bounds(self) -> Bounds:
        """The bound on the squared norm, and what the allowance is a part of."""
        found = self.measured
        return Bounds(self.powers(2)[:, None], found.whole, found.lost + found.rounding)


class Positions(_Bounded):
    """A linear layer's gradients, sum_t g_t a_t^T.

    Args:
        gradients: Shape (examples, positions, d_out).
        inputs: Shape (examples, positions, d_in), or what `spread` makes that of.
        spread: Makes positions of the input (the windows of a convolution), where it is not so already.

    >>> rows = Positions(torch.ones(2, 3, 1), torch.ones(2, 3, 2))
    >>> rows.combined(torch.tensor([1.0, 0.0])).tolist(), bool((rows.powers(2) >= 18).all())
    ([3.0, 3.0], True)
    """

    def __init__(self, gradients: Tensor, inputs: Tensor, spread: Callable[[Tensor], Tensor] | None = None) -> None:
        self.gradients, self._inputs, self._spread = gradients, inputs, spread

    @property
    def inputs(self) -> Tensor:
        """What the layer met at each position, shape (examples, positions, d_in)."""
        return self._inputs if self._spread is None else self._spread(self._inputs)

    @property
    def is_cuda(self) -> bool:
        """Whether they lie on a GPU."""
        return self.gradients.is_cuda

    def _measure(self) -> Measured:
        inputs, gradients = self.inputs, self.gradients
        count, met, made = inputs.shape[1], inputs.shape[2], gradients.shape[2]
        kind, arguments = gradients.dtype, argument_rounding(gradients.dtype)
        if count * (met + made) < met * made and not arguments:
            (square, whole), gamma = gram_bound(inputs, gradients), 0.0
        else:
            square, whole, gamma = direct_bound(inputs, gradients)
        u = rounded_product(UNIT[kind] * (1 + 2.0**-10), arguments, accumulated(count, kind))
        return Measured(square, whole, gamma, u)

    def combined(self, factors: Tensor) -> Tensor:
        """The sum of factors[i] * row i, flat."""
        return weighted_product(self.inputs, self.gradients, factors).to(factors.dtype)

    def add_to(self, place: Tensor, factors: Tensor, limit: float) -> None:
        """Add the sum of limit * factors[i] * row i."""
        self.add_apart([place], factors, limit)

    def add_apart(self, places: Sequence[Tensor], factors: Tensor, limit: float) -> None:
        """Add the sums of as many equal stretches of rows as there are places, each to its own."""
        inputs = self.inputs
        if not add_products(places, inputs, self.gradients, factors, limit):
            parts = (each.chunk(len(places)) for each in (inputs, self.gradients, factors))
            for place, met, back, own in zip(places, *parts, strict=True):
                place.add_(weighted_product(met, back, own).to(own.dtype), alpha=limit)

    def finite(self) -> "Positions":
        """Itself: an example with a number that is not finite has an infinite norm, and adds nothing."""
        return self

    def dense(self) -> Tensor:
        """The rows written down."""
        return products(self.gradients.mT, self.inputs).flatten(1)

    def beside(self, other: "Positions") -> "Positions":
        """Another use of the same weight: more positions of the same gradient."""
        gradients = torch.cat([self.gradients, other.gradients], 1)
        return Positions(gradients, torch.cat([self.inputs, other.inputs], 1))


class Lookups(_Bounded):
    """A table's gradients, sum_t e_t on line k_t.

    Args:
        tokens: k_t, shape (examples, positions); negative for a position that gets no gradient.
        gradients: e_t, shape (examples, positions, width).
        height: How many lines the table has.

    >>> rows = Lookups(torch.tensor([[1, 1]]), torch.ones(1, 2, 1), 3)
    >>> rows.combined(torch.tensor([0.5])).tolist(), rows.dense().tolist()
    ([0.0, 1.0, 0.0], [[0.0, 2.0, 0.0]])
    """

    def __init__(self, tokens: Tensor, gradients: Tensor, height: int) -> None:
        self.tokens, self.gradients, self.height = tokens, gradients, height

    @property
    def is_cuda(self) -> bool:
        """Whether they lie on a GPU."""
        return self.gradients.is_cuda

    def _measure(self) -> Measured:
        square, whole = table_bound(self.tokens, self.gradients)
        # Each term is rounded to its type once; a line adds the example's own terms in float32 or float64.
        kind = torch.float64 if self.gradients.dtype == torch.float64 else torch.float32
        unit = UNIT[self.gradients.dtype] * (1 + 2.0**-10)
        u = rounded_product(unit, 0.0, accumulated(self.tokens.shape[1], kind))
        return Measured(square, whole, 0.0, u)

    def combined(self, factors: Tensor) -> Tensor:
        """The sum of factors[i] * row i, flat."""
        return table_sum(self.tokens, self.gradients, factors, self.height)

    def finite(self) -> "Lookups":
        """Itself: an example with a number that is not finite has an infinite norm, and adds nothing."""
        return self

    def dense(self) -> Tensor:
        """The rows written down."""
        ones = torch.ones(1, dtype=self.gradients.dtype, device=self.gradients.device)
        each = zip(torch.split(self.tokens, 1), torch.split(self.gradients, 1), strict=True)
        return torch.stack([table_sum(tokens, own, ones, self.height) for tokens, own in each])

    def beside(self, other: "Lookups") -> "Lookups":
        """Another use of the same table."""
        tokens, gradients = torch.cat([self.tokens, other.tokens], 1), torch.cat([self.gradients, other.gradients], 1)
        return Lookups(tokens, gradients, self.height)


class Tied(_Bounded):
    """The gradients of a weight that is a table and an output layer at once."""

    def __init__(self, table: Lookups, layer: Positions) -> None:
        self.table, self.layer = table, layer

    @property
    def is_cuda(self) -> bool:
        """Whether they lie on a GPU."""
        return self.table.is_cuda

    def _measure(self) -> Measured:
        table, layer = self.table.measured, self.layer.measured
        second = layer.square
        if layer.lost:  # not zero times S, which may be infinite
            second = (second.sqrt() + layer.lost * layer.whole).square_() * (1 + 2.0**-40)
        tied = tied_bound(
            self.table.tokens,
            self.table.gradients,
            self.layer.inputs,
            self.layer.gradients,
            (table.square, table.whole, second, layer.whole),
        )
        # The two sums are rounded apart, and added: one more rounding of what is at most S long.
        units = [UNIT[each.gradients.dtype] for each in (self.table, self.layer)]
        apart = table.rounding * table.whole + layer.rounding * layer.whole
        both = table.whole + layer.whole
        # Under autocast the table is float32 beside a layer in bfloat16: the finer unit is what `apart` has of both.
        tied = _kept_short(tied, both, min(units))
        return Measured(tied, apart * (1 + 2.0**-20) + both * min(max(units), UNIT[torch.float32]), 0.0, 1.0)

    def combined(self, factors: Tensor) -> Tensor:
        """The sum of factors[i] * row i, flat."""
        return self.table.combined(factors).add_(self.layer.combined(factors))

    def finite(self) -> "Tied":
        """Itself: as for its parts."""
        return self

    def dense(self) -> Tensor:
        """The rows written down."""
        return self.table.dense() + self.layer.dense()


def put_together(one: Rows, other: Rows) -> Rows:
    """The gradients of one parameter from two uses: one gradient per example, the sum, which is clipped once.

    >>> a = Positions(torch.ones(1, 1, 1), torch.ones(1, 1, 1))
    >>> put_together(a, a).combined(torch.ones(1)).tolist()
    [2.0]
    """
    if isinstance(one, Positions) and isinstance(other, Positions) and _alike(one, other):
        return one.beside(other)
    if isinstance(one, Lookups) and isinstance(other, Lookups) and _alike(one, other):
        return one.beside(other)
    if isinstance(one, Tied) and isinstance(other, Lookups) and _alike(one.table, other):
        return Tied(one.table.beside(other), one.layer)
    if isinstance(one, Tied) and isinstance(other, Positions) and _alike(one.layer, other):
        return Tied(one.table, one.layer.beside(other))
    for table, layer in ((one, other), (other, one)):
        if isinstance(table, Lookups) and isinstance(layer, Positions):
            return Tied(table, layer)
    return Dense(one.dense() + other.dense())


def _kept_short(square: Tensor, whole: Tensor, part: float) -> Tensor:
    """A bound on the squared norm for which S is at most so many times the norm, where the allowance alone is not."""
    return square if part * _LONGEST >= 1 else torch.maximum(square, (whole / _LONGEST).square())


def _alike(one: Positions | Lookups, other: Positions | Lookups) -> bool:
    return one.gradients.dtype == other.gradients.dtype
