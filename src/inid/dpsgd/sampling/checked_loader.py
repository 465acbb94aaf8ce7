"""Whether a data loader has examples that can be drawn one by one, each named once."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch.utils.data import (
    ConcatDataset,
    DataLoader,
    DistributedSampler,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    Subset,
)

from inid.arguments import shown
from inid.errors import ArgumentError

__all__ = ["checked_batch_size"]


def checked_batch_size(loader: object) -> int:
    """The size of a loader's batches; what has no examples to draw one by one is refused."""
    cure = "make it with DataLoader(dataset, batch_size=...) over a dataset with a length"
    if not isinstance(loader, DataLoader):
        raise ArgumentError(f"data_loader must be a torch DataLoader, got {shown(type(loader).__name__)}: {cure}.")
    if not loader.batch_size:
        raise ArgumentError(f"data_loader must have a batch_size, got {loader.batch_size!r}: {cure}.")
    if isinstance(loader.dataset, IterableDataset) or not hasattr(loader.dataset, "__len__"):
        raise ArgumentError(f"data_loader goes over a dataset without a length, so none can be drawn from it: {cure}.")
    if not isinstance(loader.sampler, (SequentialSampler, RandomSampler, DistributedSampler)):
        raise ArgumentError(
            f"data_loader has a sampler of its own ({type(loader.sampler).__name__}), which Poisson sampling would "
            "replace: leave it out, and pass torch.utils.data.Subset(dataset, indices) to train on a part."
        )
    named = _named_examples(loader.dataset)
    if len(np.unique(named, axis=0)) < len(named):
        raise ArgumentError(
            "data_loader names an example twice, through a Subset or a ConcatDataset, so that it would count twice: "
            "name every example once."
        )
    return int(loader.batch_size)


def _named_examples(dataset: Any) -> NDArray[np.int64]:
    """Which examples of which underlying datasets a dataset holds, as pairs, through nested subsets."""
    if isinstance(dataset, Subset):
        inner = _named_examples(dataset.dataset)
        chosen = np.array([int(at) for at in dataset.indices], dtype=np.int64)
        if chosen.size and not (-len(inner) <= chosen.min() and chosen.max() < len(inner)):
            raise ArgumentError(
                "data_loader goes over a Subset with an index outside its dataset: correct the indices."
            )
        return inner[chosen]
    if isinstance(dataset, ConcatDataset):
        return np.concatenate([_named_examples(part) for part in dataset.datasets])
    return np.stack([np.full(len(dataset), id(dataset)), np.arange(len(dataset))], axis=1)
