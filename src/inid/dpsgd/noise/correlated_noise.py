"""Noise that takes back part of the noise of the steps before it: what is held of them, and the next row.

The rows of a run are numbered as its steps are. A step of the number t releases its clipped sums x_t as

    x_t + S_t w_t,    w_t = (z_t - c_1 w_(t-1) - ... - c_(b-1) w_(t-b+1)) / c_0,

where z_t is fresh noise of scale 1, S_t the scales of the step's plan, and c the coefficients of `banded`. So C acts on
x_t / S_t, in units in which the plan has one level in every step (T3): thresholds and scales may change with what was
released, and plans of several groups stay as they are. The counts that adaptive thresholds follow get independent noise
by their share of the level: columns of one entry, to which the claim applies as well.

**The rows must follow one another.** Where the number before is not t - 1 nothing is held, and the next row begins
anew, which makes C block-diagonal: no column gets longer, and no two participations closer. Noise of other rows in
those places would bring participations closer than b rows, or release one row twice. A step that draws nobody takes its
row too. What is held is as secret as the gradients: whoever knows w_t knows x_t.
"""

import math
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from inid.dpsgd.kernels import row_kernels
from inid.dpsgd.noise.step_noise import QUANTUM, add_scaled, quanta_of, standard_noise
from inid.errors import ArgumentError
from inid.noise import add_noise, current_source
from inid.noise.source import Single, forget_after_fork
from inid.planning import NoisePlan

__all__ = ["CorrelatedNoise", "ExactCorrelatedNoise", "HeldRows", "Row", "RunNoise", "whole_coefficients"]

Row = tuple[int, int]  # the stage of a run, and the number of a step in it

_LONGEST = 2.0**51  # quanta that leave room for noise below 2^53, to which float64 counts
_BITS = 8  # of whole coefficients: they cost 0.003 % of the error


class RunNoise(Protocol):
    """What adds noise to the sums of a run, step after step."""

    def noisy(self, sums: Tensor, made: NoisePlan, counts: list[int] | None, row: Row) -> Tensor:
        """The sums with the noise of a row, by the plan; `counts` as in `add_planned_noise`."""
        ...

    def forget(self) -> None:
        """Drop what is held of earlier rows."""
        ...


class HeldRows(Single):
    """The last rows of a run, to be added up with their coefficients; dropped where a row does not follow them.

    Args:
        coefficients: By how much the row before counts, the one before that, and so on.

    >>> held = HeldRows(np.array([0.5, 0.25]))
    >>> for number in range(3):
    ...     rows, weights = held.before(torch.zeros(1), (0, number))
    ...     print((rows @ weights).tolist())
    ...     held.keep(torch.ones(1), (0, number))
    [0.0]
    [0.5]
    [0.75]
    """

    refusal = "the noise of earlier steps is secret, and serves one run: it is not copied or pickled."

    def __init__(self, coefficients: NDArray[np.float64]) -> None:
        self._coefficients = coefficients if coefficients.size else np.zeros(1)  # a run of one step has none
        self._rows: Tensor | None = None
        self._turned = torch.empty(0)  # the coefficients of all places, for each place that may be the oldest
        self._oldest = 0
        self._last: Row | None = None
        forget_after_fork(self)

    def before(self, like: Tensor, row: Row) -> tuple[Tensor, Tensor]:
        """The rows before this one, as columns, and their coefficients; zeros where it does not follow them.

        Until `keep` is called nothing counts as held: a step that is interrupted has no next row.
        """
        stage, number = row
        if self._last != (stage, number - 1):
            self.forget()
        self._last = None
        if self._rows is None:
            places = len(self._coefficients)
            self._rows = like.new_zeros(places, like.numel())
            # With the oldest row at place k, the one at place s is of (k - s - 1) mod places + 1 steps before.
            ages = np.subtract.outer(np.arange(places), np.arange(places) + 1) % places
            self._turned = torch.from_numpy(self._coefficients[ages]).to(like)
            self._oldest = 0
        return self._rows.t(), self._turned[self._oldest]

    def mix(self, fresh: Tensor, scale: float, row: Row) -> None:
        """Make this row of fresh noise, times a scale, and the rows before; it is written over the noise, and held."""
        rows, weights = self.before(fresh, row)
        if row_kernels.mixed(fresh, rows.t(), weights, scale, self._oldest):
            self._advance(row)
        else:
            self.keep(fresh.addmv_(rows, weights, beta=scale), row)

    def keep(self, values: Tensor, row: Row) -> None:
        """Hold this row, in place of the oldest."""
        assert self._rows is not None  # noqa: S101 - for the type checker
        self._rows[self._oldest] = values
        self._advance(row)

    def _advance(self, row: Row) -> None:
        assert self._rows is not None  # noqa: S101 - as above
        self._oldest = (self._oldest + 1) % len(self._rows)
        self._last = row

    def forget(self) -> None:
        """Drop all rows."""
        self._rows, self._last = None, None

    def __repr__(self) -> str:
        return f"<HeldRows: {len(self._coefficients)}>"

    def _after_fork(self) -> None:
        self.forget()


