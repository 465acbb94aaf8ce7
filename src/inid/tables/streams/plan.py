"""What a stream promises and how accurate it is, before anything is spent; its question, asked of one period's rows."""

import json
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, cast, get_args

import numpy as np

from inid.accounting import JointCharge
from inid.arguments import Floats, choice, integer, shown
from inid.errors import ArgumentError, GuaranteeError, RecordError
from inid.planning import Certificate, NoisePlan
from inid.planning.noise_plan import aligned, counted
from inid.promises import Budget, PureDP
from inid.report import PlanSummary, summarize_plan
from inid.tables.aggregation import Aggregation, FoundKeys, Grouping
from inid.tables.engines import CsvDialect, Engine, is_csv, open_table
from inid.tables.engines.roles import IdKind, is_text
from inid.tables.expressions import col
from inid.tables.facts import Bins, Key
from inid.tables.plan import promise_remarks, rows_in_words
from inid.tables.query import Query
from inid.tables.questions.statistics.kind import Statistics
from inid.tables.streams.strategies import Choice, Want, choose_strategy, independent_periods, strategy_from_dict
from inid.tables.table import Table
from inid.tables.view import parsing

if TYPE_CHECKING:
    from inid.accounting import Ledger


_WORDS: dict[IdKind, str] = {"str": "texts", "int": "whole numbers"}


def period_query(
    question: Statistics, data: object, listed: IdKind | None = None, file: Mapping[str, Any] = MappingProxyType({})
) -> Query[Any, Any]:
    """A stream's question, asked of the rows of one period: nothing of them is looked at but names and types."""
    view = question.view
    data = open_table(data, dialect=CsvDialect.read(**file) if is_csv(data) else None)
    if listed is not None and question.person is not None:
        data = _with_ids(data, question.person.column, listed)
    facts: dict[str, Any] = {
        "unit": question.person or "row",
        "neighbours": question.neighbours,
        "rows": question.rows,
        "max_rows": question.max_rows,
        "other": question.other,
    }
    if view.people is not None:
        query = _people_query(Table(data, **facts), question)
        query.check()
        return query
    derived = view.derived
    if question.weight is not None:
        facts |= {"weight": question.weight[0], "max_weight": question.weight[1]}
    stated = {"bounds": question.bounds, "missing": question.missing}
    facts |= {name: _of(columns, derived, computed=False) for name, columns in stated.items()}
    table = Table(data, **facts)
    if derived:
        computed: dict[str, Any] = {name: _of(columns, derived, computed=True) for name, columns in stated.items()}
        computed |= derived
        table = table.with_columns(**computed)
    if view.where is not None:
        table = table.where(view.where)
    query = _asked_again(table, question)
    query.check()
    return query


def _people_query(table: Table, question: Statistics) -> Query[Any, Any]:
    """The same where the table has one row a person: their features are those of this period's rows."""
    people, view = question.view.people, question.view
    if people is None:
        raise TypeError("a view of people has their features")
    rows = people.row_view
    for formula in [*rows.derived.values(), *([] if rows.where is None else [rows.where])]:
        table.source.require_leaves("a feature", rows.leaves(formula))
    for name, role in people.roles.items():
        table.source.require_keys("same", str(people.features[name].column), ["" if role == "str" else 0])
    viewed = table._with(source=table.source.seen(view), bounds=question.bounds, missing=question.missing)  # noqa: SLF001 - the same table
    return _asked_again(viewed, question)


def _asked_again(table: Table, question: Statistics) -> Query[Any, Any]:
    asked: dict[str, Any] = {**question.columns, "count": question.count, "count_distinct": question.count_distinct}
    asked["histogram"] = {
        column: list(cells.edges) if isinstance(cells, Bins) else cells for column, cells in question.histogram.items()
    }
    return table.statistics(**asked, by=question.by or None)


def _with_ids(source: Engine, column: str, kind: IdKind) -> Engine:
    source.require("unit", [column])
    if not (source.text or source.is_untyped(column)) and people_kind(source, column) != kind:
        raise ArgumentError(
            f"the people of this stream are {_WORDS[kind]}, and {column!r} holds something else in these rows: cast it."
        )
    return source.with_ids(column, kind)


