"""Collated batches: rows brought to their places, and whether a collate function keeps examples apart."""

import copy
from collections.abc import Callable, Mapping, MutableMapping
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils import _pytree as pytree

from inid.dpsgd.seeding import generator_states, seeded
from inid.errors import ArgumentError, GuaranteeError


class Placing:
    """Takes rows out of what a collate function makes, each as often as asked: drawn examples and padding.

    That comes after collating. A collate function may bring the examples into another order (by length, say): random
    places, taken by rows in whatever order, are random for the examples too (a uniform injection without one of its
    entries, whichever it is, is one of the rest); copies for padding never meet the function. Where rows lie is seen
    from what it makes of two and of three copies of the dataset's first example. What has other sizes than that, for as
    many examples as there are, is refused: rows of examples strung together, each of its own length, could not be told
    apart, and one example would reach into the rows of others.
    """

    def __init__(self, collate: Any, dataset: Any, *, pinned: bool = False) -> None:
        self._collate, self._dataset, self._pinned = collate, dataset, pinned
        self._forms: list[Any] = []

    def __call__(self, batch: Any, rows: NDArray[np.int64], examples: int) -> Any:
        """A batch of these rows of a batch of so many examples."""
        if not self._forms:
            sample = self._dataset[0]  # copied, since some collate functions take their examples apart
            self._forms = [self._collate([copy.deepcopy(sample) for _ in range(number)]) for number in (2, 3)]
        two, three = self._forms
        return self._taken(batch, two, three, torch.from_numpy(rows), examples)

    def _taken(self, batch: Any, two: Any, three: Any, rows: Tensor, examples: int) -> Any:
        """The rows of a part of a batch; `two` and `three` are that part of batches of two and three examples."""
        if isinstance(batch, Tensor):
            dimension, entry_size = _lying(two.shape, three.shape)
            if not entry_size:
                return batch
            if batch.shape[dimension] != entry_size * examples:
                raise _not_by_rows()
            entries = (entry_size * rows[:, None] + torch.arange(entry_size, device=rows.device)).flatten()
            return _selected(batch, dimension, entries, pinned=self._pinned)
        if isinstance(batch, MutableMapping):  # also Hugging Face's, which are no dictionaries
            for key in list(batch):
                batch[key] = self._taken(batch[key], two[key], three[key], rows, examples)
            return batch
        if isinstance(batch, (list, tuple)):
            if len(three) == len(two) + 1:  # one entry per example
                if len(batch) != examples:
                    raise _not_by_rows()
                return [batch[row] for row in rows.tolist()]
            selected = [self._taken(*each, rows, examples) for each in zip(batch, two, three, strict=True)]
            return type(batch)(*selected) if hasattr(batch, "_fields") else type(batch)(selected)
        if isinstance(batch, np.ndarray):
            return self._taken(torch.from_numpy(batch), two, three, rows, examples).numpy()
        if batch is None or isinstance(batch, (str, bytes, int, float)):
            return batch
        raise ArgumentError(
            f"the collate_fn of the data_loader makes a {type(batch).__name__}, which cannot be padded to the public "
            "size of physical batches: return tensors, in tuples, lists or dictionaries."
        )


def _lying(two: torch.Size, three: torch.Size) -> tuple[int, int]:
    """The dimension along which examples lie, and their entries there, from the shapes for two and three; or 0, 0."""
    grown = {dimension: b - a for dimension, (a, b) in enumerate(zip(two, three, strict=True)) if a != b}
    if not grown:
        return 0, 0
    (dimension, length), *others = grown.items()
    if others or length < 0 or two[dimension] != 2 * length:
        raise _not_by_rows()
    return dimension, length


def _not_by_rows() -> ArgumentError:
    return ArgumentError(
        "the collate_fn of the data_loader does not make the same number of entries of every example, in one "
        "dimension, so that its rows cannot be told apart: pad all examples to one public length and stack them."
    )


def _selected(values: Tensor, dimension: int, entries: Tensor, *, pinned: bool) -> Tensor:
    if pinned and not values.is_cuda:  # written at once to where a GPU can fetch it
        shape = [*values.shape[:dimension], len(entries), *values.shape[dimension + 1 :]]
        selected = torch.empty(shape, dtype=values.dtype, device="cpu", pin_memory=True)
        return torch.index_select(values, dimension, entries, out=selected)
    return values.index_select(dimension, entries.to(values.device))


_MADE, _CHANGED, _TIMES = 4, 1, 4

