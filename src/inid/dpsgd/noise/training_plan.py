"""What correlated noise gives a run, and what it takes, before anybody trains: `plan_training` and `correlation=`."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from inid import arguments
from inid.dpsgd.accountant import Accountant, noise_multiplier_for
from inid.dpsgd.noise.banded import Banded
from inid.dpsgd.sampling.cyclic_schedule import CyclicGroups
from inid.errors import ArgumentError
from inid.promises import ApproxDP

_PAYS = 0.95  # noise in the sums, over that of independent noise, from which on it is not worth the memory

_TRIED = tuple(2**k for k in range(8))  # up to 128 bands: the noise of so many steps is held


@dataclass(frozen=True)
class TrainingChoice:
    """One way of adding noise to a run."""

    correlation: Banded
    sampling: CyclicGroups
    noise_multiplier: float
    ratio: float
    single_step: float


@dataclass(frozen=True)
class TrainingPlan:
    """What `plan_training` returns; prints as a table.

    Attributes:
        steps: How many steps the run has.
        promise: What it may cost.
        choices: Independent noise first, then noise that is correlated over more and more steps.
        chosen: What was asked for, or the best of them.
    """

    steps: int
    promise: ApproxDP
    choices: tuple[TrainingChoice, ...]
    chosen: TrainingChoice

    def __str__(self) -> str:
        lines = [
            f"{'*' if each is self.chosen else ' '} {each.correlation.bands:5d}  {each.noise_multiplier:10.3f}  "
            f"{each.ratio:13.3f}  {each.single_step:11.3f}  {each.correlation.bytes_per_parameter:19d}"
            for each in self.choices
        ]
        return "\n".join(
            [
                f"{self.steps} steps at epsilon {self.promise.epsilon:g}, delta {self.promise.delta:g}",
                "",
                "  bands  multiplier  noise in sums  in one step  bytes per parameter",
                *lines,
                "",
                "* chosen; noise is over that of independent noise (1 band)",
            ]
        )


def plan_training(
    n: int,
    batch: int,
    epochs: int,
    epsilon: float,
    delta: float,
    *,
    correlation: Literal["auto"] | Banded | None = "auto",
    mechanism: Literal["gaussian"] = "gaussian",
    neighbours: Literal["zero_out", "add_remove"] = "zero_out",
) -> TrainingPlan:
    """Compare independent noise with noise that is correlated over the steps of a run, at the same promise.

    What is compared is the noise in the running sums of gradients, of which parameters are made. `make_private` takes
    the same `correlation`.

    Args:
        n: How many examples there are; with "add_remove", the public bound on their number.
        batch: The mean size of a batch.
        epochs: How often the run goes over the examples.
        epsilon: What the run may cost, with `delta`.
        delta: See `epsilon`.
        correlation: What to choose: "auto" (the least noise in the sums, or independent noise where that is not 5 %
            less), `Banded(bands)`, or None for independent noise.
        mechanism: Only "gaussian" noise is correlated.
        neighbours: "zero_out" or "add_remove", which cost the same.

    Returns:
        A TrainingPlan.

    Raises:
        ArgumentError: An argument is malformed, or names what correlated noise is not proven for.
        BudgetError: No noise keeps the promise.

    >>> made = plan_training(50_000, 500, 5, epsilon=8.0, delta=1e-5, correlation=Banded(bands=16))
    >>> print(made)
    500 steps at epsilon 8, delta 1e-05
    <BLANKLINE>
      bands  multiplier  noise in sums  in one step  bytes per parameter
          1       0.542          1.000        1.000                    0
    *    16       0.902          0.495        3.933                   60
    <BLANKLINE>
    * chosen; noise is over that of independent noise (1 band)
    """
    check_conditions(mechanism, neighbours)
    examples = arguments.integer("n", n, least=1, cure="pass how many examples there are")
    size = arguments.integer("batch", batch, least=1, cure="pass the mean size of a batch")
    rounds = arguments.integer("epochs", epochs, least=1, cure="pass how often the run goes over the examples")
    promise = ApproxDP(arguments.real("epsilon", epsilon, above=0, cure="pass what the run may cost"), delta)
    steps, rate = rounds * max(1, round(examples / size)), Fraction(size, examples)
    if isinstance(correlation, Banded):
        bands = [correlation.bands]
    else:
        if correlation is not None:
            arguments.choice("correlation", correlation, ("auto",))
        bands = tried_bands(rate, steps)
    choices = compared({1, *bands}, rate, steps, promise.epsilon, promise.delta)
    return TrainingPlan(steps, promise, choices, best_of(choices, correlation))


def tried_bands(sample_rate: Fraction, steps: int) -> list[int]:
    """What "auto" tries: the powers of two for which a group holds a batch, and a run is longer."""
    return [bands for bands in _TRIED if bands * sample_rate <= 1 and bands <= steps]


def compared(
    bands: Iterable[int],
    sample_rate: Fraction,
    steps: int,
    epsilon: float,
    delta: float,
    accountant: Accountant | None = None,
) -> tuple[TrainingChoice, ...]:
    """Strategies at the same promise, 1 band among them; what an accountant has counted is part of the promise."""
    turns = {each: CyclicGroups(sample_rate, each, steps) for each in sorted(bands)}
    needed = {
        each: noise_multiplier_for(
            target_epsilon=epsilon,
            target_delta=delta,
            sample_rate=plan.rate,
            steps=plan.blocks,
            accountant=accountant,
        )
        for each, plan in turns.items()
    }
    alone = needed[1] * Banded(1).error(steps)
    return tuple(
        TrainingChoice(
            Banded(each),
            turns[each],
            multiplier,
            multiplier * Banded(each).error(steps) / alone,
            multiplier * Banded(each).single_step(steps) / needed[1],
        )
        for each, multiplier in needed.items()
    )


def best_of(choices: Sequence[TrainingChoice], correlation: object) -> TrainingChoice:
    """The one that was asked for; for "auto" the one of least noise, or the first where that has not 5 % less."""
    if isinstance(correlation, Banded):
        return next(each for each in choices if each.correlation == correlation)
    best = min(choices, key=lambda each: each.ratio)
    return best if correlation == "auto" and best.ratio <= _PAYS else choices[0]


def check_conditions(mechanism: object, neighbours: object) -> None:
    """Refuse what the claim of `cyclic_schedule` does not cover."""
    if arguments.choice("mechanism", mechanism, ("gaussian", "laplace")) == "laplace":
        raise ArgumentError(
            "correlated noise is Gaussian: what one example adds to several releases has an l2 norm of 1, and an l1 "
            'norm of up to the root of the bands. Pass mechanism="gaussian".'
        )
    if arguments.choice("neighbours", neighbours, ("zero_out", "add_remove", "replace")) == "replace":
        raise ArgumentError(
            'correlated noise is accounted for under sampling, which does not cover neighbours="replace": pass '
            'neighbours="zero_out".'
        )


@dataclass(frozen=True)
class Correlation:
    """How the noise of a run is correlated; prints gains and costs.

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
    """What a run takes of `correlation=`; None where noise is to be independent."""
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
    candidates = {correlation.bands} if isinstance(correlation, Banded) else tried_bands(sample_rate, steps)
    choices = compared({1, *candidates}, sample_rate, steps, target[0], target[1], accountant)
    best: TrainingChoice = best_of(choices, correlation)
    bands = best.correlation.bands
    return Correlation(
        bands, best.sampling, best.noise_multiplier, best.ratio, best.single_step, (bands - 1) * bytes_held
    )
