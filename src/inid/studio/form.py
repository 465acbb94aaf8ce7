"""From what the page sends to the keys of a job, and back, by the types of the schema; and the page's words.

The page holds texts by key; a job's own readers check them, as they do for flags and files.
"""

import re
from collections.abc import Collection, Mapping
from typing import Any

from inid.arguments import shown
from inid.errors import ArgumentError
from inid.jobs import job_keys
from inid.schema import from_fields, keys, to_fields
from inid.schema.key import texts_in
from inid.studio.folder import is_text

__all__ = ["asked_in_words", "field_name", "form_of", "job_values", "page_words"]


def field_name(name: str) -> str:
    """How an error names a key: as the page does.

    >>> field_name("max_rows"), field_name("std")
    ('Rows per person', 'std')
    """
    return next((one.title for one in keys() if one.name == name), name)


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


def asked_in_words(values: Mapping[str, Any]) -> str:
    """What a job asks, in a few words, from the plain values of its file.

    >>> asked_in_words({"table": "a.csv", "count": True, "mean": ["age", "income"], "by": {"sex": ["F", "M"]}})
    'number of rows, mean of age and income, by sex: a.csv'
    >>> asked_in_words({"table": "a.csv", "marginals": [["sex", "age"], ["age"]]})
    'tables of counts of sex * age and age: a.csv'
    >>> asked_in_words({"table": "a.csv", "question": {"people": {"count": True}, "pay": {"mean": ["pay"]}}})
    'number of rows; mean of pay: a.csv'
    """
    several = values.get("question")
    own = several if isinstance(several, Mapping) and several else {"": values}
    return f"{'; '.join(_words_of(one) for one in own.values())}: {values.get('table', '')}"


def _words_of(values: Mapping[str, Any]) -> str:
    words = []
    for one in (one for one in keys("question") if one.asks and values.get(one.name)):
        value, name = values[one.name], one.title.lower()
        listed = [value] if isinstance(value, (str, int)) else list(value)
        entries = [" * ".join(map(str, one)) if isinstance(one, (list, tuple)) else str(one) for one in listed]
        words.append(name if value is True else f"{name} of {' and '.join(entries)}")
    groups = values.get("by")
    if isinstance(groups, Mapping) and groups:
        words.append(f"by {' and '.join(groups)}")
    return ", ".join(words)


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
    unknown = [name for name in form if name not in job_keys() and name not in more]
    if unknown:
        raise ArgumentError(f"a form has no field {shown(unknown[0])}.")
    if not all(map(is_text, texts_in(form))):
        raise ArgumentError("a field holds a character that no file can hold: type it again.")
    known = {one.name for one in keys()}
    passed = {name: held for name, held in form.items() if name not in known and held not in (None, "")}
    return from_fields({name: held for name, held in form.items() if name in known}) | passed


def form_of(values: Mapping[str, Any]) -> dict[str, Any]:
    """What the page shows for the keys of a job; `job_values` makes the same job of it.

    >>> form_of({"by": {"sex": ["F", "M"], "code": ["1"]}, "epsilon": 0.5})
    {'by': {'sex': 'F, M', 'code': "'1'"}, 'epsilon': '0.5'}
    """
    return to_fields(values)
