"""Tables where the data live: PostgreSQL and DuckDB databases, asked through Ibis.

Ibis is how a table or a view is named; nothing of it runs a query. Its compiler writes plain casts and arithmetic,
which one row's value can stop, and its results pass through types that round. So a view is judged and written here,
operation by operation (`views`, `view_values`), an aggregation becomes statements here (`statements`), and a session of
our own runs them in one snapshot and reads whole numbers as text (`session`, `postgres`, `opening`).
"""

from inid.tables.engines.sql.addresses import require_no_password
from inid.tables.engines.sql.dialects import PostgresDialect, quoted
from inid.tables.engines.sql.engine import DatabaseTable
from inid.tables.engines.sql.statements import AggregationSql
