"""The positions from which a process draws, group by group: who stands in them is decided once, before any draw."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from inid.dpsgd.sampling.poisson_draw import StepPlaces, bernoulli, dealt
from inid.noise import current_source

__all__ = ["DealtPositions"]


@dataclass(frozen=True, eq=False, repr=False)
class DealtPositions:
    """The examples of a process in their positions, in one group or in several that take turns.

    With several groups, or with several processes and a secret number of examples, positions are dealt out by a secret
    key, empty ones among them: one example more or less then leaves the law of the others' groups as it is. Who is in
    which group stays as it is for as long as this value lives. It is secret, and never stored or shown.

    Attributes:
        places: The public numbers of a step: each group has as many positions.
        held: By group, the example in each position, -1 where it is empty, and once more -1 at the end.
        private: Whether the key, where there is one, was secret.

    >>> made = DealtPositions.of(5, 5, rate=0.4, groups=2, key=2**100)
    >>> [len(each) - 1 for each in made.held], sorted(np.concatenate([made.own(0), made.own(1)]).tolist())
    ([3, 3], [0, 1, 2, 3, 4])
    """

    places: StepPlaces
    held: tuple[NDArray[np.int64], ...]
    private: bool

    @classmethod
    def of(
        cls,
        examples: int,
        positions: int,
        *,
        rate: float,
        most: int | None = None,
        groups: int = 1,
        rank: int = 0,
        world: int = 1,
        key: int | None = None,
    ) -> "DealtPositions":
        """Deal out positions.

        Args:
            examples: How many examples there are.
            positions: How many positions there are, in all processes and groups together.
            rate: The probability with which each is drawn, in its group's turn.
            most: See `StepPlaces.fitted`.
            groups: How many groups there are.
            rank: The process.
            world: How many processes there are.
            key: A secret number, the same in all processes; None deals in order.
        """
        places = StepPlaces.fitted(-(-positions // (world * groups)), rate, most)
        own = dealt(examples, places.positions * groups, rank=rank, world=world, key=key)
        held = tuple(np.append(own[at::groups], -1) for at in range(groups))
        return cls(places, held, key is None or current_source().private)

    def own(self, group: int) -> NDArray[np.int64]:
        """The examples of a group."""
        return self.held[group][self.held[group] >= 0]

    @property
    def full(self) -> bool:
        """Whether every draw takes every example, and there is no padding."""
        every = all(self.own(group).size == self.places.places for group in range(len(self.held)))
        return self.places.rate == 1 and every

    def draw(self, group: int, *, padded: bool) -> list[NDArray[np.int64]]:
        """What a step draws from a group: by physical batch, the example at each place, or -1 for padding."""
        if padded:
            return list(self.held[group][self.places.draw()])
        own = self.own(group)
        chosen = own[bernoulli(own.size, self.places.rate)]
        cuts = range(self.places.size, chosen.size, self.places.size)
        return np.split(chosen, cuts) if chosen.size else [np.array([-1])]

    def __repr__(self) -> str:
        return f"<DealtPositions: {len(self.held)} groups of {self.places.positions}>"
