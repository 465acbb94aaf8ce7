"""Other tensors in the place of a module's parameters, for a while."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn

__all__ = ["in_place"]


@contextmanager
def in_place(module: nn.Module, tensors: Mapping[str, Tensor]) -> Iterator[None]:
    """Let a module find tensors where its parameters are.

    >>> import torch
    >>> layer = nn.Linear(2, 1, bias=False)
    >>> with in_place(layer, {"weight": torch.ones(1, 2)}):
    ...     layer(torch.ones(2)).item()
    2.0
    >>> isinstance(layer.weight, nn.Parameter)
    True
    """
    held: dict[str, Any] = module._parameters  # noqa: SLF001 - as torch.func.functional_call does
    before = {name: held[name] for name in tensors}
    try:
        held.update(tensors)
        yield
    finally:
        held.update(before)
