"""What a model keeps besides its parameters: buffers, numbers, tensors, lists, objects.

It is taken down, put back and compared. Nothing here shows a value: attributes are named, what is inside is not.
"""

import inspect
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from numbers import Number
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from inid.dpsgd.grad_sample.module_snapshot import SINGLE, parts_of, tensors_of

# What torch keeps of every module (parameters, buffers and parts among it), and the forward that is wrapped.
MODULES_OWN = (frozenset(vars(nn.Module())) - {"training"}) | {"forward"}
_DEEP = 8  # containers in containers
_MOST = 10_000  # entries that are looked at in all, and
_NUMBERS = 2**24  # numbers of tensors and arrays: a model may hold its data set
_LIBRARIES = frozenset(
    ("accelerate", "builtins", "inid", "lightning", "logging", "numpy", "pytorch_lightning", "threading", "torch")
)  # objects of these are left alone


def kept_tensors(module: nn.Module, known: Iterable[int] = ()) -> list[Tensor]:
    """Tensors without gradients that a model keeps as attributes, such as attention weights.

    Those with gradients reach nothing: only outputs enter a private loss.
    """
    tensors = [
        value
        for part in parts_of(module)
        for name, value in vars(part).items()
        if name not in MODULES_OWN and isinstance(value, (Tensor, list, tuple, dict))
    ]
    ours = {*known, *map(id, tensors_of(parts_of(module)))}
    leaves = [leaf for leaf in pytree.tree_leaves(tensors) if isinstance(leaf, Tensor) and id(leaf) not in ours]
    return [leaf for leaf in leaves if leaf.ndim and not leaf.requires_grad]


def _is_output(tensor: Tensor) -> bool:
    """Whether a tensor that was made anew may be an output: single numbers without a gradient are facts."""
    return tensor.grad_fn is not None if tensor.requires_grad else tensor.ndim > 0


class _Copy(NamedTuple):
    """A tensor or an array, and what it held."""

    original: Any
    held: Any


