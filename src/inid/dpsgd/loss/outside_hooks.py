"""Hooks that a loop puts on outputs, losses or what lies between them: they can carry one row's gradient into others.

Hooks that the forward of a model registers are a part of it, and are tried out with it. Others meet real gradients
only, after the look at the loss. Torch does not tell which hooks a graph has, so that the two functions through which
all of them come are wrapped once, and note them. What torch's own sharding registers is left out: it moves
parameters, and changes no gradient.
"""

import threading
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from functools import partial, wraps
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import _HookMixin
from torch.utils.hooks import RemovableHandle

from inid.dpsgd.loss.nodes import Edge
from inid.errors import GuaranteeError

_KEPT = "inid: hooks on tensors"  # in the dictionary that every node keeps for others
_HERE = threading.local()  # depth: how many forwards of private models are under way
_NOTED: list["_Hook"] = []
_WRAPPED: list[object] = []


class _Hook:
    """A hook by its place in a dictionary of torch's, which lives as long as the node that it is on."""

    def __init__(self, handle: RemovableHandle) -> None:
        self._where, self._number = handle.hooks_dict_ref, handle.id

    def there(self, among: object = None) -> bool:
        """Whether it was not removed, and is one of these, if any are given."""
        hooks = self._where()
        return hooks is not None and self._number in hooks and (among is None or among is hooks)


def watch_hooks() -> None:
    """Note hooks from now on."""
    if _WRAPPED:
        return
    on_tensor, on_node = Tensor.register_hook, _HookMixin._register_hook  # noqa: SLF001 - see above
    _WRAPPED.extend((on_tensor, on_node))

    @wraps(on_tensor)
    def register_hook(self: Tensor, hook: Callable[..., Any]) -> Any:
        handle = on_tensor(self, hook)  # type: ignore[no-untyped-call]
        node: Any = self.grad_fn
        if node is not None and _is_outside(hook):
            node.metadata.setdefault(_KEPT, []).append(_note(handle))
        return handle

    @wraps(on_node)
    def _register_hook(hooks: Any, hook: Callable[..., Any]) -> Any:
        hooks, handle = on_node(hooks, hook)  # type: ignore[no-untyped-call]
        if _is_outside(hook):
            _note(handle)
        return hooks, handle

    Tensor.register_hook = register_hook  # type: ignore[method-assign]
    _HookMixin._register_hook = staticmethod(_register_hook)  # type: ignore[method-assign] # noqa: SLF001 - as above


@contextmanager
def inside_model() -> Generator[None]:
    """Hooks that are registered meanwhile belong to a private model."""
    _HERE.depth = getattr(_HERE, "depth", 0) + 1
    try:
        yield
    finally:
        _HERE.depth -= 1


def check_hooks(ends: Iterable[Edge]) -> None:
    """Refuse a backward in which hooks from outside of a model would run."""
    _NOTED[:] = [hook for hook in _NOTED if hook.there()]
    if not _NOTED:
        return
    waiting = [node for node, _ in ends]
    seen = set(waiting)
    while waiting:
        node = waiting.pop()
        if any(hook.there() for hook in node.metadata.get(_KEPT, ())) or _has_noted(node):
            raise GuaranteeError(
                f"a hook was put on a tensor of the graph (at {node.name()!r}) outside the forward of the private "
                "module, where it could carry one row's gradient into others: remove it, register it inside the "
                "module's forward, where it is looked at, or read gradients by retain_grad()."
            )
        inner = {each for each, _ in node.next_functions if each is not None} - seen
        seen |= inner
        waiting += inner


def _note(handle: RemovableHandle) -> _Hook:
    hook = _Hook(handle)
    _NOTED.append(hook)
    return hook


def _is_outside(hook: Callable[..., Any]) -> bool:
    if getattr(_HERE, "depth", 0) or torch._C._current_graph_task_id() != -1:  # noqa: SLF001 - hooks of hooks
        return False
    while isinstance(hook, partial):
        hook = hook.func
    return not (getattr(hook, "__module__", None) or "").startswith(("inid.", "torch.distributed."))


def _has_noted(node: Any) -> bool:
    """Whether a noted hook is on a node: it is asked for the dictionary into which it puts another."""
    for register in (node.register_hook, node.register_prehook):
        probe = register(_nothing)
        hooks = probe.hooks_dict_ref()
        probe.remove()
        if any(hook.there(hooks) for hook in _NOTED):
            return True
    return False


def _nothing(*_: object) -> None:
    """A hook that does nothing."""
