"""The types of values by column: limits, keys, edges, fill values, probabilities, tolerances, formulas, groupings.

A name that holds a comma or an equals sign cannot be written on a command line; a TOML file can hold it.
"""

import math
import re
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, ClassVar, TypeVar

from inid.arguments import shown
from inid.errors import ArgumentError
from inid.schema.values import (
    Names,
    ValueType,
    column_name,
    entries_of,
    is_list,
    joined,
    number_text,
    probability,
    read_float,
    split,
    wrong_value,
)

_T = TypeVar("_T")

_WHOLE = re.compile(r"-?(?:0|[1-9]\d*)")
_RANGE = re.compile(r"(-?\d{1,18}):(-?\d{1,18})")
_LONGEST_RANGE = 2**20
_DECIMAL = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")
_QUOTED = re.compile(r"""^(['"])(.*)\1$""", re.DOTALL)


class ByColumn(ValueType):
    """Something by column. A flag begins a column with an equals sign, and the entries after it continue it."""

    nothing: Any = {}  # noqa: RUF012 - never changed
    repeats: ClassVar[bool] = True
    cure: str

    def read(self, name: str, value: Any) -> Any:
        if value is None:
            return {}
        if not isinstance(value, Mapping):
            raise wrong_value(name, value, self.cure)
        return {column_name(name, key): self.entry(f"{name} of {key}", entry) for key, entry in value.items()}

    @abstractmethod
    def entry(self, name: str, value: Any) -> Any:
        """Check what one column has."""

    def from_field(self, name: str, field: Any) -> Any:
        if not isinstance(field, Mapping):
            return super().from_field(name, field)
        entries = {str(key): _stripped(entry) for key, entry in field.items()}
        return {key: self._parts(name, entry) for key, entry in entries.items() if not self._is_empty(entry)}

    def _is_empty(self, entry: Any) -> bool:
        return entry in ("", [], ["", ""])

    def _parts(self, name: str, entry: Any) -> Any:
        return entry


class _Lists(ByColumn):
    """Lists of keys, edges or probabilities by column."""

    field: str = "pairs"
    numeric: ClassVar[re.Pattern[str]] = _DECIMAL
    number: ClassVar[Callable[[str], Any]] = float

    def entry(self, name: str, value: Any) -> Any:
        listed = value if is_list(value) else [value]
        read = [float(e) if isinstance(e, Decimal) else e for e in listed if isinstance(e, (str, int, float, Decimal))]
        infinite = any(isinstance(e, float) and not math.isfinite(e) for e in read)
        if not read or len(read) < len(listed) or infinite:
            raise wrong_value(name, value, self.cure)
        return tuple(read)

    def from_text(self, name: str, text: str) -> Any:
        """`column=entry,entry,column=entry`, with numbers where all entries of a column look like it.

        >>> Cells().from_text("--histogram", "age=0,17.5,100,sex=F,M")
        {'age': [0.0, 17.5, 100.0], 'sex': ['F', 'M']}
        """
        lists: dict[str, list[str]] = {}
        column = ""
        for entry in split(text):
            before, equals, after = entry.partition("=")
            if equals:
                column = before
                _store(name, lists, column, [])
            if not column:
                raise malformed(name, text, self.syntax)
            lists[column].append(after if equals else entry)
        return {column: self._parts(name, entries) for column, entries in lists.items()}

    syntax: ClassVar[str] = "write column=key,key, for example sex=F,M"

    def _parts(self, name: str, entry: Any) -> Any:
        entries = entries_of(entry) if isinstance(entry, str) else entry
        if not all(isinstance(one, str) for one in entries) or not entries:
            return entries
        if all(self.numeric.fullmatch(one) for one in entries):
            return [type(self).number(one) for one in entries]
        return [_QUOTED.sub(r"\2", one) for one in entries]

    def _words(self, value: Any) -> list[str]:
        """The entries of one column as texts, in quotes where they would be read as something else."""
        entries = list(value) if is_list(value) else [value]
        words = [entry if isinstance(entry, str) else number_text(entry) for entry in entries]
        same = self._parts("", words) == entries
        return words if same else [f"'{w}'" if isinstance(e, str) else w for w, e in zip(words, entries, strict=True)]

    def _text(self, value: Any) -> str:
        return ",".join(f"{name}={','.join(self._words(entry))}" for name, entry in value.items())

    def to_field(self, value: Any) -> Any:
        if not isinstance(value, Mapping):
            return super().to_field(value)
        return {name: joined(self._words(entry)) for name, entry in value.items()}


