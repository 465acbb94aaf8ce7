"""A training run that is charged to a ledger: once, before its first step."""

import math
import operator
import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from inid.accounting import Ledger
from inid.dpsgd.accountant import Segment
from inid.dpsgd.parallel.distributed import Processes
from inid.errors import BudgetError, RecordError
from inid.noise import current_source

__all__ = ["ChargedRun"]

_MOST_TIMES = 2**10  # how much more noise is tried where a ledger does not take a run
_CLOSE = 1e-3
_PARTS = 100  # leases in a run: what a crash loses is at most one of them


class ChargedRun:
    """Charges a run as a whole, and leases its steps before they are taken.

    Stopping early is covered by the charge. Going back to a checkpoint and on from there is not: the steps after the
    checkpoint were taken once already. So step numbers are leased from the ledger, a hundredth of the run at a time,
    and none is handed out twice; a run that is repeated too often ends with a `BudgetError`.

    Args:
        ledger: Who pays.
        run: All steps of the run.
        label: The ledger's note.
        processes: Who trains; only the first talks to the ledger.
        unit: What its steps are called: with correlated noise they are rounds of several.

    Attributes:
        charge: The number of the charge in the ledger, and the digest of its line; None before it is made.
    """

    def __init__(self, ledger: Ledger, run: Segment, label: str, processes: Processes, unit: str = "steps") -> None:
        self._ledger, self._run, self._label, self._processes, self._unit = ledger, run, label, processes, unit
        self.charge: tuple[int, str] | None = None
        self._leased: Iterator[int] = iter(())
        self._leased_by = os.getpid()

    def take_step(self) -> None:
        """Take one step that is paid for.

        Raises:
            BudgetError: The run does not fit into the ledger, or all its steps have been taken.
        """
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
        """Go on within the charge of a checkpoint instead of making a new one.

        Raises:
            RecordError: The checkpoint is not of a run that was charged to this ledger, with this noise.
        """
        cure = "pass to make_private the ledger and the settings that the run began with"
        if not isinstance(state, Mapping) or state.get("run") != self.state_dict()["run"]:
            raise RecordError(f"the state is not of a run with this noise that a ledger paid for: {cure}.")
        if (unit := state.get("unit", "steps")) != self._unit:
            # Steps are counted one by one, rounds all at the first: an accountant that goes on would miss the rest.
            raise RecordError(
                f"the state is of a run whose {unit} are leased, and this one's are {self._unit}: {cure}."
            )
        charge = state.get("charge")
        found = None if charge is None else (charge[0], charge[1])
        if self.charge is not None and found != self.charge:
            raise RecordError("this run has been charged already, and the state is of another: make a new optimizer.")
        known = {(record.id, record.digest) for record in self._ledger.history()} if found else set()
        if found is not None and found not in known:
            raise RecordError(f"the state names a charge that is not in this ledger: {cure}.")
        self.charge = found


def _rounded_up(value: float) -> float:
    """A number that is printed whole in six digits, and not below."""
    unit = 10.0 ** (math.floor(math.log10(value)) - 3)
    return float(f"{math.ceil(value / unit) * unit:.6g}")
