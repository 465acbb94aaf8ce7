"""What describes the settings of a model, so that two descriptions are equal only if nothing was changed."""

import weakref
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, nn

from inid.dpsgd.trial.plain_state import MODULES_OWN, is_plain_object

__all__ = ["HOOKS", "Key", "Known", "described", "is_fixed", "token"]

HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
_VALUES = frozenset((bool, int, float, complex, str, bytes, type(None)))
_CONTAINERS = (dict, list, tuple, set, frozenset)
_DEEP, _MOST = 3, 256  # containers in containers, and entries of one that are looked at

Key = tuple[int, str]  # a part, by `id`, and the name of an attribute


@dataclass(frozen=True)
class Known:
    """What is known of a model.

    Attributes:
        trained: The `id` of its parameters: every step writes to them, also where a part lists them once more.
        objects: The objects that were looked at before, by `id`: a configuration that all parts hold is looked at once.
        outputs: Whether an output that the model keeps was met: an entry for each.
    """

    trained: frozenset[int]
    objects: "dict[int, _Attributes]" = field(default_factory=dict)
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
    found = dict[Key, Any]()
    for part in parts:
        at, held = id(part), vars(part)
        for name, value in held.items():
            if name not in MODULES_OWN:
                kind = value.__class__
                found[at, name] = (kind, value) if kind in _VALUES else token(value, 0, known)
        hooks = [hook for name in HOOKS for hook in held[name].values()]
        if hooks:
            found[at, "hooks"] = [(id(hook), hook) for hook in hooks]
        if held["_buffers"]:
            found[at, "buffers"] = [token(each, 0, known) for each in held["_buffers"].values()]
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
        return id(value), kind, [token(each, depth + 1, known) for each in entries]
    own = known.objects.get(id(value)) if depth < 1 else None
    if own is not None or (depth < 1 and is_plain_object(value)):
        if own is None:
            entries = [(name, token(each, _DEEP, known)) for name, each in vars(value).items()]
            own = known.objects[id(value)] = _Attributes(entries)
        return id(value), kind, own
    return id(value), kind, _Held(value)


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
