"""Batches by Poisson sampling: each example takes part in each step independently, with the same probability.

How many examples a step draws is secret, so no computation may depend on it: a mean over the batch, and the kernels
that torch chooses by size, would round every other example's gradient differently. Every *physical batch* that the
model sees therefore has one public size, and a step has a public number of them. Every drawn example stands at a secret
random place of them, so that no example decides where others stand (`poisson_draw` says why that matters, and proves
what a step costs). The other rows are padding, copies of the first drawn row, whose gradients are zeroed and which
count nowhere.
"""

import hashlib
import math
import warnings
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
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
from inid.dpsgd.sampling.batch_state import BatchState
from inid.dpsgd.sampling.collating import Placing, check_collate
from inid.dpsgd.sampling.cyclic_schedule import CyclicSchedule
from inid.dpsgd.sampling.poisson_draw import RandomPartition
from inid.errors import ArgumentError, GuaranteeError
from inid.noise import current_source
from inid.sets import Neighbours

_KINDS = "iuUS"  # whole numbers and texts, of which none is missing


@dataclass(frozen=True, eq=False, repr=False)
class UnitIndex:
    """Whose each example is, and how many rows each person has in a step.

    A step that draws a person takes `rows` of their examples: a secret random choice where there are more, and some of
    them again where there are fewer. The gradients of these rows are averaged and clipped once, as those of the views
    of one example. So one person adds at most a threshold to a sum, however many examples they have, and the proof in
    `poisson_draw` holds with a person in the place of an example.
    """

    members: tuple[NDArray[np.int64], ...]
    rows: int

    @classmethod
    def of(cls, unit: ArrayLike, rows: int, examples: int) -> "UnitIndex":
        """Group the examples of a dataset by whose they are."""
        owners = np.asarray(unit)
        if owners.ndim != 1 or len(owners) != examples:
            raise ArgumentError(
                f"unit must name whose each example is, got shape {owners.shape} for {examples} examples: pass one "
                "whole number or text for each."
            )
        if owners.dtype.kind not in _KINDS:
            raise ArgumentError(
                f"unit must hold whole numbers or texts, got {owners.dtype}: give every example a person, also those "
                "whose person is not known."
            )
        _, at, counts = np.unique(owners, return_inverse=True, return_counts=True)
        return cls(tuple(np.split(np.argsort(at, kind="stable"), np.cumsum(counts)[:-1])), rows)

    def chosen(self, units: NDArray[np.int64]) -> NDArray[np.int64]:
        """The examples that stand for each of these people: one line for each, one column for each row."""
        examples = np.empty((len(units), self.rows), dtype=np.int64)
        for line, unit in zip(examples, units, strict=True):
            members = self.members[unit]
            line[:] = np.resize(members[np.argsort(current_source().words(len(members)))], self.rows)
        return examples


# With a secret number of examples, how many more there may be than batch_size / sample_rate, which is public.
_ROOM = 1.1

_GUESSED = 2**64  # a random key of 128 bits is not below, but with a probability of 2^-64


@dataclass(frozen=True, eq=False)
class _PhysicalBatch:
    """A physical batch: what stands at each place, and the rows of the dataset that are shown for it (-1: padding)."""

    at_places: NDArray[np.int64]
    members: NDArray[np.int64]
    first: bool
    last: bool
    private: bool
    number: int

    @property
    def examples(self) -> list[int]:
        """The examples in the dataset's order, each as often as it has views; the dataset's first if there are none.

        Not in the order of their places: a collate function that sorts would then give the first place to the longest,
        and one example more could move others.
        """
        drawn = self.at_places >= 0
        if not drawn.any():
            return [0] * self.members.shape[1]
        places: list[int] = self.members[drawn][np.argsort(self.at_places[drawn])].ravel().tolist()
        return places

    @property
    def rows(self) -> NDArray[np.int64]:
        """For each row of the physical batch, which of `examples` it is: that of the first drawn row, for padding."""
        drawn, views = self.at_places >= 0, self.members.shape[1]
        starts = np.zeros(drawn.size, dtype=np.int64)
        starts[drawn] = views * np.argsort(np.argsort(self.at_places[drawn]))
        starts[~drawn] = starts[drawn][:1] if drawn.any() else 0
        return np.asarray(starts[:, None] + np.where(drawn[:, None], np.arange(views), 0)).ravel()

    @property
    def each(self) -> NDArray[np.int64]:
        """For each row of the physical batch, its example: `examples` by `rows`, where views are alike."""
        drawn = self.at_places >= 0
        first = self.members[drawn.argmax(), 0] if drawn.any() else 0
        return np.where(drawn[:, None], self.members, first).ravel()


