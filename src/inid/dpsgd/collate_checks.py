"""Whether a collate function keeps examples apart, seen on made-up ones."""

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from inid.dpsgd.fixed_randomness import seeded
from inid.dpsgd.model_outputs import is_real
from inid.errors import GuaranteeError

__all__ = ["check_collate"]

_MADE, _CHANGED, _TIMES = 4, 1, 4


def check_collate(collate: Callable[[list[Any]], Any], sample: Any) -> None:
    """Refuse a collate function in which one example changes the rows of others, such as mixup.

    Four made-up examples are collated twice, with equal randomness, the second time with another in the place of one:
    the rows of the others must be among those of the first. Their order may change (by length, say). What fails on
    made-up examples, or returns no numbers by rows, says nothing.

    Args:
        collate: The function.
        sample: An example, of which only the form counts.

    Raises:
        GuaranteeError: The rows of others change.
    """
    leaves, form = pytree.tree_flatten(sample)
    if not any(is_real(leaf) for leaf in leaves):
        return
    draw = torch.Generator().manual_seed(5)
    examples = [pytree.tree_unflatten([_made_up(leaf, draw) for leaf in leaves], form) for _ in range(_MADE + 1)]
    changed = [examples[_MADE] if at == _CHANGED else examples[at] for at in range(_MADE)]
    for seed in range(_TIMES):
        try:
            one, other = (_collated(collate, each, seed) for each in (examples[:_MADE], changed))
        except Exception:  # noqa: BLE001 - the function's own, on examples that it may never meet
            return
        if len(one) == len(other) and any(_moved(*pair) for pair in zip(one, other, strict=True)):
            raise GuaranteeError(
                "the collate_fn of the data_loader mixes examples (mixup, scaling by the batch), so that one would "
                "count in the rows of others: let every row depend on its own example alone."
            )


def _collated(collate: Callable[[list[Any]], Any], samples: list[Any], seed: int) -> list[Any]:
    """The leaves of a batch, made with random numbers of this seed."""
    with seeded(seed):
        return pytree.tree_leaves(collate(copy.deepcopy(samples)))


def _moved(one: object, other: object) -> bool:
    """Whether rows have changed besides that of the example that was changed."""
    if not (isinstance(one, Tensor) and isinstance(other, Tensor) and is_real(one)):
        return False
    if one.shape != other.shape or one.ndim == 0 or len(one) != _MADE:
        return False
    return sum(any(torch.equal(row, each) for each in other) for row in one) < _MADE - 1


def _made_up(leaf: Any, draw: torch.Generator) -> Any:
    return torch.randn(leaf.shape, generator=draw).to(leaf) if is_real(leaf) else leaf
