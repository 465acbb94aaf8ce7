"""From what the page sends to the keys of a job, and back, by the types of the schema; and the page's words.

The page holds texts by key; a job's own readers check them, as they do for flags and files.
"""

from collections.abc import Callable, Collection, Mapping
from typing import Any

from inid.arguments import shown
from inid.errors import ArgumentError
from inid.jobs import job_keys
from inid.jobs.questions import FILE_KEYS
from inid.schema import from_fields, key, keys, to_fields
from inid.schema.error_messages import name_on
from inid.schema.key import texts_in
from inid.studio.folder import is_text


def field_name(name: str) -> str:
    """How an error names a key: as the page does."""
    return name_on("page", name)


def question_in_words(values: Mapping[str, Any]) -> str:
    """What a job asks, in a few words, from the plain values of its file.

    >>> question_in_words({"table": "a.csv", "count": True, "mean": ["age", "income"], "by": {"sex": ["F", "M"]}})
    'number of rows, mean of age and income, by sex: a.csv'
    >>> question_in_words({"table": "a.csv", "marginals": [["sex", "age"], ["age"]]})
    'tables of counts of sex * age and age: a.csv'
    >>> question_in_words({"table": "a.csv", "question": {"people": {"count": True}, "pay": {"mean": ["pay"]}}})
    'number of rows; mean of pay: a.csv'
    """
    several = values.get("question")
    parts = several if isinstance(several, Mapping) and several else {"": values}
    return f"{'; '.join(_words_of(one) for one in parts.values())}: {values.get('table', '')}"


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
    """The keys of a job, as a TOML file holds them. What is empty is not stated."""
    if not isinstance(form, Mapping):
        raise ArgumentError(f"a form is a set of named values, got {shown(form)}.")
    unknown = [name for name in form if name not in job_keys() and name not in more]
    if unknown:
        raise ArgumentError(f"a form has no field {shown(unknown[0])}.")
    if not all(map(is_text, texts_in(form))):
        raise ArgumentError("a field holds a character that no file can hold: type it again.")
    known = {one.name for one in keys()}
    passed = {name: value for name, value in form.items() if name not in known and value not in (None, "")}
    return from_fields({name: value for name, value in form.items() if name in known}) | passed


def form_of(values: Mapping[str, Any]) -> dict[str, Any]:
    """What the page shows for the keys of a job; `job_values` makes the same job of it."""
    return to_fields(values)


def file_facts(facts: object) -> dict[str, Any]:
    """How a CSV file is written, from the fields of the page."""
    if not isinstance(facts, Mapping):
        return {}
    values = job_values({name: value for name, value in facts.items() if name in FILE_KEYS})
    return {name: read for name in values if (read := key(name).of(values, field_name))}


def command_text(write: Callable[[], str]) -> str:
    """A command line, or as a comment why it cannot be written: a name that no command line can hold."""
    try:
        return write()
    except ArgumentError as error:
        return f"# {error}"
