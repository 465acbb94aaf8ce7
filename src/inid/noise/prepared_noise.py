"""Noise drawn ahead of the values it is for: the law of `add_noise`, for values that come one at a time.

Noise does not depend on the value that it is added to, so it can be drawn before the value is known; only the rounding
of the sum has to wait. Drawing many at once is cheap, and rounding one sum takes a few operations on floats. The bits
of the noise that a rounding needs beyond those prepared are drawn when it needs them: bits that did not enter a
decision are still uniform, so nothing changes in the law.
"""

import os
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from inid.errors import GuaranteeError
from inid.noise.exact_draws import Draw, round_sum
from inid.noise.grid_noise import WIDE, grid, limits, noisy
from inid.noise.law_tables import Law
from inid.noise.source import RandomSource, Single, forget_after_fork
from inid.noise.vector_draws import FARTHEST_STEP, first_entries, first_places, margin, rest_numbers, uniform

Floats = NDArray[np.float64]

_BATCH = 1 << 12


class _Ready(NamedTuple):
    """A draw that waits for its value."""

    owner: int
    offset: float | None
    word: int
    number: Draw | None


class PreparedNoise(Single):
    """Exact noise for `rounds` rounds of values to come, one value for each scale in each round, in that order.

    Each draw is used once. What is prepared lives in this object and nowhere else: it cannot be copied or pickled, and
    a forked child forgets it and draws its own.
    """

    refusal = "prepared noise cannot be pickled or copied: it would be used twice."

    def __init__(self, scales: Floats, rounds: int, table: Law, source: RandomSource) -> None:
        self._scales, self._table, self._source = scales, table, source
        # Without noise, and for scales that are 0 or near the end of the floats, nothing is drawn ahead.
        self._ahead = not source.silent and source.recorder is None and bool(scales.min() > 0 and scales.max() <= WIDE)
        self._steps: list[float] = grid(scales, bits=table.layout.grid_bits).tolist()
        self._sure = 0.5 - margin(table)
        self._used, self._count = 0, rounds * scales.size
        self._ready: list[_Ready] = []
        self._process = os.getpid()
        forget_after_fork(self)

    def add(self, value: float) -> float:
        """The multiple of the grid nearest to the value plus the next draw; strange values count as in `add_noise`."""
        if self._process != os.getpid():
            self._forget()
        if not self._ready:
            self._prepare()
        owner, offset, word, number = self._ready.pop()
        self._used += 1
        if offset is not None:
            # As `vectors` rounds, and with its margin: the value's whole steps and its rest are exact, the sum is not.
            step = self._steps[owner]
            scaled = value / step
            if -FARTHEST_STEP <= scaled <= FARTHEST_STEP:
                nearest = round(scaled)
                total = scaled - nearest + offset
                near = round(total)
                if abs(total - near) < self._sure:
                    return (nearest + near) * step
        return self._exactly(value, owner, word, number)

    def _prepare(self) -> None:
        """Draw the next batch; `add` takes it from the end."""
        count = min(self._count - self._used, _BATCH)
        if not count > 0:
            raise GuaranteeError("every draw that was prepared has been used: prepare as many rounds as are planned.")
        owners = np.arange(self._used, self._used + count) % self._scales.size
        offsets: list[float | None] = [None] * count
        words: list[int] = [0] * count
        numbers: list[Draw | None] = [None] * count
        if self._ahead:
            fresh = self._source.words(count)
            places = first_places(fresh, self._table)
            words = fresh.tolist()
            offsets = (self._scales[owners] / np.take(self._steps, owners) * places).tolist()
            rest = np.flatnonzero(np.isnan(places)).tolist()
            for at, number in zip(rest, rest_numbers(len(rest), self._table, self._source), strict=True):
                offsets[at], numbers[at] = None, number
        self._ready = list(map(_Ready, owners.tolist(), offsets, words, numbers))[::-1]

    def _exactly(self, value: float, owner: int, word: int, number: Draw | None) -> float:
        """The same with as many bits as it takes, or as `add_noise` does it where nothing is drawn ahead."""
        table, scales = self._table, self._scales[owner : owner + 1]
        if not self._ahead:
            return float(noisy(np.array([value]), scales, table, self._source)[0])
        layout = table.layout
        if number is None:
            left = int(table.first[first_entries(np.array([word], np.uint64), table)[0]])
            number = Draw(1, left, uniform(word, table, self._source), layout.cell_bits)
        limit = float(limits(scales, bits=layout.grid_bits)[0])
        return round_sum(value, float(scales[0]), number, layout.grid_bits, limit)

    def _forget(self) -> None:
        self._ready, self._process = [], os.getpid()

    def _after_fork(self) -> None:
        self._forget()  # what was prepared is the parent's
