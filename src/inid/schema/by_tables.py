"""The types of tables: groupings by column, `income by sex`, and lists of tables, `sex,age;race`."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from inid.schema.by_column import ByColumn, Keys, malformed
from inid.schema.values import Names, ValueType, is_list, split, wrong_value

__all__ = ["Groupings", "KeysOrGroupings", "NamesOrGroupings", "Tables"]

_WHOLE_TABLE = "*"  # the table of no columns
_BY = re.compile(r"\s+by\s+")


class Groupings(ByColumn):
    """By column the groupings in which it is asked: "age by sex,race"; a column alone has the groups of --by.

    >>> Groupings().from_text("--cdf", "age; size"), Groupings().from_text("--cdf", "age; age by sex,race; size by")
    ({'age': [], 'size': []}, {'age': [[], ['sex', 'race']], 'size': [[]]})
    """

    field = "groupings"
    words = 'table of lists of groupings by column, `age = [[], ["sex"]]`; `[]` is the grouping of `by`'
    cure = 'give each column a list of groupings, for example age = [[], ["sex"]]'

    def read(self, name: str, value: Any) -> Any:
        if isinstance(value, Mapping) and not all(map(is_list, value.values())):
            raise wrong_value(name, value, self.cure)
        return super().read(name, value)

    def entry(self, name: str, value: Any) -> tuple[tuple[str, ...], ...]:
        return tuple(Names().read(name, one) for one in value)

    def separator(self, texts: Sequence[str]) -> str:
        return ";"

    def from_text(self, name: str, text: str) -> Any:
        entries = [(entry, *_BY.split(f"{entry} ", maxsplit=1)) for entry in map(str.strip, text.split(";")) if entry]
        found: dict[str, list[list[str]]] = {}
        for entry, before, *groups in entries:
            column = before.strip()
            if not column:
                raise malformed(name, entry, "write column, or column by group,group, for example age by sex")
            alone = not groups and sum(other[1].strip() == column for other in entries) == 1
            found.setdefault(column, []).extend([] if alone else [split(groups[0]) if groups else []])
        return found

    def _text(self, value: Any) -> str:
        listed = [(name, groups) for name, several in value.items() for groups in several or [None]]
        return ";".join(name if groups is None else f"{name} by {','.join(groups)}".strip() for name, groups in listed)

    def _is_empty(self, entry: Any) -> bool:
        return bool(entry == "")  # an empty list is the grouping of "by"


@dataclass(frozen=True)
class NamesOrGroupings(Names):
    """A list of columns; or for each column the tables by which it is asked, as `Groupings` are.

    >>> kind = NamesOrGroupings("ticks")
    >>> kind.read("mean", ["age"]), kind.read("mean", {"income": [["sex"], ["region", "sex"]]})
    (('age',), {'income': (('sex',), ('region', 'sex'))})
    >>> kind.from_text("--mean", "age,income"), kind.from_text("--mean", "income by sex;income by sex,age")
    (['age', 'income'], {'income': [['sex'], ['sex', 'age']]})
    """

    words: str = 'list of columns; or a table of lists of tables by column, `income = [["sex"], ["region", "sex"]]`'

    def read(self, name: str, value: Any) -> Any:
        if not isinstance(value, Mapping):
            return super().read(name, value)
        found = Groupings().read(name, value)
        for column, tables in found.items():
            if not tables:
                cure = 'pass its tables, for example [["sex"], ["region", "sex"]]'
                raise wrong_value(f"{name} of {column}", [], cure)
        return found or ()  # nothing is asked, in either form

    def separator(self, texts: Sequence[str]) -> str:
        return ";" if any(map(_by_tables, texts)) else ","

    def from_text(self, name: str, text: str) -> Any:
        return Groupings().from_text(name, text) if _by_tables(text) else split(text)

    def _text(self, value: Any) -> str:
        return Groupings()._text(value) if isinstance(value, Mapping) else super()._text(value)  # noqa: SLF001

    def from_field(self, name: str, held: Any) -> Any:
        return Groupings().from_field(name, held) if isinstance(held, Mapping) else super().from_field(name, held)


@dataclass(frozen=True)
class KeysOrGroupings(Keys):
    """Public keys by column; or several groupings by columns that have a public domain, * for the whole table.

    >>> kind = KeysOrGroupings()
    >>> kind.read("by", {"sex": ["F", "M"]}), kind.read("by", [["sex"], ["sex", "region"]])
    ({'sex': ('F', 'M')}, (('sex',), ('sex', 'region')))
    >>> kind.from_text("--by", "sex=F,M"), kind.from_text("--by", "sex;region,sex;*")
    ({'sex': ['F', 'M']}, [['sex'], ['region', 'sex'], []])
    """

    words: str = (
        "table of lists of public keys by column; or a list of groupings, each a list of columns with `domains`"
    )

    def read(self, name: str, value: Any) -> Any:
        if value is None or isinstance(value, Mapping):
            return super().read(name, value)
        if not is_list(value) or any(isinstance(entry, str) for entry in value):
            cure = 'give each column its keys, sex=F,M, or groupings, for example [["sex"], ["sex", "age"]]'
            raise wrong_value(name, value, cure)
        return tuple(Names().read(name, entry) for entry in value) or {}

    def separator(self, texts: Sequence[str]) -> str:
        return "," if any("=" in text for text in texts) else ";"

    def from_text(self, name: str, text: str) -> Any:
        if "=" in text:
            return super().from_text(name, text)
        return [[] if table.strip() == _WHOLE_TABLE else split(table) for table in text.split(";")]

    def _text(self, value: Any) -> str:
        if is_list(value):
            return ";".join(",".join(table) or _WHOLE_TABLE for table in value)
        return super()._text(value)


class Tables(ValueType):
    """Tables as lists of columns, with semicolons between them; or how many columns each has.

    >>> Tables().from_text("--marginals", "sex,age;race"), Tables().from_text("--marginals", "2")
    ([['sex', 'age'], ['race']], 2)
    >>> Tables().read("marginals", [["sex", "age"], ["race"]]), Tables().read("marginals", 2)
    ((('sex', 'age'), ('race',)), 2)
    """

    repeats = True
    field = "tables"
    words = "list of tables, each a list of columns; or a number for all tables over so many columns"

    def read(self, name: str, value: Any) -> Any:
        if value is None or (isinstance(value, int) and not isinstance(value, bool) and value > 0):
            return value
        if not is_list(value) or not value:
            cure = 'pass tables, for example [["sex", "age"], ["race"]], or how many columns each has'
            raise wrong_value(name, value, cure)
        return tuple(Names().read(name, table) for table in value)

    def separator(self, texts: Sequence[str]) -> str:
        return ";"

    def from_text(self, name: str, text: str) -> Any:
        return int(text) if text.isdecimal() else [split(table) for table in text.split(";")]

    def _text(self, value: Any) -> str:
        return ";".join(",".join(table) for table in value) if is_list(value) else str(value)

    def from_field(self, name: str, held: Any) -> Any:
        text = super().from_field(name, held)
        return int(text) if isinstance(text, str) and text.isdecimal() else text


def _by_tables(text: str) -> bool:
    return _BY.search(f"{text} ") is not None
