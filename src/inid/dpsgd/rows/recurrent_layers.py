"""Per-example gradients of `LSTM`, `GRU` and `RNN`: torch's kernels forward, the gates of all positions at once back.

A layer in one direction is a node of autograd. In the backward it works out the gradients of its gates (see
`recurrences`), and hands on, for every weight, what the positions met and what flows back to them: rows are one product
per example and weight, however long the sequence is.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional

from inid.dpsgd.parallel.sharded_parameters import is_sharded
from inid.dpsgd.rows.recurrences import RECURRENCES, Weights
from inid.dpsgd.rows.wrapped_forward import leaves_of, undisturbed

__all__ = ["Collect", "run_cell", "run_recurrent", "serves", "serves_cell"]

# Called with a parameter's name, what the positions met (None for a bias) and what flows back to them, examples first.
Collect = Callable[[str, Tensor | None, Tensor], None]

_KINDS = (nn.LSTM, nn.GRU, nn.RNN)
_CELLS = (nn.LSTMCell, nn.GRUCell, nn.RNNCell)
_CELL_MODES: dict[type[nn.Module], str] = {nn.LSTMCell: "LSTM", nn.GRUCell: "GRU"}  # the third has two


def serves(
    layer: nn.Module,
    forward: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    split: Sequence[int | None],
) -> bool:
    """Whether a call of a layer is one of a recurrent layer of torch as it is, on sequences that are not packed.

    Args:
        layer: Any layer.
        forward: Its forward.
        args: What it is called with.
        kwargs: The same by name.
        split: For every leaf of these the dimension along which examples lie; None for what is the same for all.

    >>> layer, x = nn.GRU(3, 4, batch_first=True), torch.zeros(2, 5, 3)
    >>> serves(layer, layer.forward, (x,), {}, [0]), serves(layer, layer.forward, (x,), {}, [1])
    (True, False)
    """
    # The state lies (layers, examples, width); anything else is left to the loop over examples.
    return _is_plain(layer, forward, _KINDS) and bool(layer.batch_first) and _fits(args, kwargs, split, 3, 1)


def serves_cell(
    layer: nn.Module,
    forward: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    split: Sequence[int | None],
) -> bool:
    """The same for a cell, which takes one position at a time.

    >>> layer, x = nn.GRUCell(3, 4), torch.zeros(2, 3)
    >>> serves_cell(layer, layer.forward, (x,), {}, [0]), serves_cell(layer, layer.forward, (x[0],), {}, [0])
    (True, False)
    """
    return _is_plain(layer, forward, _CELLS) and _fits(args, kwargs, split, 2, 0)


def _is_plain(layer: nn.Module, forward: Callable[..., Any], kinds: tuple[type[nn.Module], ...]) -> bool:
    """Whether a layer is one of some kinds as torch has it."""
    # A replaced forward may compute something else, and so may a subclass; a weight may be made from others.
    own = type(layer) in kinds and getattr(forward, "__func__", None) is type(layer).forward
    if not own or next(layer.children(), None) is not None:
        return False
    # Gradients come by name: of a weight with two names they would be those of one use.
    weights = [weight for _, weight in layer.named_parameters(remove_duplicate=False)]
    return len(set(weights)) == len(weights) and not any(map(is_sharded, weights))


def _fits(args: tuple[Any, ...], kwargs: dict[str, Any], split: Sequence[int | None], ndim: int, along: int) -> bool:
    """Whether input and states have so many dimensions, with examples first and, in states, along another."""
    x, start = _called_with(args, kwargs)
    if not isinstance(x, Tensor) or x.ndim != ndim:
        return False
    states = _states(start)
    alike = all(isinstance(state, Tensor) and state.ndim == ndim and state.dtype == x.dtype for state in states)
    places = [at for at, leaf in zip(split, leaves_of(args, kwargs), strict=True) if leaf is not None]
    return alike and places == [0] + [along] * len(states)


def run_recurrent(layer: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], collect: Collect) -> Any:
    """What the layer gives, computed so that in the backward the gradients of its gates are collected.

    >>> layer = nn.LSTM(3, 4, 2, batch_first=True)
    >>> output, (h, c) = run_recurrent(layer, (torch.zeros(2, 5, 3),), {}, lambda *_: None)
    >>> output.shape, h.shape, c.shape
    (torch.Size([2, 5, 4]), torch.Size([2, 2, 4]), torch.Size([2, 2, 4]))
    """
    assert isinstance(layer, nn.RNNBase)  # noqa: S101 - for the type checker: see `serves`
    x, start = _called_with(args, kwargs)
    states = _states(start) or _zeros(layer, x)
    layer.check_forward_args(x, states if layer.mode == "LSTM" else states[0], None)  # type: ignore[arg-type] # as torch does
    flowing, ends = x.transpose(0, 1), list[list[Tensor]]()
    directions = ("", "_reverse") if layer.bidirectional else ("",)
    for at in range(layer.num_layers):
        if at and layer.dropout:
            flowing = functional.dropout(flowing, layer.dropout, layer.training)
        made = []
        for end in directions:
            names = _names(layer, f"_l{at}{end}")
            weights = [None if name is None else getattr(layer, name).detach() for name in names]
            own = [state[len(ends)] for state in states]
            met = flowing.flip(0) if end else flowing
            output, *last = _Direction.apply(layer.mode, names, collect, _anchor(x), met, len(own), *own, *weights)  # type: ignore[no-untyped-call]
            made.append(output.flip(0) if end else output)
            ends.append(last)
        flowing = made[0] if len(made) == 1 else torch.cat(made, -1)
    left = tuple(torch.stack(each) for each in zip(*ends, strict=True))
    return flowing.transpose(0, 1), left if layer.mode == "LSTM" else left[0]


def run_cell(layer: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], collect: Collect) -> Any:
    """What a cell gives, as a recurrent layer over one position.

    >>> h, c = run_cell(nn.LSTMCell(3, 4), (torch.zeros(2, 3),), {}, lambda *_: None)
    >>> h.shape, c.shape
    (torch.Size([2, 4]), torch.Size([2, 4]))
    """
    assert isinstance(layer, nn.RNNCellBase)  # noqa: S101 - as above
    x, start = _called_with(args, kwargs)
    mode = _CELL_MODES.get(type(layer)) or f"RNN_{str(layer.nonlinearity).upper()}"
    states = _states(start) or tuple(x.new_zeros(len(x), layer.hidden_size) for _ in range(1 + (mode == "LSTM")))
    names = ["weight_ih", "weight_hh", *(["bias_ih", "bias_hh"] if layer.bias else [None, None]), None]
    weights = [None if name is None else getattr(layer, name).detach() for name in names]
    _, *last = _Direction.apply(mode, names, collect, _anchor(x), x[None], len(states), *states, *weights)  # type: ignore[no-untyped-call]
    return tuple(last) if mode == "LSTM" else last[0]


def _called_with(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any]:
    """The input and the state before it."""
    given = dict(zip(("input", "hx"), args, strict=False)) | kwargs
    return given.get("input"), given.get("hx")


def _states(start: Any) -> tuple[Tensor, ...]:
    return () if start is None else (start,) if isinstance(start, Tensor) else tuple(start)


def _zeros(layer: nn.RNNBase, x: Tensor) -> tuple[Tensor, ...]:
    count = layer.num_layers * (2 if layer.bidirectional else 1)
    widths = [layer.proj_size or layer.hidden_size] + [layer.hidden_size] * (layer.mode == "LSTM")
    return tuple(x.new_zeros(count, len(x), width) for width in widths)


def _names(layer: nn.RNNBase, end: str) -> list[str | None]:
    """The names of the weights of one layer in one direction, in the order of `Weights`."""
    there = (True, True, layer.bias, layer.bias, layer.proj_size > 0)
    kinds = ("weight_ih", "weight_hh", "bias_ih", "bias_hh", "weight_hr")
    return [f"{kind}{end}" if here else None for kind, here in zip(kinds, there, strict=True)]


def _anchor(x: Tensor) -> Tensor:
    """What autograd differentiates by where the input needs no gradient."""
    return torch.empty((), device=x.device, requires_grad=True)


class _Direction(torch.autograd.Function):
    """One layer in one direction, positions first."""

    @staticmethod
    def forward(
        ctx: Any, mode: str, names: list[str | None], collect: Collect, _: Tensor, x: Tensor, states: int, *rest: Any
    ) -> tuple[Tensor, ...]:
        start, weights = rest[:states], Weights(*rest[states:])
        made = RECURRENCES[mode].kernel(x, start, weights)
        ctx.mode, ctx.names, ctx.collect, ctx.states = mode, names, collect, states
        ctx.save_for_backward(x, made[0], *rest)
        return made

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, flowed: Tensor, *ends: Tensor) -> Any:
        x, output, *rest = ctx.saved_tensors
        start, weights = tuple(rest[: ctx.states]), Weights(*rest[ctx.states :])
        kind = weights.x.dtype  # under autocast the kernel may have computed in another
        with undisturbed(x):
            x, output, flowed, *rest = (each.to(kind) for each in (x, output, flowed, *start, *ends))
            start, ends = tuple(rest[: ctx.states]), tuple(rest[ctx.states :])
            flow = RECURRENCES[ctx.mode].flow(x, output, start, weights, flowed, ends)
            x_name, h_name, x_bias, h_bias, projection = ctx.names
            _hand_on(ctx.collect, x_name, x, flow.x)
            _hand_on(ctx.collect, h_name, flow.before, flow.h)
            _hand_on(ctx.collect, x_bias, None, flow.x)
            _hand_on(ctx.collect, h_bias, None, flow.h)
            if flow.projected is not None:
                _hand_on(ctx.collect, projection, flow.projected[1], flow.projected[0])
            back = (flow.x.flatten(0, 1) @ weights.x).view_as(x) if ctx.needs_input_grad[4] else None
        return None, None, None, None, back, None, *flow.start, *(None for _ in weights)


def _hand_on(collect: Collect, name: str | None, met: Tensor | None, flowed: Tensor) -> None:
    if name is not None:
        collect(name, None if met is None else met.transpose(0, 1), flowed.transpose(0, 1))
