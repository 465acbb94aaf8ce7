"""What an engine raises: its message stays inside, and an interrupt by the user stays an interrupt."""

import os
import signal
import threading

import pytest

from inid.tables.engines.guarded import EngineError, guarded


def _swallowing():
    """As DuckDB: the interrupt arrives, and an error of the engine's own comes out."""
    try:
        os.kill(os.getpid(), signal.SIGINT)
        signal.pause()
    except KeyboardInterrupt:
        raise RuntimeError("Query interrupted at row 7") from None


def test_an_interrupt_that_the_engine_turns_into_an_error_stays_one():
    with pytest.raises(KeyboardInterrupt):
        guarded(_swallowing, "run the query")
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_an_interrupt_inside_of_two_guards_stays_one():
    with pytest.raises(KeyboardInterrupt):
        guarded(lambda: guarded(_swallowing, "run the query"), "run the query")


def test_an_error_without_an_interrupt_is_the_engines():
    def fail():
        raise RuntimeError("Query interrupted at row 7")

    with pytest.raises(EngineError, match="RuntimeError") as caught:
        guarded(fail, "run the query")
    assert "row 7" not in str(caught.value)


def test_a_handler_of_somebody_else_stays_theirs():
    def theirs(*_):
        pass

    before = signal.signal(signal.SIGINT, theirs)
    try:
        assert guarded(lambda: signal.getsignal(signal.SIGINT), "run the query") is theirs
    finally:
        signal.signal(signal.SIGINT, before)


def test_other_threads_run_without_handlers():
    found = []
    thread = threading.Thread(target=lambda: found.append(guarded(lambda: 3, "run the query")))
    thread.start()
    thread.join()
    assert found == [3]