_OTHERS = 2  # examples in the place of one, with numbers beyond those of the others, upwards and downwards
# What whole numbers stay below, one try after another: any, those of a narrow class, and as they are in the sample.
_BELOW = (100, 4, 2, 1)


def check_collate(collate: Callable[[list[Any]], Any], sample: Any) -> None:
    """Refuse a collate function in which one example changes the rows of others, such as mixup.

    Four made-up examples are collated twice, with equal randomness, the second time with another in the place of one:
    the rows of the others must be among those of the first, in whatever order. A function that fails on made-up
    examples, or draws more or fewer random numbers for another example, is not checked.
    """
    leaves, form = pytree.tree_flatten(sample)
    for below in _BELOW:
        draw = np.random.default_rng(5)
        samples = [[_made_up(leaf, below, at, draw) for leaf in leaves] for at in range(_MADE + _OTHERS)]
        examples = [pytree.tree_unflatten(each, form) for each in samples]
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
    outputs = []
    for samples in (examples, changed, examples[:-1]):
        try:
            with seeded(seed):
                collated = collate(copy.deepcopy(samples))
                rng_state = cast("Any", np.random.get_state())[3:]  # noqa: NPY002 - what collate functions draw from
                outputs.append((collated, (generator_states(), rng_state)))
        except Exception:  # noqa: BLE001 - the function's own, on examples that it may never meet
            return False
    (one, drew), (other, drew_after), (fewer, _) = outputs
    return drew == drew_after and _moved(one, other, fewer)


def _moved(one: Any, other: Any, fewer: Any) -> bool:
    """Whether something has changed besides the row of the example that was changed."""
    if type(one) is not type(other) or type(one) is not type(fewer):
        return False
    if isinstance(one, (bool, int, float)):  # the same for all rows: a constant, or a fact about the batch
        return not _equal(one, other)
    if isinstance(one, Tensor):
        if one.shape == other.shape == fewer.shape:  # likewise
            return not _equal(one, other)
        grown = [(at, size - less) for at, (size, less) in enumerate(zip(one.shape, fewer.shape, strict=False))]
        grown = [(at, length) for at, length in grown if length]
        if one.shape != other.shape or one.ndim != fewer.ndim or len(grown) != 1:
            return False
        ((at, length),) = grown
        parts = [list(each.unflatten(at, (-1, length)).unbind(at)) for each in (one, other)]
        return len(parts[0]) == _MADE and _too_few(*parts)
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
    matches, left = 0, list(range(len(other)))
    for row in one:
        equals = [at for at in left if _equal(row, other[at])][:1]
        left = [at for at in left if at not in equals]
        matches += len(equals)
    return matches < _MADE - 1


def _equal(row: Any, other: Any) -> bool:
    leaves, others = pytree.tree_leaves(row), pytree.tree_leaves(other)
    return len(leaves) == len(others) and all(
        type(a) is type(b)
        and (torch.equal(a, b) if isinstance(a, Tensor) else bool(np.array_equal(np.asarray(a), np.asarray(b))))
        for a, b in zip(leaves, others, strict=True)
    )


def _made_up(leaf: Any, below: int, at: int, draw: np.random.Generator) -> Any:
    """A number or numbers like those of a leaf; whole ones below a limit, single ones such that two examples differ."""
    if isinstance(leaf, Tensor):
        tensor = torch.from_numpy(_numbers(tuple(leaf.shape), leaf.dtype.is_floating_point, below, at, draw))
        return leaf if below == 1 and not leaf.is_floating_point() else tensor.to(leaf)
    if isinstance(leaf, (np.ndarray, np.generic)) and leaf.dtype.kind in "biuf":
        real = leaf.dtype.kind == "f"
        tensor = _numbers(leaf.shape, real, below, at, draw).astype(leaf.dtype)
        return leaf if below == 1 and not real else tensor if isinstance(leaf, np.ndarray) else leaf.dtype.type(tensor)
    if isinstance(leaf, (bool, int, float)):
        real = isinstance(leaf, float)
        return leaf if below == 1 and not real else type(leaf)(_numbers((), real, below, at, draw))
    return leaf


def _numbers(shape: tuple[int, ...], real: bool, below: int, at: int, draw: np.random.Generator) -> Any:
    beyond = 0 if at < _MADE else 1 if at == _MADE else -1
    if real:
        return np.asarray(draw.standard_normal(shape) + 8 * beyond)
    numbers = np.asarray(draw.integers(0, below, shape) if shape else (7 * at) % below)
    if below < _BELOW[0]:
        return numbers
    return np.asarray(np.zeros_like(numbers) if beyond < 0 else numbers + 1 + below * beyond)
