"""What a release of many tables returns: every table, and every table inside one, in agreement with each other."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.special import ndtri

from inid.arguments import Floats, real, shown
from inid.errors import ArgumentError
from inid.planning.text import aligned
from inid.releasing import Release
from inid.tables.facts import Key
from inid.tables.marginals.answers import Answers
from inid.tables.marginals.domains import Marginal
from inid.tables.marginals.laplace_law import coefficients, quantile
from inid.tables.marginals.plan import MarginalsPlan
from inid.tables.marginals.question import MarginalsQuestion
from inid.tables.marginals.tidy import rounded, tidied
from inid.tables.published import Published
from inid.tables.result import Row

if TYPE_CHECKING:
    from inid.report import LedgerState, ReportInputs

__all__ = ["Combination", "MarginalsResult", "PublishedTable", "interval_reach", "published_tables"]

_SHOWN = 20
_ROUNDING = 1 + 2.0**-12  # values lie on a grid of at most 2^-12 scales: its error adds less than this to a deviation


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
    """Private tables of counts that agree with each other.

    Attributes:
        plan: The plan by which the noise was drawn.
        release: The noisy numbers themselves; every answer is made of them.
        level: The probability with which each interval holds the exact answer.
        question: What was asked, with the public facts.
    """

    question: MarginalsQuestion
    plan: MarginalsPlan

    def marginal(self, *columns: str, tidy: bool = False, integers: bool = False) -> Any:
        """An asked table, or a table inside one, as a frame of the kind that the table was made of.

        One column per key, then estimate, lower, upper (the interval) and std (of the noise). Unknown keys and missing
        ones are the key "(other)", where the table states other="cell"; all keys then are texts.

        Args:
            columns: The columns of the table, in any order; none for the total.
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
        attributes = self._read(columns)
        if integers and not tidy:
            raise ArgumentError("integers=True goes with tidy=True: counts with intervals are not rounded.")
        if tidy:
            return self._frame(columns, {"estimate": self._tidy_table(attributes, integers=integers)})
        std = self._answers.deviation(attributes)
        estimate, reach = self._answers.table(attributes), self._reach(attributes)
        parts = {"estimate": estimate, "lower": estimate - reach, "upper": estimate + reach}
        return self._frame(columns, parts | {"std": np.full(estimate.shape, std)})

    def combine(self, cells: Mapping[Marginal | str, Mapping[tuple[Key, ...] | Key, float]]) -> Combination:
        """A linear combination of cells, of one table or of several, with its interval.

        Args:
            cells: For each table (a tuple of columns), what each of its cells, by its keys, counts:
                {("sex", "age"): {("F", 30): 1, ("F", 31): 1}}. Keys are those that `marginal` shows.

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
            weights = self._weights(names, self._read(names), counts)
            ascending = tuple(sorted(self._read(names)))
            wanted[ascending] = wanted.get(ascending, 0.0) + weights
        estimate, std = self._answers.combine(wanted)
        reach = self._interval(std, wanted)
        return Combination(estimate, estimate - reach, estimate + reach, std)

    @cached_property
    def rows(self) -> tuple[Row, ...]:
        """Every cell of the asked tables as a line of its own, like those of other statistics."""
        found = []
        unit = 1.0 if self.plan.mechanism == "gaussian" else math.sqrt(2.0)
        for entry in published_tables(self.question, self.release, self.level):
            cells = product(*(self.question.domains.levels(column) for column in entry.columns))
            for cell, value in zip(cells, entry.estimate.reshape(-1).tolist(), strict=True):
                groups = ", ".join(f"{column}={key}" for column, key in zip(entry.columns, cell, strict=True))
                ends = value - entry.reach, value + entry.reach
                found.append(Row("count", "", groups, value, *ends, entry.std / unit))
        return tuple(found)

    @cached_property
    def frame(self) -> Any:
        """The same as `to_frame()`."""
        return self.to_frame()

    def to_frame(self) -> Any:
        """Every asked table in one frame: table, one column per key (empty where the table lacks it), the numbers."""
        columns: dict[str, list[Any]] = {name: [] for name in ("table", *self.question.columns)}
        numbers: dict[str, list[float]] = {name: [] for name in ("estimate", "lower", "upper", "std")}
        for entry in published_tables(self.question, self.release, self.level):
            for cell in product(*(self.question.domains.levels(column) for column in entry.columns)):
                keys = dict(zip(entry.columns, map(str, cell), strict=True))
                columns["table"].append(", ".join(entry.columns) or "total")
                for column in self.question.columns:
                    columns[column].append(keys.get(column, ""))
            flat = entry.estimate.reshape(-1)
            for name, values in zip(numbers, (flat, flat - entry.reach, flat + entry.reach), strict=False):
                numbers[name] += values.tolist()
            numbers["std"] += [entry.std] * flat.size
        return self.source.answer(columns | numbers)

    def _answers_record(self) -> dict[str, Any]:
        published = published_tables(self.question, self.release, self.level)
        return {"tables": [entry.to_dict() for entry in published]}

    def _report_inputs(self, title: str | None, ledger: "LedgerState | None") -> "ReportInputs":
        from inid.tables.marginals.report_inputs import marginals_report_inputs

        return marginals_report_inputs(self, title=title or "Private tables of counts", ledger=ledger)

    def __str__(self) -> str:
        head = f"{len(self.question.tables)} tables of counts under {self.plan.budget}"
        head += "" if self.private else " - NOT PRIVATE: made by a test source"
        rows = [["table", "cell", "estimate", "interval", "std"]]
        for table in self.question.tables:
            attributes = self.question.numbers(table)
            std, reach = self._answers.deviation(attributes), self._reach(attributes)
            cells = product(*(self.question.domains.levels(column) for column in table))
            for cell, value in zip(cells, self._answers.table(attributes).reshape(-1).tolist(), strict=True):
                ends = f"[{value - reach:.6g}, {value + reach:.6g}]"
                name = ", ".join(table) or "total"
                rows.append([name, ", ".join(map(str, cell)), f"{value:.6g}", ends, f"{std:.4g}"])
                if len(rows) > _SHOWN:
                    break
            if len(rows) > _SHOWN:
                break
        more = int(self.question.workload.cells.sum()) - len(rows) + 1
        return "\n".join([head, *aligned(rows, left=2), *([f"... and {more} more cells"] if more else [])])

    @cached_property
    def _answers(self) -> Answers:
        return self.question.answers(self.release.values, self.plan.noise)

    def _read(self, columns: Sequence[str]) -> tuple[int, ...]:
        known = self.question.columns
        if any(column not in known for column in columns) or len(set(columns)) != len(columns):
            raise ArgumentError(f"a table must be over columns that were asked, got {shown(columns)}: {known}.")
        attributes = self.question.numbers(tuple(columns))
        if not any(set(columns) <= set(table) for table in self.question.maximal):
            raise ArgumentError(f"the table {tuple(columns)} is not inside any table that was asked: ask for it.")
        return attributes

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

    def _reach(self, attributes: tuple[int, ...]) -> float:
        return interval_reach(self.question, self.release, self.level, attributes, self._answers)

    def _interval(self, std: float, wanted: Mapping[tuple[int, ...], Floats]) -> float:
        return _half_width(self.question, self.release, self.level, std, wanted)

    @cached_property
    def _tidied(self) -> tuple[dict[int, Floats], int]:
        tables = {
            at: self._answers.table(tuple(sorted(self.question.numbers(table))))
            for at, table in enumerate(self.question.tables)
        }
        tau = np.array([table.std for table in self.plan.tables])
        total = max(float(self._answers.table(())), 0.0)
        return tidied(self.question.workload, tables, np.maximum(tau, 1e-300), total), round(total)

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


class PublishedTable(NamedTuple):
    """An asked table as it is recorded: its columns, estimates, standard deviation and half the width of intervals."""

    columns: Marginal
    estimate: Floats
    std: float
    reach: float

    def to_dict(self) -> dict[str, Any]:
        """A JSON-safe dictionary; the estimates in the order of the keys, the last column's fastest."""
        flat = self.estimate.reshape(-1).tolist()
        return {"columns": list(self.columns), "estimate": flat, "std": self.std, "reach": self.reach}


