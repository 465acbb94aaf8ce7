"""The sentence that a failure becomes, in a terminal and on a page. No data value ever gets into one."""

from inid.errors import InidError, without_passwords
from inid.schema.wording import Surface, said

__all__ = ["sentence_of"]


def sentence_of(error: Exception, surface: Surface) -> str:
    """What went wrong, in a sentence in the terms of a command or of a page.

    Errors of this library hold public facts only, and so do paths. The text of any other error may quote a value of
    the table (engines do), so only its type is shown.

    >>> sentence_of(InidError("epsilon must be positive."), "command")
    'epsilon must be positive.'
    >>> sentence_of(ValueError("could not convert 'Jane Doe'"), "command")
    'unexpected ValueError; its text may quote data, so it is shown only when INID_TRACEBACK=1 is set.'
    """
    because = getattr(error, "because", None)  # of a release that was charged
    if because is not None:
        return f"{sentence_of(because, surface)} {error.then}"  # type: ignore[attr-defined]
    if isinstance(error, InidError):
        return said(error, surface)
    if isinstance(error, OSError):
        where = f"{without_passwords(str(error.filename))}: " if error.filename else ""
        return f"{where}{error.strerror or type(error).__name__}."
    kind = type(error).__name__
    return f"unexpected {kind}; its text may quote data, so it is shown only when INID_TRACEBACK=1 is set."
