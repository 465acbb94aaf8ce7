"""Which statistics by tables are asked, with which public facts. No data: it can be kept in a record."""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations
from typing import Any, Self

import numpy as np

from inid.arguments import Floats, real
from inid.errors import ArgumentError, Words
from inid.planning import NoisePlan
from inid.sets import Sensitivity
from inid.tables.facts import (
    OTHER,
    Bounds,
    Domains,
    Key,
    Marginal,
    Ordered,
    read_bounds,
    read_domains,
    read_missing,
    read_tables,
)
from inid.tables.questions.marginals.sensitivity import Residuals, residuals
from inid.tables.questions.marginals.table_statistics import (
    OFFSETS,
    StatisticKind,
    SummedColumn,
    TableStatistic,
    integer_reach,
    largest_contrast,
    read_numbers,
    slack_of,
    summed_columns,
)
from inid.tables.questions.marginals.workload import Parts, Workload, least_sum, workload_of
from inid.tables.view import PublicFacts, parsing

_MOST_CELLS = 2**26  # of all asked tables in one release
_MOST_SIZED = 2**20  # cells of a table of which sizes are looked up; of more, most have one row at most
_EXACT = 2**52  # half of what doubles hold as whole numbers: the guarantee holds up to twice the stated rows


@dataclass(frozen=True, eq=False, kw_only=True)
class MarginalsQuestion(PublicFacts):
    """Statistics by tables, and the public facts about the table that they are asked of."""

    tables: tuple[Marginal, ...]
    domains: Domains
    rows_can_vanish: bool = False
    means: Mapping[str, tuple[Marginal, ...]] = field(default_factory=dict)
    sums: Mapping[str, tuple[Marginal, ...]] = field(default_factory=dict)
    bounds: Mapping[str, Bounds] = field(default_factory=dict)
    missing: Mapping[str, object] = field(default_factory=dict)
    offset: float = 0.0
    cautious: bool = False

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """The columns of tables; their places are the numbers of the attributes."""
        return tuple(self.domains.keys)

    @cached_property
    def asked_tables(self) -> list[tuple[StatisticKind, str, tuple[Marginal, ...]]]:
        """Everything that is asked: counts, then means, then sums, each with its column and its tables."""
        statistics: list[tuple[StatisticKind, str, tuple[Marginal, ...]]] = [("count", "", self.tables)]
        statistics += [("mean", name, tables) for name, tables in self.means.items()]
        statistics += [("sum", name, tables) for name, tables in self.sums.items()]
        return [asked for asked in statistics if asked[2]]

    @cached_property
    def statistics(self) -> tuple[TableStatistic, ...]:
        """The same, one by one."""
        return tuple(TableStatistic(kind, name, table) for kind, name, tables in self.asked_tables for table in tables)

    def statistic(self, number: int) -> TableStatistic:
        """One of them, without the others being made."""
        for kind, name, tables in self.asked_tables:
            if number < len(tables):
                return TableStatistic(kind, name, tables[number])
            number -= len(tables)
        raise IndexError(number)

    def only(self, statistic: TableStatistic) -> Self:
        """The question of one of them by itself."""
        numbers: dict[str, dict[str, tuple[Marginal, ...]]] = {"mean": {}, "sum": {}}
        if statistic.column:
            numbers[statistic.kind] = {statistic.column: (statistic.table,)}
        return replace(
            self,
            tables=() if statistic.column else (statistic.table,),
            domains=self.domains.among(column for column in self.columns if column in statistic.table),
            means=numbers["mean"],
            sums=numbers["sum"],
            offset=0.0,
        )

    @cached_property
    def summed(self) -> dict[str, SummedColumn]:
        """The columns of numbers, on their grids."""
        names = list(dict.fromkeys([*self.means, *self.sums]))
        tables = {name: [*self.means.get(name, ()), *self.sums.get(name, ())] for name in names}
        columns = summed_columns(names, tables, self.domains, self.bounds, self.missing, self.max_rows)
        return {column.name: column for column in columns}

    @cached_property
    def may_be_missing(self) -> tuple[str, ...]:
        """The columns of numbers without a fill value."""
        return tuple(name for name, column in self.summed.items() if not column.filled)

    def cell_rows(self, table: Marginal) -> float:
        """The rows assumed in a cell of a table, at least 1: a public guess, for planning and display only.

        Where sizes of groups are stated, the number at which an error that falls with 1 / rows is its root mean square
        over the cells; with `cautious` the smallest.
        """
        cells = float(np.prod([self.domains.size(column) for column in table]))
        rows = (
            self.rows_by_group(self.levels_of(table)) if cells <= _MOST_SIZED else np.full(1, self.assumed_rows / cells)
        )
        least = float(rows.min())
        return max(least if self.cautious else least * float(np.mean((least / rows) ** 2) ** -0.5), 1.0)

    def levels_of(self, table: Marginal) -> dict[str, Sequence[Key]]:
        """The public keys of the columns of a table, and the cell of others where there is one."""
        other = [OTHER] if self.domains.other == "cell" else []
        return {column: [*self.domains.keys[column], *other] for column in table}

    def with_offset(self, offset: float) -> Self:
        """The same question with another t; itself where it has this one, with all that was computed for it."""
        return self if offset == self.offset else replace(self, offset=offset)

    def present_parts(self, column: SummedColumn) -> list[tuple[int, float]]:
        """The channels whose tables make the number of rows that have a value, and what each counts."""
        if column.present is None:
            return [(0, 1.0)]
        return [(column.present, 1.0), *([(0, self.offset)] if self.offset else [])]

    def parts(self, statistic: TableStatistic) -> list[tuple[int, float]]:
        """The channels whose tables a statistic is made of, and how far it moves per unit of error in each.

        Exact for counts and sums. For a mean, first order, with a public guess at its values: half-way between the
        middle and a bound (with `cautious` at it), and the guessed rows of a cell.
        """
        if not statistic.column:
            return [(0, 1.0)]
        column = self.summed[statistic.column]
        number, slope = 1.0, column.grid.middle
        if statistic.kind == "mean":
            number = 1 / self.cell_rows(statistic.table)
            slope = number * column.grid.half / (1 if self.cautious else 2)
        others = [(channel, slope * factor) for channel, factor in self.present_parts(column)] if slope else []
        return [(column.number, number), *others]

    @property
    def asked(self) -> int:
        """How many statistics are asked."""
        return len(self.tables) + sum(map(len, self.means.values())) + sum(map(len, self.sums.values()))

    @cached_property
    def workload(self) -> Workload:
        """The tables of all channels and their blocks."""
        sizes = [self.domains.size(column) for column in self.columns]
        if not self.summed:
            return workload_of(sizes, [self.numbers(table) for table in self.tables])
        places: dict[tuple[int, tuple[int, ...]], int] = {}
        entries = []
        for at, statistic in enumerate(self.statistics):
            attributes = tuple(sorted(self.numbers(statistic.table)))
            for channel, slope in self.parts(statistic):
                place = places.setdefault((channel, attributes), len(places))
                entries.append((at, place, slope**2))
        return workload_of(
            sizes,
            [attributes for _, attributes in places],
            channels=[channel for channel, _ in places],
            contributions=[column.contribution(self.offset) for column in self.summed.values()],
            parts=Parts(
                np.array([at for at, _, _ in entries], dtype=np.intp),
                np.array([place for _, place, _ in entries], dtype=np.intp),
                np.array([square for _, _, square in entries]),
            ),
        )

    @cached_property
    def maximal(self) -> dict[Marginal, tuple[str, ...]]:
        """The asked tables that are inside no other one, each with the columns that are added up by it.

        Only these leave the engine.
        """
        lengths = sorted({len(statistic.table) for statistic in self.statistics})
        if len(lengths) == 1 and not self.summed:
            return {tuple(sorted(table, key=self._places.__getitem__)): () for table in self.tables}
        holders: dict[frozenset[str], list[Marginal]] = {}
        columns_of: dict[Marginal, list[str]] = {}
        for statistic in sorted(self.statistics, key=lambda asked: -len(asked.table)):
            holder = holders.get(frozenset(statistic.table))
            if holder is None:
                table = tuple(sorted(statistic.table, key=self._places.__getitem__))
                columns_of[table], holder = [], [table]
                for length in lengths[: bisect_right(lengths, len(table))]:
                    for inside in combinations(table, length):
                        holders.setdefault(frozenset(inside), []).append(table)
            if statistic.column and not any(statistic.column in columns_of[table] for table in holder):
                columns_of[holder[0]].append(statistic.column)
        return {table: tuple(columns) for table, columns in columns_of.items()}

    @property
    def unit_rows(self) -> int:
        """The most rows of one person."""
        return 1 if self.person is None else self.person.max_rows

    @property
    def vanishing(self) -> bool:
        """Whether a row can vanish from the query under "replace"."""
        dropped = self.domains.other == "drop" or self.view.drops_rows
        return self.rows_can_vanish or self.person is not None or dropped

    def numbers(self, table: Marginal) -> tuple[int, ...]:
        """The numbers of the attributes of a table."""
        return tuple(self._places[column] for column in table)

    @cached_property
    def _places(self) -> dict[str, int]:
        return {column: at for at, column in enumerate(self.columns)}

    def integer_limit(self, channel: int, attributes: tuple[int, ...]) -> tuple[int, float]:
        """The largest residual of a block, as a whole number, with `max_rows` rows; and what one unit is worth."""
        reach, unit = 1, 1.0
        for column in self.summed.values():
            if channel in (column.present, column.number):
                reach, unit = integer_reach(column, channel, self.offset)
        largest = largest_contrast([self.columns[i] for i in attributes], self.domains)
        return self.max_rows * reach * largest, unit

    def residuals(self, s: Floats) -> Residuals:
        """The residuals for given variances of the blocks, as a proved ellipsoid."""
        facts = {"neighbours": self.neighbours, "vanishing": self.vanishing, "rows": self.unit_rows}
        return residuals(self.workload, s, slack=self._slack, **facts)  # type: ignore[arg-type]

    @cached_property
    def _slack(self) -> Floats | None:
        """How much further apart floats can be than the whole numbers of each block; None for counts alone."""
        if not self.summed:
            return None
        work = self.workload
        return np.array(
            [
                slack_of(*self.integer_limit(int(work.blocks[block, 0]), work.attributes(block)))
                for block in range(len(work.blocks))
            ]
        )

    @cached_property
    def coordinates(self) -> Residuals:
        """The coordinates of a plan of residuals, whatever its radii are."""
        return self.residuals(least_sum(self.workload, np.ones(self.asked)).s)

    @cached_property
    def every_block(self) -> Residuals:
        """The coordinates of estimates of all blocks, whatever was released."""
        blocks = np.arange(len(self.workload.blocks))
        return Residuals(self.workload, blocks, np.ones(0), np.ones(0, np.int64), self.neighbours, self.vanishing)

    @cached_property
    def table_set(self) -> Sensitivity:
        """How far one person moves the cells of each table (for Laplace noise): each row adds to one cell of it."""
        work, moved = self.workload, self.unit_rows * (2 if self.neighbours == "replace" else 1)
        # Each of the cells that a row adds to may also be rounded on its way to a float.
        limits = [
            moved * (float(work.reach[channel]) + slack_of(*self.integer_limit(channel, ())))
            for channel in work.tables[:, 0].tolist()
        ]
        sizes = work.cells.astype(np.int64)
        reach = np.nextafter(limits, np.inf) if self.summed else np.array(limits)
        return Sensitivity.groups(sizes, l1=reach, neighbours=self.neighbours)

    def is_covered_by(self, noise: NoisePlan) -> bool:
        """Whether the set of a plan holds whatever one person can change in the numbers that this question releases."""
        if noise.sensitivity.kind == "ellipsoid":
            return noise.mechanism == "gaussian" and self.coordinates.is_covered_by(noise.sensitivity)
        return noise.mechanism == "laplace" and noise.sensitivity == self.table_set

    def check_exact(self) -> None:
        """Refuse tables whose residuals could leave the whole numbers that are computed with (M6)."""
        self.summed  # noqa: B018 - made now: it may refuse
        work = self.workload
        factors = self.max_rows * work.largest_contrasts  # exact below 2^53
        if (factors >= _EXACT).any():
            first = work.tables[int(np.argmax(factors >= _EXACT)), 1:]
            table = tuple(self.columns[i] for i in first.tolist() if i >= 0)
            largest = largest_contrast(table, self.domains)
            raise ArgumentError(
                f"the table {table} of {self.max_rows:,} rows would leave the whole numbers that doubles hold: "
                f"state Table(max_rows={max((_EXACT - 1) // largest, 1)}) or fewer, or ask for fewer columns.",
                code="rows_beyond",
                what=Words(f"a table over {' * '.join(table)}"),
                rows=Words(max((_EXACT - 1) // largest, 1)),
            )

    def check_cells(self) -> None:
        """Refuse to release more cells than are held at once. A plan needs none of them."""
        cells = int(self.workload.cells.sum())
        if cells > _MOST_CELLS:
            raise ArgumentError(
                f"the tables have {cells:,} cells, at most 2^26 fit into a release: ask for fewer columns or tables."
            )

    def scales(self, noise: NoisePlan) -> Floats:
        """The largest scale of each row of the plan's set, or of each table's cells."""
        counts = self.workload.cells if noise.sensitivity.kind != "ellipsoid" else noise.sensitivity.counts
        if counts is not None and noise.run_scales.size == counts.size:
            return np.asarray(noise.run_scales)
        starts = np.arange(noise.dimension) if counts is None else np.cumsum(counts) - counts
        return np.asarray(np.maximum.reduceat(noise.scales, starts.astype(np.int64)))

    def to_dict(self) -> dict[str, Any]:
        numbers = {
            "means": {name: [list(table) for table in tables] for name, tables in self.means.items()},
            "sums": {name: [list(table) for table in tables] for name, tables in self.sums.items()},
            "bounds": {name: list(self.bounds[name]) for name in self.summed},
            "missing": dict(self.missing),
            "offset": self.offset,
        }
        return {
            "marginals": [list(table) for table in self.tables],
            "domains": {column: list(keys) for column, keys in self.domains.keys.items()},
            "other": self.domains.other,
            "ordered": sorted(self.domains.ordered),
            **self.facts_to_dict(),
            "rows_can_vanish": self.rows_can_vanish,
            **(numbers if self.summed else {}),
        }

    @classmethod
    def from_dict(cls, record: Any) -> Self:
        cure = "the record was changed"
        with parsing(record):
            stated = {
                column: Ordered(keys) if column in record.get("ordered", ()) else keys
                for column, keys in record["domains"].items()
            }
            domains = read_domains(stated, record["other"])
            asked = {
                name: {column: [tuple(table) for table in tables] for column, tables in record.get(name, {}).items()}
                for name in ("means", "sums")
            }
            counts = [tuple(table) for table in record["marginals"]]
            offset = real("offset", record.get("offset", 0.0), cure=cure)
            if offset not in OFFSETS:
                raise ArgumentError(f"offset is none that a plan takes: {cure}.")
            question = cls(
                tables=read_tables("marginals", counts, domains, total=any(asked.values())) if counts else (),
                domains=domains,
                rows_can_vanish=bool(record.get("rows_can_vanish", record["person"] is not None)),
                **cls.facts_from_dict(record),
                means=read_numbers("means", asked["means"], domains),
                sums=read_numbers("sums", asked["sums"], domains),
                bounds=read_bounds(record.get("bounds", {})),
                missing=read_missing(record.get("missing", {})),
                offset=offset,
            )
            question.check_exact()
            question.coordinates  # noqa: B018 - made now: the relation may be none
        return question