class AttributeSnapshot:
    """The buffers and plain attributes of a model and of its parts, as they are now.

    Lists, dicts, sets and objects with attributes are looked into, to a limit; closures and globals are not.

    >>> model = nn.Identity()
    >>> model.seen = []
    >>> before = AttributeSnapshot(model)
    >>> model.seen.append(3)
    >>> after = AttributeSnapshot(model)
    >>> after.differs(before)
    "attribute 'seen' of module '' (Identity)"
    >>> before.put_back()
    >>> model.seen
    []
    """

    def __init__(self, module: nn.Module) -> None:
        self.entries: dict[str, list[Any]] = {}
        self._holders: list[tuple[Any, Any, frozenset[str]]] = []  # containers, what they held, what is not ours
        self._copies: list[_Copy] = []
        self._leaves: list[Any] = []
        self._count = self._numbers = 0
        self._seen = {id(each) for each in module.parameters()}
        self._theirs: list[Any] = []  # keeps what was seen alive: another could get its id
        for where, part in module.named_modules():
            attributes = {name: value for name, value in vars(part).items() if name not in MODULES_OWN}
            self._holders.append((vars(part), attributes, MODULES_OWN))
            buffers = part._buffers  # noqa: SLF001 - as torch keeps them, to be put back
            self._holders.append((buffers, dict(buffers), frozenset()))
            for name, value in (*attributes.items(), *buffers.items()):
                kind = "buffer" if name in buffers else "attribute"
                self._leaves = self.entries[f"{kind} {name!r} of module {where!r} ({type(part).__name__})"] = []
                self._note(value, 0)

    def put_back(self) -> None:
        """Make it again what it was."""
        for holder, contents, besides in self._holders:
            _refill(holder, contents, besides)
        for original, contents in self._copies:
            if isinstance(original, np.ndarray):
                if original.shape == contents.shape and original.flags.writeable:
                    original[...] = contents
            elif original.shape != contents.shape or not _equal(original.detach(), contents):
                with suppress(RuntimeError):  # what torch lets nobody write to
                    original.data.copy_(contents)

    def differs(self, other: "AttributeSnapshot", start: "AttributeSnapshot | None" = None) -> str | None:
        """The first attribute that differs, by name; None if all agree. Tensors newer than `start` may be outputs."""
        known = None if start is None else start.tensors
        for name in {**self.entries, **other.entries}:
            one, two = self.entries.get(name), other.entries.get(name)
            if one is None or two is None or len(one) != len(two):
                return name
            if not all(_alike(left, right, known) for left, right in zip(one, two, strict=True)):
                return name
        return None

    @property
    def tensors(self) -> set[int]:
        """The `id` of every tensor and array in it."""
        return {id(each.original) for each in self._copies}

    def written(self) -> list[Tensor]:
        """The tensors that hold something else now."""
        copies = [each for each in self._copies if isinstance(each.original, Tensor)]
        return [each.original for each in copies if not _equal(each.original.detach(), each.held)]

    def _note(self, value: Any, depth: int) -> None:
        self._count += 1
        if type(value) in SINGLE or isinstance(value, (Number, str, bytes)):
            self._leaves.append(value)
            return
        self._leaves.append(type(value))
        if id(value) in self._seen or depth > _DEEP or self._count > _MOST:
            return
        self._seen.add(id(value))
        self._theirs.append(value)
        if isinstance(value, (Tensor, np.ndarray)):
            self._copy(value)
        elif isinstance(value, dict):
            self._look_into(value, dict(value), [each for pair in value.items() for each in pair], depth)
        elif isinstance(value, (list, deque)):
            self._look_into(value, list(value), list(value), depth)
        elif isinstance(value, set):
            self._holders.append((value, set(value), frozenset()))
            self._leaves.append(frozenset(value))
        elif isinstance(value, tuple):
            self._look_into(None, None, list(value), depth)
        elif is_plain_object(value):
            self._note(vars(value), depth)

    def _look_into(self, holder: Any, value: Any, values: list[Any], depth: int) -> None:
        if holder is not None:
            self._holders.append((holder, value, frozenset()))
        self._leaves.append(len(values))
        for each in values:
            self._note(each, depth + 1)

    def _copy(self, value: Any) -> None:
        size = value.numel() if isinstance(value, Tensor) else value.size
        if self._numbers + size > _NUMBERS:
            return
        self._numbers += size
        if isinstance(value, np.ndarray):
            self._copies.append(_Copy(value, value.copy()))
            self._leaves.append(self._copies[-1])
        elif value.layout == torch.strided and not value.is_meta:
            with suppress(RuntimeError):  # what vmap left behind
                self._copies.append(_Copy(value, value.detach().clone()))
                self._leaves.append(self._copies[-1])


def is_plain_object(value: Any) -> bool:
    """Whether it is an object of the user's, which holds what it holds by name."""
    kind = type(value)
    if isinstance(value, (nn.Module, type)) or inspect.isroutine(value) or inspect.ismodule(value):
        return False
    return hasattr(value, "__dict__") and kind.__module__.partition(".")[0] not in _LIBRARIES


def _refill(holder: Any, contents: Any, besides: frozenset[str]) -> None:
    """Let a container hold again what it held, where it does not; a dict also what it has besides."""
    if isinstance(holder, dict):
        for name in holder.keys() - contents.keys() - besides:
            del holder[name]
        for name, value in contents.items():
            if name not in holder or holder[name] is not value:
                holder[name] = value
    elif isinstance(holder, set):
        holder.intersection_update(contents)
        holder.update(contents)
    elif len(holder) != len(contents) or any(one is not other for one, other in zip(holder, contents, strict=True)):
        holder.clear()
        holder.extend(contents)


def _alike(one: Any, other: Any, known: set[int] | None) -> bool:
    """Whether two entries agree to the bit; with `known`, other tensors than these may be outputs, which differ."""
    if not isinstance(one, _Copy):
        return type(one) is type(other) and bool(one == other or (one != one and other != other))  # noqa: PLR0124 - NaN
    if not isinstance(other, _Copy) or one.held.shape != other.held.shape or one.held.dtype != other.held.dtype:
        return False
    if isinstance(one.held, np.ndarray):
        return bool(one.held.tobytes() == other.held.tobytes())
    if _equal(one.held, other.held):
        return True
    return known is not None and not {id(one.original), id(other.original)} & known and _is_output(one.original)


def _equal(one: Tensor, other: Tensor) -> bool:
    """Whether two tensors hold the same, gaps included."""
    if torch.equal(one, other):
        return True
    return one.shape == other.shape and bool(((one == other) | ((one != one) & (other != other))).all())  # noqa: PLR0124 - NaN
