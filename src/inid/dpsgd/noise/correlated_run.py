"""A run with correlated noise: its turns, what they cost, and the noise of its steps."""

import warnings
from dataclasses import replace

from torch import Tensor

from inid.dpsgd.accountant import Accountant, Segment
from inid.dpsgd.charged_run import ChargedRun
from inid.dpsgd.noise.banded import Banded
from inid.dpsgd.noise.correlated_noise import CorrelatedNoise, ExactCorrelatedNoise, Row, RunNoise
from inid.dpsgd.noise.correlation import Correlation
from inid.dpsgd.parallel.distributed import Processes
from inid.dpsgd.sampling.drawn_batch import Drawn
from inid.dpsgd.sampling.poisson_loader import PoissonLoader
from inid.dpsgd.sampling.turns import Turns
from inid.errors import GuaranteeError
from inid.noise import current_source
from inid.planning import NoisePlan

__all__ = ["CorrelatedRun"]


class CorrelatedRun:
    """What a step of a run with correlated noise goes through: its turn is paid for, then noise is drawn in its row.

    The accountant is charged for all rounds of a stage at its first step: a run that stops has cost as much. Rounds are
    leased from a ledger one after another, so stages of one charge share its rounds. Without a ledger nobody knows how
    far a run had come that goes on from a checkpoint: its stage is charged as a whole again.

    Args:
        correlation: What the run takes.
        run: All rounds, as they are charged: each costs a step of one group.
        turns: The numbers of its steps.
        noise: What adds noise, row after row.
        processes: Who trains.
        before: What the accountant had counted before the run.

    Attributes:
        correlation: The same.
        run: The same.
        turns: The same.
    """

    def __init__(
        self,
        correlation: Correlation,
        run: Segment,
        turns: Turns,
        noise: RunNoise,
        processes: Processes,
        *,
        before: int,
    ) -> None:
        self.correlation, self.turns, self._processes = correlation, turns, processes
        self.run, self._noise, self._before = run, noise, before
        self._counted: int | None = None  # the stage that the accountant was charged for
        self._row: Row = (-1, -1)

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
        """Let a loader take turns, as a correlation has it; None where noise is independent.

        Args:
            correlation: What the run takes.
            run: All its steps, as they would be charged with independent noise.
            loader: From which nothing has been drawn.
            processes: Who trains.
            exact: Whether noise is of the exact law.
            before: What the accountant has counted.
        """
        if correlation is None or run is None:
            return None
        processes.agree(correlation)  # what "auto" found too, before some of them wait for a key
        if correlation.bands == 1:
            return None
        turns = Turns(correlation.sampling, alone=processes.world == 1)
        loader.take_turns(turns, processes.on_first(lambda: current_source().bits(128)))
        rounds = replace(run, sample_rate=loader.sample_rate, steps=correlation.sampling.blocks)
        coefficients = Banded(correlation.bands).coefficients(correlation.sampling.steps)
        noise: RunNoise = CorrelatedNoise(coefficients)
        if exact:
            noise = ExactCorrelatedNoise(coefficients)
            noise.check(loader.most_examples * processes.world, run.noise_multiplier)
        return cls(correlation, rounds, turns, noise, processes, before=before)

    def pay(self, drawn: Drawn, accountant: Accountant, charged: ChargedRun | None, *, private: bool) -> None:
        """Take the turn of the batch that is out; the first of a round leases it, the first of a stage is charged.

        Raises:
            GuaranteeError: No batch was drawn for this step, its turn is over, or another process takes another turn.
            BudgetError: The ledger does not pay for the round.
        """
        drawn.close()
        self._agree((self.turns.stage, drawn.number))
        self.turns.check(drawn.number)
        if charged is not None and self.turns.begins_round(drawn.number):
            charged.take_step()
        if self._counted is None or (charged is None and self._counted != self.turns.stage):
            run = self.run
            accountant.step(
                mechanism=run.mechanism,
                noise_multiplier=run.noise_multiplier,
                sample_rate=run.sample_rate,
                neighbours=run.neighbours,
                steps=run.steps,
            )
        accountant.private = accountant.private and private
        self._counted = self.turns.stage
        self.turns.take(drawn.number)
        self._row = (self.turns.stage, drawn.number)

    def _agree(self, row: Row) -> None:
        """Refuse rows that differ between processes: noise follows one's, and so must the examples of all others."""
        if not self._processes.all_have(row):
            raise GuaranteeError(
                f"the batch was drawn for step {row[1]}, and that of another process for another, or since another "
                "checkpoint: noise would not be that of their turns. Step on every batch in all processes, and load a "
                "checkpoint in all of them."
            )

    def noisy(self, sums: Tensor, made: NoisePlan, counts: list[int] | None) -> Tensor:
        """The sums of the step that was paid for last, with its noise."""
        return self._noise.noisy(sums, made, counts, self._row)

    def resume(self, accountant: Accountant, charged: ChargedRun | None) -> None:
        """Begin a new stage after a checkpoint was loaded: noise of the steps before is dropped."""
        self._noise.forget()
        if charged is not None and charged.charge is not None:
            self._counted = self.turns.stage  # the accountant's record, which was loaded, holds the charge
            self.turns.begin_stage(charged.left())
            return
        self.turns.begin_stage(self.run.steps)
        if charged is None and accountant.steps > self._before:
            self._counted = None
            warnings.warn(
                "this run goes on from a checkpoint without a ledger, which would know which turns were taken since: "
                f"it counts as a new stage of {self.turns.steps} steps, and its first step is charged for all of them. "
                "Pass ledger= to make_private from the beginning, so that a run can go on within its charge.",
                stacklevel=3,
            )
