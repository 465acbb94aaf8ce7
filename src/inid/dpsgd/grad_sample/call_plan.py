"""Which layers a model calls, and how the examples lie in what they are called with.

A plan is made before training, and again whenever the calls change (see `independence`). Here is only what it says.
"""

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

from torch import Tensor, nn

from inid.dpsgd.grad_sample.units import Unit
from inid.errors import GuaranteeError

APART = "keep the examples in the first dimension of every layer, and do not mix, repeat or reorder them"


@dataclass(frozen=True, eq=False)
class Call:
    """How one layer is called."""

    unit: Unit
    entries: tuple[int, ...]
    along: tuple[int, ...]
    joined: tuple[int | None, ...]

    def fits(self, unit: Unit, leaves: list[Any], examples: int) -> bool:
        """Whether a call is like this one, for another number of examples."""
        if unit is not self.unit or len(leaves) != len(self.entries):
            return False
        for entries, at, leaf in zip(self.entries, self.along, leaves, strict=True):  # in every call: no generator
            if entries and not (isinstance(leaf, Tensor) and leaf.ndim > at and leaf.shape[at] == entries * examples):
                return False
        return True

    @property
    def split(self) -> list[int | None]:
        """For every leaf of the arguments the dimension along which examples lie; None for what all of them share."""
        return [at if entries else None for entries, at in zip(self.entries, self.along, strict=True)]


@dataclass(frozen=True, eq=False)
class CallPlan:
    """The calls of one forward, in order.

    Attributes:
        calls: The calls; a forward that drops layers by chance makes some of them.
        shared: The layers whose input is the same for all examples, and is repeated for each.
        output: For every tensor that the model returns the dimension along which examples lie, or None.
        by_chance: Whether the model draws single random numbers, so that a forward may leave calls out.
        written: The `id` of buffers that a forward writes to, whatever its examples are, such as a counter.
    """

    calls: tuple[Call, ...]
    shared: frozenset[Unit]
    output: tuple[int | None, ...] = ()
    by_chance: bool = False
    written: frozenset[int] = frozenset()

    @cached_property
    def once(self) -> frozenset[Unit]:
        """The layers that are called once."""
        return frozenset(unit for unit, calls in Counter(call.unit for call in self.calls).items() if calls == 1)

    @cached_property
    def parameters(self) -> frozenset[nn.Parameter]:
        """What the layers train."""
        return frozenset(parameter for call in self.calls for parameter in call.unit.parameters.values())


class Probe(Protocol):
    """What is told of a run on made-up examples: all that layers see of them."""

    def called(self, at: int, call: Call, leaves: list[Any]) -> None:
        """A layer is called with these leaves of arguments."""

    def flowed(self, at: int, name: str, gradients: Tensor) -> None:
        """These gradients flow back to a layer, or are those of one of its parameters; examples come first."""

    def ends(self, output: list[Any]) -> tuple[list[Tensor], list[Tensor]]:
        """Where gradients are sent back from, and which."""


class SameForAllError(GuaranteeError):
    """A layer is called with the same input for all examples, which cannot be repeated for each."""

    def __init__(self, unit: Unit) -> None:
        super().__init__(
            f"layer {unit.name!r} is called with an input that is the same for all examples: give it a row per "
            "example, for example torch.arange(length).expand(len(x), length)."
        )
        self.unit = unit


class OtherwiseDividedError(GuaranteeError):
    """A layer is called with an input in which examples do not lie side by side, or depend on each other."""

    def __init__(self, unit: Unit, when: str = "", *, returns: bool = False) -> None:
        cure = "return its examples side by side" if returns else "see every example as if the others were not there"
        super().__init__(
            f"{unit.title} does not {cure}{when}: {APART}. Where its input "
            "has to be divided otherwise (packed sequences, experts, entries that a mask selects), put the layer, "
            "with the code that divides and joins, into a module of its own: that is run example by example."
        )
        self.unit = unit
