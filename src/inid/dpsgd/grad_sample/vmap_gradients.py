"""Per-sample gradients of a layer without a formula: run with parameters of their own for every example."""

import copy
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap
from torch.nn import functional
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

from inid.dpsgd.grad_sample.call_plan import Call, Returns
from inid.dpsgd.grad_sample.recurrent_layers import Collect, run_cell, run_recurrent, serves, serves_cell
from inid.dpsgd.grad_sample.wrapped_forward import output_leaves, with_front
from inid.dpsgd.seeding import rng_state, set_rng_state
from inid.errors import GuaranteeError


class _ForwardOnly(nn.Module):
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
    """What `torch.nn.functional.scaled_dot_product_attention` computes; a position that sees nothing has zeros."""
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


def run_with_parameters_per_example(
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
    returns: Returns = "beside",
    collect: Callable[[str, Tensor], None],
    looped: dict[nn.Module, bool],
) -> Any:
    """The layer's output, computed so that each parameter's gradient arrives example by example.

    `looped` remembers of every layer whether it runs in a loop, so that what vmap cannot run is tried once.
    """
    leaves = {name: p.detach().expand(examples, *p.shape).requires_grad_() for name, p in parameters.items()}
    for name, leaf in leaves.items():
        leaf.register_post_accumulate_grad_hook(partial(collect, name))  # type: ignore[no-untyped-call]
    values, form = pytree.tree_flatten((args, kwargs))
    per_example = [v if at is None else v.unflatten(at, (examples, -1)) for v, at in zip(values, split, strict=True)]
    objects = _Objects(layer, values)
    forward_only, shapes = _ForwardOnly(layer, forward), []

    def part(v: Tensor, d: int, at: Tensor) -> Tensor:
        if returns == "stacked":
            v = with_front(v)
        elif returns == "own":
            v = v.unflatten(d, (examples, -1)).index_select(d, at.view(1)).squeeze(d)  # type: ignore[no-untyped-call]
        # What is the same for all views has one entry, and is due once for each.
        return v if v.shape[d] >= views else v.expand(views, *v.shape[1:])

    def one(at: Tensor, of_one: dict[str, Tensor], *alone: Any) -> tuple[Any, ...]:
        its_args, its_kwargs = pytree.tree_unflatten(objects.copied(alone), form)
        under = {f"layer.{name}": leaf for name, leaf in of_one.items()}
        leaves_out, shape = pytree.tree_flatten(functional_call(forward_only, under, its_args, its_kwargs))
        shapes.append(shape)
        return tuple(v if d is None else part(v, d, at) for v, d in zip(leaves_out, joined, strict=True))

    places = torch.arange(examples, device=next(iter(leaves.values())).device)
    together, out_dims = None, cast("Any", tuple(joined))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about ways in which torch is slower than it could be
        if not looped.get(layer):
            state = None if layer in looped else rng_state([v.device for v in values if isinstance(v, Tensor)])
            try:
                with _PlainAttention():
                    mapped = vmap(one, in_dims=(0, 0, *split), out_dims=out_dims, randomness="different")
                    outputs = mapped(places, leaves, *per_example)
                together = [v if d is None else v.flatten(d, d + 1) for v, d in zip(outputs, joined, strict=True)]
                looped[layer] = False
            except (RuntimeError, ValueError, NotImplementedError):
                if state is not None:  # as if it had not been tried, which it will not be again
                    set_rng_state(state)
        if together is None:
            # Not every layer can be vectorised (a subclass of LSTM cannot): a loop always can.
            alone = [
                one(places[at], {name: leaf[at] for name, leaf in leaves.items()}, *_block(per_example, split, at))
                for at in range(examples)
            ]
            objects.check_shared()
            columns = zip(zip(*alone, strict=True), joined, strict=True)
            together = [objects.same(column) if d is None else torch.cat(column, d) for column, d in columns]
            looped[layer] = True
    for part in layer.modules():
        if isinstance(part, nn.RNNBase):  # its list of weights holds those of one example
            part._flat_weights = [getattr(part, name, None) for name in part._flat_weights_names]  # noqa: SLF001 - as torch does
    return pytree.tree_unflatten(together, shapes[-1])


