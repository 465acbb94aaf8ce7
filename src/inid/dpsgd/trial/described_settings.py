"""What describes the settings of a model, so that two descriptions are equal only if nothing was changed."""

import weakref
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, nn
from torch.nn.modules import module as every_module

from inid.dpsgd.trial.plain_state import MODULES_OWN, is_plain_object

__all__ = ["HOOKS", "HOOKS_OF_ALL", "Key", "Known", "described", "is_fixed", "token"]

HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
# Hooks that run in every module of the process.
HOOKS_OF_ALL: tuple[dict[int, Any], ...] = tuple(getattr(every_module, f"_global{name}") for name in HOOKS)
_VALUES = frozenset((bool, int, float, complex, str, bytes, type(None)))
_CONTAINERS = (dict, list, tuple, set, frozenset)
_DEEP, _MOST = 3, 256  # containers in containers, and entries of one that are looked at
_INSIDE = 2  # objects in objects or in containers

Key = tuple[int, str]  # a part, by `id`, and the name of an attribute


@dataclass(frozen=True)
class Known:
    """What is known of a model.

    Attributes:
        trained: The `id` of its parameters: every step writes to them, also where a part lists them once more.
        objects: The objects that were looked at before, by `id` and depth: a configuration that all parts hold is
            looked at once.
        outputs: Whether an output that the model keeps was met: an entry for each.
    """

    trained: frozenset[int]
    objects: "dict[tuple[int, int], _Attributes]" = field(default_factory=dict)
    outputs: list[None] = field(default_factory=list)

    @classmethod
    def of(cls, parts: Iterable[nn.Module]) -> "Known":
        """What is known of a model with these parts, before anything of it is looked at."""
        return cls(frozenset(id(each) for part in parts for each in vars(part)["_parameters"].values()))


def described(parts: Iterable[nn.Module], known: Known) -> dict[Key, Any]:
    """The settings of these parts, by part and name.

    >>> layer = nn.Linear(1, 1)
    >>> before = described([layer], Known.of([layer]))
    >>> layer.training = 1
    >>> described([layer], Known.of([layer])) == before   # one is True in another type
    False
    """
    # By names that torch keeps for itself: a part may have an attribute of any other name.
    found: dict[Key, Any] = {(0, "hooks"): [(id(hook), hook) for hooks in HOOKS_OF_ALL for hook in hooks.values()]}
    for part in parts:
        at, held = id(part), vars(part)
        for name, value in held.items():
            if name not in MODULES_OWN:
                kind = value.__class__
                found[at, name] = (kind, value) if kind in _VALUES else token(value, 0, known)
        hooks = [hook for name in HOOKS for hook in held[name].values()]
        if hooks:
            found[at, "_forward_hooks"] = [(id(hook), hook) for hook in hooks]
        if held["_buffers"]:
            found[at, "_buffers"] = [(name, token(each, 0, known)) for name, each in held["_buffers"].items()]
        if held["_modules"]:  # which of them stands where
            found[at, "_modules"] = [(name, id(each), each) for name, each in held["_modules"].items()]
        own = held.get("forward", part.__class__.forward)  # another function in its place
        found[at, "forward"] = (id(own), own, part)
    return found


def token(value: Any, depth: int, known: Known) -> Any:
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
            known.outputs.append(None)
            return "output"
        return id(value), None if id(value) in known.trained else value._version, value  # noqa: SLF001 - shows writing in place
    if isinstance(value, _CONTAINERS) and depth < _DEEP and len(value) <= _MOST:
        entries = [each for pair in value.items() for each in pair] if isinstance(value, dict) else list(value)
        if isinstance(value, (set, frozenset)):
            return id(value), value, frozenset(map(id, entries))
        return id(value), kind, _tokens(entries, depth + 1, known)
    own = known.objects.get((id(value), depth)) if depth < _INSIDE else None
    if own is not None or (depth < _INSIDE and is_plain_object(value)):
        if own is None:
            held = vars(value)
            entries = [*zip(held, _tokens(held.values(), depth + 1, known), strict=True)]
            own = known.objects[id(value), depth] = _Attributes(entries)
        return id(value), kind, own
    return id(value), kind, _Held(value)


def _tokens(values: Iterable[Any], depth: int, known: Known) -> list[Any]:
    # Most are numbers and texts: a call for each would take most of the time.
    return [(each.__class__, each) if each.__class__ in _VALUES else token(each, depth, known) for each in values]


def is_fixed(value: Any) -> bool:
    """Whether a value stays what it is as long as it is the same object: numbers, texts, and tuples of them.

    >>> is_fixed((3, 3)), is_fixed([3, 3])
    (True, False)
    """
    kind = value.__class__
    return kind in _VALUES or (kind is tuple and all(each.__class__ in _VALUES for each in value))


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
