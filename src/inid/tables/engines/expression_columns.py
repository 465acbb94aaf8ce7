"""A view of a table as columns of one query: expressions step by step, so that nothing is computed, or written, twice.

Each part of an expression is a column of its own. (Written out inside the next part it would stand there several times,
and the text of a query would double with every step.) Numbers are doubles with null, or pandas' NaN, for what is
missing; truths are never missing. The same steps run on every engine: `typed_columns` has made the columns alike.
"""

import datetime as dt
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from inid.tables import expressions as node
from inid.tables.engines.guarded import optional
from inid.tables.engines.roles import Role
from inid.tables.expressions import ROLES, Leaf
from inid.tables.person_features import PersonFeatures
from inid.tables.view import column_kind

if TYPE_CHECKING:
    from inid.tables.engines.base import Engine
    from inid.tables.engines.sql.frames import FrameColumns

_LEAST = 1 / node.MOST  # a smaller divisor counts as 0
_WHOLE = 2.0**52  # every double beyond is a whole number
_EPOCH = dt.date(1970, 1, 1)


def seen_columns(engine: "Engine", selection: Mapping[str, tuple[str, Role]]) -> Any:
    """The columns that a query wants, of the rows that count; the arguments are those of `Engine.columns`."""
    nw, steps = optional("narwhals"), Steps(engine, selection)
    frame = engine.own_columns(steps.read)
    for level in steps.levels:
        frame = frame.with_columns(*(made.alias(name) for name, made in level.items()))
    if steps.kept is not None:
        frame = frame.filter(nw.col(steps.kept))
    computed = {new: role for new, (column, role) in selection.items() if column in engine.view.derived}
    made = {new: nw.col(name) for new, name in steps.outputs.items()}
    made |= {new: made[new].cast(nw.Float64) for new, role in computed.items() if role == "number"}
    frame = frame.select(*(value.alias(new) for new, value in made.items()))
    whole = [new for new, role in computed.items() if role == "int"]
    return engine.whole_numbers(frame, whole) if whole else frame


def columns_read(engine: "Engine", selection: Mapping[str, tuple[str, Role]]) -> list[tuple[str, Role]]:
    """The columns of the table itself that a query of these reads, and as what."""
    read = list(Steps(engine, selection).read.values())
    people = engine.view.people
    return read if people is None else columns_read(engine.seen(people.row_view), row_columns(people, read))


def row_columns(people: PersonFeatures, read: Iterable[tuple[str, Role]]) -> dict[str, tuple[str, Role]]:
    """The columns of rows that these columns of people are made of: the person first."""
    own = [pair for column, role in read if (pair := row_column(people, column, role)) is not None]
    listed: dict[str, tuple[str, Role]] = {"person": (people.person, "person")}
    return listed | {f"row_{at}": pair for at, pair in enumerate(dict.fromkeys(own))}


def row_column(people: PersonFeatures, column: str, role: Role) -> tuple[str, Role] | None:
    """The column of rows that a column of people is made of; None where the person, or a row, is enough."""
    if column == people.person:
        return (column, role) if role in ("str", "int") else None  # an id as a key
    part = people.parts[column]
    return None if part.how == "rows" else (part.column, part.role)


def people_columns(engine: "Engine", people: PersonFeatures, selection: Mapping[str, tuple[str, Role]]) -> Any:
    """A line per person with the columns that are made of their rows; rows of nobody are left out."""
    nw = optional("narwhals")
    rows = row_columns(people, selection.values())
    names = {pair: name for name, pair in rows.items()}
    source = engine.seen(people.row_view)
    frame = source.counted_rows(rows)
    frame = frame.filter(~nw.col("person").is_null())
    if texts := [name for name, (_, role) in rows.items() if role == "str"]:
        frame = source.with_least(frame, texts)
    held = {name: source.present(name, column) for name, (column, role) in rows.items() if role == "number"}
    held |= {f"has_{name}": (~value.is_null()).cast(nw.Int64) for name, value in held.items()}
    if held:
        frame = frame.with_columns(*(value.alias(name) for name, value in held.items()))
    made, found = [nw.col("one").sum().alias("rows")], []
    for new, (column, role) in selection.items():
        pair = row_column(people, column, role)
        how = "same" if column == people.person else people.parts[column].how
        value = nw.col(f"made_{new}")
        if pair is None:
            value = nw.col("rows" if how == "rows" else "person")
        elif how == "same":
            made += [nw.col(names[pair]).min().alias(f"made_{new}"), nw.col(names[pair]).max().alias(f"last_{new}")]
            value = nw.when(value == nw.col(f"last_{new}")).then(value)
        else:
            own = nw.col(f"has_{names[pair]}" if how == "present" else names[pair])
            added = own.min() if how == "min" else own.max() if how == "max" else own.sum()
            made.append(added.alias(f"made_{new}"))
        found.append((value.cast(nw.Float64) if role == "number" else value).alias(new))
    return frame.group_by("person").agg(*made).select(*found)


