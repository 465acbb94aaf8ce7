"""How PostgreSQL and DuckDB say the same: every expression is total.

No value of any row stops a query or changes how another one is read: what has no result is missing. A filter does not
see to that (databases compute what a filter, or a join, throws away), a CASE inside the expression does.

Columns enter in one of a few kinds. Texts are compared, sorted and grouped by their letters, whatever the collation of
their column: PostgreSQL's under COLLATE "C", DuckDB's as blobs.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar, Literal

from inid.fixed_point import Grid
from inid.tables.engines.roles import FIRST_DAY, LAST_DAY, Role

# A moment is a time without a zone, a zoned one has one. A decimal, and what else has no kind, is read only.
Kind = Literal["truth", "whole", "double", "decimal", "text", "date", "moment", "zoned", "other"]

_SMALL = 2.0**-500
_INT4 = 2**31


def quoted(*names: str) -> str:
    """A name, or a qualified one, in quotes."""
    return ".".join('"' + name.replace('"', '""') + '"' for name in names)


class SqlDialect(ABC):
    """One database's words."""

    double: str
    text: str
    wide: str
    barrier: str
    bigint = "BIGINT"  # a whole number of 64 bits, in casts
    nulls_first = " NULLS FIRST"  # after ASC
    most_sets = 256  # tables of one statement, as grouping sets

    # Columns and literals.

    @abstractmethod
    def column_identity(self, name: str) -> str:
        """What the database tells the names of columns apart by: two with the same are one to it."""

    @abstractmethod
    def column(self, name: str, kind: str) -> tuple[str, Kind]:
        """A column of a table, by its quoted name and the database's type: in its kind."""

    @abstractmethod
    def word(self, text: str) -> str:
        """A public text, as columns of texts are."""

    @abstractmethod
    def shown(self, value: str, kind: Kind) -> str:
        """A value as a text that leaves the database."""

    def number(self, value: float) -> str:
        """The very double: a number without quotes would be a decimal first."""
        spelled = {"inf": "Infinity", "-inf": "-Infinity", "nan": "NaN"}.get(repr(float(value)), repr(float(value)))
        return f"CAST('{spelled}' AS {self.double})"

    def whole(self, value: int) -> str:
        """A whole number of 64 bits."""
        return f"CAST('{int(value)}' AS {self.bigint})"

    def truth(self, value: bool) -> str:
        """True or false."""
        return "TRUE" if value else "FALSE"

    @abstractmethod
    def nothing(self, kind: Kind) -> str:
        """A missing truth, number, date or text: PostgreSQL takes one without a type for a text."""

    @abstractmethod
    def letters(self, text: str) -> str:
        """A text for the database's own functions of texts."""

    @abstractmethod
    def as_text(self, letters: str) -> str:
        """What such a function gives, as columns of texts are."""

    @abstractmethod
    def matches(self, letters: str, pattern: str) -> str:
        """Whether the whole of a text matches a public pattern."""

    # What columns are read as.

    def read(self, name: str, kind: Kind, role: Role) -> str:
        """A column, called by its quoted name, typed for its role."""
        if role == "number":
            return self.as_double(name, kind)
        if role in ("day", "year"):
            return self.day(name, kind) if role == "day" else self.year(name, kind)
        if role in ("person", "order") and kind in ("double", "decimal"):
            return f"CASE WHEN {self.is_number(name, kind)} THEN {name} END"
        return "1" if role == "raw" else name

    def as_double(self, value: str, kind: Kind) -> str:
        """A number as a double."""
        if kind == "truth":
            return f"CASE WHEN {value} THEN {self.number(1.0)} WHEN NOT {value} THEN {self.number(0.0)} END"
        if kind == "decimal":
            return self.decimal_as_double(value)
        return value if kind == "double" else f"CAST({value} AS {self.double})"

    @abstractmethod
    def decimal_as_double(self, value: str) -> str:
        """A decimal as the double nearest to it, infinite beyond the largest."""

    @abstractmethod
    def is_number(self, value: str, kind: Kind = "double") -> str:
        """Whether there is a number that is not NaN: true, or else false or null."""

    def below_nan(self, value: str) -> str:
        """Whether there is a double that is not NaN, of one that is above a bound."""
        return f"{value} < {self.number(math.nan)}"

    # Numbers on a grid.

    def on_grid(self, value: str, grid: Grid, missing: int | None = None, *, wide: bool = False) -> str:
        """A double as a whole number of its grid before the shift: one case, in which most values stop at the second.

        NaN is above all numbers in both databases. What lies outside the bounds is the very number of a bound.
        PostgreSQL stops where a product is too small for a double. Such a value counts as 0, which changes no integer:
        below 2^-1000 units nothing reaches the half that is added, and where the grid begins above 0 values this small
        are below its bound.
        """
        kind = "INTEGER" if grid.below + grid.most < _INT4 and not wide else self.bigint
        low, high = self.number(grid.lower), self.number(grid.upper)
        tiny = math.ldexp(1.0, -1000 - grid.bits) if grid.bits < 0 else 0.0
        clipped = value
        if tiny:
            clipped = f"(CASE WHEN abs({value}) >= {self.number(tiny)} THEN {value} ELSE {self.number(0.0)} END)"
        integer = f"CAST(floor({clipped} * {self.number(grid.factor)} - {self.number(grid.offset)}) AS {kind})"
        first, last = (f"CAST('{one + grid.below}' AS {kind})" for one in (grid.least, grid.most))
        rest = "" if missing is None else f" ELSE CAST('{missing}' AS {kind})"
        inside = f"WHEN {value} < {low} THEN {first} WHEN {value} <= {high} THEN {integer}"
        return f"(CASE {inside} WHEN {self.below_nan(value)} THEN {last}{rest} END)"

    def sum_and_count(self, column: str, grid: Grid, here: str) -> tuple[str, str]:
        """The sum of what a column is on its grid, before the shift, and the number of values that are added up."""
        integer, value = self.on_grid(column, grid), self.is_number(column)
        where = f"{value} AND {here}" if here else value
        return f"sum({self.where(integer, here)})", f"count(CASE WHEN {where} THEN 1 END)"

    def where(self, value: str, here: str) -> str:
        """A value where a condition holds, elsewhere nothing; everywhere where there is none."""
        return f"CASE WHEN {here} THEN {value} END" if here else value

    def extreme(self, function: str, values: Sequence[str]) -> str:
        """The "greatest" or the "least" of some values that are there."""
        return f"{function}({', '.join(values)})"

    # Dates.

    def date_of(self, letters: str, year: str, month: str, day: str) -> str:
        """The date that a text says, YYYY-MM-DD, and its parts as whole numbers: it is a date."""
        return f"make_date({year}, {month}, {day})"

    def day(self, value: str, kind: Kind) -> str:
        """The days since 1970 as a double, of the years 1 to 9999; any other date, and an infinite one, is missing."""
        return self._dated(value, kind, self.days("{0}"))

    def year(self, value: str, kind: Kind) -> str:
        """The year as a double, likewise."""
        return self._dated(value, kind, "extract(year FROM {0})")

    @abstractmethod
    def days(self, date: str) -> str:
        """The days since 1970 of a date."""

    def _dated(self, value: str, kind: Kind, number: str) -> str:
        low, high = (f"DATE '1970-01-01' + {day}" for day in (FIRST_DAY, LAST_DAY))
        last = f"{value} <= {high}" if kind == "date" else f"{value} < {high} + 1"
        days = number.format(f"CAST({value} AS DATE)")
        return f"CASE WHEN {value} >= {low} AND {last} THEN CAST({days} AS {self.double}) END"

    # Arithmetic of doubles that are at most 2^500 in size, as IEEE has it.

    def product(self, one: str, two: str) -> str:
        """A product; where PostgreSQL would stop, since it is too small for a double, it is 0."""
        return f"({one} * {two})"

    def quotient(self, one: str, two: str) -> str:
        """A quotient by at least 2^-500 in size, or null; likewise."""
        return f"({one} / {two})"


