"""Collate functions whose batches are padded to one public size."""

from collections.abc import MutableMapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from inid.errors import ArgumentError

__all__ = ["PaddedCollate"]


class PaddedCollate:
    """A collate function, and padding behind what it makes: copies of its first row.

    Padding comes after collating: a collate function may bring the examples into another order (by length, say), and
    copies among them would count as examples. Where rows lie is seen from what it makes of two and of three copies of
    the dataset's first example. An empty draw is that example, all of it padding.
    """

    def __init__(self, collate: Any, dataset: Any, rows: int) -> None:
        self._collate, self._dataset, self._rows = collate, dataset, rows
        self._forms: list[Any] = []

    def __call__(self, samples: list[Any]) -> Any:
        """A batch of the samples, padded."""
        samples = samples or [self._dataset[0]]
        missing = self._rows - len(samples)
        batch = self._collate(samples)
        if missing <= 0:
            return batch
        if not self._forms:
            self._forms = [self._collate([self._dataset[0] for _ in range(number)]) for number in (2, 3)]
        two, three = self._forms
        return _padded(batch, two, three, missing)


def _padded(batch: Any, two: Any, three: Any, missing: int) -> Any:
    """A batch with copies of its first row behind it.

    Args:
        batch: What a collate function made.
        two: What it makes of two examples.
        three: What it makes of three.
        missing: How many rows to add.
    """
    if isinstance(batch, Tensor):
        for dimension, (size, larger) in enumerate(zip(two.shape, three.shape, strict=True)):
            own = larger - size  # entries per example
            if own > 0 and size == 2 * own:
                return torch.cat([batch, *[batch.narrow(dimension, 0, own)] * missing], dimension)
        return batch
    if isinstance(batch, MutableMapping):  # also Hugging Face's, which are no dictionaries
        for key in list(batch):
            batch[key] = _padded(batch[key], two[key], three[key], missing)
        return batch
    if isinstance(batch, (list, tuple)):
        if len(three) == len(two) + 1:  # one entry per example
            return [*batch, *[batch[0]] * missing]
        made = [_padded(*each, missing) for each in zip(batch, two, three, strict=True)]
        return type(batch)(*made) if hasattr(batch, "_fields") else type(batch)(made)
    if isinstance(batch, np.ndarray):
        return _padded(torch.from_numpy(batch), two, three, missing).numpy()
    if batch is None or isinstance(batch, (str, bytes, int, float)):
        return batch
    raise ArgumentError(
        f"the collate_fn of the data_loader makes a {type(batch).__name__}, which cannot be padded to the public size "
        "of physical batches: return tensors, in tuples, lists or dictionaries."
    )
