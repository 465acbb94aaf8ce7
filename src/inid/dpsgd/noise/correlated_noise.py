"""Correlated noise: the noise of a step takes back part of the noise of the steps before it, which is kept.

Step t of a run releases its clipped sums x_t as

    x_t + S_t w_t,    w_t = (z_t - c_1 w_(t-1) - ... - c_(b-1) w_(t-b+1)) / c_0,

where z_t is fresh noise of scale 1, S_t the scales of the step's plan, and c the coefficients of `banded`. So C acts on
x_t / S_t, in units in which the plan has one level in every step (T3): thresholds and scales may change with what was
released, and plans of several groups stay as they are. The counts that adaptive thresholds follow get independent noise
by their share of the level: columns of one entry, to which the claim applies as well.

**Steps must follow one another.** Where the last step was not t - 1 nothing is kept, and the noise begins anew, which
makes C block-diagonal: no column gets longer, and no two participations closer. Noise of other steps in those places
would bring participations closer than b steps, or release the noise of one step twice. A step that draws nobody counts
too. What is kept is as secret as the gradients: whoever knows w_t knows x_t.
"""

import math
import warnings
from dataclasses import replace
from functools import partial
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from inid.accounting.training_runs import Segment
from inid.dpsgd.accountant import Accountant, ChargedRun
from inid.dpsgd.kernels import grad_sample_kernels
from inid.dpsgd.noise.banded import Banded
from inid.dpsgd.noise.step_noise import QUANTUM, add_scaled, quanta_of, recorded, standard_noise
from inid.dpsgd.noise.training_plan import Correlation
from inid.dpsgd.parallel import Processes
from inid.dpsgd.sampling.batch_state import BatchState
from inid.dpsgd.sampling.cyclic_schedule import CyclicSchedule
from inid.dpsgd.sampling.poisson_loader import PoissonLoader
from inid.errors import ArgumentError, GuaranteeError
from inid.noise import add_noise, current_source
from inid.noise.source import Single, forget_after_fork
from inid.planning import NoisePlan

StepKey = tuple[int, int]  # the stage of a run, and the number of a step in it

_LONGEST = 2.0**51  # quanta that leave room for noise below 2^53, to which float64 counts

_BITS = 8  # of whole coefficients: they cost 0.003 % of the error


class RunNoise(Protocol):
    """What adds noise to the sums of a run, step after step."""

    def noisy(self, sums: Tensor, noise_plan: NoisePlan, counts: list[int] | None, step_key: StepKey) -> Tensor:
        """The sums with the noise of a step, by the plan; `counts` as in `add_planned_noise`."""
        ...

    def forget(self) -> None:
        """Drop the noise of earlier steps."""
        ...


class NoiseHistory(Single):
    """The noise of the last steps, to be added with their coefficients; dropped where a step does not follow them."""

    refusal = "the noise of earlier steps is secret, and serves one run: it is not copied or pickled."

    def __init__(self, coefficients: NDArray[np.float64]) -> None:
        self._coefficients = coefficients if coefficients.size else np.zeros(1)  # a run of one step has none
        self._vectors: Tensor | None = None
        self._turned = torch.empty(0)  # the coefficients of all places, for each place that may be the oldest
        self._oldest = 0
        self._last: StepKey | None = None
        forget_after_fork(self)

    def before(self, like: Tensor, step_key: StepKey) -> tuple[Tensor, Tensor]:
        """The noise of the steps before, as columns, and its coefficients; zeros where this step does not follow them.

        Until `keep` is called nothing counts as kept: a step that is interrupted has no next one.
        """
        stage, number = step_key
        if self._last != (stage, number - 1):
            self.forget()
        self._last = None
        if self._vectors is None:
            places = len(self._coefficients)
            self._vectors = like.new_zeros(places, like.numel())
            # With the oldest noise at place k, that at place s is of (k - s - 1) mod places + 1 steps before.
            ages = np.subtract.outer(np.arange(places), np.arange(places) + 1) % places
            self._turned = torch.from_numpy(self._coefficients[ages]).to(like)
            self._oldest = 0
        return self._vectors.t(), self._turned[self._oldest]

    def mix(self, fresh: Tensor, scale: float, step_key: StepKey) -> None:
        """Add the noise of the steps before to fresh noise times a scale, in place, and keep the result."""
        vectors, weights = self.before(fresh, step_key)
        if grad_sample_kernels.mixed(fresh, vectors.t(), weights, scale, self._oldest):
            self._advance(step_key)
        else:
            self.keep(fresh.addmv_(vectors, weights, beta=scale), step_key)

    def keep(self, values: Tensor, step_key: StepKey) -> None:
        """Keep the noise of this step, in place of the oldest."""
        assert self._vectors is not None  # noqa: S101 - for the type checker
        self._vectors[self._oldest] = values
        self._advance(step_key)

    def _advance(self, step_key: StepKey) -> None:
        assert self._vectors is not None  # noqa: S101 - as above
        self._oldest = (self._oldest + 1) % len(self._vectors)
        self._last = step_key

    def forget(self) -> None:
        """Drop all noise that is kept."""
        self._vectors, self._last = None, None

    def __repr__(self) -> str:
        return f"<NoiseHistory: {len(self._coefficients)}>"

    def _after_fork(self) -> None:
        self.forget()


