"""Like layers taken together on a GPU: one launch for all of them, where a launch costs the host more than the GPU.

A transformer has the same four linear layers in every block, and a host that launches kernels for each of them is
slower than the GPU that runs them. So what flowed to such layers waits, up to a part of the device's memory, until
there are several: then the examples of all lie one after another in one tensor, those of the first layer first, and
every formula, norm and factor is worked out once for (layers x examples) rows. An example's rows in one layer are then
rows of its own, as if they were those of another example: what is summed, and the norm of each group, are the same
numbers as one by one. Only sums go to as many places as there are layers.

Layers wait if they are of one class with the same settings (see `layer_rule`), met inputs and gradients of one shape
and type, are used once in the forward, and are either groups of their own with one threshold or all in one group
(global clipping).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import torch
from torch import Tensor

from inid.dpsgd.kernels.row_kernels import MOST_PROGRAMS
from inid.dpsgd.rows.fused_positions import Positions
from inid.dpsgd.rows.gradient_rows import Bounds, Dense, Sliced, raised
from inid.dpsgd.rows.units import Unit

__all__ = ["Apart", "Kind", "Together", "Waiting", "room"]

_PART = 64  # of the device's memory that what waits may take
_MANY = 4  # what takes more than one such part of the room is not worth waiting for others


def room(device: torch.device) -> int:
    """How many bytes may wait: none where launches cost nothing.

    >>> room(torch.device("cpu"))
    0
    """
    return _room(device) if device.type == "cuda" else 0


@lru_cache(maxsize=64)
def _room(device: torch.device) -> int:
    return int(torch.cuda.get_device_properties(device).total_memory) // _PART


class Kind:
    """Layers that may be clipped together: one value for all of them.

    Args:
        inputs: What one of them met.
        gradients: What flowed to it.
        most: How many bytes may wait.

    Attributes:
        size: How many bytes one of them keeps waiting.
        layers: How many of them may wait at a time.
        most: How many bytes may wait.
    """

    __slots__ = ("layers", "most", "size")

    def __init__(self, inputs: Tensor, gradients: Tensor, most: int) -> None:
        self.size, self.most = inputs.nbytes + gradients.nbytes, most
        self.layers = MOST_PROGRAMS // inputs.shape[0] if self.size * _MANY <= most else 0


@dataclass(eq=False)
class Waiting:
    """What flowed to layers that wait for others like them.

    Attributes:
        kinds: By their kind, the layers with their inputs and gradients.
        size: How many bytes wait.
    """

    kinds: dict[Kind, list[tuple[Unit, Tensor, Tensor]]] = field(default_factory=dict)
    size: int = 0

    def add(self, kind: Kind, unit: Unit, inputs: Tensor, gradients: Tensor) -> bool:
        """Let a layer wait; says whether it may."""
        if (held := self.kinds.get(kind)) is None:
            if not kind.layers:
                return False
            held = self.kinds[kind] = []
        if len(held) >= kind.layers:
            return False
        held.append((unit, inputs, gradients))
        self.size += kind.size
        return True

    def taken(self) -> Iterator[tuple[list[Unit], Tensor, Tensor]]:
        """What waits, kind by kind, with the examples of each kind's layers one after another; nothing waits then."""
        self.size = 0
        while self.kinds:
            _, held = self.kinds.popitem()
            units = [unit for unit, _, _ in held]
            inputs, gradients = held[0][1:]
            if len(held) > 1:
                inputs, gradients = torch.cat([met for _, met, _ in held]), torch.cat([back for *_, back in held])
            del held  # not beside the copy
            yield units, inputs, gradients


class _Stack:
    """Rows of one parameter of several layers, whose sums go to a place for each layer."""

    def __init__(self, rows: Dense | Sliced | Positions, places: Sequence[Tensor]) -> None:
        self.rows, self.places = rows, places

    @property
    def is_cuda(self) -> bool:
        """Whether they lie on a GPU."""
        return self.rows.is_cuda


class Apart(_Stack):
    """Rows of layers that are clipped one by one: every layer's row of an example has a norm of its own.

    >>> a, b = torch.zeros(2), torch.zeros(2)
    >>> rows = Apart(Dense(torch.tensor([[3.0, 4.0], [0.0, 1.0]])), [a, b])   # one example in two layers
    >>> rows.add_to(a, torch.tensor([1.0, 2.0]), 0.5)
    >>> rows.powers(2).round().tolist(), a.tolist(), b.tolist()
    ([25.0, 1.0], [1.5, 2.0], [0.0, 1.0])
    """

    def powers(self, order: int) -> Tensor:
        """As those of the rows."""
        return self.rows.powers(order)

    def allowances(self) -> Tensor | None:
        """As those of the rows."""
        return self.rows.allowances()

    def bounds(self) -> Bounds:
        """As those of the rows."""
        return self.rows.bounds()

    def add_to(self, _place: Tensor, factors: Tensor, limit: float) -> None:
        """Add the sum of limit * factors[i] * row i over each layer's rows to the layer's place."""
        self.rows.add_apart(self.places, factors, limit)

    def finite(self) -> "Apart":
        """The same with 0 for every number that is not finite."""
        return Apart(self.rows.finite(), self.places)

    def dense(self) -> Tensor:
        """The rows written down."""
        return self.rows.dense()


class Together(_Stack):
    """Rows of layers that are clipped as one: an example's row is those of all layers side by side.

    >>> a, b = torch.zeros(2), torch.zeros(2)
    >>> rows = Together(Dense(torch.tensor([[3.0, 4.0], [0.0, 1.0]])), [a, b])   # one example in two layers
    >>> rows.add_to(a, torch.tensor([2.0]), 0.5)
    >>> rows.powers(2).round().tolist(), a.tolist(), b.tolist()
    ([26.0], [3.0, 4.0], [0.0, 1.0])
    """

    def _by_layer(self, numbers: Tensor) -> Tensor:
        return numbers.view(len(self.places), -1, *numbers.shape[1:])

    def powers(self, order: int) -> Tensor:
        """Those of the layers added up."""
        return raised(self._by_layer(self.rows.powers(order)).sum(0), len(self.places))

    def allowances(self) -> Tensor | None:
        """The length of the vector of the layers' own (the claim of `fused_norms`)."""
        own = self.rows.allowances()
        return None if own is None else torch.linalg.vector_norm(self._by_layer(own), dim=0)

    def bounds(self) -> Bounds:
        """Squares of all layers, and the length of the vector of what their allowances are parts of."""
        own = self.rows.bounds()
        squares = self._by_layer(own.squares).transpose(0, 1).flatten(1)
        whole = None if own.whole is None else torch.linalg.vector_norm(self._by_layer(own.whole), dim=0)
        return Bounds(squares, whole, own.part)

    def add_to(self, _place: Tensor, factors: Tensor, limit: float) -> None:
        """Add the sum of limit * factors[i] * row i to the layers' places."""
        self.rows.add_apart(self.places, factors.repeat(len(self.places)), limit)

    def finite(self) -> "Together":
        """The same with 0 for every number that is not finite."""
        return Together(self.rows.finite(), self.places)

    def dense(self) -> Tensor:
        """The rows written down, those of all layers side by side."""
        return self._by_layer(self.rows.dense()).transpose(0, 1).flatten(1)
