"""A ledger on a PostgreSQL server: in which schema it is, and how it is locked.

The schema is part of where a ledger is. Names without one mean different tables to different roles, so two roles would
each get a ledger "census" at one address, with a budget each. Tables are therefore always named with their schema:

- the one that the address names (`?schema=census`), or else
- the only one in the whole database that holds tables of ledgers, if it is on the role's search path, or else,
- where there are none yet, the schema in which the role makes tables.

Which schemas hold such tables is read from `pg_class`, which shows those of other roles too; when a ledger is made,
under a lock on the whole database that covers the look and the making.
"""

import sqlalchemy as sa
from sqlalchemy.exc import ArgumentError as BadUrl

from inid.accounting.addresses import Address, in_schema
from inid.accounting.databases import DatabaseStore
from inid.errors import ArgumentError, BudgetError, MissingExtraError

__all__ = ["PostgresStore"]

_CREATION_LOCK = 0x696E6964  # "inid": an arbitrary key under which all that make ledgers in a database take turns
_HOLDING = sa.text(
    "SELECT DISTINCT n.nspname::text FROM pg_catalog.pg_class c "
    "JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace "
    "WHERE c.relname IN ('inid_schema', 'inid_ledgers', 'inid_charges') AND c.relkind IN ('r', 'p', 'v', 'm', 'f') "
    "AND n.nspname !~ '^pg_' ORDER BY 1"
)
_PATH = sa.text("SELECT pg_catalog.current_schemas(false)::text[]")
_EXISTS = sa.text("SELECT count(*) FROM pg_catalog.pg_namespace WHERE nspname = :name")
_NOT_FOR_TABLES = ("pg_", "information_schema")  # temporary tables (pg_temp) vanish with their connection


class PostgresStore(DatabaseStore):
    """A ledger on a server. Writers lock the ledger's own row (SELECT ... FOR UPDATE)."""

    def __init__(self, address: Address, name: str, timeout: float) -> None:
        self._milliseconds = max(1, round(timeout * 1000))
        self._schema: str | None = None  # not known before the first look
        try:
            engine = sa.create_engine(
                address.url,
                poolclass=sa.pool.NullPool,
                hide_parameters=True,
                connect_args={"connect_timeout": max(2, round(timeout))},
            )
        except ModuleNotFoundError as error:
            raise MissingExtraError(
                f"a ledger on PostgreSQL needs the package {error.name}: install the extra with "
                "pip install 'inid[postgres]', or keep the ledger in a file."
            ) from None
        except (BadUrl, ValueError):
            raise ArgumentError(
                "the database's address does not parse: pass postgresql://user:password@host:port/database."
            ) from None
        super().__init__(engine, address, name)

    def _options(self, connection: sa.Connection, *, writes: bool) -> sa.Connection:
        # A writer must see what was committed while it waited for the lock; a reader wants one consistent picture.
        return connection.execution_options(isolation_level="READ COMMITTED" if writes else "REPEATABLE READ")

    def _begun(self, connection: sa.Connection) -> None:
        connection.execute(sa.text(f"SET LOCAL lock_timeout = {self._milliseconds}"))
        connection.execute(sa.text("SET LOCAL synchronous_commit = on"))
        if self._schema is not None:
            self._use(connection, self._schema)

    def _lock_creation(self, connection: sa.Connection) -> None:
        connection.execute(sa.text(f"SELECT pg_catalog.pg_advisory_xact_lock({_CREATION_LOCK})"))

    def _has_tables(self, connection: sa.Connection) -> bool:
        holding: list[str] = list(connection.scalars(_HOLDING))
        path: list[str] = connection.scalar(_PATH) or []
        schema = self._chosen(connection, holding, path)
        if schema is not None and schema.startswith(_NOT_FOR_TABLES):
            raise ArgumentError(
                f"a ledger cannot be in the schema {schema} of {self.address.where}: temporary tables and those of the "
                "system are no place for a budget. Name another schema by ?schema=... in the address."
            )
        if schema is not None and (schema in holding or self._schema is None):
            self._use(connection, schema)
        return schema in holding

    def _chosen(self, connection: sa.Connection, holding: list[str], path: list[str]) -> str | None:
        """The schema that the address means; None where it means none.

        Raises:
            BudgetError: It may mean several, or one that the role does not look into, or one that is not there.
        """
        stated = self.address.schema
        if stated is not None:
            if not connection.scalar(_EXISTS, {"name": stated}):
                raise BudgetError(
                    f'there is no schema "{stated}" in {self.address.where}: have it made by CREATE SCHEMA, or name '
                    "another by ?schema=... in the address."
                )
            return stated
        if len(holding) > 1 or (holding and holding[0] not in path):
            there = ", ".join(holding)
            fits = "its address fits several" if len(holding) > 1 else "the address does not lead to it"
            raise BudgetError(
                f"the schema of the ledger must be named: in {self.address.where} there are tables of ledgers in "
                f"{there}, and {fits}. Add ?schema={holding[0]}, for example, to the address; a budget that is split "
                "over schemas by mistake is spent once in each."
            )
        return holding[0] if holding else path[0] if path else None

    def _make_place(self, connection: sa.Connection) -> None:  # noqa: ARG002 - as the other
        if self._schema is None:
            raise BudgetError(
                f"the role has no schema in {self.address.where} to make a ledger in: name one by ?schema=... in the "
                "address."
            )

    def _use(self, connection: sa.Connection, schema: str) -> None:
        self._schema = schema
        self.where = in_schema(self.address.where, schema) if self.address.schema is None else self.address.where
        connection.execution_options(schema_translate_map={None: schema})