class CorrelatedNoise:
    """Floating-point noise of a run, in its units: the rows w_t are held in the sums' own precision.

    Args:
        coefficients: The strategy's, c_0 first; the sum of their squares is at most 1.

    >>> print(CorrelatedNoise(np.array([0.8, 0.6])))
    <CorrelatedNoise: 2 bands>
    """

    def __init__(self, coefficients: NDArray[np.float64]) -> None:
        self._first = 1 / float(coefficients[0])
        self._held = HeldRows(-coefficients[1:] / coefficients[0])
        self._bands = len(coefficients)

    def noisy(self, sums: Tensor, made: NoisePlan, counts: list[int] | None, row: Row) -> Tensor:
        """The sums with the noise of a row."""
        if current_source().silent:
            return sums.clone()
        fresh = standard_noise(sums, made.mechanism)
        self._held.mix(fresh, self._first, row)
        return add_scaled(fresh, sums, made, counts)

    def forget(self) -> None:
        """Drop what is held of earlier rows."""
        self._held.forget()

    def __repr__(self) -> str:
        return f"<CorrelatedNoise: {self._bands} bands>"


class ExactCorrelatedNoise:
    """Noise of the exact law (T4, exact form): whole coefficients k, and rows that are held without rounding.

    x_t are whole quanta, since gradients are cut to them one by one (`Rule.quanta`). Released is

        u_t = k_0 x_t + sum_r k_r d_(t-r) + noise of the exact law, of scale S |k|, rounded to its grid,
        v_t = u_t / k_0, rounded to whole quanta: what the optimizer gets;   d_t = x_t - v_t: held.

    k_0 x_t + sum k_r d_(t-r) differs from the row of a banded matrix applied to x by earlier v, which are known: given
    what was released before, u_t is a function of that row with continuous noise. For that d_t has to be exact, and is:
    whole quanta, below 2^53 of them. To round d_t, or to let x_t lie between quanta, would add an error that depends on
    the data and is fed back in every later step.

    Args:
        coefficients: The strategy's, c_0 first.

    >>> print(ExactCorrelatedNoise(np.array([0.8, 0.6])))
    <ExactCorrelatedNoise: [205, 154]>
    """

    def __init__(self, coefficients: NDArray[np.float64]) -> None:
        self._whole = whole_coefficients(coefficients)
        # The root of a whole number, rounded up.
        self._length = math.nextafter(math.sqrt(sum(k * k for k in self._whole)), math.inf)
        self._held = HeldRows(np.array(self._whole[1:], dtype=np.float64))

    def check(self, examples: int, multiplier: float) -> None:
        """Refuse batches whose sums could be too long to be held without rounding.

        An example adds at most its threshold to an entry, which is at most 1/multiplier scales and so 2^17 times as
        many quanta. What is held besides is noise: 2^20 scales of it would take a probability of exp(-2^39).

        Raises:
            ArgumentError: So many examples may add up to 2^51 quanta or more.
        """
        most = 2.0 / QUANTUM / multiplier * examples * self._whole[0]
        if not most < _LONGEST:
            raise ArgumentError(
                f'sums over up to {examples} examples may be too long for noise="exact" beside correlation=: pass a '
                'smaller batch, more noise, or noise="torch".'
            )

    def noisy(self, sums: Tensor, made: NoisePlan, counts: list[int] | None, row: Row) -> Tensor:
        """The sums with the noise of a row."""
        here = [count for _, count in made.runs] if counts is None else counts
        quanta = torch.from_numpy(np.repeat(quanta_of(made), here))
        scales = np.repeat([math.nextafter(scale * self._length, math.inf) for scale, _ in made.runs], here)
        exact, first = sums.double().cpu(), float(self._whole[0])
        rows, weights = self._held.before(exact, row)
        # Whole quanta below 2^53: exact in whatever order they are added.
        shifted = torch.addmv(exact, rows, weights, beta=first)
        noisy = torch.from_numpy(add_noise(shifted.numpy(), scales, made.mechanism))
        released = noisy.div_(first).div_(quanta).round_().mul_(quanta)
        self._held.keep(exact - released, row)
        return released.to(sums.device)

    def forget(self) -> None:
        """Drop what is held of earlier rows."""
        self._held.forget()

    def __repr__(self) -> str:
        return f"<ExactCorrelatedNoise: {self._whole}>"


def whole_coefficients(coefficients: NDArray[np.float64]) -> list[int]:
    """Coefficients in whole 256ths.

    >>> whole_coefficients(np.array([0.8, 0.6]))
    [205, 154]
    """
    return [round(each * 2**_BITS) for each in coefficients.tolist()]
