"""MariaDB: its words, a connection of our own, and what its catalogue says of tables.

*Doubles* are IEEE's, without NaN and infinities, and what is too large stops a query, as in PostgreSQL: the guards keep
below that. *Texts* are compared as the bytes of their letters in UTF-8, whatever the collation. MariaDB compares as
many bytes as `max_sort_length` says where it sorts and groups, so texts that may be longer than 65,535 bytes are not
read. *Dates* of which a part is 0, which some modes of the server accept, are missing as soon as they are read: the
server takes such a date for null in some places only. *Truths* are columns of BIT(1); BOOLEAN is a name of TINYINT,
whose columns hold whole numbers. Only tables of InnoDB have snapshots.

A function of the server's cannot be shadowed by one of a user's, which is found after it. Ibis' own connections need
MySQLdb, which has no wheels, so a table is named by a connection of PyMySQL's (`MariaDBConnection`).
"""

import math
import os
import re
import unicodedata
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate
from typing import Any, ClassVar
from urllib.parse import parse_qsl, unquote, urlsplit

from inid.arguments import shown
from inid.errors import ArgumentError
from inid.tables.engines.guarded import optional
from inid.tables.engines.sql.dialects import Kind, SqlDialect, quoted
from inid.tables.engines.sql.session import Session, SourceTable

_SETTINGS = {
    "sql_mode": "'ANSI_QUOTES,PIPES_AS_CONCAT,NO_BACKSLASH_ESCAPES'",
    "time_zone": "'+00:00'",
    "sql_auto_is_null": "0",
    "default_regex_flags": "''",
    "div_precision_increment": "4",
    "optimizer_switch": "'default'",
    "max_sort_length": "4194304",
    "sort_buffer_size": "268435456",
    "sql_select_limit": "18446744073709551615",
    "sql_big_selects": "1",
    "max_statement_time": "0",
    "idle_transaction_timeout": "0",
    "idle_readonly_transaction_timeout": "0",
    "wait_timeout": "2147483",
    "net_write_timeout": "86400",
}
_TABLE = """
    SELECT table_name, table_schema, table_type, engine, coalesce(create_time, '') FROM information_schema.tables
    WHERE table_name = {name} AND table_schema = {schema}
"""
_COLUMNS = """
    SELECT column_name, column_type, coalesce(character_set_name, ''),
        is_generated = 'ALWAYS' AND extra LIKE '%VIRTUAL%'
    FROM information_schema.columns WHERE table_name = {name} AND table_schema = {schema} ORDER BY ordinal_position
"""
_LENGTHS = re.compile(r"\(.*\)", re.DOTALL)  # of types, and the words of an enum
_DEEPEST = 400  # parentheses; at 750 a stack of the usual size is full
_DENIED = (1142, 1143)  # errors of rights