def people_kind(source: Engine, column: str) -> IdKind:
    """What people are told apart by in a list, from the type of their column: texts, or whole numbers."""
    if source.text or source.is_untyped(column) or is_text(source.schema[column]):
        return "str"
    with suppress(ArgumentError):
        source.require_keys("unit", column, [0])
        if not source.schema[column].is_temporal():
            return "int"
    raise ArgumentError(
        f"people are listed by {column!r}, so that nobody counts in more periods than stated, and it holds neither "
        "texts nor whole numbers: cast the column."
    )


def people_in(query: Query[Any, Any], kind: IdKind) -> list[Key]:
    """Everybody who has a row in the period that counts. NOT PRIVATE.

    An id that engines read differently is nobody's.
    """
    source, column = query.table.source, query.table.person.column if query.table.person else ""
    people = Aggregation({"person": FoundKeys(column, kind)}, (), (Grouping(("person",), ()),), view=source.view)
    ((counts,),) = source.run([people], "list the people")
    return list(counts.keys)


def of_people(query: Query[Any, Any], people: Collection[Key]) -> Query[Any, Any]:
    """The same question about these people's rows alone; there must be one at least.

    Whoever appears in the engine's answer after `people_in` was asked is not among them, and is not counted.
    """
    person = query.table.person
    if person is None:
        raise AssertionError("people are told apart by their column")
    table = query.table.where(col(person.column).is_in(list(people)))
    return type(query)(table, query.question)


def _of(facts: Mapping[str, Any], derived: Mapping[str, object], *, computed: bool) -> dict[str, Any]:
    """The facts of the columns that are computed from others, or of those that are not."""
    return {column: fact for column, fact in facts.items() if (column in derived) == computed}


# plan_stream(): what a stream will be worth, before anything is spent.

Contributes = int | Literal["every"]

_MOST_PERIODS = 100_000
_MOST_LINES = 14
_ROUNDING = 1e-9  # processors round differently
_SAME = 1.005  # a gain below would be printed as 1 times
_NO_LEDGER = (
    "no ledger\nan older copy of the stream's file that is put back cannot be noticed so, and voids the promise"
)


