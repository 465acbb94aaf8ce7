"""Which examples a step draws, and at which places of its physical batches they stand: both are secret.

Kernels may round a row by its place in a physical batch (on a CPU by where in memory it begins), and where a last digit
decides, as at the edge of a ReLU, a whole gradient follows. So no example may decide where others stand. A step has

- N *positions* of the dataset, from which is drawn, and M *places*, K physical batches of one size: public numbers;
- a draw S: every position is drawn independently with probability q, and **a draw of more than M is thrown away whole
  and made again** (the first that fits is taken);
- a place for every drawn position, uniformly at random, no two alike. What is left over is padding.

**Claim.** Let the gradient of a row depend on nothing but its own content, its place and public numbers. Then a step
costs what Poisson sampling at the rate q costs: neither the redrawing nor the places cost anything.

*Why.* Take an example x, and call B the others in the draw and p the places where they stand.

1. A draw has the probability q^|S| (1 - q)^(N - |S|) / Z if |S| <= M, and 0 if not. Given B, the odds of x being drawn
   are therefore q : (1 - q) where |B| < M, and 0 where |B| = M: its probability r is q or 0, never more than q.
2. Of a uniform injection of B and x into M places the part that concerns B is a uniform injection of B. So p has the
   same law whether x is drawn or not, and given (B, p) x is still drawn with the probability r.
3. Given (B, p), the rows of the others are the same bit by bit whether x is drawn, and then stands at a place that
   would have been padding, or not: their clipped sum f is one number, and x adds g, with g within its thresholds.
4. The neighbour has nothing in the position of x. Its draws and places have the same law, and what is drawn of x adds
   nothing: given (B, p), its sum is f.

So the released sum is a mixture, over (B, p) with equal weights for both neighbours, of (1 - r) L(f) + r L(f + g)
against L(f), where L adds the noise. That is the pair of Poisson sampling at a rate r <= q, which the pair at the rate
q dominates ((1 - r) A + r C is a mixture of A and of (1 - q) A + q C). Hockey-stick divergences are jointly convex, so
a mixture of pairs costs at most the worst of them, and steps compose as before. With Laplace noise, several groups and
counts the same holds: only L differs.

**Why redrawing.** To drop the surplus of a draw instead makes x more likely than q where the others leave one place
(every larger draw ends there too), and lets x push another out. To take further physical batches puts the others into
other places. Both would have to be made so rare that their probability can be charged, which takes M up to nine
standard deviations above the mean. Here any room will do. One standard deviation is the choice: of a mean of 32 draws
of at most 40 have a mean of 31.1, so that 3 % of the signal go where two standard deviations cost a sixth of the time.

**A secret number of examples** (neighbours "add_remove"). The law of a redrawn sample depends on N a little. So N is a
public bound on the number of examples, and positions beyond them are empty: they are drawn like the others, take a
place, and are padding there. One example more fills an empty position, and the claim holds as it stands. (All positions
are alike, so it does not matter which one.)

**Several processes** draw each from their own positions. An example belongs to one of them, and the claim is about its.
Where the number of examples is public, the dataset's order says whose they are. Where it is secret, one example less
would move all behind it to other processes, and who fits beside whom would change: in order, a set of examples that is
never drawn whole, because it is more than its process has places, could be. So positions are dealt out at random, in
secret (`partition_examples`). The examples are then a uniform injection into all positions, and one example less leaves
the others, as with places, a uniform injection: given whose they are, the claim holds as it stands. All processes deal
by the same words, which follow from a secret of the first: with words of their own, two of them could hold one example,
which would then count twice.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from inid.errors import GuaranteeError
from inid.noise import RandomSource, current_source
from inid.noise.source import SharedSource

# A draw fits with probability 1/2 at least (Cantelli's inequality for one standard deviation), so that this many in a
# row do not fit with probability 2^-1000 at most: the source of randomness would be broken.
_TRIES = 1000


@dataclass(frozen=True)
class StepPlaces:
    """The public numbers of a step in one process."""

    positions: int
    rate: float
    size: int
    batches: int

    @classmethod
    def fitted(cls, positions: int, rate: float, most: int | None = None) -> "StepPlaces":
        """Places for draws up to one standard deviation above the mean, or more."""
        capacity = positions * rate + math.sqrt(positions * rate * (1 - rate))
        needed = min(math.ceil(capacity * (1 - 2.0**-40)), positions)
        if most is None:
            return cls(positions, rate, min(_round(needed), positions), 1)
        batches = -(-needed // most)
        return cls(positions, rate, most if batches == 1 else min(_round(-(-needed // batches)), most), batches)

    @property
    def places(self) -> int:
        """How many places all physical batches have together."""
        return self.size * self.batches

    @property
    def mean(self) -> float:
        """About how many positions are drawn, among draws that fit (by a normal approximation)."""
        mean, deviation = self.positions * self.rate, math.sqrt(self.positions * self.rate * (1 - self.rate))
        if not deviation:
            return mean
        above = (self.places + 0.5 - mean) / deviation
        fits = math.erfc(-above / math.sqrt(2)) / 2
        return mean - deviation * math.exp(-(above**2) / 2) / math.sqrt(2 * math.pi) / fits

    def draw(self) -> NDArray[np.int64]:
        """The position that stands at each place of each physical batch, or -1 where there is none."""
        for _ in range(_TRIES):
            drawn = np.flatnonzero(bernoulli(self.positions, self.rate))
            if drawn.size <= self.places:
                at_places = np.full(self.places, -1, dtype=np.int64)
                at_places[random_places(drawn.size, self.places)] = drawn
                return at_places.reshape(self.batches, self.size)
        raise GuaranteeError(
            f"{_TRIES} draws in a row did not fit into the physical batches, which cannot be: the source of random "
            "numbers is broken."
        )


def _round(size: int) -> int:
    """A size rounded up to what kernels like."""
    step = 1 if size <= 16 else 8 if size <= 512 else 32
    return step * -(-size // step)


def bernoulli(size: int, rate: float) -> NDArray[np.bool_]:
    """Independent draws that are True with probability floor(rate 2^64) / 2^64, never more than the rate."""
    limit = math.floor(rate * 2**64)
    if limit >= 2**64:
        return np.ones(size, dtype=np.bool_)
    return np.asarray(current_source().words(size) < np.uint64(limit))


def random_places(count: int, places: int, source: RandomSource | None = None) -> NDArray[np.int64]:
    """So many different places, uniformly at random: the first entries of a random order of all of them.

    With the same random words, one more keeps the places of those before it.
    """
    while True:
        words = (source or current_source()).words(places)
        order = np.argsort(words)
        if bool((np.diff(words[order]) > 0).all()):  # equal words would leave their order to the sorting
            return order[:count]


def partition_examples(examples: int, positions: int, *, rank: int, world: int, key: int | None) -> NDArray[np.int64]:
    """The examples of one process, one per position, and -1 for the positions that are empty."""
    everyone = np.full(positions * world, -1, dtype=np.int64)
    if key is None:
        everyone[:examples] = np.arange(examples)
    else:
        everyone[random_places(examples, everyone.size, SharedSource(key))] = np.arange(examples)
    return everyone[rank::world]


@dataclass(frozen=True, eq=False, repr=False)
class RandomPartition:
    """The examples of a process in their positions, in one group or in several that take turns.

    With several groups, or with several processes and a secret number of examples, positions are dealt out by a secret
    key, empty ones among them: one example more or less then leaves the law of the others' groups as it is. Who is in
    which group stays as it is for as long as this value lives. It is secret, and never stored or shown.
    """

    places: StepPlaces
    members: tuple[NDArray[np.int64], ...]
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
    ) -> "RandomPartition":
        """Deal out positions."""
        places = StepPlaces.fitted(-(-positions // (world * groups)), rate, most)
        positions_here = partition_examples(examples, places.positions * groups, rank=rank, world=world, key=key)
        members = tuple(np.append(positions_here[at::groups], -1) for at in range(groups))
        return cls(places, members, key is None or current_source().private)

    def examples_of(self, group: int) -> NDArray[np.int64]:
        """The examples of a group."""
        return self.members[group][self.members[group] >= 0]

    @property
    def full(self) -> bool:
        """Whether every draw takes every example, and there is no padding."""
        every = all(self.examples_of(group).size == self.places.places for group in range(len(self.members)))
        return self.places.rate == 1 and every

    def draw(self, group: int, *, padded: bool) -> list[NDArray[np.int64]]:
        """What a step draws from a group: by physical batch, the example at each place, or -1 for padding."""
        if padded:
            return list(self.members[group][self.places.draw()])
        members = self.examples_of(group)
        chosen = members[bernoulli(members.size, self.places.rate)]
        cuts = range(self.places.size, chosen.size, self.places.size)
        return np.split(chosen, cuts) if chosen.size else [np.array([-1])]

    def __repr__(self) -> str:
        return f"<RandomPartition: {len(self.members)} groups of {self.places.positions}>"
