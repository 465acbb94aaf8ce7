"""Adam whose second moment is that of the gradients alone, without the noise that was added to them."""

import math
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from inid import arguments
from inid.errors import ArgumentError

_BETAS = "pass two numbers such as (0.9, 0.999)"


class AdamBC(torch.optim.Optimizer):
    """Adam with a correction of the second moment for the noise (Tang, Shpilevskiy and Lecuyer, 2023).

    Adam divides by the root of the mean of squares of gradients, E[g^2]. A private gradient is g plus noise of a known
    variance Phi, so that its squares are Phi larger: where noise is most of it, all entries are divided by about the
    same number, and Adam becomes gradient descent with momentum. Here Phi is taken off again, which costs nothing:
    Phi depends on no data. What is left is held above some standard deviations of what noise alone makes of it.

    Pass it to `make_private` as any optimizer, which tells it what noise each step had. Without `make_private` it is
    Adam.

    Args:
        params: As torch's optimizers take them.
        lr: The learning rate.
        betas: How slowly the means of gradients and of their squares move.
        floor: The least second moment that is divided by, in standard deviations of the noise's own.
        eps: Added to the root.
        weight_decay: Decoupled, as in AdamW.

    Raises:
        ArgumentError: A setting is out of range.

    >>> layer = nn.Linear(2, 1)
    >>> optimizer = AdamBC(layer.parameters(), lr=0.1)
    >>> layer(torch.ones(1, 2)).sum().backward()
    >>> optimizer.step()
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        *,
        betas: tuple[float, float] = (0.9, 0.999),
        floor: float = 2.0,
        eps: float = 1e-8,
        weight_decay: float = 0.0,
    ) -> None:
        defaults: dict[str, Any] = {
            "lr": arguments.real("lr", lr, least=0, cure="pass a rate such as lr=1e-3"),
            "betas": tuple(arguments.real("betas", beta, least=0, cure=_BETAS) for beta in betas),
            "floor": arguments.real("floor", floor, least=0, cure="pass a few standard deviations, such as floor=2.0"),
            "eps": arguments.real("eps", eps, least=0, cure="pass a small number such as eps=1e-8"),
            "weight_decay": arguments.real("weight_decay", weight_decay, least=0, cure="pass a rate such as 0.01"),
        }
        if not max(defaults["betas"]) < 1:
            raise ArgumentError(f"betas must be below 1, got {max(defaults['betas'])!r}: {_BETAS}.")
        super().__init__(params, defaults)
        self.variances: Mapping[nn.Parameter, float] = {}

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        """One step, with the variances of the noise that are known."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self._move(parameter, parameter.grad, self.variances.get(parameter, 0.0), **group)
        return loss

    def _move(
        self,
        parameter: Tensor,
        gradient: Tensor,
        variance: float,
        *,
        lr: float,
        betas: tuple[float, float],
        floor: float,
        eps: float,
        weight_decay: float,
        **_: Any,
    ) -> None:
        state, (slow, slower) = self.state[parameter], betas
        if not state:
            state |= {"step": 0, "noise": 0.0, "mean": torch.zeros_like(gradient), "square": torch.zeros_like(gradient)}
        state["step"] += 1
        state["noise"] += (1 - slower) * (variance - state["noise"])
        state["mean"].lerp_(gradient, 1 - slow)
        state["square"].mul_(slower).addcmul_(gradient, gradient, value=1 - slower)
        left = slower ** state["step"]
        noise = state["noise"] / (1 - left)
        # The mean of squares of normal noise has this variance, relative to the noise's own squared.
        variance_ratio = 2 * (1 - slower) / (1 + slower) * (1 + left) / (1 - left)
        second = (state["square"] / (1 - left)).sub_(noise).clamp_(min=floor * math.sqrt(variance_ratio) * noise)
        parameter.mul_(1 - lr * weight_decay)
        parameter.addcdiv_(state["mean"], second.sqrt_().add_(eps), value=-lr / (1 - slow ** state["step"]))
