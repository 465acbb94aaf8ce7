"""The layers whose parameters get their per-sample gradients at once, and which of them a model calls.

A plan of the calls is made before training, and again whenever they change (see `independence`). It says how the
examples lie in what each layer is called with.
"""

from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, Protocol

from torch import Tensor, nn
from torch.nn.utils import parametrize

from inid.dpsgd.grad_sample.grad_samples import GradSampler
from inid.dpsgd.grad_sample.layers import grad_sampler_of
from inid.dpsgd.sharded_parameters import is_sharded, own_class
from inid.errors import GuaranteeError


@dataclass(frozen=True, eq=False)
class Unit:
    """A layer whose parameters get their gradients at once: by a formula, or example by example."""

    name: str
    layer: nn.Module
    rule: GradSampler | None
    parameters: dict[str, nn.Parameter]
    direct_parameters: bool = False

    @cached_property
    def _sharded(self) -> bool:
        return any(map(is_sharded, self.parameters.values()))

    @property
    def title(self) -> str:
        """The layer in words, for messages."""
        return f"layer {self.name!r} ({own_class(self.layer).__name__})"

    def present(self) -> dict[str, nn.Parameter]:
        """The parameters as the layer holds them now: whole while it runs, where they are sharded otherwise."""
        if not self._sharded:
            return self.parameters
        present = {name: self.layer.get_parameter(name) for name in self.parameters}
        if any(map(is_sharded, present.values())):
            raise GuaranteeError(
                f"layer {self.name!r} is sharded in parts, or called around its own hooks: call fully_shard on the "
                "layer as a whole, and the layer instead of its forward."
            )
        return present


def units_of(module: nn.Module) -> list[Unit]:
    """The smallest layers that own all the trainable parameters they use, each once, also under several parents."""
    units: dict[nn.Module, Unit] = {}
    for unit in _walked_units(module, ""):
        units.setdefault(unit.layer, unit)
    return list(units.values())


def parent_unit(module: nn.Module, unit: Unit, known: Collection[nn.Module] = ()) -> Unit | None:
    """The parent of a layer as one unit, run example by example; None where that is the whole model, or known."""
    for name, parent in module.named_modules():
        if parent is not module and parent not in known and any(child is unit.layer for child in _called_in(parent)):
            return Unit(name, parent, None, trained_in(parent))
    return None


_LISTS = (nn.ModuleList, nn.ModuleDict)


def _called_in(module: nn.Module) -> Iterator[nn.Module]:
    """The children of a module, and those in its lists, which have no forward of their own."""
    for child in module.children() if not isinstance(module, _LISTS) else ():
        yield child
        if isinstance(child, _LISTS):
            yield from _listed(child)


def _listed(module: nn.Module) -> Iterator[nn.Module]:
    for child in module.children():
        yield child
        if isinstance(child, _LISTS):
            yield from _listed(child)


def trained_in(module: nn.Module) -> dict[str, nn.Parameter]:
    """All that is trained of a module and its parts, by name."""
    return {name: p for name, p in module.named_parameters() if p.requires_grad}


def _holds_lists(module: nn.Module) -> bool:
    # Lists of parameters have no forward: the module that holds them uses them in its own.
    return any(isinstance(child, (nn.ParameterList, nn.ParameterDict)) for child in module.children())


def _walked_units(module: nn.Module, prefix: str) -> Iterator[Unit]:
    rule = grad_sampler_of(module)
    direct = {name: p for name, p in module.named_parameters(recurse=False) if p.requires_grad}
    # A parameter that a child has as well (BERT's bias of the last layer) is used by the child.
    of_children = {p for child in module.children() for p in child.parameters()}
    if rule is not None:
        if direct:
            yield Unit(prefix, module, rule, direct)
        return
    indirect = parametrize.is_parametrized(module) or _holds_lists(module)
    if indirect or any(p not in of_children for p in direct.values()):
        if not indirect and _broadcast_over_examples(direct, of_children):
            yield Unit(prefix, module, None, direct, direct_parameters=True)
            yield from _of_children(module, prefix)
        elif every := trained_in(module):
            yield Unit(prefix, module, None, every)
    else:
        yield from _of_children(module, prefix)


def _of_children(module: nn.Module, prefix: str) -> Iterator[Unit]:
    for name, child in module.named_children():
        yield from _walked_units(child, f"{prefix}.{name}" if prefix else name)


def _broadcast_over_examples(direct: dict[str, nn.Parameter], of_children: set[nn.Parameter]) -> bool:
    """Whether a module's own parameters are for all examples alike, and beside layers that are trained."""
    alike = all(p.ndim > 1 and p.shape[0] == 1 and p not in of_children and not is_sharded(p) for p in direct.values())
    return alike and any(p.requires_grad for p in of_children)


APART = "keep the examples in the first dimension of every layer, and do not mix, repeat or reorder them"


NO_TENSOR = -1  # in the place of a dimension
Returns = Literal["beside", "stacked", "own"]


@dataclass(frozen=True, eq=False)
class Call:
    """How one layer is called.

    What it returns to each example, of a layer without a formula, lies side by side; or is made for all alike and is
    stacked, as positions are; or is the example's own part of what was made for as many as there are.
    """

    unit: Unit
    entries: tuple[int, ...]
    along: tuple[int, ...]
    joined: tuple[int | None, ...]
    returns: Returns = "beside"

    def fits(self, unit: Unit, leaves: list[Any], examples: int) -> bool:
        """Whether a call is like this one, for another number of examples."""
        if unit is not self.unit or len(leaves) != len(self.entries):
            return False
        for entries, at, leaf in zip(self.entries, self.along, leaves, strict=True):  # in every call: no generator
            if isinstance(leaf, Tensor) is (at == NO_TENSOR):  # a mask where there was none would be everybody's
                return False
            if entries and not (leaf.ndim > at and leaf.shape[at] == entries * examples):
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


class UsedOutsideError(OtherwiseDividedError):
    """A parameter is used outside the forward of its own layer; its parent, run example by example, may hold that."""

    def __init__(self, unit: Unit, name: str) -> None:
        GuaranteeError.__init__(
            self,
            f"parameter {name!r} is used outside the forward of its own module, where its gradient cannot be clipped "
            "by example: call the module or functional.linear(x, weight), or freeze it.",
        )
        self.unit = unit