class PostgresDialect(SqlDialect):
    """PostgreSQL, in a session whose search path is its own catalogue alone."""

    double, text, wide, barrier = "float8", "text", "numeric", " OFFSET 0"
    _KINDS: ClassVar[dict[str, Kind]] = {"float8": "double", "numeric": "decimal", "date": "date"}
    _KINDS |= {"bool": "truth", "int8": "whole", "timestamp": "moment", "timestamptz": "zoned"}
    _CAST: ClassVar[dict[str, tuple[str, Kind]]] = {"int2": ("int8", "whole"), "int4": ("int8", "whole")}
    _CAST |= {"float4": ("float8", "double")}

    def column_identity(self, name: str) -> str:
        return name.encode()[:63].decode(errors="ignore")  # longer ones are cut

    def column(self, name: str, kind: str) -> tuple[str, Kind]:
        if kind in ("text", "varchar", "bpchar", "uuid", "name"):
            return f'CAST({name} AS text) COLLATE "C"', "text"
        if kind in self._CAST:
            wider, type_name = self._CAST[kind]
            return f"CAST({name} AS {wider})", type_name
        return name, self._KINDS.get(kind, "other")

    def word(self, text: str) -> str:
        spelled = text.replace("\\", "\\\\").replace("'", "''")
        return f"(CAST(E'{spelled}' AS text) COLLATE \"C\")"

    def nothing(self, kind: Kind) -> str:
        type_name = {"truth": "boolean", "whole": "bigint", "double": "float8", "date": "date", "text": "text"}[kind]
        return f"CAST(NULL AS {type_name})" if kind != "text" else '(CAST(NULL AS text) COLLATE "C")'

    def shown(self, value: str, kind: Kind) -> str:
        return f"CAST({value} AS text)"

    def letters(self, text: str) -> str:
        return text

    def as_text(self, letters: str) -> str:
        return f'(CAST({letters} AS text) COLLATE "C")'

    def matches(self, letters: str, pattern: str) -> str:
        return f"{letters} ~ '^({pattern})$'"

    def decimal_as_double(self, value: str) -> str:
        # The cast goes by way of a text, and stops at both ends of what doubles hold.
        most, least = "1.7976931348623157e308", "1e-300"
        inside = f"WHEN abs({value}) >= {least} AND abs({value}) <= {most} THEN CAST({value} AS float8)"
        beyond = f"WHEN {value} > {most} AND {value} < 'NaN' THEN {self.number(math.inf)}"
        beyond += f" WHEN {value} < -{most} THEN {self.number(-math.inf)}"
        return f"CASE {inside} {beyond} WHEN abs({value}) < {least} THEN {self.number(0.0)} END"

    def is_number(self, value: str, kind: Kind = "double") -> str:
        return f"{value} < CAST('NaN' AS {'numeric' if kind == 'decimal' else 'float8'})"

    def sum_and_count(self, column: str, grid: Grid, here: str) -> tuple[str, str]:
        """Both by one pass: the sum and the average of 64-bit numbers share what PostgreSQL keeps, in 128 bits.

        The count N is the sum S by the average, to the nearest whole number, and exactly so. *Why.* What is added are
        whole numbers from 1 to 2^30, so S is exact and the average at least 1. PostgreSQL rounds a quotient q of
        numerics to 16 - 4 w decimals at least, where 10^(4 w) <= q: by at most e = 1/2 in 10^16 of q. So the average
        is S / N (1 + d), and the sum by it N (1 + d') / (1 + d), where d and d' are at most e in size: off N by at most
        N 2 e / (1 - e), below 1/2 up to 4 10^15 rows. A table promises 2^40 at most. (It keeps 1,000 decimals at most,
        which cuts none here: q is at least 1.) Without values both are null. Where a grid has a 0, the average may be
        0, and the values are counted.
        """
        if grid.least + grid.below < 1:
            return super().sum_and_count(column, grid, here)
        summand = self.where(self.on_grid(column, grid, wide=True), here)
        return f"sum({summand})", f"round(sum({summand}) / avg({summand}))"

    def days(self, date: str) -> str:
        return f"({date} - DATE '1970-01-01')"

    # Only results that are exactly 0 stop it. Scaled by 2^1160 no product here is that small; where it comes out at
    # half of the least double or below, IEEE rounds it to 0; else scaling back leaves something.

    def product(self, one: str, two: str) -> str:
        small, least = self.number(2.0**-530), self.number(math.ldexp(1.0, 1160 - 1075))
        back = self.number(2.0**-580)

        def scaled(few: str, more: str) -> str:
            return f"(({few} * {self.number(2.0**1000)}) * {self.number(2.0**60)}) * ({more} * {self.number(2.0**100)})"

        def tiny(product: str) -> str:
            return f"CASE WHEN abs({product}) <= {least} THEN {self.number(0.0)} ELSE {product} * {back} * {back} END"

        plain = f"abs({one}) >= {small} AND abs({two}) >= {small}"
        large = f"abs({one}) >= {self.number(1.0)} OR abs({two}) >= {self.number(1.0)}"
        return (
            f"(CASE WHEN ({plain}) OR {large} OR {one} = 0 OR {two} = 0 THEN {one} * {two} "
            f"WHEN abs({one}) < {small} THEN {tiny(scaled(one, two))} "
            f"WHEN abs({two}) < {small} THEN {tiny(scaled(two, one))} END)"
        )

    def quotient(self, one: str, two: str) -> str:
        scaled = f"({one} * {self.number(2.0**600)} / {two})"
        least = self.number(math.ldexp(1.0, 600 - 1075))
        tiny = (
            f"CASE WHEN abs({scaled}) <= {least} THEN {self.number(0.0)} ELSE {scaled} * {self.number(2.0**-600)} END"
        )
        plain = f"abs({one}) >= {self.number(_SMALL)} OR {one} = 0"
        return f"(CASE WHEN {plain} THEN {one} / {two} WHEN {two} <> 0 THEN {tiny} END)"


