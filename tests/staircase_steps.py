"""What a change costs under staircase noise, a wrong twin of a plan, and partitions, for tests by brute force."""

import itertools
from dataclasses import replace

import numpy as np

from inid.noise import BlockLaw


def steps_cost(plan, moved):
    """The sum over blocks of the steps that their farthest number takes, times their epsilon."""
    return sum(
        block.epsilon * np.ceil(moved[[*numbers]] / (np.array(law.reaches) * plan.grid[[*numbers]]) - 1e-9).max()
        for block, (numbers, law) in zip(plan.blocks, plan.drawn, strict=True)
    )


def with_shorter_steps(plan):
    """The same plan, with steps of blocks that are one tenth shorter."""
    return replace(
        plan,
        drawn=tuple(
            (numbers, BlockLaw(tuple(a * 9 // 10 for a in law.reaches), tuple(c // 2 for c in law.offsets), law.rho))
            for numbers, law in plan.drawn
        ),
    )


def partitions_of(rest):
    """All partitions of a list."""
    if not rest:
        yield []
        return
    for size in range(len(rest)):
        for others in itertools.combinations(rest[1:], size):
            for more in partitions_of([at for at in rest[1:] if at not in others]):
                yield [[rest[0], *others], *more]
