"""The type of several named questions, which share one promise: each with options of its own."""

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from inid.arguments import read_word, shown
from inid.errors import ArgumentError
from inid.schema.by_column import malformed
from inid.schema.key import flag_words, from_fields, keys_of_a_question, to_fields
from inid.schema.values import ValueType, wrong_value

_CURE = "name each question and state what it asks, for example [question.people] with count = true"
_SYNTAX = "write a name and its options, for example --question 'pay --mean income --where \"age > 30\"'"
_BETWEEN = "\0"  # no argument of a command can hold it


class Questions(ValueType):
    """Named questions. A flag states one: its name, and its options as on a command line."""

    nothing: Any = {}  # noqa: RUF012 - never changed
    repeats = True
    field = "questions"
    words = "table of questions by name, each with keys of its own"

    def read(self, name: str, value: Any) -> dict[str, Mapping[str, Any]]:
        """Check the names of questions and of what each states; values are checked where a question is read."""
        if value is None:
            return {}
        if not isinstance(value, Mapping) or not all(isinstance(options, Mapping) for options in value.values()):
            raise wrong_value(name, value, _CURE)
        known = {one.name for one in keys_of_a_question()}
        for question, options in value.items():
            read_word(f"the name of a {name}", question)
            if question.startswith("-") or question != question.strip() or question == "self":
                raise ArgumentError(f"{name} cannot be named {shown(question)}: begin with a letter or a digit.")
            unknown = [key for key in options if key not in known]
            if unknown:
                raise ArgumentError(
                    f"{question} states {shown(unknown[0])}, which no {name} has for itself: known are "
                    f"{', '.join(sorted(known))}."
                )
        return {str(question): dict(options) for question, options in value.items()}

    def separator(self, texts: Sequence[str]) -> str:
        return _BETWEEN

    def from_text(self, name: str, text: str) -> Any:
        questions: dict[str, dict[str, Any]] = {}
        for line in text.split(_BETWEEN):
            try:
                question, *words = shlex.split(line)
            except ValueError:
                raise malformed(name, line, _SYNTAX) from None
            if question in questions:
                raise ArgumentError(f"{name} names {shown(question)} twice: give each name once.")
            questions[question] = _stated(name, line, words)
        return questions

    def to_texts(self, name: str, value: Any) -> list[str]:
        return [shlex.join([question, *flag_words(options)]) for question, options in value.items()]

    def from_field(self, name: str, field: Any) -> Any:
        if not isinstance(field, Mapping) or not all(isinstance(options, Mapping) for options in field.values()):
            return field
        return {question: from_fields(options) for question, options in field.items()}

    def to_field(self, value: Any) -> Any:
        return {question: to_fields(options) for question, options in value.items()}


def _stated(name: str, line: str, words: Sequence[str]) -> dict[str, Any]:
    """What the flags of one question state."""
    options = {one.flag: one for one in keys_of_a_question()}
    given: dict[str, list[str]] = {}
    switches: dict[str, bool] = {}
    rest = list(words)
    while rest:
        flag, equals, text = rest.pop(0).partition("=")
        plain = f"--{flag.removeprefix('--no-')}" if flag.startswith("--no-") else flag
        option = options.get(plain)
        if option is None or (option.is_switch and equals) or not (option.is_switch or equals or rest):
            raise malformed(name, line, _SYNTAX)
        if option.is_switch:
            switches[option.name] = plain == flag
        else:
            given.setdefault(option.flag, []).append(text if equals else rest.pop(0))
    for flag, texts in given.items():
        if len(texts) > 1 and not options[flag].type.repeats:
            raise ArgumentError(f"{name} states {flag} twice, got {shown(line)}: give it once.")
    return switches | {options[flag].name: options[flag].from_texts(texts) for flag, texts in given.items()}
