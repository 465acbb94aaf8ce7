"""A table and the public facts about it."""

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, cast

from inid.arguments import choice, integer, shown
from inid.errors import ArgumentError, Column, Words
from inid.sets import Neighbours
from inid.tables.asking import Asking
from inid.tables.domains import Domains, Ordered, read_domains
from inid.tables.engines import Engine, open_table
from inid.tables.expressions import Condition, Expression
from inid.tables.facts import Bins, Bounds, Key, Person, as_tables, read_bins, read_bounds, read_missing, read_people
from inid.tables.public_facts import MOST_ROWS
from inid.tables.public_lookups import lookups
from inid.tables.view import View, read_condition, read_formula

if TYPE_CHECKING:
    from inid.accounting import Ledger

__all__ = ["Table"]

_RELATIONS: tuple[Neighbours, ...] = ("add_remove", "replace", "zero_out")
_NO_BOUNDS: Mapping[str, tuple[float, float]] = MappingProxyType({})
_NO_DOMAINS: Mapping[str, Sequence[Key] | Ordered] = MappingProxyType({})
_NO_BINS: Mapping[str, int | Sequence[float]] = MappingProxyType({})
_NO_FILL: Mapping[str, float | str | bool] = MappingProxyType({})
_FACTS = ("bounds", "missing", "domains", "bins")  # what `with_columns` takes beside formulas
_NO_PEOPLE: Mapping[str, str] = MappingProxyType({})
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
        max_rows: A public upper limit on the rows of the whole table (those of one person: `Person.max_rows`). With
            more rows sums and counts stop at the limit and the answers are wrong, without a sign of it: state it
            generously. The guarantee holds up to twice as many rows.
        domains: Per column its public values, for tables of counts: {"sex": ["F", "M"], "age": Ordered(range(116))}.
        other: What becomes of a row whose key is in no domain, or missing: "cell" (it counts in a cell of its own, one
            more value of the column) or "drop" (a row unknown in any domain column that the query uses leaves the whole
            query, before a person's rows are limited).
        bins: Per column of numbers its public bins, for synthetic rows: how many of one width between its bounds, or
            their edges, {"age": 16, "income": [0, 10_000, 100_000]}. Numbers outside are moved to the nearer end.
        person: For a view of several tables in a database, the person column of each: {"people": "pid", "visits":
            "patient"}. The column of `unit` must be one of these, as it is.
        public: The tables of such a view that hold nobody's data: [con.table("codes")].

    Raises:
        ArgumentError: A column is unknown or not numeric, bounds are not finite or reversed, a view is not known to be
            safe, or another argument is malformed.
        MissingExtraError: The engine's extra is not installed.
        EngineError: The file cannot be read.

    >>> import polars
    >>> t = Table(polars.DataFrame({"age": [31, 44]}), bounds={"age": (0, 100)})
    >>> t.query(count=True, mean=["age"]).labels
    ('count', 'count(age)', 'sum(age)')
    """

    source: Engine
    bounds: Mapping[str, Bounds]
    person: Person | None
    neighbours: Neighbours | None
    missing: Mapping[str, object]
    rows: int | None
    max_rows: int
    domains: Domains
    bins: Mapping[str, Bins]
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
        max_rows: int = 2**32,
        domains: Mapping[str, Sequence[Key] | Ordered] = _NO_DOMAINS,
        other: Literal["cell", "drop"] = "cell",
        bins: Mapping[str, int | Sequence[float]] = _NO_BINS,
        person: Mapping[str, str] = _NO_PEOPLE,
        public: Sequence[object] = (),
    ) -> None:
        read = read_bounds(bounds)
        relation = None if neighbours is None else cast("Neighbours", choice("neighbours", neighbours, _RELATIONS))
        fill = read_missing(missing)
        guess = None if rows is None else integer("rows", rows, least=1, cure="pass a public guess, or leave it out")
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
        source = open_table(data, read_people(person), as_tables(public), None if owner is None else owner.column)
        if relation in _PUBLIC_NUMBER:
            source = source.counting_every_row()
        source.require_numbers("bounds", list(read))
        source.require("missing", list(fill))
        cut = read_bins(bins, read)
        source.require_numbers("bins", list(cut))
        known = read_domains(domains, other)
        for column, keys in known.keys.items():
            source.require_keys("domains", column, keys)
        if owner is not None:
            source.require_single("unit", [owner.column, *owner.order])
        facts = {"source": source, "bounds": read, "person": owner, "neighbours": relation}
        facts |= {"missing": fill, "rows": guess, "max_rows": limit, "domains": known, "bins": cut}
        facts["origin"] = object()
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
        >>> t.where((tables.col("age") >= 18) & tables.col("sex").is_in(["F", "M"])).query(count=True).exact_sums()
        array([1])
        """
        found = read_condition(condition, self.view)
        self.source.require_leaves("where", self.view.leaves(found))
        facts = {} if rows is None else {"rows": integer("rows", rows, least=1, cure="pass a public guess")}
        return self._with(source=self.source.seen(self.view.filtered(found)), **facts)

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
        >>> t.query(mean=["bmi"]).labels
        ('count(bmi)', 'sum(bmi)')
        """
        view, source = self.view, self.source
        for name, formula in columns.items():
            if name in source.schema:
                raise ArgumentError(f"the table has a column {name!r} already: give the new one another name.")
            made = read_formula(name, formula, view)
            source.require_leaves(f"the formula of {name!r}", view.leaves(made))
            view = view.with_columns({name: made})
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
        """The same table with the columns of a small public table, looked up by a key: no row more or less.

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
        >>> t.query(count=True, by={"coast": ["north", "south"]}).exact_sums()
        array([1, 2])
        """
        formulas, bounds, domains = lookups(public, on, otherwise)
        for name in formulas:
            if name in _FACTS:
                raise ArgumentError(
                    f"the public table has a column {name!r}, which is a word of the library: rename it."
                )
        return self.with_columns(bounds=bounds, domains=domains, missing={}, bins={}, **formulas)

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
        kept = self.domains.ordered - read.keys.keys()
        return self._with(domains=Domains({**self.domains.keys, **read.keys}, read.other, kept | read.ordered))

    def _with(self, **facts: object) -> "Table":
        made = copy(self)
        for name, value in facts.items():
            object.__setattr__(made, name, value)
        return made
