"""The exact count of every key that is there, inside the engine. Not private."""

from dataclasses import dataclass
from typing import Any

from inid.tables.engines import Engine, optional
from inid.tables.facts import Key, Person, is_plain
from inid.tables.questions.discovery.request import KINDS
from inid.tables.questions.discovery.thresholds import Contribution
from inid.tables.questions.statistics.layout import Layout
from inid.tables.questions.statistics.sums import QueryNames, first_rows

__all__ = ["KeyCounts"]


@dataclass(frozen=True)
class KeyCounts:
    """How many rows, or people, each key has. Rows without a key are left out.

    What counts of a person depends on that person's rows alone: the first rows, by `order_by` and by their keys, and of
    these the keys with the most rows, of equal ones the first in order.

    Attributes:
        column: The column of the keys.
        kind: What they are: "str", "int" or "bool".
        person: What one person can add.
        unit: Whose rows are limited, or None.
    """

    column: str
    kind: str
    person: Contribution
    unit: Person | None

    def check(self, source: Engine) -> None:
        """Let the engine refuse what types alone can refuse, without a look at the rows."""
        source.check(self._build)

    def run(self, source: Engine) -> dict[Key, int]:
        """The count of each key. A text that engines read differently (with a NUL, say) is no key."""
        found: dict[Key, int] = {}
        kinds: dict[str, type] = {"str": str, "int": int, "bool": bool}
        for value, number in source.run(self._build):
            key = kinds[self.kind](value)
            if not (isinstance(key, str) and not is_plain(key)):
                found[key] = found.get(key, 0) + int(number)
        return found

    def _build(self, source: Engine) -> Any:
        nw = optional("narwhals")
        names = QueryNames(Layout((), (), {}, {}), {self.column: [KINDS[self.kind]]}, self.unit, source)
        key = names.keys[self.column]
        frame = source.columns(names.wanted).with_columns(one=nw.lit(1, dtype=nw.Int64))
        frame = source.told_apart(frame.filter(~nw.col(key).is_null()), key)
        if self.unit is not None:
            frame = self._limited(frame, names, key)
        counted = frame.group_by(key).agg(nw.col("one").sum())
        return counted.select(key, nw.col("one").cast(nw.Int64))

    def _limited(self, frame: Any, names: QueryNames, key: str) -> Any:
        """A line per person and key, with what it adds to the key's count."""
        nw, (person,) = optional("narwhals"), names.person
        prepared = names.without_nan()
        frame = frame.with_columns(*(part.alias(name) for name, part in prepared.items())) if prepared else frame
        frame = first_rows(frame, self.person.rows, names, [*names.order, key])
        lines = frame.group_by(person, key).agg(nw.col("one").sum())
        lines = lines.with_columns(nw.col("one").cast(nw.Int64))  # DuckDB sums into 128 bits
        lines = lines.with_columns(fewer=0 - nw.col("one"), line=nw.lit(1, dtype=nw.Int64))
        if self.person.keys < self.person.rows:
            place = nw.col("line").cum_sum().over(person, order_by=["fewer", key])
            lines = lines.with_columns(place=place).filter(nw.col("place") <= self.person.keys)
        return lines.select(key, one=nw.col("line" if self.person.people else "one"))
