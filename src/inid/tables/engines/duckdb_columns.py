"""The columns of a DuckDB relation as SQL, each typed for its role."""

from typing import Any

from inid.tables.engines.roles import Role, is_text

__all__ = ["parsed", "plain"]

_ISO = "[0-9]{4}-[0-9]{2}-[0-9]{2}([T ].*)?"


def plain(column: str, role: Role, kind: Any) -> str:
    """SQL that reads a typed column for its role. Texts are compared letter by letter, whatever their collation.

    Under a collation that takes "f" for "F" a group would be called by either, whichever row comes first.
    """
    name = _quoted(column)
    if role == "str" or (role in ("person", "order") and is_text(kind)):
        return f'CAST({name} AS VARCHAR) COLLATE "binary"'
    if kind.is_float() and role in ("person", "order"):
        return f"CASE WHEN isnan({name}) THEN NULL ELSE CAST({name} AS DOUBLE) END"
    if role == "int":  # a whole number beyond 64 bits equals no key
        return f"TRY_CAST({name} AS BIGINT)"
    if role in ("day", "year"):
        return _date(f"TRY_CAST({name} AS DATE)", role)
    return f"CAST({name} AS DOUBLE)" if role == "number" else name


def parsed(column: str, role: Role, *, is_whole_id: bool = False) -> str:
    """SQL that reads a column of text for its role; what does not parse is missing.

    Where it holds ids that are whole numbers, any other way to write a number than the usual one is nobody's: 1 and 01
    are two texts.

    The trim is more than tidiness: DuckDB turns a bare TRY_CAST of a CSV column into the type of the column itself, and
    then a value that does not parse stops the query.
    """
    name = _quoted(column)
    if is_whole_id:
        name = f"CASE WHEN regexp_full_match({name}, '0|-?[1-9][0-9]*') THEN {name} END"
    text = f"trim({name})"
    if role == "number":
        words = f"CASE lower({text}) WHEN 'true' THEN 1.0 WHEN 'false' THEN 0.0 END"
        return f"coalesce(TRY_CAST({text} AS DOUBLE), {words}::DOUBLE)"
    if role == "int":
        # The cast alone would round 1.7 to 2.
        return f"CASE WHEN regexp_full_match({text}, '[+-]?[0-9]+([.]0*)?') THEN TRY_CAST({text} AS BIGINT) END"
    if role in ("day", "year"):
        date = f"TRY_CAST(left({text}, 10) AS DATE)"
        return f"CASE WHEN regexp_full_match({text}, '{_ISO}') THEN {_date(date, role)} END"
    if role == "bool":
        return f"TRY_CAST({text} AS BOOLEAN)"
    if role == "order":  # NaN is missing, as in a column of numbers
        return f"CASE WHEN isnan(TRY_CAST({text} AS DOUBLE)) THEN NULL ELSE {name} END"
    return name


def _date(date: str, role: Role) -> str:
    """A date of the years 1 to 9999 as a number; any other, and an infinite one, is missing."""
    number = f"({date} - DATE '1970-01-01')" if role == "day" else f"year({date})"
    return f"CASE WHEN {date} BETWEEN DATE '0001-01-01' AND DATE '9999-12-31' THEN CAST({number} AS DOUBLE) END"


def _quoted(column: str) -> str:
    return '"' + column.replace('"', '""') + '"'
