"""Exit codes, and the sentence and code that a failure becomes. No data value ever gets into a sentence."""

from enum import IntEnum

from inid.errors import GuaranteeError, InidError, RecordError
from inid.tables import EngineError

__all__ = ["CommandError", "ExitCode", "outcome"]


class ExitCode(IntEnum):
    """What the command's exit status says; documented in docs/command.md."""

    FINE = 0
    UNEXPECTED = 1
    USAGE = 2
    REFUSED = 3
    UNPROVED = 4
    FILES = 5


class CommandError(InidError):
    """An error whose exit code is known where it happens."""

    def __init__(self, message: str, code: ExitCode) -> None:
        super().__init__(message)
        self.code = code


def outcome(error: Exception) -> tuple[str, ExitCode]:
    """The sentence and the exit code of an error.

    Errors of this library hold public facts only, and so do paths. The text of any other error may quote a value of
    the table (engines do), so only its type is shown.

    >>> outcome(InidError("epsilon must be positive."))
    ('epsilon must be positive.', <ExitCode.USAGE: 2>)
    >>> outcome(ValueError("could not convert 'Jane Doe'"))[0]
    'unexpected ValueError; its text may quote data, so it is shown only when INID_TRACEBACK=1 is set.'
    """
    if isinstance(error, CommandError):
        return str(error), error.code
    if isinstance(error, (GuaranteeError, RecordError)):
        return str(error), ExitCode.UNPROVED
    if isinstance(error, EngineError):
        return str(error), ExitCode.FILES
    if isinstance(error, InidError):
        return str(error), ExitCode.USAGE
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename else ""
        return f"{where}{error.strerror or type(error).__name__}.", ExitCode.FILES
    kind = type(error).__name__
    return (
        f"unexpected {kind}; its text may quote data, so it is shown only when INID_TRACEBACK=1 is set.",
        ExitCode.UNEXPECTED,
    )
