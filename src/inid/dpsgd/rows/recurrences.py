"""The gradients of a recurrence's gates, at all positions, from what torch's own kernel gives back.

**How.** The kernel (`torch.lstm`, `gru`, `rnn_tanh`, `rnn_relu`) gives the state h_t after every position, and keeps
the gates to itself. With all h_t known, what enters the gates is two products over all positions at once. So the gates,
and the factors that turn the gradient of a state into those of its gates, are known before anything flows back. The
walk from the last position to the first is then one product and a few multiplications per position. With the gradients
of the gates, a recurrent layer is two linear ones over positions: x -> gates and h -> gates.

Tensors have positions first and examples second here, as torch's kernels work inside. No operation mixes examples:
products take each example's line by itself, and all else is entry by entry.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

__all__ = ["RECURRENCES", "Flow", "Recurrence", "Weights"]


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
    """What flows back in a recurrence.

    Attributes:
        x: To the gates, where inputs enter them.
        h: To the gates, where the state enters them.
        start: To the state before the first position.
        before: The state before every position.
        projected: To the projected state, and the state before the projection; None without one.
    """

    x: Tensor
    h: Tensor
    start: tuple[Tensor, ...]
    before: Tensor
    projected: tuple[Tensor, Tensor] | None = None


States = tuple[Tensor, ...]
Kernel = Callable[[Tensor, States, Weights], States]
FlowBack = Callable[[Tensor, Tensor, States, Weights, Tensor, States], Flow]


class Recurrence(NamedTuple):
    """A kind of recurrent layer.

    Attributes:
        kernel: Runs one layer in one direction: inputs, start, weights -> outputs, end.
        flow: Gives what flows back: inputs, outputs, start, weights, gradients of the outputs and of the end.
    """

    kernel: Kernel
    flow: FlowBack


def _entered(values: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """What enters the gates, at all positions in one product."""
    flat = values.flatten(0, 1)
    made = flat @ weight.T if bias is None else torch.addmm(bias, flat, weight.T)
    return made.view(*values.shape[:2], -1)


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
    kept, cell = f.unbind(), c0
    for own, forget in zip(cells.unbind(), kept, strict=True):
        cell = own.addcmul_(forget, cell)
    bent = cells.tanh()
    slope = torch.addcmul(o, o * bent, bent, value=-1)  # of h by c
    # By what the gates' gradients follow from those of c, and of h for the last.
    by = torch.empty_like(gates)
    torch.mul(_closing(i), g, out=by[:, :, 0])
    torch.mul(_closing(f), _before(c0, cells), out=by[:, :, 1])
    torch.addcmul(i, i * g, g, value=-1, out=by[:, :, 2])
    torch.mul(_closing(o), bent, out=by[:, :, 3])
    made = torch.empty_like(by)
    states = torch.empty_like(flowed)
    inner = states if weights.projection is None else flowed.new_empty(cells.shape)
    d_h, d_c = ends[0], ends[1].clone()
    walk = list(zip(*(each.unbind() for each in (flowed, states, inner, slope, by, made, f)), strict=True))
    for own, state, within, bend, by_gate, gate, forget in reversed(walk):
        torch.add(own, d_h, out=state)
        if weights.projection is not None:
            torch.mm(state, weights.projection, out=within)
        d_c.addcmul_(within, bend)
        torch.mul(d_c[:, None], by_gate[:, :3], out=gate[:, :3])
        torch.mul(within, by_gate[:, 3], out=gate[:, 3])
        d_c.mul_(forget)
        d_h = _flat(gate) @ weights.h
    made = _flat(made)
    return Flow(made, made, (d_h, d_c), before, None if weights.projection is None else (states, o * bent))


def _gru_flow(x: Tensor, output: Tensor, start: States, weights: Weights, flowed: Tensor, ends: States) -> Flow:
    before = _before(start[0], output)
    met = _apart(_entered(x, weights.x, weights.x_bias), 3)
    own = _apart(_entered(before, weights.h, weights.h_bias), 3)
    r, z = met[:, :, :2].add_(own[:, :, :2]).sigmoid_().unbind(2)
    n = met[:, :, 2].addcmul_(r, own[:, :, 2]).tanh_()
    new = torch.addcmul(1 - z, (1 - z).mul_(n), n, value=-1)  # of h by what enters n
    by = torch.empty_like(own)
    torch.mul(_closing(r).mul_(own[:, :, 2]), new, out=by[:, :, 0])
    torch.mul(_closing(z), before - n, out=by[:, :, 1])
    torch.mul(new, r, out=by[:, :, 2])
    made, states = torch.empty_like(by), torch.empty_like(flowed)
    d_h = ends[0]
    walk = list(zip(*(each.unbind() for each in (flowed, states, by, made, z)), strict=True))
    for back, state, by_gate, gate, stays in reversed(walk):
        torch.add(back, d_h, out=state)
        torch.mul(state[:, None], by_gate, out=gate)
        d_h = torch.addmm(state * stays, _flat(gate), weights.h)
    entering = made.clone()
    torch.mul(states, new, out=entering[:, :, 2])
    return Flow(_flat(entering), _flat(made), (d_h,), before)


def _plain_flow(slope: Callable[[Tensor], Tensor]) -> FlowBack:
    def flow(x: Tensor, output: Tensor, start: States, weights: Weights, flowed: Tensor, ends: States) -> Flow:
        del x
        by, made, d_h = slope(output), torch.empty_like(flowed), ends[0]
        walk = list(zip(*(each.unbind() for each in (flowed, by, made)), strict=True))
        for own, by_gate, gate in reversed(walk):
            torch.mul(own + d_h, by_gate, out=gate)
            d_h = gate @ weights.h
        return Flow(made, made, (d_h,), _before(start[0], output))

    return flow


# By the name that torch gives the kind (`mode` of its recurrent layers).
RECURRENCES = {
    "LSTM": Recurrence(_torch_lstm, _lstm_flow),
    "GRU": Recurrence(_with_one_state(torch.gru), _gru_flow),
    "RNN_TANH": Recurrence(_with_one_state(torch.rnn_tanh), _plain_flow(lambda h: 1 - h.square())),
    "RNN_RELU": Recurrence(_with_one_state(torch.rnn_relu), _plain_flow(lambda h: (h > 0).to(h.dtype))),
}
