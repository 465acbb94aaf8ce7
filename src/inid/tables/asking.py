"""What `Table.query` is asked for decides which kind of query it makes."""

from collections.abc import Mapping
from typing import Any

from inid.errors import ArgumentError
from inid.tables.discovery.query import DiscoveryQuery, read_discovery
from inid.tables.discovery.request import Discovered
from inid.tables.marginals.query import MarginalsQuery, read_marginals
from inid.tables.ordered.query import OrderedQuery, read_ordered
from inid.tables.query import Query, read_query
from inid.tables.table import Table

__all__ = ["read_asked"]

_OTHERS = ("variance", "std", "covariance")


def read_asked(
    table: Table, asked: Mapping[str, Any], ordered: Mapping[str, Any], by: Any
) -> Query | MarginalsQuery | OrderedQuery | DiscoveryQuery:
    """Check what is asked against the table's facts.

    Args:
        table: The table.
        asked: The arguments of `Table.query` but those of ordered columns.
        ordered: "cdf", "quantile" and "cumulative".
        by: The keys of each column that groups.

    Raises:
        ArgumentError: Something is malformed, or several kinds of queries are asked for at once.
    """
    count, distinct, histogram, marginals = (
        asked[name] for name in ("count", "count_distinct", "histogram", "marginals")
    )
    numbers, others = ({name: asked[name] for name in names} for names in (("sum", "mean"), _OTHERS))
    if isinstance(by, Mapping) and any(isinstance(keys, Discovered) for keys in by.values()):
        more = any((*numbers.values(), *others.values(), histogram, marginals, *ordered.values()))
        return read_discovery(table, by, count=count, count_distinct=distinct, others=more)
    if any(ordered.values()):
        if any((*numbers.values(), *others.values(), histogram, count, distinct, marginals)):
            raise ArgumentError(
                "distribution functions, quantiles and running totals are a query of their own: ask for other "
                "statistics in another one."
            )
        return read_ordered(table, ordered["cdf"], ordered["quantile"], ordered["cumulative"], by)
    tabled = [name for name, columns in numbers.items() if isinstance(columns, Mapping)]
    if marginals is not None or isinstance(count, (list, tuple)) or tabled:
        plain = [name for name, columns in numbers.items() if name not in tabled and columns]
        if plain or any(map(len, others.values())) or histogram or by or distinct:
            raise ArgumentError(
                "statistics by several groupings are a query of their own, of count, mean and sum: ask for other "
                "statistics in another one, and give mean and sum by column, mean={'income': [('sex',)]}."
            )
        counts: list[tuple[str, object]] = [] if marginals is None else [("marginals", marginals)]
        if count is not False:
            counts.append(("count", [()] if count is True else count))
        return read_marginals(table, counts, *(numbers[name] if name in tabled else {} for name in ("mean", "sum")))
    columns = {name: listed or () for name, listed in (numbers | others).items()}
    return read_query(table, count, columns, histogram or {}, by, count_distinct=distinct)
