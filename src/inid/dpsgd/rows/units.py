"""The layers whose parameters get their per-example gradients at once."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cached_property

from torch import nn
from torch.nn.utils import parametrize

from inid.dpsgd.layers import LayerRule, rule_of
from inid.dpsgd.parallel.sharded_parameters import is_sharded, own_class
from inid.errors import GuaranteeError

__all__ = ["Unit", "parent_unit", "units_of"]


@dataclass(frozen=True, eq=False)
class Unit:
    """A layer whose parameters get their rows at once: by a formula, or example by example."""

    name: str
    layer: nn.Module
    rule: LayerRule | None
    parameters: dict[str, nn.Parameter]

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
        held = {name: self.layer.get_parameter(name) for name in self.parameters}
        if any(map(is_sharded, held.values())):
            raise GuaranteeError(
                f"layer {self.name!r} is sharded in parts, or called around its own hooks: call fully_shard on the "
                "layer as a whole, and the layer instead of its forward."
            )
        return held


def units_of(module: nn.Module) -> list[Unit]:
    """The smallest layers that own all the trainable parameters they use, each once, also under several parents.

    >>> [(u.name, u.rule is not None) for u in units_of(nn.Sequential(nn.Linear(2, 2), nn.GRU(2, 2)))]
    [('0', True), ('1', False)]
    """
    found: dict[nn.Module, Unit] = {}
    for unit in _found(module, ""):
        found.setdefault(unit.layer, unit)
    return list(found.values())


def parent_unit(module: nn.Module, unit: Unit, known: Collection[nn.Module] = ()) -> Unit | None:
    """The parent of a layer as one unit, run example by example; None where that is the whole model, or known.

    >>> model = nn.Sequential(nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2)), nn.Linear(2, 2))
    >>> parent = parent_unit(model, units_of(model)[0])
    >>> parent.name, list(parent.parameters), parent_unit(model, parent)
    ('0', ['0.weight', '0.bias', '1.weight', '1.bias'], None)
    """
    for name, parent in module.named_modules():
        if parent is not module and parent not in known and any(child is unit.layer for child in parent.children()):
            return Unit(name, parent, None, {own: p for own, p in parent.named_parameters() if p.requires_grad})
    return None


def _holds_lists(module: nn.Module) -> bool:
    # Lists of parameters have no forward: the module that holds them uses them in its own.
    return any(isinstance(child, (nn.ParameterList, nn.ParameterDict)) for child in module.children())


def _found(module: nn.Module, prefix: str) -> Iterator[Unit]:
    rule = rule_of(module)
    own = {name: p for name, p in module.named_parameters(recurse=False) if p.requires_grad}
    # A parameter that a child has as well (BERT's bias of the last layer) is used by the child.
    of_children = {p for child in module.children() for p in child.parameters()}
    if rule is not None:
        if own:
            yield Unit(prefix, module, rule, own)
    elif any(p not in of_children for p in own.values()) or parametrize.is_parametrized(module) or _holds_lists(module):
        every = {name: p for name, p in module.named_parameters() if p.requires_grad}
        if every:
            yield Unit(prefix, module, None, every)
    else:
        for name, child in module.named_children():
            yield from _found(child, f"{prefix}.{name}" if prefix else name)
