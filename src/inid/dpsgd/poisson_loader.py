"""Batches by Poisson sampling: each example takes part in each step independently, with the same probability.

How many examples a step draws is secret, so no computation may depend on it: a mean over the batch, and the kernels
that torch chooses by size, would round every other example's gradient differently. Every *physical batch* that the
model sees therefore has one public size. Rows beyond the drawn examples are padding, a copy of the first row, whose
gradients are zeroed and which count nowhere; a draw that does not fit takes further physical batches of the same size.
"""

import math
import warnings
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils import _pytree as pytree
from torch.utils.data import (
    ConcatDataset,
    DataLoader,
    DistributedSampler,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    Subset,
    TensorDataset,
    default_collate,
)

from inid.arguments import shown
from inid.dpsgd.collate_checks import check_collate
from inid.dpsgd.collating import PaddedCollate
from inid.dpsgd.drawn_batch import Drawn
from inid.errors import ArgumentError, GuaranteeError
from inid.noise import current_source

__all__ = ["PoissonLoader"]


class PoissonLoader:
    """Yields what a `DataLoader` would, with batches drawn by Poisson sampling from cryptographic randomness.

    Every physical batch has `physical_batch_size` rows: first the drawn examples, then padding (`drawn.mask` tells them
    apart). A draw that is larger comes in several; the optimizer adds them up and steps with the last. With several
    augmentations the dataset is asked that many times for each example, and the answers follow one another.

    Attributes:
        dataset: The examples.
        sample_rate: The probability with which an example is in a batch.
        steps: How many batches one iteration draws.
        expected_batch_size: The mean size of a batch over all processes: a public number, by which sums are divided.
        physical_batch_size: How many rows the model sees at a time.
        drawn: What has been handed out.

    >>> loader = PoissonLoader(DataLoader(TensorDataset(torch.randn(1000, 2)), batch_size=100))
    >>> loader
    <PoissonLoader: rate 0.1, 10 steps, physical batches of 120 rows, 18 % of them padding>
    >>> (x,) = next(iter(loader))
    >>> len(x), len(x[loader.drawn.mask]) == loader.drawn.examples
    (120, True)
    """

    def __init__(
        self,
        loader: "DataLoader[Any]",
        *,
        max_physical_batch_size: int | None = None,
        augmentations: int = 1,
        padded: bool = True,
        sample_rate: float | None = None,
        steps: int | None = None,
        rank: int = 0,
        world: int = 1,
        most: Callable[[int], int] | None = None,
    ) -> None:
        batch_size = _checked_size(loader)
        self.dataset = cast("Any", loader.dataset)
        size = len(self.dataset)
        if size == 0 or (sample_rate is None and batch_size * world > size):
            raise ArgumentError(
                f"data_loader must hold at least one batch, got {size} examples and batches of "
                f"{batch_size * world}: pass a smaller batch_size."
            )
        self.sample_rate = batch_size * world / size if sample_rate is None else sample_rate
        self.steps = max(1, round(1 / self.sample_rate)) if steps is None else steps
        self.expected_batch_size = float(batch_size * world)
        self.drawn = Drawn(views=augmentations)
        if augmentations > 1 and loader.collate_fn is not default_collate:
            raise ArgumentError(
                "augmentations go with torch's own collate_fn: another may bring the views of an example into another "
                "order, and each would then be clipped with those of others. Make the views in the dataset, or change "
                "the rows in the training loop, and leave collate_fn out."
            )
        self._own = np.arange(rank, size, world)
        self._mean, self._deviation = batch_size, math.sqrt(batch_size * (1 - self.sample_rate))
        # With a public number of examples no draw is larger than the whole; it is secret where the rate was stated.
        whole = math.inf if sample_rate is not None else -(-size // world)
        default = augmentations * _default_size(self._mean + 2 * self._deviation, whole)
        self.physical_batch_size = max_physical_batch_size or default
        if self.physical_batch_size % augmentations:
            raise ArgumentError(
                f"max_physical_batch_size must be a multiple of augmentations={augmentations}, got "
                f"{self.physical_batch_size}: pass how many rows fit into memory, all views of an example among them."
            )
        self._padded, self._loader, self._most = padded, loader, most
        self._shapes: list[tuple[int, ...]] | None = None
        self._collated = False  # whether the collate function has been looked at

    @property
    def padding(self) -> float:
        """About how much of what the model computes is padding (by a normal approximation): what the padding costs."""
        if not self._padded:
            return 0.0
        size, batches, further = self.physical_batch_size // self.drawn.views, 1.0, 1.0
        at = 1
        while further > 1e-9:
            further = _tail(size * at + 0.5 - self._mean, self._deviation)
            batches, at = batches + further, at + 1
        return 1 - self._mean / (size * batches)

    def __repr__(self) -> str:
        size = f"{self.physical_batch_size} rows, {100 * self.padding:.0f} % of them padding"
        shown_size = size if self._padded else f"at most {self.physical_batch_size} rows"
        return f"<PoissonLoader: rate {self.sample_rate:.6g}, {self.steps} steps, physical batches of {shown_size}>"

    def __len__(self) -> int:
        """How many steps one iteration makes (a batch that comes in several physical batches is one step)."""
        return self.steps

    def __iter__(self) -> Iterator[Any]:
        marks: deque[tuple[int, int, bool, bool]] = deque()
        own, reader = 0, object()
        try:
            for batch in self._batches(marks):
                rows, examples, first, last = marks.popleft()
                if not first and self.drawn.batch != own:
                    raise GuaranteeError(
                        "another iterator has begun a batch between two parts of this one: finish a batch before the "
                        "next."
                    )
                self.drawn.hand_out(reader, _tensors(batch), rows, examples, first=first, last=last)
                own = self.drawn.batch
                self._warn_of_lengths(batch)
                yield batch
            if self.drawn.ahead:  # read through without training
                self.drawn.let_go(reader)
        except GeneratorExit:  # nobody will ask for more
            self.drawn.let_go(reader)
            raise

    def _batches(self, marks: "deque[tuple[int, int, bool, bool]]") -> Iterator[Any]:
        loader = self._loader  # a subclass of TensorDataset may make other examples of its tensors
        if type(self.dataset) is TensorDataset and loader.collate_fn is default_collate and not loader.num_workers:
            for indices, rows in self._parts(marks):
                first = indices[:1] if indices.size else self._own[:1]
                chosen = torch.from_numpy(np.concatenate([indices, np.repeat(first, rows - indices.size)]))
                chosen = chosen.pin_memory() if self.dataset.tensors[0].is_cuda else chosen  # the host need not wait
                yield [tensor[chosen.to(tensor.device, non_blocking=True)] for tensor in self.dataset.tensors]
            return
        if not self._collated and loader.collate_fn is not default_collate:
            self._collated = True
            check_collate(loader.collate_fn, self.dataset[0])
        yield from DataLoader(
            self.dataset,
            batch_sampler=_Lists(self._parts(marks), self.steps),
            num_workers=loader.num_workers,
            collate_fn=PaddedCollate(
                loader.collate_fn, self.dataset, self.physical_batch_size if self._padded else self.drawn.views
            ),
            pin_memory=loader.pin_memory,
            timeout=loader.timeout,
            worker_init_fn=loader.worker_init_fn,
            multiprocessing_context=loader.multiprocessing_context,
            prefetch_factor=loader.prefetch_factor,
        )

    def _parts(self, marks: "deque[tuple[int, int, bool, bool]]") -> Iterator[tuple[NDArray[np.int64], int]]:
        """The examples of each physical batch, each as often as it has views, and how many rows it has."""
        views = self.drawn.views
        size = self.physical_batch_size // views
        for _ in range(self.steps):
            chosen = self._own[_bernoulli(self._own.size, self.sample_rate)]
            parts = -(-max(chosen.size, 1) // size)
            # Where the model itself needs all processes, all take as many physical batches, if need be of padding.
            parts = parts if self._most is None else self._most(parts)
            cuts = range(0, parts * size, size)
            for start in cuts:
                part = chosen[start : start + size]
                rows = views * (size if self._padded else max(part.size, 1))
                marks.append((rows, part.size, start == 0, start == cuts[-1]))
                yield np.repeat(part, views), rows

    def _warn_of_lengths(self, batch: object) -> None:
        shapes = [tuple(leaf.shape[1:]) for leaf in _tensors(batch)]
        if self._shapes is None:
            self._shapes = shapes
        elif shapes != self._shapes:
            self._shapes = shapes
            warnings.warn(
                "the batches of the data_loader differ in shape: padding to the longest example of a batch lets one "
                "example change how the others are computed, which no noise covers. Pad all to one public length.",
                stacklevel=3,
            )


def _default_size(wanted: float, most: float) -> int:
    """A public size that most draws fit into, rounded up to what kernels like."""
    step = 1 if wanted <= 16 else 8 if wanted <= 512 else 32
    return int(min(step * math.ceil(wanted / step), most))


def _tail(distance: float, deviation: float) -> float:
    return math.erfc(distance / deviation / math.sqrt(2)) / 2 if deviation else float(distance < 0)


def _tensors(batch: object) -> list[Tensor]:
    leaves = pytree.tree_leaves(dict(batch) if hasattr(batch, "keys") else batch)  # type: ignore[call-overload]
    return [leaf for leaf in leaves if isinstance(leaf, Tensor) and leaf.ndim]


def _checked_size(loader: object) -> int:
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


class _Lists:
    """Index arrays as the lists that a DataLoader asks for."""

    def __init__(self, parts: Iterator[tuple[NDArray[np.int64], int]], length: int) -> None:
        self._parts, self._length = parts, length

    def __iter__(self) -> Iterator[list[int]]:
        for part, _ in self._parts:
            yield part.tolist()

    def __len__(self) -> int:
        return self._length


def _bernoulli(size: int, rate: float) -> NDArray[np.bool_]:
    """Independent draws that are True with probability floor(rate 2^64) / 2^64, never more than the rate."""
    limit = math.floor(rate * 2**64)
    if limit >= 2**64:
        return np.ones(size, dtype=np.bool_)
    return np.asarray(current_source().words(size) < np.uint64(limit))
