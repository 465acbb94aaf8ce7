"""Arithmetic, functions and casts with a guard inside: where there is no result, or a database would stop, nothing.

The bounds leave room: a double between 1e-140 and 1e140 in size gives products and quotients that are doubles. What
lies beyond them is missing afterwards, on both databases alike.
"""

from inid.tables.engines.sql.dialects import Kind, SqlDialect

_LOW, _HIGH = -(2**63), 2**63 - 1
_DATE = "[0-9]{4}-[0-9]{2}-[0-9]{2}"
_LONGEST = 10**6  # bytes of a text that is made of others

# Of a double: the condition and the function.
FUNCTIONS = {
    "Sqrt": ("{0} >= 0", "sqrt({0})"),
    "Ln": ("{0} > 0", "ln({0})"),
    "Log10": ("{0} > 0", "log10({0})"),
    "Exp": ("{0} >= -700 AND {0} <= 700", "exp({0})"),
    "Floor": ("TRUE", "floor({0})"),
    "Ceil": ("TRUE", "ceil({0})"),
    "Negate": ("TRUE", "-{0}"),
    "Abs": ("TRUE", "abs({0})"),
}


def doubles(dialect: SqlDialect, operation: str, one: str, two: str) -> str:
    """A sum, difference, product or quotient of doubles."""
    most, least = dialect.number(1e140), dialect.number(1e-140)
    if operation in ("Add", "Subtract"):
        guard = f"abs({one}) < {most} AND abs({two}) < {most}"
    else:
        guard = " AND ".join(f"({x} = 0 OR (abs({x}) >= {least} AND abs({x}) <= {most}))" for x in (one, two))
    if operation == "Divide":
        guard += f" AND {two} <> 0"
    sign = {"Add": "+", "Subtract": "-", "Multiply": "*", "Divide": "/"}[operation]
    return f"(CASE WHEN {guard} THEN {one} {sign} {two} END)"


def wholes(dialect: SqlDialect, operation: str, one: str, two: str = "") -> str:
    """A sum, difference, product or remainder of whole numbers; one without its sign, or with the other one."""
    if operation == "Modulus":
        return f"(CASE WHEN {two} = -1 THEN {dialect.whole(0)} WHEN {two} <> 0 THEN {one} % {two} END)"
    if operation in ("Negate", "Abs"):
        result = f"-{one}" if operation == "Negate" else f"abs({one})"
        return f"(CASE WHEN {one} > {dialect.whole(_LOW)} THEN {result} END)"
    sign = {"Add": "+", "Subtract": "-", "Multiply": "*"}[operation]
    wide = f"CAST({one} AS {dialect.wide}) {sign} CAST({two} AS {dialect.wide})"
    inside = f"{wide} >= CAST('{_LOW}' AS {dialect.wide}) AND {wide} <= CAST('{_HIGH}' AS {dialect.wide})"
    return f"(CASE WHEN {inside} THEN {one} {sign} {two} END)"


def date_part(dialect: SqlDialect, part: str, value: str, kind: Kind) -> str:
    """The year, month or day of a date of the years 1 to 9999, as a whole number."""
    guard = dialect.day(value, kind)  # null outside
    return f"(CASE WHEN {guard} IS NOT NULL THEN CAST(extract({part} FROM {value}) AS {dialect.bigint}) END)"


def long_text(dialect: SqlDialect, parts: list[str]) -> str:
    """Texts one after the other, where that is not very long."""
    size = _balanced("+", [f"CAST(octet_length({part}) AS {dialect.bigint})" for part in parts])
    text = dialect.as_text(_balanced("||", [dialect.letters(part) for part in parts]))
    return f"(CASE WHEN {size} <= {_LONGEST} THEN {text} END)"


def _balanced(sign: str, parts: list[str]) -> str:
    """Parts joined by an associative sign, in pairs of pairs: a long chain is nested too deeply for some databases."""
    while len(parts) > 1:
        pairs = [f"({one} {sign} {two})" for one, two in zip(parts[::2], parts[1::2], strict=False)]
        parts = [*pairs, *parts[2 * len(pairs) :]]
    return parts[0]


def cast(dialect: SqlDialect, value: str, kind: Kind, to: Kind) -> str | None:
    """A value as another kind; None where that is not done."""
    if kind == to:
        return value
    if to == "double" and kind in ("truth", "whole", "decimal"):
        return f"({dialect.as_double(value, kind)})"
    if to == "whole" and kind == "truth":
        return f"(CASE WHEN {value} THEN {dialect.whole(1)} WHEN NOT {value} THEN {dialect.whole(0)} END)"
    if to == "whole" and kind == "double":
        low, high = dialect.number(-(2.0**63)), dialect.number(2.0**63)
        return f"(CASE WHEN {value} >= {low} AND {value} < {high} THEN CAST({value} AS {dialect.bigint}) END)"
    if to == "text" and kind == "whole":
        return dialect.as_text(f"CAST({value} AS {dialect.text})")
    if to == "date" and kind == "moment":
        return f"(CASE WHEN {dialect.day(value, kind)} IS NOT NULL THEN CAST({value} AS DATE) END)"
    return _parsed(dialect, value, to) if kind == "text" else None


def _parsed(dialect: SqlDialect, text: str, to: Kind) -> str | None:
    """A text that says a number or a date in the plainest way; any other is missing."""
    letters = dialect.letters(text)
    if to == "date":
        year, month, day = (f"CAST(substr({letters}, {at}, {n}) AS INTEGER)" for at, n in ((1, 4), (6, 2), (9, 2)))
        last = f"CASE {month} WHEN 2 THEN CASE WHEN ({year} % 4 = 0 AND {year} % 100 <> 0) OR {year} % 400 = 0 "
        last += "THEN 29 ELSE 28 END WHEN 4 THEN 30 WHEN 6 THEN 30 WHEN 9 THEN 30 WHEN 11 THEN 30 ELSE 31 END"
        valid = f"{year} >= 1 AND {month} BETWEEN 1 AND 12 AND {day} BETWEEN 1 AND ({last})"
        date, pattern = f"CASE WHEN {valid} THEN {dialect.date_of(letters, year, month, day)} END", _DATE
    elif to == "whole":
        date, pattern = f"CAST({letters} AS {dialect.bigint})", "[+-]?[0-9]{1,18}"
    elif to == "double":
        date, pattern = f"CAST({letters} AS {dialect.double})", "[+-]?[0-9]{1,15}([.][0-9]{1,15})?"
    else:
        return None
    short = f"CASE WHEN {dialect.matches(letters, pattern)} THEN {date} END"
    return f"(CASE WHEN octet_length({text}) <= 40 THEN {short} END)"