@dataclass(frozen=True)
class Keys(_Lists):
    """Lists of public keys by column: whole numbers if all keys of the column look like it, else texts."""

    ranges: bool = False
    words: str = "table of lists of public keys by column"
    cure: str = "give each column a list of its keys, for example sex=F,M"
    numeric: ClassVar[re.Pattern[str]] = _WHOLE
    number: ClassVar[Callable[[str], Any]] = int

    def _parts(self, name: str, entry: Any) -> Any:
        entries = entries_of(entry) if isinstance(entry, str) else entry
        ends = _RANGE.fullmatch(str(entries[0])) if self.ranges and len(entries) == 1 else None
        if ends is None:
            return super()._parts(name, entries)
        low, high = int(ends[1]), int(ends[2])
        if not low < high < low + _LONGEST_RANGE:
            raise malformed(name, entries[0], "write lower:upper, the lower one first")
        return list(range(low, high + 1))


class Cells(_Lists):
    """Edges of bins (numbers) or categories (texts) by column."""

    words = "table of edges or categories by column"
    cure = "give each column edges or categories, for example age=0,20,40"
    syntax: ClassVar[str] = "write column=edge,edge or column=category,category, for example age=0,20,40"


class Bins(_Lists):
    """How many bins each column has, or their edges."""

    is_number = True
    words = "table of numbers of bins, or of lists of their edges, by column"
    cure = "give each column a number of bins or their edges, for example age=16,income=0,10000,50000"

    def entry(self, name: str, value: Any) -> tuple[float, ...]:
        read = tuple(read_float(name, one) for one in (value if is_list(value) else [value]))
        if len(read) == 2 or not read or (len(read) == 1 and not read[0].is_integer()):
            raise wrong_value(name, list(read), self.cure)
        return read


class SingleValues(_Lists):
    """Single numbers by column."""

    is_number = True
    words = "table of lists of numbers by column"
    cure = "give each column single numbers, for example hours=0,40"

    def entry(self, name: str, value: Any) -> tuple[float, ...]:
        read = tuple(read_float(name, one) for one in (value if is_list(value) else [value]))
        if not read:
            raise wrong_value(name, value, self.cure)
        return read


class Fills(_Lists):
    """One fill value by column, a number or a category."""

    field = "entries"
    words = "table of one value by column"
    cure = "give one value per column, for example age=40"

    def entry(self, name: str, value: Any) -> Any:
        entries = super().entry(name, value)
        if len(entries) != 1:
            raise wrong_value(name, list(entries), self.cure)
        return entries[0] if isinstance(entries[0], str) else float(entries[0])


class Types(Fills):
    """What each column holds: number, code or date."""

    field = "entries"
    words = 'table of `"number"`, `"code"` or `"date"` by column'
    cure = "say of each column whether it holds number, code or date, for example age=number,region=code"
    known: ClassVar[tuple[str, ...]] = ("number", "code", "date")

    def entry(self, name: str, value: Any) -> Any:
        word = super().entry(name, value)
        if word not in self.known:
            raise wrong_value(name, value, self.cure)
        return word


class Probabilities(_Lists):
    """Lists of probabilities by column."""

    field = "entries"
    words = "table of lists of probabilities by column"
    cure = "give each column probabilities, for example age=0.25,0.5,0.75"

    def entry(self, name: str, value: Any) -> Any:
        read = [probability("0.5").read(name, one) for one in (value if is_list(value) else [value])]
        if not read or None in read:
            raise wrong_value(name, value, self.cure)
        return tuple(map(float, read))

    def _parts(self, name: str, entry: Any) -> Any:
        return entries_of(entry) if isinstance(entry, str) else entry


_THOUSANDS = re.compile("[0-9]{3}")  # what a comma leaves of 100,000


