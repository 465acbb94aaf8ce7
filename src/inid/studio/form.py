"""From what the page sends to the keys of a job, and back.

The page holds texts by key; a job's own readers check them, as they do for flags and files. Only lists that people
write with commas are taken apart here. A key of a job that is not named below passes through as it is.
"""

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from itertools import chain
from typing import Any

from inid.arguments import shown
from inid.errors import ArgumentError
from inid.jobs import KEYS
from inid.jobs.flag_syntax import cell_list, key_list, range_list
from inid.studio.folder import is_text

__all__ = ["LABELS", "asked_in_words", "field_name", "form_of", "job_values", "page_words"]

# By column a text with commas, or one entry per line where entries hold commas.
_LISTS: Mapping[str, Callable[[str, list[str]], list[Any]]] = {
    "by": key_list,
    "choose": key_list,
    "domains": range_list,
    "histogram": cell_list,
    "missing": cell_list,
    "quantile": lambda _, entries: list(entries),
}
_GROUPED = ("cdf", "cumulative")  # an empty list of groupings is that of "by"
_NAMES = ("order_by", "labels", "sensitivity")  # one text with commas

# What the page calls a key; all others are called by their own names.
LABELS: Mapping[str, str] = {
    "table": "Table",
    "ledger": "Ledger",
    "bounds": "Limits",
    "by": "Groups",
    "histogram": "Histogram",
    "quantile": "Quantiles",
    "cdf": "Distribution",
    "cumulative": "Running total",
    "count_distinct": "Number of people",
    "domains": "Public values",
    "marginals": "Tables of counts",
    "tidy": "Tidy counts",
    "integers": "Whole numbers",
    "combine": "Combined cells",
    "discover": "Column of the keys",
    "max_keys": "Keys per person",
    "discover_delta": "Delta of the threshold",
    "discover_kind": "Kind of keys",
    "choose": "Groups to choose from",
    "objective": "Make small",
    "tolerance": "Tolerance",
    "missing": "Fill value",
    "where": "Only rows where",
    "derive": "Computed columns",
    "rows": "Rows, a public guess",
    "table_max_rows": "Rows at most",
    "person": "Person column",
    "max_rows": "Rows per person",
    "order_by": "Which rows first",
    "unit": "Unit of the ledger",
    "name": "Name in the ledger file",
    "label": "Note for the ledger",
    "level": "Probability of the intervals",
    "sensitivity": "Sensitivity",
    "part": "Part of the ledger",
    "epsilon": "Epsilon",
    "delta": "Delta",
    "mu": "Mu",
    "rho": "Rho",
    "periods": "Periods",
    "contributes": "Periods per person",
    "want": "What is to be accurate",
    "window": "Periods in a window",
}


def field_name(key: str) -> str:
    """How an error names a key: as the page does.

    >>> field_name("max_rows"), field_name("std")
    ('Rows per person', 'std')
    """
    return LABELS.get(key, key)


_ORDER = "fill in its lower and its upper limit, or list all its values in their order under Public values of columns"
# The library's cures, each for the page's fields; the more special one first.
_CURES = (
    (re.compile(r"add Limits .+?=LOWER:UPPER"), "fill in its lower and its upper limit"),
    (
        re.compile(r"or all its values in their order, Public values .+?=0:115"),
        "or list all its values in their order under Public values of columns",
    ),
    (re.compile(r"state Table\(bounds=\{.+?\}\), or Table\(domains=\{.+?\}\)"), _ORDER),
    (re.compile(r"state them as Public values"), "list them under Public values of columns"),
    (re.compile(r"state Table\(domains=\.\.\.\) or by=\{\.\.\.\}"), "list them under Public values of columns"),
    (re.compile(r"state Table\(domains=\{.+?\}\)"), "list its values under Public values of columns"),
    (re.compile(r"inid\.PureDP\(.+?\) \(--epsilon (.+?), without --delta\)"), r"epsilon alone (pure), \1"),
    (re.compile(r"inid\.GaussianDP\(.+?\) \(--mu (.+?)\)"), r"mu (Gaussian DP), \1"),
    (re.compile(r"ledger\.part\(.+?\) \(--part (.+?)\)"), r"a part of the ledger, \1"),
)


def page_words(sentence: str) -> str:
    """An error without the syntax of flags, which the page has fields for.

    >>> page_words("mean needs public limits for 'age': add Limits age=LOWER:UPPER, from what is known.")
    "mean needs public limits for 'age': fill in its lower and its upper limit, from what is known."
    """
    for pattern, words in _CURES:
        sentence = pattern.sub(words, sentence)
    return sentence


_ASKED = (
    "count",
    "count_distinct",
    "mean",
    "sum",
    "std",
    "variance",
    "covariance",
    "histogram",
    "quantile",
    "cdf",
    "cumulative",
    "marginals",
    "discover",
    "choose",
)


def asked_in_words(values: Mapping[str, Any]) -> str:
    """What a job asks, in a few words, from the plain values of its file.

    >>> asked_in_words({"table": "a.csv", "count": True, "mean": ["age", "income"], "by": {"sex": ["F", "M"]}})
    'count, mean of age and income, by sex: a.csv'
    >>> asked_in_words({"table": "a.csv", "marginals": [["sex", "age"], ["age"]]})
    'tables of counts of sex * age and age: a.csv'
    """
    words = []
    for key in (key for key in _ASKED if values.get(key)):
        value, name = values[key], field_name(key).lower()
        listed = [value] if isinstance(value, (str, int)) else list(value)
        entries = [" * ".join(map(str, one)) if isinstance(one, (list, tuple)) else str(one) for one in listed]
        words.append(name if value is True else f"{name} of {' and '.join(entries)}")
    groups = values.get("by")
    if isinstance(groups, Mapping) and groups:
        words.append(f"by {' and '.join(groups)}")
    return f"{', '.join(words)}: {values.get('table', '')}"


