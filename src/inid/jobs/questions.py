"""What a job asks: statistics of a table, or noise for numbers whose sensitivities are stated."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from inid.errors import ArgumentError
from inid.jobs import values as check
from inid.jobs.groupings import asked_tables, check_domains, check_groupings, is_by_tables
from inid.jobs.key_questions import asks_keys, check_keys, open_keys
from inid.jobs.synthetic_questions import check_synthetic, open_synthetic, stated_bins
from inid.sets import Sensitivity
from inid.tables import Ordered, Person, Table
from inid.tables.engines import Engine
from inid.tables.query import Query

__all__ = [
    "COLUMN_STATISTICS",
    "ORDERED_STATISTICS",
    "Naming",
    "StatedQuestion",
    "TableQuestion",
    "read_question",
]

Naming = Callable[[str], str]  # how an error names a key: "max_rows" in a file, "--max-rows" on a command line

AskedByTables = tuple[str, ...] | Mapping[str, tuple[tuple[str, ...], ...]]  # columns, or tables by column

COLUMN_STATISTICS = ("sum", "mean", "variance", "std", "covariance")
ORDERED_STATISTICS = ("quantile", "cdf", "cumulative")
_RELATIONS = ("add_remove", "replace", "zero_out")


@dataclass(frozen=True, kw_only=True)
class TableQuestion:
    """Statistics of a table. The fields are the keys of a job file.

    Attributes:
        table: The path of a CSV or Parquet file.
        bounds: Public limits by column.
        count: Whether the number of rows is asked for.
        count_distinct: Whether the number of people is asked for.
        sum: Columns to add up, or for each column the tables by which it is; `mean` likewise.
        variance: Columns whose variance is asked for; `std` and `covariance` likewise.
        histogram: Public edges or categories by column.
        quantile: The probabilities of quantiles by column.
        cdf: By column the groupings of its distribution function; none for that of `by`.
        cumulative: By column the groupings of its running totals, likewise.
        by: Public keys by column; or several groupings, each a list of columns with a domain.
        missing: Public fill values by column.
        rows: A public guess at the number of rows, for planning and display only.
        table_max_rows: A public upper limit on the rows of the table.
        person: The column that identifies people; None when a row is the unit.
        max_rows: How many rows of one person count.
        order_by: Which rows of a person come first.
        neighbours: The neighbouring relation.
        domains: Public values by column, for tables of counts; in their order where that is asked about.
        other: What becomes of rows with other keys: "cell" or "drop".
        marginals: Tables of counts that share one promise, or how many columns each has.
        where: The condition of the rows that count, as a text.
        derive: The formula of each computed column, as a text.
        discover: A column whose keys are to be found; `count` (of rows) or `count_distinct` says what is counted.
        max_keys: How many keys of one person count.
        discover_delta: The probability with which a key that only one person has may appear.
        discover_kind: What the keys are: "str", "int" or "bool".
        choose: Public keys by column: which group is the largest.
        synthetic: Whether synthetic rows are asked for.
        synthetic_columns: Their columns; empty for all that have `domains` or `bins`.
        synthetic_target: The column that models of the rows will predict.
        bins: Public bins of numbers by column, for synthetic rows: how many, or their edges.
    """

    table: str
    bounds: Mapping[str, tuple[float, float]]
    count: bool = False
    count_distinct: bool = False
    sum: AskedByTables = ()
    mean: AskedByTables = ()
    variance: tuple[str, ...] = ()
    std: tuple[str, ...] = ()
    covariance: tuple[str, ...] = ()
    histogram: Mapping[str, tuple[check.Key, ...]]
    quantile: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    cdf: Mapping[str, tuple[tuple[str, ...], ...]] = field(default_factory=dict)
    cumulative: Mapping[str, tuple[tuple[str, ...], ...]] = field(default_factory=dict)
    by: Mapping[str, tuple[check.Key, ...]] | tuple[tuple[str, ...], ...]
    missing: Mapping[str, float | str]
    rows: int | None = None
    table_max_rows: int | None = None
    person: str | None = None
    max_rows: int | None = None
    order_by: tuple[str, ...] = ()
    neighbours: str | None = None
    domains: Mapping[str, tuple[check.Key, ...]]
    other: str | None = None
    marginals: tuple[tuple[str, ...], ...] | int | None = None
    where: str | None = None
    derive: Mapping[str, str] = field(default_factory=dict)
    discover: str | None = None
    max_keys: int | None = None
    discover_delta: check.Number | None = None
    discover_kind: str | None = None
    choose: Mapping[str, tuple[check.Key, ...]] = field(default_factory=dict)
    synthetic: bool = False
    synthetic_columns: tuple[str, ...] = ()
    synthetic_target: str | None = None
    bins: Mapping[str, tuple[float, ...]] = field(default_factory=dict)

    @classmethod
    def read(cls, values: Mapping[str, Any], named: Naming) -> "TableQuestion":
        """Check every value of the question.

        Raises:
            ArgumentError: A value is malformed, or values do not go together.
        """
        readers: dict[str, Callable[[str, object], Any]] = {
            "table": check.word,
            "bounds": check.intervals_by_column,
            "count": check.switch,
            "count_distinct": check.switch,
            "histogram": check.cells_by_column,
            "quantile": check.probabilities_by_column,
            "cdf": check.groupings_by_column,
            "cumulative": check.groupings_by_column,
            "by": check.keys_or_groupings,
            "missing": check.fills_by_column,
            "rows": check.whole,
            "table_max_rows": check.whole,
            "person": check.word,
            "max_rows": check.whole,
            "neighbours": lambda name, value: check.choice_or_none(name, value, _RELATIONS),
            "domains": check.keys_by_column,
            "other": lambda name, value: check.choice_or_none(name, value, ("cell", "drop")),
            "marginals": check.marginals,
            "where": check.word,
            "derive": check.texts_by_name,
            "discover": check.word,
            "max_keys": check.whole,
            "discover_delta": lambda name, value: check.probability(name, value, "1e-8"),
            "discover_kind": lambda name, value: check.choice_or_none(name, value, ("str", "int", "bool")),
            "choose": check.keys_by_column,
            "synthetic": check.switch,
            "synthetic_target": check.word,
            "bins": check.bins_by_column,
        }
        readers |= dict.fromkeys((*COLUMN_STATISTICS, "order_by", "synthetic_columns"), check.names)
        readers |= dict.fromkeys(("sum", "mean"), check.tables_by_column)
        read = {key: reader(named(key), values.get(key)) for key, reader in readers.items()}
        made = cls(**read)
        limits, order, person = named("max_rows"), named("order_by"), named("person")
        if made.person is None and (made.max_rows is not None or made.order_by):
            raise ArgumentError(f"{limits} and {order} go with {person}: name the column that identifies people.")
        if made.person is not None and made.max_rows is None:
            raise ArgumentError(
                f"{person} needs {limits}: state how many rows of one person count, for example {limits} 5."
            )
        check_groupings(made, named)
        check_domains(made, named)
        check_keys(made, named)
        check_synthetic(made, named)
        if made.ordered and (made.asks_statistics or made.by_tables):
            listed = ", ".join(named(kind) for kind in ORDERED_STATISTICS)
            raise ArgumentError(f"{listed} are a release of their own: ask for other statistics in another.")
        return made

    @property
    def asks_statistics(self) -> bool:
        """Whether anything is asked that a query of statistics answers."""
        return bool(self.count or self.count_distinct or self.histogram or self.column_statistics)

    @property
    def asks_columns(self) -> bool:
        """Whether anything is asked about columns: statistics, groups, tables or orders."""
        stated = self.by or self.ordered or self.histogram or self.column_statistics
        return bool(stated) or self.marginals is not None

    @property
    def ordered(self) -> tuple[str, ...]:
        """The columns whose order is asked about: distribution functions, quantiles, running totals."""
        return tuple(dict.fromkeys(column for kind in ORDERED_STATISTICS for column in getattr(self, kind)))

    @property
    def by_tables(self) -> bool:
        """Whether statistics by several tables are asked for, and not by one grouping or none."""
        return is_by_tables(self)

    @property
    def column_statistics(self) -> dict[str, tuple[str, ...]]:
        """The columns of each statistic that is asked for."""
        return {kind: tuple(getattr(self, kind)) for kind in COLUMN_STATISTICS if getattr(self, kind)}

    @property
    def source(self) -> str:
        """The name of the table's file."""
        return Path(self.table).name

    @property
    def unit(self) -> str:
        """The privacy unit in a ledger's words: "row", or the name of the person column."""
        return self.person or "row"

    def _own(self, facts: Mapping[str, Any], *, computed: bool = False) -> dict[str, Any]:
        """The facts about columns of the table itself, or about computed ones."""
        return {name: fact for name, fact in facts.items() if (name in self.derive) is computed}

    def open(self, named: Naming = str, source: Engine | None = None) -> Query[Any, Any]:
        """The query, on the table. Reads the names and types of its columns, and no value.

        Args:
            named: How errors name a key.
            source: The table, where it is open already.

        Raises:
            ArgumentError: A column is unknown or of another type than asked.
            EngineError: The file cannot be read.
        """
        person = None
        if self.person is not None and self.max_rows is not None:
            person = Person(self.person, max_rows=self.max_rows, order_by=self.order_by or None)
        limit = {} if self.table_max_rows is None else {"max_rows": self.table_max_rows}
        stated: dict[str, Any] = {name: keys for name, keys in self.domains.items() if name not in self.ordered}
        stated |= {name: Ordered(keys) for name, keys in self.domains.items() if name in self.ordered}  # type: ignore[arg-type]
        cut = stated_bins(self)
        bounds, fill, domains, bins = (self._own(facts) for facts in (self.bounds, self.missing, stated, cut))
        table = Table(
            self.table if source is None else source,
            bounds=bounds,
            unit=person or "row",
            neighbours=self.neighbours or "add_remove",  # type: ignore[arg-type]
            missing=fill or "omit",
            rows=self.rows,
            domains=domains,
            other=self.other or "cell",  # type: ignore[arg-type]
            bins=bins,
            **limit,  # type: ignore[arg-type, unused-ignore]
        )
        if self.derive:
            facts = {"bounds": self.bounds, "missing": self.missing, "domains": stated, "bins": cut}
            computed = {name: self._own(fact, computed=True) for name, fact in facts.items()}
            table = table.with_columns(**computed, **self.derive)  # type: ignore[arg-type]
        if self.where is not None:
            table = table.where(self.where)
        if self.ordered:
            return self._open_ordered(table, named)
        if asks_keys(self):
            return open_keys(self, table)
        if self.synthetic:
            return open_synthetic(self, table)
        asked: dict[str, Any] = dict(self.column_statistics)
        for kind, columns in asked.items():
            table.source.require(named(kind), list(columns))
            for column in columns:
                if column not in self.bounds:
                    raise ArgumentError(
                        f"{named(kind)} needs public limits for {column!r}: add {named('bounds')} "
                        f"{column}=LOWER:UPPER, from what is known without looking at the table."
                    )
        if self.by_tables:
            return table.query(**asked_tables(self))  # type: ignore[no-any-return, unused-ignore]
        asked |= {"count": self.count, "count_distinct": self.count_distinct}
        return table.query(histogram=dict(self.histogram), by=dict(self.by), **asked)  # type: ignore[arg-type]

    def _open_ordered(self, table: Table, named: Naming) -> Query[Any, Any]:
        for column in self.ordered:
            if column not in self.bounds and column not in self.domains:
                raise ArgumentError(
                    f"the order of {column!r} needs public facts: add {named('bounds')} {column}=LOWER:UPPER, or all "
                    f"its values in their order, {named('domains')} {column}=0:115."
                )
        groupings = {kind: {c: list(g) for c, g in getattr(self, kind).items()} for kind in ("cdf", "cumulative")}
        return table.query(quantile={c: list(p) for c, p in self.quantile.items()}, by=dict(self.by), **groupings)  # type: ignore[arg-type]


