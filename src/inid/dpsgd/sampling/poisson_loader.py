"""Batches by Poisson sampling: each example takes part in each step independently, with the same probability.

How many examples a step draws is secret, so no computation may depend on it: a mean over the batch, and the kernels
that torch chooses by size, would round every other example's gradient differently. Every *physical batch* that the
model sees therefore has one public size, and a step has a public number of them. Every drawn example stands at a secret
random place of them, so that no example decides where others stand (`poisson_draw` says why that matters, and proves
what a step costs). The other rows are padding, copies of the first drawn row, whose gradients are zeroed and which
count nowhere.
"""

import math
import warnings
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils import _pytree as pytree
from torch.utils.data import DataLoader, TensorDataset, default_collate

from inid.arguments import shown
from inid.dpsgd.sampling.checked_loader import checked_batch_size
from inid.dpsgd.sampling.collate_checks import check_collate
from inid.dpsgd.sampling.collating import Placing
from inid.dpsgd.sampling.dealt_positions import DealtPositions
from inid.dpsgd.sampling.drawn_batch import Drawn
from inid.dpsgd.sampling.turns import Turns
from inid.errors import ArgumentError, GuaranteeError
from inid.noise import current_source
from inid.sets import Neighbours

__all__ = ["PoissonLoader"]


# With a secret number of examples, how many more there may be than batch_size / sample_rate, which is public.
_ROOM = 1.1
_GUESSED = 2**64  # a random key of 128 bits is not below, but with a probability of 2^-64


@dataclass(frozen=True, eq=False)
class _Part:
    """A physical batch.

    Attributes:
        held: The example at each place, or -1 for padding.
        first: Whether it is the first of its step.
        last: Whether it is the last.
        private: Whether it was drawn from secret randomness.
        number: The number of its step, where groups take turns.
    """

    held: NDArray[np.int64]
    first: bool
    last: bool
    private: bool
    number: int

    def examples(self, views: int) -> list[int]:
        """The examples in the dataset's order, each as often as it has views; the dataset's first if there are none.

        Not in the order of their places: a collate function that sorts would then give the first place to the longest,
        and one example more could move others.
        """
        found = np.sort(self.held[self.held >= 0])
        return np.repeat(found if found.size else [0], views).tolist()

    def rows(self, views: int) -> NDArray[np.int64]:
        """For each row of the physical batch, which of `examples` it is: that of the first drawn row, for padding."""
        drawn = self.held >= 0
        starts = np.zeros(drawn.size, dtype=np.int64)
        starts[drawn] = views * np.argsort(np.argsort(self.held[drawn]))
        starts[~drawn] = starts[drawn][:1] if drawn.any() else 0
        return np.asarray(starts[:, None] + np.where(drawn[:, None], np.arange(views), 0)).ravel()

    def each(self, views: int) -> NDArray[np.int64]:
        """For each row of the physical batch, its example: `examples` by `rows`, where views are alike."""
        drawn = self.held >= 0
        first = self.held[drawn.argmax()] if drawn.any() else 0
        return np.repeat(np.where(drawn, self.held, first), views)


