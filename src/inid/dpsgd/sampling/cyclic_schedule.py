"""Cyclic Poisson sampling: groups of examples take turns, and in its turn each example is drawn by a coin (T1).

N public positions are split into b groups, at random and once (`RandomPartition`). The step with the number t draws
from group t mod b alone, every position by itself with **one probability q = b B / N in every group**.

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
  from a checkpoint (`CyclicSchedule`): a run that crashes and counts again would draw one group more often than others;
- positions that are dealt at random, in secret, empty ones among them: then one example more, where their number is
  secret, leaves the law of the others' groups as it is;
- no new deal while noise of earlier steps is held: an example that changes its group comes twice in fewer than b steps.
  A new deal begins a new stage, with rounds of its own and nothing held;
- one coin for all that is one person's: here an example in its position;
- Gaussian noise: a column of l2 norm 1 has an l1 norm of up to sqrt(b);
- no "replace": an example that changes moves both ways, which subsampling does not account for.
"""

import warnings
from dataclasses import dataclass
from fractions import Fraction

from inid import arguments
from inid.errors import ArgumentError, GuaranteeError
from inid.noise.source import Single, forget_after_fork


@dataclass(frozen=True)
class CyclicGroups:
    """The public numbers of groups that take turns."""

    sample_rate: Fraction
    groups: int
    steps: int

    def __post_init__(self) -> None:
        for name, cure in _CURES.items():
            object.__setattr__(self, name, arguments.integer(name, getattr(self, name), least=1, cure=cure))
        if not self.groups * self.sample_rate <= 1:
            raise ArgumentError(
                f"there can be at most {max(1, int(1 / self.sample_rate))} groups (bands), the number of batches in "
                f"all examples, got {self.groups}: a group must hold a batch. Pass fewer bands or a smaller batch."
            )

    @property
    def rate(self) -> float:
        """The probability with which a position is drawn in its group's turn."""
        return float(self.groups * self.sample_rate)

    @property
    def blocks(self) -> int:
        """How often an example's group has its turn, at most: what is charged for."""
        return -(-self.steps // self.groups)


_CURES = {
    "groups": "pass how many groups take turns",
    "steps": "pass how many steps the run has",
}


class CyclicSchedule(Single):
    """The numbers of the steps of a run, and which of them have been taken.

    The step of the number t draws from group t mod b. A *round* is b numbers in a row, the turns of all groups: in it
    every example takes part once at most. Rounds are what is charged and leased. The first step of a round leases it,
    so **an example takes part at most as often as rounds were leased**, whatever crashes, and whatever of a round is
    never taken.

    Numbers begin again at 0 with every *stage*: where a run begins, after a checkpoint was loaded, and in a forked
    child. A stage begins a round of its own, with nothing left of the noise before it: then it does not matter whether
    its groups are those of the stage before.

    A number is taken by a step, not by a draw: a batch that was drawn and not trained on is drawn anew.
    """

    refusal = "the turns of a run are counted once: they are not copied or pickled. Call make_private in each process."

    def __init__(self, groups: CyclicGroups, *, alone: bool) -> None:
        self.groups, self._alone = groups, alone
        self.stage = -1
        self.begin_stage(groups.blocks)
        forget_after_fork(self)

    def begin_stage(self, rounds: int) -> None:
        """Begin again at 0, with so many rounds at most."""
        self.stage += 1
        self.next, self._round = 0, -1
        self.steps = min(self.groups.steps, rounds * self.groups.groups)

    def next_number(self, last: int) -> int | None:
        """The number of the next draw, where `last` is the last that is drawn for; None if the stage has no more."""
        number = max(self.next, last + 1)
        return number if number < self.steps else None

    def end(self, *, begun: bool) -> None:
        """Say that the stage has no more steps, in an iteration that has begun or is to begin."""
        if not begun:
            raise GuaranteeError(
                f"all {self.groups.steps} steps of this run have been taken, or were lost with leases, and it was "
                "charged for no more: call make_private again, with this accountant, for a new stage."
            )
        if self.steps < self.groups.steps:
            warnings.warn(
                f"the run ends {self.groups.steps - self.steps} steps early: whenever it was interrupted, the rest of "
                "the round was lost.",
                stacklevel=4,
            )

    def group(self, number: int) -> int:
        """The group whose turn it is."""
        return number % self.groups.groups

    def begins_round(self, number: int) -> bool:
        """Whether a step is the first of its round that is taken: then the round is to be paid for."""
        return number // self.groups.groups != self._round

    def check(self, number: int) -> None:
        """Refuse a step whose turn is over, or has not come."""
        if not (self.next <= number < self.steps):
            raise GuaranteeError(
                f"the batch was drawn for step {number} of a run of {self.steps}, whose turn is over: its examples "
                "would take part more often than charged. Train on each batch before the next is drawn, from one "
                "iterator over the data_loader at a time."
            )
        if number > self.next and not self._alone:
            raise GuaranteeError(
                f"the batch was drawn for step {number}, and step {self.next} was passed over, in one of several "
                "processes: groups take turns in all of them together. Step on every batch."
            )

    def take(self, number: int) -> None:
        """Note that a step is taken."""
        self.check(number)
        self.next, self._round = number + 1, number // self.groups.groups

    def _after_fork(self) -> None:
        self.begin_stage(self.groups.blocks)