class Intervals(ByColumn):
    """Lower and upper limits by column."""

    is_number = True
    field = "limits"
    words = "table of `[lower, upper]` by column"
    cure = "give each column a lower and an upper limit, for example age=0:100"

    def entry(self, name: str, value: Any) -> tuple[float, float]:
        if not (is_list(value) and len(value) == 2):
            raise wrong_value(name, value, self.cure)
        low, high = (read_float(name, end) for end in value)
        if not low < high:
            raise wrong_value(name, list(value), "the lower limit comes first and is the smaller one")
        return low, high

    def from_text(self, name: str, text: str) -> Any:
        lists: dict[str, list[str]] = {}
        for entry in split(text):
            key, _, value = entry.rpartition("=")
            ends = value.split(":")
            if not key and lists and _THOUSANDS.fullmatch(entry):
                raise malformed(name, text, "write thousands without commas, for example pay=0:100000")
            if not key or len(ends) != 2:
                raise malformed(name, entry, "write each entry as column=lower:upper, for example age=0:100")
            _store(name, lists, key, ends)
        return lists

    def _text(self, value: Any) -> str:
        return ",".join(f"{name}={low}:{high}" for name, (low, high) in value.items())

    def from_field(self, name: str, field: Any) -> Any:
        entries = super().from_field(name, field)
        for column, ends in entries.items() if isinstance(entries, dict) else ():
            if is_list(ends) and len(ends) == 2 and "" in ends:
                end = "lower" if ends[0] == "" else "upper"
                raise ArgumentError(f"the {end} limit of {column} is missing: fill it in.")
        return entries


class NumbersByName(ByColumn):
    """Numbers by name, or one after the other."""

    nothing: Any = None
    is_number = True
    field = "entries"
    words = "table of numbers by column, statistic or table; or a list"

    def read(self, name: str, value: Any) -> Any:
        if isinstance(value, Mapping):
            return super().read(name, value) or None
        return (
            None
            if value is None
            else tuple(read_float(name, x) for x in (value if is_list(value) else [value])) or None
        )

    def entry(self, name: str, value: Any) -> float:
        return read_float(name, value)

    def from_text(self, name: str, text: str) -> Any:
        if "=" not in text:
            return split(text)
        numbers: dict[str, str] = {}
        for entry in split(text):
            key, equals, value = entry.rpartition("=")
            if not (equals and key):
                raise malformed(name, entry, "write each entry as name=number, for example age=1,income=500")
            _store(name, numbers, key, value)
        return numbers

    def _text(self, value: Any) -> str:
        return ",".join(f"{n}={x}" for n, x in value.items()) if isinstance(value, Mapping) else super()._text(value)


@dataclass(frozen=True)
class Formulas(ByColumn):
    """One formula by name, with semicolons between them.

    >>> Formulas().from_text("--derive", "double=age * 2; adult=age >= 18")
    {'double': 'age * 2', 'adult': 'age >= 18'}
    """

    cure: str = "give each new column a formula, for example double=age * 2"
    syntax: str = "write each entry as name=formula, for example double=age * 2"
    field: str = "formulas"
    words: str = "table of formulas by name, as texts"

    def read(self, name: str, value: Any) -> Any:
        if value is not None and not (
            isinstance(value, Mapping) and all(isinstance(v, str) and v for v in value.values())
        ):
            raise wrong_value(name, value, self.cure)
        return super().read(name, value)

    def entry(self, name: str, value: Any) -> Any:
        return value

    def separator(self, texts: Sequence[str]) -> str:
        return ";"

    def from_text(self, name: str, text: str) -> Any:
        formulas: dict[str, str] = {}
        for entry in filter(None, map(str.strip, text.split(";"))):
            key, equals, formula = (part.strip() for part in entry.partition("="))
            if not (key and equals and formula):
                raise malformed(name, entry, self.syntax)
            _store(name, formulas, key, formula)
        return formulas

    def _text(self, value: Any) -> str:
        return ";".join(f"{name}={formula}" for name, formula in value.items())


_STAR = "*"  # between columns, and between their keys


