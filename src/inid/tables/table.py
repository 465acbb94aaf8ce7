"""A table with its public facts, and what makes queries of it."""

import math
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, cast

from inid.arguments import choice, integer, shown
from inid.errors import ArgumentError, Column, Words
from inid.sets import Neighbours
from inid.tables.engines import CsvDialect, Engine, open_table, optional
from inid.tables.expressions import Arithmetic, Branch, Condition, Constant, Expression, Member, Word, as_value, col
from inid.tables.facts import (
    Bins,
    Bounds,
    Categories,
    Domains,
    GroupRows,
    Key,
    Marginal,
    Ordered,
    Person,
    as_listed,
    as_tables,
    read_bins,
    read_bounds,
    read_domains,
    read_group_rows,
    read_keys,
    read_missing,
    read_people,
    read_weight,
)
from inid.tables.person_features import Feature, PartRole, PersonFeatures, bits_for, read_feature
from inid.tables.view import MOST_ROWS, View, of_people, read_condition, read_formula

if TYPE_CHECKING:
    from inid.accounting import Ledger
    from inid.tables.query import Query
    from inid.tables.questions.largest_group import LargestGroupPlan, LargestGroupResult
    from inid.tables.questions.marginals.plan import MarginalsPlan
    from inid.tables.questions.marginals.result import MarginalsResult
    from inid.tables.questions.partition_selection import PartitionSelectionQuery
    from inid.tables.questions.prefix_sums.kind import PrefixSumsPlan
    from inid.tables.questions.statistics.kind import StatisticsQuery
    from inid.tables.questions.synthetic.kind import SyntheticPlan, SyntheticResult
    from inid.tables.result import Result


_MOST = 45  # values of one column: an expression has 200 parts
_NOTHING = Arithmetic("/", Constant(0.0), Constant(0.0))  # missing


def lookups(public: object, on: str, otherwise: str) -> tuple[dict[str, Expression], dict[str, Any], dict[str, Any]]:
    """The formula of each column of a public table but its key, with public bounds and domains."""
    columns = _columns(public)
    if on not in columns:
        raise ArgumentError(f"with_public looks up {shown(on)}, which is no column of the public table.")
    keys = read_keys(f"the public table's {on!r}", columns.pop(on))
    if not columns:
        raise ArgumentError("the public table has no column beside its key: add one.")
    formulas: dict[str, Expression] = {}
    bounds: dict[str, Any] = {}
    domains: dict[str, Any] = {}
    for name, values in columns.items():
        grouped = _grouped(name, keys, as_listed(values))
        if all(isinstance(value, bool) for value in grouped):
            formulas[name] = _truth(on, grouped)
        elif all(isinstance(value, str) for value in grouped):
            formulas[name] = _chosen(on, grouped, Word(otherwise))
            domains[name] = list(grouped)
        else:
            formulas[name] = _chosen(on, grouped, _NOTHING)
            if min(grouped) < max(grouped):
                bounds[name] = (float(min(grouped)), float(max(grouped)))
    return formulas, bounds, domains


def _columns(public: object) -> dict[str, Any]:
    if isinstance(public, Mapping):
        return dict(public)
    nw = optional("narwhals")
    try:
        return dict(nw.from_native(public, eager_only=True).to_dict(as_series=False))
    except TypeError:
        raise ArgumentError(
            f"with_public takes a small table in memory, got a {type(public).__name__}: pass a pandas, Polars or "
            "PyArrow table, or lists by column; tables of a database are joined by Ibis."
        ) from None


def _grouped(name: str, keys: Sequence[Key], values: object) -> dict[Any, list[Key]]:
    """The keys of each value; a missing value has none."""
    if not isinstance(values, list) or len(values) != len(keys):
        raise ArgumentError(f"the public table's {name!r} must be a list as long as its keys.")
    grouped: dict[Any, list[Key]] = {}
    for key, value in zip(keys, values, strict=True):
        if value is None or (isinstance(value, float) and math.isnan(value)):
            continue
        if not isinstance(value, (str, bool, int, float)):
            raise ArgumentError(
                f"the public table's {name!r} holds a {type(value).__name__}: use numbers, texts, truths."
            )
        grouped.setdefault(value, []).append(key)
    kinds = {bool if isinstance(value, bool) else str if isinstance(value, str) else float for value in grouped}
    if len(kinds) != 1:
        raise ArgumentError(f"the public table's {name!r} must hold values of one kind, and one at least.")
    if len(grouped) > _MOST:
        raise ArgumentError(
            f"the public table's {name!r} has {len(grouped)} different values, and at most {_MOST} are looked up here: "
            "round or group them, or join the tables in a database, by Ibis."
        )
    return grouped


