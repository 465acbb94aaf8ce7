"""Planning and verifying many coordinates, against passes of np.cbrt over the same array."""

import time
import tracemalloc
from collections.abc import Callable


def fastest(work: Callable[[], object], repeats: int = 7) -> float:
    """The least of several wall-clock times: on a noisy machine the others measure the neighbours."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def main() -> None:
    import numpy as np

    import inid

    values = np.random.default_rng(0).lognormal(size=10**7)
    cases: dict[str, inid.Budget] = {"laplace": inid.PureDP(1.0), "gaussian": inid.ApproxDP(1.0, 1e-6)}
    for mechanism, budget in cases.items():

        def both(budget: inid.Budget = budget, mechanism: str = mechanism) -> None:
            inid.plan(inid.Sensitivity.box(values), budget, mechanism=mechanism).verify()

        one_pass, planned = fastest(lambda: np.cbrt(values)), fastest(both)
        tracemalloc.start()
        both()
        memory = tracemalloc.get_traced_memory()[1] / values.nbytes
        tracemalloc.stop()
        ratio = planned / one_pass
        print(f"plan and verify 10^7 coordinates, {mechanism}: {ratio:.1f} passes of np.cbrt (at most 15)")
        print(f"  at its peak {memory:.1f} arrays of the input's size beside the input (at most 8)")
    sizes, norms = [10**6] * 1000, np.linspace(0.1, 2.0, 1000)
    for norm in ("l1", "l2"):
        for mechanism, budget in cases.items():

            def grouped(norm: str = norm, budget: inid.Budget = budget, mechanism: str = mechanism) -> None:
                inid.plan(inid.Sensitivity.groups(sizes, **{norm: norms}), budget, mechanism=mechanism)

            took = fastest(grouped) * 1e3
            print(f"plan 10^9 coordinates in 10^3 {norm} groups, {mechanism}: {took:.2f} ms (at most 10)")


if __name__ == "__main__":
    main()
