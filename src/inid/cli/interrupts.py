"""Interrupts of the process that runs the command: one counts at a time, and after its last word none does.

Ctrl+C (SIGINT) and a request to end (SIGTERM: `kill`, `timeout`, a service that is stopped) are answered alike, by what
became of the charge; only the exit code differs.

A second one that comes while the first is answered would take the place of what is said about the charge, so it is
ignored for a while; not for ever, since a library that is being loaded may swallow the first. One that comes while the
interpreter ends would let it die by the signal, after an answer that was paid for.
"""

import math
import signal
import time
from contextlib import suppress
from typing import Any

_PATIENCE = 2.0  # seconds
_USUAL: dict[signal.Signals, Any] = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}


class Process:
    """What the command may do about the signals of its process."""

    is_command = False
    is_over = False
    interrupted = -math.inf
    number = int(signal.SIGINT)

    @property
    def code(self) -> int:
        """The exit code after an interrupt, as shells count it: 128 and the number of the signal."""
        return 128 + self.number

    def start(self) -> None:
        """The process is the command's own: of its interrupts one counts at a time."""
        self.is_command = True
        for number, usual in _USUAL.items():
            if signal.getsignal(number) is usual:  # else whoever started it wants none
                with suppress(ValueError):  # in a thread
                    signal.signal(number, _one_at_a_time)

    def serve(self) -> None:
        """The command runs until it is interrupted, and says nothing then: every interrupt counts, as usual."""
        for number, usual in _USUAL.items():
            if signal.getsignal(number) is _one_at_a_time:
                signal.signal(number, usual)

    def finish(self) -> None:
        """The answer is out, or the sentence in its place is about to be: from now on interrupts are ignored."""
        self.is_over = True
        if self.is_command:
            with suppress(ValueError):  # in a thread, which no signal reaches
                for number in _USUAL:
                    signal.signal(number, signal.SIG_IGN)


def _one_at_a_time(number: int, _frame: object) -> None:
    now = time.monotonic()
    if now - process.interrupted < _PATIENCE:
        return
    process.interrupted, process.number = now, number
    raise KeyboardInterrupt


process = Process()