class CorrelatedNoise:
    """Floating-point noise of a run, in its units: the w_t are kept in the sums' own precision."""

    def __init__(self, coefficients: NDArray[np.float64]) -> None:
        self._first = 1 / float(coefficients[0])
        self._history = NoiseHistory(-coefficients[1:] / coefficients[0])
        self._bands = len(coefficients)

    def noisy(self, sums: Tensor, noise_plan: NoisePlan, counts: list[int] | None, step_key: StepKey) -> Tensor:
        """The sums with the noise of a step."""
        return recorded(sums, noise_plan, counts, partial(self._noisy, sums, noise_plan, counts, step_key))

    def _noisy(self, sums: Tensor, noise_plan: NoisePlan, counts: list[int] | None, step_key: StepKey) -> Tensor:
        if current_source().silent:
            return sums.clone()
        fresh = standard_noise(sums, noise_plan.mechanism)
        self._history.mix(fresh, self._first, step_key)
        return add_scaled(fresh, sums, noise_plan, counts)

    def forget(self) -> None:
        """Drop the noise of earlier steps."""
        self._history.forget()

    def __repr__(self) -> str:
        return f"<CorrelatedNoise: {self._bands} bands>"


class ExactCorrelatedNoise:
    """Noise of the exact law (T4, exact form): whole coefficients k, and noise that is kept without rounding.

    x_t are whole quanta, since gradients are cut to them one by one (`Rule.quanta`). Released is

        u_t = k_0 x_t + sum_r k_r d_(t-r) + noise of the exact law, of scale S |k|, rounded to its grid,
        v_t = u_t / k_0, rounded to whole quanta: what the optimizer gets;   d_t = x_t - v_t: held.

    k_0 x_t + sum k_r d_(t-r) differs from the row of a banded matrix applied to x by earlier v, which are known: given
    what was released before, u_t is a function of that row with continuous noise. For that d_t has to be exact, and is:
    whole quanta, below 2^53 of them. To round d_t, or to let x_t lie between quanta, would add an error that depends on
    the data and is fed back in every later step.
    """

    def __init__(self, coefficients: NDArray[np.float64]) -> None:
        self._whole = whole_coefficients(coefficients)
        # The root of a whole number, rounded up.
        self._length = math.nextafter(math.sqrt(sum(k * k for k in self._whole)), math.inf)
        self._history = NoiseHistory(np.array(self._whole[1:], dtype=np.float64))

    def check(self, examples: int, multiplier: float) -> None:
        """Refuse batches whose sums could be too long to be held without rounding.

        An example adds at most its threshold to an entry, which is at most 1/multiplier scales and so 2^17 times as
        many quanta. What is held besides is noise: 2^20 scales of it would take a probability of exp(-2^39).
        """
        most = 2.0 / QUANTUM / multiplier * examples * self._whole[0]
        if not most < _LONGEST:
            raise ArgumentError(
                f'sums over up to {examples} examples may be too long for noise="exact" beside correlation=: pass a '
                'smaller batch, more noise, or noise="torch".'
            )

    def noisy(self, sums: Tensor, noise_plan: NoisePlan, counts: list[int] | None, step_key: StepKey) -> Tensor:
        """The sums with the noise of a step."""
        return recorded(sums, noise_plan, counts, partial(self._noisy, sums, noise_plan, counts, step_key))

    def _noisy(self, sums: Tensor, noise_plan: NoisePlan, counts: list[int] | None, step_key: StepKey) -> Tensor:
        here = [count for _, count in noise_plan.runs] if counts is None else counts
        quanta = torch.from_numpy(np.repeat(quanta_of(noise_plan), here))
        scales = np.repeat([math.nextafter(scale * self._length, math.inf) for scale, _ in noise_plan.runs], here)
        exact, first = sums.double().cpu(), float(self._whole[0])
        vectors, weights = self._history.before(exact, step_key)
        # Whole quanta below 2^53: exact in whatever order they are added.
        shifted = torch.addmv(exact, vectors, weights, beta=first)
        noisy = torch.from_numpy(add_noise(shifted.numpy(), scales, noise_plan.mechanism))
        released = noisy.div_(first).div_(quanta).round_().mul_(quanta)
        self._history.keep(exact - released, step_key)
        return released.to(sums.device)

    def forget(self) -> None:
        """Drop the noise of earlier steps."""
        self._history.forget()

    def __repr__(self) -> str:
        return f"<ExactCorrelatedNoise: {self._whole}>"


