"""Whether results can be written, checked before the charge, so that what was paid for is not lost."""

import os
import tempfile
from pathlib import Path

from inid.cli.exit_codes import CommandError, ExitCode

__all__ = ["check_apart", "check_writable"]


def check_writable(option: str, path: Path) -> None:
    """Make sure that a file can be written there, by writing one beside it.

    Raises:
        CommandError: It cannot; nothing was charged yet.
    """
    if path.exists() and not path.is_file():
        kind = "a folder" if path.is_dir() else "not a plain file"
        raise CommandError(f"{option} must name a file, and {path} is {kind}.", ExitCode.USAGE)
    folder = path.resolve().parent
    if not folder.is_dir():
        raise CommandError(f"{option}: the folder {folder} does not exist: make it first.", ExitCode.FILES)
    try:
        with tempfile.NamedTemporaryFile(dir=folder, prefix=f".{path.name}."):
            pass
        if path.exists() and not os.access(path, os.W_OK):
            raise PermissionError(13, "Permission denied", str(path))
    except OSError as error:
        raise CommandError(f"{option}: {path} cannot be written: {error.strerror}.", ExitCode.FILES) from None


def check_apart(named: dict[str, Path | None]) -> None:
    """Make sure that no two options name the same file, since the later one would overwrite the earlier.

    Raises:
        CommandError: Two do.
    """
    seen: dict[Path, str] = {}
    for option, path in named.items():
        if path is None:
            continue
        other = seen.setdefault(path.resolve(), option)
        if other != option:
            raise CommandError(f"{other} and {option} name the same file {path}: name two.", ExitCode.USAGE)