@dataclass(frozen=True, eq=False)
class StreamPlan:
    """The noise of a stream, and the errors to expect. Made by `plan_stream`; prints as a table.

    Attributes:
        question: What is asked of every period.
        noise: The certified plan of one period: its noise is that of every release of the stream.
        statistics: Each statistic with its error in a release of one period alone, under the whole promise.
        periods: The name of each period.
        contributes: In how many periods one person counts at most, or "every".
        choice: The strategy by which releases are made of periods, and independent periods beside it.
        leased: Whether a ledger leases the releases.
        tolerance: The tolerances that were stated for a period.
        listed: By what people are listed, so that nobody counts in more periods than stated: "str" or "int"; None where
            no list is kept.
        file: What is stated of how the CSV files of all periods are written.
    """

    question: Statistics
    noise: NoisePlan
    statistics: tuple[tuple[str, float], ...]
    periods: tuple[str, ...]
    contributes: Contributes
    choice: Choice
    leased: bool
    listed: IdKind | None
    tolerance: Mapping[str, float] | None = None
    file: Mapping[str, Any] = field(default_factory=dict)

    @property
    def most(self) -> int:
        """In how many periods one person counts at most, as a number."""
        return len(self.periods) if self.contributes == "every" else int(self.contributes)

    @property
    def leaves_out(self) -> bool:
        """Whether somebody who is in every period counts in some of them alone."""
        return self.listed is not None and self.most < len(self.periods)

    @property
    def subject(self) -> str:
        """Whom or what the estimates are of, in a few words."""
        if self.question.person is None:
            return "rows"
        if not self.leaves_out:
            return "people"
        return f"people in their first {'period' if self.most == 1 else f'{self.most} periods'}"

    def things(self, what: str) -> str:
        """What is counted in one period ("period"), or over several, in the plural."""
        person = self.question.person
        if person is not None and person.max_rows == 1:
            return self.people(what)
        return "rows of contributing people" if self.leaves_out else "rows"

    def people(self, what: str) -> str:
        """The same where people are counted, however many rows each has: over periods, once in each."""
        if self.most == 1:
            return "people in their first period" if self.leaves_out and what == "period" else "people"
        who = "contributing people" if self.leaves_out else "people"
        if what == "period":
            return who
        return "person-periods" + (f" of {who}" if self.leaves_out else "")

    @cached_property
    def cost_of_every(self) -> float:
        """How many times larger the targeted error is where everybody counts in every period."""
        size = len(self.periods)
        every = choose_strategy(size, size, self.noise.mechanism, self.choice.want, self.choice.window)
        return every.error / self.choice.error

    def who_is_left_out(self) -> str:
        """What a reader of the estimates must know: who does not count; empty where everybody does."""
        if not self.leaves_out:
            return ""
        return (
            f"These are estimates of {self.subject}: nobody counts after that, so later periods hold fewer people than "
            "there are. A trend over the periods may come from this limit alone."
        )

    def every_in_words(self) -> str:
        """What it would cost to count everybody in every period; empty where that is so."""
        if not self.leaves_out:
            return ""
        return (
            f'With contributes="every" nobody is left out, and the error in {self._target()} is '
            f"{self.cost_of_every:.3g} times as large."
        )

    @property
    def budget(self) -> Budget:
        """The promise of the whole stream."""
        return self.noise.budget

    @property
    def gain(self) -> float:
        """How many times larger the targeted error is when periods are independent."""
        return self.choice.gain

    @cached_property
    def charge(self) -> JointCharge:
        """What a ledger is charged, once, for all periods; its releases are leased one by one.

        Laplace noise is charged by the promise alone: how much of it falls on one release depends on the strategy.
        """
        part = self.budget if self.noise.mechanism == "laplace" else self.noise
        return JointCharge(self.budget, (part,), self.noise.sensitivity.neighbours, releases=len(self.periods))

    def verify(self) -> Certificate:
        """Prove anew that a period's noise keeps the promise, and that the strategy spends no more of it.

        Raises:
            GuaranteeError: One does not.
        """
        self.choice.strategy.verify(self.most, self.noise.mechanism)
        if not self.question.is_covered_by(self.noise):
            raise GuaranteeError("the set of the plan does not hold what one person can change in these answers.")
        return self.noise.verify()

    def errors(self, want: Want, *, independent: bool = False) -> Floats:
        """The error of each period, of each total, or of each window, as a multiple of the error of one period alone.

        One period alone is a release of its own under the whole promise.
        """
        strategy = self.choice.independent if independent else self.choice.strategy
        return strategy.spread(want, self.choice.window)

    def summary(self) -> PlanSummary:
        """The noise of each released number in a period (root mean square), beside other plans of the same promise."""
        labels = [f"{label} in a period" for label in self.question.labels]
        alone = summarize_plan(self.noise, labels, mechanism=self.noise.mechanism)
        factor = float(np.sqrt(np.mean(np.square(self.errors("periods")))))
        lines = tuple(
            replace(
                line,
                deviation=factor * line.deviation,
                baselines={name: factor * baseline for name, baseline in line.baselines.items()},
                scale=None if line.scale is None else factor * line.scale,
            )
            for line in alone.lines
        )
        return replace(alone, lines=lines, one_kind=True)  # the periods are correlated for this kind of noise

    @property
    def when(self) -> str:
        """In which periods a person, or a row, is protected, after a word for the rows; empty for one period."""
        if self.contributes == "every":
            return " in every period"
        return "" if self.most == 1 else f" in each of {self.most} periods"

    def error_table(self) -> list[list[str]]:
        """The errors of the first statistic: a head, and a line for each of some periods, of all if they are few."""
        error = self.statistics[0][1]
        columns: list[Want] = ["periods", "totals"]
        columns += ["windows"] if self.choice.want == "windows" else []
        names = {"periods": "period", "totals": "total so far", "windows": f"last {self.choice.window}"}
        spreads = [error * self.errors(want, independent=alone) for want in columns for alone in (False, True)]
        head = [word for want in columns for word in (names[want], "independent")]
        return [["", *head], *([self.periods[at], *(f"{s[at]:.4g}" for s in spreads)] for at in self._lines())]

    def __str__(self) -> str:
        noise, (label, error) = self.noise, self.statistics[0]
        others = [f"{name}: {alone / error:.4g} times as large" for name, alone in self.statistics[1:]]
        ratios = any(not name.startswith(("count", "histogram", "sum")) for name, _ in self.statistics)
        over = f"{self.periods[0]} to {self.periods[-1]}"
        ledger = "one charge, at opening" if self.leased else _NO_LEDGER
        return "\n".join(
            [
                f"A stream of {counted(len(self.periods), 'period')}, {over}; {self._who()}",
                f"{noise.mechanism.capitalize()} noise, {self.choice.strategy.name}, made for {self._target()}",
                f"promise: {self.budget}, neighbours: {noise.sensitivity.neighbours}; {ledger}",
                f"errors of {label}; in each period {rows_in_words(self.question)}",
                *self.question.fact_lines(),
                "",
                *aligned(self.error_table(), left=1),
                "",
                *others,
                *(["Ratios such as means: over n periods, divide by n."] if ratios else []),
                self.gain_in_words(),
                *filter(None, [self.who_is_left_out(), self.every_in_words()]),
                *promise_remarks(self.budget, self.question),
            ]
        )

    def _lines(self) -> list[int]:
        """The periods that are shown: all of a few, else the first ones and some until the last."""
        size = len(self.periods)
        if size <= _MOST_LINES:
            return list(range(size))
        spaced = {round((size - 1) * at / 9) for at in range(1, 10)}
        return sorted({0, 1, 2, 3} | spaced)

    def _who(self) -> str:
        who = "each row" if self.question.person is None else "each person"
        if self.contributes == "every":
            return f"{who} may count in every period"
        return f"{who} counts in {counted(self.most, 'period')}" + (" at most" if self.listed else "")

    def _target(self) -> str:
        return f"windows of {self.choice.window} periods" if self.choice.want == "windows" else self.choice.want

    @property
    def nothing_gained(self) -> str:
        """A sentence where independent periods are as good; else empty."""
        if self.gain < _SAME:
            return "There is nothing to gain: independent noise in each period is the best of what is known here."
        return ""

    def gain_in_words(self) -> str:
        """What the strategy gives over independent periods."""
        return (
            self.nothing_gained
            or f"Independent periods would have {self.gain:.3g} times the error in {self._target()} (root mean square)."
        )

    def to_dict(self) -> dict[str, Any]:
        """A JSON-safe dictionary of everything public that a stream is opened with."""
        return {
            "question": self.question.to_dict(),
            "periods": list(self.periods),
            "contributes": self.contributes,
            "want": self.choice.want,
            "window": self.choice.window,
            "promise": self.budget.to_dict(),
            "noise": self.noise.to_dict(),
            "statistics": [list(one) for one in self.statistics],
            "strategy": self.choice.strategy.to_dict(),
            "errors": [self.choice.error, self.choice.independent_error],
            "leased": self.leased,
            "listed": self.listed,
            "tolerance": None if self.tolerance is None else dict(self.tolerance),
            "file": dict(self.file),
        }

    def require(self, stated: Mapping[str, Any]) -> None:
        """Refuse other facts than those of the plan, named as in `to_dict`.

        Raises:
            ArgumentError: One differs.
        """
        stored = self.to_dict()
        for name, value in stated.items():
            if _text(value) != _text(stored[name]):
                raise ArgumentError(
                    f"the stream was opened with another {name}: what is public about a stream is fixed for all its "
                    "periods. Open it by its path and ledger alone, or make another stream."
                )

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> "StreamPlan":
        """The plan that `to_dict` described; its guarantee is proved again.

        Raises:
            RecordError: The record does not parse.
            GuaranteeError: Its noise or its strategy does not keep the promise.
        """
        with parsing(record):
            noise, strategy = NoisePlan.from_dict(record["noise"]), strategy_from_dict(record["strategy"])
            names, times = read_periods(record["periods"]), record["contributes"]
            want = cast("Want", choice("want", record["want"], get_args(Want)))
            most = len(names) if times == "every" else int(times)
            if not (times == "every" or type(times) is int) or not 1 <= most <= len(names):
                raise ArgumentError("in how many periods one person counts was changed.")
            independent, window = independent_periods(len(names), most, noise.mechanism), int(record["window"])
            if type(record["window"]) is not int or not 1 <= window <= len(names):
                raise ArgumentError("the window of the stream was changed.")
            strategy_choice = Choice(strategy, independent, want, window, *map(float, record["errors"]))
            statistics = tuple((str(name), float(error)) for name, error in record["statistics"])
            question = Statistics.from_dict(record["question"])
            listed = None if record["listed"] is None else choice("listed", record["listed"], get_args(IdKind))
            plan = cls(
                question,
                noise,
                statistics,
                names,
                times,
                strategy_choice,
                bool(record["leased"]),
                cast("IdKind | None", listed),
                record["tolerance"],
                CsvDialect.read(**record["file"]).stated,
            )
            if (listed is not None) != (question.person is not None and times != "every"):
                raise ArgumentError("the list of people of the stream was changed.")
            if strategy.periods != len(names) or plan.budget.to_dict() != record["promise"]:
                raise ArgumentError("the plan of the stream was changed.")
            if _text(plan.to_dict()) != _text(record):  # before the proof, which takes types for granted
                raise ArgumentError("what is public about the stream was changed.")
        plan.verify()
        errors = strategy.error(want, window), independent.error(want, window)
        if not np.allclose(record["errors"], errors, rtol=_ROUNDING, atol=0.0):
            raise RecordError("the errors of the stream are not those of its strategy: they were changed.")
        return plan


