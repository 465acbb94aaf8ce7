"""Cyclic Poisson sampling: groups of examples take turns, and in its turn each example is drawn by a coin (T1).

N public positions are split into b groups: position p is in group p mod b, once for the whole run. The step with the
number t draws from group t mod b alone, every position by itself with **one probability q = b B / N in every group**.

**Claim.** T steps with the noise of `banded`, of b bands and scale sigma, cost at most ceil(T/b) Poisson-subsampled
Gaussian steps of rate q at the multiplier sigma. Neighbours differ by one example that becomes nothing in its position
("zero_out"), or by one position that is filled or empty ("add_remove").

*Why.* Condition on everybody else's coins. The columns of C in whose steps an example can take part are b apart, so
they fill disjoint blocks of releases. Within a block all else is a known function of earlier releases; what is left is
(coin) c g + z with |c| <= 1 and |g| <= 1: one subsampled Gaussian. The blocks compose, each chosen by what came before.

**What it needs**, each with what goes wrong without it:

- turns. With plain Poisson sampling columns overlap: at rate 0.2, T = 9 and b = 3, delta(3) is 0.0177, not 0.0127;
- one rate. Groups whose sizes differ by one keep it, and so their draws differ in size. Drawn at B / |group|, the
  smaller group's examples would be drawn more often than charged (5 examples, b = 2: delta 0.117, not 0.072);
- groups that follow from positions and numbers alone. The number of a step is that of its lease, never one counted
  from a checkpoint: a run that crashes and counts again would draw one group more often than the others;
- with a secret number of examples, positions that are dealt at random, in secret, empty ones among them (`dealt`): then
  one example more leaves the law of the others' groups as it is;
- one coin for all that is one person's: here an example in its position;
- Gaussian noise: a column of l2 norm 1 has an l1 norm of up to sqrt(b);
- no "replace": an example that changes moves both ways, which subsampling does not account for.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from inid import arguments
from inid.dpsgd.sampling.poisson_draw import bernoulli
from inid.errors import ArgumentError, GuaranteeError

__all__ = ["CyclicGroups"]


@dataclass(frozen=True)
class CyclicGroups:
    """Groups of public positions that take turns, and the one rate at which all are drawn.

    Attributes:
        positions: N, how many positions there are, empty ones among them.
        batch: B, the expected size of a batch.
        groups: b, how many groups; at most N / B, so that the rate is at most 1.
        steps: T, how many steps the run has, fixed in advance.

    >>> turns = CyclicGroups(positions=1000, batch=50, groups=4, steps=90)
    >>> turns.rate, turns.blocks
    (0.2, 23)
    >>> turns.members(7)[:3]
    array([ 3,  7, 11])
    """

    positions: int
    batch: int
    groups: int
    steps: int

    def __post_init__(self) -> None:
        for name, cure in _CURES.items():
            object.__setattr__(self, name, arguments.integer(name, getattr(self, name), least=1, cure=cure))
        if self.groups * self.batch > self.positions:
            raise ArgumentError(
                f"there can be at most {self.positions // self.batch} groups (bands) for batches of {self.batch} out "
                f"of {self.positions} examples, got {self.groups}: a group must hold a batch. Pass fewer bands or a "
                "smaller batch."
            )

    @property
    def rate(self) -> float:
        """The probability with which a position is drawn in its group's turn."""
        return self.groups * self.batch / self.positions

    @property
    def blocks(self) -> int:
        """How often an example's group has its turn, at most: what is charged for."""
        return -(-self.steps // self.groups)

    def members(self, number: int) -> NDArray[np.int64]:
        """The positions whose turn it is in the step of this number, from 0.

        Raises:
            GuaranteeError: The run has no step of this number: it was planned and charged for fewer.
        """
        if not 0 <= number < self.steps:
            raise GuaranteeError(
                f"the run was charged for steps 0 to {self.steps - 1}, and step {number} is none of them: going on is "
                "a new stage, with a charge of its own."
            )
        return np.arange(number % self.groups, self.positions, self.groups)

    def draw(self, number: int) -> NDArray[np.int64]:
        """The positions that the step of this number draws, from secret randomness; there may be none.

        >>> CyclicGroups(positions=6, batch=3, groups=2, steps=2).draw(1)
        array([1, 3, 5])
        """
        own = self.members(number)
        return own[bernoulli(own.size, self.rate)]


_CURES = {
    "positions": "pass how many examples there are",
    "batch": "pass the mean size of a batch",
    "groups": "pass how many groups take turns",
    "steps": "pass how many steps the run has",
}