def _block(values: list[Any], split: Sequence[int | None], at: int) -> list[Any]:
    return [value if along is None else value.select(along, at) for value, along in zip(values, split, strict=True)]


_PLAIN = (bool, int, float, complex, str, bytes, type(None), type, torch.dtype, torch.device, torch.Size)


class _Objects:
    """The arguments of a layer that are not tensors, such as a cache of keys: each example gets a copy of its own.

    An object that all examples share would carry what one of them wrote to it into the next. So a copy is made of it
    as it was before the layer ran, for every example and for the try by `vmap`, which may break off half-way. The
    object itself stays as it was.
    """

    def __init__(self, layer: nn.Module, values: list[Any]) -> None:
        self._layer = f"a {type(layer).__name__}, which is run example by example,"
        self._values = {at: v for at, v in enumerate(values) if not isinstance(v, (Tensor, nn.Module, *_PLAIN))}
        self._shared = [(v, v._version) for v in values if isinstance(v, Tensor)]  # noqa: SLF001 - shows a change in place
        self._origins: list[tuple[Any, Any]] = []  # copies, and what they are of

    def copied(self, values: Sequence[Any]) -> list[Any]:
        """The arguments for one example."""
        copies = list(values)
        for at, value in self._values.items():
            memo: dict[int, Any] = {}
            for leaf in output_leaves(value):
                if isinstance(leaf, (nn.Parameter, nn.Module, torch.Generator)):
                    memo[id(leaf)] = leaf
                elif isinstance(leaf, Tensor):  # by `clone`, through which gradients flow back
                    memo[id(leaf)] = leaf.clone()
            try:
                copies[at] = copy.deepcopy(value, memo)
            except Exception as error:
                raise GuaranteeError(
                    f"{self._layer} is called with a {type(value).__name__} that cannot be copied, so that one example "
                    "could find in it what another has left there: pass tensors, or an object that copy.deepcopy takes."
                ) from error
            self._origins.append((copies[at], value))
        return copies

    def check_shared(self) -> None:
        """Refuse a layer that has written to a tensor of all examples."""
        if any(tensor._version != version for tensor, version in self._shared):  # noqa: SLF001 - as above
            raise GuaranteeError(
                f"{self._layer} writes to one of its arguments in place, where the next example finds it: let it write "
                "to a copy."
            )

    def same(self, column: Sequence[Any]) -> Any:
        """What the layer returns besides tensors, which must be the same for all examples."""
        originals = [next((origin for copy, origin in self._origins if copy is each), each) for each in column]
        first = originals[0]
        if all(each is first for each in originals) or (
            isinstance(first, _PLAIN) and all(each == first for each in originals)
        ):
            return first
        raise GuaranteeError(
            f"{self._layer} returns a {type(first).__name__} of its own for every example: return tensors, with the "
            "examples in their first dimension."
        )


def run_without_sampler(
    call: Call,
    forward: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    examples: int,
    views: int,
    positions: Collect,
    leaf: Callable[[str, Tensor], None],
    looped: dict[nn.Module, bool],
) -> Any:
    """What the layer gives, computed so that in the backward the gradients of single examples can be had."""
    unit, split = call.unit, call.split
    if serves(unit.layer, forward, args, kwargs, split):
        return run_recurrent(unit.layer, args, kwargs, positions)
    if serves_cell(unit.layer, forward, args, kwargs, split):
        return run_cell(unit.layer, args, kwargs, positions)
    return run_with_parameters_per_example(
        unit.layer,
        forward,
        unit.present(),
        args,
        kwargs,
        examples=examples,
        views=views,
        split=split,
        joined=call.joined,
        returns=call.returns,
        collect=leaf,
        looped=looped,
    )
