"""Calls that were written for Opacus: what its arguments are called here, one sentence each."""

import functools
from collections.abc import Callable
from typing import Any, TypeVar

from inid.errors import ArgumentError

__all__ = ["check_kind", "explained"]

_Made = TypeVar("_Made", bound=Callable[..., Any])

_INSTEAD = {
    "poisson_sampling": "batches are always Poisson samples, which the accounting needs: leave it out",
    "grad_sample_mode": "there is no mode to choose, long layers are never written down: leave it out",
    "criterion": "the loss stays in your loop: call private.backward(criterion, outputs, targets) there",
    "batch_first": "examples come first in every layer: make recurrent layers with batch_first=True, and leave it out",
    "noise_generator": "noise comes from the operating system's randomness: leave it out",
    "secure_mode": 'exact sums and noise are another argument here: pass noise="exact"',
    "total_steps": "the length of a run is another argument here: pass steps=",
    "wrap_model": "the model stays the same object, with a wrapped forward: leave it out",
    "normalize_clipping": "gradients are clipped and not normalised: leave it out",
}

_CLIPPING = {
    "flat": 'one norm for all parameters is called global here: pass clipping="global"',
    "adaptive": 'thresholds that adapt are another argument here: pass thresholds="adaptive"',
}


def check_kind(kind: object) -> None:
    """Refuse Opacus's words for kinds of clipping, with those of this library.

    >>> check_kind("flat")
    Traceback (most recent call last):
    inid.errors.ArgumentError: clipping="flat" is a word of Opacus; one norm for all parameters is called global here:
    pass clipping="global".
    """
    if isinstance(kind, str) and kind in _CLIPPING:
        raise ArgumentError(f'clipping="{kind}" is a word of Opacus; {_CLIPPING[kind]}.')


def explained(function: _Made) -> _Made:
    """Let a function by keywords refuse positional arguments, and those of Opacus, with the cure.

    >>> @explained
    ... def make(*, module): ...
    >>> make(module=1, poisson_sampling=True)
    Traceback (most recent call last):
    inid.errors.ArgumentError: poisson_sampling is an argument of Opacus; here batches are always Poisson samples, which
    the accounting needs: leave it out.
    """

    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        if args:
            raise ArgumentError(
                f"{function.__name__} takes its arguments by name, got {len(args)} without: pass module=, optimizer= "
                "and data_loader=."
            )
        for name in kwargs:
            if name in _INSTEAD:
                raise ArgumentError(f"{name} is an argument of Opacus; here {_INSTEAD[name]}.")
        return function(**kwargs)

    return called  # type: ignore[return-value]