class DuckDBDialect(SqlDialect):
    """DuckDB, whose doubles follow IEEE without a stop."""

    double, text, wide, barrier = "DOUBLE", "VARCHAR", "HUGEINT", ""
    _KINDS: ClassVar[dict[str, Kind]] = {"BOOLEAN": "truth", "BIGINT": "whole", "DOUBLE": "double", "DATE": "date"}
    _KINDS |= {"TIMESTAMP": "moment", "TIMESTAMP WITH TIME ZONE": "zoned"}
    _WHOLE = ("TINYINT", "SMALLINT", "INTEGER", "UTINYINT", "USMALLINT", "UINTEGER")
    _LARGE = ("UBIGINT", "HUGEINT", "UHUGEINT")

    def column_identity(self, name: str) -> str:
        return name.casefold()

    def column(self, name: str, kind: str) -> tuple[str, Kind]:
        if kind in ("VARCHAR", "UUID") or kind.startswith("ENUM("):
            return f"encode(CAST({name} AS VARCHAR))", "text"
        if kind in self._WHOLE:
            return f"CAST({name} AS BIGINT)", "whole"
        if kind == "FLOAT":
            return f"CAST({name} AS DOUBLE)", "double"
        if kind in self._LARGE or kind.startswith("DECIMAL("):
            return name, "decimal"
        return name, self._KINDS.get(kind, "other")

    def word(self, text: str) -> str:
        spelled = text.replace("'", "''")
        return f"encode('{spelled}')"

    def nothing(self, kind: Kind) -> str:
        type_name = {"truth": "BOOLEAN", "whole": "BIGINT", "double": "DOUBLE", "date": "DATE", "text": "BLOB"}[kind]
        return f"CAST(NULL AS {type_name})"

    def shown(self, value: str, kind: Kind) -> str:
        return f"TRY(decode({value}))" if kind == "text" else f"CAST({value} AS VARCHAR)"

    def letters(self, text: str) -> str:
        return f"decode({text})"

    def as_text(self, letters: str) -> str:
        return f"encode(CAST({letters} AS VARCHAR))"

    def matches(self, letters: str, pattern: str) -> str:
        return f"regexp_full_match({letters}, '{pattern}')"

    def decimal_as_double(self, value: str) -> str:
        return f"CAST({value} AS DOUBLE)"

    def is_number(self, value: str, kind: Kind = "double") -> str:
        return f"NOT isnan({value})" if kind == "double" else f"{value} IS NOT NULL"

    def days(self, date: str) -> str:
        return f"date_diff('day', DATE '1970-01-01', {date})"
