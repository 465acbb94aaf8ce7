"""Private training on one GPU: a step of a GPT-2-sized transformer, beside the non-private step and Opacus.

    python -m bench.dpsgd_gpu                       # the table of docs/dpsgd.md, on a GPU
    python -m bench.dpsgd_gpu --device cpu --small  # the same code on a small model, to see that it runs

bfloat16 autocast, medians; every case in the same process, one after another, non-private steps before and after.
Ratios are to the non-private step on the same full physical batch. Opacus (pure Python) is taken from INID_BENCH_PEERS,
a folder of unpacked wheels, or from the environment. The signal lost to allowances is measured on some examples of the
first step, against norms in float64.
"""

import argparse
import gc
import json
import os
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from unittest import mock

import torch
from torch import Tensor, nn

from bench._transformer import Transformer, losses

SHAPES = ((128, 128), (32, 256), (8, 1024))
GOALS = {(128, 128): (1.6, 1.05, 1.1), (32, 256): (2.0, 1.1, 1.15), (8, 1024): (2.0, 1.1, 1.15)}
MEASURED = 3  # examples whose norms are worked out in float64


@dataclass
class Case:
    """One way to train: its steps, and what takes it down again."""

    step: Callable[[], None]
    prepare: Callable[[], None] = lambda: None
    lost: list[float] | None = None


@dataclass
class Job:
    """A model's size, a batch and where it lies."""

    count: int
    length: int
    device: str
    small: bool
    rounds: int

    def model(self) -> nn.Module:
        torch.manual_seed(0)
        sizes = {"tokens": 500, "width": 64, "layers": 2, "heads": 2} if self.small else {}
        return Transformer(length=self.length, **sizes).to(self.device)

    def batch(self) -> tuple[Tensor, Tensor]:
        drawn = torch.Generator().manual_seed(1)
        whole = torch.randint(0, 500 if self.small else 50257, (self.count, self.length + 1), generator=drawn)
        return whole[:, :-1].contiguous(), whole[:, 1:].contiguous()

    def cast(self) -> torch.autocast:
        return torch.autocast(self.device, dtype=torch.bfloat16)


def plain(job: Job) -> Case:
    model = job.model()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    x, y = (each.to(job.device) for each in job.batch())

    def step() -> None:
        optimizer.zero_grad()
        with job.cast():
            loss = losses(model(x), y).mean()
        loss.backward()
        optimizer.step()

    return Case(step)


def private(job: Job, clipping: str) -> Case:
    from torch.utils.data import DataLoader, TensorDataset

    from inid import dpsgd

    model = job.model()
    training = dpsgd.make_private(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=1e-3),
        data_loader=DataLoader(TensorDataset(*job.batch()), batch_size=job.count),
        noise_multiplier=1.0,
        max_grad_norm=0.1,
        clipping=clipping,
        max_physical_batch_size=job.count,
    )
    held: list[Tensor] = []

    def prepare() -> None:  # the rate is 1: the batch is everybody
        held[:] = [each.to(job.device) for each in next(iter(training.data_loader))]

    def step() -> None:
        x, y = held
        training.optimizer.zero_grad()
        with job.cast():
            loss = losses(training.module(x), y).mean()
        loss.backward()
        training.optimizer.step()

    lost = signal_lost(lambda: (prepare(), step()))
    return Case(step, prepare, lost)


def signal_lost(work: Callable[[], object]) -> list[float]:
    """By how much the norms that are divided by exceed the true ones, group by group, in a step."""
    from inid.dpsgd import clipped_sums
    from inid.dpsgd.fused_positions import Lookups, Positions

    original, found = vars(clipped_sums)["_norms"], []

    def true_square(own: object, at: int) -> Tensor:
        if isinstance(own, Positions):
            return (own.gradients[at].double().T @ own.inputs[at].double()).square().sum()
        if isinstance(own, Lookups):
            return (
                Lookups(own.tokens[at : at + 1], own.gradients[at : at + 1].double(), own.height).dense().square().sum()
            )
        return own.powers(2)[at]

    def watched(pieces: list, norm: int) -> Tensor:
        norms = original(pieces, norm)
        for at in range(min(MEASURED, len(norms))):
            true = sum(true_square(own, at) for _, own in pieces).sqrt()
            found.append(float(1 - true / norms[at]))
        return norms

    with mock.patch.object(clipped_sums, "_norms", watched):
        work()
    return found


def opacus_hooks(job: Job) -> Case:
    from opacus import GradSampleModule
    from opacus.optimizers import DPOptimizer

    model = GradSampleModule(job.model())
    optimizer = DPOptimizer(
        torch.optim.SGD(model.parameters(), lr=1e-3),
        noise_multiplier=1.0,
        max_grad_norm=0.1,
        expected_batch_size=job.count,
    )
    x, y = (each.to(job.device) for each in job.batch())

    def step() -> None:
        optimizer.zero_grad()
        with job.cast():
            loss = losses(model(x), y).mean()
        loss.backward()
        optimizer.step()

    return Case(step)


