"""The TOML file beside the flags: the same names, natural values, and flags that win."""

import tomllib
from collections.abc import Collection
from dataclasses import fields
from decimal import Decimal
from pathlib import Path
from typing import Any, TypeVar

from inid.arguments import shown
from inid.cli.options import Speech
from inid.errors import ArgumentError

__all__ = ["configured"]

Options = TypeVar("Options", bound=Speech)


def configured(kind: type[Options], flags: dict[str, Any], elsewhere: Collection[str] = ()) -> Options:
    """The options of a command: what the flags say, and where they say nothing, the file.

    Args:
        kind: The options that the command takes.
        flags: What was written on the command line; None where nothing was.
        elsewhere: The names that other commands take. One file serves several commands, so these are passed over.

    Raises:
        ArgumentError: The file does not parse, or holds a name that no command takes.
    """
    said = {name: ",".join(value) if isinstance(value, list) else value for name, value in flags.items()}
    said = {name: value for name, value in said.items() if value is not None and value != ""}
    path = said.get("config")
    return kind(**(({} if path is None else _file(kind, Path(path), elsewhere)) | said))


def _file(kind: type[Speech], path: Path, elsewhere: Collection[str]) -> dict[str, Any]:
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ArgumentError(f"--config: there is no file {path}.") from None
    except UnicodeDecodeError:
        raise ArgumentError(f"--config: {path} is not text in UTF-8.") from None
    try:
        # Decimals, because a promise is the decimal that was written.
        content = tomllib.loads(text, parse_float=Decimal)
    except tomllib.TOMLDecodeError as error:
        raise ArgumentError(f"--config: {path} does not parse as TOML: {error}.") from None
    own = {field.name for field in fields(kind) if field.metadata.get("in_file", True)} - {"config"}
    found: dict[str, Any] = {}
    for key, value in content.items():
        name = key.replace("-", "_")
        if name in own:
            found[name] = value
        elif name not in elsewhere:
            known = ", ".join(sorted(word.replace("_", "-") for word in own))
            raise ArgumentError(f"--config: {path} holds {shown(key)}, which no command takes: known here are {known}.")
    return found
