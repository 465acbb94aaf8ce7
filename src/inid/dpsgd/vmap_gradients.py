"""Per-example gradients of any layer: run it with parameters of their own for every example."""

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap
from torch.utils import _pytree as pytree

from inid.errors import GuaranteeError

__all__ = ["run_one_by_one"]

_MASK = 5  # where `attn_mask` stands among the arguments of an attention


def run_one_by_one(
    layer: nn.Module,
    parameters: dict[str, nn.Parameter],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    usual: Any,
    count: int,
    is_state: Callable[[Tensor], bool],
    is_batch: Callable[[Tensor], bool],
    heard: Callable[[str, Tensor], None],
) -> Any:
    """The layer's output, computed so that each parameter's gradient arrives example by example.

    Args:
        layer: Any module, recurrent or composed.
        parameters: Its trainable parameters by name.
        args: What it is called with. Tensors are taken apart by their first dimension, which must count the examples;
            buffers and parameters of the model, and an attention's mask for all examples, stay whole.
        kwargs: The same by name.
        usual: Its output for the whole batch, to see which dimension of each tensor counts the examples.
        count: How many examples there are.
        is_state: Says whether a tensor is a buffer or a parameter of the model.
        is_batch: Says whether a tensor is known to come from the batch.
        heard: Called in the backward with a name and a leaf whose `grad` has one row per example.

    Raises:
        GuaranteeError: A tensor has no dimension that counts the examples.
    """
    leaves = {name: p.detach().expand(count, *p.shape).requires_grad_() for name, p in parameters.items()}
    for name, leaf in leaves.items():
        leaf.register_post_accumulate_grad_hook(partial(heard, name))  # type: ignore[no-untyped-call]
    values, form = pytree.tree_flatten((args, kwargs))
    mask = _common_mask(layer, args, kwargs)
    split = [
        isinstance(value, Tensor) and value.ndim > 0 and value is not mask and not is_state(value) for value in values
    ]
    # Size alone must not decide: a tensor for all examples may happen to have as many rows as there are examples. The
    # first is the layer's input, and torch's own layers take examples alone (but for that mask); for others, any
    # further tensor must be seen to come from the batch.
    known = type(layer).__module__.startswith("torch.nn.")
    apart = [value for value, taken in zip(values, split, strict=True) if taken]
    if any(value.shape[0] != count for value in apart) or not (
        known or all(value is apart[0] or is_batch(value) for value in apart[1:])
    ):
        raise GuaranteeError(
            f"a layer ({type(layer).__name__}) got a tensor that is not seen to count the examples: make it a buffer "
            "of the model if it is the same for all, or pass it to the model with the batch."
        )
    outputs, shape = pytree.tree_flatten(usual)
    dims = _example_dims(outputs, _alone(layer, values, split, form), count)

    def one(own: dict[str, Tensor], *alone: Any) -> tuple[Any, ...]:
        each = [value.unsqueeze(0) if taken else value for value, taken in zip(alone, split, strict=True)]
        own_args, own_kwargs = pytree.tree_unflatten(each, form)
        made = pytree.tree_leaves(functional_call(layer, own, own_args, own_kwargs))
        return tuple(value if dim is None else value.squeeze(dim) for value, dim in zip(made, dims, strict=True))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about ways in which torch is slower than it could be
        try:
            in_dims = (0, *[0 if taken else None for taken in split])
            made = vmap(one, in_dims=in_dims, out_dims=cast("tuple[int, ...]", tuple(dims)), randomness="different")(
                leaves, *values
            )
        except (RuntimeError, ValueError, NotImplementedError):
            # Not every layer can be vectorised (recurrent ones cannot): a loop always can.
            alone = [
                one({name: leaf[at] for name, leaf in leaves.items()}, *_taken(values, split, at))
                for at in range(count)
            ]
            made = tuple(
                column[0] if dim is None else torch.stack(column, dim)
                for column, dim in zip(zip(*alone, strict=True), dims, strict=True)
            )
    return pytree.tree_unflatten(list(made), shape)


def _common_mask(layer: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The mask of an attention that is meant for all examples: two dimensions, positions by positions."""
    if not isinstance(layer, nn.MultiheadAttention):
        return None
    mask = kwargs.get("attn_mask", args[_MASK] if len(args) > _MASK else None)
    return mask if isinstance(mask, Tensor) and mask.ndim == 2 else None


def _taken(values: list[Any], split: list[bool], at: int) -> list[Any]:
    return [value[at] if taken else value for value, taken in zip(values, split, strict=True)]


def _alone(layer: nn.Module, values: list[Any], split: list[bool], form: Any) -> list[Any]:
    """What the layer makes of the first example by itself."""
    each = [value[:1] if taken else value for value, taken in zip(values, split, strict=True)]
    args, kwargs = pytree.tree_unflatten(each, form)
    with torch.no_grad():
        return pytree.tree_leaves(layer(*args, **kwargs))


def _example_dims(together: list[Any], alone: list[Any], count: int) -> list[int | None]:
    """Which dimension of each output counts the examples: the one that is 1 for one example and `count` for all."""
    dims: list[int | None] = []
    for many, one in zip(together, alone, strict=True):
        if not isinstance(many, Tensor):
            dims.append(None)
            continue
        sizes = list(zip(many.shape, one.shape, strict=True))
        if (count, 1) not in sizes:
            raise GuaranteeError(
                "a layer's output has no dimension that counts the examples: keep the examples apart in every layer."
            )
        dims.append(sizes.index((count, 1)))
    return dims
