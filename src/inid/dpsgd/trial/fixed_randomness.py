"""Runs of a model in which nothing random depends on the number of examples."""

import ctypes
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from inid.dpsgd.parallel.sharded_parameters import is_sharded, put_away

__all__ = ["Fixed", "generator_states", "no_randomness", "seeded", "sow", "unspent"]


@contextmanager
def no_randomness(module: nn.Module) -> Iterator["Fixed"]:
    """Let no layer be silent by having only zeros; gives what lets a run draw nothing by the number of examples."""
    trained = [p.detach() for p in module.parameters() if p.requires_grad and p.numel() > 1]
    # Of a parameter that is sharded each process looks at its own piece, which the others get from it.
    pieces = [cast("Any", p).to_local() if is_sharded(p) else p for p in trained]
    silent = [p for p in pieces if p.numel() and not bool(p.any())]
    for parameter in silent:  # the same wherever the same piece is held, and none of the user's randomness
        parameter.normal_(std=0.02, generator=torch.Generator(parameter.device).manual_seed(parameter.numel()))
    try:
        yield Fixed()
    finally:
        for parameter in silent:
            parameter.zero_()
        if any(map(is_sharded, trained)):
            put_away(module)


@contextmanager
def seeded(seed: int, gpus: Sequence[torch.device] = ()) -> Iterator[list[bool]]:
    """Let torch, NumPy and Python draw the same numbers each time, and spend none of the user's.

    Gives a list to which is added, in the end, whether anything was drawn on the host.
    """
    drawn: list[bool] = []
    with unspent(gpus):
        sow(seed)
        start = generator_states()
        yield drawn
        drawn.append(generator_states() != start)


@contextmanager
def unspent(gpus: Sequence[torch.device] = ()) -> Iterator[None]:
    """Leave the generators of torch, NumPy and Python as they are, whatever is drawn."""
    before = random.getstate(), np.random.get_state()  # noqa: NPY002 - what models and collate functions draw from
    try:
        with torch.random.fork_rng(gpus):
            yield
    finally:
        random.setstate(before[0])
        np.random.set_state(before[1])  # noqa: NPY002 - as above


def sow(seed: int) -> None:
    """Let the three generators of the host begin anew."""
    torch.default_generator.manual_seed(seed)
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002 - as above


def generator_states() -> tuple[object, ...]:
    """Where the three generators stand, as something that can be compared: not what NumPy's keeps of a draw of two.

    A normal number of `np.random` may be the second of two that were drawn at once, which moves nothing.
    """
    return random.getstate(), _numpy_state(), torch.random.get_rng_state().numpy().tobytes()


def _numpy_state() -> object:
    """Where NumPy's generator stands; of its usual kind by its memory, which `get_state` copies number by number."""
    source = cast("Any", np.random).get_bit_generator()
    if type(source) is np.random.MT19937:  # 624 words and a place among them, which draws move
        return ctypes.string_at(source.ctypes.state_address, 4 * 625)
    return repr(source.state)


class Fixed(TorchFunctionMode):
    """Replaces random tensors by constants, so that they are the same for one and for three examples.

    Single random numbers (which layer to skip) stay random: they do not depend on the number of examples.

    Attributes:
        met: Whether there was a random tensor.
        low: Whether uniform numbers are almost 0 instead of 1, and whole ones 0.
    """

    def __init__(self) -> None:
        super().__init__()
        self.met = self.low = False

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        name = getattr(func, "__name__", "")
        if name not in _REPLACED:  # most calls only read an attribute
            return func(*args, **kwargs)
        if name in _DROPOUT:
            return args[0] if args else kwargs["input"]
        if name in _ATTENTION:
            at, args = _ATTENTION[name], list(args)
            if len(args) > at:
                args[at] = 0.0
            elif "dropout_p" in kwargs:
                kwargs["dropout_p"] = 0.0
        elif name in _RECURRENT:
            args = [0.0 if isinstance(arg, float) else arg for arg in args]
        elif name in _FRACTIONAL:
            kwargs["_random_samples"] = _middle(args[0] if args else kwargs["input"], _FRACTIONAL[name])
        elif name in _INSTEAD:
            return _INSTEAD[name](*args, **kwargs)
        made = func(*args, **kwargs)
        if name in _RANDOM and isinstance(made, Tensor) and made.ndim:
            self.met = True
            with torch.no_grad():
                return made.fill_(_LOW.get(name, 1) if self.low else 1)
        return made


def _middle(pooled: Tensor, dimensions: int) -> Tensor:
    """What `functional.fractional_max_pool2d` and `3d` draw, where no mode sees it: here one number for all."""
    examples = pooled.shape[0] if pooled.ndim == dimensions + 2 else 1
    return pooled.new_full((examples, pooled.shape[-dimensions - 1], dimensions), 0.5)


def _without_gumbel_noise(
    logits: Tensor,
    tau: float = 1,
    hard: bool = False,
    eps: float = 1e-10,  # noqa: ARG001 - as torch has it
    dim: int = -1,
) -> Tensor:
    """`functional.gumbel_softmax`, which draws where no mode sees it, with equal noise for all entries: with none."""
    soft = (logits / tau).softmax(dim)
    if not hard:
        return soft
    chosen = torch.zeros_like(logits).scatter_(dim, soft.argmax(dim, keepdim=True), 1.0)
    return chosen - soft.detach() + soft


# Random functions in whose place another gives what they do on average, or, for those that draw inside, at one draw:
# gradients flow through it as they do through a draw.
_INSTEAD: dict[str, Callable[..., Any]] = {
    "rrelu": lambda values, *_, **__: functional.leaky_relu(values, 0.25),
    "rrelu_": lambda values, *_, **__: functional.leaky_relu(values, 0.25),
    "gumbel_softmax": _without_gumbel_noise,
    "randperm": lambda size, *_, device=None, **__: torch.arange(size, device=device).flip(0),
    "native_dropout": lambda values, *_, **__: (values, torch.ones_like(values, dtype=torch.bool)),
    "_standard_gamma": lambda shape, *_, **__: +shape,
    "_sample_dirichlet": lambda weights, *_, **__: weights / weights.sum(-1, keepdim=True),
}
_DROPOUT = {
    f"{kind}{end}"
    for kind in ("dropout", "alpha_dropout", "feature_dropout", "feature_alpha_dropout")
    for end in ("", "_")
}
_DROPOUT |= {"dropout1d", "dropout2d", "dropout3d"}
_ATTENTION = {"scaled_dot_product_attention": 4, "multi_head_attention_forward": 10}
_RECURRENT = {"lstm", "gru", "rnn_tanh", "rnn_relu"}
_FRACTIONAL = {f"fractional_max_pool{n}d{end}": n for n in (2, 3) for end in ("", "_with_indices")}
_RANDOM = {"rand", "randn", "randint", "rand_like", "randn_like", "randint_like", "bernoulli", "bernoulli_", "normal"}
_RANDOM |= {"random_", "binomial"}
_RANDOM |= {"normal_", "uniform_", "exponential_", "poisson", "multinomial", "cauchy_", "log_normal_", "geometric_"}
_LOW = {"rand": 2.0**-20, "rand_like": 2.0**-20, "uniform_": 2.0**-20, "randint": 0, "randint_like": 0, "random_": 0}
_REPLACED = {*_DROPOUT, *_ATTENTION, *_RECURRENT, *_FRACTIONAL, *_INSTEAD, *_RANDOM}
