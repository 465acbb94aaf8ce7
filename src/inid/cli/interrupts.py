"""Interrupts of the process that runs the command: after its last word none changes the exit code.

An interrupt that comes while the interpreter ends would let it die by the signal, after an answer that was paid for.
"""

import signal
from contextlib import suppress

__all__ = ["Process", "process"]


class Process:
    """What the command may do about the signals of its process.

    Attributes:
        is_own: Whether the process runs the command and nothing else; elsewhere signals are left alone.
        is_over: Whether the last word was said.
    """

    is_own = False
    is_over = False

    def said(self) -> None:
        """The answer is out, or the sentence in its place is about to be: from now on interrupts are ignored."""
        self.is_over = True
        if self.is_own:
            with suppress(ValueError):  # in a thread, which no signal reaches
                signal.signal(signal.SIGINT, signal.SIG_IGN)


process = Process()
