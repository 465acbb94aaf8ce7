"""The values of a view, row by row: which operations of Ibis are accepted, and what they become.

Each operation here is a function of its arguments alone, immutable, and total. Everything else is refused by name.
"""

import datetime as dt
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from inid.arguments import shown
from inid.errors import ArgumentError
from inid.tables.engines.guarded import optional
from inid.tables.engines.sql import guards
from inid.tables.engines.sql.dialects import Kind, SqlDialect
from inid.tables.facts import is_plain

_COMPARED = {"Equals": "=", "NotEquals": "<>", "Less": "<", "LessEqual": "<=", "Greater": ">", "GreaterEqual": ">="}
_ARITHMETIC = ("Add", "Subtract", "Multiply", "Divide")
_PARTS = {"ExtractYear": "year", "ExtractMonth": "month", "ExtractDay": "day"}
_TEXTS = {"Lowercase": "lower({0})", "Uppercase": "upper({0})", "Strip": "trim({0})"}
_TEXTS |= {"LStrip": "ltrim({0})", "RStrip": "rtrim({0})"}
_LONGEST = 100_000  # letters of one expression: guards repeat their arguments


class SqlColumn(NamedTuple):
    """A value of every row: its SQL and kind."""

    sql: str
    kind: Kind


def operation(op: Any) -> str:
    """The name of an operation of Ibis's own; "" of anything else."""
    kind = type(op)
    return kind.__name__ if kind.__module__.startswith("ibis.expr.operations.") else ""