class MariaDBDialect(SqlDialect):
    """MariaDB, in a session with the settings above."""

    double, text, wide = "DOUBLE", "CHAR", "DECIMAL(65, 0)"
    barrier = " LIMIT 18446744073709551615"  # else steps are written into each other
    bigint, nulls_first, most_sets = "SIGNED", "", 1  # nulls come first; it has no grouping sets
    _WHOLE = ("tinyint", "smallint", "mediumint", "int", "bigint", "year")
    _TEXTS = ("char", "varchar", "tinytext", "text", "enum")
    _LETTERS = ("utf8mb4", "utf8mb3", "latin1", "ascii")
    _DATES: ClassVar[dict[str, Kind]] = {"date": "date", "datetime": "moment", "timestamp": "zoned"}

    def column_identity(self, name: str) -> str:
        # As coarse as any of its collations, some of which leave accents out.
        letters = unicodedata.normalize("NFKD", name.casefold())
        return "".join(one for one in letters if not unicodedata.combining(one)).casefold().rstrip()

    def column(self, name: str, kind: str) -> tuple[str, Kind]:
        """By the type as the catalogue has it, followed by the character set of texts."""
        words = re.findall(r"[a-z0-9]+", re.sub(_LENGTHS, " ", kind)) or [""]
        if words[0] == "uuid" or (words[0] in self._TEXTS and words[-1] in self._LETTERS):
            return self.as_text(name), "text"
        if words[0] == "decimal" or (words[0] == "bigint" and "unsigned" in words):
            return f"CAST({name} AS DECIMAL(20, 0))" if words[0] == "bigint" else name, "decimal"
        if words[0] in self._WHOLE:
            return f"CAST({name} AS SIGNED)", "whole"
        if words[0] in ("float", "double"):
            return f"CAST({name} AS DOUBLE)", "double"
        if words[0] in self._DATES:
            there = f"year({name}) >= 1 AND month({name}) >= 1 AND day({name}) BETWEEN 1 AND day(last_day({name}))"
            return f"CASE WHEN {there} THEN {name} END", self._DATES[words[0]]
        return (f"({name} = b'1')", "truth") if kind.strip() == "bit(1)" else (name, "other")

    def word(self, text: str) -> str:
        return f"X'{text.encode().hex()}'"

    def shown(self, value: str, kind: Kind) -> str:
        if kind == "truth":
            return f"CASE WHEN {value} THEN 'true' WHEN NOT {value} THEN 'false' END"
        return self.letters(value) if kind == "text" else f"CAST({value} AS CHAR)"

    def number(self, value: float) -> str:
        if not math.isfinite(value):
            raise ArgumentError("MariaDB has no number that is infinite or NaN: leave it out of the view.")
        spelled = repr(float(value))
        return f"({spelled})" if "e" in spelled else f"({spelled}e0)"  # without an e it would be a decimal

    def nothing(self, kind: Kind) -> str:
        type_name = {"truth": "SIGNED", "whole": "SIGNED", "double": "DOUBLE", "date": "DATE", "text": "BINARY"}[kind]
        return f"CAST(NULL AS {type_name})"

    def letters(self, text: str) -> str:
        return f"(CONVERT({text} USING utf8mb4) COLLATE utf8mb4_nopad_bin)"

    def as_text(self, letters: str) -> str:
        return f"CAST(CONVERT({letters} USING utf8mb4) AS BINARY)"

    def matches(self, letters: str, pattern: str) -> str:
        return f"{letters} REGEXP '^({pattern})\\z'"

    def decimal_as_double(self, value: str) -> str:
        return f"CAST({value} AS DOUBLE)"

    def is_number(self, value: str, kind: Kind = "double") -> str:
        return f"{value} IS NOT NULL"

    def below_nan(self, value: str) -> str:
        return f"{value} IS NOT NULL"

    def extreme(self, function: str, values: Sequence[str]) -> str:
        # One that is missing makes all missing: in its place stands the next that is there.
        turns = (f"coalesce({', '.join([*values[at:], *values[:at]])})" for at in range(len(values)))
        return f"{function}({', '.join(turns)})" if len(values) > 1 else values[0]

    def days(self, date: str) -> str:
        return f"datediff({date}, DATE '1970-01-01')"

    def date_of(self, letters: str, year: str, month: str, day: str) -> str:
        return f"CAST({letters} AS DATE)"

    def _dated(self, value: str, kind: Kind, number: str) -> str:
        """Every date that was read is one of the years 1 to 9999."""
        return f"CAST({number.format(value)} AS DOUBLE)"


class MariaDBConnection:
    """Names tables of a server, by Ibis: `table.get_backend().table("visits")` is another one of the same server."""

    name = "mariadb"

    def __init__(self, address: str) -> None:
        parts = urlsplit(address)
        options = dict(parse_qsl(parts.query))
        if not options.keys() <= {"unix_socket", "ssl_ca"}:
            raise ArgumentError("an address of MariaDB takes the options unix_socket and ssl_ca: leave others out.")
        stated = {
            "host": parts.hostname,
            "port": parts.port,
            "user": unquote(parts.username or ""),
            "password": unquote(parts.password or "") or os.environ.get("MYSQL_PWD"),
            "unix_socket": options.get("unix_socket"),
            "ssl_ca": options.get("ssl_ca"),
        }
        self.database = unquote(parts.path.strip("/"))
        self.parameters = {name: value for name, value in stated.items() if value}

    def table(self, name: str, database: Any = None) -> Any:
        """A table, with the types that a view may use."""
        ops, dt = optional("ibis.expr.operations", "sql"), optional("ibis.expr.datatypes", "sql")
        ibis, session = optional("ibis", "sql"), MariaDBSession(self)
        place = [database] if isinstance(database, str) else list(database or ())
        with session.snapshot():
            columns = session.table(name, place).columns
        types = {"truth": dt.boolean, "whole": dt.int64, "double": dt.float64, "decimal": dt.decimal}
        types |= {"text": dt.string, "date": dt.date, "moment": dt.timestamp, "zoned": dt.Timestamp("UTC")}
        schema = ibis.schema({column: types.get(kind, dt.unknown) for column, (_, kind) in columns.items()})
        namespace = ops.Namespace(database=place[-1] if place else None)
        return ops.DatabaseTable(name, schema=schema, source=self, namespace=namespace).to_expr()