def whole_coefficients(coefficients: NDArray[np.float64]) -> list[int]:
    """Coefficients in whole 256ths."""
    return [round(each * 2**_BITS) for each in coefficients.tolist()]


class CorrelatedRun:
    """What a step of a run with correlated noise goes through: its turn is paid for, then its noise is drawn.

    The accountant is charged for all rounds of a stage at its first step: a run that stops has cost as much. Rounds are
    leased from a ledger one after another, so stages of one charge share its rounds. Without a ledger nobody knows how
    far a run had come that goes on from a checkpoint: its stage is charged as a whole again.
    """

    def __init__(
        self,
        correlation: Correlation,
        run: Segment,
        schedule: CyclicSchedule,
        noise: RunNoise,
        processes: Processes,
        *,
        before: int,
    ) -> None:
        self.correlation, self.schedule, self._processes = correlation, schedule, processes
        self.run, self._noise, self._before = run, noise, before
        self._counted: int | None = None  # the stage that the accountant was charged for
        self._step_key: StepKey = (-1, -1)

    @classmethod
    def of(
        cls,
        correlation: Correlation | None,
        run: Segment | None,
        loader: PoissonLoader,
        processes: Processes,
        *,
        exact: bool,
        before: int,
    ) -> "CorrelatedRun | None":
        """Let a loader draw from groups in turns, as the correlation needs; None where noise is independent."""
        if correlation is None or run is None:
            return None
        processes.agree(correlation)  # what "auto" found too, before some of them wait for a key
        if correlation.bands == 1:
            return None
        schedule = CyclicSchedule(correlation.sampling, alone=processes.world == 1)
        loader.follow_schedule(schedule, processes.on_first(lambda: current_source().bits(128)))
        rounds = replace(run, sample_rate=loader.sample_rate, steps=correlation.sampling.blocks)
        coefficients = Banded(correlation.bands).coefficients(correlation.sampling.steps)
        noise: RunNoise = CorrelatedNoise(coefficients)
        if exact:
            noise = ExactCorrelatedNoise(coefficients)
            noise.check(loader.most_examples * processes.world, run.noise_multiplier)
        return cls(correlation, rounds, schedule, noise, processes, before=before)

    def pay(self, drawn: BatchState, accountant: Accountant, charged: ChargedRun | None, *, private: bool) -> None:
        """Take the turn of the batch that is out; the first of a round leases it, the first of a stage is charged."""
        drawn.close()
        self._agree((self.schedule.stage, drawn.number))
        self.schedule.check(drawn.number)
        if charged is not None and self.schedule.begins_round(drawn.number):
            charged.take_step()
        if self._counted is None or (charged is None and self._counted != self.schedule.stage):
            run = self.run
            accountant.step(
                mechanism=run.mechanism,
                noise_multiplier=run.noise_multiplier,
                sample_rate=run.sample_rate,
                neighbours=run.neighbours,
                steps=run.steps,
            )
        accountant.private = accountant.private and private
        self._counted = self.schedule.stage
        self.schedule.take(drawn.number)
        self._step_key = (self.schedule.stage, drawn.number)

    def _agree(self, step_key: StepKey) -> None:
        """Refuse steps that differ between processes: noise follows one's, and so must the examples of all others."""
        if not self._processes.all_have(step_key):
            raise GuaranteeError(
                f"the batch was drawn for step {step_key[1]}, and that of another process for another, or since "
                "another checkpoint: noise would not be that of their turns. Step on every batch in all processes, and "
                "load a checkpoint in all of them."
            )

    def noisy(self, sums: Tensor, noise_plan: NoisePlan, counts: list[int] | None) -> Tensor:
        """The sums of the step that was paid for last, with its noise."""
        return self._noise.noisy(sums, noise_plan, counts, self._step_key)

    def resume(self, accountant: Accountant, charged: ChargedRun | None) -> None:
        """Begin a new stage after a checkpoint was loaded: noise of the steps before is dropped."""
        self._noise.forget()
        if charged is not None and charged.charge is not None:
            self._counted = self.schedule.stage  # the accountant's record, which was loaded, holds the charge
            self.schedule.begin_stage(charged.left())
            return
        self.schedule.begin_stage(self.run.steps)
        if charged is None and accountant.steps > self._before:
            self._counted = None
            warnings.warn(
                "this run goes on from a checkpoint without a ledger, which would know which turns were taken since: "
                f"it counts as a new stage of {self.schedule.steps} steps, and its first step is charged for all. "
                "Pass ledger= to make_private from the beginning, so that a run can go on within its charge.",
                stacklevel=3,
            )
