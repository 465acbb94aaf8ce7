"""How private training comes between a model and its layers: wrapped forwards, frozen parameters, kept inputs."""

import functools
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, ExitStack, nullcontext
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch._compile import _disable_dynamo  # as torch's own optimizers do; torch.compiler.disable takes seconds to load
from torch.nn import functional
from torch.nn.utils import parametrizations
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

from inid.dpsgd.rows.units import Unit
from inid.errors import GuaranteeError

__all__ = [
    "WRITTEN",
    "FunctionalLinear",
    "Kept",
    "WrappedForward",
    "first_tensor",
    "follows_weights",
    "frozen",
    "is_private",
    "leaves_of",
    "parts_of",
    "repeated",
    "rows_in",
    "tensors_of",
    "undisturbed",
    "unseen",
]

WRITTEN = (
    "the forward of the private module changed one of its buffers or parameters, which would carry facts about "
    "examples without noise: remove running statistics and the like, or compute them outside."
)


_NOTHING = nullcontext()
_any_autocast: Callable[[], bool] = torch._C._is_any_autocast_enabled  # noqa: SLF001 - torch has no public name for it


class WrappedForward:
    """Stands in for a module's `forward`. Copies and pickles of the module get the original: they are ordinary."""

    def __init__(self, module: nn.Module, run: Callable[..., Any]) -> None:
        self.module, self.run, self.forward = module, run, module.forward
        self._own = vars(module).get("forward")
        functools.update_wrapper(self, module.forward, updated=())
        module.forward = self

    @_disable_dynamo  # torch.compile cannot follow hooks that work out gradients; the rest of the model it can
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run in its place."""
        return self.run(self.forward, args, kwargs)

    def undo(self) -> None:
        """Give the module its own forward back."""
        if self._own is None:
            del self.module.forward
        else:
            self.module.forward = self._own

    def __reduce__(self) -> tuple[Any, ...]:
        return getattr, (self.module, "forward")


def is_private(module: nn.Module) -> bool:
    """Whether a model, or a part of it, has been made private."""
    return any(isinstance(vars(part).get("forward"), WrappedForward) for part in module.modules())


def parts_of(module: nn.Module) -> list[nn.Module]:
    """All parts of a model, each once: `modules()` in no particular order and in a tenth of the time.

    >>> len(parts_of(nn.Sequential(nn.ReLU(), nn.Sequential(nn.Linear(1, 1)))))
    4
    """
    found, waiting = dict[int, nn.Module](), [module]
    while waiting:
        part = waiting.pop()
        if id(part) not in found:
            found[id(part)] = part
            waiting += [child for child in part._modules.values() if child is not None]  # noqa: SLF001 - children() is slow
    return list(found.values())


def follows_weights(layer: nn.Module) -> bool:
    """Whether a forward may change a layer's buffers: those of spectral normalisation take a step with the weights."""
    return type(layer) is parametrizations._SpectralNorm  # noqa: SLF001 - it has no public name


def tensors_of(parts: Iterable[nn.Module], *, sharded: bool = False) -> list[Tensor]:
    """The buffers and parameters of a model's parts that a forward should leave as they are."""
    # Parameters that are sharded are put together anew for every forward, so that nothing written to them stays.
    return [
        tensor
        for layer in parts
        if not follows_weights(layer)
        for held in (layer._buffers, layer._parameters)  # noqa: SLF001 - the quickest way, in every forward
        for tensor in held.values()
        if tensor is not None and not (sharded and held is layer._parameters)  # noqa: SLF001 - as above
    ]


