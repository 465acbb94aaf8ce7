"""Rows from what was released: the model is fitted once, and rows are drawn from it again and again."""

import sys
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod
from types import MappingProxyType
from typing import Any

import numpy as np

from inid.arguments import integer, shown
from inid.errors import ArgumentError
from inid.noise.source import current_source
from inid.tables.engines.made_columns import MadeColumn
from inid.tables.questions.synthetic.columns import LevelColumn
from inid.tables.questions.synthetic.level_space import Codes
from inid.tables.questions.synthetic.measured import Measured
from inid.tables.questions.synthetic.model import Pool, fitted_pool

__all__ = ["Progress", "RowMaker", "UnevenRowsWarning"]

Progress = Callable[[float], None] | bool | None
_FEW = 0.2  # of the rows: fewer effective ones are warned of
_MOST_ROWS = 10**8


class UnevenRowsWarning(UserWarning):
    """Few of the synthetic rows carry most of the weight, so that they are worth fewer rows than there are."""


@dataclass(frozen=True, eq=False)
class RowMaker:
    """Makes rows of released numbers, and of nothing else.

    Attributes:
        columns: The columns, with their public levels.
        measured: What was released, as noisy tables.
    """

    columns: tuple[LevelColumn, ...]
    measured: Measured

    def rows(
        self, n: int | None, progress: Progress, schema: Mapping[str, Any] = MappingProxyType({})
    ) -> dict[str, MadeColumn]:
        """So many rows, column by column; by default the noisy number of rows of the table.

        Args:
            n: How many.
            progress: See `SyntheticResult.rows`.
            schema: The types of the table's columns, where there is one.

        Raises:
            ArgumentError: n is no number of rows.
        """
        rng = _generator()
        codes = self.codes(n, progress, rng)
        return {own.name: own.made(codes[:, at], rng, schema) for at, own in enumerate(self.columns)}

    def codes(self, n: int | None, progress: Progress = None, rng: np.random.Generator | None = None) -> Codes:
        """The same as places of levels, a column for each column of the table.

        Raises:
            ArgumentError: n is no number of rows.
        """
        most = f"pass a number of rows up to {_MOST_ROWS:,}, or none"
        number = round(self.measured.summary.total) if n is None else integer("n", n, least=1, cure=most)
        if number > _MOST_ROWS:
            raise ArgumentError(f"n must be at most {_MOST_ROWS:,}, got {shown(n)}: {most}.")
        told = progress if callable(progress) else _Line(sys.stderr.isatty() if progress is None else progress)
        return self.pool(told).sample(number, rng or _generator())

    def beside(self) -> list[tuple[str, float]]:
        """The total variation of rows from each table that was measured, once rows were made; the noise is in it."""
        made: Pool | None = self.__dict__.get("_made")
        if made is None:
            return []
        found, measured = [], self.measured
        for block in (*measured.steps.columns.members[1:], *measured.kept):
            shape = tuple(self.columns[at].size for at in block)
            cells = np.ravel_multi_index([made.codes[:, at] for at in block], shape)
            shares = np.bincount(cells, weights=made.weights, minlength=prod(shape))
            wanted = measured.table(block, 0.95).estimate.reshape(-1) / measured.summary.total
            name = "*".join(self.columns[at].name for at in block)
            found.append((name, 0.5 * float(np.abs(shares - wanted).sum())))
        return found

    def pool(self, told: Callable[[float], None]) -> Pool:
        """The weighted rows of which samples are drawn; made at the first call, which an interrupt does not spoil."""
        made: Pool | None = self.__dict__.get("_made")
        if made is None:
            made = self.__dict__["_made"] = fitted_pool(self.measured, _generator(), told)
            if not made.effective >= _FEW:
                warnings.warn(
                    f"the rows are worth {made.effective:.0%} of their number: their tables differ much from "
                    "independent columns. Use fewer levels, fewer columns or a larger promise.",
                    UnevenRowsWarning,
                    stacklevel=4,
                )
        return made


class _Line:
    """How far it is, on one line of a terminal."""

    def __init__(self, shown: bool) -> None:
        self._shown, self._last = shown, -1

    def __call__(self, done: float) -> None:
        percent = int(100 * done)
        if self._shown and percent != self._last:
            self._last = percent
            sys.stderr.write(f"\rmaking rows: {percent:3} %" + ("\n" if percent >= 100 else ""))
            sys.stderr.flush()


def _generator() -> np.random.Generator:
    """Random numbers that follow from the library's source; rows are made of public numbers, and need no exact law."""
    return np.random.Generator(np.random.Philox(key=current_source().bits(128)))
