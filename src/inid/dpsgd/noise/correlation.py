"""correlation=: what a run takes of it, and what that gives and costs."""

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from inid import arguments
from inid.dpsgd.accountant import Accountant
from inid.dpsgd.noise.banded import Banded
from inid.dpsgd.noise.training_plan import TrainingChoice, best_of, check_conditions, compared, tried_bands
from inid.dpsgd.sampling.cyclic_sampling import CyclicGroups
from inid.errors import ArgumentError

__all__ = ["Correlation", "chosen_correlation"]


@dataclass(frozen=True)
class Correlation:
    """How the noise of a run is correlated; prints what that gives and takes.

    Attributes:
        bands: Over how many steps; 1 where "auto" found that independent noise is as good.
        sampling: The groups that take turns: their rate, and how many rounds of turns are charged for.
        noise_multiplier: The scale of fresh noise over the norm of an example's gradient.
        ratio: The root mean squared error of the running sums of gradients, over that of independent noise at the same
            promise; None where no `target_epsilon` says which.
        single_step: The largest noise of a single step, over that of independent noise at the same promise; without
            `target_epsilon`, over fresh noise.
        memory: How many bytes the noise of the steps before takes, in all.

    >>> made = Correlation(16, CyclicGroups(Fraction(1, 100), 16, 500), 0.902, 0.495, 3.93, 60_000_000)
    >>> print(made)
    noise correlated over 16 steps: multiplier 0.902, 16 groups that take turns, each drawn from at the rate 0.16
    charged from the first step on: all 500 steps, as 32 rounds of turns
    noise in the running sums of gradients: 0.495 times that of independent noise at the same promise
    noise in a single step: up to 3.93 times that; Adam, which divides by it, wants a larger learning rate
    memory for the noise of 15 steps: 60 MB
    """

    bands: int
    sampling: CyclicGroups
    noise_multiplier: float
    ratio: float | None
    single_step: float
    memory: int

    def __str__(self) -> str:
        turns = self.sampling
        if self.bands == 1:
            return (
                f"independent noise, multiplier {self.noise_multiplier:.3g}: correlated noise would not have 5 % less "
                "in the running sums of gradients"
            )
        known = self.ratio is not None
        sums = f"{self.ratio:.3f} times that of independent noise at the same promise\n" if known else ""
        return (
            f"noise correlated over {self.bands} steps: multiplier {self.noise_multiplier:.3g}, {self.bands} groups "
            f"that take turns, each drawn from at the rate {turns.rate:.3g}\n"
            f"charged from the first step on: all {turns.steps} steps, as {turns.blocks} rounds of turns\n"
            f"{'noise in the running sums of gradients: ' if known else ''}{sums}"
            f"noise in a single step: up to {self.single_step:.2f} times {'that' if known else 'fresh noise'}; Adam, "
            f"which divides by it, wants a larger learning rate\n"
            f"memory for the noise of {self.bands - 1} steps: {self.memory / 1e6:.3g} MB"
        )


def chosen_correlation(
    correlation: Literal["auto"] | Banded | None,
    *,
    mechanism: str,
    exact: bool,
    adaptive: bool,
    steps: int | None,
    sample_rate: Fraction,
    noise_multiplier: float | None,
    target: tuple[float, float] | None,
    accountant: Accountant,
    bytes_held: int,
) -> Correlation | None:
    """What a run takes of `correlation=`; None where noise is to be independent.

    Args:
        correlation: What was asked for.
        mechanism: The noise.
        exact: Whether it is of the exact law.
        adaptive: Whether thresholds adapt.
        steps: How many steps the run has, if that is known.
        sample_rate: That of plain Poisson sampling.
        noise_multiplier: What was asked for, or None.
        target: Epsilon and delta, or None.
        accountant: What was spent before.
        bytes_held: What one row of noise takes.

    Raises:
        ArgumentError: It was asked for what the claim of `cyclic_sampling` does not cover, or for too many bands.
    """
    if correlation is None or correlation == Banded(1):
        return None
    if not isinstance(correlation, Banded):
        arguments.choice("correlation", correlation, ("auto",))
    check_conditions(mechanism, "zero_out")
    if steps is None:
        raise ArgumentError(
            "correlated noise is charged for all steps of a run, which is fixed in advance: pass steps= or epochs=."
        )
    if exact and adaptive:
        raise ArgumentError(
            'noise="exact" holds the noise of earlier steps in whole steps of one grid, and adaptive thresholds change '
            'the grid: pass fixed thresholds, or noise="torch".'
        )
    if target is None:
        if not isinstance(correlation, Banded) or noise_multiplier is None:
            raise ArgumentError(
                'correlation="auto" compares strategies at the same promise: pass target_epsilon and target_delta, or '
                "state the strategy, such as correlation=dpsgd.Banded(bands=16)."
            )
        groups = CyclicGroups(sample_rate, correlation.bands, steps)
        single = correlation.single_step(steps)
        memory = (correlation.bands - 1) * bytes_held
        return Correlation(correlation.bands, groups, noise_multiplier, None, single, memory)
    wanted = {correlation.bands} if isinstance(correlation, Banded) else tried_bands(sample_rate, steps)
    choices = compared({1, *wanted}, sample_rate, steps, target[0], target[1], accountant)
    best: TrainingChoice = best_of(choices, correlation)
    bands = best.correlation.bands
    return Correlation(
        bands, best.sampling, best.noise_multiplier, best.ratio, best.single_step, (bands - 1) * bytes_held
    )
