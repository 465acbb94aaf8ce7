"""Clipped sums: what an example adds to the sum is held to its group's threshold, whatever its gradient is.

The only facts about the data that leave this file are the clipped sums and, for thresholds that adapt, how many
examples were within them. On a GPU norms and shares of a group take few launches, with the same margin.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Literal

import torch
from torch import Tensor

from inid.dpsgd.grad_sample.elementwise_clipping import elementwise_clipped_sum
from inid.dpsgd.grad_sample.grad_samples import (
    DenseGrads,
    GradSamples,
    OuterGrads,
    SlicedGrads,
    raised,
    truncated_,
    vector_norms,
)
from inid.dpsgd.grad_sample.stacked_layers import JointStack, SeparateStack
from inid.dpsgd.kernels import grad_sample_kernels

ClippingKind = Literal["global", "automatic", "per_layer", "elementwise"]

GroupGrads = list[GradSamples | None]  # one entry per parameter of a group; None where no gradient came

Pieces = list[tuple[Tensor, GradSamples]]  # where in the sums the gradients of a parameter go, and the gradients

_FEW = 2**16  # numbers that are cut at a time

_SHORT = 4096  # numbers: gradients up to this long are joined with others beside them

# Gradients are scaled to a hair below their threshold, so that they stay within it in spite of rounding: a norm is off
# by at most 33 units of rounding (64 entries at a time, 32 in the l1 norm, then float64 rounded up), and scaling adds
# four.
MARGIN = {torch.float32: 2.0**-18, torch.float64: 2.0**-46}

# Thresholds far from these ends, so that no product of a gradient and its factor leaves the range of float32.
LEAST, MOST = 2.0**-40, 2.0**40

# An example whose gradient is longer than this many thresholds adds nothing: its factor would lose digits in float32.
_LONGEST = 2.0**80


@dataclass(frozen=True, eq=False)
class Rule:
    """How gradients are clipped.

    With a `stability` they are normalised instead: each is divided by its norm, or by the stability where the norm is
    less, times the threshold. No gradient is longer than the threshold then either, so that the noise is the same.
    """

    norm: int
    thresholds: Sequence[float]
    margin: float
    bounds: Sequence[float] | None = None
    total: float | None = None
    stability: float | None = None
    quanta: Sequence[float] | None = None
    most: int = 0
    counts: bool = False

    @property
    def by_length(self) -> bool:
        """Whether l2 norms alone decide, and sums are in floating point: then gradients need not be written down."""
        return self.norm == 2 and self.bounds is None and self.quanta is None


class Sums:
    """The clipped sums of one step so far."""

    def __init__(
        self, sizes: Sequence[Sequence[int]], dtype: torch.dtype, device: torch.device, size: int | None = None
    ) -> None:
        self._sizes = sizes
        self._starts = [0, *accumulate(sum(group) for group in sizes)]
        self._places: dict[tuple[int, int], Tensor] = {}
        self._norms: list[tuple[int, Tensor]] = []
        self._masks: dict[int, Tensor] = {}
        self._repeated: dict[int, Tensor] = {}
        self.flat = torch.zeros(self._starts[-1] if size is None else size, dtype=dtype, device=device)
        self.inside = torch.zeros(len(sizes), dtype=torch.float64, device=device)
        self.examples = 0
        self.begun = False
        self.padding: Tensor | None = None

    def begin(self, placed: Tensor) -> None:
        """Begin a backward over examples and padding: `placed` (on the CPU) is True where an example stands."""
        self.begun = True
        self.examples += int(placed.sum())
        padding = ~placed
        # From pinned memory, so that the host need not wait for the GPU.
        self.mask(len(placed)).copy_(padding.pin_memory() if self.flat.is_cuda else padding, non_blocking=True)

    def mask(self, places: int) -> Tensor:
        """Take the mask of padding that all backwards over so many places share: what is recorded reads it."""
        if places not in self._masks:
            self._masks[places] = torch.zeros(places, dtype=torch.bool, device=self.flat.device)
        self.padding = self._masks[places]
        self._repeated.clear()
        return self.padding

    def clear(self) -> None:
        """Forget everything."""
        places = list(self._places.values())
        if places and 2 * sum(place.numel() for place in places) < self.flat.numel():  # most of it never held a sum
            torch._foreach_zero_(places)
        else:
            self.flat.zero_()
        self.inside.zero_()
        self._norms.clear()
        self.examples = 0
        self.begun = False

    def add_group(self, at: int, grads: GroupGrads, scale: float, rule: Rule) -> None:
        """Clip the gradients of one group, each times `scale`, and add them."""
        if rule.bounds is not None:
            for place, grad_samples in self._pieces(at, grads):
                exact = None if rule.quanta is None else rule.quanta[at]
                bound = rule.bounds[at]
                place.add_(
                    elementwise_clipped_sum(
                        grad_samples, scale, bound, quantum=exact, kind=place.dtype, padding=self.padding
                    )
                )
            return
        self.add_groups([at], grads, scale, rule)

    def add_groups(self, groups: Sequence[int], grads: GroupGrads, scale: float, rule: Rule) -> None:
        """Clip and add the gradients of several groups that have one threshold, those of the first group first."""
        at, several = groups[0], len(groups)
        pieces = self._pieces(at, grads)
        limit = rule.thresholds[at] * (1 - rule.margin)
        least = (limit if rule.stability is None else rule.stability) / scale
        padding = self._padding(several)
        if rule.norm == 2 and rule.quanta is None and serves_gpu(pieces):
            pieces = swept(pieces)
            norms, shares = gpu_shares(pieces, least, _LONGEST, padding)
        else:
            pieces, norms = _measured(pieces, rule.norm)
            shares = _of_examples(_shares(norms, least), padding)
        if rule.counts:
            self._norms += zip(groups, norms.view(several, -1), strict=True)
        _add(pieces, shares, limit, rule, at)

    def _padding(self, several: int) -> Tensor | None:
        """The mask of padding, so many times one after another; it is the same until the next backward begins."""
        if several == 1 or self.padding is None:
            return self.padding
        if several not in self._repeated:
            self._repeated[several] = self.padding.repeat(several)
        return self._repeated[several]

    def add_all(self, groups: dict[int, GroupGrads], scale: float, rule: Rule) -> None:
        """Clip the whole to the rule's total, then what is left of every group to its own threshold, and add them.

        The total comes first because it keeps the direction of a gradient: the thresholds of the groups, and the counts
        of examples within them, concern what it leaves.
        """
        if not groups or rule.total is None:
            return
        measured = {at: _measured(self._pieces(at, grads), rule.norm) for at, grads in groups.items()}
        usable = rule.total * (1 - rule.margin)
        parts = torch.stack([norms for _, norms in measured.values()])
        length = raised(torch.linalg.vector_norm(parts, ord=rule.norm, dim=0), len(parts))
        first = _of_examples(_shares(length, usable / scale).mul_(usable), self.padding)
        for at, (pieces, norms) in measured.items():
            # Infinitely long parts of an example are left out: infinity times zero is not a number.
            left = (first * norms).nan_to_num_(nan=0.0)
            if rule.counts:
                self._norms.append((at, left / scale))
            limit = rule.thresholds[at] * (1 - rule.margin)
            _add(pieces, first * _shares(left, limit), limit, rule, at)

    def count(self, scale: float, rule: Rule) -> None:
        """Count the examples of one backward that were within their thresholds."""
        if self._norms:
            groups = [at for at, _ in self._norms]
            limits = [rule.thresholds[at] / scale for at in groups]
            norms = torch.stack([norm for _, norm in self._norms])
            within = norms <= torch.tensor(limits, dtype=norms.dtype, device=norms.device)[:, None]
            within = within if self.padding is None else within & ~self.padding
            self.inside.index_add_(0, torch.tensor(groups, device=norms.device), within.sum(1, dtype=torch.float64))
            self._norms.clear()

    def place(self, at: int, which: int) -> Tensor:
        """Where the sum of one parameter of a group lies."""
        first = self._starts[at] + sum(self._sizes[at][:which])
        return self._place(first, first + self._sizes[at][which])

    def _pieces(self, at: int, grads: GroupGrads) -> Pieces:
        """Where each parameter's gradients go; short gradients that lie side by side become one, to launch less."""
        pieces: list[tuple[int, int, list[GradSamples]]] = []
        start = self._starts[at]
        for size, grad_samples in zip(self._sizes[at], grads, strict=True):
            if grad_samples is not None:
                first, last, before = pieces[-1] if pieces else (0, -1, [])
                if last == start and _short(grad_samples, size) and _short(before[-1], start - first):
                    pieces[-1] = (first, start + size, [*before, grad_samples])
                else:
                    pieces.append((start, start + size, [grad_samples]))
            start += size
        return [(self._place(first, last), _joined(grad_samples)) for first, last, grad_samples in pieces]

    def _place(self, first: int, last: int) -> Tensor:
        place = self._places.get((first, last))
        if place is None:
            place = self._places[first, last] = self.flat[first:last]
        return place