def plan_stream(
    table: Table,
    *,
    query: Mapping[str, Any] | Query[Any, Any],
    periods: Iterable[object],
    promise: Budget,
    contributes: Contributes | None = None,
    want: Want = "totals",
    window: int | None = None,
    tolerance: Mapping[str, float] | None = None,
    ledger: "Ledger | None" = None,
) -> StreamPlan:
    """Plan the same statistics for every period, before anything is spent; print the plan to see the errors.

    Statement (T2, T3): with the noise of a period's own plan in every release, and releases made of periods by a
    strategy of length 1, all releases together keep the promise, whatever periods a person is in, adjacent ones too.
    Assumption: nobody counts in more periods than stated. Guarantee: `verify` proves the length in whole numbers.

    Args:
        table: The public facts; its rows are not read. Rows of each period come with its release.
        query: What `Table.statistics` takes: {"count": True, "sum": ["cost"], "by": {"sex": ["F", "M"]}}; or such a
            query of the table.
        periods: The public horizon: a name for each period, such as `pandas.period_range("2027-01", periods=12,
            freq="M")`.
        promise: What all periods together keep; for a part of a ledger `ledger.part("1/3")`.
        contributes: In how many periods one person counts at most, or "every"; it must be stated with a `Person`. A
            number leaves people out of later periods, by a secret list, and the plan says so. Rows by themselves are
            events, each in one period (the default there), or of somebody who is in every period.
        want: What is to be accurate: "totals", "windows" or single "periods".
        window: How many periods a window has.
        tolerance: As for `Query.plan`.
        ledger: The ledger to be charged; nothing is charged yet.

    Raises:
        ArgumentError: An argument is malformed, or the relation is "replace".
        BudgetError: No noise keeps the promise.

    >>> import inid, pandas
    >>> from inid import tables
    >>> t = tables.Table(pandas.DataFrame({"sex": ["F"]}))
    >>> months = [f"2027-{month:02}" for month in range(1, 13)]
    >>> plan = tables.plan_stream(t, query={"count": True}, periods=months, promise=inid.GaussianDP(mu=1.0))
    >>> print(str(plan)[:126])
    A stream of 12 periods, 2027-01 to 2027-12; each row counts in 1 period
    Gaussian noise, correlated over time, made for totals
    >>> round(plan.gain, 2)
    1.57
    """
    names = read_periods(periods)
    asked = read_stream_query(table, query).under(ledger)
    asked.table.check_ledger_unit(ledger)
    if asked.question.neighbours == "replace":
        raise ArgumentError(
            'a stream is not planned for neighbours="replace", under which a person may also change the period: state '
            'neighbours="add_remove".',
            code="stream_replaced",
        )
    kind = cast("Want", choice("want", want, get_args(Want)))
    if (window is None) != (kind != "windows"):
        raise ArgumentError(
            'window=... is for want="windows", and that needs it: the number of periods in a window.',
            code="window_missing" if window is None else "window_alone",
        )
    length = 1 if window is None else integer("window", window, least=1, cure="pass the number of periods in a window")
    if length > len(names):
        raise ArgumentError(f"window must be at most the number of periods, {len(names)}, got {length}.")
    times = _read_contributes(contributes, asked, len(names))
    pure = isinstance(promise, PureDP)
    table_plan = asked.plan(promise, tolerance=tolerance, mechanism="laplace" if pure else "gaussian", ledger=ledger)
    if not (table_plan.noise.run_scales > 0).all():
        raise ArgumentError("one of these numbers is public already: release it as it is, outside of the stream.")
    most = len(names) if times == "every" else times
    strategy_choice = choose_strategy(len(names), most, "laplace" if pure else "gaussian", kind, length)
    statistics = tuple((one.label, one.error) for one in table_plan.statistics)
    person, listed = asked.table.person, None
    if person is not None and times != "every":
        listed = people_kind(asked.table.source, person.column)
    plan = StreamPlan(
        asked.question,
        table_plan.noise,
        statistics,
        names,
        times,
        strategy_choice,
        ledger is not None,
        listed,
        tolerance,
        asked.table.source.file,
    )
    plan.verify()
    return plan


