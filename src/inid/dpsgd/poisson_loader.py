"""Batches by Poisson sampling: each example takes part in each step independently, with the same probability."""

import math
import warnings
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import (
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
from inid.errors import ArgumentError, GuaranteeError
from inid.noise import current_source

__all__ = ["Drawn", "PoissonLoader"]


@dataclass(eq=False)
class Drawn:
    """What the loader has handed out, and what of it has been used: one batch for one step.

    Attributes:
        batch: The number of the batch that is out, from 1; 0 before the first.
        examples: How many of its examples have been handed out.
        complete: Whether the latest part was the last of its batch.
        fresh: Whether the latest part has not been used.
        used: The batch whose examples are in the sums.
        stepped: The batch of the last step.
        private: Whether the batch was drawn from secret randomness.
    """

    batch: int = 0
    examples: int = 0
    complete: bool = True
    fresh: bool = False
    used: int = 0
    stepped: int = 0
    private: bool = True

    def hand_out(self, examples: int, *, first: bool, last: bool) -> None:
        """Note a batch, or a part of one."""
        if first:
            if 0 < self.stepped < self.batch:
                warnings.warn(
                    "a batch was drawn and no step was taken: whether to step must not depend on the data, since "
                    "skipped steps are not counted. Step on every batch, also on empty ones.",
                    stacklevel=3,
                )
            self.batch, self.examples, self.private = self.batch + 1, 0, True
        self.examples, self.complete, self.fresh = self.examples + examples, last, True
        self.private = self.private and current_source().private

    def admit(self, before: int, examples: int) -> None:
        """Refuse a backward that would count an example twice, or one that was not drawn for this step."""
        if before and self.used != self.batch:
            raise GuaranteeError(
                "backward ran over two batches since the last step, and a step uses one: call step() of the returned "
                "optimizer after every batch. To spare memory pass max_physical_batch_size, which splits a batch."
            )
        if self.stepped == self.batch or before + examples > self.examples:
            left = 0 if self.stepped == self.batch else self.examples - before
            raise GuaranteeError(
                f"backward ran over {examples} examples where the private loader has {left} to use: train on the "
                "batches of the returned data_loader, each of them once."
            )
        if not self.fresh:
            raise GuaranteeError(
                "backward ran twice over what the loader handed out once: call it once per batch. To spare memory pass "
                "max_physical_batch_size, which splits a batch."
            )
        self.used, self.fresh = self.batch, False

    def renew(self) -> None:
        """Note that the gradients of the batch were thrown away: it may be used again."""
        self.fresh = True

    def close(self) -> None:
        """Refuse a step for which no batch was drawn; else take the batch as used up."""
        if self.stepped == self.batch:
            raise GuaranteeError(
                "optimizer.step() was called without a new batch: take one batch of the returned data_loader per step, "
                "also when it is empty."
            )
        self.stepped = self.batch


class PoissonLoader:
    """Yields what a `DataLoader` would, with batches drawn by Poisson sampling from cryptographic randomness.

    A batch may be of any size, also empty: its tensors then have no rows. With `max_physical_batch_size` a batch comes
    in parts; the optimizer adds the parts up and steps with the last.

    Attributes:
        dataset: The examples.
        sample_rate: The probability with which an example is in a batch.
        steps: How many batches one iteration draws.
    """

    def __init__(
        self,
        loader: "DataLoader[Any]",
        *,
        max_physical_batch_size: int | None = None,
        rank: int = 0,
        world: int = 1,
    ) -> None:
        batch_size = _checked_size(loader)
        self.dataset = cast("Any", loader.dataset)
        size = len(self.dataset)
        if size == 0 or batch_size * world > size:
            raise ArgumentError(
                f"data_loader must hold at least one batch, got {size} examples and batches of "
                f"{batch_size * world}: pass a smaller batch_size."
            )
        self.sample_rate = batch_size * world / size
        self.steps = max(1, round(1 / self.sample_rate))
        self.drawn = Drawn()
        self._part = max_physical_batch_size or size
        self._own = np.arange(rank, size, world)
        self._loader = loader

    @property
    def expected_batch_size(self) -> float:
        """The mean size of a batch over all processes: a public number, by which sums are divided."""
        return self.sample_rate * len(self.dataset)

    def __repr__(self) -> str:
        return f"<PoissonLoader: {len(self.dataset)} examples, rate {self.sample_rate:.6g}, {self.steps} steps>"

    def __len__(self) -> int:
        """How many steps one iteration makes (a batch that comes in parts is one step)."""
        return self.steps

    def __iter__(self) -> Iterator[Any]:
        marks: deque[tuple[int, bool, bool]] = deque()
        own = 0
        for batch in self._batches(marks):
            count, first, last = marks.popleft()
            if not first and self.drawn.batch != own:
                raise GuaranteeError(
                    "another iterator has begun a batch between two parts of this one: finish a batch before the next."
                )
            self.drawn.hand_out(count, first=first, last=last)
            own = self.drawn.batch
            yield batch

    def _batches(self, marks: "deque[tuple[int, bool, bool]]") -> Iterator[Any]:
        loader = self._loader
        # A subclass may make other examples of its tensors.
        if type(self.dataset) is TensorDataset and loader.collate_fn is default_collate and not loader.num_workers:
            for indices in self._parts(marks):
                chosen = torch.from_numpy(indices)
                yield [tensor[chosen.to(tensor.device)] for tensor in self.dataset.tensors]
            return
        yield from DataLoader(
            self.dataset,
            batch_sampler=_Lists(self._parts(marks), self.steps),
            num_workers=loader.num_workers,
            collate_fn=_Collate(loader.collate_fn, self.dataset),
            pin_memory=loader.pin_memory,
            timeout=loader.timeout,
            worker_init_fn=loader.worker_init_fn,
            multiprocessing_context=loader.multiprocessing_context,
            prefetch_factor=loader.prefetch_factor,
        )

    def _parts(self, marks: "deque[tuple[int, bool, bool]]") -> Iterator["np.ndarray[Any, np.dtype[np.int64]]"]:
        for _ in range(self.steps):
            chosen = self._own[_bernoulli(self._own.size, self.sample_rate)]
            cuts = range(0, max(chosen.size, 1), self._part)
            for start in cuts:
                part = chosen[start : start + self._part]
                marks.append((part.size, start == 0, start == cuts[-1]))
                yield part


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
    indices = getattr(loader.dataset, "indices", ())
    if isinstance(loader.dataset, Subset) and len(set(indices)) < len(indices):
        raise ArgumentError("data_loader goes over a Subset that names an example twice: name every example once.")
    return int(loader.batch_size)


class _Lists:
    """Index arrays as the lists that a DataLoader asks for."""

    def __init__(self, parts: Iterator[Any], length: int) -> None:
        self._parts, self._length = parts, length

    def __iter__(self) -> Iterator[list[int]]:
        for part in self._parts:
            yield part.tolist()

    def __len__(self) -> int:
        return self._length


class _Collate:
    """A collate function that also makes an empty batch: the form of one example, without its rows."""

    def __init__(self, collate: Any, dataset: Any) -> None:
        self._collate, self._dataset = collate, dataset

    def __call__(self, samples: list[Any]) -> Any:
        return self._collate(samples) if samples else _without_rows(self._collate([self._dataset[0]]))


def _without_rows(batch: Any) -> Any:
    if isinstance(batch, Tensor):
        return batch[:0]
    if isinstance(batch, dict):
        return type(batch)({key: _without_rows(value) for key, value in batch.items()})
    if isinstance(batch, (list, tuple)):
        if all(isinstance(entry, (str, bytes)) for entry in batch):
            return []
        parts = [_without_rows(entry) for entry in batch]
        return type(batch)(*parts) if hasattr(batch, "_fields") else type(batch)(parts)
    return type(batch)() if isinstance(batch, (str, bytes, int, float)) else batch


def _bernoulli(size: int, rate: float) -> "np.ndarray[Any, np.dtype[np.bool_]]":
    """Independent draws that are True with probability floor(rate 2^64) / 2^64, never more than the rate."""
    limit = math.floor(rate * 2**64)
    if limit >= 2**64:
        return np.ones(size, dtype=np.bool_)
    return np.asarray(current_source().words(size) < np.uint64(limit))