def _chosen(on: str, grouped: Mapping[Any, list[Key]], rest: Expression) -> Expression:
    formula = rest
    for value, keys in reversed(list(grouped.items())):
        formula = Branch(Member(col(on), tuple(keys)), as_value(value), formula)
    return formula


def _truth(on: str, grouped: Mapping[Any, list[Key]]) -> Condition:
    """Whether the key is one of those with a true value; false where it is not there."""
    if True not in grouped:
        raise ArgumentError("a column of the public table is false throughout: leave it out.")
    return Member(col(on), tuple(grouped[True]))


# What can be asked of a table: one method for each kind of question.

ByTables = Mapping[str, int | Sequence[Marginal]]  # for each column the tables by which it is asked
Groupings = Mapping[str, Sequence[Marginal]]
Keys = Mapping[str, Sequence[Key]]


class Asking:
    """The methods of a table that make queries. Nothing is computed before a query is planned and released."""

    def statistics(
        self,
        *,
        count: bool = False,
        count_distinct: bool = False,
        sum: Sequence[str] = (),  # noqa: A002 - what users look for
        mean: Sequence[str] = (),
        variance: Sequence[str] = (),
        std: Sequence[str] = (),
        covariance: Sequence[str] = (),
        histogram: Mapping[str, Sequence[float | str] | Categories] | None = None,
        by: Keys | None = None,
        **others: Sequence[str],
    ) -> "StatisticsQuery":
        """Ask for statistics, any number together; they share sums and one promise.

        Args:
            count: The number of rows.
            count_distinct: The number of people, with a `Person`: each counts once, and by groups once in each group
                where they have a row.
            sum: Columns to add up.
            mean: Columns to average.
            variance: Columns whose variance (mean square distance from the mean) is asked for.
            std: Columns whose standard deviation is asked for.
            covariance: Columns whose covariance matrix is asked for, from rows that have all of them.
            histogram: Per column the edges of public bins, or a list of public categories (numbers: `Categories`).
                Values outside all bins are not counted.
            by: Per column its public keys: every statistic is given for each combination of them, also those without
                rows. Rows with other keys are left out, but for a table with `other="cell"`. `select_partitions` finds
                keys that are not public.
            others: Columns of a statistic that was registered elsewhere.

        Raises:
            ArgumentError: A column is unknown or has no bounds, keys or edges are malformed, or nothing is asked for.

        >>> import pandas
        >>> from inid.tables import Table
        >>> t = Table(pandas.DataFrame({"age": [31, 44], "sex": ["F", "M"]}), bounds={"age": (0, 100)})
        >>> t.statistics(histogram={"age": [0, 50, 100]}, by={"sex": ["F", "M"]}).labels[:2]
        ('histogram(age)[sex=F, age=[0, 50)]', 'histogram(age)[sex=F, age=[50, 100]]')
        """
        asked: dict[str, object] = {"count": count, "count_distinct": count_distinct, "sum": sum, "mean": mean}
        asked |= {"variance": variance, "std": std, "covariance": covariance, "histogram": histogram, "by": by}
        return cast("StatisticsQuery", self._ask("statistics", asked | others))

    def marginals(
        self,
        count: int | Sequence[Marginal | int] = (),
        *,
        mean: ByTables | None = None,
        sum: ByTables | None = None,  # noqa: A002
    ) -> "Query[MarginalsPlan, MarginalsResult]":
        """Ask for tables of counts, and for means and sums by tables, over columns with a domain.

        They share one promise with the least noise, and agree with each other: a table is the sum of any wider one.

        Args:
            count: The tables, [("sex", "age"), ("race",)]; a number k stands for all tables over k columns, and () for
                the total.
            mean: By column the tables by which it is averaged, {"income": [("sex",), ("region", "sex")]}.
            sum: The same for sums.

        Raises:
            ArgumentError: A column has no domain or no bounds, or no table over a column is asked for.

        >>> import pandas
        >>> from inid.tables import Table
        >>> frame = pandas.DataFrame({"age": [31, 44], "sex": ["F", "M"]})
        >>> t = Table(frame, domains={"sex": ["F", "M"], "age": [31, 44]})
        >>> t.marginals([("sex", "age"), ("sex",)]).question.tables
        (('sex', 'age'), ('sex',))
        """
        return self._ask("marginals", {"count": count, "mean": mean, "sum": sum})

    def quantiles(
        self,
        quantile: Mapping[str, Sequence[float]] | None = None,
        *,
        cdf: Groupings | None = None,
        cumulative: Groupings | None = None,
        by: Keys | None = None,
    ) -> "Query[PrefixSumsPlan, Result]":
        """Ask for quantiles, distribution functions and running totals: one set of noisy prefix sums serves them.

        Args:
            quantile: Per column with bounds, or with `Ordered` numbers, the probabilities of its quantiles, {"age":
                [0.1, 0.5, 0.9]}, in each grouping of its `cdf`, else in the groups of `by`.
            cdf: Per column with bounds, or with `Ordered` values, the groupings by which its distribution function is
                asked for: {"age": [(), ("sex",)]}. Columns that group have a domain, or keys in `by`.
            cumulative: Like `cdf`, for running totals in rows: {"date": [("shop",)]}.
            by: Per column that groups its public keys.

        Raises:
            ArgumentError: A column has no public order, a probability is malformed, or nothing is asked for.

        >>> import pandas
        >>> from inid.tables import Table
        >>> t = Table(pandas.DataFrame({"age": [31.0, 44.0]}), bounds={"age": (0, 100)})
        >>> t.quantiles({"age": [0.5]}).question.probabilities
        {'age': (0.5,)}
        """
        return self._ask("prefix_sums", {"quantile": quantile, "cdf": cdf, "cumulative": cumulative, "by": by})

    def select_partitions(
        self,
        column: str,
        *,
        delta: float,
        count_distinct: bool = False,
        max_keys_per_person: int = 1,
        kind: Literal["str", "int", "bool"] = "str",
    ) -> "PartitionSelectionQuery":
        """Ask for the keys of a column that nobody listed, with their counts (partition selection).

        Every key that is there gets a noisy count and appears with it where it reaches a threshold. A key that only one
        person has stays hidden, but for the probability delta, which is taken from a ledger's reserve
        (`Ledger.open(..., reserve=1e-7)`), or is part of the one promise of a ledger that is spent at once.

        *When not to use it.* Where a public list exists (postcodes, diagnoses, products), state it: known keys need no
        threshold, and small ones are counted too. Keys that few people have are never found.

        Args:
            column: The column.
            delta: A probability far below one in the number of people.
            count_distinct: Count people instead of rows, with a `Person`.
            max_keys_per_person: With a `Person`, how many keys of theirs count: those with the most of their rows, and
                of equal ones the first in order. More hide less of people with many keys, and raise the threshold.
            kind: What the keys are: texts, whole numbers or booleans; values of another kind are left out, like missing
                ones. (The values of a column do not decide it, since one person's value could.)

        Raises:
            ArgumentError: An argument is malformed, or the column cannot hold such keys.

        >>> import inid, pandas
        >>> from inid.tables import Table
        >>> q = Table(pandas.DataFrame({"zip": ["8001", "8002"]})).select_partitions("zip", delta=1e-8)
        >>> round(q.plan(inid.PureDP(1.0)).threshold, 1)
        18.7
        """
        asked = {"column": column, "delta": delta, "count_distinct": count_distinct, "kind": kind}
        return cast(
            "PartitionSelectionQuery",
            self._ask("partition_selection", asked | {"max_keys_per_person": max_keys_per_person}),
        )

    def largest_group(self, by: Keys, *, count_distinct: bool = False) -> "Query[LargestGroupPlan, LargestGroupResult]":
        """Ask which group has the most rows; the group alone is released.

        Report-noisy-max with exponential noise that is compared exactly (`inid.releasing`): nothing is rounded, so the
        promise holds whatever the scale. It costs what Laplace noise on one number costs, however many groups there
        are.

        Args:
            by: Per column its public keys; the groups are all combinations of them, at least two.
            count_distinct: Count people instead of rows, with a `Person`: a group is as large as the number of people
                with a row in it.

        Raises:
            ArgumentError: An argument is malformed.

        >>> import inid, pandas
        >>> from inid.tables import Table
        >>> frame = pandas.DataFrame({"city": ["A"] * 900 + ["B"] * 50 + ["C"] * 50})
        >>> q = Table(frame).largest_group({"city": ["A", "B", "C"]})
        >>> print(q.release(q.plan(inid.PureDP(epsilon=0.5))))
        city=A, short of the largest by at most 8.189 rows
        """
        return self._ask("largest_group", {"by": by, "count_distinct": count_distinct})

    def synthesize(
        self,
        columns: Sequence[str] | None = None,
        *,
        target: str | None = None,
        weights: Mapping[tuple[str, ...], float] | None = None,
        rules: Sequence[Condition | str] | None = None,
        triples: bool | None = None,
        heaps: Mapping[str, Sequence[float]] | None = None,
    ) -> "Query[SyntheticPlan, SyntheticResult]":
        """Ask for rows like those of the table.

        Args:
            columns: The columns of the rows; None for all with public keys or bins.
            target: The column that models of the rows will predict: pairs with it count four times as much.
            weights: The same for single pairs of columns, {("age", "income"): 4}, or for a column's own table,
                {("income",): 8}, which is measured again where few pairs are worth their noise.
            rules: Public conditions that every made-up row keeps, as `where` takes them: ["education <= age - 5"]. They
                are never checked on data and cost nothing.
            triples: Whether tables of three columns with few cells (512 at most) are scored too, and measured where
                that is worth their noise: for what no pair shows. It takes a fiftieth of mu^2. None does so where at
                least half of these tables have few cells, and 500 at most.
            heaps: Single values that many rows share, {"hours": [0, 40]}, of columns with bins; an empty list says that
                there are none. They are searched in other columns with wide bins.

        Raises:
            ArgumentError: A column has no public keys or bins, an argument is malformed, or the rules leave no row.

        >>> import pandas
        >>> from inid.tables import Table
        >>> t = Table(pandas.DataFrame({"a": [1, 2], "b": [1, 1]}), domains={"a": [1, 2], "b": [1, 2]})
        >>> [column.name for column in t.synthesize().question.columns]
        ['a', 'b']
        """
        asked = {"columns": columns, "target": target, "weights": weights, "rules": rules}
        return self._ask("synthetic", asked | {"triples": triples, "heaps": heaps})

    def _ask(self, kind: str, asked: Mapping[str, object]) -> "Query[Any, Any]":
        from inid.tables.query import ask

        return ask(cast("Table", self), kind, **asked)


