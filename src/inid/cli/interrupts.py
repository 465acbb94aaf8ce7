"""Interrupts of the process that runs the command: one counts at a time, and after its last word none does.

A second one that comes while the first is answered would take the place of what is said about the charge, so it is
ignored for a while; not for ever, since a library that is being loaded may swallow the first. One that comes while the
interpreter ends would let it die by the signal, after an answer that was paid for.
"""

import math
import signal
import time
from contextlib import suppress

__all__ = ["Process", "process"]


_PATIENCE = 2.0  # seconds


class Process:
    """What the command may do about the signals of its process.

    Attributes:
        is_own: Whether the process runs the command and nothing else; elsewhere signals are left alone.
        is_over: Whether the last word was said.
        interrupted: When the last interrupt that counted came.
    """

    is_own = False
    is_over = False
    interrupted = -math.inf

    def start(self) -> None:
        """The process is the command's own: of its interrupts one counts at a time."""
        self.is_own = True
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # else whoever started it wants none
            with suppress(ValueError):  # in a thread
                signal.signal(signal.SIGINT, _one_at_a_time)

    def serve(self) -> None:
        """The command runs until it is interrupted, and says nothing then: every interrupt counts, as usual."""
        if signal.getsignal(signal.SIGINT) is _one_at_a_time:
            signal.signal(signal.SIGINT, signal.default_int_handler)

    def said(self) -> None:
        """The answer is out, or the sentence in its place is about to be: from now on interrupts are ignored."""
        self.is_over = True
        if self.is_own:
            with suppress(ValueError):  # in a thread, which no signal reaches
                signal.signal(signal.SIGINT, signal.SIG_IGN)


def _one_at_a_time(_number: int, _frame: object) -> None:
    now = time.monotonic()
    if now - process.interrupted < _PATIENCE:
        return
    process.interrupted = now
    raise KeyboardInterrupt


process = Process()
