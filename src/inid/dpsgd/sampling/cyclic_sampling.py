"""Cyclic Poisson sampling: groups of examples take turns, and in its turn each example is drawn by a coin (T1).

N public positions are split into b groups, at random and once (`dealt_positions`). The step with the number t draws
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
  from a checkpoint: a run that crashes and counts again would draw one group more often than the others (`turns`);
- positions that are dealt at random, in secret, empty ones among them: then one example more, where their number is
  secret, leaves the law of the others' groups as it is;
- no new deal while noise of earlier steps is held: an example that changes its group comes twice in fewer than b steps.
  A new deal begins a new stage, with rounds of its own and nothing held;
- one coin for all that is one person's: here an example in its position;
- Gaussian noise: a column of l2 norm 1 has an l1 norm of up to sqrt(b);
- no "replace": an example that changes moves both ways, which subsampling does not account for.
"""

from dataclasses import dataclass
from fractions import Fraction

from inid import arguments
from inid.errors import ArgumentError

__all__ = ["CyclicGroups"]


@dataclass(frozen=True)
class CyclicGroups:
    """The public numbers of groups that take turns.

    Attributes:
        sample_rate: B / N, the rate of plain Poisson sampling with the same batches.
        groups: b, how many groups; at most N / B, so that the rate is at most 1.
        steps: T, how many steps the run has, fixed in advance.

    >>> turns = CyclicGroups(Fraction(50, 1000), groups=4, steps=90)
    >>> turns.rate, turns.blocks
    (0.2, 23)
    """

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
