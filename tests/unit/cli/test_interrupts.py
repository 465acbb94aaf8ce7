"""One interrupt counts at a time, and a swallowed one does not keep later ones from counting."""

import math
import time

import pytest

from internals import module_with

interrupts = module_with("inid.cli", "Process")


def test_a_second_interrupt_counts_when_the_first_was_swallowed(monkeypatch):
    clock = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(interrupts.process, "interrupted", -math.inf)
    for at, counts in ((100.0, True), (100.5, False), (101.9, False), (102.1, True), (103.0, False)):
        clock[0] = at
        if counts:
            with pytest.raises(KeyboardInterrupt):
                interrupts._one_at_a_time(2, None)
        else:
            interrupts._one_at_a_time(2, None)
