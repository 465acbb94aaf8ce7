"""Clipped sums: what an example adds to the sum is held to its group's threshold, whatever its gradient is.

The only facts about the data that leave this file are the clipped sums and, for thresholds that adapt, how many
examples were within them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Literal

import torch
from torch import Tensor

from inid.dpsgd.rows import Dense, Rows

__all__ = ["MARGIN", "Clipping", "GroupRows", "Rule", "Sums"]

Clipping = Literal["global", "per_layer", "elementwise"]
GroupRows = list[Rows | None]  # one entry per parameter of a group; None where no gradient came
Pieces = list[tuple[Tensor, Rows]]  # where in the sums the rows of a parameter go, and the rows

_SHORT = 4096

# Gradients are scaled to a hair below their threshold, so that they stay within it in spite of rounding: a norm is off
# by at most 33 units of rounding (64 entries at a time, then float64), and scaling adds two.
MARGIN = {torch.float32: 2.0**-18, torch.float64: 2.0**-46}


@dataclass(frozen=True, eq=False)
class Rule:
    """How gradients are clipped.

    Attributes:
        norm: 1 or 2.
        thresholds: Each group's threshold.
        margin: By how much, relatively, to stay below it.
        bounds: What every entry of a group is held to instead of the group's norm, or None.
        total: A threshold for the norm of all groups together, on top of their own, or None.
        quanta: The steps to which clipped gradients are truncated, group by group, so that sums are exact; or None.
        counts: Whether to count the examples within their threshold.
    """

    norm: int
    thresholds: Sequence[float]
    margin: float
    bounds: Sequence[float] | None = None
    total: float | None = None
    quanta: Sequence[float] | None = None
    counts: bool = False


class Sums:
    """The clipped sums of one step so far.

    Attributes:
        flat: The sums of all groups, one after another.
        inside: How many examples were within their threshold, group by group.
        examples: How many examples have been added.
    """

    def __init__(self, sizes: Sequence[Sequence[int]], dtype: torch.dtype, device: torch.device) -> None:
        self._sizes = sizes
        self._starts = [0, *accumulate(sum(group) for group in sizes)]
        self.flat = torch.zeros(self._starts[-1], dtype=dtype, device=device)
        self.inside = torch.zeros(len(sizes), dtype=torch.float64, device=device)
        self.examples = 0

    def clear(self) -> None:
        """Forget everything."""
        self.flat.zero_()
        self.inside.zero_()
        self.examples = 0

    def add_group(self, at: int, rows: GroupRows, scale: float, rule: Rule) -> None:
        """Clip the rows of one group, each times `scale`, and add them."""
        pieces = self._pieces(at, rows)
        if rule.bounds is not None:
            for place, own in pieces:
                place.add_(_held(own, scale, rule.bounds[at], None if rule.quanta is None else rule.quanta[at]))
            return
        pieces, norms = _measured(pieces, rule.norm)
        self._count(at, norms, scale, rule)
        _add(pieces, _factors(norms, rule.thresholds[at], scale, rule.margin), at, rule)

    def add_all(self, groups: dict[int, GroupRows], scale: float, rule: Rule) -> None:
        """Clip every group, then all of them together to the rule's total, and add them."""
        measured, factors, left = {}, {}, []
        for at, rows in groups.items():
            measured[at], norms = _measured(self._pieces(at, rows), rule.norm)
            self._count(at, norms, scale, rule)
            factors[at] = _factors(norms, rule.thresholds[at], scale, rule.margin)
            left.append(torch.where(factors[at] > 0, factors[at] * norms, 0.0) ** rule.norm)
        if not left or rule.total is None:
            return
        last = _factors(torch.stack(left).sum(0) ** (1 / rule.norm), rule.total, 1.0, rule.margin)
        for at, pieces in measured.items():
            _add(pieces, factors[at] * last, at, rule)

    def _count(self, at: int, norms: Tensor, scale: float, rule: Rule) -> None:
        if rule.counts:
            self.inside[at] += (norms * scale <= rule.thresholds[at]).sum()

    def _pieces(self, at: int, rows: GroupRows) -> Pieces:
        """Where each parameter's rows go; on a GPU short rows that lie side by side become one, to launch less."""
        made: list[tuple[int, int, Rows]] = []
        start = self._starts[at]
        for size, own in zip(self._sizes[at], rows, strict=True):
            if own is not None:
                before = made[-1] if made else None
                if before and before[1] == start and _short(own, size) and _short(before[2], start - before[0]):
                    made[-1] = (before[0], start + size, Dense(torch.cat([before[2].dense(), own.dense()], 1)))
                else:
                    made.append((start, start + size, own))
            start += size
        return [(self.flat[first:last], own) for first, last, own in made]


def _short(own: Rows, size: int) -> bool:
    return own.is_cuda and isinstance(own, Dense) and size <= _SHORT


def _add(pieces: Pieces, factors: Tensor, at: int, rule: Rule) -> None:
    for place, own in pieces:
        if rule.quanta is None:
            place.add_(own.combined(factors.to(place.dtype)))
        else:
            place.add_(_truncated(own.dense().double() * factors[:, None], rule.quanta[at]))


def _held(own: Rows, scale: float, bound: float, quantum: float | None) -> Tensor:
    """The sum of the rows times `scale`, every entry held to a bound."""
    dense = own.finite().dense()
    dense = (dense if dense.dtype == torch.float64 else dense.float()) * scale
    nearest = torch.tensor(bound, dtype=dense.dtype)
    limit = float(nearest if nearest.double() <= bound else torch.nextafter(nearest, torch.zeros_like(nearest)))
    held = dense.clamp_(-limit, limit)
    return held.sum(0) if quantum is None else _truncated(held.double(), quantum)


def _measured(pieces: Pieces, norm: int) -> tuple[Pieces, Tensor]:
    """The rows without numbers that are not finite, and their norms in float64 (not finite where one overflows)."""
    norms = None if pieces[0][1].is_cuda else _norms(pieces, norm)
    # To look whether all is well would make a GPU wait; there, sweeping is cheaper than asking.
    if norms is None or not bool(norms.isfinite().all()):
        pieces = [(place, own.finite()) for place, own in pieces]
        norms = _norms(pieces, norm)
    return pieces, norms


def _norms(pieces: Pieces, norm: int) -> Tensor:
    powers = [own.powers(norm) for _, own in pieces]
    total = powers[0] if len(powers) == 1 else torch.stack(powers).sum(0)
    return total if norm == 1 else total.sqrt()


def _factors(norms: Tensor, threshold: float, scale: float, margin: float) -> Tensor:
    """What to multiply each row by, in float64: `scale`, or less where the row times `scale` exceeds its threshold.

    An example whose norm is not finite adds nothing.
    """
    return (threshold * (1 - margin) / norms).clamp_(max=scale).nan_to_num_(nan=0.0)


def _truncated(values: Tensor, quantum: float) -> Tensor:
    """The sum of rows whose entries are cut towards zero to whole quanta: no norm grows, and no order matters."""
    return (values / quantum).trunc_().sum(0) * quantum
