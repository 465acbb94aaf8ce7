"""Whether a collate function keeps examples apart, seen on made-up ones."""

import copy
from collections.abc import Callable, Mapping
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from inid.dpsgd.trial.fixed_randomness import generator_states, seeded
from inid.errors import GuaranteeError

__all__ = ["check_collate"]

_MADE, _CHANGED, _TIMES = 4, 1, 4
_OTHERS = 2  # examples in the place of one, with numbers beyond those of the others, upwards and downwards
# What whole numbers stay below, one try after another: any, those of a narrow class, and as they are in the sample.
_BELOW = (100, 4, 2, 1)


def check_collate(collate: Callable[[list[Any]], Any], sample: Any) -> None:
    """Refuse a collate function in which one example changes the rows of others, such as mixup.

    Four made-up examples are collated twice, with equal randomness, the second time with another in the place of one:
    the rows of the others must be among those of the first. Their order may change (by length, say). All numbers are
    made up: those of tensors and NumPy arrays, in lists, and by themselves. What fails on made-up examples, returns
    nothing by rows, or draws more or fewer random numbers for another example, says nothing.

    Args:
        collate: The function.
        sample: An example, of which only the form counts.

    Raises:
        GuaranteeError: The rows of others change.
    """
    leaves, form = pytree.tree_flatten(sample)
    for below in _BELOW:
        draw = np.random.default_rng(5)
        made = [[_made_up(leaf, below, at, draw) for leaf in leaves] for at in range(_MADE + _OTHERS)]
        examples = [pytree.tree_unflatten(each, form) for each in made]
        for seed in range(_TIMES):
            changed = examples[:_MADE]
            changed[_CHANGED] = examples[_MADE + seed % _OTHERS]
            if _mixed(collate, examples[:_MADE], changed, seed):
                raise GuaranteeError(
                    "the collate_fn of the data_loader mixes examples (mixup, scaling by the batch), so that one would "
                    "count in the rows of others: let every row depend on its own example alone."
                )


def _mixed(collate: Callable[[list[Any]], Any], examples: list[Any], changed: list[Any], seed: int) -> bool:
    """Whether others' rows change with one of the examples."""
    made = []
    for samples in (examples, changed, examples[:-1]):
        try:
            with seeded(seed):
                collated = collate(copy.deepcopy(samples))
                kept = cast("Any", np.random.get_state())[3:]  # noqa: NPY002 - what collate functions draw from
                made.append((collated, (generator_states(), kept)))
        except Exception:  # noqa: BLE001 - the function's own, on examples that it may never meet
            return False
    (one, drawn), (other, drawn_then), (fewer, _) = made
    return drawn == drawn_then and _moved(one, other, fewer)


def _moved(one: Any, other: Any, fewer: Any) -> bool:
    """Whether rows have changed besides that of the example that was changed.

    Args:
        one: What is made of the examples, or a part of it.
        other: The same with the changed one.
        fewer: The same with one less, which shows where rows lie.
    """
    if type(one) is not type(other) or type(one) is not type(fewer):
        return False
    if isinstance(one, Tensor):
        grown = [(at, size - less) for at, (size, less) in enumerate(zip(one.shape, fewer.shape, strict=False))]
        grown = [(at, own) for at, own in grown if own]
        if one.shape != other.shape or one.ndim != fewer.ndim or len(grown) != 1:
            return False
        ((at, own),) = grown
        rows = [list(each.unflatten(at, (-1, own)).unbind(at)) for each in (one, other)]
        return len(rows[0]) == _MADE and _too_few(*rows)
    if isinstance(one, np.ndarray):
        return one.dtype.kind in "biufc" and _moved(*map(torch.from_numpy, (one, other, fewer)))
    if isinstance(one, Mapping):
        return any(key in other and key in fewer and _moved(one[key], other[key], fewer[key]) for key in one)
    if isinstance(one, (list, tuple)):
        if len(one) == len(other) == len(fewer) + 1 == _MADE:  # one entry per example
            return _too_few(list(one), list(other))
        return len(one) == len(other) == len(fewer) and any(map(_moved, one, other, fewer))
    return hasattr(one, "__dict__") and _moved(vars(one), vars(other), vars(fewer))


def _too_few(one: list[Any], other: list[Any]) -> bool:
    """Whether more than one row of a batch has no equal in another."""
    found, left = 0, list(range(len(other)))
    for row in one:
        equals = [at for at in left if _equal(row, other[at])][:1]
        left = [at for at in left if at not in equals]
        found += len(equals)
    return found < _MADE - 1


def _equal(row: Any, other: Any) -> bool:
    rows, others = pytree.tree_leaves(row), pytree.tree_leaves(other)
    return len(rows) == len(others) and all(
        type(a) is type(b)
        and (torch.equal(a, b) if isinstance(a, Tensor) else bool(np.array_equal(np.asarray(a), np.asarray(b))))
        for a, b in zip(rows, others, strict=True)
    )


def _made_up(leaf: Any, below: int, at: int, draw: np.random.Generator) -> Any:
    """A number or numbers like those of a leaf; whole ones below a limit, single ones such that two examples differ."""
    if isinstance(leaf, Tensor):
        made = torch.from_numpy(_numbers(tuple(leaf.shape), leaf.dtype.is_floating_point, below, at, draw))
        return leaf if below == 1 and not leaf.is_floating_point() else made.to(leaf)
    if isinstance(leaf, (np.ndarray, np.generic)) and leaf.dtype.kind in "biuf":
        real = leaf.dtype.kind == "f"
        made = _numbers(leaf.shape, real, below, at, draw).astype(leaf.dtype)
        return leaf if below == 1 and not real else made if isinstance(leaf, np.ndarray) else leaf.dtype.type(made)
    if isinstance(leaf, (bool, int, float)):
        real = isinstance(leaf, float)
        return leaf if below == 1 and not real else type(leaf)(_numbers((), real, below, at, draw))
    return leaf


def _numbers(shape: tuple[int, ...], real: bool, below: int, at: int, draw: np.random.Generator) -> Any:
    beyond = 0 if at < _MADE else 1 if at == _MADE else -1
    if real:
        return np.asarray(draw.standard_normal(shape) + 8 * beyond)
    made = np.asarray(draw.integers(0, below, shape) if shape else (7 * at) % below)
    if below < _BELOW[0]:
        return made
    return np.asarray(np.zeros_like(made) if beyond < 0 else made + 1 + below * beyond)
