"""Like layers taken together on a GPU: one launch for all of them, where a launch costs the host more than the GPU.

A transformer has the same four linear layers in every block, and a host that launches kernels for each of them is
slower than the GPU that runs them. So what flowed to such layers waits, up to a part of the device's memory, until
there are several: then the examples of all lie one after another in one tensor, those of the first layer first, and
every formula, norm and factor is worked out once for (layers x examples) gradients. An example's gradient in one layer
is then taken as if it were that of another example: what is summed, and the norm of each group, are the same
numbers as one by one. Only sums go to as many places as there are layers.

Layers wait if they are of one class with the same settings (see `GradSampler`), met inputs and gradients of one shape
and type, are used once in the forward, and are either groups of their own with one threshold or all in one group
(global clipping).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import torch
from torch import Tensor

from inid.dpsgd.grad_sample.call_plan import Unit
from inid.dpsgd.grad_sample.ghost_clipping import PositionGrads
from inid.dpsgd.grad_sample.grad_samples import Bounds, DenseGrads, SlicedGrads, raised
from inid.dpsgd.kernels.grad_sample_kernels import MOST_PROGRAMS

_PART = 64  # of the device's memory that what waits may take
_MANY = 4  # what takes more than one such part of the room is not worth waiting for others


def room(device: torch.device) -> int:
    """How many bytes may wait: none where launches cost nothing."""
    return _room(device) if device.type == "cuda" else 0


@lru_cache(maxsize=64)
def _room(device: torch.device) -> int:
    return int(torch.cuda.get_device_properties(device).total_memory) // _PART


class Kind:
    """Layers that may be clipped together: one value for all of them."""

    __slots__ = ("layers", "most", "size")

    def __init__(self, inputs: Tensor, gradients: Tensor, most: int) -> None:
        self.size, self.most = inputs.nbytes + gradients.nbytes, most
        self.layers = MOST_PROGRAMS // inputs.shape[0] if self.size * _MANY <= most else 0


@dataclass(eq=False)
class Waiting:
    """What flowed to layers that wait for others like them."""

    kinds: dict[Kind, list[tuple[Unit, Tensor, Tensor]]] = field(default_factory=dict)
    size: int = 0

    def add(self, kind: Kind, unit: Unit, inputs: Tensor, gradients: Tensor) -> bool:
        """Let a layer wait; says whether it may."""
        if (waiting := self.kinds.get(kind)) is None:
            if not kind.layers:
                return False
            waiting = self.kinds[kind] = []
        if len(waiting) >= kind.layers:
            return False
        waiting.append((unit, inputs, gradients))
        self.size += kind.size
        return True

    def taken(self) -> Iterator[tuple[list[Unit], Tensor, Tensor]]:
        """What waits, kind by kind, with the examples of each kind's layers one after another; nothing waits then."""
        self.size = 0
        while self.kinds:
            _, waiting = self.kinds.popitem()
            units = [unit for unit, _, _ in waiting]
            inputs, gradients = waiting[0][1:]
            if len(waiting) > 1:
                inputs, gradients = (
                    torch.cat([inputs_of_layer for _, inputs_of_layer, _ in waiting]),
                    torch.cat([back for *_, back in waiting]),
                )
            del waiting  # not beside the copy
            yield units, inputs, gradients


class _Stack:
    """Gradients of one parameter of several layers, whose sums go to a place for each layer."""

    def __init__(self, grads: DenseGrads | SlicedGrads | PositionGrads, places: Sequence[Tensor]) -> None:
        self.grads, self.places = grads, places

    @property
    def is_cuda(self) -> bool:
        return self.grads.is_cuda


class SeparateStack(_Stack):
    """Gradients of layers that are clipped one by one: every layer's gradient of an example has a norm of its own."""

    def powers(self, order: int) -> Tensor:
        return self.grads.powers(order)

    def allowances(self) -> Tensor | None:
        return self.grads.allowances()

    def bounds(self) -> Bounds:
        return self.grads.bounds()

    def add_to(self, _place: Tensor, factors: Tensor, limit: float) -> None:
        self.grads.add_separately(self.places, factors, limit)

    def finite(self) -> "SeparateStack":
        return SeparateStack(self.grads.finite(), self.places)

    def dense(self) -> Tensor:
        return self.grads.dense()


class JointStack(_Stack):
    """Gradients of layers that are clipped as one: an example's gradient is those of all layers side by side."""

    def _by_layer(self, numbers: Tensor) -> Tensor:
        return numbers.view(len(self.places), -1, *numbers.shape[1:])

    def powers(self, order: int) -> Tensor:
        return raised(self._by_layer(self.grads.powers(order)).sum(0), len(self.places))

    def allowances(self) -> Tensor | None:
        each = self.grads.allowances()
        return None if each is None else torch.linalg.vector_norm(self._by_layer(each), dim=0)

    def bounds(self) -> Bounds:
        of_grads = self.grads.bounds()
        squares = self._by_layer(of_grads.squares).transpose(0, 1).flatten(1)
        length = (
            None if of_grads.absolute is None else torch.linalg.vector_norm(self._by_layer(of_grads.absolute), dim=0)
        )
        return Bounds(squares, length, of_grads.part)

    def add_to(self, _place: Tensor, factors: Tensor, limit: float) -> None:
        self.grads.add_separately(self.places, factors.repeat(len(self.places)), limit)

    def finite(self) -> "JointStack":
        return JointStack(self.grads.finite(), self.places)

    def dense(self) -> Tensor:
        return self._by_layer(self.grads.dense()).transpose(0, 1).flatten(1)