_RELATIONS: tuple[Neighbours, ...] = ("add_remove", "replace", "zero_out")
_NO_BOUNDS: Mapping[str, tuple[float, float]] = MappingProxyType({})
_NO_DOMAINS: Mapping[str, Sequence[Key] | Ordered] = MappingProxyType({})
_NO_BINS: Mapping[str, int | Sequence[float]] = MappingProxyType({})
_NO_FILL: Mapping[str, float | str | bool] = MappingProxyType({})
_FACTS = ("bounds", "missing", "domains", "bins")  # what `with_columns` takes beside formulas
_NO_SIZES: Mapping[str | tuple[str, ...], Mapping[Any, float]] = MappingProxyType({})
_NO_PEOPLE: Mapping[str, str] = MappingProxyType({})
_NO_TYPES: Mapping[str, Literal["number", "code", "date"]] = MappingProxyType({})
_PUBLIC_NUMBER = ("replace", "zero_out")  # the number of rows is released as it is: none may be left out


@dataclass(frozen=True, init=False, eq=False)
class Table(Asking):
    """A table inside its engine, with what is publicly known about it. Nothing is read from the values.

    Args:
        data: A pandas, Polars (eager or lazy), PyArrow, DuckDB or Spark frame, a PyArrow dataset, or the path of a CSV
            or Parquet file, or of several by a pattern ("people-*.csv"), whose columns are matched by name; or a table
            or view in PostgreSQL or DuckDB, by Ibis: `con.table("people").join(codes, "region")`.
        bounds: (lower, upper) per column that statistics are asked of. Values outside are moved to the nearer bound.
        unit: "row", or a `Person`.
        neighbours: "add_remove"; "replace" (one unit's data change, and the number of units is public); "zero_out" (one
            unit's rows become nothing, which adds 0 to every sum, and the number of rows is public); or None for the
            relation of the ledger that a query is planned for, and "add_remove" without one.
        missing: "omit", or public fill values per column, such as {"age": 40}; other columns omit. NaN is missing;
            infinite values are moved to a bound.
        rows: A public guess of the number of rows, for planning and display only; a wrong one changes no answer.
        group_rows: The same of groups: sizes or shares by the keys of a column, {"sex": {"F": 2100, "M": 1900}}, or of
            several together, {("sex", "region"): {("F", "north"): 80, ...}}. Only ratios count where `rows` is stated;
            without it whole numbers add up to the rows. Columns that are stated apart are taken as independent.
        max_rows: A public upper limit on the rows of the whole table (those of one person: `Person.max_rows`). With
            more rows sums and counts stop at the limit and the answers are wrong, without a sign of it: state it
            generously. The guarantee holds up to twice as many rows.
        domains: Per column its public values, for tables of counts: {"sex": ["F", "M"], "age": Ordered(range(116))}.
        other: What becomes of a row whose key is in no domain, or missing: "cell" (it counts in a cell of its own, one
            more value of the column) or "drop" (a row unknown in any domain column that the query uses leaves the whole
            query, before a person's rows are limited). Unstated it is "cell" in tables of counts and "drop" in `by`.
        bins: Per column of numbers its public bins, for synthetic rows: how many of one width between its bounds, or
            their edges, {"age": 16, "income": [0, 10_000, 100_000]}. Numbers outside are moved to the nearer end.
        weight: A column of *design* weights: each is a function of the person's own record or of public facts, such as
            the stratum. Counts, sums and means are weighted then. Calibrated or raked weights depend on everybody and
            void the promise: fit released numbers to public totals afterwards, with `rake`.
        max_weight: With `weight`, the public largest weight: larger ones are moved to it, negative ones to 0.
        person: For a view of several tables in a database, the person column of each: {"people": "pid", "visits":
            "patient"}. The column of `unit` must be one of these, as it is.
        public: The tables of such a view that hold nobody's data: [con.table("codes")].
        separator: What separates the values of a CSV file: comma, semicolon, tab or bar, or the sign itself, ";". None
            takes the one that separates the names in its first line.
        decimal: The sign before decimals there: point (the default) or comma. Numbers that are written in another way
            are missing.
        thousands: The sign between thousands there: comma, point, space or apostrophe; None for none.
        encoding: "utf-8", "utf-16" or "windows-1252"; None for what the file's byte-order mark says, else UTF-8.
        types: What columns of a CSV file hold, {"age": "number", "region": "code", "day": "date"}: what does not go
            with it is refused. A column that is not named may be used as any of them.

    Raises:
        ArgumentError: A column is unknown or not numeric, bounds are not finite or reversed, a view is not known to be
            safe, or another argument is malformed.
        MissingExtraError: The engine's extra is not installed.
        EngineError: The file cannot be read.

    >>> import polars
    >>> t = Table(polars.DataFrame({"age": [31, 44]}), bounds={"age": (0, 100)})
    >>> t.statistics(count=True, mean=["age"]).labels
    ('count', 'count(age)', 'sum(age)')
    """

    source: Engine
    bounds: Mapping[str, Bounds]
    person: Person | None
    neighbours: Neighbours | None
    missing: Mapping[str, object]
    rows: int | None
    group_rows: GroupRows | None
    max_rows: int
    domains: Domains
    bins: Mapping[str, Bins]
    weight: tuple[str, float] | None
    counts_others: bool  # in groups too, which have no cell of other keys where nobody states one
    origin: object = field(repr=False)

    def __init__(
        self,
        data: object,
        *,
        bounds: Mapping[str, tuple[float, float]] = _NO_BOUNDS,
        unit: Literal["row"] | Person = "row",
        neighbours: Neighbours | None = None,
        missing: Literal["omit"] | Mapping[str, float | str | bool] = "omit",
        rows: int | None = None,
        group_rows: Mapping[str | tuple[str, ...], Mapping[Any, float]] = _NO_SIZES,
        max_rows: int = 2**32,
        domains: Mapping[str, Sequence[Key] | Ordered] = _NO_DOMAINS,
        other: Literal["cell", "drop"] | None = None,
        bins: Mapping[str, int | Sequence[float]] = _NO_BINS,
        weight: str | None = None,
        max_weight: float | None = None,
        person: Mapping[str, str] = _NO_PEOPLE,
        public: Sequence[object] = (),
        separator: str | None = None,
        decimal: str | None = None,
        thousands: str | None = None,
        encoding: Literal["utf-8", "utf-16", "windows-1252"] | None = None,
        types: Mapping[str, Literal["number", "code", "date"]] = _NO_TYPES,
    ) -> None:
        read = read_bounds(bounds)
        relation = None if neighbours is None else cast("Neighbours", choice("neighbours", neighbours, _RELATIONS))
        fill = read_missing(missing)
        guess = None if rows is None else integer("rows", rows, least=1, cure="pass a public guess, or leave it out")
        sizes = read_group_rows(group_rows)
        if guess is None and sizes is not None:
            guess = sizes.total
        limit = integer("max_rows", max_rows, least=1, cure="pass a public limit, for example 2**32")
        if limit > MOST_ROWS:
            raise ArgumentError(f"max_rows must be at most 2^40, got {shown(max_rows)}: release the table in parts.")
        if not (isinstance(unit, Person) or (isinstance(unit, str) and unit == "row")):
            raise ArgumentError(f'unit must be "row" or a Person, got {shown(unit)}: tables.Person("user_id", 5).')
        owner = unit if isinstance(unit, Person) else None
        if owner is not None and owner.max_rows > limit:
            raise ArgumentError(
                f"Person.max_rows must be at most the table's max_rows, got {owner.max_rows}: lower it."
            )
        dialect = CsvDialect.read(
            separator=separator, decimal=decimal, thousands=thousands, encoding=encoding, types=types
        )
        people = None if owner is None else owner.column
        source = open_table(data, read_people(person), as_tables(public), people, dialect)
        if relation in _PUBLIC_NUMBER:
            source = source.counting_every_row()
        source.require_numbers("bounds", list(read))
        source.require("missing", list(fill))
        cut = read_bins(bins, read)
        source.require_numbers("bins", list(cut))
        weights = read_weight(weight, max_weight)
        source.require_numbers("weight", [] if weights is None else [weights[0]])
        if weights is not None and isinstance(fill.get(weights[0]), (str, bool)):
            raise ArgumentError(f"missing[{weight!r}] must be a number, since it is a weight.")
        source.require("group_rows", [] if sizes is None else [name for columns in sizes.sizes for name in columns])
        known = read_domains(domains, "cell" if other is None else other)
        for column, keys in known.keys.items():
            source.require_keys("domains", column, keys)
        if owner is not None:
            source.require_people("unit", owner.column)
            source.require_single("unit", owner.order)
        facts = {"source": source, "bounds": read, "person": owner, "neighbours": relation}
        facts |= {"missing": fill, "rows": guess, "max_rows": limit, "domains": known, "bins": cut}
        facts |= {"weight": weights, "group_rows": sizes}
        facts |= {"counts_others": other == "cell", "origin": object()}
        for name, value in facts.items():
            object.__setattr__(self, name, value)

    @property
    def relation(self) -> Neighbours:
        """The neighbouring relation, "add_remove" where none was stated."""
        return self.neighbours or "add_remove"

    @property
    def rows_can_vanish(self) -> bool:
        """Whether replacing one unit's data can take rows out of every query of this table, so that no count is public.

        A person may have fewer rows afterwards, and a filter may leave a row out that it let in before. (Dropped keys
        do the same, to the queries that use them.)
        """
        return self.person is not None or self.view.drops_rows

    def under(self, relation: Neighbours) -> "Table":
        """The same table under a relation, where none was stated: that of a ledger.

        Raises:
            ArgumentError: The number of rows would be public, and a CSV file has blank lines.
        """
        if self.neighbours is not None or relation == self.relation:
            return self
        source = self.source.counting_every_row() if relation in _PUBLIC_NUMBER else self.source
        return self._with(neighbours=relation, source=source)

    def check_ledger_unit(self, ledger: "Ledger | None") -> None:
        """Refuse a ledger that counts in rows where people are protected, or the other way round.

        Neither covers the other: one row more or less may also let in, or keep out, another row of the same person. Any
        word but "row" is the user's own for whoever the person column tells apart.

        Raises:
            ArgumentError: It does.
        """
        unit, person = getattr(ledger, "unit", None), self.person
        if not isinstance(unit, str):  # no ledger; what is none is refused by `release`
            return
        if person is None and unit != "row":
            raise ArgumentError(
                f"the ledger's unit is {unit!r}, but this table protects single rows: state unit=Person(...).",
                code="ledger_counts_people",
                unit=Words(unit),
            )
        if person is not None and unit == "row":
            raise ArgumentError(
                f"the ledger's unit is 'row', but this table protects whoever shares a value of {person.column!r}: "
                f"charge a ledger made for them, for example with unit={person.column!r}.",
                code="ledger_counts_rows",
                column=Column(person.column),
            )

    @property
    def view(self) -> View:
        """Which rows count, and which columns are computed from others."""
        return self.source.view

    def where(self, condition: Condition | str, *, rows: int | None = None) -> "Table":
        """The same table with only the rows for which a public condition holds; several conditions must all hold.

        Rows are left out before the rows of a person are limited. Where the number of rows is public ("replace",
        "zero_out") the number of rows that are kept is not: no count of them is exact.

        Args:
            condition: For example `tables.col("age") >= 18`, or its text, "age >= 18 and sex in ['F', 'M']". It is
                published with the results. A comparison with a missing value is false.
            rows: A public guess of the number of rows that are kept, for planning and display only.

        Raises:
            ArgumentError: It is no condition, or a column is unknown or of another type.

        >>> import pandas
        >>> from inid import tables
        >>> t = Table(pandas.DataFrame({"age": [31, 17, 44], "sex": ["F", "M", None]}), bounds={"age": (0, 100)})
        >>> t.where((tables.col("age") >= 18) & tables.col("sex").is_in(["F", "M"])).statistics(count=True).exact_sums()
        array([1])
        """
        filter_condition = read_condition(condition, self.view)
        self.source.require_leaves("where", self.view.leaves(filter_condition))
        facts = {} if rows is None else {"rows": integer("rows", rows, least=1, cure="pass a public guess")}
        return self._with(source=self.source.seen(self.view.filtered(filter_condition)), **facts)

    def with_columns(
        self,
        *,
        bounds: Mapping[str, tuple[float, float]] = _NO_BOUNDS,
        missing: Mapping[str, float | str | bool] = _NO_FILL,
        domains: Mapping[str, Sequence[Key] | Ordered] = _NO_DOMAINS,
        bins: Mapping[str, int | Sequence[float]] = _NO_BINS,
        **columns: Expression | str,
    ) -> "Table":
        """The same table with columns that are computed from others, row by row, inside the engine.

        A number that a formula cannot give (a part is missing, a division by 0) is missing, and left out or filled like
        any other. See `inid.tables.expressions` for what formulas are.

        Args:
            bounds: Public (lower, upper) of each new column that statistics are asked of.
            missing: Public fill values of new columns.
            domains: Public values of new columns, for tables of counts.
            bins: Public bins of new columns, for synthetic rows.
            columns: A formula by name: `bmi=tables.col("weight") / tables.col("height") ** 2`, or its text.

        Raises:
            ArgumentError: A name is taken, a column is unknown or of another type, or a formula is malformed.

        >>> import pandas
        >>> from inid import tables
        >>> t = Table(pandas.DataFrame({"kg": [70.0, 81.0, 60.0], "m": [1.75, 1.8, 0.0]}))
        >>> t = t.with_columns(bmi=tables.col("kg") / tables.col("m") ** 2, bounds={"bmi": (10, 60)})
        >>> t.statistics(mean=["bmi"]).labels
        ('count(bmi)', 'sum(bmi)')
        """
        view, source = self.view, self.source
        for name, formula in columns.items():
            if name in source.schema:
                raise ArgumentError(f"the table has a column {name!r} already: give the new one another name.")
            expression = read_formula(name, formula, view)
            source.require_leaves(f"the formula of {name!r}", view.leaves(expression))
            view = view.with_columns({name: expression})
            source = source.seen(view)
        limits, fill = read_bounds(bounds), read_missing(missing)
        cut = read_bins(bins, limits)
        for what, facts in (("bounds", limits), ("missing", fill), ("domains", domains), ("bins", cut)):
            for column in facts:
                if column not in columns:
                    raise ArgumentError(f"{what} names {shown(column)}, which is no new column: use Table({what}=...).")
        source.require_numbers("bounds", [*limits, *cut])
        public = read_domains(domains, self.domains.other)
        for column, keys in public.keys.items():
            source.require_keys("domains", column, keys)
        public = replace(
            self.domains, keys={**self.domains.keys, **public.keys}, ordered=self.domains.ordered | public.ordered
        )
        limits, fill, cut = {**self.bounds, **limits}, {**self.missing, **fill}, {**self.bins, **cut}
        return self._with(source=source, bounds=limits, missing=fill, domains=public, bins=cut)

    def with_public(self, public: object, *, on: str, otherwise: str = "(none)") -> "Table":
        """The same table with the columns of a small public table, looked up by a key. No row is added or removed.

        Numbers have the public table's own least and largest value for bounds, texts its own values for a domain. A row
        whose key is not there has no number, the text `otherwise`, and is false. The values are published with results.

        Args:
            public: A pandas, Polars or PyArrow table, or lists by column: nobody's data. At most 45 different values in
                a column. (Larger ones, in a database: join them by Ibis, `Table(people.join(codes, "region"), ...)`.)
            on: The column that holds the key, in both tables; each key once.
            otherwise: The text of rows whose key is not there.

        Raises:
            ArgumentError: A key is there twice, a column has too many values, or its name is taken.

        >>> import pandas
        >>> t = Table(pandas.DataFrame({"region": [1, 2, 2, 9], "age": [31, 44, 52, 8]}), bounds={"age": (0, 100)})
        >>> t = t.with_public({"region": [1, 2], "coast": ["north", "south"]}, on="region")
        >>> t.statistics(count=True, by={"coast": ["north", "south"]}).exact_sums()
        array([1, 2])
        """
        formulas, bounds, domains = lookups(public, on, otherwise)
        for name in formulas:
            if name in _FACTS:
                raise ArgumentError(
                    f"the public table has a column {name!r}, which is a word of the library: rename it."
                )
        return self.with_columns(bounds=bounds, domains=domains, missing={}, bins={}, **formulas)

    def per_person(self, person: str, **features: Feature | str) -> "Table":
        """One row a person, with features made of all their rows: any question of it has the sensitivity of one row.

        Rows without an id are left out, and so are people without rows. The number of people is not public under any
        relation: someone whose data change may have rows no more.

        Args:
            person: The column that tells people apart; that of `unit`, where the table has one.
            features: By name `tables.sum("cost", bounds=(0, 500))`, `count`, `mean`, `min`, `max`, `any` or `same`, or
                their text, "sum(cost) in 0:500".

        Raises:
            ArgumentError: A column is unknown or of another type, a name is taken, or a feature is malformed.

        >>> import pandas
        >>> from inid import tables
        >>> frame = pandas.DataFrame({"patient": [1, 1, 2], "cost": [30.0, 45.0, 900.0], "sex": ["F", "F", "M"]})
        >>> t = Table(frame, domains={"sex": ["F", "M"]})
        >>> t = t.per_person("patient", spent=tables.sum("cost", bounds=(0, 500)), sex=tables.same("sex"))
        >>> q = t.statistics(count=True, sum=["spent"], by={"sex": ["F", "M"]})
        >>> q.exact_sums()[:2], (q.exact_sums() * q.units)[2:] + 250  # from the middle of the bounds
        (array([1, 1]), array([ 75., 500.]))
        """
        source, view = self.source, self.view
        if view.people is not None:
            raise ArgumentError("the table has one row a person already: state all features at once.")
        if self.weight is not None:
            raise ArgumentError(
                "weights are of rows, and features have one row a person: make the table without weight=... for them.",
                code="weights_elsewhere",
            )
        if self.person is not None and self.person.column != person:
            raise ArgumentError(f"the table protects {self.person.column!r}: features are of that column's people.")
        source.require_people("per_person", person)
        if not features:
            raise ArgumentError("a feature is missing: name one, such as the number of rows.")
        read = {name: read_feature(name, value) for name, value in features.items()}
        limits: dict[str, Bounds] = {}
        roles: dict[str, PartRole] = {}
        keys: dict[str, tuple[Key, ...]] = {}
        for name, one in read.items():
            if name == person:
                raise ArgumentError(f"the feature {name!r} has the name of the column of people: rename it.")
            if one.kind == "same":
                roles[name] = self._shared_role(name, str(one.column))
                if one.column in self.domains.keys:
                    keys[name] = self.domains.keys[str(one.column)]
                continue
            if one.value is not None:
                formula = read_formula(name, one.value, view)
                source.require_leaves(f"the feature {name!r}", view.leaves(formula))
            if one.kind in ("sum", "mean"):
                limits[name] = self._row_limits(one)
            fill = None if one.column is None else self.missing.get(one.column)
            if isinstance(fill, (str, bool)):
                raise ArgumentError(f"missing[{one.column!r}] must be a number, since the feature {name!r} reads one.")
            if fill is not None:
                read[name] = one.filled(float(cast("float", fill)))
        people = PersonFeatures(person, read, view, limits, roles, bits_for(self.max_rows))
        ordered = frozenset(name for name in keys if read[name].column in self.domains.ordered)
        return self._with(
            source=source.seen(of_people(people)),
            bounds={name: one.bounds for name, one in read.items() if one.bounds is not None},
            person=Person(person, 1),
            missing={name: one.usual for name, one in read.items() if one.usual is not None},
            rows=None,
            group_rows=None,
            domains=Domains(keys, self.domains.other, ordered),
            bins={},
        )

    def _row_limits(self, feature: Feature) -> Bounds:
        """What one row counts at most: what the table says of its column, else what the bounds of a person allow."""
        low, high = cast("Bounds", feature.bounds)
        if feature.kind == "mean":
            return low, high
        if feature.column in self.bounds:
            return self.bounds[str(feature.column)]
        most = max(abs(low), abs(high))
        return -most, most

    def _shared_role(self, name: str, column: str) -> PartRole:
        """What the column of a value that people share holds: texts, or whole numbers."""
        keys, source = self.domains.keys.get(column), self.source
        sample: Key = keys[0] if keys else ""
        if not keys and not (source.text or source.is_untyped(column)):
            source.require("same", [column])
            sample = 0 if source.schema[column].is_integer() else ""
        if isinstance(sample, bool):
            raise ArgumentError(f"the feature {name!r} is of truths: ask by any whether one row has it.")
        source.require_keys("same", column, [sample])
        return "str" if isinstance(sample, str) else "int"

    def with_bounds(self, bounds: Mapping[str, tuple[float, float]]) -> "Table":
        """The same table with other public bounds for some columns: from public knowledge, or from a release.

        >>> import pandas
        >>> Table(pandas.DataFrame({"age": [31]}), bounds={"age": (0, 500)}).with_bounds({"age": (0, 100)}).bounds
        {'age': (0.0, 100.0)}
        """
        read = read_bounds(bounds)
        self.source.require_numbers("bounds", list(read))
        return self._with(bounds={**self.bounds, **read})

    def with_domains(self, domains: Mapping[str, Sequence[Key] | Ordered]) -> "Table":
        """The same table with other public values for some columns: from public knowledge, or from a release."""
        read = read_domains(domains, self.domains.other)
        for column, keys in read.keys.items():
            self.source.require_keys("domains", column, keys)
        ordered = self.domains.ordered - read.keys.keys()
        return self._with(domains=Domains({**self.domains.keys, **read.keys}, read.other, ordered | read.ordered))

    def _with(self, **facts: object) -> "Table":
        changed = copy(self)
        for name, value in facts.items():
            object.__setattr__(changed, name, value)
        return changed
