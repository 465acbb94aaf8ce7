"""Curves and plans that were slow, against plainer forms of the same calls in the same run (processor time).

Few subsampled Laplace steps near their largest loss: the plain form gives every loss above the common ones its lattice
points and always draws a contour. Many coordinates under a subsampled step: the plain form convolves a step anew each
time. A box of 3,000 with both caps: against passes of np.sort over its limits.
"""

import time
from collections.abc import Callable
from functools import partial
from unittest import mock

import numpy as np

import inid
from inid.curves import Loss, Subsampled, certified_epsilon
from internals import module_with

bounds = module_with("inid.curves", "certified_delta")
subsampling = module_with("inid.curves", "sketches")
suprema = module_with("inid.sets", "supremum")


def fastest(call: Callable[[], object], repeats: int = 3) -> float:
    """The least of several processor times."""
    times = []
    for _ in range(repeats):
        start = time.process_time()
        call()
        times.append(time.process_time() - start)
    return min(times)


def few_steps() -> None:
    for ratio, rate, steps, delta in ((1.0, 0.01, 3, 1e-12), (0.1, 0.1, 5, 1e-12), (0.5, 0.5, 2, 1e-6)):
        loss = Subsampled(Loss(np.array([ratio])), rate, steps)
        quick = fastest(partial(certified_epsilon, loss, delta))
        with (
            mock.patch.object(subsampling, "_least_log_moment", return_value=0.0),
            mock.patch.object(bounds, "_NEAR", -1),
        ):
            plain = fastest(partial(certified_epsilon, loss, delta), 1)
        print(f"{steps} Laplace steps of ratio {ratio:g}, rate {rate:g}, epsilon({delta:g}): {quick:.2f} s", end="")
        print(f", {quick / plain:.0%} of the plain form (at most 33 %)", flush=True)


def subsampled_box() -> None:
    box = inid.Sensitivity.box(np.geomspace(1.0, 10.0, 300))
    loss = Subsampled(inid.plan(box, inid.PureDP(1.0), mechanism="laplace").privacy_loss(), 0.1, 10)
    kept = subsampling._convolved  # noqa: SLF001 - the part that is compared with its plain form
    kept.cache_clear()
    quick = fastest(lambda: certified_epsilon(loss, 1e-6), 1)
    with mock.patch.object(subsampling, "_convolved", kept.__wrapped__):
        plain = fastest(lambda: certified_epsilon(loss, 1e-6), 1)
    print(f"10 subsampled steps of a box of 300 under PureDP, epsilon(1e-6): {quick:.2f} s", end="")
    print(f", {quick / plain:.0%} of the plain form", flush=True)


def both_caps() -> None:
    limits = np.random.default_rng(0).lognormal(size=3000)
    box = inid.Sensitivity.box(limits, l1=float(limits.sum()) / 4, l2=float(np.linalg.norm(limits)) / 2)

    def anew(promise: inid.Budget) -> None:
        suprema._remembered.cache_clear()  # noqa: SLF001 - a second plan of the same box is nearly free
        inid.plan(box, promise, mechanism="laplace")

    sorting = fastest(lambda: [np.sort(limits) for _ in range(1000)]) / 1000
    for promise in (inid.PureDP(1.0), inid.ApproxDP(1.0, 1e-6)):
        quick = fastest(partial(anew, promise))
        print(f"Laplace plan of a box of 3,000 with both caps, {promise}: {quick:.2f} s", end="")
        print(f", {quick / sorting:.0f} sorts of its limits", flush=True)


def main() -> None:
    few_steps()
    subsampled_box()
    both_caps()


if __name__ == "__main__":
    main()
