"""Many processes on one ledger: nothing is spent twice, and nothing released is ever missing from the record."""

import multiprocessing
import os
import random
import signal
import time
from pathlib import Path

import pytest

import inid
from inid.accounting import Ledger
from integration import ledger_children

# Children are forked from a server that has already imported the library: a hundred of them start within seconds.
CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["integration.ledger_children", "inid.accounting.databases", "psycopg"])


@pytest.mark.parametrize("run", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_exactly_as_many_charges_succeed_as_fit(address: str, name: str, run: int) -> None:
    processes, attempts, fits = 8, 50, 100
    total = inid.PureDP(epsilon=fits * ledger_children.PRICE)
    start, results = CONTEXT.Barrier(processes), CONTEXT.Queue()
    children = [
        CONTEXT.Process(target=ledger_children.race, args=(address, name, total, attempts, start, results))
        for _ in range(processes)
    ]
    for child in children:
        child.start()
    succeeded = [results.get(timeout=60) for _ in children]
    for child in children:
        child.join(timeout=60)
    assert [child.exitcode for child in children] == [0] * processes
    assert sum(succeeded) == fits
    with Ledger.open(address, name=name) as ledger:
        history = ledger.history()
        assert [record.id for record in history] == list(range(1, fits + 1))
        assert ledger.spent().epsilon == 1
        assert ledger.remaining().epsilon == 0


@pytest.mark.parametrize("kills", [30, pytest.param(100, marks=pytest.mark.slow)])
def test_a_killed_process_never_leaves_a_release_unrecorded(
    address: str, name: str, tmp_path: Path, kills: int
) -> None:
    total, moments = inid.PureDP(epsilon=1000.0), random.Random(20240511)  # noqa: S311 - moments, not secrets
    released = tmp_path / "released"
    released.touch()
    Ledger.open(address, total=total, name=name).close()
    for _ in range(kills):
        before = released.stat().st_size
        child = CONTEXT.Process(target=ledger_children.release_forever, args=(address, name, total, released))
        child.start()
        deadline = time.monotonic() + 60
        while released.stat().st_size == before:  # let it get going, then strike at any point of the cycle
            assert time.monotonic() < deadline
            time.sleep(0.001)
        time.sleep(moments.uniform(0, 0.02))
        assert child.pid is not None
        os.kill(child.pid, signal.SIGKILL)
        child.join(timeout=60)
        assert child.exitcode == -signal.SIGKILL
    with Ledger.open(address, name=name) as ledger:
        recorded = [record.id for record in ledger.history()]
    shown = [int(line) for line in released.read_text().split()]
    assert len(set(shown)) == len(shown) >= kills
    assert set(shown) <= set(recorded)
    assert recorded == list(range(1, len(recorded) + 1))
    # At most one charge per killed process was paid for and not released.
    assert len(recorded) - len(shown) <= kills


def test_processes_that_are_killed_never_take_a_step_twice(address: str, name: str, tmp_path: Path) -> None:
    """Four at a time lease steps of one charge and are killed at any moment: every number is taken at most once."""
    taken, moments = tmp_path / "taken", random.Random(7)  # noqa: S311 - moments, not secrets
    taken.touch()
    with Ledger.open(address, total=inid.ApproxDP(3.0, 1e-6), name=name) as ledger:
        receipt = ledger.charge(ledger_children.long_run())
    arguments = (address, name, receipt.id, taken)
    for _ in range(5):
        children = [CONTEXT.Process(target=ledger_children.lease_forever, args=arguments) for _ in range(4)]
        for child in children:
            child.start()
        time.sleep(moments.uniform(0.1, 0.4))
        for child in children:
            assert child.pid is not None
            os.kill(child.pid, signal.SIGKILL)
            child.join(timeout=60)
    ledger_children.lease_forever(*arguments)  # the rest
    steps = [int(line) for line in taken.read_text().split()]
    assert len(set(steps)) == len(steps) > 0
    assert max(steps) < ledger_children.RUN_STEPS
    with Ledger.open(address, name=name) as ledger:
        assert ledger.steps_left(receipt) == 0
        assert len(ledger.history()) == 1


def test_a_second_process_with_another_total_is_refused(address: str, name: str) -> None:
    with Ledger.open(address, total=inid.PureDP(epsilon=1.0), name=name) as ledger:
        for total, answer in [(inid.PureDP(epsilon=2.0), "BudgetError"), (inid.PureDP(epsilon=1.0), "opened")]:
            results = CONTEXT.Queue()
            child = CONTEXT.Process(target=ledger_children.open_and_report, args=(address, name, total, results))
            child.start()
            assert results.get(timeout=60).startswith(answer)
            child.join(timeout=60)
        assert ledger.total == inid.PureDP(epsilon=1.0)
        assert ledger.spent().epsilon == 0
