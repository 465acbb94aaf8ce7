"""Whose turn it is: the steps of a run with cyclic sampling, numbered, and the rounds in which they are paid for."""

import warnings

from inid.dpsgd.sampling.cyclic_sampling import CyclicGroups
from inid.errors import GuaranteeError
from inid.noise.source import Single, forget_after_fork

__all__ = ["Turns"]


class Turns(Single):
    """The numbers of the steps of a run, and which of them have been taken.

    The step of the number t draws from group t mod b. A *round* is b numbers in a row, the turns of all groups: in it
    every example takes part once at most. Rounds are what is charged and leased. The first step of a round leases it,
    so **an example takes part at most as often as rounds were leased**, whatever crashes, and whatever of a round is
    never taken.

    Numbers begin again at 0 with every *stage*: where a run begins, after a checkpoint was loaded, and in a forked
    child. A stage begins a round of its own, with nothing left of the noise before it: then it does not matter whether
    its groups are those of the stage before.

    A number is taken by a step, not by a draw: a batch that was drawn and not trained on is drawn anew.

    Args:
        groups: The groups that take turns.
        alone: Whether one process trains; several must take all numbers, one after another, to stay together.

    Attributes:
        groups: The groups.
        stage: How often numbers have begun again.
        next: The first number that has not been taken.
        steps: How many there are in this stage.

    >>> from fractions import Fraction
    >>> turns = Turns(CyclicGroups(Fraction(1, 20), groups=4, steps=6), alone=True)
    >>> turns.next_number(-1), turns.next_number(2), turns.begins_round(3)
    (0, 3, True)
    >>> turns.take(3)
    >>> turns.next, turns.begins_round(4), turns.group(7)
    (4, True, 3)
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
        found = max(self.next, last + 1)
        return found if found < self.steps else None

    def end(self, *, begun: bool) -> None:
        """Say that the stage has no more steps, in an iteration that has begun or is to begin.

        Raises:
            GuaranteeError: It is to begin: nothing would be trained.
        """
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
        """Refuse a step whose turn is over, or has not come.

        Raises:
            GuaranteeError: It is.
        """
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