def _of_examples(shares: Tensor, padding: Tensor | None) -> Tensor:
    """The shares with 0 for padding; gradients are finite by now, so that 0 times a gradient is 0."""
    return shares if padding is None else shares.masked_fill_(padding, 0.0)


def _short(grad_samples: GradSamples, size: int) -> bool:
    return isinstance(grad_samples, DenseGrads) and grad_samples.squares is None and size <= _SHORT


def _joined(grads: list[GradSamples]) -> GradSamples:
    return grads[0] if len(grads) == 1 else DenseGrads(torch.cat([each.dense() for each in grads], 1))


def _add(pieces: Pieces, shares: Tensor, limit: float, rule: Rule, at: int) -> None:
    """Add the gradients of a group, each times its share of the limit."""
    if rule.quanta is None:
        factors = shares.to(pieces[0][0].dtype)
        for place, grad_samples in pieces:
            grad_samples.add_to(place, factors, limit)
        return
    quantum, factors = rule.quanta[at], shares * limit
    bits = _bits(rule.most, limit, quantum)
    for place, grads in pieces:
        grad_samples = grads.of_those(factors) if isinstance(grads, OuterGrads) else grads
        if bits and isinstance(grad_samples, OuterGrads) and not grad_samples.is_cuda:
            place.add_(grad_samples.exact_sum(factors, limit, bits))
        elif isinstance(grad_samples, SlicedGrads):
            place.add_(grad_samples.by_column(lambda part: _truncated(part, factors, quantum)))
        else:
            place.add_(_truncated(grad_samples.dense(), factors, quantum))


