"""What an engine raises: its message stays inside, and an interrupt by the user stays an interrupt."""

import os
import signal
import threading
import time

import pytest

from inid.tables.engines import EngineError, guarded


def _swallowing():
    """As DuckDB: the interrupt arrives, and an error of the engine's own comes out."""
    try:
        os.kill(os.getpid(), signal.SIGINT)
        signal.pause()
    except KeyboardInterrupt:
        raise RuntimeError("Query interrupted at row 7") from None


def _another(number, frame):
    """As Spark's, which cancels its jobs and then raises."""
    raise KeyboardInterrupt


@pytest.fixture(params=[signal.default_int_handler, _another], ids=["python", "another"])
def handler(request):
    """The handler of interrupts: Python's, or one that somebody else has installed."""
    before = signal.signal(signal.SIGINT, request.param)
    yield request.param
    signal.signal(signal.SIGINT, before)


def test_an_interrupt_that_the_engine_turns_into_an_error_stays_one(handler):
    with pytest.raises(KeyboardInterrupt):
        guarded(_swallowing, "run the query")
    assert signal.getsignal(signal.SIGINT) is handler


def test_an_interrupt_inside_of_two_guards_stays_one(handler):
    with pytest.raises(KeyboardInterrupt):
        guarded(lambda: guarded(_swallowing, "run the query"), "run the query")
    assert signal.getsignal(signal.SIGINT) is handler


def test_an_error_without_an_interrupt_is_the_engines():
    def fail():
        raise RuntimeError("Query interrupted at row 7")

    with pytest.raises(EngineError, match="RuntimeError") as caught:
        guarded(fail, "run the query")
    assert "row 7" not in str(caught.value)


def test_a_handler_that_raises_nothing_turns_no_error_into_an_interrupt(handler):
    signals = []
    signal.signal(signal.SIGINT, lambda number, frame: signals.append(number))

    def fail():
        os.kill(os.getpid(), signal.SIGINT)
        while not signals:
            time.sleep(0.001)
        raise RuntimeError("Query interrupted at row 7")

    with pytest.raises(EngineError):
        guarded(fail, "run the query")
    assert signals == [signal.SIGINT]


def test_a_handler_that_the_work_installs_stays(handler):
    def install():
        signal.signal(signal.SIGINT, _another)

    guarded(install, "run the query")
    assert signal.getsignal(signal.SIGINT) is _another


def test_other_threads_run_without_handlers():
    found = []
    thread = threading.Thread(target=lambda: found.append(guarded(lambda: 3, "run the query")))
    thread.start()
    thread.join()
    assert found == [3]
