"""What a training run has cost so far, and its charge to a ledger: once, before its first step."""

import math
import operator
import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from scipy.optimize import brentq

from inid import arguments
from inid.accounting import Composition, Ledger
from inid.accounting.training_runs import Mechanism, Segment, composed, read_segment
from inid.curves import least_noise_multiplier
from inid.dpsgd.parallel import Processes
from inid.errors import ArgumentError, BudgetError, RecordError
from inid.noise import current_source
from inid.promises import ApproxDP
from inid.sets import Neighbours

_VERSION = 1

_MOST_NOISE = 1e6


class Accountant:
    """Counts the steps of a training run and says what they cost. Reading never changes the count.

    Attributes:
        history: What was spent, oldest first.
        private: False once a step drew its noise from a test's source: such a run promises nothing.

    >>> a = Accountant()
    >>> for _ in range(1000):
    ...     a.step(mechanism="gaussian", noise_multiplier=1.0, sample_rate=0.01)
    >>> a.steps, round(a.get_epsilon(delta=1e-5), 2)
    (1000, 1.83)
    """

    def __init__(self) -> None:
        self._history: list[Segment] = []
        self.private = True
        self._warned = False

    @property
    def history(self) -> tuple[Segment, ...]:
        """What was spent, oldest first."""
        return tuple(self._history)

    @property
    def steps(self) -> int:
        """How many steps were counted; with correlated noise, how many rounds (`Correlation`)."""
        return sum(segment.steps for segment in self._history)

    def step(
        self,
        *,
        mechanism: Mechanism,
        noise_multiplier: float,
        sample_rate: float,
        neighbours: Neighbours = "zero_out",
        private: bool = True,
        steps: int = 1,
    ) -> None:
        """Count one step, or so many at once, as the rounds of a run with correlated noise."""
        more = Segment(mechanism, noise_multiplier, sample_rate, steps, neighbours)
        self.private = self.private and private
        if self._history and replace(self._history[-1], steps=steps) == more:
            self._history[-1] = replace(more, steps=self._history[-1].steps + steps)
        else:
            self._history.append(more)

    def get_epsilon(self, delta: float) -> float:
        """The epsilon, certified, that all steps so far have cost at a delta; warns where `private` is False."""
        checked = ApproxDP(0.0, delta).delta
        self._warn_of_test_noise()
        return self.composition().epsilon(checked) if self._history else 0.0

    def get_delta(self, epsilon: float) -> float:
        """The delta, certified, that all steps so far have cost at an epsilon; warns where `private` is False."""
        checked = arguments.real("epsilon", epsilon, least=0, cure="pass the epsilon at which to read the curve")
        self._warn_of_test_noise()
        return self.composition().delta(checked) if self._history else 0.0

    def composition(self) -> Composition:
        """The privacy of all steps so far, for other questions; warns where `private` is False."""
        if not self._history:
            raise ArgumentError("no step has been taken yet, so there is nothing to account for: train first.")
        self._warn_of_test_noise()
        return composed(self._history)

    def _warn_of_test_noise(self) -> None:
        if not self.private and not self._warned:
            self._warned = True
            warnings.warn(
                "this run is NOT private: a test's source drew its noise or its batches. The numbers are what it would "
                "have cost with secret randomness: train outside inid.testing's unsafe sources for a real promise.",
                stacklevel=3,
            )

    def state_dict(self) -> dict[str, Any]:
        """A JSON-safe record of the count."""
        return {
            "inid_accountant": _VERSION,
            "private": self.private,
            "history": [[s.mechanism, s.noise_multiplier, s.sample_rate, s.steps, s.neighbours] for s in self._history],
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue counting from a record.

        Raises:
            RecordError: The record does not parse, or does not begin with what this accountant has counted; the count
                is as it was.
        """
        if not isinstance(state, Mapping) or state.get("inid_accountant") != _VERSION:
            raise RecordError("the record is not an accountant's of this version: pass what state_dict() returned.")
        try:
            history = [read_segment(*entry) for entry in state["history"]]
            private = bool(state["private"])
        except (KeyError, TypeError, ArgumentError) as error:
            raise RecordError("the accountant's record is damaged: pass what state_dict() returned.") from error
        if not _begins_with(history, self._history):
            raise RecordError(
                f"the record does not begin with the {self.steps} steps that this accountant has counted: what was "
                "spent stays spent. Load a record of this run that has gone further, or load into a fresh accountant."
            )
        self._history, self.private = history, private and (self.private or not self._history)

    def __repr__(self) -> str:
        mark = "" if self.private else ", NOT PRIVATE: a test source drew noise"
        return f"<Accountant: {self.steps} steps{mark}>"


def _begins_with(history: Sequence[Segment], first: Sequence[Segment]) -> bool:
    """Whether the steps of a history begin with those of another."""
    if not first:
        return True
    at = len(first) - 1
    return (
        len(history) > at
        and list(history[:at]) == list(first[:at])
        and replace(history[at], steps=1) == replace(first[at], steps=1)
        and (history[at].steps >= first[at].steps if len(history) == len(first) else history[at] == first[at])
    )


def noise_multiplier_for(
    *,
    target_epsilon: float,
    target_delta: float,
    sample_rate: float,
    steps: int,
    mechanism: Mechanism = "gaussian",
    accountant: Accountant | None = None,
) -> float:
    """The least noise multiplier (to one part in ten thousand) whose run costs at most (target_epsilon, target_delta).

    Args:
        target_epsilon: What the run may cost, with `target_delta`.
        target_delta: See `target_epsilon`.
        sample_rate: The probability with which an example takes part in a step.
        steps: How many steps there are.
        mechanism: The noise.
        accountant: What was spent before and counts towards the target.

    Raises:
        ArgumentError: An argument is malformed.
        BudgetError: No multiplier up to 10^6 keeps the promise.

    >>> z = noise_multiplier_for(target_epsilon=2.0, target_delta=1e-5, sample_rate=0.01, steps=1000)
    >>> 0.9 < z < 1.0
    True
    """
    target = arguments.real("target_epsilon", target_epsilon, above=0, cure="pass the epsilon the run may cost")
    granted = ApproxDP(0.0, target_delta).delta
    run = read_segment(mechanism, 1.0, sample_rate, steps)
    before = () if accountant is None else accountant.history
    if before and (spent := composed(before).epsilon(granted)) >= target:
        raise BudgetError(
            f"the accountant has spent epsilon={spent:.6g} of {target:g} already: promise more, or pass a new "
            "accountant for other data."
        )
    multiplier = least_noise_multiplier(target, granted, run.sample_rate, run.steps, run.mechanism)
    if before:
        multiplier = _with_history(before, run, multiplier, target, granted)
    if multiplier > _MOST_NOISE:
        raise BudgetError(
            f"no noise multiplier up to {_MOST_NOISE:g} keeps {run.steps} steps at rate {run.sample_rate:g} within "
            f"epsilon={target:g}: train for fewer steps or promise more."
        )
    return multiplier


def _with_history(before: Sequence[Segment], run: Segment, least: float, target: float, delta: float) -> float:
    """The least multiplier of a run that follows others, to one part in ten thousand; infinite beyond the largest."""

    def cost(multiplier: float) -> float:
        return composed([*before, replace(run, noise_multiplier=multiplier)]).epsilon(delta)

    low, high = least, 2 * least
    while cost(high) > target:
        low, high = high, 2 * high
        if high > 2 * _MOST_NOISE:
            return math.inf
    if cost(low) <= target:
        return low
    # The curve is smooth: a root finder needs a third of the evaluations of bisection. What it finds is checked.
    over = brentq(lambda at: math.log(cost(math.exp(at)) / target), math.log(low), math.log(high), xtol=2e-5)
    multiplier = math.exp(over)
    while cost(multiplier) > target:
        multiplier *= 1 + 5e-5
    return min(multiplier, high)


_MOST_TIMES = 2**10  # how much more noise is tried where a ledger does not take a run

_CLOSE = 1e-3

_PARTS = 100  # leases in a run: what a crash loses is at most one of them


class ChargedRun:
    """Charges a run as a whole, and leases its steps before they are taken.

    Stopping early is covered by the charge. Going back to a checkpoint and on from there is not: the steps after the
    checkpoint were taken once already. So step numbers are leased from the ledger, a hundredth of the run at a time,
    and none is handed out twice; a run that is repeated too often ends with a `BudgetError`.
    """

    def __init__(self, ledger: Ledger, run: Segment, label: str, processes: Processes, unit: str = "steps") -> None:
        self._ledger, self._run, self._label, self._processes, self._unit = ledger, run, label, processes, unit
        self.charge: tuple[int, str] | None = None
        self._leased: Iterator[int] = iter(())
        self._leased_by = os.getpid()

    def take_step(self) -> None:
        """Take one step that is paid for."""
        if self._leased_by != os.getpid():  # a fork: the lease stays with the process that took it
            self._leased, self._leased_by = iter(()), os.getpid()
        if next(self._leased, None) is None:
            self.charge, leased = self._processes.on_first(self._paid)
            self._leased = iter(leased)
            next(self._leased)

    def left(self) -> int:
        """How many steps of the run can still be taken."""
        charge, leased = self.charge, operator.length_hint(self._leased)
        if charge is None:
            return self._run.steps
        return leased + self._processes.on_first(lambda: self._ledger.steps_left(charge[0]))

    def _paid(self) -> tuple[tuple[int, str], range]:
        charge = self.charge
        if charge is None:
            charge = self._new_charge()
        left = self._ledger.steps_left(charge[0])
        return charge, self._ledger.lease_steps(charge[0], max(1, min(self._run.steps // _PARTS, left)))

    def _new_charge(self) -> tuple[int, str]:
        try:
            receipt = self._ledger.charge(self._run.composition(), self._label, private=current_source().private)
        except BudgetError as error:
            if (fits := self._multiplier_that_fits()) is None:
                raise
            raise BudgetError(
                f"{error} With noise_multiplier={fits:g} instead of {self._run.noise_multiplier:.6g} in make_private, "
                f"all {self._run.steps} {self._unit} fit. (A target_epsilon is met by the accountant, which knows the "
                "whole run; a ledger, whose charges may be chosen one after another, needs more noise for the same "
                "promise.)"
            ) from error
        return receipt.id, receipt.digest

    def _multiplier_that_fits(self) -> float | None:
        """The least noise multiplier, to a thousandth, with which the ledger takes the run; None if there is none."""
        low = high = self._run.noise_multiplier
        while not self._ledger.can_afford(replace(self._run, noise_multiplier=high).composition()):
            low, high = high, _rounded_up(2 * high)
            if high > _MOST_TIMES * self._run.noise_multiplier:
                return None
        while high - low > _CLOSE * high:
            middle = _rounded_up((low + high) / 2)
            if middle >= high:
                break
            fits = self._ledger.can_afford(replace(self._run, noise_multiplier=middle).composition())
            low, high = (low, middle) if fits else (middle, high)
        return high

    def state_dict(self) -> dict[str, Any]:
        """What identifies the charge, for a run that goes on from a checkpoint."""
        run = self._run
        return {
            "charge": None if self.charge is None else list(self.charge),
            "run": [run.mechanism, run.noise_multiplier, run.sample_rate, run.neighbours],
            "unit": self._unit,
        }

    def load_state_dict(self, state: Mapping[str, Any] | None) -> None:
        """Go on within the charge of a checkpoint instead of making a new one."""
        cure = "pass to make_private the ledger and the settings that the run began with"
        if not isinstance(state, Mapping) or state.get("run") != self.state_dict()["run"]:
            raise RecordError(f"the state is not of a run with this noise that a ledger paid for: {cure}.")
        if (unit := state.get("unit", "steps")) != self._unit:
            # Steps are counted one by one, rounds all at the first: an accountant that goes on would miss the rest.
            raise RecordError(
                f"the state is of a run whose {unit} are leased, and this one's are {self._unit}: {cure}."
            )
        charge = state.get("charge")
        charge_read = None if charge is None else (charge[0], charge[1])
        if self.charge is not None and charge_read != self.charge:
            raise RecordError("this run has been charged already, and the state is of another: make a new optimizer.")
        known = {(record.id, record.digest) for record in self._ledger.history()} if charge_read else set()
        if charge_read is not None and charge_read not in known:
            raise RecordError(f"the state names a charge that is not in this ledger: {cure}.")
        self.charge = charge_read


def _rounded_up(value: float) -> float:
    """A number that is printed whole in six digits, and not below."""
    unit = 10.0 ** (math.floor(math.log10(value)) - 3)
    return float(f"{math.ceil(value / unit) * unit:.6g}")