class Steps:
    """The columns that expressions take, level by level: each level uses those before it only."""

    def __init__(self, engine: "Engine | FrameColumns", selection: Mapping[str, tuple[str, Role]]) -> None:
        view = engine.view
        self.read: dict[str, tuple[str, Role]] = {
            new: pair for new, pair in selection.items() if pair[0] not in view.derived
        }
        self.levels: list[dict[str, Any]] = []
        self._engine, self._words = engine, engine.words
        self._names: dict[Leaf, str] = {}
        self._known: dict[tuple[str, str], tuple[str, int]] = {}
        self.outputs = {
            new: new if new in self.read else self.place(view.derived[column])[0]
            for new, (column, _) in selection.items()
        }
        self.kept = None if view.where is None else self.place(view.where)[0]

    def place(self, value: node.Expression) -> tuple[str, int]:
        """The name of an expression's column, and the level from which on it exists."""
        key = type(value).__name__, str(value)  # the column x as a number, and nothing else called x
        if key not in self._known:
            made, level = self._made(value)
            while len(self.levels) <= level:
                self.levels.append({})
            name = f"step_{len(self._known)}"
            self.levels[level][name] = made
            self._known[key] = name, level + 1
        return self._known[key]

    def _operands(self, *values: node.Expression) -> tuple[list[Any], int]:
        """Expressions as they are used by the next step, and the level of that step."""
        nw = self._words
        found, level = [], 0
        for value in values:
            if isinstance(value, node.Constant):
                found.append(nw.lit(value.value, dtype=nw.Float64))
            elif isinstance(value, node.Word):
                found.append(nw.lit(value.value))
            else:
                name, own = self.place(value)
                found.append(nw.col(name))
                level = max(level, own)
        return found, level

    def _leaf(self, column: str, role: Any) -> Any:
        """A column of the table, typed for a role; numbers have null for NaN."""
        leaf = (column, role)
        name = self._names.setdefault(leaf, f"leaf_{len(self._names)}")
        self.read[name] = leaf
        if role in ("number", "day", "year"):
            return self._engine.present(name, column)
        return self._words.col(name)

    def _made(self, value: node.Expression) -> tuple[Any, int]:
        nw = self._words
        if isinstance(value, (node.Column, node.Year)):
            return self._number(value)
        if isinstance(value, (node.Arithmetic, node.Rounded)):
            return self._computed(value)
        if isinstance(value, node.Branch):
            (condition, yes, no), level = self._operands(value.condition, value.yes, value.no)
            return nw.when(condition).then(yes).otherwise(no), level
        if isinstance(value, (node.Both, node.Either)):
            (one, two), level = self._operands(value.left, value.right)
            return one & two if isinstance(value, node.Both) else one | two, level
        if isinstance(value, node.Not):
            (one,), level = self._operands(value.condition)
            return ~one, level
        return self._condition(value)

    def _number(self, value: node.Column | node.Year) -> tuple[Any, int]:
        column = value.column.name if isinstance(value, node.Year) else value.name
        derived = self._engine.view.derived
        if column in derived:  # a truth is 0 or 1
            name, level = self.place(derived[column])
            truth = column_kind(derived[column]) == "truth"
            return self._as_number(name) if truth else self._words.col(name), level
        return self._held(self._leaf(column, "year" if isinstance(value, node.Year) else "number")), 0

    def _as_number(self, name: str) -> Any:
        """A truth, which is never missing, as 0 or 1."""
        one, zero = (self._words.lit(value, dtype=self._words.Float64) for value in (1.0, 0.0))
        return self._words.when(self._words.col(name)).then(one).otherwise(zero)

    def _computed(self, value: node.Arithmetic | node.Rounded) -> tuple[Any, int]:
        nw = self._words
        if isinstance(value, node.Rounded):
            (one,), level = self._operands(value.value)
            if value.function == "abs":
                return nw.when(one < 0).then(-one).otherwise(one), level
            # Some engines make a whole number of 64 bits of it, and stop where it does not fit.
            small = (one > -_WHOLE) & (one < _WHOLE)
            return nw.when(small).then(nw.when(small).then(one).floor().cast(nw.Float64)).otherwise(one), level
        (one, two), level = self._operands(value.left, value.right)
        if value.operator in ("min", "max"):
            first = one <= two if value.operator == "min" else one >= two
            second = one > two if value.operator == "min" else one < two
            return nw.when(first).then(one).otherwise(nw.when(second).then(two)), level
        # One step more: the result is needed several times to be held.
        key = ("raw", str(value))
        name = f"raw_{len(self._known)}"
        while len(self.levels) <= level:
            self.levels.append({})
        self.levels[level][name] = self._joined(value.operator, one, two)
        self._known[key] = name, level + 1
        return self._held(nw.col(name)), level + 1

    def _condition(self, value: node.Expression) -> tuple[Any, int]:
        nw = self._words
        if isinstance(value, node.Missing):
            made, level = self._read(value.column, ROLES[value.kind])
            return made.is_null(), level
        if isinstance(value, node.Member):
            key = value.keys[0]
            role = "str" if isinstance(key, str) else "bool" if isinstance(key, bool) else "int"
            made, level = self._read(value.column, role)
            computed = role == "int" and value.column.name in self._engine.view.derived
            keys = [float(key) for key in value.keys] if computed else list(value.keys)  # a computed number is a double
            return made.is_in(keys).fill_null(False), level
        if not isinstance(value, node.Comparison):
            raise TypeError("a condition of no known kind")
        if isinstance(value.right, node.Expression):
            (one, two), level = self._operands(value.left, value.right)
            return _compared(value.operator, one, two), level
        if not isinstance(value.left, node.Column):
            raise TypeError("a text, a truth or a date is compared with a column")
        if isinstance(value.right, dt.date):
            made, level = self._read(value.left, "day")
            days = nw.lit(float((value.right - _EPOCH).days), dtype=nw.Float64)
            return _compared(value.operator, made, days), level
        made, level = self._read(value.left, "bool" if isinstance(value.right, bool) else "str")
        same = made.is_in([value.right]).fill_null(False)
        return same if value.operator == "==" else ~same & ~made.is_null(), level

    def _read(self, column: node.Column, role: Any) -> tuple[Any, int]:
        """A column in a condition: of the table, or a computed one, which is of its own kind already."""
        nw, derived = self._words, self._engine.view.derived
        if column.name not in derived:
            return self._leaf(column.name, role), 0
        name, level = self.place(derived[column.name])
        return nw.col(name), level

    def _held(self, value: Any) -> Any:
        """A number of at most 2^500 in size; null stays null, which clipping would move to a bound on some engines."""
        nw = self._words
        most, least = nw.lit(node.MOST, dtype=nw.Float64), nw.lit(-node.MOST, dtype=nw.Float64)
        return nw.when(value > most).then(most).otherwise(nw.when(value < least).then(least).otherwise(value))

    def _joined(self, operator: str, one: Any, two: Any) -> Any:
        if operator == "+":
            return one + two
        if operator == "-":
            return one - two
        if operator == "*":
            return one * two
        nw = self._words
        return one / nw.when((two >= _LEAST) | (two <= -_LEAST)).then(two)  # null divides without an error


def _compared(operator: str, one: Any, two: Any) -> Any:
    """A comparison of numbers; false where one is missing."""
    made = {
        "<": lambda: one < two,
        "<=": lambda: one <= two,
        ">": lambda: one > two,
        ">=": lambda: one >= two,
        "==": lambda: one == two,
        "!=": lambda: (one < two) | (one > two),  # not `!=`, which holds for pandas' NaN
    }
    return made[operator]().fill_null(False)
