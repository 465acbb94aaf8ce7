"""Three made-up examples of the form of a batch."""

from functools import lru_cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from inid.errors import GuaranteeError

__all__ = ["EXAMPLES", "MadeUp"]

EXAMPLES = 3
_SEEDS = 1000  # between those of one tensor and the next
_REMEMBERED = 2**14  # numbers of an example that are not drawn again at every look


class MadeUp:
    """Three made-up examples of the form of a batch.

    Args:
        args: What the model was called with.
        kwargs: The same by name.
        rows: How many rows its batch has.
        module: The model, whose smallest embedding says which numbers are valid in all of them.
        given: The user's own three examples, to be used instead; or None.

    Attributes:
        rows: How many rows its batch has.
    """

    def __init__(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], rows: int, module: nn.Module, given: object
    ) -> None:
        self._leaves, self._form = pytree.tree_flatten((args, kwargs))
        self._split = [isinstance(leaf, Tensor) and leaf.ndim > 0 and leaf.shape[0] == rows for leaf in self._leaves]
        self._module, self._given, self.rows = module, given, rows

    @property
    def names_kinds(self) -> bool:
        """Whether there is one whole number per example: its kind, which it may share with others."""
        return any(own and _is_kind(leaf) for leaf, own in zip(self._leaves, self._split, strict=True))

    @property
    def may_grow(self) -> bool:
        """Whether they can be negated and made larger: not where floating-point numbers say what to look up."""
        kinds = [leaf.is_floating_point() for leaf, own in zip(self._leaves, self._split, strict=True) if own]
        tables = any(isinstance(layer, (nn.Embedding, nn.EmbeddingBag)) for layer in self._module.modules())
        return any(kinds) and not (tables and all(kinds))

    def signature(self, *, training: bool) -> object:
        """What calls may depend on besides the values: shapes without the number of rows, types, plain settings."""
        known = tuple(
            (leaf.dtype, tuple(leaf.shape[1:] if own else leaf.shape))
            if isinstance(leaf, Tensor)
            else leaf
            if isinstance(leaf, (bool, int, float, str, type(None)))
            else type(leaf)
            for leaf, own in zip(self._leaves, self._split, strict=True)
        )
        return training, self._form, known

    def batches(self, most: int | None = None, *, alike: bool = False) -> list[tuple[tuple[Any, ...], dict[str, Any]]]:
        """The three together, then each alone.

        Args:
            most: What whole numbers stay below; by default the smallest embedding.
            alike: Whether two of the three are of one kind. (Otherwise all differ, by which their order is seen.)
        """
        whole = self._whole(most, alike=alike)
        rows = [slice(None), *(slice(at, at + 1) for at in range(EXAMPLES))]
        return [
            pytree.tree_unflatten(
                [leaf[which].clone() if own else leaf for leaf, own in zip(whole, self._split, strict=True)], self._form
            )
            for which in rows
        ]

    def others(self, most: int | None = None, *, times: float = 1.0) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Three other examples together.

        Args:
            most: What whole numbers stay below; by default the smallest embedding.
            times: How many times as large they are; whole numbers, which may be tokens, stay as they are.
        """
        whole = self._whole(most, alike=True, seed=6)
        if self._given is not None:
            whole = [leaf[[0, 0, 1]] if own else leaf for leaf, own in zip(whole, self._split, strict=True)]
        made: tuple[tuple[Any, ...], dict[str, Any]] = pytree.tree_unflatten(
            [
                leaf.clone() * (times if leaf.is_floating_point() or leaf.is_complex() else 1) if own else leaf
                for leaf, own in zip(whole, self._split, strict=True)
            ],
            self._form,
        )
        return made

    def among_many(self, three: tuple[tuple[Any, ...], dict[str, Any]]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Three examples behind copies of the last of them: as many rows as the batch at hand has."""
        leaves = pytree.tree_leaves(three)
        copies = self.rows - EXAMPLES
        joined = [
            torch.cat([leaf[-1:].expand(copies, *leaf.shape[1:]), leaf]) if own else leaf
            for leaf, own in zip(leaves, self._split, strict=True)
        ]
        made: tuple[tuple[Any, ...], dict[str, Any]] = pytree.tree_unflatten(joined, self._form)
        return made

    def _whole(self, most: int | None, *, alike: bool, seed: int = 5) -> list[Any]:
        if self._given is not None:
            tensors = [leaf for leaf in pytree.tree_leaves(self._given) if isinstance(leaf, Tensor)]
            if len(tensors) != sum(self._split) or any(leaf.ndim == 0 or len(leaf) < EXAMPLES for leaf in tensors):
                raise GuaranteeError(
                    f"example must hold {sum(self._split)} tensors of at least {EXAMPLES} rows, as the model is called "
                    "with: pass made-up or public examples in that form."
                )
            given = iter(tensors)
            return [
                next(given)[:EXAMPLES].to(leaf) if own else leaf
                for leaf, own in zip(self._leaves, self._split, strict=True)
            ]
        heights = [layer.num_embeddings for layer in self._module.modules() if isinstance(layer, nn.Embedding)]
        below = most or max(2, min([height for height in heights if height > 1], default=EXAMPLES))
        return [
            _made_up(leaf, below, seed + _SEEDS * at, alike=alike) if own else leaf
            for at, (leaf, own) in enumerate(zip(self._leaves, self._split, strict=True))
        ]


def _is_kind(leaf: object) -> bool:
    whole = isinstance(leaf, Tensor) and not (leaf.is_floating_point() or leaf.is_complex())
    return isinstance(leaf, Tensor) and whole and leaf.shape[1:].numel() == 1


def _made_up(leaf: Tensor, below: int, seed: int, *, alike: bool) -> Tensor:
    """Three rows like those of a tensor, always the same; whole numbers stay below a limit."""
    shape = (EXAMPLES, *leaf.shape[1:])
    if leaf.is_floating_point() or leaf.is_complex():
        kind = torch.complex128 if leaf.is_complex() else torch.float64
        draw = torch.Generator().manual_seed(seed)
        return torch.randn(shape, generator=draw, dtype=kind, device="cpu").to(leaf)
    if alike and _is_kind(leaf):
        return torch.tensor([0, 0, 1], device=leaf.device).view(shape).to(leaf)
    if leaf.ndim == 1:
        return (torch.arange(EXAMPLES, device=leaf.device) % below).to(leaf)
    find = _whole_numbers if leaf.shape[1:].numel() <= _REMEMBERED else _whole_numbers.__wrapped__
    return find(shape, 2 if leaf.dtype == torch.bool else below, seed).to(leaf)


@lru_cache(maxsize=16)
def _whole_numbers(shape: tuple[int, ...], below: int, seed: int) -> Tensor:
    """Numbers that may be tokens or a mask: every example has some that are 0 and some that are not; no two agree."""
    draw = torch.Generator().manual_seed(seed)
    for _ in range(100):
        made = torch.randint(0, below, shape, generator=draw, device="cpu")
        flat = made.flatten(1).bool()
        apart = len(torch.unique(made.flatten(1), dim=0)) == EXAMPLES
        if apart and bool(flat.any(1).all()) and not bool(flat.all(1).any()):
            break
    return made
