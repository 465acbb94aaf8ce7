"""The sentence that a failure becomes, in a terminal and on a page. No data value ever gets into one."""

from inid.errors import InidError

__all__ = ["sentence_of"]


def sentence_of(error: Exception) -> str:
    """What went wrong, in a sentence.

    Errors of this library hold public facts only, and so do paths. The text of any other error may quote a value of
    the table (engines do), so only its type is shown.

    >>> sentence_of(InidError("epsilon must be positive."))
    'epsilon must be positive.'
    >>> sentence_of(ValueError("could not convert 'Jane Doe'"))
    'unexpected ValueError; its text may quote data, so it is shown only when INID_TRACEBACK=1 is set.'
    """
    if isinstance(error, InidError):
        return str(error)
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename else ""
        return f"{where}{error.strerror or type(error).__name__}."
    kind = type(error).__name__
    return f"unexpected {kind}; its text may quote data, so it is shown only when INID_TRACEBACK=1 is set."
