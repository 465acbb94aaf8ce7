"""What is stated of each query of a publication: the queries themselves, tolerances, importance, shares."""

from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any

from inid.accounting.parts import read_part
from inid.arguments import real, shown
from inid.errors import ArgumentError
from inid.numbers.decimals import decimal_fraction, decimal_up
from inid.tables.releasable import Query
from inid.tables.table import Table

__all__ = ["Share", "of_query", "queries_of", "read_importance", "read_shares", "taken_by"]

Share = str | Fraction | Decimal | float


def of_query(stated: Mapping[str, Any] | None, name: str, queries: Mapping[str, object], what: str) -> Any:
    """What is stated for one query; None where nothing is.

    Raises:
        ArgumentError: It is no dictionary by query.
    """
    if stated is None:
        return None
    if not isinstance(stated, Mapping):
        raise ArgumentError(f"{what} must be a dictionary by query, got {shown(stated)}: {what}={{{name!r}: ...}}.")
    for key in stated:
        if key not in queries:
            raise ArgumentError(f"{what} names {shown(key)}, which is no query of the publication.")
    return stated.get(name)


def read_importance(stated: Mapping[str, float] | None, name: str, queries: Mapping[str, object]) -> float:
    """What the error of a query counts; 1 where nothing is stated.

    Raises:
        ArgumentError: It is no positive number.
    """
    value = of_query(stated, name, queries, "importance")
    return 1.0 if value is None else real(f"importance[{name!r}]", value, above=0, cure="pass a positive number")


def read_shares(stated: Mapping[str, Share] | None, queries: Mapping[str, object]) -> list[Fraction | None]:
    """The stated share of each query; None where there is none.

    Raises:
        ArgumentError: One is no share, or together they leave nothing.
    """
    found: list[Fraction | None] = []
    for name in queries:
        value = of_query(stated, name, queries, "share")
        found.append(None if value is None else read_part(value))
    taken = sum((share for share in found if share is not None), Fraction(0))
    if taken > 1 or (taken == 1 and None in found):
        raise ArgumentError(f"the stated shares add up to {taken}, which leaves nothing for the other queries.")
    return found


def queries_of(table: Table, asked: Mapping[str, Any]) -> dict[str, Query]:
    """Queries of a table, from dictionaries of what `Table.query` takes.

    Raises:
        ArgumentError: One is neither a dictionary nor a query of this table.
    """
    found: dict[str, Query] = {}
    for name, one in asked.items():
        if isinstance(one, Query) and one.table.origin is table.origin:
            found[name] = one
            continue
        if not isinstance(one, Mapping):
            raise ArgumentError(
                f"{name} must be a query of this table or a dictionary of what query takes, got {shown(one)}: "
                f"{name}={{'count': True}}."
            )
        for argument in one:
            if not isinstance(argument, str) or argument == "self":
                raise ArgumentError(f"{name} names {shown(argument)}, which `query` does not take.")
        found[name] = table.query(**one)
    return found


def taken_by(queries: Mapping[str, Query]) -> float:
    """The probabilities that found keys take beside their noise, together."""
    taken = sum((decimal_fraction(query.question.delta) for query in queries.values()), Fraction(0))
    return decimal_up(taken, "delta") if taken else 0.0
