"""What a release of many tables returns: every table, and every table inside one, in agreement with each other."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from inid.arguments import Floats, real, shown
from inid.errors import ArgumentError
from inid.planning.text import aligned
from inid.tables.facts import Key
from inid.tables.marginals.domains import Marginal
from inid.tables.marginals.plan import MarginalsPlan
from inid.tables.marginals.question import MarginalsQuestion
from inid.tables.marginals.table_answers import TableAnswers
from inid.tables.marginals.table_statistics import TableStatistic
from inid.tables.marginals.tidy import rounded, tidied
from inid.tables.marginals.workload import workload_of
from inid.tables.published import NOT_PRIVATE, PageFacts, Published
from inid.tables.result import Row

if TYPE_CHECKING:
    from inid.report import ReportInputs

__all__ = ["Combination", "MarginalsResult"]

_SHOWN = 20


class Combination(NamedTuple):
    """A linear combination of cells.

    Attributes:
        estimate: The private answer.
        lower: The lower end of its interval.
        upper: The upper end.
        std: The standard deviation of its noise.
    """

    estimate: float
    lower: float
    upper: float
    std: float


@dataclass(frozen=True, eq=False)
class MarginalsResult(Published):
    """Private tables of counts, means and sums that agree with each other.

    Attributes:
        plan: The plan by which the noise was drawn.
        release: The noisy numbers themselves; every answer is made of them.
        level: The probability with which each interval holds the exact answer.
        question: What was asked, with the public facts.
    """

    heading: ClassVar[str] = "Private tables of counts"

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
            integers: Whole numbers, with `tidy`.

        Raises:
            ArgumentError: The table is not inside one that was asked.

        >>> import inid, pandas
        >>> t = inid.tables.Table(pandas.DataFrame({"sex": ["F", "M"]}), domains={"sex": ["F", "M"]}, other="drop")
        >>> q = t.query(marginals=1)
        >>> list(q.release(q.plan(inid.PureDP(1.0))).marginal("sex").columns)
        ['sex', 'estimate', 'lower', 'upper', 'std']
        """
        if integers and not tidy:
            raise ArgumentError("integers=True goes with tidy=True: counts with intervals are not rounded.")
        if mean is not None and sum is not None:
            raise ArgumentError("mean and sum must not both be given: ask for one table at a time.")
        statistic = self._read(columns, "count" if mean is sum else "mean" if sum is None else "sum", mean or sum or "")
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
        cells: Mapping[Marginal | str, Mapping[tuple[Key, ...] | Key, float]],
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
        if not isinstance(cells, Mapping) or not cells:
            raise ArgumentError(f"cells must be a dictionary by table, got {shown(cells)}: {{('sex',): {{'F': 1}}}}.")
        wanted: dict[tuple[int, ...], Floats] = {}
        for columns, counts in cells.items():
            names = (columns,) if isinstance(columns, str) else tuple(columns)
            statistic = self._read(names, "count" if sum is None else "sum", sum or "")
            attributes = self.question.numbers(statistic.table)
            ascending = tuple(sorted(attributes))
            wanted[ascending] = wanted.get(ascending, 0.0) + self._weights(names, attributes, counts)
        found = self._tables.combined(wanted, None if sum is None else self.question.summed[sum])
        return Combination(*found)

    @cached_property
    def rows(self) -> tuple[Row, ...]:
        """Every cell of the asked tables as a line of its own, like those of other statistics."""
        found = []
        unit = 1.0 if self.plan.mechanism == "gaussian" else math.sqrt(2.0)
        for entry in self._tables.all():
            cells = product(*(self.question.domains.levels(column) for column in entry.columns))
            numbers = (part.reshape(-1).tolist() for part in (entry.estimate, entry.lower, entry.upper, entry.std))
            for cell, value, low, high, std in zip(cells, *numbers, strict=True):
                groups = ", ".join(f"{column}={key}" for column, key in zip(entry.columns, cell, strict=True))
                keys = dict(zip(entry.columns, cell, strict=True))
                kind, column = entry.statistic.kind, entry.statistic.column
                found.append(Row(kind, column, groups, value, low, high, std / unit, keys))
        return tuple(found)

    @cached_property
    def frame(self) -> Any:
        """The same as `to_frame()`."""
        return self.to_frame()

    def to_frame(self) -> Any:
        """Everything that was asked in one frame: statistic, table, one column per key (empty where it has none)."""
        columns: dict[str, list[Any]] = {name: [] for name in ("statistic", "table", *self.question.columns)}
        numbers: dict[str, list[float]] = {name: [] for name in ("estimate", "lower", "upper", "std")}
        for entry in self._tables.all():
            for cell in product(*(self.question.domains.levels(column) for column in entry.columns)):
                keys = dict(zip(entry.columns, map(str, cell), strict=True))
                columns["statistic"].append(entry.statistic.name)
                columns["table"].append(", ".join(entry.columns) or "total")
                for column in self.question.columns:
                    columns[column].append(keys.get(column, ""))
            for name, values in numbers.items():
                values.extend(getattr(entry, name).reshape(-1).tolist())
        return self.source.answer(columns | numbers)

    def _lines(self) -> tuple[Row, ...]:
        return self.rows

    def _answers_record(self) -> dict[str, Any]:
        return {"tables": [entry.to_dict() for entry in self._tables.all()]}

    def report_inputs(self, page: PageFacts) -> "ReportInputs":
        """What the report shows of the answers."""
        from inid.tables.marginals.report_inputs import marginals_report_inputs

        return marginals_report_inputs(self, page)

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

    def _read(self, columns: Sequence[str], kind: str, column: str) -> TableStatistic:
        """A table inside one that was asked of the same statistic."""
        question, known = self.question, self.question.columns
        if any(name not in known for name in columns) or len(set(columns)) != len(columns):
            raise ArgumentError(f"a table must be over columns that were asked, got {shown(columns)}: {known}.")
        asked = question.tables
        if kind != "count":
            if column not in question.summed:
                raise ArgumentError(f"no {kind} of {shown(column)} was asked: {', '.join(question.summed) or 'none'}.")
            asked = (question.means if kind == "mean" else question.sums).get(column, ())
        if not any(set(columns) <= set(table) for table in asked):
            what = "" if kind == "count" else f" of {kind}({column})"
            raise ArgumentError(f"the table {tuple(columns)}{what} is not inside any table that was asked: ask for it.")
        return TableStatistic(kind, column, tuple(columns))  # type: ignore[arg-type]

    def _frame(self, columns: Sequence[str], numbers: Mapping[str, Floats]) -> Any:
        cells = list(product(*(self.question.domains.levels(column) for column in columns)))
        keys = {column: [cell[at] for cell in cells] for at, column in enumerate(columns)}
        return self.source.answer(keys | {name: values.reshape(-1).tolist() for name, values in numbers.items()})

    def _weights(self, names: Marginal, attributes: tuple[int, ...], counts: object) -> Floats:
        """What each cell of a table counts, with its attributes in ascending order."""
        if not isinstance(counts, Mapping):
            raise ArgumentError(f"the cells of {names} must be a dictionary by keys, got {shown(counts)}.")
        levels = [self.question.domains.levels(column) for column in names]
        found = np.zeros(tuple(map(len, levels)))
        for keys, weight in counts.items():
            cell = keys if isinstance(keys, tuple) else (keys,)
            if len(cell) != len(names) or any(key not in level for key, level in zip(cell, levels, strict=True)):
                raise ArgumentError(f"the table {names} has no cell {shown(keys)}: give one key per column.")
            found[tuple(level.index(key) for key, level in zip(cell, levels, strict=True))] += real(
                f"the count of {cell}", weight, cure="pass a number"
            )
        return np.transpose(found, np.argsort(attributes)) if attributes else found

    @cached_property
    def _tidied(self) -> tuple[dict[int, Floats], int]:
        answers, numbers = self._tables.answers, [*map(self.question.numbers, self.question.tables)]
        tables = {at: answers.table(tuple(sorted(attributes))) for at, attributes in enumerate(numbers)}
        tau = np.array([answers.deviation(attributes) for attributes in numbers])
        total = max(float(answers.table(())), 0.0)
        counts = workload_of(self.question.workload.sizes, numbers)
        return tidied(counts, tables, np.maximum(tau, 1e-300), total), round(total)

    def _tidy_table(self, attributes: tuple[int, ...], *, integers: bool) -> Floats:
        tables, total = self._tidied
        wanted = set(attributes)
        at, numbers = min(
            ((at, sorted(self.question.numbers(table))) for at, table in enumerate(self.question.tables)),
            key=lambda pair: (not wanted <= set(pair[1]), len(pair[1])),
        )
        others = tuple(axis for axis, attribute in enumerate(numbers) if attribute not in wanted)
        found = (rounded(tables[at], total) if integers else tables[at]).sum(axis=others)
        return np.transpose(found, [sorted(attributes).index(i) for i in attributes]) if attributes else found