def frozen(unit: Unit, forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The output of a layer while its parameters are frozen, as something to differentiate."""
    parameters = unit.present().values()
    try:
        _let_require(parameters, False)
        output = forward(*args, **kwargs)
    finally:
        _let_require(parameters, True)
    if not isinstance(output, Tensor):
        return pytree.tree_map_only(Tensor, _started, output)
    if output.requires_grad:
        return output
    # The layers of torch give back what they have just made, which nobody else holds.
    own = unit.rule is not None and type(unit.layer).__module__.startswith("torch.nn.") and output._base is None  # noqa: SLF001 - whether it is a view
    return _started(output, own=own and not any(output is arg for arg in args))


def _let_require(parameters: Iterable[nn.Parameter], wanted: bool) -> None:
    with unseen() if torch._C._len_torch_function_stack() else _NOTHING:  # noqa: SLF001 - torch has no public name for it
        for parameter in parameters:
            parameter.requires_grad = wanted


def unseen() -> AbstractContextManager[object]:
    """Let no mode see what is done with tensors: bookkeeping is not the model's, and each call seen takes its time."""
    return torch._C.DisableTorchFunction()  # noqa: SLF001 - torch has no public name for it


def rows_in(args: tuple[Any, ...], kwargs: dict[str, Any]) -> int:
    """How many rows the batch has that a model is called with: those of the first tensor."""
    first = first_tensor(args, kwargs)
    if first is None or first.ndim == 0 or not len(first):
        raise GuaranteeError(
            "the private module must be called with a tensor whose first dimension counts the examples: pass the batch "
            "as the first tensor."
        )
    return first.shape[0]


def first_tensor(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor | None:
    """The first tensor among the arguments."""
    if args and isinstance(args[0], Tensor):
        return args[0]
    return next((leaf for leaf in pytree.tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)), None)


def leaves_of(args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
    """The leaves of the arguments of a call; of plain tensors, as most layers get, without a search.

    >>> leaves_of((1, [2, 3]), {"x": 4})
    [1, 2, 3, 4]
    """
    if not kwargs and (isinstance(args[0], Tensor) if len(args) == 1 else all(isinstance(arg, Tensor) for arg in args)):
        return list(args)
    return pytree.tree_leaves((args, kwargs))


def undisturbed(near: Tensor) -> AbstractContextManager[object]:
    """Neither gradients nor autocast, in a backward: products stay in their precision. Mostly neither is on.

    Args:
        near: A tensor on the device.
    """
    if not torch.is_grad_enabled() and not _any_autocast():
        return _NOTHING
    stack = ExitStack()
    stack.enter_context(torch.no_grad())
    stack.enter_context(torch.autocast(near.device.type, enabled=False))
    return stack


def repeated(args: tuple[Any, ...], examples: int) -> tuple[Any, ...]:
    """An input that is the same for all examples, such as positions, once for each of them."""
    shared = args[0] if args[0].ndim > 1 and args[0].shape[0] == 1 else args[0].unsqueeze(0)
    return shared.expand(examples, *shared.shape[1:]), *args[1:]


class FunctionalLinear(TorchFunctionMode):
    """Sends every call of `functional.linear` to a function."""

    def __init__(self, run: Callable[..., Any]) -> None:
        super().__init__()
        self._run = run

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        run = self._run if func is functional.linear else func
        return run(*args, **(kwargs or {}))


_ANCHOR = torch.empty((), requires_grad=True, device="cpu")
_TOP_HOOKS = getattr(torch._C._autograd, "_top_saved_tensors_default_hooks", None)  # noqa: SLF001 - since torch 2.8


def _started(tensor: Tensor, *, own: bool = False) -> Tensor:
    """A tensor that autograd takes for something to differentiate: itself, or a copy where gradients start here.

    Args:
        tensor: The tensor.
        own: Whether nobody else holds it, so that no copy is needed.
    """
    if tensor.requires_grad or not tensor.is_floating_point():
        return tensor
    anchor = torch.empty((), device=tensor.device, requires_grad=True)
    return cast("Tensor", _Start.apply(tensor, anchor, own))  # type: ignore[no-untyped-call]


class _Start(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tensor: Tensor, _anchor: Tensor, own: bool) -> Tensor:
        if own:
            ctx.mark_dirty(tensor)
            return tensor
        return tensor.clone()

    @staticmethod
    def backward(_ctx: Any, *gradients: Any) -> Any:
        return gradients[0], None, None


class Kept:
    """A tensor that a backward will read, as the layers of torch keep theirs.

    Activation checkpointing drops and recomputes what nodes of autograd have saved; so a node saves it where hooks for
    saved tensors are at work, and otherwise it is simply held, which is a tenth of the work.
    """

    __slots__ = ("_node", "_tensor", "_version")

    def __init__(self, tensor: Tensor) -> None:
        own = tensor.detach()
        self._node: Tensor | None = None
        self._tensor: Tensor | None = None
        if _hooks_at_work():
            # Held is the output, not its `grad_fn`: some versions of torch free what a node has saved with its output.
            self._node = cast("Tensor", _Keep.apply(_ANCHOR, own))  # type: ignore[no-untyped-call]
        else:
            self._tensor, self._version = own, own._version  # noqa: SLF001 - the only way to see a change in place

    def read(self) -> Tensor:
        """The tensor as it was."""
        if self._tensor is None:
            return cast("Tensor", cast("Any", self._node).grad_fn.saved_tensors[0])
        if self._tensor._version != self._version:  # noqa: SLF001 - as above
            raise RuntimeError(
                "the input of a layer, which its gradient depends on, was modified by an inplace operation after the "
                "layer had run: change a copy."
            )
        return self._tensor


def _hooks_at_work() -> bool:
    """Whether something (activation checkpointing) decides what is saved for the backward, or may."""
    return _TOP_HOOKS is None or _TOP_HOOKS(False) is not None


class _Keep(torch.autograd.Function):
    """A node that holds a tensor, as the layers of torch hold theirs."""

    @staticmethod
    def forward(ctx: Any, anchor: Tensor, tensor: Tensor) -> Tensor:
        ctx.save_for_backward(tensor)
        return anchor.view_as(anchor)

    @staticmethod
    def backward(_ctx: Any, *_gradients: Any) -> Any:
        return None, None
