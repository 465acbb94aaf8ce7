"""Rows of a collated batch, brought to their places in a physical batch of one public size."""

import copy
from collections.abc import MutableMapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from inid.errors import ArgumentError

__all__ = ["Placing"]


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
            dimension, own = _lying(two.shape, three.shape)
            if not own:
                return batch
            if batch.shape[dimension] != own * examples:
                raise _not_by_rows()
            entries = (own * rows[:, None] + torch.arange(own, device=rows.device)).flatten()
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
            made = [self._taken(*each, rows, examples) for each in zip(batch, two, three, strict=True)]
            return type(batch)(*made) if hasattr(batch, "_fields") else type(batch)(made)
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
    (dimension, own), *others = grown.items()
    if others or own < 0 or two[dimension] != 2 * own:
        raise _not_by_rows()
    return dimension, own


def _not_by_rows() -> ArgumentError:
    return ArgumentError(
        "the collate_fn of the data_loader does not make the same number of entries of every example, in one "
        "dimension, so that its rows cannot be told apart: pad all examples to one public length and stack them."
    )


def _selected(values: Tensor, dimension: int, entries: Tensor, *, pinned: bool) -> Tensor:
    if pinned and not values.is_cuda:  # written at once to where a GPU can fetch it
        shape = [*values.shape[:dimension], len(entries), *values.shape[dimension + 1 :]]
        made = torch.empty(shape, dtype=values.dtype, device="cpu", pin_memory=True)
        return torch.index_select(values, dimension, entries, out=made)
    return values.index_select(dimension, entries.to(values.device))
