"""What a model gives back: the tensors that it returns, in objects of any kind."""

import inspect
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

from torch import Tensor, nn
from torch.utils import _pytree as pytree


def output_leaves(output: object) -> list[Any]:
    """The leaves of what a model returns, also inside objects that torch does not look into (dataclasses, laws).

    >>> from types import SimpleNamespace
    >>> output_leaves([1, SimpleNamespace(loss=2)])
    [1, 2]
    """
    found, seen = [], set[int]()
    waiting = pytree.tree_leaves(output)
    while waiting:
        leaf = waiting.pop(0)
        inside = _inside(leaf)
        if inside is None:
            found.append(leaf)
        elif id(leaf) not in seen:
            seen.add(id(leaf))
            waiting = pytree.tree_leaves(inside) + waiting
    return found


def _inside(leaf: object) -> list[Any] | None:
    """What an object holds: as a container of its own kind, and by name; None for what is no object of objects."""
    if isinstance(leaf, (Tensor, nn.Module, type, str, bytes)) or inspect.isroutine(leaf):
        return None
    held: list[Any] | None = None
    if isinstance(leaf, Mapping):
        held = list(leaf.values())
    elif isinstance(leaf, (Sequence, AbstractSet)):
        held = list(leaf)
    named = [*getattr(leaf, "__dict__", {}).values(), *_slots(leaf)]
    return held if not named else [*(held or []), *named]


def _slots(leaf: object) -> Iterable[Any]:
    names = [name for kind in type(leaf).__mro__ for name in _names(kind.__dict__.get("__slots__", ()))]
    return [getattr(leaf, name) for name in names if not name.startswith("__") and hasattr(leaf, name)]


def _names(slots: object) -> list[str]:
    return [slots] if isinstance(slots, str) else [str(name) for name in slots] if isinstance(slots, Iterable) else []