class Values:
    """What values of a relation become."""

    def __init__(self, dialect: SqlDialect, fields: Mapping[Any, Mapping[str, SqlColumn]]) -> None:
        self._dialect, self._fields = dialect, fields

    def value(self, op: Any) -> SqlColumn:
        """One value."""
        typed = self._value(op)
        if len(typed.sql) > _LONGEST:
            raise ArgumentError("an expression of the view is too long once it is guarded: use fewer steps.")
        return typed

    def truth(self, op: Any) -> str:
        """A condition."""
        typed = self.value(op)
        if typed.kind != "truth":
            raise _refused(op, "a condition is needed here")
        return typed.sql

    def _value(self, op: Any) -> SqlColumn:
        name = operation(op)
        if name == "Field":
            return self._field(op)
        if name == "Alias":
            return self.value(op.arg)
        if name == "Literal":
            return self._literal(op)
        handlers: dict[str, Callable[[Any], SqlColumn]] = {
            **dict.fromkeys(_COMPARED, self._compared),
            **dict.fromkeys(("And", "Or", "Not"), self._logic),
            **dict.fromkeys(("IsNull", "NotNull", "IsNan"), self._asked),
            **dict.fromkeys(("IfElse", "SearchedCase", "SimpleCase", "Coalesce", "NullIf"), self._chosen),
            **dict.fromkeys(("Between", "InValues", "Clip", "Greatest", "Least", "Bucket"), self._ranged),
            **dict.fromkeys((*_ARITHMETIC, "Modulus"), self._joined),
            **dict.fromkeys(guards.FUNCTIONS, self._function),
            **dict.fromkeys((*_TEXTS, "StringLength", "StringConcat", "Substring"), self._text),
            **dict.fromkeys((*_PARTS, "Cast", "Date"), self._converted),
        }
        if name not in handlers:
            raise _refused(op, "compute it before, in a column of the table, or leave it out")
        return handlers[name](op)

    def _field(self, op: Any) -> SqlColumn:
        columns = self._fields.get(op.rel)
        if columns is None or op.name not in columns:
            raise ArgumentError(f"the view reads the column {shown(op.name)} of a table that is not there.")
        field = columns[op.name]
        if field.kind == "other":
            raise ArgumentError(f"the column {shown(op.name)} has a type that is not read here: cast it in the table.")
        return field

    def _literal(self, op: Any) -> SqlColumn:
        value, dialect = op.value, self._dialect
        if value is None:
            return self._nothing(op.dtype)
        if isinstance(value, bool):
            return SqlColumn(dialect.truth(value), "truth")
        if isinstance(value, int) and -(2**63) <= value < 2**63:
            return SqlColumn(dialect.whole(value), "whole")
        if isinstance(value, float):
            return SqlColumn(dialect.number(value), "double")
        if isinstance(value, str) and is_plain(value):
            return SqlColumn(dialect.word(value), "text")
        if isinstance(value, dt.date) and not isinstance(value, dt.datetime):
            return SqlColumn(f"DATE '{value.isoformat()}'", "date")
        raise ArgumentError(
            f"the view holds a {type(value).__name__} that is not read here: use numbers, texts, dates."
        )

    def _nothing(self, dtype: Any) -> SqlColumn:
        """A missing value: of its type, or of any."""
        if dtype.is_null():
            return SqlColumn("NULL", "other")
        tests: dict[Kind, bool] = {"whole": dtype.is_integer(), "double": dtype.is_floating()}
        tests |= {"truth": dtype.is_boolean(), "text": dtype.is_string(), "date": dtype.is_date()}
        kinds = [kind for kind, is_it in tests.items() if is_it]
        if not kinds:
            raise ArgumentError(
                f"the view holds a missing {dtype}, which is not read here: use ibis.null('float64'), or one of the "
                "types boolean, int64, string and date."
            )
        return SqlColumn(self._dialect.nothing(kinds[0]), kinds[0])

    def _kind(self, op: Any, dtype: Any) -> Kind:
        """The kind of a type of Ibis's."""
        tests: dict[Kind, bool] = {"truth": dtype.is_boolean(), "whole": dtype.is_int64(), "double": dtype.is_float64()}
        tests |= {"text": dtype.is_string(), "date": dtype.is_date()}
        kinds = [kind for kind, is_it in tests.items() if is_it]
        if not kinds:
            raise _refused(op, "cast to boolean, int64, float64, string or date")
        return kinds[0]

    def _alike(self, op: Any, *columns: SqlColumn) -> list[SqlColumn]:
        """Values of one kind: whole numbers beside doubles are doubles, and nothing is of any kind."""
        kinds = {column.kind for column in columns if column.sql != "NULL"}
        if kinds <= {"whole", "double", "decimal"} and (len(kinds) > 1 or kinds == {"decimal"}):
            return [column if column.sql == "NULL" else self._double(column) for column in columns]
        if len(kinds) > 1:
            raise _refused(op, "cast its arguments to one type")
        kind = next(iter(kinds), columns[0].kind)
        return [SqlColumn(column.sql, kind) for column in columns]

    def _double(self, column: SqlColumn) -> SqlColumn:
        return SqlColumn(f"({self._dialect.as_double(column.sql, column.kind)})", "double")

    def _number(self, op: Any) -> SqlColumn:
        number = self.value(op)
        if number.kind not in ("whole", "double", "decimal"):
            raise _refused(op, "a number is needed here")
        return self._double(number) if number.kind == "decimal" else number

    def _compared(self, op: Any) -> SqlColumn:
        one, two = self._alike(op, self.value(op.left), self.value(op.right))
        return SqlColumn(f"({one.sql} {_COMPARED[operation(op)]} {two.sql})", "truth")

    def _logic(self, op: Any) -> SqlColumn:
        if operation(op) == "Not":
            return SqlColumn(f"(NOT {self.truth(op.arg)})", "truth")
        return SqlColumn(f"({self.truth(op.left)} {operation(op).upper()} {self.truth(op.right)})", "truth")

    def _asked(self, op: Any) -> SqlColumn:
        operand, name = self.value(op.arg), operation(op)
        if name == "IsNan":
            if operand.kind != "double":
                raise _refused(op, "only doubles can be NaN")
            here = self._dialect.is_number(operand.sql)
            return SqlColumn(f"(CASE WHEN {operand.sql} IS NOT NULL THEN NOT ({here}) END)", "truth")
        return SqlColumn(f"({operand.sql} IS {'NOT ' if name == 'NotNull' else ''}NULL)", "truth")

    def _chosen(self, op: Any) -> SqlColumn:
        name = operation(op)
        if name == "Coalesce":
            choices = self._alike(op, *map(self.value, op.arg))
            return SqlColumn(f"coalesce({', '.join(column.sql for column in choices)})", choices[0].kind)
        if name == "NullIf":
            one, two = self._alike(op, self.value(op.arg), self.value(op.null_if_expr))
            return SqlColumn(f"(CASE WHEN {one.sql} = {two.sql} THEN NULL ELSE {one.sql} END)", one.kind)
        if name == "IfElse":
            conditions, results, rest = [self.truth(op.bool_expr)], [op.true_expr], op.false_null_expr
        else:
            cases = list(op.cases)
            if name == "SimpleCase":
                pairs = [self._alike(op, self.value(op.base), self.value(case)) for case in cases]
                conditions = [f"{one.sql} = {two.sql}" for one, two in pairs]
            else:
                conditions = [self.truth(case) for case in cases]
            results, rest = list(op.results), op.default
        choices = self._alike(op, *(self.value(result) for result in (*results, rest)))
        whens = " ".join(f"WHEN {test} THEN {choice.sql}" for test, choice in zip(conditions, choices, strict=False))
        return SqlColumn(f"(CASE {whens} ELSE {choices[-1].sql} END)", choices[0].kind)

    def _ranged(self, op: Any) -> SqlColumn:
        name = operation(op)
        if name == "Bucket":
            return self.value(op.replace(optional("ibis.backends.sql.rewrites", "sql").lower_bucket))
        if name == "Between":
            value, low, high = self._alike(op, *map(self.value, (op.arg, op.lower_bound, op.upper_bound)))
            return SqlColumn(f"({value.sql} >= {low.sql} AND {value.sql} <= {high.sql})", "truth")
        if name == "InValues":
            value, *options = self._alike(op, self.value(op.value), *map(self.value, op.options))
            inside = " OR ".join(f"{value.sql} = {option.sql}" for option in options) or "FALSE"
            if len(options) > 1:
                inside = f"{value.sql} IN ({', '.join(option.sql for option in options)})"
            return SqlColumn(f"({inside})", "truth")
        if name == "Clip":
            ends = [end for end in (op.lower, op.upper) if end is not None]
            value, *limits = self._alike(op, self._number(op.arg), *map(self._number, ends))
            tests = [
                f"WHEN {value.sql} {'<' if end is op.lower else '>'} {limit.sql} THEN {limit.sql}"
                for end, limit in zip(ends, limits, strict=True)
            ]
            return SqlColumn(f"(CASE {' '.join(tests)} ELSE {value.sql} END)", value.kind) if tests else value
        operands = self._alike(op, *map(self.value, op.arg))
        return SqlColumn(self._dialect.extreme(name.lower(), [column.sql for column in operands]), operands[0].kind)

    def _joined(self, op: Any) -> SqlColumn:
        name, one, two = operation(op), self._number(op.left), self._number(op.right)
        if one.kind == two.kind == "whole" and name != "Divide":
            return SqlColumn(guards.wholes(self._dialect, name, one.sql, two.sql), "whole")
        if name == "Modulus":
            raise _refused(op, "only whole numbers have remainders here")
        return SqlColumn(guards.doubles(self._dialect, name, self._double(one).sql, self._double(two).sql), "double")

    def _function(self, op: Any) -> SqlColumn:
        name, value = operation(op), self._number(op.arg)
        if value.kind == "whole" and name in ("Floor", "Ceil"):
            return value
        if value.kind == "whole" and name in ("Negate", "Abs"):
            return SqlColumn(guards.wholes(self._dialect, name, value.sql), "whole")
        number = self._double(value).sql
        condition, result = (part.format(number) for part in guards.FUNCTIONS[name])
        return SqlColumn(f"(CASE WHEN {condition} THEN {result} END)", "double")

    def _text(self, op: Any) -> SqlColumn:
        name, dialect = operation(op), self._dialect
        texts = [self.value(one) for one in (op.arg if name == "StringConcat" else [op.arg])]
        if any(text.kind != "text" for text in texts):
            raise _refused(op, "a text is needed here")
        if name == "StringConcat":
            return SqlColumn(guards.long_text(dialect, [text.sql for text in texts]), "text")
        letters = dialect.letters(texts[0].sql)
        if name == "StringLength":
            return SqlColumn(f"CAST(char_length({letters}) AS {dialect.bigint})", "whole")
        if name == "Substring":
            start, length = (
                getattr(end, "value", None) if operation(end) == "Literal" else None for end in (op.start, op.length)
            )
            if not (isinstance(start, int) and isinstance(length, int) and 0 <= start < 2**20 and 0 <= length < 2**20):
                raise _refused(op, "its start and length must be public numbers")
            return SqlColumn(dialect.as_text(f"substr({letters}, {start + 1}, {length})"), "text")
        return SqlColumn(dialect.as_text(_TEXTS[name].format(letters)), "text")

    def _converted(self, op: Any) -> SqlColumn:
        name, operand = operation(op), self.value(op.arg)
        if name in _PARTS:
            if operand.kind not in ("date", "moment"):
                raise _refused(op, "a date, or a time without a zone, is needed here")
            return SqlColumn(guards.date_part(self._dialect, _PARTS[name], operand.sql, operand.kind), "whole")
        to: Kind = "date" if name == "Date" else self._kind(op, op.to)
        result = guards.cast(self._dialect, operand.sql, operand.kind, to)
        if result is None:
            raise _refused(op, f"a {operand.kind} cannot be cast to a {to} here")
        return SqlColumn(result, to)


def _refused(op: Any, cure: str) -> ArgumentError:
    name = operation(op) or type(op).__name__
    return ArgumentError(f"the view uses {name}, of which it is not known that no row's value stops it: {cure}.")
