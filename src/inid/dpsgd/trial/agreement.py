"""Whether numbers agree within rounding, met a part at a time: so that no run has to be kept beside all the others.

The tolerance is the square root of the unit of rounding, relative to an entry or to what is usual among those that
differ (several times their lower quartile): one large entry, such as the -1e4 of a mask, must not hide what the others
do. Where numbers cancel it is relative to the largest, by a few units. What is usual is known in the end only, so the
largest difference that is not within the tolerance of its own entry is kept until then.
"""

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from inid.dpsgd.trial.examples import EXAMPLES
from inid.dpsgd.trial.model_outputs import as_real, is_real

__all__ = ["Agreement", "Beside", "Flow", "squared_norm"]

_PIECE = 2**24  # numbers that are compared at a time
_SAMPLE = 2**14  # numbers of each piece by which one sees what is usual
_TIMES = 32.0  # how much longer than the lower quartile an entry may usually be
_FINE = (torch.float32, torch.float64)
_UNITS = 64.0  # what rounding loses where numbers cancel


class Agreement:
    """Whether tensors are equal within rounding; infinities must match, and what is not a number never agrees.

    Args:
        allowed: The tolerance.

    >>> one = torch.tensor([1.0, 2.0, 3.0])
    >>> Agreement(1e-3).met(one, one + 1e-5).holds, Agreement(1e-3).met(one, one.flip(0)).holds
    (True, False)
    """

    def __init__(self, allowed: float) -> None:
        self._allowed, self._possible = allowed, True
        self._largest = self._farthest = 0.0
        self._sample: list[Tensor] = []

    def met(self, one: Tensor, other: object) -> "Agreement":
        """Note two tensors that are to be equal; gives itself."""
        if not self._possible:
            return self
        if not isinstance(other, Tensor) or one.shape != other.shape:
            self._possible = False
        elif not is_real(one):
            self._possible = bool(torch.equal(one, other))
        else:
            self._possible = all(self._near(*pair) for pair in _pieces(one, other))
        return self

    def _near(self, left: Tensor, right: Tensor) -> bool:
        if torch.equal(left, right):
            return True
        finite = left.isfinite() & right.isfinite()
        if not torch.equal(left[~finite], right[~finite]):
            return False
        differ = finite & (left != right)
        left, right = left[differ].double(), right[differ].double()
        if len(left):
            sizes, off = torch.maximum(left.abs(), right.abs()), (left - right).abs_()
            self._largest = max(self._largest, float(sizes.max()))
            self._farthest = max(self._farthest, float((off * (off > self._allowed * sizes)).max()))
            self._sample.append(sizes[:: max(1, len(sizes) // _SAMPLE)].clone())
        return True

    @property
    def holds(self) -> bool:
        """Whether all that was met agrees."""
        if not self._possible or not self._farthest:
            return self._possible
        seen = torch.cat(self._sample)
        usual = _TIMES * float(seen.kthvalue(1 + len(seen) // 4).values)
        least = max(self._allowed * min(usual, self._largest), _UNITS * self._allowed**2 * self._largest)
        return self._farthest <= least


class Beside:
    """How a tensor of a run on all examples lies beside those of runs on one example each.

    Args:
        whole: The tensor of the run on all.
        allowed: The tolerance.
        most: How many of its dimensions may be the one along which the examples lie.

    >>> beside = Beside(torch.arange(6.0).view(3, 2), 1e-3)
    >>> for at in range(3):
    ...     beside.meet(at, torch.arange(6.0).view(3, 2)[at : at + 1])
    >>> beside.same, beside.dimension
    (False, 0)
    """

    def __init__(self, whole: Tensor, allowed: float, most: int | None = None) -> None:
        self._whole, self._same = whole, Agreement(allowed)
        self._along = {d: Agreement(allowed) for d in range(whole.ndim if most is None else min(most, whole.ndim))}
        self.shape: torch.Size | None = None  # of the first

    def meet(self, at: int, one: object) -> None:
        """Note what was there for one example alone, which comes as the `at`-th of all."""
        self._same.met(self._whole, one)
        if self.shape is None and isinstance(one, Tensor):
            self.shape = one.shape
        for dimension, agreement in self._along.items():
            agreement.met(*_side(self._whole, at, one, self.shape, dimension))

    @property
    def same(self) -> bool:
        """Whether it is the same for all and for each."""
        return self._same.holds

    @property
    def dimension(self) -> int | None:
        """The first dimension along which it is that of each, side by side."""
        return next((d for d, agreement in self._along.items() if agreement.holds), None)


class Flow:
    """How far a gradient of a run on all examples is from those of runs on one example each, side by side.

    Compared by norms, and roughly: where rounding decides the side of a kink (ReLU) a single gradient jumps.
    """

    def __init__(self, whole: Tensor | None) -> None:
        self._whole, self._present = whole, 0
        self._off = dict.fromkeys(range(0 if whole is None else whole.ndim), 0.0)
        self._shape: torch.Size | None = None

    def meet(self, at: int, one: Tensor | None) -> None:
        """Note what flowed back for one example alone, which comes as the `at`-th of all."""
        self._present += one is not None
        if self._whole is None or one is None:
            return
        self._shape = self._shape or one.shape
        for dimension in self._off:
            part, own = _side(self._whole, at, one, self._shape, dimension)
            self._off[dimension] += math.inf if own is None else squared_norm(part, own)

    def agrees(self, allowed: float, negligible: float) -> bool:
        """Whether the gradients of examples do not meet.

        Args:
            allowed: The tolerance of numbers; that of norms is its root.
            negligible: What is not longer than this is rounding alone.
        """
        if self._whole is None or self._present < EXAMPLES:
            return self._whole is None and not self._present
        length = math.sqrt(squared_norm(self._whole))
        if self._whole.shape == self._shape or length <= negligible:
            return True  # what is the same for all examples; or rounding alone
        return math.sqrt(min(self._off.values(), default=math.inf)) <= math.sqrt(allowed) * length


def squared_norm(one: Tensor, other: Tensor | None = None) -> float:
    """The squared norm of a tensor, or of a difference of two, with 0 for what is not finite.

    >>> squared_norm(torch.tensor([3.0, 5.0, float("inf")]), torch.tensor([0.0, 1.0, 0.0]))
    25.0
    """
    total = 0.0
    for left, right in _pieces(one, one if other is None else other):
        if left.dtype == right.dtype and left.dtype in _FINE:
            # A difference is rounded by a part of itself; what is not finite shows, and is looked at below.
            apart = left if other is None else left - right
            square = float(torch.linalg.vector_norm(apart, dtype=torch.float64)) ** 2
            if math.isfinite(square):
                total += square
                continue
        part = _finite(left) if other is None else _finite(left) - _finite(right)
        total += float(part.square_().sum())
    return total


def _side(
    whole: Tensor, at: int, one: object, first: torch.Size | None, dimension: int
) -> tuple[Tensor, Tensor | None]:
    """The part of the whole where an example should lie, and what was there for it alone; None where sizes differ."""
    if not isinstance(one, Tensor) or one.shape != first or one.ndim != whole.ndim:
        return whole, None
    size = one.shape[dimension]
    if whole.shape[dimension] != EXAMPLES * size:
        return whole, None
    part = whole.narrow(dimension, at * size, size)
    return part, one if part.shape == one.shape else None


def _pieces(one: Tensor, other: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    # Piece by piece: a large output would not fit into a GPU several times over in float64.
    if one.numel() <= _PIECE:
        return iter([(one.flatten(), other.flatten())])
    return zip(*(torch.split(each.flatten(), _PIECE) for each in (one, other)), strict=True)


def _finite(gradient: Tensor) -> Tensor:
    return as_real(gradient).double().nan_to_num(nan=0.0, posinf=0.0, neginf=0.0)
