"""Per-sample gradients of `LSTM`, `GRU` and `RNN`: torch's kernels forward, the gates of all positions at once back.

A layer in one direction is a node of autograd. In the backward it works out the gradients of its gates and hands on,
for every weight, what the positions met and what flows back to them: one product per example and weight, however long
the sequence is.

**How.** The kernel (`torch.lstm`, `gru`, `rnn_tanh`, `rnn_relu`) gives the state h_t after every position, and keeps
the gates to itself. With all h_t known, what enters the gates is two products over all positions at once. So the gates,
and the factors that turn the gradient of a state into those of its gates, are known before anything flows back. The
walk from the last position to the first is then one product and a few multiplications per position. With the gradients
of the gates, a recurrent layer is two linear ones over positions: x -> gates and h -> gates.

Tensors have positions first and examples second here, as torch's kernels work inside. No operation mixes examples:
products take each example's line by itself, and all else is entry by entry.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional

from inid.dpsgd.grad_sample.wrapped_forward import leaves_of, undisturbed
from inid.dpsgd.sharded_parameters import is_sharded


class Weights(NamedTuple):
    """The weights of one layer in one direction, in torch's order; biases and the projection may be missing."""

    x: Tensor
    h: Tensor
    x_bias: Tensor | None = None
    h_bias: Tensor | None = None
    projection: Tensor | None = None

    def present(self) -> list[Tensor]:
        """Those that are there, as torch's kernels take them."""
        return [weight for weight in self if weight is not None]


class Flow(NamedTuple):
    """What flows back in a recurrence."""

    x: Tensor
    h: Tensor
    start: tuple[Tensor, ...]
    before: Tensor
    projected: tuple[Tensor, Tensor] | None = None


States = tuple[Tensor, ...]

Kernel = Callable[[Tensor, States, Weights], States]

FlowBack = Callable[[Tensor, Tensor, States, Weights, Tensor, States], Flow]


class Recurrence(NamedTuple):
    """A kind of recurrent layer."""

    kernel: Kernel
    flow: FlowBack


