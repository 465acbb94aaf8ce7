"""Exact noise against NumPy's textbook samplers and against OpenDP, in one run.

Every line is a ratio: samples per second of `inid.noise.add_noise` (checking, drawing, adding, rounding to the grid)
over those of the peer. NumPy's samplers are not safe to release; OpenDP's are, and are given one common scale, which is
all that its vector mechanisms take. Staircase noise (drawing and adding, in cells of five numbers that are drawn
jointly) has no peer: its ratio is to the Laplace noise of the same path.

OpenDP lives in an environment of its own: set INID_BENCH_PYTHON to an interpreter that can import it.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import statistics
import subprocess
import time
from collections.abc import Callable

import numpy as np

from bench._result_table import ResultTable
from inid import PureDP, Sensitivity, plan
from inid.noise import BlockLaw, RandomSource, add_noise, available, draw_blocks

SIZE = 1_000_000
ROUNDS = 15
CELL = 5  # numbers that are drawn jointly

OPENDP = """
import time, opendp.prelude as dp
dp.enable_features("contrib")
size = 50_000
values = [float(i % 1000) for i in range(size)]
for name, make, metric in (
    ("laplace", dp.m.make_laplace, dp.l1_distance(T=float)),
    ("gaussian", dp.m.make_gaussian, dp.l2_distance(T=float)),
):
    measurement = make(dp.vector_domain(dp.atom_domain(T=float, nan=False)), metric, scale=3.0)
    measurement(values[:1000])
    times = []
    for _ in range(3):
        start = time.perf_counter()
        measurement(values)
        times.append(time.perf_counter() - start)
    print(name, sorted(times)[1] / size)
"""


Contestants = dict[str, Callable[[], object]]


def peers(rng: np.random.Generator, values: np.ndarray, scales: np.ndarray) -> dict[str, Contestants]:
    """What NumPy users write, and the fastest that they could write."""

    def laplace_idiom() -> np.ndarray:
        noise = rng.standard_exponential(SIZE)
        noise -= rng.standard_exponential(SIZE)
        noise *= scales
        noise += values
        return noise

    def gaussian_idiom() -> np.ndarray:
        noise = rng.standard_normal(SIZE)
        noise *= scales
        noise += values
        return noise

    return {
        "laplace": {"Generator.laplace": lambda: rng.laplace(0.0, scales), "fastest idiom": laplace_idiom},
        "gaussian": {"Generator.normal": lambda: rng.normal(0.0, scales), "fastest idiom": gaussian_idiom},
    }


def seconds_per_sample(functions: Contestants) -> dict[str, float]:
    """Median times, the contestants taking turns so that a busy machine hurts all alike."""
    times: dict[str, list[float]] = {name: [] for name in functions}
    for turn in range(ROUNDS + 2):
        for name, function in functions.items():
            start = time.perf_counter()
            function()
            if turn >= 2:
                times[name].append(time.perf_counter() - start)
    return {name: statistics.median(own) / SIZE for name, own in times.items()}


def staircase_laws() -> dict[str, BlockLaw]:
    """A cell's counts, which stay whole, and its sums on a fine grid."""
    noise = plan(Sensitivity.box([1.0] * CELL), PureDP(1.0), mechanism="staircase")
    ((_, sums),) = noise.drawn
    return {"staircase, counts": BlockLaw((1,) * CELL, (0,) * CELL, sums.rho), "staircase, sums": sums}


def staircase(law: BlockLaw, exact: np.ndarray, *, compiled: bool) -> np.ndarray:
    """Whole numbers with noise that is drawn jointly in cells."""
    return exact + draw_blocks(law, SIZE // CELL, RandomSource(), compiled=compiled)


def opendp_times() -> dict[str, float]:
    """Seconds per sample of OpenDP's vector mechanisms, from a subprocess of its own environment."""
    python = os.environ.get("INID_BENCH_PYTHON")
    if not python:
        print("OpenDP: skipped, INID_BENCH_PYTHON names no interpreter that has it (bench/requirements.txt).")
        return {}
    run = subprocess.run([python, "-c", OPENDP], capture_output=True, text=True, check=False)
    if run.returncode:
        reason = run.stderr.strip().splitlines()[-1:] or ["no message"]
        print(f"OpenDP: skipped, {python} failed: {reason[0]}")
        return {}
    return {name: float(time_) for name, time_ in (line.split() for line in run.stdout.splitlines())}


def main() -> None:
    """Print the table."""
    rng = np.random.default_rng()
    values, scales = rng.normal(size=SIZE) * 100, rng.uniform(1.0, 9.0, SIZE)
    others = opendp_times()
    paths = {"NumPy only": False} | ({"compiled": True} if available() else {})
    if "compiled" not in paths:
        print("compiled path: skipped, numba is not installed or INID_COMPILED=0.")
    lines = ResultTable(
        "noise-speed",
        f"Exact noise for {SIZE:,} different scales; a ratio above 1 means that inid is faster",
        ("mechanism", "path", "million draws per second", "ratios"),
        peers="NumPy's generators" + ("; OpenDP" if others else ""),
        command="python -m bench.noise",
    )
    for mechanism, contestants in peers(rng, values, scales).items():
        ours = {
            path: lambda m=mechanism, c=compiled: add_noise(values, scales, m, compiled=c)
            for path, compiled in paths.items()
        }
        times = seconds_per_sample({**contestants, **ours})
        if mechanism in others:
            times["OpenDP"] = others[mechanism]
        for path in paths:
            ratios = ", ".join(f"{peer} {times[peer] / times[path]:.2f}" for peer in times if peer not in paths)
            lines.add(mechanism, path, f"{1e-6 / times[path]:.1f}", ratios)
    exact = rng.integers(0, 1 << 40, (SIZE // CELL, CELL))
    for path, compiled in paths.items():
        ours = {
            name: lambda law=law, c=compiled: staircase(law, exact, compiled=c)
            for name, law in staircase_laws().items()
        }
        times = seconds_per_sample(
            {"laplace": lambda c=compiled: add_noise(values, scales, "laplace", compiled=c), **ours}
        )
        for name in ours:
            ratio = f"inid's Laplace noise {times['laplace'] / times[name]:.2f}"
            lines.add(name, path, f"{1e-6 / times[name]:.1f}", ratio)
    lines.write()


if __name__ == "__main__":
    main()
