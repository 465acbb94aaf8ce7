"""The options of each command, from the schema, and their values: from flags, else from a TOML file."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

from inid.accounting.stores import read_address
from inid.arguments import shown
from inid.errors import ArgumentError
from inid.jobs import Job, job_keys, read_toml
from inid.jobs.outputs import check_distinct_files
from inid.schema import Key, key, keys
from inid.schema.error_messages import name_on
from inid.schema.values import Switch, Word


def argument(name: str, metavar: str, text: str) -> Key:
    """A positional argument of a command."""
    return Key(name, Word(), metavar, text, positional=True)


def switch(name: str, text: str, *, in_file: bool = True) -> Key:
    """A switch of a command."""
    return Key(name, Switch(), "", text, in_file=in_file)


def annotation(option: Key) -> Any:
    """The type of an option's value on the command line."""
    if option.is_switch:
        return bool | None
    return list[str] | None if option.type.repeats else str | None


def declaration(option: Key) -> Any:
    """An option as the command-line library takes it."""
    if option.positional:
        return typer.Argument(metavar=option.metavar, help=option.help)
    if option.is_switch:
        name = f"{option.flag}/--no-{option.flag[2:]}" if option.negative else option.flag
        return typer.Option(name, help=option.help, show_default=False)
    return typer.Option(option.flag, metavar=option.metavar, help=option.help)


def flag_name(name: str) -> str:
    """How errors name a key: TABLE for the positional argument, the flag for the others."""
    return name_on("command", name)


def keys_named(*names: str) -> tuple[Key, ...]:
    """Some keys of the schema, as they are."""
    return tuple(map(key, names))


COMMON = (
    Key("config", Word(), "FILE", "Read options from a TOML file; flags win over it.", in_file=False),
    switch("json", "Print one JSON document and nothing else."),
    switch("quiet", "Print nothing but errors."),
)

TABLE = (*keys("table", "unit", "question", "neighbours"), *keys("questions"))
STATED = (
    key("table").saying("A CSV or Parquet file; or leave it out and state --sensitivity."),
    *TABLE[1:],
    *keys("stated"),
)
PROMISE = keys("promise")
NOISE = (key("part"), *keys("noise"))

_DATABASES = ("ledger", "stream")
_NAMING_FILES = (*_DATABASES, "config", "table", "out", "rows_out", "report", "record")


def read_values(options: Sequence[Key], flags: Mapping[str, Any], elsewhere: Collection[str] = ()) -> dict[str, Any]:
    """The values of a command: what the flags state, and where they state nothing, the file."""
    passed: dict[str, Any] = {}
    for option in options:
        given = flags.get(option.name)
        if given is None or given in ("", []):
            continue
        passed[option.name] = (
            given if isinstance(given, bool) else option.from_texts(given if isinstance(given, list) else [given])
        )
    path = passed.pop("config", None)
    values = passed if path is None else _from_file(options, Path(path), elsewhere) | passed
    check_distinct_files(_files(options, values if path is None else values | {"config": path}))
    return values


def _files(options: Sequence[Key], values: Mapping[str, Any]) -> dict[str, Path | None]:
    """Every file that a command was given, to read or to write, by the name of its option."""
    files: dict[str, Path | None] = {}
    for option in options:
        value = values.get(option.name)
        if option.name not in _NAMING_FILES or not isinstance(value, str) or "\0" in value:
            continue  # one that names no file is refused where it is used
        path = read_address(value).path if option.name == "ledger" else Path(value)
        files[option.flag] = path
        if option.name in _DATABASES and path is not None:  # the database takes a file of this name for its own
            files[f"the journal of {option.flag}"] = path.with_name(f"{path.name}-journal")
    return files


def _from_file(options: Sequence[Key], path: Path, elsewhere: Collection[str]) -> dict[str, Any]:
    options_here = {option.name for option in options if option.in_file}
    try:
        content = read_toml(path)
    except ArgumentError as error:
        raise ArgumentError(f"--config: {error}") from None
    unknown = [name for name in content if name not in options_here and name not in elsewhere]
    if unknown:
        known = ", ".join(sorted(word.replace("_", "-") for word in options_here))
        raise ArgumentError(
            f"--config: {path} holds {shown(unknown[0])}, which no command takes: known here are {known}."
        )
    return {name: value for name, value in content.items() if name in options_here}


def job_from(values: Mapping[str, Any], leaving_out: Collection[str] = ()) -> Job:
    """The job that the values of a command state."""
    options_here = {name: value for name, value in values.items() if name in job_keys() and name not in leaving_out}
    return Job.from_dict(options_here, name_of=flag_name)


Values = dict[str, Any]


@dataclass(frozen=True)
class Command:
    """One command of the command line."""

    name: str
    run: Callable[[Values], None]
    options: tuple[Key, ...]
    text: str
    examples: str
