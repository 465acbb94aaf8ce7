"""Interrupts of the process that runs the command: the first one counts, and after its last word none does.

A second one that comes while the first is answered would take the place of what is said about the charge. One that
comes while the interpreter ends would let it die by the signal, after an answer that was paid for.
"""

import signal
from contextlib import suppress
from typing import NoReturn

__all__ = ["Process", "process"]


class Process:
    """What the command may do about the signals of its process.

    Attributes:
        is_own: Whether the process runs the command and nothing else; elsewhere signals are left alone.
        is_over: Whether the last word was said.
    """

    is_own = False
    is_over = False

    def start(self) -> None:
        """The process is the command's own: of its interrupts the first one stops it, and the others are ignored."""
        self.is_own = True
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # else whoever started it wants none
            with suppress(ValueError):  # in a thread
                signal.signal(signal.SIGINT, _first)

    def serve(self) -> None:
        """The command runs until it is interrupted, and says nothing then: every interrupt counts, as usual."""
        if signal.getsignal(signal.SIGINT) is _first:
            signal.signal(signal.SIGINT, signal.default_int_handler)

    def said(self) -> None:
        """The answer is out, or the sentence in its place is about to be: from now on interrupts are ignored."""
        self.is_over = True
        if self.is_own:
            with suppress(ValueError):  # in a thread, which no signal reaches
                signal.signal(signal.SIGINT, signal.SIG_IGN)


def _first(_number: int, _frame: object) -> NoReturn:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    raise KeyboardInterrupt


process = Process()
