"""Exit codes, and the sentence and code that a failure becomes."""

from enum import IntEnum

from inid.accounting.refusals import NoRoomError
from inid.errors import GuaranteeError, InidError, RecordError
from inid.jobs.charging import UnansweredError
from inid.jobs.failures import sentence_of
from inid.tables import EngineError

__all__ = ["CommandError", "ExitCode", "outcome"]


class ExitCode(IntEnum):
    """What the command's exit status says; documented in docs/reference/exit-codes.md.

    A release was charged where it is 0 or 6; where it is 130 or 143 the message says so; else nothing was charged.
    """

    FINE = 0
    UNEXPECTED = 1
    USAGE = 2
    REFUSED = 3
    UNPROVED = 4
    FILES = 5
    UNANSWERED = 6
    INTERRUPTED = 130
    TERMINATED = 143


class CommandError(InidError):
    """An error whose exit code is known where it happens."""

    def __init__(self, message: str, exit_code: ExitCode) -> None:
        super().__init__(message)
        self.exit_code = exit_code


def outcome(error: Exception) -> tuple[str, ExitCode]:
    """The sentence and the exit code of an error.

    >>> outcome(InidError("epsilon must be positive."))
    ('epsilon must be positive.', <ExitCode.USAGE: 2>)
    """
    return sentence_of(error, "command"), _code(error)


def _code(error: Exception) -> ExitCode:
    if isinstance(error, CommandError):
        return error.exit_code
    if isinstance(error, UnansweredError):
        return ExitCode.UNANSWERED
    if isinstance(error, (GuaranteeError, RecordError)):
        return ExitCode.UNPROVED
    if isinstance(error, (EngineError, OSError)):
        return ExitCode.FILES
    if isinstance(error, NoRoomError):
        return ExitCode.REFUSED
    return ExitCode.USAGE if isinstance(error, InidError) else ExitCode.UNEXPECTED