class PoissonLoader:
    """Yields what a `DataLoader` would, with batches drawn by Poisson sampling from cryptographic randomness.

    Every physical batch has `physical_batch_size` rows, and every step `physical_batches` of them; the optimizer adds
    them up and steps with the last. Drawn examples stand at random places, the rest is padding (`drawn.mask` tells them
    apart). With several augmentations the dataset is asked that many times for each example, and the answers follow
    one another.

    Attributes:
        dataset: The examples.
        sample_rate: The probability with which an example is in a batch (of its own group, in a cyclic schedule).
        plain_rate: The mean size of a batch over the number of examples, whether groups take turns or not.
        steps: How many batches one iteration draws.
        expected_batch_size: The mean size of a batch over all processes: a public number, by which sums are divided.
        physical_batch_size: How many rows the model sees at a time.
        physical_batches: How many times it does so in a step (at most, for batches that are not padded).
        drawn: What has been handed out.

    >>> loader = PoissonLoader(DataLoader(TensorDataset(torch.randn(1000, 2)), batch_size=100))
    >>> loader
    <PoissonLoader: rate 0.1, 10 steps, physical batches of 112 rows, 12 % of them padding, 98.25 examples on average>
    >>> (x,) = next(iter(loader))
    >>> len(x), len(x[loader.drawn.mask]) == loader.drawn.examples
    (112, True)
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
        neighbours: Neighbours = "zero_out",
        rank: int = 0,
        world: int = 1,
        key: int | None = None,
        units: UnitIndex | None = None,
    ) -> None:
        batch_size = checked_batch_size(loader)
        self.dataset, self._units = cast("Any", loader.dataset), units
        self._drawn_from = size = len(self.dataset) if units is None else len(units.members)
        if size == 0 or (sample_rate is None and batch_size * world > size):
            raise ArgumentError(
                f"data_loader must hold at least one batch, got {size} {self.plural} and batches of "
                f"{batch_size * world}: pass a smaller batch_size."
            )
        # The decimal that was written: ten groups at the rate 0.1 are all examples.
        stated = None if sample_rate is None else Fraction(repr(float(sample_rate)))
        self.plain_rate = Fraction(batch_size * world, size) if stated is None else stated
        self._sample_rate = batch_size * world / size if sample_rate is None else sample_rate
        self.steps = max(1, round(1 / self.sample_rate)) if steps is None else steps
        self.expected_batch_size = float(batch_size * world)
        self.unit_digest = None if units is None else _digest(units)
        views = augmentations if units is None else units.rows
        if views > 1 and loader.collate_fn is not default_collate:
            raise ArgumentError(
                "augmentations and units go with torch's own collate_fn: another may bring the rows of one into "
                "another order, and each would then be clipped with those of others. Make the views in the dataset, or "
                "change the rows in the training loop, and leave collate_fn out."
            )
        if max_physical_batch_size is not None and max_physical_batch_size % views:
            name = "augmentations" if units is None else "examples_per_unit"
            raise ArgumentError(
                f"max_physical_batch_size must be a multiple of {name}={views}, got "
                f"{max_physical_batch_size}: pass how many rows fit into memory, all of one {self.unit} among them."
            )
        if neighbours == "add_remove" and world > 1 and (key is None or key < _GUESSED):
            raise ArgumentError(
                "a secret number of examples is dealt out to several processes at random: pass the same secret key= in "
                "all of them, a random number of 128 bits that nobody can guess, such as secrets.randbits(128)."
            )
        self._most = None if max_physical_batch_size is None else max_physical_batch_size // views
        self._secret, self._rank, self._world = neighbours == "add_remove", rank, world
        self._positions = self._bound(size) if self._secret else size
        self._schedule: CyclicSchedule | None = None
        self._padded, self._loader = padded, loader
        self._deal(key, views)
        self._placing = Placing(loader.collate_fn, self.dataset, pinned=loader.pin_memory and torch.cuda.is_available())
        self._shapes: list[tuple[int, ...]] | None = None
        self._collated = False  # whether the collate function has been looked at

    def follow_schedule(self, schedule: CyclicSchedule, key: int) -> None:
        """Draw from the groups of a cyclic schedule; a secret key that all processes share assigns the examples."""
        self._schedule, self._sample_rate = schedule, schedule.groups.rate
        self._deal(key, self.drawn.views)

    def _deal(self, key: int | None, views: int) -> None:
        self._partition = RandomPartition.of(
            self._drawn_from,
            self._positions,
            rate=self.sample_rate,
            most=self._most,
            groups=1 if self._schedule is None else self._schedule.groups.groups,
            rank=self._rank,
            world=self._world,
            key=key,
        )
        self.physical_batch_size = views * self._partition.places.size
        self.physical_batches = self._partition.places.batches
        self.drawn = BatchState(views=views, padded=self._padded and not self._partition.full)

    def _bound(self, size: int) -> int:
        """A public bound on a secret number of examples, made of what was stated."""
        bound = math.floor(_ROOM * self.expected_batch_size / self.sample_rate)
        if size > bound:
            raise ArgumentError(
                f"with neighbours='add_remove' the number of examples is secret, and batch_size / sample_rate states "
                f"it to the public: up to {bound} may be drawn from, a tenth more than stated, and data_loader holds "
                "more. Pass a larger batch_size or a smaller sample_rate."
            )
        return bound

    @property
    def batch_size(self) -> float:
        """The mean size of a batch, `expected_batch_size`. It cannot be set: sampling and noise were planned for it."""
        return self.expected_batch_size

    @batch_size.setter
    def batch_size(self, size: object) -> None:
        raise _fixed("batch_size", size)

    @property
    def sample_rate(self) -> float:
        """The probability with which an example is in a batch (of its own group, in a cyclic schedule).

        It cannot be set: a ledger was charged for it.
        """
        return self._sample_rate

    @sample_rate.setter
    def sample_rate(self, rate: object) -> None:
        raise _fixed("sample_rate", rate)

    @property
    def unit(self) -> str:
        """What is drawn, and what the promise is about."""
        return "example" if self._units is None else "person"

    @property
    def plural(self) -> str:
        """The word for several of them."""
        return "examples" if self._units is None else "people"

    @property
    def units(self) -> int | None:
        """How many there are; None where that is secret."""
        return None if self._secret else self._drawn_from

    @property
    def padding(self) -> float:
        """About how much of what the model computes is padding (by a normal approximation): what the padding costs."""
        return 1 - self.mean_draw / self._partition.places.places if self._padded else 0.0

    @property
    def mean_draw(self) -> float:
        """About how many examples a step draws here on average: those that do not fit are drawn again."""
        return self._partition.places.mean / (_ROOM if self._secret else 1.0)

    def __repr__(self) -> str:
        size = (
            f"{self.physical_batch_size} rows, {100 * self.padding:.0f} % of them padding, {self.mean_draw:.4g} "
            f"{self.plural} on average"
        )
        shown_size = size if self._padded else f"at most {self.physical_batch_size} rows"
        turns = "" if self._schedule is None else f" in one of {self._schedule.groups.groups} turns"
        return (
            f"<PoissonLoader: rate {self.sample_rate:.6g}{turns}, {self.steps} steps, physical batches of {shown_size}>"
        )

    @property
    def most_examples(self) -> int:
        """How many examples a step can have here at most."""
        return self.physical_batches * self.physical_batch_size

    def __len__(self) -> int:
        """How many physical batches one iteration hands out: as many as there are steps, times those of a step."""
        if not self._padded:
            raise NoLengthError(
                "a private loader without padding has no length, since how many physical batches come depends on "
                "secret draws: loader.steps is the number of steps, or leave pad_batches out."
            )
        return self.steps * self.physical_batches

    def __iter__(self) -> Iterator[Any]:
        number, reader = 0, object()
        try:
            for part, batch in self._batches():
                if not part.first and self.drawn.batch != number:
                    raise GuaranteeError(
                        "another iterator has begun a batch between two parts of this one: finish a batch before the "
                        "next."
                    )
                placed = torch.from_numpy(part.at_places >= 0)
                self.drawn.hand_out(
                    reader,
                    _tensors(batch),
                    placed,
                    first=part.first,
                    last=part.last,
                    private=part.private,
                    number=part.number,
                )
                number = self.drawn.batch
                self._warn_of_lengths(batch)
                yield batch
            if self.drawn.ahead:  # read through without training
                self.drawn.let_go(reader)
        except GeneratorExit:  # nobody will ask for more
            self.drawn.let_go(reader)
            raise

    def _batches(self) -> Iterator[tuple[_PhysicalBatch, Any]]:
        loader = self._loader
        # A subclass of TensorDataset may make other examples of its tensors.
        if type(self.dataset) is TensorDataset and loader.collate_fn is default_collate and not loader.num_workers:
            for part in self._parts():
                chosen = torch.from_numpy(part.each)
                chosen = chosen.pin_memory() if self.dataset.tensors[0].is_cuda else chosen  # the host need not wait
                yield (
                    part,
                    [
                        tensor.index_select(0, chosen.to(tensor.device, non_blocking=True))
                        for tensor in self.dataset.tensors
                    ],
                )
            return
        if not self._collated and loader.collate_fn is not default_collate:
            self._collated = True
            check_collate(loader.collate_fn, self.dataset[0])
        asked: deque[_PhysicalBatch] = deque()
        batches = DataLoader(
            self.dataset,
            batch_sampler=_Lists(self._parts(), asked, self.steps * self.physical_batches),
            num_workers=loader.num_workers,
            collate_fn=loader.collate_fn,
            pin_memory=loader.pin_memory and not self._padded,  # padded batches are pinned with their padding
            timeout=loader.timeout,
            worker_init_fn=loader.worker_init_fn,
            multiprocessing_context=loader.multiprocessing_context,
            prefetch_factor=loader.prefetch_factor,
        )
        for batch in batches:
            part = asked.popleft()
            yield part, self._placing(batch, part.rows, len(part.examples)) if self._padded else batch

    def _parts(self) -> Iterator[_PhysicalBatch]:
        """The physical batches of all steps."""
        number, schedule = -1, self._schedule
        for _ in range(self.steps):
            # Asked now: with workers, batches are drawn long before they are handed out.
            private = self._partition.private and current_source().private
            if schedule is not None:
                # Without workers the batch before is used or given up by now, and its number can be drawn for again.
                drawn_for = schedule.next_number(number if self._loader.num_workers else -1)
                if drawn_for is None:
                    schedule.end(begun=number >= 0)
                    return
                number = drawn_for
            group = 0 if schedule is None else schedule.group(number)
            at_places = self._partition.draw(group, padded=self._padded)
            for at, each in enumerate(at_places):
                yield _PhysicalBatch(each, self._members(each), at == 0, at == len(at_places) - 1, private, number)

    def _members(self, at_places: NDArray[np.int64]) -> NDArray[np.int64]:
        """The rows of the dataset that are shown for what stands at each place."""
        if self._units is None:
            return np.repeat(at_places[:, None], self.drawn.views, 1)
        members = np.full((len(at_places), self._units.rows), -1, dtype=np.int64)
        members[at_places >= 0] = self._units.chosen(at_places[at_places >= 0])
        return members

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


class NoLengthError(ArgumentError, TypeError):
    """A loader has no length; a `TypeError`, since that is what `list()` and training frameworks take for an answer."""


def _digest(units: UnitIndex) -> str:
    """What processes compare, so that none of them holds other people."""
    hashed = hashlib.sha256(str(units.rows).encode())
    for members in units.members:
        hashed.update(members.tobytes() + b"|")
    return hashed.hexdigest()


def _tensors(batch: object) -> list[Tensor]:
    leaves = pytree.tree_leaves(dict(batch) if hasattr(batch, "keys") else batch)  # type: ignore[call-overload]
    return [leaf for leaf in leaves if isinstance(leaf, Tensor)]


def _fixed(name: str, value: object) -> ArgumentError:
    return ArgumentError(
        f"{name} of a private loader is fixed, got {shown(value)}: call make_private again with a DataLoader of the "
        "batch_size that you want (and this accountant, which goes on counting)."
    )


class _Lists:
    """The lists of examples that a DataLoader asks for; what it has asked for is noted."""

    def __init__(
        self,
        parts: Iterator[_PhysicalBatch],
        asked: "deque[_PhysicalBatch]",
        length: int,
    ) -> None:
        self._parts, self._asked, self._length = parts, asked, length

    def __iter__(self) -> Iterator[list[int]]:
        for part in self._parts:
            self._asked.append(part)
            yield part.examples

    def __len__(self) -> int:
        return self._length


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
    identities = _example_identities(loader.dataset)
    if len(np.unique(identities, axis=0)) < len(identities):
        raise ArgumentError(
            "data_loader names an example twice, through a Subset or a ConcatDataset, so that it would count twice: "
            "name every example once."
        )
    return int(loader.batch_size)


def _example_identities(dataset: Any) -> NDArray[np.int64]:
    """Which examples of which underlying datasets a dataset holds, as pairs, through nested subsets."""
    if isinstance(dataset, Subset):
        inner = _example_identities(dataset.dataset)
        chosen = np.array([int(at) for at in dataset.indices], dtype=np.int64)
        if chosen.size and not (-len(inner) <= chosen.min() and chosen.max() < len(inner)):
            raise ArgumentError(
                "data_loader goes over a Subset with an index outside its dataset: correct the indices."
            )
        return inner[chosen]
    if isinstance(dataset, ConcatDataset):
        return np.concatenate([_example_identities(part) for part in dataset.datasets])
    return np.stack([np.full(len(dataset), id(dataset)), np.arange(len(dataset))], axis=1)
