"""Streams: the error of totals and windows against independent periods and the optimum, and the time to plan.

Errors are exact: the root mean square of the standard deviations of all totals, or windows, over that of one period's
own release. The optimum of totals (one period per person, mu = 1) is that of a convex program, to two digits.
"""

import time

import pandas as pd

import inid
from inid import tables

__all__ = ["main"]

OPTIMA = {12: 1.61, 52: 2.04, 365: 2.63}
SEVERAL = ((12, 3), (52, 12), (12, 12))


def _plan(periods: int, contributes: int = 1, **changes: object) -> tables.StreamPlan:
    frame = pd.DataFrame({"person": ["a"]})
    unit = tables.Person("person", 1) if contributes > 1 else "row"
    facts: dict[str, object] = {"query": {"count": True}, "periods": range(periods), "contributes": contributes}
    facts |= {"promise": inid.GaussianDP(mu=1.0)} | changes
    return tables.plan_stream(tables.Table(frame, unit=unit), **facts)  # type: ignore[arg-type]


def _seconds(periods: int, **changes: object) -> float:
    best = float("inf")
    for _ in range(3):
        start = time.perf_counter()
        _plan(periods, **changes)  # type: ignore[arg-type]
        best = min(best, time.perf_counter() - start)
    return best


def main() -> None:
    """Print one line per case."""
    print("totals, one period per person: error, over the optimum, independent periods over it")
    for periods, optimum in OPTIMA.items():
        made = _plan(periods).choice
        print(f"  {periods:>5} periods: {made.error:.3f}, {made.error / optimum:.4f}, {made.gain:.3f} times")
    print("totals, several periods per person: error, independent periods over it")
    for periods, times in SEVERAL:
        made = _plan(periods, times).choice
        print(f"  {periods:>5} periods, {times} each: {made.error:.3f}, {made.gain:.3f} times")
    print("windows, one period per person: error, independent periods over it")
    for periods, window in ((12, 3), (52, 4), (365, 30)):
        made = _plan(periods, want="windows", window=window).choice
        print(f"  {periods:>5} periods, windows of {window}: {made.error:.3f}, {made.gain:.3f} times")
    print("totals with Laplace noise, epsilon = 1: standard deviation, independent periods over it")
    for periods in OPTIMA:
        made = _plan(periods, promise=inid.PureDP(1.0)).choice
        print(f"  {periods:>5} periods: {2**0.5 * made.error:.3f}, {made.gain:.3f} times, {made.strategy.name}")
    print("seconds to plan 1,000 and 10,000 periods, and their ratio")
    for name, changes in (("totals", {}), ("pure", {"promise": inid.PureDP(1.0)}), ("3 each", {"contributes": 3})):
        few, many = _seconds(1_000, **changes), _seconds(10_000, **changes)
        print(f"  {name}: {few:.3f}, {many:.3f}, {many / few:.1f} times")


if __name__ == "__main__":
    main()