def _bits(most: int, limit: float, quantum: float) -> int:
    """How many bits an entry may have so that sums over so many examples are exact; 0 if they are too few.

    The steps must be no coarser than the quantum, of which other entries of the same sums are whole multiples.
    """
    bits = 53 - (most - 1).bit_length() if most else 0
    return bits if bits and math.ldexp(1.0, math.frexp(limit)[1] - bits) <= quantum else 0


def _measured(pieces: Pieces, norm: int) -> tuple[Pieces, Tensor]:
    """The gradients without numbers that are not finite, and their norms in float64 (infinite where one overflows)."""
    if pieces[0][1].is_cuda:  # to look whether all is well would make it wait: sweeping is cheaper than asking
        pieces = [(place, grad_samples.finite()) for place, grad_samples in pieces]
        return pieces, _norms(pieces, norm)
    norms = _norms(pieces, norm)
    if not math.isfinite(float(norms.sum())):
        pieces = [(place, grad_samples.finite()) for place, grad_samples in pieces]
        # Swept gradients may lie in memory in another way, and have other last digits, which decide who is counted as
        # within the threshold: whose norm was finite keeps it, so that no example changes that of others.
        norms = torch.where(norms.isfinite(), norms, _norms(pieces, norm))
    return pieces, norms


def _norms(pieces: Pieces, norm: int) -> Tensor:
    alone = pieces[0][1]
    if len(pieces) == 1 and alone.is_cuda and isinstance(alone, DenseGrads) and alone.squares is None:
        return vector_norms(alone.grads, norm)  # two launches less than the root of the sum of squares
    powers = [grad_samples.powers(norm) for _, grad_samples in pieces]
    total = powers[0] if len(powers) == 1 else raised(torch.stack(powers).sum(0), len(powers))
    norms = total if norm == 1 else total.sqrt()
    extra = [allowed for _, grad_samples in pieces if (allowed := grad_samples.allowances()) is not None]
    if extra:  # each part may be longer by its allowance: together by the length of the vector of them
        norms = norms + (extra[0] if len(extra) == 1 else torch.linalg.vector_norm(torch.stack(extra), dim=0))
    return norms


