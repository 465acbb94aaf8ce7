"""What a release of many tables returns: every table, and every table inside one, in agreement with each other."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np

from inid.arguments import Floats
from inid.errors import ArgumentError
from inid.planning.text import aligned
from inid.tables.questions.marginals.combinations import Cells, Combination, asked_statistic, combined
from inid.tables.questions.marginals.plan import MarginalsPlan
from inid.tables.questions.marginals.question import MarginalsQuestion
from inid.tables.questions.marginals.table_answers import TableAnswers
from inid.tables.questions.marginals.tidy import tidied
from inid.tables.questions.marginals.whole_tables import whole_tables
from inid.tables.questions.marginals.workload import workload_of
from inid.tables.result import NOT_PRIVATE, SURE, Result, Row

__all__ = ["Combination", "MarginalsResult"]

_SHOWN = 20
_ROUNDED = "integers=True goes with tidy=True: counts with intervals are not rounded."


@dataclass(frozen=True, eq=False)
class MarginalsResult(Result):
    """Private tables of counts, means and sums that agree with each other.

    Attributes:
        plan: The plan by which the noise was drawn.
        release: The noisy numbers themselves; every answer is made of them.
        level: The probability with which each interval holds the exact answer.
        question: What was asked, with the public facts.
    """

    question: MarginalsQuestion
    plan: MarginalsPlan

    def marginal(
        self,
        *columns: str,
        mean: str | None = None,
        sum: str | None = None,  # noqa: A002 - the word that queries use
        tidy: bool = False,
        integers: bool = False,
    ) -> Any:
        """An asked table, or a table inside one, as a frame of the kind that the table was made of.

        One column per key, then estimate, lower, upper (the interval) and std (of the noise). Unknown keys and missing
        ones are the key "(other)", where the table states other="cell"; all keys then are texts.

        Args:
            columns: The columns of the table, in any order; none for the total.
            mean: The mean of this column instead of the counts.
            sum: The sum of this column instead of the counts.
            tidy: Non-negative counts with one total, that agree with each other. What is tidied is biased, since noise
                below zero is cut off, so that there is an estimate alone: no interval and no std.
            integers: Whole numbers, with `tidy`. They agree where no asked table is over more than two columns, or all
                are inside one; where wider tables overlap in a ring, some sums differ by a few people.

        Raises:
            ArgumentError: The table is not inside one that was asked.

        >>> import inid, pandas
        >>> t = inid.tables.Table(pandas.DataFrame({"sex": ["F", "M"]}), domains={"sex": ["F", "M"]}, other="drop")
        >>> q = t.query(marginals=1)
        >>> list(q.release(q.plan(inid.PureDP(1.0))).marginal("sex").columns)
        ['sex', 'estimate', 'lower', 'upper', 'std']
        """
        if integers and not tidy:
            raise ArgumentError(_ROUNDED)
        if mean is not None and sum is not None:
            raise ArgumentError("mean and sum must not both be given: ask for one table at a time.")
        statistic = asked_statistic(
            self.question, columns, "count" if mean is sum else "mean" if sum is None else "sum", mean or sum or ""
        )
        if tidy:
            if statistic.column:
                raise ArgumentError("tidy=True is for counts: means and sums have no such form.")
            attributes = self.question.numbers(statistic.table)
            return self._frame(columns, {"estimate": self._tidy_table(attributes, integers=integers)})
        made = self._tables.published(statistic)
        names = ("estimate", "lower", "upper", "std")
        return self._frame(columns, {name: getattr(made, name) for name in names})

    def combine(
        self,
        cells: Cells,
        *,
        sum: str | None = None,  # noqa: A002 - the word that queries use
    ) -> Combination:
        """A linear combination of cells, of one table or of several, with its interval.

        Args:
            cells: For each table (a tuple of columns), what each of its cells, by its keys, counts:
                {("sex", "age"): {("F", 30): 1, ("F", 31): 1}}. Keys are those that `marginal` shows.
            sum: Combine sums of this column instead of counts.

        Raises:
            ArgumentError: A table is not inside one that was asked, or a key is not in its domain.

        >>> import inid, pandas
        >>> t = inid.tables.Table(pandas.DataFrame({"sex": ["F", "M"]}), domains={"sex": ["F", "M"]}, other="drop")
        >>> q = t.query(marginals=1)
        >>> found = q.release(q.plan(inid.PureDP(1.0))).combine({("sex",): {"F": 1, "M": -1}})
        >>> found.lower < found.estimate < found.upper
        True
        """
        return combined(self._tables, cells, sum)

    @cached_property
    def lines(self) -> tuple[Row, ...]:
        """Every cell of the asked tables as a line of its own, like those of other statistics."""
        return self._tables.rows()

    @property
    def may_be_full(self) -> bool:
        return self.most_rows(SURE) >= self.question.max_rows

    def most_rows(self, level: float) -> float:
        """How many rows the table may have at most, with this probability; 0 where no count was released."""
        return self._tables.most_rows(level)

    def shown(self, *, tidy: bool = False, integers: bool = False) -> tuple[Row, ...]:
        if integers and not tidy:
            raise ArgumentError(_ROUNDED)
        if not tidy:
            return self.lines
        counts = [
            self._tidy_table(self.question.numbers(table), integers=integers).reshape(-1)
            for table in self.question.tables
        ]
        tidied = np.concatenate(counts).tolist() if counts else []  # counts come first among the answers
        nothing = math.nan
        return (
            *(
                row._replace(estimate=value, lower=nothing, upper=nothing, std=nothing)
                for row, value in zip(self.lines, tidied, strict=False)
            ),
            *self.lines[len(tidied) :],
        )

    def _answers_record(self) -> dict[str, Any]:
        return {"tables": [entry.to_dict() for entry in self._tables.all()]}

    def __str__(self) -> str:
        asked = self.question.statistics
        what = "tables of counts" if not self.question.summed else "statistics by tables"
        head = f"{len(asked)} {what} under {self.plan.budget}"
        head += "" if self.private else NOT_PRIVATE
        rows = [["table", "cell", "estimate", "interval", "std"]]
        for statistic in asked:
            made = self._tables.published(statistic)
            cells = product(*(self.question.domains.levels(column) for column in statistic.table))
            numbers = (part.reshape(-1).tolist() for part in (made.estimate, made.lower, made.upper, made.std))
            for cell, value, low, high, std in zip(cells, *numbers, strict=True):
                ends = f"[{low:.6g}, {high:.6g}]"
                rows.append([statistic.label, ", ".join(map(str, cell)), f"{value:.6g}", ends, f"{std:.4g}"])
                if len(rows) > _SHOWN:
                    break
            if len(rows) > _SHOWN:
                break
        more = int(self.question.workload.statistic_cells.sum()) - len(rows) + 1
        return "\n".join([head, *aligned(rows, left=2), *([f"... and {more} more cells"] if more else [])])

    @cached_property
    def _tables(self) -> TableAnswers:
        return TableAnswers(self.question, self.release, self.level)

    def _frame(self, columns: Sequence[str], numbers: Mapping[str, Floats]) -> Any:
        cells = list(product(*(self.question.domains.levels(column) for column in columns)))
        keys = {column: [cell[at] for cell in cells] for at, column in enumerate(columns)}
        return self.source.answer(keys | {name: values.reshape(-1).tolist() for name, values in numbers.items()})

    @cached_property
    def _tidied(self) -> tuple[dict[tuple[int, ...], Floats], int]:
        """The tables that are inside no other one, tidied, by their attributes in ascending order; and their total."""
        answers, numbers = self._tables.answers, [*map(self.question.numbers, self.question.tables)]
        tables = {at: answers.table(tuple(sorted(attributes))) for at, attributes in enumerate(numbers)}
        tau = np.array([answers.deviation(attributes) for attributes in numbers])
        total = max(float(answers.table(())), 0.0)
        counts = workload_of(self.question.workload.sizes, numbers)
        made = tidied(counts, tables, np.maximum(tau, 1e-300), total)
        places = {tuple(sorted(attributes)): at for at, attributes in enumerate(numbers)}
        counts_alone = replace(self.question, means={}, sums={})
        outermost = map(self.question.numbers, counts_alone.maximal)  # in the order of the attributes
        return {table: made[places[table]] for table in outermost}, round(total)

    @cached_property
    def _whole(self) -> dict[tuple[int, ...], Floats]:
        return whole_tables(*self._tidied)

    def _tidy_table(self, attributes: tuple[int, ...], *, integers: bool) -> Floats:
        tables = self._whole if integers else self._tidied[0]
        holder = next(table for table in tables if set(attributes) <= set(table))
        found = tables[holder].sum(axis=tuple(axis for axis, i in enumerate(holder) if i not in attributes))
        return np.transpose(found, [sorted(attributes).index(i) for i in attributes]) if attributes else found