class MariaDBSession(Session):
    """Transactions on connections of our own."""

    def __init__(self, source: MariaDBConnection) -> None:
        super().__init__()
        self.dialect, self._source = MariaDBDialect(), source

    @contextmanager
    def _transaction(self, tables: Sequence[str]) -> Iterator[Any]:
        driver = optional("pymysql", "sql")
        # Without converters every value stays the text that it came as.
        connection = driver.connect(**self._source.parameters, charset="utf8mb4", conv={}, autocommit=True)
        try:
            self._ask(connection, "SET NAMES 'utf8mb4' COLLATE 'utf8mb4_nopad_bin'")
            self._ask(connection, f"SET SESSION {', '.join(f'{name} = {value}' for name, value in _SETTINGS.items())}")
            self._ask(connection, "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            self._ask(connection, "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY")
            for table in tables:  # whoever changes its columns waits from here on
                try:
                    self._ask(connection, f"SELECT 1 FROM {table} LIMIT 0")
                except driver.err.OperationalError as error:
                    if error.args[0] not in _DENIED:
                        raise
                    raise ArgumentError(
                        f"the user of this connection may not read the table {table}, so nothing was charged: have "
                        "an administrator GRANT SELECT on it."
                    ) from None
            yield connection
        finally:
            connection.close()  # which rolls back: nothing was written

    @staticmethod
    def _ask(connection: Any, statement: str) -> list[tuple[str | None, ...]]:
        with connection.cursor() as cursor:
            cursor.execute(statement)
            return list(cursor.fetchall())

    def explain(self, statement: str) -> None:
        """Deep statements may be planned and still be too deep for the server's stack when they run."""
        depths = accumulate((letter == "(") - (letter == ")") for letter in statement)
        if max(depths) > _DEEPEST:
            raise ArgumentError("the view nests its steps too deeply for MariaDB: use fewer steps, or store some.")
        super().explain(statement)

    def fetch(self, statement: str) -> list[tuple[str | None, ...]]:
        return self._ask(self.connection, statement)

    def table(self, name: str, place: Sequence[str]) -> SourceTable:
        schema = place[-1] if place else self._source.database
        words = {
            word: self.dialect.letters(self.dialect.word(text)) for word, text in (("name", name), ("schema", schema))
        }
        # The catalogue may take names for one another that are two tables.
        lines = [line for line in self.fetch(_TABLE.format(**words)) if line[:2] == (name, schema)]
        if not lines:
            raise ArgumentError(
                f"the database has no table {shown(name)} that this user may read: name its database too."
            )
        ((_, _, kind, engine, time_of_creation),) = lines
        if kind != "BASE TABLE" or engine != "InnoDB":
            raise ArgumentError(
                f"{shown(name)} is no table of InnoDB, so that it has no snapshot (a view, a versioned table, or one "
                "of another engine): pass the tables that it reads, or copy it."
            )
        columns, types = {}, {}
        for column, type_name, letters, computed in self.fetch(_COLUMNS.format(**words)):
            if computed == "1":
                raise ArgumentError(f"{shown(name)} has a column that is computed when it is read: store it instead.")
            columns[str(column)] = self.dialect.column(quoted(str(column)), f"{type_name} {letters}")
            types[str(column)] = f"{re.sub(_LENGTHS, '', str(type_name))} {letters}"
        where = quoted(schema, name)
        identity = f"{where} {time_of_creation}"
        return SourceTable(where, identity, frozenset({identity}), columns, types)