def _entered(values: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """What enters the gates, at all positions in one product."""
    flat = values.flatten(0, 1)
    product = flat @ weight.T if bias is None else torch.addmm(bias, flat, weight.T)
    return product.view(*values.shape[:2], -1)


def _before(start: Tensor, states: Tensor) -> Tensor:
    return torch.cat([start[None], states[:-1]])


def _closing(gate: Tensor) -> Tensor:
    """The slope of the logistic function, from its value."""
    return (1 - gate).mul_(gate)


def _apart(gates: Tensor, kinds: int) -> Tensor:
    return gates.view(*gates.shape[:-1], kinds, -1)


def _flat(gates: Tensor) -> Tensor:
    return gates.flatten(-2)


def _with_one_state(kernel: Any) -> Kernel:
    def run(x: Tensor, start: States, weights: Weights) -> States:
        has_bias = weights.x_bias is not None
        output, h = kernel(x, start[0][None], weights.present(), has_bias, 1, 0.0, False, False, False)
        return output, h[0]

    return run


def _torch_lstm(x: Tensor, start: States, weights: Weights) -> States:
    first = [state[None] for state in start]
    output, h, c = torch.lstm(x, first, weights.present(), weights.x_bias is not None, 1, 0.0, False, False, False)
    return output, h[0], c[0]


def _lstm_flow(x: Tensor, output: Tensor, start: States, weights: Weights, flowed: Tensor, ends: States) -> Flow:
    h0, c0 = start
    before = _before(h0, output)
    entered = _entered(x, weights.x, weights.x_bias).add_(_entered(before, weights.h, weights.h_bias))
    gates = _apart(entered, 4)
    gates[:, :, :2].sigmoid_(), gates[:, :, 2].tanh_(), gates[:, :, 3].sigmoid_()
    i, f, g, o = gates.unbind(2)
    cells = i * g
    forget_gates, cell = f.unbind(), c0
    for candidate, forget in zip(cells.unbind(), forget_gates, strict=True):
        cell = candidate.addcmul_(forget, cell)
    bent = cells.tanh()
    slope = torch.addcmul(o, o * bent, bent, value=-1)  # of h by c
    # By what the gates' gradients follow from those of c, and of h for the last.
    by = torch.empty_like(gates)
    torch.mul(_closing(i), g, out=by[:, :, 0])
    torch.mul(_closing(f), _before(c0, cells), out=by[:, :, 1])
    torch.addcmul(i, i * g, g, value=-1, out=by[:, :, 2])
    torch.mul(_closing(o), bent, out=by[:, :, 3])
    gradient = torch.empty_like(by)
    states = torch.empty_like(flowed)
    inner = states if weights.projection is None else flowed.new_empty(cells.shape)
    d_h, d_c = ends[0], ends[1].clone()
    walk = list(zip(*(each.unbind() for each in (flowed, states, inner, slope, by, gradient, f)), strict=True))
    for candidate, state, within, bend, by_gate, gate, forget in reversed(walk):
        torch.add(candidate, d_h, out=state)
        if weights.projection is not None:
            torch.mm(state, weights.projection, out=within)
        d_c.addcmul_(within, bend)
        torch.mul(d_c[:, None], by_gate[:, :3], out=gate[:, :3])
        torch.mul(within, by_gate[:, 3], out=gate[:, 3])
        d_c.mul_(forget)
        d_h = _flat(gate) @ weights.h
    gradient = _flat(gradient)
    return Flow(gradient, gradient, (d_h, d_c), before, None if weights.projection is None else (states, o * bent))


def _gru_flow(x: Tensor, output: Tensor, start: States, weights: Weights, flowed: Tensor, ends: States) -> Flow:
    before = _before(start[0], output)
    input_gates = _apart(_entered(x, weights.x, weights.x_bias), 3)
    hidden_gates = _apart(_entered(before, weights.h, weights.h_bias), 3)
    r, z = input_gates[:, :, :2].add_(hidden_gates[:, :, :2]).sigmoid_().unbind(2)
    n = input_gates[:, :, 2].addcmul_(r, hidden_gates[:, :, 2]).tanh_()
    new = torch.addcmul(1 - z, (1 - z).mul_(n), n, value=-1)  # of h by what enters n
    by = torch.empty_like(hidden_gates)
    torch.mul(_closing(r).mul_(hidden_gates[:, :, 2]), new, out=by[:, :, 0])
    torch.mul(_closing(z), before - n, out=by[:, :, 1])
    torch.mul(new, r, out=by[:, :, 2])
    gradient, states = torch.empty_like(by), torch.empty_like(flowed)
    d_h = ends[0]
    walk = list(zip(*(each.unbind() for each in (flowed, states, by, gradient, z)), strict=True))
    for back, state, by_gate, gate, stays in reversed(walk):
        torch.add(back, d_h, out=state)
        torch.mul(state[:, None], by_gate, out=gate)
        d_h = torch.addmm(state * stays, _flat(gate), weights.h)
    entering = gradient.clone()
    torch.mul(states, new, out=entering[:, :, 2])
    return Flow(_flat(entering), _flat(gradient), (d_h,), before)


def _plain_flow(slope: Callable[[Tensor], Tensor]) -> FlowBack:
    def flow(x: Tensor, output: Tensor, start: States, weights: Weights, flowed: Tensor, ends: States) -> Flow:
        del x
        by, gradient, d_h = slope(output), torch.empty_like(flowed), ends[0]
        walk = list(zip(*(each.unbind() for each in (flowed, by, gradient)), strict=True))
        for d_out, by_gate, gate in reversed(walk):
            torch.mul(d_out + d_h, by_gate, out=gate)
            d_h = gate @ weights.h
        return Flow(gradient, gradient, (d_h,), _before(start[0], output))

    return flow


# By the name that torch gives the kind (`mode` of its recurrent layers).
RECURRENCES = {
    "LSTM": Recurrence(_torch_lstm, _lstm_flow),
    "GRU": Recurrence(_with_one_state(torch.gru), _gru_flow),
    "RNN_TANH": Recurrence(_with_one_state(torch.rnn_tanh), _plain_flow(lambda h: 1 - h.square())),
    "RNN_RELU": Recurrence(_with_one_state(torch.rnn_relu), _plain_flow(lambda h: (h > 0).to(h.dtype))),
}

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
    """Whether a call of a layer is one of a recurrent layer of torch as it is, on sequences that are not packed."""
    # The state lies (layers, examples, width); anything else is left to the loop over examples.
    return _is_plain(layer, forward, _KINDS) and bool(layer.batch_first) and _fits(args, kwargs, split, 3, 1)


def serves_cell(
    layer: nn.Module,
    forward: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    split: Sequence[int | None],
) -> bool:
    """The same for a cell, which takes one position at a time."""
    return _is_plain(layer, forward, _CELLS) and _fits(args, kwargs, split, 2, 0)


def _is_plain(layer: nn.Module, forward: Callable[..., Any], kinds: tuple[type[nn.Module], ...]) -> bool:
    """Whether a layer is one of some kinds as torch has it."""
    # A replaced forward may compute something else, and so may a subclass; a weight may be made from others.
    is_own = type(layer) in kinds and getattr(forward, "__func__", None) is type(layer).forward
    if not is_own or next(layer.children(), None) is not None:
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
    """What the layer gives, computed so that in the backward the gradients of its gates are collected."""
    assert isinstance(layer, nn.RNNBase)  # noqa: S101 - for the type checker: see `serves`
    x, start = _called_with(args, kwargs)
    states = _states(start) or _zeros(layer, x)
    layer.check_forward_args(x, states if layer.mode == "LSTM" else states[0], None)  # type: ignore[arg-type] # as torch does
    flowing, ends = x.transpose(0, 1), list[list[Tensor]]()
    directions = ("", "_reverse") if layer.bidirectional else ("",)
    for at in range(layer.num_layers):
        if at and layer.dropout:
            flowing = functional.dropout(flowing, layer.dropout, layer.training)
        outputs = []
        for end in directions:
            names = _names(layer, f"_l{at}{end}")
            weights = [None if name is None else getattr(layer, name).detach() for name in names]
            initial = [state[len(ends)] for state in states]
            sequence = flowing.flip(0) if end else flowing
            output, *last = _Direction.apply(
                layer.mode, names, collect, _anchor(x), sequence, len(initial), *initial, *weights
            )  # type: ignore[no-untyped-call]
            outputs.append(output.flip(0) if end else output)
            ends.append(last)
        flowing = outputs[0] if len(outputs) == 1 else torch.cat(outputs, -1)
    left = tuple(torch.stack(each) for each in zip(*ends, strict=True))
    return flowing.transpose(0, 1), left if layer.mode == "LSTM" else left[0]


def run_cell(layer: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], collect: Collect) -> Any:
    """What a cell gives, as a recurrent layer over one position."""
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
        output = RECURRENCES[mode].kernel(x, start, weights)
        ctx.mode, ctx.names, ctx.collect, ctx.states = mode, names, collect, states
        ctx.save_for_backward(x, output[0], *rest)
        return output

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


def _hand_on(collect: Collect, name: str | None, inputs: Tensor | None, flowed: Tensor) -> None:
    if name is not None:
        collect(name, None if inputs is None else inputs.transpose(0, 1), flowed.transpose(0, 1))