def published_tables(question: MarginalsQuestion, release: Release, level: float) -> list[PublishedTable]:
    """The asked tables that noisy numbers give."""
    answers = question.answers(release.values, release.plan)
    found = []
    for table in question.tables:
        attributes = question.numbers(table)
        std = answers.deviation(attributes)
        reach = interval_reach(question, release, level, attributes, answers)
        found.append(PublishedTable(table, answers.table(attributes), std, reach))
    return found


def interval_reach(
    question: MarginalsQuestion, release: Release, level: float, attributes: tuple[int, ...], answers: Answers
) -> float:
    """Half the width of the interval of a cell of a table: the same in every cell, by symmetry."""
    ascending = tuple(sorted(attributes))
    one = np.zeros(tuple(question.workload.sizes[i] for i in ascending))
    one[(0,) * one.ndim] = 1.0
    return _half_width(question, release, level, answers.deviation(attributes), {ascending: one})


def _half_width(
    question: MarginalsQuestion, release: Release, level: float, std: float, wanted: Mapping[tuple[int, ...], Floats]
) -> float:
    """Half the width of the interval of a combination: the quantile of its noise, exact under either kind."""
    noise = release.plan
    if noise.mechanism == "gaussian":
        return -float(ndtri((1 - level) / 2)) * std * _ROUNDING
    scales = question.scales(noise)
    parts = coefficients(question.workload, math.sqrt(2.0) * scales, wanted)
    counted = np.concatenate([(part * scale).reshape(-1) for part, scale in zip(parts, scales, strict=True)])
    unit = float(np.abs(counted).max()) * 2.0**-40  # equal ones differ in their last bits: rounded up, they are equal
    return quantile(np.ceil(np.abs(counted) / unit) * unit, level) * _ROUNDING
