"""Which tables of counts are asked, and the public facts they are asked with. No data: it can be kept in a record."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from inid.arguments import integer, shown
from inid.errors import ArgumentError, InidError, RecordError
from inid.planning import NoisePlan
from inid.sets import Neighbours, Sensitivity
from inid.tables.facts import Person
from inid.tables.marginals.allocation import least_sum
from inid.tables.marginals.answers import Answers, exact_residuals
from inid.tables.marginals.basis import Floats, contrasts, square_norms
from inid.tables.marginals.domains import Domains, Marginal, Ordered, read_domains, read_tables
from inid.tables.marginals.least_squares import block_estimates, precisions
from inid.tables.marginals.sensitivity import Residuals, residuals
from inid.tables.marginals.workload import Workload, workload_of
from inid.tables.view import View

__all__ = ["MarginalsQuestion"]

_EXACT = 2**52  # half of what doubles hold as whole numbers: the guarantee holds up to twice the stated rows


@dataclass(frozen=True, eq=False)
class MarginalsQuestion:
    """Tables of counts, and the public facts about the table that they are asked of.

    Attributes:
        tables: The asked tables, as tuples of columns.
        domains: The public domains of the columns that they use, and of no other.
        person: The privacy unit; None when it is a row.
        neighbours: The neighbouring relation.
        rows: A public guess of the number of rows, or None.
        max_rows: A public upper limit on the rows of the table.
        rows_can_vanish: Whether replacing one unit's data can take rows out of the query, whatever keys they have: see
            `Table.rows_can_vanish`.
        view: Which rows count, and which columns are computed from others.
    """

    tables: tuple[Marginal, ...]
    domains: Domains
    person: Person | None
    neighbours: Neighbours
    rows: int | None
    max_rows: int
    rows_can_vanish: bool = False
    view: View = field(default_factory=View)

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """The columns in use; their places are the numbers of the attributes."""
        return tuple(self.domains.keys)

    @cached_property
    def workload(self) -> Workload:
        """The tables and their blocks."""
        return workload_of([self.domains.size(column) for column in self.columns], [*map(self.numbers, self.tables)])

    @cached_property
    def maximal(self) -> tuple[Marginal, ...]:
        """The asked tables that are inside no other one: only these leave the engine."""
        kept: list[frozenset[str]] = []
        holding: dict[str, list[frozenset[str]]] = {column: [] for column in self.columns}
        found = []
        for table in sorted(self.tables, key=len, reverse=True):
            if not table or any(set(table) <= larger for larger in holding[table[0]]):
                continue
            kept.append(frozenset(table))
            for column in table:
                holding[column].append(kept[-1])
            found.append(tuple(sorted(table, key=self.columns.index)))
        return tuple(found)

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
        return tuple(self.columns.index(column) for column in table)

    def residuals(self, s: Floats) -> Residuals:
        """The residuals for given variances of the blocks, as a proved ellipsoid."""
        return residuals(self.workload, s, neighbours=self.neighbours, vanishing=self.vanishing, rows=self.unit_rows)

    @cached_property
    def coordinates(self) -> Residuals:
        """The coordinates of a plan of residuals, whatever its radii are."""
        return self.residuals(least_sum(self.workload, np.ones(len(self.tables))).s)

    @cached_property
    def table_set(self) -> Sensitivity:
        """How far one person moves the cells of each asked table (for Laplace noise): each row counts in one cell."""
        reach = self.unit_rows * (2 if self.neighbours == "replace" else 1)
        sizes = self.workload.cells.astype(np.int64)
        return Sensitivity.groups(sizes, l1=np.full(sizes.size, float(reach)), neighbours=self.neighbours)

    def is_covered_by(self, noise: NoisePlan) -> bool:
        """Whether the set of a plan holds whatever one person can change in the numbers that this question releases."""
        if noise.sensitivity.kind == "ellipsoid":
            return noise.mechanism == "gaussian" and self.coordinates.is_covered_by(noise.sensitivity)
        return noise.mechanism == "laplace" and noise.sensitivity == self.table_set

    def check_exact(self) -> None:
        """Refuse tables whose residuals could leave the whole numbers that doubles hold (M6).

        Raises:
            ArgumentError: They could; the message names a limit on the rows with which they cannot.
        """
        sizes = {column: contrasts(self.domains.size(column)).largest for column in self.columns}
        for table in self.maximal:
            largest = int(np.prod([sizes[column] for column in table], dtype=object))
            if self.max_rows * largest >= _EXACT:
                raise ArgumentError(
                    f"the table {table} of {self.max_rows:,} rows would leave the whole numbers that doubles hold: "
                    f"state Table(max_rows={max((_EXACT - 1) // largest, 1)}) or fewer, or ask for fewer columns."
                )

    def values(self, counted: list[Floats], noise: NoisePlan) -> Floats:
        """The exact numbers that a plan releases, from the counts of the maximal tables.

        Each is held to its public limit, which is 1-Lipschitz and does nothing within `max_rows`.
        """
        if noise.sensitivity.kind != "ellipsoid":
            parts = [self._table(table, counted).reshape(-1) for table in self.tables]
            return np.clip(np.concatenate(parts), 0, self.max_rows)
        made = self.coordinates
        places = {}
        numbers = [self.numbers(table) for table in self.maximal]
        holding: dict[int, list[int]] = {at: [] for at in range(len(self.columns))}
        for at, attributes in enumerate(numbers):
            for attribute in attributes:
                holding[attribute].append(at)
        limits = []
        for block in made.blocks.tolist():
            inside = self.workload.attributes(block)
            candidates = holding[inside[0]] if inside else range(len(numbers))
            at = next(at for at in candidates if set(inside) <= set(numbers[at]))
            places[block] = (at, *(numbers[at].index(i) for i in inside))
            largest = float(np.prod([contrasts(self.workload.sizes[i]).largest for i in inside]))
            limits.append(np.full(int(self.workload.entries[block]), self.max_rows * largest))
        exact = exact_residuals(made, dict(enumerate(counted)), places)
        bound = np.concatenate(limits)
        total = np.clip([counted[0].sum()] * made.public_totals, 0, self.max_rows)
        return np.append(total, np.clip(exact, -bound, bound))

    def _table(self, table: Marginal, counted: list[Floats]) -> Floats:
        """An asked table with its attributes in ascending order, from one that holds it."""
        at = next(at for at, larger in enumerate(self.maximal) if set(table) <= set(larger))
        others = tuple(axis for axis, column in enumerate(self.maximal[at]) if column not in table)
        return np.asarray(counted[at].sum(axis=others))

    def scales(self, noise: NoisePlan) -> Floats:
        """The largest scale of each run of residuals, or of each table's cells."""
        counts = self.workload.cells if noise.sensitivity.kind != "ellipsoid" else noise.sensitivity.counts
        starts = np.arange(noise.dimension) if counts is None else np.cumsum(counts) - counts
        return np.asarray(np.maximum.reduceat(noise.scales, starts.astype(np.int64)))

    def answers(self, values: Floats, noise: NoisePlan) -> Answers:
        """Noisy numbers, ready to be read as tables that agree with each other."""
        made, work = self.coordinates, self.workload
        if noise.sensitivity.kind == "ellipsoid":
            start = made.public_totals
            total = float(values[0]) if start else None
            return Answers(made, values[start:], noise.scales[start:], total)
        tau = np.sqrt(2.0) * self.scales(noise)
        ends = np.append(0, np.cumsum(work.cells)).astype(np.int64)
        noisy = {}
        for at in range(len(self.tables)):
            shape = tuple(work.sizes[i] for i in sorted(self.numbers(self.tables[at])))
            noisy[at] = values[ends[at] : ends[at + 1]].reshape(shape)
        estimates, exact = block_estimates(work, noisy, tau), precisions(work, tau)
        blocks = np.arange(len(work.blocks))
        every = Residuals(work, blocks, np.ones(0), np.ones(0, np.int64), self.neighbours, self.vanishing)
        parts, scales = [], []
        for block, order in zip(blocks.tolist(), every.orders, strict=True):
            distinct, _, which = square_norms(tuple(work.sizes[i] for i in work.attributes(block)))
            parts.append(estimates[block].reshape(-1)[order])
            scales.append(np.sqrt(np.array([float(q) for q in distinct])[which[order]] / exact[block]))
        return Answers(every, np.concatenate(parts), np.concatenate(scales))

    def to_dict(self) -> dict[str, Any]:
        """A JSON-safe dictionary, of which `from_dict` makes the same question."""
        person = self.person
        return {
            "marginals": [list(table) for table in self.tables],
            "domains": {column: list(keys) for column, keys in self.domains.keys.items()},
            "other": self.domains.other,
            "ordered": sorted(self.domains.ordered),
            "person": person and {"column": person.column, "max_rows": person.max_rows, "order_by": list(person.order)},
            "neighbours": self.neighbours,
            "rows": self.rows,
            "max_rows": self.max_rows,
            "rows_can_vanish": self.rows_can_vanish,
            **self.view.to_dict(),
        }

    @classmethod
    def from_dict(cls, record: Any) -> "MarginalsQuestion":
        """The question that `to_dict` described.

        Raises:
            RecordError: The record does not parse.
        """
        cure = "the record was changed"
        try:
            stated = {
                column: Ordered(keys) if column in record.get("ordered", ()) else keys
                for column, keys in record["domains"].items()
            }
            domains, person, rows = read_domains(stated, record["other"]), record["person"], record["rows"]
            tables = read_tables("marginals", [tuple(table) for table in record["marginals"]], domains)
            made = cls(
                tables=tables,
                domains=domains,
                person=person and Person(person["column"], person["max_rows"], person["order_by"]),
                neighbours=record["neighbours"],
                rows=None if rows is None else integer("rows", rows, least=1, cure=cure),
                max_rows=integer("max_rows", record["max_rows"], least=1, cure=cure),
                rows_can_vanish=bool(record.get("rows_can_vanish", person is not None)),
                view=View.from_dict(record),
            )
            made.check_exact()
            made.coordinates  # noqa: B018 - made now: the relation may be none
        except (InidError, KeyError, TypeError, ValueError, AttributeError, OverflowError):
            raise RecordError(f"the question in the record does not parse, got {shown(record)}.") from None
        return made
