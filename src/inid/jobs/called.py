"""What the report of a job calls columns, keys and questions: `age = Age in years`, `sex:1 = men`."""

from collections.abc import Mapping, Sequence
from typing import Any

from inid.arguments import listed, shown
from inid.errors import ArgumentError
from inid.tables.query import Query

__all__ = ["check_called", "labels_of"]

_MOST = 20


def labels_of(called: Mapping[str, str], questions: Sequence[str] = ()) -> dict[str, Any]:
    """The same as `Result.report` takes it.

    Args:
        called: The words for a column, for one of its keys after a colon, or for a question.
        questions: The names of several questions, which may hold a colon.

    >>> labels_of({"age": "Age, years", "sex": "gender", "sex:1": "men", "sex:2": "women"})
    {'age': 'Age, years', 'sex': ('gender', {'1': 'men', '2': 'women'})}
    """
    names, keys = _apart(called, questions)
    found: dict[str, Any] = {}
    for column in dict.fromkeys([*names, *keys]):
        own = keys.get(column)
        found[column] = names[column] if own is None else (names[column], own) if column in names else own
    return found


def check_called(name: str, called: Mapping[str, str], queries: Mapping[str, Query[Any, Any]]) -> None:
    """Refuse words for what no answer names, before anything is spent. Only public names are compared.

    Args:
        name: What the option is called.
        called: The words.
        queries: What is asked, by name; one query alone has none.

    Raises:
        ArgumentError: No answer is about such a column, or it has no such key.
    """
    keys: dict[str, set[str] | None] = {question: set() for question in queries if question}
    for query in queries.values():
        for column, own in query.question.answer_keys().items():
            known = keys.get(column, set())
            keys[column] = None if own is None or known is None else known | {str(key) for key in own}
    names, words = _apart(called, list(queries))
    for column in dict.fromkeys([*names, *words]):
        if column not in keys:
            raise ArgumentError(
                f"{name} names {shown(column)}, which no answer is about: known are {listed(sorted(keys), most=_MOST)}."
            )
        own = keys[column]
        for key in words.get(column, ()):
            if own is not None and key not in own:
                there = f"known are {listed(sorted(own), most=_MOST)}" if own else "it has none here"
                raise ArgumentError(f"{name} names the key {shown(key)} of {shown(column)}: {there}.")


def _apart(called: Mapping[str, str], questions: Sequence[str]) -> tuple[dict[str, str], dict[str, dict[str, str]]]:
    """The words for columns and questions, and by column those for its keys."""
    names: dict[str, str] = {}
    keys: dict[str, dict[str, str]] = {}
    for name, words in called.items():
        column, colon, key = name.partition(":")
        if colon and name not in questions:
            keys.setdefault(column, {})[key] = words
        else:
            names[name] = words
    return names, keys
