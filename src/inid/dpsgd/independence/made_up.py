"""Made-up batches of the form of one at hand: a base that holds nothing special, and others that differ from it.

**What is changed (B3).** In the base all rows hold values in [0, 1/2), tokens without padding, full masks and labels of
every kind. In every other batch one kind of thing is planted in some examples only, while the others, the *pivots*,
stay to the bit as they are in the base: another scale, negative values, NaN, infinities, padding at the end in
different numbers, masks with gaps, one token or one label everywhere. Whole numbers stay within the range of the tables
that look them up. One base is the reverse: all rows are special, and one that is no pivot becomes ordinary.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from inid.errors import GuaranteeError

GIVEN = 3  # examples that a user passes, at least
_SEEDS = 1000  # between those of one tensor and the next
_NARROW = (torch.float16,)
Batch = tuple[tuple[Any, ...], dict[str, Any]]


@dataclass
class Role:
    """What whole numbers of an argument stand for."""

    mask: bool
    below: int = 2
    padding: set[int] = field(default_factory=lambda: {0})


class MadeUp:
    """Made-up batches of the form of a batch."""

    def __init__(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], rows: int, module: nn.Module, given: object
    ) -> None:
        paths, self._form = pytree.tree_flatten_with_path((args, kwargs))
        self._leaves = [leaf for _, leaf in paths]
        self._split = [isinstance(leaf, Tensor) and leaf.ndim > 0 and leaf.shape[0] == rows for leaf in self._leaves]
        self._given, self.rows = given, rows
        self._roles = [Role("mask" in str(path).lower() or _kind_of(leaf) is torch.bool) for path, leaf in paths]
        token = getattr(getattr(module, "config", None), "pad_token_id", None)
        self._padding = {0, token} if isinstance(token, int) else {0}

    @property
    def kinds(self) -> list[str]:
        """What can be planted in these batches."""
        rows = [leaf for leaf, is_split in zip(self._leaves, self._split, strict=True) if is_split]
        real = any(leaf.is_floating_point() or leaf.is_complex() for leaf in rows)
        integral = [leaf for leaf in rows if not (leaf.is_floating_point() or leaf.is_complex())]
        wide = any(leaf.shape[1:].numel() > 1 for leaf in integral)
        masks = any(role.mask for role, is_split in zip(self._roles, self._split, strict=True) if is_split)
        if self._given is not None:  # whole numbers that are valid are known to the user alone
            return ["other values", *(_REAL if real else ())]
        return [
            *(_REAL if real else ()),
            *(("padding", "one token") if wide else ()),
            *(("gaps",) if masks else ()),
            *(("one label",) if integral else ()),
        ]

    def learn_ranges(self, module: nn.Module, called: Callable[[Batch], object]) -> None:
        """Let whole numbers go as far as the tables allow that they are looked up in, found by calling the model."""
        batch = self.batch(2, 0)
        places = {
            leaf.data_ptr(): role
            for leaf, role in zip(pytree.tree_leaves(batch), self._roles, strict=False)
            if isinstance(leaf, Tensor) and not (leaf.is_floating_point() or leaf.is_complex())
        }

        def look(table: nn.Embedding, arguments: tuple[Any, ...]) -> None:
            role = places.get(arguments[0].data_ptr()) if arguments and isinstance(arguments[0], Tensor) else None
            if role is not None and not role.mask:
                role.below = table.num_embeddings if role.below == 2 else min(role.below, table.num_embeddings)
                role.padding = self._padding | ({table.padding_idx} if table.padding_idx is not None else set())

        tables = [part for part in module.modules() if isinstance(part, nn.Embedding)]
        handles = [table.register_forward_pre_hook(look) for table in tables] if self._given is None else []
        try:
            if handles:
                called(batch)
        finally:
            for handle in handles:
                handle.remove()

    def batch(
        self, rows: int, seed: int, kind: str = "", *, base: Batch | None = None, others: Sequence[int] = ()
    ) -> Batch:
        """A batch of so many rows; of a base the rows besides `others` stay as they are."""
        if self._given is not None:
            leaves = self._of_given(rows, seed, kind)
        else:
            leaves = [
                _made_up(leaf, role, rows, _SEEDS * seed + at, kind) if is_split else leaf
                for at, (leaf, role, is_split) in enumerate(zip(self._leaves, self._roles, self._split, strict=True))
            ]
        if base is not None:
            which = torch.tensor(list(others), dtype=torch.long, device="cpu")
            stays = pytree.tree_leaves(base)
            pivot = max(set(range(rows)) - set(others), default=None)
            if kind in _COPIED and pivot is not None:  # all go the same way, and whatever has room for some is full
                draw = torch.Generator().manual_seed(seed)
                leaves = [
                    _planted(stay[[pivot] * rows], draw, kind) if is_split and stay.is_floating_point() else new
                    for stay, new, is_split in zip(stays, leaves, self._split, strict=True)
                ]
            leaves = [
                _with_rows(stay, new, which) if is_split else new
                for stay, new, is_split in zip(stays, leaves, self._split, strict=True)
            ]
        made_batch: Batch = pytree.tree_unflatten(leaves, self._form)
        return made_batch

    def _of_given(self, rows: int, seed: int, kind: str) -> list[Any]:
        tensors = [leaf for leaf in pytree.tree_leaves(self._given) if isinstance(leaf, Tensor)]
        if len(tensors) != sum(self._split) or any(leaf.ndim == 0 or len(leaf) < GIVEN for leaf in tensors):
            raise GuaranteeError(
                f"example must hold {sum(self._split)} tensors of at least {GIVEN} rows, as the model is called "
                "with: pass made-up or public examples in that form."
            )
        given = iter(tensors)
        places = torch.arange(rows, device="cpu") + seed
        draw = torch.Generator().manual_seed(seed)
        return [
            _planted((each := next(given))[(places % len(each)).to(each.device)].to(leaf), draw, kind)
            if is_split
            else leaf
            for leaf, is_split in zip(self._leaves, self._split, strict=True)
        ]


def _kind_of(leaf: object) -> torch.dtype | None:
    return leaf.dtype if isinstance(leaf, Tensor) else None


def _with_rows(stay: Tensor, new: Tensor, which: Tensor) -> Tensor:
    mixed = stay.clone()
    mixed[which.to(mixed.device)] = new[which.to(new.device)]
    return mixed


_COPIED = ("negative values", "times 2^10")  # kinds of which others are copies of a pivot, times a number
_REAL = ("times 2^-10", "times 2^20", "negative values", "NaN", "infinities", "times 2^10")


def _made_up(leaf: Tensor, role: Role, rows: int, seed: int, kind: str) -> Tensor:
    shape, draw = (rows, *leaf.shape[1:]), torch.Generator().manual_seed(seed)
    if leaf.is_floating_point() or leaf.is_complex():
        return _real(leaf, shape, draw, kind)
    length = leaf.shape[1:].numel()
    if role.mask:
        ones = torch.ones(shape, dtype=torch.long, device="cpu")
        if kind == "gaps":
            ones = torch.randint(0, 2, shape, generator=draw, device="cpu")
        elif kind in {"padding", "reverse"} and leaf.ndim > 1:
            ones = ones.masked_fill(_ends(shape, draw), 0)
        return ones.to(leaf)
    if length == 1:  # a label for each
        kinds = torch.arange(rows, device="cpu") + seed
        return ((kinds * 0 if kind in {"one label", "reverse"} else kinds) % max(role.below, 1)).view(shape).to(leaf)
    tensor = torch.randint(0, role.below, shape, generator=draw, device="cpu")
    usual = next((token for token in range(role.below) if token not in role.padding), 0)
    for token in role.padding:
        tensor[tensor == token] = usual
    if kind == "one token":
        tensor = tensor.flatten(1)[:, :1].expand(rows, length).reshape(shape)
    elif kind in {"padding", "reverse"}:
        tensor = tensor.masked_fill(_ends(shape, draw), min(max(role.padding), role.below - 1))
    return tensor.to(leaf)


def _ends(shape: tuple[int, ...], draw: torch.Generator) -> Tensor:
    """Where rows are padded at their end: from one to all but one of the positions, in different numbers."""
    positions = shape[1]
    lengths = torch.randint(1, max(positions, 2), (shape[0],), generator=draw, device="cpu")
    places = torch.arange(positions, device="cpu") >= lengths[:, None]
    return places.view(shape[0], positions, *[1] * (len(shape) - 2)).expand(shape)


def _real(leaf: Tensor, shape: tuple[int, ...], draw: torch.Generator, kind: str) -> Tensor:
    tensor = torch.rand(shape, generator=draw, dtype=torch.float64, device="cpu") / 2
    if kind in {"negative values", "reverse"}:
        tensor += 2.0**-4
    if leaf.is_complex():
        tensor = torch.complex(tensor, tensor.flip(-1))
    return _planted(tensor, draw, kind, leaf.dtype).to(leaf)


def _planted(tensor: Tensor, draw: torch.Generator, kind: str, dtype: torch.dtype | None = None) -> Tensor:
    """Real numbers of some kind in the place of others."""
    if not (tensor.is_floating_point() or tensor.is_complex()):
        return tensor
    if kind in {"NaN", "infinities", "reverse, with gaps"}:
        planted, signs = (
            torch.rand(tensor.shape, generator=draw, device="cpu").to(tensor.device) < 0.5 for _ in range(2)
        )
        endless = torch.where(signs, -torch.inf, torch.inf).to(tensor.dtype)
        return torch.where(planted, endless if kind == "infinities" else torch.full_like(tensor, torch.nan), tensor)
    much = 2.0**10 if (dtype or tensor.dtype) in _NARROW else 2.0**20
    factors = {"times 2^-10": 2.0**-10, "times 2^10": 2.0**10, "times 2^20": much}
    return tensor * (factors | {"negative values": -(2.0**4), "reverse": -(2.0**10)}).get(kind, 1.0)