def read_stream_query(table: object, query: object) -> Query[Any, Any]:
    """The query of a stream: statistics of a table, released in one step."""
    if not isinstance(table, Table):
        raise ArgumentError(f"table must be a tables.Table, got {shown(table)}: wrap a frame in one.")
    if isinstance(query, Query):
        if query.table.origin is not table.origin:
            raise ArgumentError("query asks another table: make it of the table that is passed.")
        question = query
    elif isinstance(query, Mapping) and all(isinstance(name, str) for name in query):
        question = table.statistics(**query)
    else:
        raise ArgumentError(f"query must be a dictionary of what Table.statistics takes, got {shown(query)}.")
    if not question.question.adds_up:
        raise ArgumentError("a stream releases counts, sums, means and the like: ask for those, by groups or not.")
    return question


def read_periods(periods: object) -> tuple[str, ...]:
    """The names of the periods."""
    cure = 'pass a list of names, or pandas.period_range("2027-01", periods=12, freq="M")'
    if isinstance(periods, (str, bytes, Mapping)) or not isinstance(periods, Iterable):
        raise ArgumentError(f"periods must be the names of the periods, got {shown(periods)}: {cure}.")
    names = tuple(str(name) for name in periods)
    if not 0 < len(names) <= _MOST_PERIODS:
        raise ArgumentError(f"periods must be between 1 and {_MOST_PERIODS:,}, got {len(names):,}: {cure}.")
    if len(set(names)) < len(names) or not all(name and name.isprintable() for name in names):
        raise ArgumentError(f"periods must have different names that can be printed: {cure}.")
    return names


def _read_contributes(contributes: object, query: Query[Any, Any], periods: int) -> Contributes:
    if contributes == "every":
        return "every"
    if contributes is None:
        if query.table.person is None:
            return 1
        raise ArgumentError(
            "contributes must be stated where people are protected: the number of periods in which one person counts "
            'at most, or "every". After a number of periods a person counts no more, so later periods miss people; '
            '"every" leaves nobody out, with more noise.',
            code="contributes_missing",
        )
    cure = 'pass in how many periods one person counts at most, or "every"'
    times = integer("contributes", contributes, least=1, cure=cure)
    if times > periods:
        raise ArgumentError(f'contributes must be at most the number of periods, {periods}, got {times}: pass "every".')
    if query.table.person is None and times > 1:
        raise ArgumentError(
            "contributes counts the periods of people, and this table's unit is a row: state unit=Person(...), or "
            'leave it at 1 for events, each in one period, or pass "every".',
            code="periods_of_rows",
        )
    return times


def _text(value: Any) -> str:
    """A fact as text, in its order; a guess of the number of rows changes nothing."""
    plain = {name: one for name, one in value.items() if name != "rows"} if isinstance(value, Mapping) else value
    return json.dumps(plain, default=shown)
