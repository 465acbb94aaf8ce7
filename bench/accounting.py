"""Certified curves against dp_accounting's PLD accountant, in the same run.

1000 different Laplace ratios (delta(2) = 1.10318148e-4, epsilon(1e-6) = 2.641692), a million, and subsampled Gaussian
steps; then the time of calibrating training, over a grid of promises. Prints times (medians), answers and ratios. Run
it with OMP_NUM_THREADS=1 (and the like of your BLAS): contention between threads makes timings meaningless.
"""

import itertools
import statistics
import time
from collections.abc import Callable

import numpy as np

from inid.curves import (
    Loss,
    Subsampled,
    certified_epsilon,
    delta_bounds,
    delta_estimate,
    epsilon_bounds,
    epsilon_estimate,
    least_noise_multiplier,
)

DELTA_AT_TWO, EPSILON_AT_MICRO = 1.10318148e-4, 2.641692


def median(call: Callable[[], object], repeats: int) -> tuple[float, object]:
    """(seconds, answer) of a call, after one that is not counted."""
    answer = call()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        answer = call()
        times.append(time.perf_counter() - start)
    return statistics.median(times), answer


def peer(ratios: np.ndarray) -> tuple[float, float, float] | None:
    """(seconds to compose and answer once, delta(2), epsilon(1e-6)) of dp_accounting, or None without it."""
    try:
        import dp_accounting
        from dp_accounting.pld import pld_privacy_accountant
    except ImportError:
        return None

    def answer() -> tuple[float, float]:
        accountant = pld_privacy_accountant.PLDAccountant()
        for ratio in ratios:
            accountant.compose(dp_accounting.LaplaceDpEvent(1 / ratio))
        return accountant.get_delta(2.0), accountant.get_epsilon(1e-6)

    seconds, (delta, epsilon) = median(answer, 3)
    return seconds, delta, epsilon


def peer_subsampled() -> tuple[float, float] | None:
    try:
        import dp_accounting
        from dp_accounting.pld import pld_privacy_accountant
    except ImportError:
        return None

    def answer() -> float:
        accountant = pld_privacy_accountant.PLDAccountant()
        event = dp_accounting.PoissonSampledDpEvent(0.01, dp_accounting.GaussianDpEvent(1.0))
        accountant.compose(dp_accounting.SelfComposedDpEvent(event, 1000))
        return accountant.get_epsilon(1e-5)

    return median(answer, 3)


def calibrations() -> None:
    """The least noise multiplier of Gaussian steps and its processor time, over a grid of ordinary parameters."""
    print("least noise multiplier (processor seconds), by rate and steps")
    rates, numbers = (1e-4, 0.01, 0.5, 1.0), (1, 100, 10**5)
    print(" " * 16 + "".join(f"{f'{rate:g} x {steps}':>18}" for rate, steps in itertools.product(rates, numbers)))
    slowest = 0.0
    for epsilon, delta in itertools.product((0.01, 0.1, 1.0, 10.0), (1e-3, 1e-6, 1e-12)):
        row = []
        for rate, steps in itertools.product(rates, numbers):
            start = time.process_time()
            found = least_noise_multiplier(epsilon, delta, rate, steps)
            seconds = time.process_time() - start
            slowest = max(slowest, seconds)
            row.append(f"{found:.5g} ({seconds:.2f})")
        print(f"({epsilon:g}, {delta:g})".ljust(16) + "".join(f"{entry:>18}" for entry in row), flush=True)
    print(f"  slowest: {slowest:.2f} s")


def main() -> None:
    shape = np.geomspace(1e-3, 1, 1000)
    loss = Loss(shape / shape.sum() * 10)
    print("1000 different ratios, sum 10")
    delta_seconds, delta = median(lambda: delta_bounds(loss, 2.0), 9)
    epsilon_seconds, epsilon = median(lambda: epsilon_bounds(loss, 1e-6), 9)
    rough_seconds, rough = median(lambda: delta_estimate(loss, 2.0), 9)
    search_seconds, search = median(lambda: epsilon_estimate(loss, 1e-6), 9)
    print(f"  inid certified delta(2)      {1e3 * delta_seconds:8.1f} ms  [{delta[0]:.7e}, {delta[1]:.7e}]", end="")
    print(f"  upper {delta[1] / DELTA_AT_TWO - 1:+.1e} relative")
    print(
        f"  inid certified epsilon(1e-6) {1e3 * epsilon_seconds:8.1f} ms  [{epsilon[0]:.7f}, {epsilon[1]:.7f}]", end=""
    )
    print(f"  upper {epsilon[1] / EPSILON_AT_MICRO - 1:+.1e} relative")
    print(f"  inid estimate  delta(2)      {1e3 * rough_seconds:8.1f} ms  {rough:.7e}")
    print(f"  inid estimate  epsilon(1e-6) {1e3 * search_seconds:8.1f} ms  {search:.7f}")
    theirs = peer(loss.ratios)
    if theirs is None:
        print("  dp_accounting is not installed: no ratio")
    else:
        seconds, their_delta, their_epsilon = theirs
        print(f"  dp_accounting, both          {1e3 * seconds:8.1f} ms  {their_delta:.7e}, {their_epsilon:.7f}")
        print(f"  ratio: delta {seconds / delta_seconds:.0f}x, epsilon {seconds / epsilon_seconds:.0f}x,", end="")
        print(f" both together {seconds / (delta_seconds + epsilon_seconds):.0f}x faster")

    million = Loss(np.random.default_rng(0).lognormal(0, 1, 10**6) * 1e-5)
    delta_seconds, delta = median(lambda: delta_bounds(million, 0.06), 3)
    epsilon_seconds, epsilon = median(lambda: epsilon_bounds(million, 1e-6), 3)
    print("a million different ratios")
    print(f"  inid certified delta(0.06)   {1e3 * delta_seconds:8.1f} ms  [{delta[0]:.7e}, {delta[1]:.7e}]")
    print(f"  inid certified epsilon(1e-6) {1e3 * epsilon_seconds:8.1f} ms  [{epsilon[0]:.7f}, {epsilon[1]:.7f}]")

    step = Subsampled(Loss(mu=1.0), 0.01, 1000)
    seconds, upper = median(lambda: certified_epsilon(step, 1e-5), 3)
    print("1000 subsampled Gaussian steps, rate 0.01, mu 1, delta 1e-5")
    print(f"  inid certified               {1e3 * seconds:8.1f} ms  {upper:.6f}")
    other = peer_subsampled()
    if other is not None:
        print(f"  dp_accounting                {1e3 * other[0]:8.1f} ms  {other[1]:.6f}")
        print(f"  ratio: {other[0] / seconds:.1f}x faster")
    calibrations()


if __name__ == "__main__":
    main()
