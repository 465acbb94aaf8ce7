"""What other processes do to a ledger in the tests; here so that a fresh process can import it."""

import os
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Barrier
from pathlib import Path

import inid
from inid.accounting import Ledger

PRICE = 0.01
RUN_STEPS = 600


def small_plan() -> inid.NoisePlan:
    return inid.plan(inid.Sensitivity.box([1.0, 3.0]), inid.PureDP(epsilon=PRICE))


def race(address: str, name: str, total: inid.Budget, attempts: int, start: Barrier, results: "Queue[int]") -> None:
    """Try to charge so many times, all processes at once; report how often it succeeded."""
    plan, succeeded = small_plan(), 0
    start.wait()
    with Ledger.open(address, total=total, name=name) as ledger:
        for _ in range(attempts):
            try:
                ledger.charge(plan)
            except inid.BudgetError as error:
                if "no room" not in str(error):
                    raise
            else:
                succeeded += 1
    results.put(succeeded)


def release_forever(address: str, name: str, total: inid.Budget, released: Path) -> None:
    """Charge, then release (a line in a file), again and again until killed."""
    plan = small_plan()
    sink = os.open(released, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    with Ledger.open(address, total=total, name=name) as ledger:
        while True:
            receipt = ledger.charge(plan)
            os.write(sink, f"{receipt.id}\n".encode())


def open_and_report(address: str, name: str, total: inid.Budget, results: "Queue[str]") -> None:
    """Open the ledger and say which error came of it."""
    try:
        Ledger.open(address, total=total, name=name).close()
    except inid.InidError as error:
        results.put(f"{type(error).__name__}: {error}")
    else:
        results.put("opened")


def long_run() -> inid.Composition:
    step = inid.plan(inid.Sensitivity.ball(10, l2=1.0), inid.GaussianDP(0.1), mechanism="gaussian")
    return inid.subsample(step, rate=0.001, steps=RUN_STEPS)


def lease_forever(address: str, name: str, charge: int, taken: Path) -> None:
    """Lease steps of one charge, then take them (a line each in a file), until killed or until none is left."""
    sink = os.open(taken, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    with Ledger.open(address, name=name) as ledger:
        while True:
            try:
                steps = ledger.lease_steps(charge, 3)
            except inid.BudgetError:
                return
            os.write(sink, "".join(f"{step}\n" for step in steps).encode())
