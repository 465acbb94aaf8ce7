"""What a graph of torch's calls in a backward, without holding on to the training that it belongs to.

A graph holds its hooks where Python's collector does not look. Were the training in them, one that is given up between
a forward and its backward would stay for good, with its model and the batch.
"""

from collections import OrderedDict
from collections.abc import Callable
from typing import Any
from weakref import WeakMethod, ref

from torch import Tensor

from inid.dpsgd.rows.forward_pass import EARLIER, ForwardPass
from inid.errors import GuaranteeError

__all__ = ["graph_hook", "on_gradient"]


def graph_hook(collect: Callable[..., None], turn: ForwardPass, *others: object) -> Callable[..., None]:
    """A method with a forward and other arguments as a hook; what comes in the backward follows them.

    The method's object and the forward are not kept. They are there for the latest forward of a training.
    """
    held, turn_there = WeakMethod(collect), ref(turn)

    def hook(*come: Any) -> None:
        found, at = held(), turn_there()
        if found is None or at is None:
            raise GuaranteeError(EARLIER)
        found(at, *others, *come)

    return hook


def on_gradient(tensor: Tensor, hook: Callable[[Tensor], None]) -> None:
    """Call a hook with what flows back to a tensor: `register_hook` without its handle, which takes most of the time.

    >>> import torch
    >>> made = torch.ones(2, requires_grad=True) * 3
    >>> on_gradient(made, lambda gradient: print(gradient.tolist()))
    >>> made.sum().backward()
    [1.0, 1.0]
    """
    if tensor._backward_hooks is not None:  # noqa: SLF001 - as register_hook does
        tensor.register_hook(hook)  # type: ignore[no-untyped-call]
        return
    tensor._backward_hooks = OrderedDict(inid=hook)  # noqa: SLF001 - as above; keys of others are numbers
    tensor.grad_fn._register_hook_dict(tensor)  # type: ignore[union-attr] # noqa: SLF001 - as above
