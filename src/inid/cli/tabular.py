"""Questions about a table: from options to `inid.tables`, and from its answers to what the command shows."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from inid.accounting import Ledger
from inid.cli import reading
from inid.cli.ledgers import state
from inid.cli.options import Noise, Subject
from inid.cli.planned import Line, Planned
from inid.cli.results import Estimate
from inid.cli.speaking import plain_number
from inid.cli.stating import noise_arguments
from inid.errors import ArgumentError, InidError
from inid.planning import AccuracyPlan, plan_for_accuracy
from inid.promises import Budget
from inid.tables import Person, Query, Result, Table, TablePlan
from inid.tables.statistics import read_tolerances, slopes

__all__ = ["Planning", "Published", "Tabular"]

_COLUMNS = ("sum", "mean", "variance", "std", "covariance")
_SURE = 1 - 1e-9
_NOMINAL = 1000  # rows assumed without --rows, as in inid.tables


@dataclass(frozen=True)
class Planning:
    """A plan as the library holds it, and as the command shows it."""

    plan: TablePlan
    planned: Planned


@dataclass(frozen=True)
class Published:
    """A release: the estimates, the ledger's state after the charge, and whether a count may be at the rows' limit."""

    estimates: tuple[Estimate, ...]
    level: float
    private: bool
    time: str
    label: str
    ledger: dict[str, Any] | None
    full: bool


class Tabular:
    """A question about a table. Making one reads the names and types of the columns, and no value.

    Raises:
        ArgumentError: An option is malformed, or does not fit the table.
    """

    def __init__(self, options: Subject) -> None:
        name = reading.word("TABLE", options.table) or ""
        self.source = Path(name).name
        self.bounds = reading.intervals("--bounds", options.bounds)
        self._columns = {kind: reading.words(f"--{kind}", getattr(options, kind)) for kind in _COLUMNS}
        self._count = reading.switch("--count", options.count)
        self._cells = reading.cells("--histogram", options.histogram)
        self._by = reading.keys("--by", options.by)
        self._missing = reading.fills("--missing", options.missing)
        self._person = _person(options)
        limit = reading.whole("--table-max-rows", options.table_max_rows)
        self.table = Table(
            name,
            bounds=self.bounds,
            unit=self._person or "row",
            neighbours=reading.word("--neighbours", options.neighbours) or "add_remove",
            missing=self._missing or "omit",
            rows=reading.whole("--rows", options.rows),
            **({} if limit is None else {"max_rows": limit}),
        )
        self._require_bounds()
        self.query: Query = self.table.query(count=self._count, histogram=self._cells, by=self._by, **self._columns)

    def _require_bounds(self) -> None:
        """Refuse what the library would refuse as well, in the words of the command."""
        for kind, names in self._columns.items():
            self.table.source.require(f"--{kind}", names)
            for name in names:
                if name not in self.bounds:
                    raise ArgumentError(
                        f"--{kind} needs public limits for {name!r}: add --bounds {name}=LOWER:UPPER, from what is "
                        "known without looking at the table."
                    )

    @property
    def neighbours(self) -> str:
        """The neighbouring relation."""
        return self.table.neighbours

    @property
    def unit(self) -> str:
        """The privacy unit in a ledger's words: "row", or the name of the person column."""
        return "row" if self._person is None else self._person.column

    def plan(self, noise: Noise, budget: Budget) -> Planning:
        """The plan and its lines."""
        made = self.query.plan(
            budget,
            tolerance=_by_name("--tolerance", noise.tolerance),
            weights=_by_name("--weights", noise.weights),
            **noise_arguments(noise),  # type: ignore[arg-type]
        )
        return Planning(made, _planned(made))

    def release(self, made: Planning, ledger: Ledger | None, label: str, level: float) -> Published:
        """Charge, sum, add noise."""
        result = self.query.release(made.plan, ledger=ledger, label=label, level=level)
        return Published(
            _estimates(result),
            result.level,
            result.private,
            result.release.time.isoformat(),
            label,
            None if ledger is None else _state(ledger),
            self._is_full(result),
        )

    def _is_full(self, result: Result) -> bool:
        """Whether a released count may be at the limit on the table's rows, for all that its noise says."""
        _, upper = result.release.interval(_SURE)
        counts = [label.startswith("count") for label in self.query.labels]
        return bool((upper[counts] >= self.table.max_rows).any())

    def accuracy(self, tolerance: object, failure: float, delta: float | None) -> tuple[AccuracyPlan, list[str]]:
        """The least budget found with which every statistic is within its tolerance.

        A statistic made of m sums is within its tolerance t when each sum i is within t / (m J_i), J_i the statistic's
        slope; each sum then may fail with probability failure / m (a union bound). Exact where m = 1; first-order and a
        little more careful than necessary for ratios.
        """
        query, layout = self.query, self.query.layout
        rows = (self.table.rows or _NOMINAL) / len(query.cells)
        columns = list(dict.fromkeys([*layout.values, *self._cells]))
        wanted = read_tolerances(layout, _by_name("--tolerance", tolerance), None, columns, rows)
        limits = [math.inf] * len(layout.items)
        most = 1
        for statistic, limit in zip(layout.statistics, wanted, strict=True):
            moves = slopes(statistic, layout, rows)
            most = max(most, len(moves))
            for item, slope in moves.items():
                limits[item] = min(limits[item], limit / (len(moves) * slope) if slope else math.inf)
        answers = [
            plan_for_accuracy(sensitivity, limits, failure=failure / most, delta=delta)
            for sensitivity in query.all_sensitivities([1 / limit for limit in limits])
        ]
        best = min(answers, key=lambda answer: float(answer.plan.budget.to_dict()["epsilon"]))
        return best, list(query.labels)

    def described(self) -> list[tuple[str, str]]:
        """Term and description of every public fact of the question, for the report."""
        kinds = ["count"] if self._count else []
        kinds += [f"{kind} of {_counted(len(names), 'column')}" for kind, names in self._columns.items() if names]
        kinds += [f"histogram of {_counted(len(self._cells), 'column')}"] if self._cells else []
        rows = self.table.rows
        terms = [
            ("table", self.source),
            ("statistics", ", ".join(kinds)),
            ("groups", "; ".join(f"{name}: {_listed(keys)}" for name, keys in self._by.items())),
            ("privacy unit", self._unit_in_words()),
            ("neighbours", "one unit added or removed" if self.neighbours == "add_remove" else "one unit replaced"),
            ("rows assumed", f"{_NOMINAL:,}, a nominal guess" if rows is None else f"{rows:,}, a public guess"),
            ("rows at most", f"{self.table.max_rows:,}"),
        ]
        return [(term, text) for term, text in terms if text]

    def columns(self) -> list[tuple[str, str, str, str]]:
        """For each column that is asked about: its name, statistics, bounds, and what a missing value becomes."""
        found = []
        for name in dict.fromkeys([*(name for names in self._columns.values() for name in names), *self._cells]):
            asked = [kind for kind, names in self._columns.items() if name in names]
            asked += [f"histogram over {_listed(self._cells[name])}"] if name in self._cells else []
            low, high = self.bounds.get(name, (None, None))
            limits = "" if low is None or high is None else f"{plain_number(low)} to {plain_number(high)}"
            filled = f"count as {_listed([self._missing[name]])}" if name in self._missing else "left out"
            found.append((name, ", ".join(asked), limits, filled))
        return found

    def _unit_in_words(self) -> str:
        if self._person is None:
            return "one row"
        return f"whoever shares a value of {self._person.column}, with at most {self._person.max_rows} rows"


