"""How private training comes between a model and its layers: wrapped forwards, frozen parameters, kept inputs.

**Direct parameters** are those that a module uses by itself, beside its layers: a class token, positions that are
added. One of shape (1, ...) is the same for all examples, broadcast or expanded along them. While its module runs, a
tensor with an entry for each example stands in its place: what flows back to that are the per-sample gradients, and the
module's layers keep their formulas. Whether a module takes such a tensor for its parameter is found out on made-up
examples, as all else is (see `call_plan`). There the entries differ, by what the model was given of each example, so
that a mean over them shows; and what flows back to them for three examples must be what flows back for each alone. A
module that does something else with its parameter is run example by example as a whole.
"""

import functools
import inspect
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import AbstractContextManager, ExitStack, nullcontext
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch._compile import _disable_dynamo  # as torch's own optimizers do; torch.compiler.disable takes seconds to load
from torch.nn import functional
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

from inid.dpsgd.grad_sample.call_plan import Unit
from inid.dpsgd.grad_sample.grad_samples import GradSampler
from inid.dpsgd.grad_sample.layers import in_place
from inid.errors import GuaranteeError

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
        self._instance_forward = vars(module).get("forward")
        functools.update_wrapper(self, module.forward, updated=())
        module.forward = self

    @_disable_dynamo  # torch.compile cannot follow hooks that work out gradients; the rest of the model it can
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run in its place."""
        return self.run(self.forward, args, kwargs)

    def undo(self) -> None:
        """Give the module its own forward back."""
        if self._instance_forward is None:
            del self.module.forward
        else:
            self.module.forward = self._instance_forward

    def __reduce__(self) -> tuple[Any, ...]:
        return getattr, (self.module, "forward")


def is_private(module: nn.Module) -> bool:
    """Whether a model, or a part of it, has been made private."""
    return any(isinstance(vars(part).get("forward"), WrappedForward) for part in module.modules())


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
    fresh = unit.rule is not None and type(unit.layer).__module__.startswith("torch.nn.") and output._base is None  # noqa: SLF001 - whether it is a view
    return _started(output, fresh=fresh and not any(output is arg for arg in args))


def _let_require(parameters: Iterable[nn.Parameter], value: bool) -> None:
    with unseen() if torch._C._len_torch_function_stack() else _NOTHING:  # noqa: SLF001 - torch has no public name for it
        for parameter in parameters:
            parameter.requires_grad = value


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


def signature_of(args: tuple[Any, ...], kwargs: dict[str, Any], rows: int, *, training: bool) -> object:
    """What calls may depend on besides the values: shapes without the number of rows, types, plain settings."""
    leaves, form = pytree.tree_flatten((args, kwargs))
    known = tuple(
        (leaf.dtype, tuple(leaf.shape[1:] if leaf.ndim and leaf.shape[0] == rows else leaf.shape))
        if isinstance(leaf, Tensor)
        else leaf
        if isinstance(leaf, (bool, int, float, str, type(None)))
        else type(leaf)
        for leaf in leaves
    )
    return training, form, known


def first_tensor(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor | None:
    """The first tensor among the arguments."""
    if args and isinstance(args[0], Tensor):
        return args[0]
    return next((leaf for leaf in pytree.tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)), None)


def leaves_of(args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
    """The leaves of the arguments of a call; of plain tensors, as most layers get, without a search."""
    if not kwargs and (isinstance(args[0], Tensor) if len(args) == 1 else all(isinstance(arg, Tensor) for arg in args)):
        return list(args)
    return pytree.tree_leaves((args, kwargs))


def undisturbed(near: Tensor) -> AbstractContextManager[object]:
    """Neither gradients nor autocast, in a backward: products stay in their precision. Mostly neither is on."""
    if not torch.is_grad_enabled() and not _any_autocast():
        return _NOTHING
    stack = ExitStack()
    stack.enter_context(torch.no_grad())
    stack.enter_context(torch.autocast(near.device.type, enabled=False))
    return stack


def repeated(args: tuple[Any, ...], examples: int) -> tuple[Any, ...]:
    """An input that is the same for all examples, such as positions, once for each of them."""
    return repeated_tensor(args[0], examples), *args[1:]


def repeated_tensor(shared: Tensor, examples: int) -> Tensor:
    """A tensor that is the same for all examples, once for each of them."""
    in_front = with_front(shared)
    return in_front.expand(examples, *in_front.shape[1:])


def with_front(shared: Tensor) -> Tensor:
    """A tensor with a dimension of one entry in front."""
    return shared if shared.ndim > 1 and shared.shape[0] == 1 else shared.unsqueeze(0)


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


def _started(tensor: Tensor, *, fresh: bool = False) -> Tensor:
    """A tensor that autograd takes for something to differentiate: itself, or a copy where gradients start here."""
    if tensor.requires_grad or not tensor.is_floating_point():
        return tensor
    anchor = torch.empty((), device=tensor.device, requires_grad=True)
    return cast("Tensor", _Start.apply(tensor, anchor, fresh))  # type: ignore[no-untyped-call]


class _Start(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tensor: Tensor, _anchor: Tensor, fresh: bool) -> Tensor:
        if fresh:
            ctx.mark_dirty(tensor)
            return tensor
        return tensor.clone()

    @staticmethod
    def backward(_ctx: Any, *gradients: Any) -> Any:
        return gradients[0], None, None


class SavedTensor:
    """A tensor that a backward will read, as the layers of torch keep theirs.

    Activation checkpointing drops and recomputes what nodes of autograd have saved; so a node saves it where hooks for
    saved tensors are at work, and otherwise it is simply held, which is a tenth of the work.
    """

    __slots__ = ("_node", "_tensor", "_version")

    def __init__(self, tensor: Tensor) -> None:
        detached = tensor.detach()
        self._node: Tensor | None = None
        self._tensor: Tensor | None = None
        if _hooks_at_work():
            # Held is the output, not its `grad_fn`: some versions of torch free what a node has saved with its output.
            self._node = cast("Tensor", _Keep.apply(_ANCHOR, detached))  # type: ignore[no-untyped-call]
        else:
            self._tensor, self._version = detached, detached._version  # noqa: SLF001 - the only way to see a change in place

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


def run_with_direct_parameters(
    unit: Unit,
    forward: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    rows: int,
    collect: Callable[[str, Tensor], None],
) -> Any:
    """The module's output, computed so that the gradients of its own parameters arrive row by row."""
    leaves = {name: p.detach().expand(rows, *p.shape[1:]).requires_grad_() for name, p in unit.parameters.items()}
    for name, leaf in leaves.items():
        leaf.register_post_accumulate_grad_hook(partial(collect, name))  # type: ignore[no-untyped-call]
    with in_place(unit.layer, leaves):
        return forward(*args, **kwargs)