def opacus_ghost(job: Job) -> Case:
    from opacus.grad_sample import GradSampleModuleFastGradientClipping
    from opacus.optimizers import DPOptimizerFastGradientClipping
    from opacus.utils.fast_gradient_clipping_utils import DPTensorFastGradientClipping

    model = GradSampleModuleFastGradientClipping(job.model(), max_grad_norm=0.1, use_ghost_clipping=True)
    optimizer = DPOptimizerFastGradientClipping(
        torch.optim.SGD(model.parameters(), lr=1e-3),
        noise_multiplier=1.0,
        max_grad_norm=0.1,
        expected_batch_size=job.count,
    )
    x, y = (each.to(job.device) for each in job.batch())

    def step() -> None:
        optimizer.zero_grad()
        with job.cast():
            each = losses(model(x), y)
        DPTensorFastGradientClipping(model, optimizer, each, "mean").backward()
        optimizer.step()

    return Case(step)


def padding(job: Job) -> float:
    """The part of all rows that is padding where this many examples are expected in a batch, 1 in 100."""
    from torch.utils.data import DataLoader, TensorDataset

    from inid.dpsgd.poisson_loader import PoissonLoader

    return PoissonLoader(DataLoader(TensorDataset(torch.zeros(100 * job.count)), batch_size=job.count)).padding


def measured(job: Job, make: Callable[[Job], Case]) -> dict[str, object]:
    """The median milliseconds and the peak gigabytes of a step."""
    on_gpu = job.device == "cuda"
    wait = torch.cuda.synchronize if on_gpu else lambda: None
    gc.collect()
    if on_gpu:
        torch.cuda.empty_cache()
    case = make(job)
    for _ in range(3):
        case.prepare()
        case.step()
    if on_gpu:
        gc.collect()
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    times = []
    for _ in range(job.rounds):
        case.prepare()
        wait()
        start = time.perf_counter()
        case.step()
        wait()
        times.append(1000 * (time.perf_counter() - start))
    peak = torch.cuda.max_memory_allocated() / 2**30 if on_gpu else 0.0
    lost = case.lost or []
    return {
        "ms": statistics.median(times),
        "fastest": min(times),
        "GB": peak,
        "lost": statistics.mean(lost) if lost else None,
        "most lost": max(lost) if lost else None,
    }


CASES: dict[str, Callable[[Job], Case]] = {
    "non-private": plain,
    "inid, per layer": lambda job: private(job, "per_layer"),
    "inid, global": lambda job: private(job, "global"),
    "Opacus, ghost": opacus_ghost,
    "Opacus, hooks": opacus_hooks,
    "non-private again": plain,
}


def table(job: Job, names: list[str], profile: bool) -> None:
    """Measure every case and print its line."""
    print(f"\n{job.count} sequences of {job.length}, {job.device}\n")
    print(f"Padding, apart: {100 * padding(job):.0f} % of the rows at a sampling rate of 1/100.\n")
    print("| | ms per step | ratio | GB | memory | lost to allowances (most) |\n| --- | --- | --- | --- | --- | --- |")
    base: dict[str, object] | None = None
    for name in names:
        try:
            found = measured(job, CASES[name])
        except ImportError as error:
            print(f"| {name} | skipped: {error} | | | | |")
            continue
        except torch.OutOfMemoryError:
            print(f"| {name} | out of memory | | | | |", flush=True)
            continue
        base = base or found
        share = "" if found["lost"] is None else f"{100 * found['lost']:.1f} % ({100 * found['most lost']:.1f} %)"
        memory = f"{found['GB'] / base['GB']:.2f}" if base["GB"] else ""
        ratio = found["ms"] / base["ms"]
        print(f"| {name} | {found['ms']:.1f} | {ratio:.2f} | {found['GB']:.1f} | {memory} | {share} |", flush=True)
        print(json.dumps({"case": name, "shape": [job.count, job.length], **found}), file=sys.stderr, flush=True)
    if profile:
        profiled(job)


def profiled(job: Job) -> None:
    """What the GPU spends a private step on."""
    case = private(job, "per_layer")
    for _ in range(2):
        case.prepare()
        case.step()
    case.prepare()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        case.step()
        torch.cuda.synchronize()
    print(profile.key_averages().table(sort_by="cuda_time_total", row_limit=30, max_name_column_width=70))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--small", action="store_true", help="a small model")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--shapes", default=",".join(f"{count}x{length}" for count, length in SHAPES))
    parser.add_argument(
        "--cases", default=",".join(CASES).replace(", ", ";"), help="names, with ; for the comma within"
    )
    parser.add_argument("--profile", action="store_true", help="also what the GPU spends a per-layer step on")
    given = parser.parse_args()
    if given.device == "cuda" and not torch.cuda.is_available():
        print("No GPU here: nothing was measured. --device cpu --small shows that it runs.")
        return
    peers = os.environ.get("INID_BENCH_PEERS")
    if peers:
        sys.path.insert(0, peers)
    warnings.simplefilter("ignore")
    names = [name.replace(";", ", ") for name in given.cases.split(",")]
    for shape in given.shapes.split(","):
        count, length = (int(part) for part in shape.split("x"))
        table(Job(count, length, given.device, given.small, given.rounds), names, given.profile)


if __name__ == "__main__":
    main()
