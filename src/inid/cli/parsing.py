"""From flags and a TOML file to the plain values of a command, and from these to a job. Flags win over the file."""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from inid.arguments import shown
from inid.cli.options import Option, flag_name
from inid.errors import ArgumentError
from inid.jobs import KEYS, Job, read_toml
from inid.jobs.flag_syntax import separator_of, syntax_of

__all__ = ["job_from", "read_values"]


def read_values(options: Sequence[Option], flags: Mapping[str, Any], elsewhere: Collection[str] = ()) -> dict[str, Any]:
    """The values of a command: what the flags state, and where they state nothing, the file.

    Args:
        options: The options that the command takes.
        flags: What was written on the command line; None where nothing was.
        elsewhere: The keys that other commands take. One file serves several commands, so these are passed over.

    Raises:
        ArgumentError: The file or a flag does not parse, or the file holds a key that no command takes.
    """
    stated: dict[str, Any] = {}
    for option in options:
        given = flags.get(option.key)
        text = separator_of(option.key, given).join(given) if isinstance(given, list) else given
        if text is None or text == "":
            continue
        stated[option.key] = syntax_of(option.key)(option.flag, text) if isinstance(text, str) else text
    path = stated.pop("config", None)
    return stated if path is None else _from_file(options, Path(path), elsewhere) | stated


def _from_file(options: Sequence[Option], path: Path, elsewhere: Collection[str]) -> dict[str, Any]:
    own = {option.key for option in options if option.in_file}
    try:
        content = read_toml(path)
    except ArgumentError as error:
        raise ArgumentError(f"--config: {error}") from None
    unknown = [key for key in content if key not in own and key not in elsewhere]
    if unknown:
        known = ", ".join(sorted(word.replace("_", "-") for word in own))
        raise ArgumentError(
            f"--config: {path} holds {shown(unknown[0])}, which no command takes: known here are {known}."
        )
    return {key: value for key, value in content.items() if key in own}


def job_from(values: Mapping[str, Any], leaving_out: Collection[str] = ()) -> Job:
    """The job that the values of a command state.

    Args:
        values: The values of a command.
        leaving_out: Keys that mean something else to this command than to a job.

    Raises:
        ArgumentError: A value is malformed, or values do not go together.
    """
    own = {key: value for key, value in values.items() if key in KEYS and key not in leaving_out}
    return Job.from_dict(own, named=flag_name)