@dataclass(frozen=True, kw_only=True)
class StatedQuestion:
    """Numbers whose sensitivities are stated, without a table.

    Attributes:
        sensitivity: How far one person moves each number.
        labels: A name for each number; empty for none.
        l1: A cap on the sum of all changes.
        l2: A cap on the root of the sum of squared changes.
        neighbours: The neighbouring relation.
    """

    sensitivity: tuple[float, ...]
    labels: tuple[str, ...] = ()
    l1: check.Number | None = None
    l2: check.Number | None = None
    neighbours: str | None = None

    @classmethod
    def read(cls, values: Mapping[str, Any], named: Naming) -> "StatedQuestion":
        """Check every value of the question.

        Raises:
            ArgumentError: A value is malformed.
        """
        return cls(
            sensitivity=check.numbers(named("sensitivity"), values.get("sensitivity")),
            labels=check.names(named("labels"), values.get("labels")),
            l1=check.number(named("l1"), values.get("l1")),
            l2=check.number(named("l2"), values.get("l2")),
            neighbours=check.choice_or_none(named("neighbours"), values.get("neighbours"), _RELATIONS),
        )

    @property
    def names(self) -> list[str]:
        """The label of each number, else its position."""
        return list(self.labels) or [str(at) for at in range(len(self.sensitivity))]

    def box(self) -> Sensitivity:
        """The sensitivity set."""
        return Sensitivity.box(
            self.sensitivity,
            l1=self.l1,  # type: ignore[arg-type]
            l2=self.l2,  # type: ignore[arg-type]
            labels=list(self.labels) or None,
            neighbours=self.neighbours or "add_remove",  # type: ignore[arg-type, unused-ignore]
        )


def read_question(values: Mapping[str, Any], named: Naming) -> TableQuestion | StatedQuestion:
    """The question of a job; values of the other kind of question are refused.

    Raises:
        ArgumentError: It is about neither or both, or a value is malformed.
    """
    table, sensitivity = named("table"), named("sensitivity")
    if (values.get("table") is None) == (values.get("sensitivity") is None):
        raise ArgumentError(f"a question is missing: name a {table}, or pass {sensitivity} 1,3,40, and not both.")
    own, other, wanted = (
        (TableQuestion, StatedQuestion, sensitivity)
        if values.get("sensitivity") is None
        else (StatedQuestion, TableQuestion, f"a {table}")
    )
    for key in {one.name for one in fields(other)} - {one.name for one in fields(own)}:
        if values.get(key) is not None:
            raise ArgumentError(f"{named(key)} goes with {wanted} only: leave it out here.")
    return own.read(values, named)
