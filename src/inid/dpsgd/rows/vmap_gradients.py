"""Per-example gradients of any layer: run it with parameters of their own for every example."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap
from torch.nn import functional
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

__all__ = ["run_with_own_parameters"]


class _Bare(nn.Module):
    """A layer called by its forward alone: its hooks run around the call that this one replaces."""

    def __init__(self, layer: nn.Module, forward: Callable[..., Any]) -> None:
        super().__init__()
        self.layer, self.run = layer, forward

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.run(*args, **kwargs)


_ATTENTION = functional.scaled_dot_product_attention


class _PlainAttention(TorchFunctionMode):
    """Attention by products and a softmax: inside vmap torch's kernels for GPUs do not keep what a backward needs."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is _ATTENTION:
            return plain_attention(*args, **(kwargs or {}))
        if func is functional.multi_head_attention_forward:  # torch shows its calls to no mode
            functional.scaled_dot_product_attention = plain_attention
            try:
                return func(*args, **(kwargs or {}))
            finally:
                functional.scaled_dot_product_attention = _ATTENTION
        return func(*args, **(kwargs or {}))


def plain_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """What `torch.nn.functional.scaled_dot_product_attention` computes; a position that sees nothing has zeros.

    >>> q, k, v = torch.randn(3, 2, 4, 5, 8, generator=torch.Generator().manual_seed(0))
    >>> torch.allclose(plain_attention(q, k, v), functional.scaled_dot_product_attention(q, k, v), atol=1e-6)
    True
    """
    if enable_gqa:
        key, value = (each.repeat_interleave(query.shape[-3] // each.shape[-3], -3) for each in (key, value))
    scores = (query * (query.shape[-1] ** -0.5 if scale is None else scale)) @ key.mT
    if is_causal:
        attn_mask = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril()
    if attn_mask is not None and attn_mask.dtype == torch.bool:
        scores = scores.masked_fill(~attn_mask, -torch.inf)
    elif attn_mask is not None:
        scores = scores + attn_mask
    blind = (scores == -torch.inf).all(-1, keepdim=True)
    weights = scores.masked_fill(blind, 0.0).softmax(-1).masked_fill(blind, 0.0)
    return functional.dropout(weights, dropout_p) @ value


def run_with_own_parameters(
    layer: nn.Module,
    forward: Callable[..., Any],
    parameters: Mapping[str, nn.Parameter],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    *,
    examples: int,
    views: int,
    split: Sequence[int | None],
    joined: Sequence[int | None],
    collect: Callable[[str, Tensor], None],
) -> Any:
    """The layer's output, computed so that each parameter's gradient arrives example by example.

    Args:
        layer: Any module.
        forward: Its forward.
        parameters: Its trainable parameters by name.
        args: What it is called with.
        kwargs: The same by name.
        examples: How many examples there are.
        views: How many views there are of each example, one after another.
        split: For every leaf of the arguments, the dimension by which it is divided among the examples, each getting
            an equal block of it; or None for what is the same for all.
        joined: For every leaf of the output, the dimension along which the examples' blocks lie; or None where it is
            not a tensor.
        collect: Called in the backward with a name and a leaf whose `grad` has one row per example.
    """
    leaves = {name: p.detach().expand(examples, *p.shape).requires_grad_() for name, p in parameters.items()}
    for name, leaf in leaves.items():
        leaf.register_post_accumulate_grad_hook(partial(collect, name))  # type: ignore[no-untyped-call]
    values, form = pytree.tree_flatten((args, kwargs))
    apart = [v if at is None else v.unflatten(at, (examples, -1)) for v, at in zip(values, split, strict=True)]
    bare, shapes = _Bare(layer, forward), []

    def one(own: dict[str, Tensor], *alone: Any) -> tuple[Any, ...]:
        own_args, own_kwargs = pytree.tree_unflatten(list(alone), form)
        under = {f"layer.{name}": leaf for name, leaf in own.items()}
        made, shape = pytree.tree_flatten(functional_call(bare, under, own_args, own_kwargs))
        shapes.append(shape)
        # What is the same for all views has one entry, and is due once for each.
        return tuple(
            v if d is None or v.shape[d] >= views else v.expand(views, *v.shape[1:])
            for v, d in zip(made, joined, strict=True)
        )

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about ways in which torch is slower than it could be
        try:
            with _PlainAttention():
                made = vmap(one, in_dims=(0, *split), out_dims=tuple(joined), randomness="different")(leaves, *apart)  # type: ignore[arg-type]
            together = [v if d is None else v.flatten(d, d + 1) for v, d in zip(made, joined, strict=True)]
        except (RuntimeError, ValueError, NotImplementedError):
            # Not every layer can be vectorised (a subclass of LSTM cannot): a loop always can.
            alone = [
                one({name: leaf[at] for name, leaf in leaves.items()}, *_block(apart, split, at))
                for at in range(examples)
            ]
            columns = zip(zip(*alone, strict=True), joined, strict=True)
            together = [column[0] if d is None else torch.cat(column, d) for column, d in columns]
    return pytree.tree_unflatten(together, shapes[-1])


def _block(values: list[Any], split: Sequence[int | None], at: int) -> list[Any]:
    return [value if along is None else value.select(along, at) for value, along in zip(values, split, strict=True)]