def job_values(form: object, more: Collection[str] = ()) -> dict[str, Any]:
    """The keys of a job, as a TOML file holds them. What is empty is not stated.

    Args:
        form: What the page sends.
        more: Keys that it may hold beside those of a job.

    Raises:
        ArgumentError: It is not a form, or holds something that no job knows.

    >>> job_values({"table": "a.csv", "by": {"sex": "F, M"}, "epsilon": "1", "label": " ", "count": False})
    {'table': 'a.csv', 'by': {'sex': ['F', 'M']}, 'epsilon': '1'}
    """
    if not isinstance(form, Mapping):
        raise ArgumentError(f"a form is a set of named values, got {shown(form)}.")
    unknown = [key for key in form if key not in KEYS and key not in more]
    if unknown:
        raise ArgumentError(f"a form has no field {shown(unknown[0])}.")
    if not all(map(is_text, _texts(form))):
        raise ArgumentError("a field holds a character that no file can hold: type it again.")
    read = {key: _value(key, value) for key, value in form.items()}
    _check_numbers(read)
    for name, ends in read["bounds"].items() if isinstance(read.get("bounds"), dict) else ():
        if isinstance(ends, list) and len(ends) == 2 and "" in ends:
            raise ArgumentError(f"the {'lower' if ends[0] == '' else 'upper'} limit of {name} is missing: fill it in.")
    return {key: value for key, value in read.items() if value not in (None, "", {}, [], False)}


_COUNTS = ("rows", "max_rows", "table_max_rows", "max_keys", "contributes", "window")
_NUMBERS = ("epsilon", "delta", "mu", "rho", *_COUNTS, "bounds", "tolerance", "sensitivity")
_THOUSANDS = re.compile(r"[-+]?\d{1,3}(?:,\d{3})+(?:\.\d*)?")


def _check_numbers(read: Mapping[str, Any]) -> None:
    """Refuse "1,000", which is a thousand to some and 1 to others: a promise must not be guessed.

    Raises:
        ArgumentError: A number is written so.
    """
    for key in _NUMBERS:
        value = read.get(key)
        entries = _texts(list(value.values()) if isinstance(value, Mapping) else value)
        wrong = next(filter(_THOUSANDS.fullmatch, entries), None)
        if wrong is not None:
            plain = wrong.replace(",", "")
            raise ArgumentError(f"{field_name(key)} does not fit, got {wrong!r}: write {plain}, without commas.")


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, (Mapping, list)):
        for one in chain(value, value.values() if isinstance(value, Mapping) else ()):
            yield from _texts(one)


def _value(key: str, value: Any) -> Any:
    if isinstance(value, str):
        text = value.strip()
        return _entries(text) if key in _NAMES else text
    if isinstance(value, Mapping):
        kept = {str(name): _stripped(entry) for name, entry in value.items()}
        nothing: tuple[Any, ...] = ("",) if key in _GROUPED else ("", [], ["", ""])
        kept = {name: entry for name, entry in kept.items() if entry not in nothing}
        if key in _LISTS:
            return {name: _listed(key, entry) for name, entry in kept.items()}
        return kept
    return value


def _stripped(entry: Any) -> Any:
    if isinstance(entry, str):
        return entry.strip()
    return [_stripped(one) for one in entry] if isinstance(entry, list) else entry


def _listed(key: str, entry: Any) -> Any:
    return _LISTS[key](field_name(key), _entries(entry)) if isinstance(entry, str) else entry


def _entries(text: str) -> list[str]:
    r"""Entries separated by commas; where there are several lines, by lines.

    >>> _entries("F, M,"), _entries("Smith, Ann\nMiller, Bo\n")
    (['F', 'M'], ['Smith, Ann', 'Miller, Bo'])
    """
    parts = text.splitlines() if "\n" in text.strip() else text.split(",")
    return [part.strip() for part in parts if part.strip()]


def form_of(values: Mapping[str, Any]) -> dict[str, Any]:
    """What the page shows for the keys of a job; `job_values` makes the same job of it.

    >>> form_of({"by": {"sex": ["F", "M"], "code": ["1"]}, "epsilon": 0.5})
    {'by': {'sex': 'F, M', 'code': "'1'"}, 'epsilon': '0.5'}
    """
    return {key: _shown(key, value) for key, value in values.items()}


def _shown(key: str, value: Any) -> Any:
    if isinstance(value, Mapping):
        if key in _LISTS:
            return {
                name: _text(entry if isinstance(entry, (list, tuple)) else [entry]) for name, entry in value.items()
            }
        return {name: _shown("", entry) for name, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return _text(value) if key in _NAMES else [_shown("", entry) for entry in value]
    return value if isinstance(value, (bool, str)) else _number(value)


def _text(entries: Any) -> str:
    words = [_number(entry) if not isinstance(entry, str) else entry for entry in entries]
    numeric = all(isinstance(entry, str) and entry.replace(".", "", 1).lstrip("+-").isdigit() for entry in entries)
    words = [f"'{word}'" for word in words] if numeric else words
    return "\n".join(words) if any("," in word for word in words) else ", ".join(words)


def _number(value: Any) -> str:
    """A number as people write it.

    >>> _number(100.0), _number(1e-6), _number(0.25)
    ('100', '1e-6', '0.25')
    """
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return str(int(value))
    return str(value).replace("e-0", "e-")
