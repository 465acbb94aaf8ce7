"""What may change how a model computes from one forward to the next, besides its input: attributes, hooks, parts.

A change that somebody makes between two forwards lets the model be looked at again. What a forward changes itself (a
counter, tensors that it keeps) is known after the first, and is compared with what the forward left behind.
"""

import warnings
import weakref
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, nn

from inid.dpsgd.trial.plain_state import MODULES_OWN, is_plain_object

__all__ = ["Settings"]

_VALUES = frozenset((bool, int, float, complex, str, bytes, type(None)))
_CONTAINERS = (dict, list, tuple, set, frozenset)
_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
_DEEP, _MOST = 3, 256  # containers in containers, and entries of one that are looked at
_OFTEN = 16

_Key = tuple[int, str]  # a part, by `id`, and the name of an attribute


class Settings:
    """The settings of a model, as they were before its latest forward and after it.

    >>> model = nn.Linear(1, 1)
    >>> settings = Settings()
    >>> settings.changed([model]), settings.changed([model])
    (True, False)
    >>> model.scale = 2.0
    >>> settings.changed([model])
    True
    """

    def __init__(self) -> None:
        self._before: dict[_Key, Any] = {}
        self._after: dict[_Key, Any] = {}
        self._moving: dict[_Key, nn.Module] | None = None  # what forwards change themselves; None if not known yet
        self._often = 0

    def changed(self, parts: Iterable[nn.Module]) -> bool:
        """Whether somebody has changed something since the latest forward; asked before each."""
        parts = list(parts)
        now, before, after = _described(parts), self._before, self._after
        if now == before:
            return False
        found = [key for key in {**before, **now} if _differs(key, now, before) and _differs(key, now, after)]
        self._before = now
        if not found:
            return False
        self._moving = None
        self._often += 1
        if self._often == _OFTEN:
            named = {id(part): type(part).__name__ for part in parts}
            warnings.warn(
                f"attribute {found[0][1]!r} of a {named.get(found[0][0], 'part')} of the private module has changed "
                f"{_OFTEN} times between forwards, and each time the model is looked at again, which takes a few "
                "steps' time: pass what changes as a tensor to the forward, or keep it outside the module.",
                stacklevel=2,
            )
        return True

    def note(self, parts: Iterable[nn.Module]) -> None:
        """Note what a forward has left behind; called after each."""
        if self._moving is None:
            held = {id(part): part for part in parts}
            self._after = _described(held.values())
            self._moving = {
                key: held[key[0]] for key in self._after if _differs(key, self._after, self._before) and key[0] in held
            }
        elif self._moving:
            known = _Known(_parameters(parts))
            for key, part in self._moving.items():
                self._after[key] = _token(vars(part).get(key[1]), 0, known)

    def fixed(self, parts: Iterable[nn.Module]) -> dict[_Key, Any]:
        """The settings that forwards do not change themselves, to be compared."""
        moving = self._moving or {}
        return {key: value for key, value in _described(parts).items() if key not in moving}


def _differs(key: _Key, one: dict[_Key, Any], other: dict[_Key, Any]) -> bool:
    return key not in one or key not in other or one[key] != other[key]


def _parameters(parts: Iterable[nn.Module]) -> frozenset[int]:
    return frozenset(id(each) for part in parts for each in vars(part)["_parameters"].values())


def _described(parts: Iterable[nn.Module]) -> dict[_Key, Any]:
    parts, found = list(parts), dict[_Key, Any]()
    known = _Known(_parameters(parts))
    for part in parts:
        at, held = id(part), vars(part)
        for name, value in held.items():
            if name not in MODULES_OWN:
                kind = value.__class__
                found[at, name] = (kind, value) if kind in _VALUES else _token(value, 0, known)
        hooks = [hook for name in _HOOKS for hook in held[name].values()]
        if hooks:
            found[at, "hooks"] = [(id(hook), hook) for hook in hooks]
        if held["_buffers"]:
            found[at, "buffers"] = [_token(each, 0, known) for each in held["_buffers"].values()]
        own = held.get("forward", part.__class__.forward)  # another function in its place
        found[at, "forward"] = (id(own), own, part)
    return found


def _token(value: Any, depth: int, known: "_Known") -> Any:
    """Something that equals another only if both stand for the same; it keeps objects alive, whose `id` it holds.

    Args:
        value: What it stands for.
        depth: In how many containers it lies.
        known: What is known of the model.
    """
    kind = value.__class__
    if kind in _VALUES:
        return kind, value
    if isinstance(value, Tensor):
        # What has a gradient is an output that the model keeps: holding it would hold its graph.
        if value.grad_fn is not None:
            return "output"
        return id(value), None if id(value) in known.trained else value._version, value  # noqa: SLF001 - shows writing in place
    if isinstance(value, _CONTAINERS) and depth < _DEEP and len(value) <= _MOST:
        entries = [each for pair in value.items() for each in pair] if isinstance(value, dict) else list(value)
        if isinstance(value, (set, frozenset)):
            return id(value), value, frozenset(map(id, entries))
        return id(value), kind, [_token(each, depth + 1, known) for each in entries]
    own = known.objects.get(id(value)) if depth < 1 else None
    if own is not None or (depth < 1 and is_plain_object(value)):
        if own is None:
            entries = [(name, _token(each, _DEEP, known)) for name, each in vars(value).items()]
            own = known.objects[id(value)] = _Attributes(entries)
        return id(value), kind, own
    return id(value), kind, _Held(value)


@dataclass(frozen=True)
class _Known:
    """What is known of a model.

    Attributes:
        trained: The `id` of its parameters: every step writes to them, also where a part lists them once more.
        objects: The objects that were looked at before, by `id`: a configuration that all parts hold is looked at once.
    """

    trained: frozenset[int]
    objects: "dict[int, _Attributes]" = field(default_factory=dict)


class _Attributes:
    """The attributes of an object; what was found equal once is not compared again."""

    __slots__ = ("__weakref__", "_equal", "_own")

    def __init__(self, own: list[tuple[str, Any]]) -> None:
        self._own, self._equal = own, weakref.ref(self)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Attributes):
            return False
        if self._equal() is not other:
            if self._own != other._own:
                return False
            self._equal = weakref.ref(other)
        return True

    def __hash__(self) -> int:
        return 0


class _Held:
    """Keeps an object alive; all are equal, since it is compared by its `id` before."""

    __slots__ = ("_object",)

    def __init__(self, held: Any) -> None:
        self._object = held

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Held)

    def __hash__(self) -> int:
        return 0