def run_with_sampler(
    unit: Unit, forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], flowed: Callable[..., None]
) -> Tensor:
    """What the layer gives."""
    args = narrowed(cast("GradSampler", unit.rule), args)
    output: Tensor = frozen(unit, forward, args, kwargs)
    stored_input = SavedTensor(stored(cast("Tensor", first_tensor(args, kwargs)), output))
    on_gradient(output, partial(flowed, stored_input))
    return output


def on_gradient(tensor: Tensor, hook: Callable[[Tensor], None]) -> None:
    """Call a hook with what flows back to a tensor: `register_hook` without its handle, which is slow."""
    if tensor._backward_hooks is not None:  # noqa: SLF001 - as register_hook does
        tensor.register_hook(hook)  # type: ignore[no-untyped-call]
        return
    tensor._backward_hooks = OrderedDict(inid=hook)  # noqa: SLF001 - as above; keys of others are numbers
    tensor.grad_fn._register_hook_dict(tensor)  # type: ignore[union-attr] # noqa: SLF001 - as above


def narrowed(rule: GradSampler, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """The arguments of a layer with the input as autocast will make it, so that it is made and kept once."""
    if rule.narrowed and len(args) == 1 and args[0].dtype == torch.float32:
        kind = args[0].device.type
        if torch.is_autocast_enabled(kind):
            return (args[0].to(torch.get_autocast_dtype(kind)),)
    return args


def stored(inputs: Tensor, output: Tensor) -> Tensor:
    """A layer's input as it is to be kept for the backward: under autocast, in the type in which the layer met it."""
    narrower = inputs.is_floating_point() and output.dtype in {torch.bfloat16, torch.float16}
    return inputs.to(output.dtype) if narrower else inputs


def output_leaves(output: object) -> list[Any]:
    """The leaves of what a model returns, also inside objects that torch does not look into (dataclasses, laws).

    >>> from types import SimpleNamespace
    >>> output_leaves([1, SimpleNamespace(loss=2)])
    [1, 2]
    """
    flat, visited = [], set[int]()
    waiting = pytree.tree_leaves(output)
    while waiting:
        leaf = waiting.pop(0)
        inside = _inside(leaf)
        if inside is None:
            flat.append(leaf)
        elif id(leaf) not in visited:
            visited.add(id(leaf))
            waiting = pytree.tree_leaves(inside) + waiting
    return flat


def _inside(leaf: object) -> list[Any] | None:
    """What an object holds: as a container of its own kind, and by name; None for what is no object of objects."""
    if isinstance(leaf, (Tensor, nn.Module, type, str, bytes)) or inspect.isroutine(leaf):
        return None
    contents: list[Any] | None = None
    if isinstance(leaf, Mapping):
        contents = list(leaf.values())
    elif isinstance(leaf, (Sequence, AbstractSet)):
        contents = list(leaf)
    attributes = [*getattr(leaf, "__dict__", {}).values(), *_slots(leaf)]
    return contents if not attributes else [*(contents or []), *attributes]


def _slots(leaf: object) -> Iterable[Any]:
    names = [name for kind in type(leaf).__mro__ for name in _names(kind.__dict__.get("__slots__", ()))]
    return [getattr(leaf, name) for name in names if not name.startswith("__") and hasattr(leaf, name)]


def _names(slots: object) -> list[str]:
    return [slots] if isinstance(slots, str) else [str(name) for name in slots] if isinstance(slots, Iterable) else []