class GroupSizes(Formulas):
    """Sizes of groups by column, as texts, with semicolons between columns.

    >>> kind = GroupSizes()
    >>> stated = kind.read("group-rows", kind.from_text("--group-rows", "code=1:50,2:30;sex*code=F*1:20,F*2:30"))
    >>> stated
    {'code': '1:50,2:30', 'sex*code': 'F*1:20,F*2:30'}
    >>> group_sizes(stated)
    {'code': {1: 50.0, 2: 30.0}, ('sex', 'code'): {('F', 1): 20.0, ('F', 2): 30.0}}
    """

    def __init__(self) -> None:
        cure = "give each column its groups with their sizes, for example sex=F:2100,M:1900"
        super().__init__(
            cure, f"write column=key:rows,key:rows: {cure}", words="table of sizes of groups by column, as texts"
        )

    def entry(self, name: str, value: Any) -> Any:
        if any(not key or not _DECIMAL.fullmatch(size) for key, size in _sizes_of(value)):
            raise wrong_value(name, value, self.cure)
        return value


def _sizes_of(text: str) -> list[tuple[str, str]]:
    pairs = (entry.rpartition(":") for entry in split(text))
    return [(key.strip(), size.strip()) for key, _, size in pairs]


def group_sizes(texts: Mapping[str, str]) -> dict[str | tuple[str, ...], dict[Any, float]]:
    """Sizes of groups as `Table` takes them; keys are whole numbers where all of a column look like it."""
    sizes: dict[str | tuple[str, ...], dict[Any, float]] = {}
    for name, text in texts.items():
        columns, pairs = tuple(name.split(_STAR)), _sizes_of(text)
        if len(columns) == 1:
            keys: list[Any] = Keys()._parts(name, [key for key, _ in pairs])  # noqa: SLF001 - read as public keys are
        else:
            parts = [key.split(_STAR) for key, _ in pairs]
            if any(len(part) != len(columns) for part in parts):
                raise malformed("the sizes of groups", text, f"write a key of each of {name} with * between them")
            read = [Keys()._parts(name, list(part)) for part in zip(*parts, strict=True)]  # noqa: SLF001
            keys = list(zip(*read, strict=True))
        if len(set(keys)) < len(keys):
            raise malformed("the sizes of groups", text, "give each group once")
        sizes[name if len(columns) == 1 else columns] = dict(zip(keys, (float(size) for _, size in pairs), strict=True))
    return sizes


def _stripped(entry: Any) -> Any:
    if isinstance(entry, str):
        return entry.strip()
    return [_stripped(one) for one in entry] if isinstance(entry, list) else entry


def _store(name: str, entries: dict[str, _T], key: str, value: _T) -> None:
    if key in entries:
        raise ArgumentError(f"{name} names {shown(key)} twice: give each name once.")
    entries[key] = value


def malformed(name: str, value: str, cure: str) -> ArgumentError:
    """The error of a text that is not written as its type is."""
    return ArgumentError(f"{name} does not fit, got {shown(value)}: {cure}.")


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
        groupings: dict[str, list[list[str]]] = {}
        for entry, before, *groups in entries:
            column = before.strip()
            if not column:
                raise malformed(name, entry, "write column, or column by group,group, for example age by sex")
            alone = not groups and sum(other[1].strip() == column for other in entries) == 1
            groupings.setdefault(column, []).extend([] if alone else [split(groups[0]) if groups else []])
        return groupings

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
        groupings = Groupings().read(name, value)
        for column, tables in groupings.items():
            if not tables:
                cure = 'pass its tables, for example [["sex"], ["region", "sex"]]'
                raise wrong_value(f"{name} of {column}", [], cure)
        return groupings or ()  # nothing is asked, in either form

    def separator(self, texts: Sequence[str]) -> str:
        return ";" if any(map(_by_tables, texts)) else ","

    def from_text(self, name: str, text: str) -> Any:
        return Groupings().from_text(name, text) if _by_tables(text) else split(text)

    def _text(self, value: Any) -> str:
        return Groupings()._text(value) if isinstance(value, Mapping) else super()._text(value)  # noqa: SLF001

    def from_field(self, name: str, field: Any) -> Any:
        return Groupings().from_field(name, field) if isinstance(field, Mapping) else super().from_field(name, field)


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
    """Tables as lists of columns, with semicolons between them; or how many columns each has."""

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

    def from_field(self, name: str, field: Any) -> Any:
        text = super().from_field(name, field)
        return int(text) if isinstance(text, str) and text.isdecimal() else text


def _by_tables(text: str) -> bool:
    return _BY.search(f"{text} ") is not None
