"""Backwards are announced before they begin: the one place at which all that torch runs from Python can be met.

A loss can be looked at only before its backward, and only from its end: nodes of autograd know what they came from, not
what became of them. Torch has no hook there, so the function that starts its engine, which `Tensor.backward`,
`torch.autograd.backward` and `torch.autograd.grad` have in common, is wrapped once, with the first private training. A
backward that reaches a private model unannounced is refused (see `per_example_gradients`). So is what makes the first
gradients: there it can be seen whether the caller handed some over.
"""

import threading
from collections.abc import Callable
from typing import Any, Protocol
from weakref import WeakSet

import torch
from torch import Tensor

from inid.dpsgd.loss.nodes import Edge, edge_of
from inid.dpsgd.loss.outside_hooks import watch_hooks


class Listener(Protocol):
    """What is told of every backward."""

    def before_backward(self, ends: list[Edge], *, handed: bool) -> None:
        """Look at a backward from these ends of the graph, or refuse it."""


_LISTENERS: "WeakSet[Any]" = WeakSet()
_WRAPPED: list[Callable[..., Any]] = []
_HERE = threading.local()  # handed: whether the gradients made last were handed over


def listen(listener: Listener) -> None:
    """Tell somebody of every backward from now on, as long as it lives."""
    _LISTENERS.add(listener)
    if not _WRAPPED:
        engine: Any = torch.autograd
        _WRAPPED.extend((engine._engine_run_backward, engine._make_grads))  # noqa: SLF001 - see above
        engine._engine_run_backward, engine._make_grads = _announced, _first_gradients  # noqa: SLF001 - as above
    watch_hooks()


def _first_gradients(outputs: Any, grads: Any, *args: Any, **kwargs: Any) -> Any:
    """What torch calls for the gradients with which a backward begins; its callers name only the last argument."""
    _HERE.handed = any(each is not None for each in grads)
    return _WRAPPED[1](outputs, grads, *args, **kwargs)


def _announced(t_outputs: Any, *args: Any, **kwargs: Any) -> Any:
    """What torch calls to start its engine, with the name of its first argument."""
    if torch._C._current_graph_task_id() == -1:  # noqa: SLF001 - a backward within one belongs to it
        ends = [edge_of(end) if isinstance(end, Tensor) else (end.node, end.output_nr) for end in t_outputs]
        handed, _HERE.handed = getattr(_HERE, "handed", False), False
        for listener in list(_LISTENERS):
            listener.before_backward([end for end in ends if end is not None], handed=handed)
    return _WRAPPED[0](t_outputs, *args, **kwargs)