def _person(options: Subject) -> Person | None:
    column = reading.word("--person", options.person)
    limit = reading.whole("--max-rows", options.max_rows)
    order = reading.words("--order-by", options.order_by)
    if column is None:
        if limit is not None or order:
            raise ArgumentError("--max-rows and --order-by go with --person: name the column that tells people apart.")
        return None
    if limit is None:
        raise ArgumentError("--person needs --max-rows: state how many rows of one person count, for example 5.")
    return Person(column, max_rows=limit, order_by=order or None)


def _by_name(option: str, value: object) -> dict[str, float] | None:
    found = reading.named_numbers(option, value)
    if found is None or isinstance(found, dict):
        return found
    raise ArgumentError(f"{option} of a table is given by name, for example {option} age=1,income=500.")


def _planned(made: TablePlan) -> Planned:
    lines = tuple(
        Line(
            label=entry.label,
            share=entry.share,
            deviation=entry.error,
            tolerance=entry.tolerance,
            baselines={"iid": entry.iid, "spr": entry.spr},
        )
        for entry in made.statistics
    )
    gains = {name: made.gain(name) for name in ("iid", "spr")}
    return Planned(made.noise, lines, made.compare(), gains, made.remark, made.rows, not made.stated)


def _estimates(result: Result) -> tuple[Estimate, ...]:
    return tuple(
        Estimate(row.statistic, row.column, row.groups, *map(_finite, (row.estimate, row.lower, row.upper, row.scale)))
        for row in result.rows
    )


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _state(ledger: Ledger) -> dict[str, Any] | None:
    try:
        return state(ledger)
    except InidError:  # the release is paid for: that the ledger cannot be read just now must not lose it
        return None


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _listed(values: Sequence[object]) -> str:
    return ", ".join(f"{value:g}" if isinstance(value, float) else str(value) for value in values)
