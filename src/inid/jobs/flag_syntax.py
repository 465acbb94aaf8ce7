"""The text of a flag: lists with commas, `name=value` for named entries. Read into plain values, and written from them.

Names that hold a comma or an equals sign cannot be written so; a TOML file can hold them.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from inid.arguments import shown
from inid.errors import ArgumentError

__all__ = [
    "cell_list",
    "cells",
    "columns_or_groupings",
    "formulas",
    "groupings",
    "intervals",
    "key_list",
    "keys",
    "keys_or_groupings",
    "named_numbers",
    "names",
    "range_list",
    "ranges",
    "same",
    "separator_of",
    "syntax_of",
    "tables",
    "written",
]

_T = TypeVar("_T")

WHOLE = "*"  # the table of no columns
_WHOLE = re.compile(r"-?(?:0|[1-9]\d*)")
_RANGE = re.compile(r"(-?\d{1,18}):(-?\d{1,18})")
_LONGEST_RANGE = 2**20
_BY = re.compile(r"\s+by\s+")
_DECIMAL = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")
_QUOTED = re.compile(r"""^(['"])(.*)\1$""", re.DOTALL)


def same(_flag: str, text: str) -> str:
    """One value, as it is written."""
    return text


def names(_flag: str, text: str) -> list[str]:
    """A list of names or numbers.

    >>> names("--mean", "age, income,")
    ['age', 'income']
    """
    return [entry.strip() for entry in text.split(",") if entry.strip()]


def named_numbers(flag: str, text: str) -> dict[str, str] | list[str]:
    """Numbers by name, `age=1,income=500`, or one after the other, `1,500`.

    >>> named_numbers("--tolerance", "mean(age)=1,income=500"), named_numbers("--tolerance", "1,500")
    ({'mean(age)': '1', 'income': '500'}, ['1', '500'])
    """
    if "=" not in text:
        return names(flag, text)
    found: dict[str, str] = {}
    for entry in names(flag, text):
        key, equals, value = entry.rpartition("=")
        if not (equals and key):
            raise _wrong(flag, entry, "write each entry as name=number, for example age=1,income=500")
        _store(flag, found, key, value)
    return found


def intervals(flag: str, text: str) -> dict[str, list[str]]:
    """Lower and upper limits by column.

    >>> intervals("--bounds", "age=0:100,change=-5:5")
    {'age': ['0', '100'], 'change': ['-5', '5']}
    """
    found: dict[str, list[str]] = {}
    for entry in names(flag, text):
        key, _, value = entry.rpartition("=")
        ends = value.split(":")
        if not key or len(ends) != 2:
            raise _wrong(flag, entry, "write each entry as column=lower:upper, for example age=0:100")
        _store(flag, found, key, ends)
    return found


def keys(flag: str, text: str) -> dict[str, list[Any]]:
    """Lists of public keys by column.

    An entry with an equals sign starts a column and the entries after it continue that column. Keys are whole numbers
    if all keys of the column look like it, else texts; in quotes they are texts.

    >>> keys("--by", "sex=F,M,year=2020,2021"), keys("--by", 'code="1","2"'), keys("--by", "size=1,XL")
    ({'sex': ['F', 'M'], 'year': [2020, 2021]}, {'code': ['1', '2']}, {'size': ['1', 'XL']})
    """
    found = _lists(flag, text, "write column=key,key, for example sex=F,M")
    return {column: key_list(flag, entries) for column, entries in found.items()}


def key_list(_flag: str, entries: list[str]) -> list[Any]:
    """The keys of one column.

    >>> key_list("--by", ["2020", "2021"]), key_list("--by", ["'1'", "'2'"])
    ([2020, 2021], ['1', '2'])
    """
    return _typed(entries, _WHOLE, int)


def ranges(flag: str, text: str) -> dict[str, list[Any]]:
    """Lists of public keys by column, written as `keys` are; 0:115 alone stands for all whole numbers from 0 to 115.

    >>> ranges("--domains", "sex=F,M,age=0:3")
    {'sex': ['F', 'M'], 'age': [0, 1, 2, 3]}
    """
    found = _lists(flag, text, "write column=key,key, for example sex=F,M")
    return {column: range_list(flag, entries) for column, entries in found.items()}


def range_list(flag: str, entries: list[str]) -> list[Any]:
    """The public keys of one column, which 0:115 alone gives as a range.

    >>> range_list("--domains", ["0:3"])
    [0, 1, 2, 3]
    """
    ends = _RANGE.fullmatch(entries[0]) if len(entries) == 1 else None
    if ends is None:
        return key_list(flag, entries)
    low, high = int(ends[1]), int(ends[2])
    if not low < high < low + _LONGEST_RANGE:
        raise _wrong(flag, entries[0], "write lower:upper, the lower one first")
    return list(range(low, high + 1))


def cells(flag: str, text: str) -> dict[str, list[Any]]:
    """Edges of bins (numbers) or categories (texts) by column, written as `keys` are.

    >>> cells("--histogram", "age=0,17.5,100,sex=F,M")
    {'age': [0.0, 17.5, 100.0], 'sex': ['F', 'M']}
    """
    found = _lists(flag, text, "write column=edge,edge or column=category,category, for example age=0,20,40")
    return {column: cell_list(flag, entries) for column, entries in found.items()}


def cell_list(_flag: str, entries: list[str]) -> list[Any]:
    """The edges or the categories of one column.

    >>> cell_list("--histogram", ["0", "17.5"]), cell_list("--histogram", ["F", "M"])
    ([0.0, 17.5], ['F', 'M'])
    """
    return _typed(entries, _DECIMAL, float)


def tables(_flag: str, text: str) -> list[list[str]] | int:
    """Tables as lists of columns, separated by semicolons; or how many columns each has.

    >>> tables("--marginals", "sex,age;race"), tables("--marginals", "2")
    ([['sex', 'age'], ['race']], 2)
    """
    return int(text) if text.isdecimal() else [names(_flag, table) for table in text.split(";")]


def keys_or_groupings(flag: str, text: str) -> dict[str, list[Any]] | list[list[str]]:
    """Public keys by column, as `keys` reads them; or several groupings by columns that have a public domain.

    Groupings stand with semicolons between them, and * alone is the whole table.

    >>> keys_or_groupings("--by", "sex=F,M"), keys_or_groupings("--by", "sex;region,sex;*")
    ({'sex': ['F', 'M']}, [['sex'], ['region', 'sex'], []])
    """
    if "=" in text:
        return keys(flag, text)
    return [[] if table.strip() == WHOLE else names(flag, table) for table in text.split(";")]


def columns_or_groupings(flag: str, text: str) -> list[str] | dict[str, list[list[str]]]:
    """A list of columns; or for each column the tables by which it is asked, as `groupings` reads them.

    >>> columns_or_groupings("--mean", "age,income"), columns_or_groupings("--mean", "income by sex;income by sex,age")
    (['age', 'income'], {'income': [['sex'], ['sex', 'age']]})
    """
    return groupings(flag, text) if _BY.search(f"{text} ") else names(flag, text)


def formulas(flag: str, text: str) -> dict[str, str]:
    """Formulas of new columns by name, with semicolons between them.

    >>> formulas("--derive", "double=age * 2; adult=age >= 18")
    {'double': 'age * 2', 'adult': 'age >= 18'}
    """
    found: dict[str, str] = {}
    for entry in filter(None, map(str.strip, text.split(";"))):
        name, equals, formula = (part.strip() for part in entry.partition("="))
        if not (name and equals and formula):
            raise _wrong(flag, entry, "write each entry as name=formula, for example double=age * 2")
        _store(flag, found, name, formula)
    return found


def groupings(flag: str, text: str) -> dict[str, list[list[str]]]:
    """Groupings by column, with semicolons between them: "age by sex,race"; a column alone has the groups of --by.

    >>> groupings("--cdf", "age"), groupings("--cdf", "age; age by sex,race; size by")
    ({'age': []}, {'age': [[], ['sex', 'race']], 'size': [[]]})
    """
    entries = [(entry, *_BY.split(f"{entry} ", maxsplit=1)) for entry in map(str.strip, text.split(";")) if entry]
    found: dict[str, list[list[str]]] = {}
    for entry, column, *groups in entries:
        name = column.strip()
        if not name:
            raise _wrong(flag, entry, "write column, or column by group,group, for example age by sex")
        alone = not groups and sum(other[1].strip() == name for other in entries) == 1
        found.setdefault(name, []).extend([] if alone else [names(flag, groups[0]) if groups else []])
    return found


_SYNTAX: dict[str, Callable[[str, str], Any]] = {
    "bounds": intervals,
    "bins": cells,
    "histogram": cells,
    "missing": cells,
    "quantile": cells,
    "cdf": groupings,
    "cumulative": groupings,
    "by": keys_or_groupings,
    "choose": keys,
    "domains": ranges,
    "marginals": tables,
    "derive": formulas,
    "combine": formulas,
    **dict.fromkeys(("sum", "mean"), columns_or_groupings),
    "tolerance": named_numbers,
    "weights": named_numbers,
    **dict.fromkeys(("variance", "std", "covariance", "order_by", "labels", "sensitivity", "synthetic_columns"), names),
}


def syntax_of(key: str) -> Callable[[str, str], Any]:
    """How the flag of a key is read."""
    return _SYNTAX.get(key, same)


def separator_of(key: str, texts: Sequence[str] = ()) -> str:
    """What stands between the values of a flag that is given several times: each --marginals is a table of its own.

    So is each --by without an equals sign (with one it is one more column of keys), and each "column by table".
    """
    if key == "by":
        return "," if any("=" in text for text in texts) else ";"
    tabled = syntax_of(key) is columns_or_groupings and any(_BY.search(f"{text} ") for text in texts)
    return ";" if tabled or key in ("marginals", "derive", "combine", "cdf", "cumulative") else ","


def written(flag: str, value: Any, syntax: Callable[[str, str], Any]) -> str:
    """A plain value as the text of a flag of this syntax.

    Raises:
        ArgumentError: The text would be read as something else: a name holds a comma, say.

    >>> written("--bounds", {"age": [0, 100]}, intervals), written("--by", {"code": ["1", "2"]}, keys)
    ('age=0:100', "code='1','2'")
    """
    if syntax is tables or (syntax is keys_or_groupings and _is_list(value)):
        text = ";".join(",".join(table) if table or syntax is tables else WHOLE for table in value)
    elif syntax is groupings or (syntax is columns_or_groupings and isinstance(value, Mapping)):
        listed = [(name, groups) for name, several in value.items() for groups in several or [None]]
        text = ";".join(name if groups is None else f"{name} by {','.join(groups)}".strip() for name, groups in listed)
    elif syntax is formulas:
        text = ";".join(f"{name}={formula}" for name, formula in value.items())
    elif isinstance(value, Mapping):
        separator = ":" if syntax is intervals else ","
        text = ",".join(f"{name}={separator.join(_entries(entry))}" for name, entry in value.items())
    else:
        text = ",".join(_entries(value, quoted=False))
    try:
        read = _comparable(syntax(flag, text), syntax)
    except (ArgumentError, ValueError):
        read = None
    if read != _comparable(value, syntax):
        raise ArgumentError(
            f"{flag} cannot be written on a command line, because a name in it holds a comma, an equals sign or a "
            'quote, or says "by": write the job as TOML.'
        )
    return text


def _entries(value: Any, *, quoted: bool = True) -> list[str]:
    """The entries of a list; among keys, texts that look like numbers are put in quotes."""
    listed = value if _is_list(value) else [value]
    texts = [str(entry) for entry in listed]
    numeric = all(_DECIMAL.fullmatch(text) for text in texts)
    if quoted and numeric and all(isinstance(entry, str) for entry in listed):
        return [f"'{text}'" for text in texts]
    return texts


def _comparable(value: Any, syntax: Callable[[str, str], Any]) -> Any:
    """Equal for values that mean the same: numbers are floats or texts, one entry is a list of one."""
    if isinstance(value, Mapping):
        return [(name, _comparable(entry, syntax)) for name, entry in value.items()]
    listed = value if _is_list(value) else [value]
    if syntax in (tables, groupings, keys_or_groupings, columns_or_groupings) and any(map(_is_list, listed)):
        return [list(table) for table in listed]
    if syntax in (intervals, named_numbers):
        return [float(entry) for entry in listed]
    if syntax is names:
        return [str(entry) for entry in listed]
    return [(type(entry) in (str, bool), entry) for entry in listed]


def _is_list(value: object) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)


def _lists(flag: str, text: str, cure: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    column = ""
    for entry in names(flag, text):
        before, equals, after = entry.partition("=")
        if equals:
            column = before
            _store(flag, found, column, [])
        if not column:
            raise _wrong(flag, text, cure)
        found[column].append(after if equals else entry)
    return found


def _typed(entries: list[str], pattern: re.Pattern[str], kind: Callable[[str], _T]) -> list[_T] | list[str]:
    """Numbers if every entry looks like one, else texts, without their quotes."""
    if all(pattern.fullmatch(entry) for entry in entries):
        return [kind(entry) for entry in entries]
    return [_QUOTED.sub(r"\2", entry) for entry in entries]


def _store(flag: str, found: dict[str, _T], key: str, value: _T) -> None:
    if key in found:
        raise ArgumentError(f"{flag} names {shown(key)} twice: give each name once.")
    found[key] = value


def _wrong(flag: str, value: str, cure: str) -> ArgumentError:
    return ArgumentError(f"{flag} does not fit, got {shown(value)}: {cure}.")