def _shares(norms: Tensor, least: float) -> Tensor:
    """1 / norm, or 1 / `least` where the norm is less: what to multiply a gradient by so that it is at most 1 long.

    An example whose norm is infinite, or absurdly large, adds nothing.
    """
    return torch.threshold(norms.clamp(min=least).reciprocal_(), 1 / (_LONGEST * least), 0.0)


def _truncated(grads: Tensor, factors: Tensor, quantum: float) -> Tensor:
    """The sum of gradients times their factors, cut towards zero to whole quanta: no norm grows, no order matters."""
    columns = (factors.double() / quantum)[:, None]
    truncated = torch.empty(grads.shape[1], dtype=torch.float64, device=grads.device)
    # A few columns at a time, which stay in the cache: all of them in float64 would be several times the gradients.
    wide = max(1, (_FEW if not grads.is_cuda else grads.numel()) // max(1, len(grads)))
    for part, sums in zip(torch.split(grads, wide, 1), torch.split(truncated, wide), strict=True):
        torch.sum(truncated_(torch.mul(part, columns)), 0, out=sums)
    return truncated.mul_(quantum)


_TOGETHER = 2  # tables of squares that one kernel reads


def serves_gpu(pieces: list[tuple[Tensor, GradSamples]]) -> bool:
    """Whether all gradients lie on a GPU, of types that the kernels know, and are added in float32."""
    return all(
        place.dtype == torch.float32
        and grad_samples.is_cuda
        and (
            (written := _written(grad_samples)) is None
            or grad_sample_kernels.usable(written.grads, written.grads.shape[0])
        )
        for place, grad_samples in pieces
    )


def _written(grad_samples: GradSamples) -> DenseGrads | None:
    """The gradients that are written down, also those of several layers."""
    inside = grad_samples.grads if isinstance(grad_samples, (SeparateStack, JointStack)) else grad_samples
    return inside if isinstance(inside, DenseGrads) else None


def swept(pieces: list[tuple[Tensor, GradSamples]]) -> list[tuple[Tensor, GradSamples]]:
    """Gradients without what is not finite; the kernels that read written gradients leave it out themselves."""
    return [
        (place, grad_samples if _written(grad_samples) is not None else grad_samples.finite())
        for place, grad_samples in pieces
    ]


def gpu_shares(
    pieces: list[tuple[Tensor, GradSamples]], least: float, longest: float, padding: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Per example the norm in float64, and in float32 what to multiply its gradient by so that it is at most 1 long.

    That is 1 / norm, or 1 / `least` where the norm is less; 0 where the norm is beyond `longest` times `least`, not
    finite, or where the gradient is padding.
    """
    bounds = [grad_samples.bounds() for _, grad_samples in pieces]
    squares = [each.squares for each in bounds]
    if len(squares) > _TOGETHER:
        squares = [torch.cat(squares, 1)]
    extra = [(each.absolute, each.part) for each in bounds if each.absolute is not None]
    if len(extra) > 1:  # each part may be longer by its allowance: together by the length of the vector of them
        allowed = torch._foreach_mul([length for length, _ in extra], [part for _, part in extra])  # noqa: SLF001 - as torch's own optimizers do
        extra = [(torch.linalg.vector_norm(torch.stack(allowed), dim=0), 1.0)]
    length, part = extra[0] if extra else (None, 0.0)
    return grad_sample_kernels.norms_and_shares(squares, length, part, least, 1 / (longest * least), padding)