class PoissonLoader:
    """Yields what a `DataLoader` would, with batches drawn by Poisson sampling from cryptographic randomness.

    Every physical batch has `physical_batch_size` rows, and every step `physical_batches` of them; the optimizer adds
    them up and steps with the last. Drawn examples stand at random places, the rest is padding (`drawn.mask` tells them
    apart). With several augmentations the dataset is asked that many times for each example, and the answers follow
    one another.

    Attributes:
        dataset: The examples.
        sample_rate: The probability with which an example is in a batch, where groups take turns in one of its group's.
        plain_rate: The mean size of a batch over the number of examples, whether groups take turns or not.
        steps: How many batches one iteration draws.
        expected_batch_size: The mean size of a batch over all processes: a public number, by which sums are divided.
        physical_batch_size: How many rows the model sees at a time.
        physical_batches: How many times it does so in a step (at most, for batches that are not padded).
        drawn: What has been handed out.

    >>> loader = PoissonLoader(DataLoader(TensorDataset(torch.randn(1000, 2)), batch_size=100))
    >>> loader
    <PoissonLoader: rate 0.1, 10 steps, physical batches of 120 rows, 17 % of them padding>
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
        neighbours: Neighbours = "zero_out",
        rank: int = 0,
        world: int = 1,
        key: int | None = None,
    ) -> None:
        batch_size = checked_batch_size(loader)
        self.dataset = cast("Any", loader.dataset)
        size = len(self.dataset)
        if size == 0 or (sample_rate is None and batch_size * world > size):
            raise ArgumentError(
                f"data_loader must hold at least one batch, got {size} examples and batches of "
                f"{batch_size * world}: pass a smaller batch_size."
            )
        # The decimal that was written: ten groups at the rate 0.1 are all examples.
        stated = None if sample_rate is None else Fraction(repr(float(sample_rate)))
        self.plain_rate = Fraction(batch_size * world, size) if stated is None else stated
        self._sample_rate = batch_size * world / size if sample_rate is None else sample_rate
        self.steps = max(1, round(1 / self.sample_rate)) if steps is None else steps
        self.expected_batch_size = float(batch_size * world)
        if augmentations > 1 and loader.collate_fn is not default_collate:
            raise ArgumentError(
                "augmentations go with torch's own collate_fn: another may bring the views of an example into another "
                "order, and each would then be clipped with those of others. Make the views in the dataset, or change "
                "the rows in the training loop, and leave collate_fn out."
            )
        if max_physical_batch_size is not None and max_physical_batch_size % augmentations:
            raise ArgumentError(
                f"max_physical_batch_size must be a multiple of augmentations={augmentations}, got "
                f"{max_physical_batch_size}: pass how many rows fit into memory, all views of an example among them."
            )
        if neighbours == "add_remove" and world > 1 and (key is None or key < _GUESSED):
            raise ArgumentError(
                "a secret number of examples is dealt out to several processes at random: pass the same secret key= in "
                "all of them, a random number of 128 bits that nobody can guess, such as secrets.randbits(128)."
            )
        self._most = None if max_physical_batch_size is None else max_physical_batch_size // augmentations
        self._secret, self._rank, self._world = neighbours == "add_remove", rank, world
        self._positions = self._bound(size) if self._secret else size
        self._turns: Turns | None = None
        self._padded, self._loader = padded, loader
        self._deal(key, augmentations)
        self._placing = Placing(loader.collate_fn, self.dataset, pinned=loader.pin_memory and torch.cuda.is_available())
        self._shapes: list[tuple[int, ...]] | None = None
        self._collated = False  # whether the collate function has been looked at

    def take_turns(self, turns: Turns, key: int) -> None:
        """Draw from groups that take turns, before anything has been drawn.

        Args:
            turns: Whose turn it is; the rate becomes that of a group in its turn.
            key: A secret number, the same in all processes, by which examples are dealt to the groups.
        """
        self._turns, self._sample_rate = turns, turns.groups.rate
        self._deal(key, self.drawn.views)

    def _deal(self, key: int | None, views: int) -> None:
        self._dealt = DealtPositions.of(
            len(self.dataset),
            self._positions,
            rate=self.sample_rate,
            most=self._most,
            groups=1 if self._turns is None else self._turns.groups.groups,
            rank=self._rank,
            world=self._world,
            key=key,
        )
        self.physical_batch_size = views * self._dealt.places.size
        self.physical_batches = self._dealt.places.batches
        self.drawn = Drawn(views=views, padded=self._padded and not self._dealt.full)

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
        """The probability with which an example is in a batch, where groups take turns in one of its group's.

        It cannot be set: a ledger was charged for it.
        """
        return self._sample_rate

    @sample_rate.setter
    def sample_rate(self, rate: object) -> None:
        raise _fixed("sample_rate", rate)

    @property
    def padding(self) -> float:
        """About how much of what the model computes is padding (by a normal approximation): what the padding costs."""
        places = self._dealt.places
        return 1 - places.mean / (_ROOM if self._secret else 1.0) / places.places if self._padded else 0.0

    def __repr__(self) -> str:
        size = f"{self.physical_batch_size} rows, {100 * self.padding:.0f} % of them padding"
        shown_size = size if self._padded else f"at most {self.physical_batch_size} rows"
        turns = "" if self._turns is None else f" in one of {self._turns.groups.groups} turns"
        return (
            f"<PoissonLoader: rate {self.sample_rate:.6g}{turns}, {self.steps} steps, physical batches of {shown_size}>"
        )

    @property
    def most_examples(self) -> int:
        """How many examples a step can have here at most."""
        return self.physical_batches * self.physical_batch_size

    def __len__(self) -> int:
        """How many physical batches one iteration hands out: as many as there are steps, times those of a step.

        Raises:
            TypeError: Batches are not padded: then it depends on secret draws.
        """
        if not self._padded:
            raise NoLengthError(
                "a private loader without padding has no length, since how many physical batches come depends on "
                "secret draws: loader.steps is the number of steps, or leave pad_batches out."
            )
        return self.steps * self.physical_batches

    def __iter__(self) -> Iterator[Any]:
        own, reader = 0, object()
        try:
            for part, batch in self._batches():
                if not part.first and self.drawn.batch != own:
                    raise GuaranteeError(
                        "another iterator has begun a batch between two parts of this one: finish a batch before the "
                        "next."
                    )
                placed = torch.from_numpy(part.held >= 0)
                self.drawn.hand_out(
                    reader,
                    _tensors(batch),
                    placed,
                    first=part.first,
                    last=part.last,
                    private=part.private,
                    number=part.number,
                )
                own = self.drawn.batch
                self._warn_of_lengths(batch)
                yield batch
            if self.drawn.ahead:  # read through without training
                self.drawn.let_go(reader)
        except GeneratorExit:  # nobody will ask for more
            self.drawn.let_go(reader)
            raise

    def _batches(self) -> Iterator[tuple[_Part, Any]]:
        loader, views = self._loader, self.drawn.views
        # A subclass of TensorDataset may make other examples of its tensors.
        if type(self.dataset) is TensorDataset and loader.collate_fn is default_collate and not loader.num_workers:
            for part in self._parts():
                chosen = torch.from_numpy(part.each(views))
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
        asked: deque[_Part] = deque()
        batches = DataLoader(
            self.dataset,
            batch_sampler=_Lists(
                self._parts(), asked, self.steps * self.physical_batches, lambda part: part.examples(views)
            ),
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
            rows, examples = part.rows(views), len(part.examples(views))
            yield part, self._placing(batch, rows, examples) if self._padded else batch

    def _parts(self) -> Iterator[_Part]:
        """The physical batches of all steps."""
        number, turns = -1, self._turns
        for _ in range(self.steps):
            # Asked now: with workers, batches are drawn long before they are handed out.
            private = self._dealt.private and current_source().private
            if turns is not None:
                # Without workers the batch before is used or given up by now, and its number can be drawn for again.
                drawn_for = turns.next_number(number if self._loader.num_workers else -1)
                if drawn_for is None:
                    turns.end(begun=number >= 0)
                    return
                number = drawn_for
            group = 0 if turns is None else turns.group(number)
            held = self._dealt.draw(group, padded=self._padded)
            for at, each in enumerate(held):
                yield _Part(each, at == 0, at == len(held) - 1, private, number)

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


def _tensors(batch: object) -> list[Tensor]:
    leaves = pytree.tree_leaves(dict(batch) if hasattr(batch, "keys") else batch)  # type: ignore[call-overload]
    return [leaf for leaf in leaves if isinstance(leaf, Tensor) and leaf.ndim]


def _fixed(name: str, value: object) -> ArgumentError:
    return ArgumentError(
        f"{name} of a private loader is fixed, got {shown(value)}: call make_private again with a DataLoader of the "
        "batch_size that you want (and this accountant, which goes on counting)."
    )


class _Lists:
    """The lists of examples that a DataLoader asks for; what it has asked for is noted."""

    def __init__(
        self, parts: Iterator[_Part], asked: "deque[_Part]", length: int, examples: Callable[[_Part], list[int]]
    ) -> None:
        self._parts, self._asked, self._length, self._examples = parts, asked, length, examples

    def __iter__(self) -> Iterator[list[int]]:
        for part in self._parts:
            self._asked.append(part)
            yield self._examples(part)

    def __len__(self) -> int:
        return self._length
