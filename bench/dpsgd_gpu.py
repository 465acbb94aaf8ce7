"""Private training on one GPU: transformers, ResNet-20 and Hugging Face's own models, beside plain steps and Opacus.

    python -m bench.dpsgd_gpu                       # writes results/bench/training-gpu-*.md
    python -m bench.dpsgd_gpu --device cpu --small  # the same code on small models, to see that it runs
    python -m bench.dpsgd_gpu --jobs 'bert;vit;gpt2' --rounds 12
    python -m bench.dpsgd_gpu --large               # a Llama of 1.2 billion weights, whole and by adapters

Medians; every case in the same process, one after another, non-private steps before and after. Ratios are to the
fastest non-private loop of the run, on the same full physical batch; "recorded" is a CUDA graph of forward and backward
(`dpsgd.captured_backward`; for plain steps torch's own), and has a second ratio, to the recorded plain step. Batches
are drawn before the clock starts, and what drawing takes is printed apart, as is what padding costs. Memory is the
peak of a step, and apart that of the first, in which the model is checked. Opacus (pure Python) is taken from
INID_BENCH_PEERS, a folder of unpacked wheels, or from the environment. The signal lost to allowances is measured on
some examples of the first step, against norms in float64.
"""

import argparse
import cProfile
import gc
import json
import os
import pstats
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any
from unittest import mock

import torch
from torch import Tensor

from bench._gpu_jobs import Job, ResNetJob
from bench._hugging_face import SHAPES, HuggingFaceJob
from bench._large_models import LARGE, LargeJob
from bench._result_table import ResultTable, this_machine
from internals import module_with

MEASURED = 3  # examples whose norms are worked out in float64
# Most times the plain step and most memory, per layer and globally, and the most signal lost to allowances.
GOALS: dict[str, tuple[tuple[float, float | None], tuple[float, float | None], float | None]] = {
    "128x128": ((1.6, 1.05), (1.6, 1.1), 0.06),
    "32x256": ((2.0, 1.1), (2.0, 1.15), 0.10),
    "8x1024": ((2.0, 1.1), (2.0, 1.15), 0.13),
    "resnet": ((1.25, None), (1.1, None), 0.001),
    "bert": ((1.5, None), (1.5, None), 0.06),
    "vit": ((1.5, None), (1.5, None), 0.06),
    "gpt2": ((1.5, None), (1.5, None), 0.06),
    "llama": ((1.35, 1.15), (1.35, 1.15), None),
    "llama-checkpointed": ((1.35, 1.15), (1.35, 1.15), None),
    "lora": ((1.15, 1.05), (1.15, 1.05), None),
}
USUAL = [name for name in GOALS if name not in LARGE]
LARGE_CASES = ["non-private", "inid per layer", "inid global", "non-private again"]


@dataclass
class Case:
    """One way to train: its steps, what draws their batches, and what was lost of the signal."""

    step: Callable[[], None]
    prepare: Callable[[], None] = lambda: None
    lost: list[float] | None = None
    warm: int = 3
    whole_peak: bool = False  # the peak is that of the first steps, in which a recording takes its memory


def plain(job: Job, layout: torch.memory_format = torch.contiguous_format, *, recorded: bool = False) -> Case:
    model = job.model().to(memory_format=layout)
    optimizer = job.optimizer(model)
    x, y = job.batch()
    x = x.to(memory_format=layout) if x.ndim == 4 else x

    def ordinary() -> None:
        optimizer.zero_grad()
        job.loss(model, x, y).backward()
        optimizer.step()

    if not recorded:
        return Case(ordinary)
    for _ in range(3):
        ordinary()
    optimizer.zero_grad()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        job.loss(model, x, y).backward()

    def step(_read: object = (model, x, y)) -> None:  # what the graph reads must stay where it is
        graph.replay()
        optimizer.step()

    return Case(step, whole_peak=True)


def private(job: Job, clipping: str, *, recorded: bool = False, bands: int = 1) -> Case:
    from torch.utils.data import DataLoader, TensorDataset

    from inid import dpsgd

    model = job.model()
    made = dpsgd.make_private(
        module=model,
        optimizer=job.optimizer(model),
        # As many batches as bands: each group holds one.
        data_loader=DataLoader(TensorDataset(*(torch.cat([x] * bands) for x in job.data())), batch_size=job.mean()),
        noise_multiplier=1.0,
        steps=10**4,
        correlation=dpsgd.Banded(bands),
        max_grad_norm=job.bound,
        clipping=clipping,
        sampling=dpsgd.Sampling(max_physical_batch_size=job.rows()),
    )
    held: list[Tensor] = []
    source = endless(made.data_loader)
    captured = dpsgd.captured_backward(made, lambda x, y: job.private_loss(made, x, y))

    def prepare() -> None:
        held[:] = [each.to(job.device) for each in next(source)]

    def step() -> None:
        made.optimizer.zero_grad()
        if recorded:
            captured(*held)
        else:
            job.private_loss(made, *held).backward()
        made.optimizer.step()

    lost = signal_lost(lambda: (prepare(), step())) if job.looks_at_norms and not recorded else None
    # The model is looked at in steps 1, 2, 4, 8 and 16, and in the 32nd.
    return Case(step, prepare, lost, warm=24 if job.looks_at_norms else 17, whole_peak=recorded)


def endless(loader: Any) -> Any:
    while True:
        yield from loader


def signal_lost(work: Callable[[], object]) -> list[float]:
    """By how much the norms that are divided by exceed the true ones, group by group, in a step."""
    gpu_clipping = module_with("inid.dpsgd.grad_sample", "serves_gpu")
    from inid.dpsgd.grad_sample import JointStack, SeparateStack

    clipped_sums = module_with("inid.dpsgd.grad_sample", "Rule")
    from inid.dpsgd.grad_sample import LookupGrads, PositionGrads

    on_cpu, on_gpu, found = vars(clipped_sums)["_norms"], gpu_clipping.gpu_shares, []

    def true_square(own: Any, at: int) -> Tensor:
        if isinstance(own, PositionGrads):
            return (own.gradients[at].double().T @ own.inputs[at].double()).square().sum()
        if isinstance(own, LookupGrads):
            alone = LookupGrads(own.tokens[at : at + 1], own.gradients[at : at + 1].double(), own.height)
            return alone.dense().square().sum()
        return own.powers(2)[at]

    def whole_square(own: Any, at: int, examples: int) -> Tensor:
        if isinstance(own, JointStack):  # several layers under one threshold
            return sum(true_square(own.grads, at + layer * examples) for layer in range(len(own.places)))
        return true_square(own.grads if isinstance(own, SeparateStack) else own, at)

    def note(pieces: Any, norms: Tensor) -> None:
        for at in range(min(MEASURED, len(norms))):
            true = sum(whole_square(own, at, len(norms)) for _, own in pieces).sqrt()
            if float(norms[at]) > 0:
                found.append(float(1 - true / norms[at]))

    def watched_on_cpu(pieces: Any, norm: int) -> Tensor:
        norms = on_cpu(pieces, norm)
        note(pieces, norms)
        return norms

    def watched_on_gpu(pieces: Any, *rest: Any) -> tuple[Tensor, Tensor]:
        norms, shares = on_gpu(pieces, *rest)
        note(pieces, norms)
        return norms, shares

    with (
        mock.patch.object(clipped_sums, "_norms", watched_on_cpu),
        mock.patch.object(gpu_clipping, "gpu_shares", watched_on_gpu),
    ):
        work()
    return found


def opacus_hooks(job: Job) -> Case:
    from opacus import GradSampleModule
    from opacus.optimizers import DPOptimizer

    model = GradSampleModule(job.model())
    optimizer = DPOptimizer(
        job.optimizer(model), noise_multiplier=1.0, max_grad_norm=job.bound, expected_batch_size=job.rows()
    )
    x, y = job.batch()

    def step() -> None:
        optimizer.zero_grad()
        job.loss(model, x, y).backward()
        optimizer.step()

    return Case(step)


def opacus_ghost(job: Job) -> Case:
    from opacus.grad_sample import GradSampleModuleFastGradientClipping
    from opacus.optimizers import DPOptimizerFastGradientClipping
    from opacus.utils.fast_gradient_clipping_utils import DPTensorFastGradientClipping

    model = GradSampleModuleFastGradientClipping(job.model(), max_grad_norm=job.bound, use_ghost_clipping=True)
    optimizer = DPOptimizerFastGradientClipping(
        job.optimizer(model), noise_multiplier=1.0, max_grad_norm=job.bound, expected_batch_size=job.rows()
    )
    x, y = job.batch()

    def step() -> None:
        optimizer.zero_grad()
        DPTensorFastGradientClipping(model, optimizer, job.losses(model, x, y), "mean").backward()
        optimizer.step()

    return Case(step)


def padding(job: Job) -> float:
    """The part of all rows that is padding where this many examples are expected in a batch, 1 in 50."""
    from torch.utils.data import DataLoader, TensorDataset

    from inid.dpsgd import PoissonLoader

    return PoissonLoader(DataLoader(TensorDataset(torch.zeros(50 * job.mean())), batch_size=job.mean())).padding


def wait_for(job: Job) -> None:
    if job.device == "cuda":
        torch.cuda.synchronize()


def measured(job: Job, make: Callable[[Job], Case]) -> dict[str, Any]:
    """The median milliseconds and the peak gigabytes of a step."""
    on_gpu, wait = job.device == "cuda", partial(wait_for, job)

    def forget() -> None:
        gc.collect()
        if on_gpu:
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()

    def peak() -> float:
        return torch.cuda.max_memory_allocated() / 2**30 if on_gpu else 0.0

    forget()
    case = make(job)
    first = 0.0
    for at in range(case.warm):
        case.prepare()
        case.step()
        first = first or peak()
        if at == 0 or (at == case.warm - 1 and not case.whole_peak):
            forget()  # what the first step alone needs, to see that the model keeps examples apart
    times, drawing = [], []
    for _ in range(job.rounds):
        wait()
        begun = time.perf_counter()
        case.prepare()
        wait()
        start = time.perf_counter()
        case.step()
        wait()
        drawing.append(1000 * (start - begun))
        times.append(1000 * (time.perf_counter() - start))
    lost = case.lost or []
    return {
        "ms": statistics.median(times),
        "fastest": min(times),
        "drawing": statistics.median(drawing),
        "GB": peak(),
        "first GB": first,
        "lost": statistics.mean(lost) if lost else None,
        "most lost": max(lost) if lost else None,
    }


CASES: dict[str, Callable[[Job], Case]] = {
    "non-private": plain,
    "non-private, channels last": lambda job: plain(job, torch.channels_last),
    "non-private, recorded": lambda job: plain(job, job.layouts()[-1], recorded=True),
    "inid per layer": lambda job: private(job, "per_layer"),
    "inid per layer, recorded": lambda job: private(job, "per_layer", recorded=True),
    "inid per layer, 16 bands": lambda job: private(job, "per_layer", bands=16),
    "inid per layer, recorded, 16 bands": lambda job: private(job, "per_layer", recorded=True, bands=16),
    "inid global": lambda job: private(job, "global"),
    "inid global, recorded": lambda job: private(job, "global", recorded=True),
    "Opacus ghost": opacus_ghost,
    "Opacus hooks": opacus_hooks,
    "non-private again": plain,
}


def goal_of(job: Job, name: str) -> tuple[float | None, float | None]:
    """The most times the plain step, and its memory, that a case may take; None where nothing was set."""
    if job.small or not name.startswith("inid") or "bands" in name:  # those: 1.1 times the step without
        return None, None
    return GOALS[job.name][0 if "per layer" in name else 1]


def table(job: Job, names: list[str]) -> None:
    """Measure every case and print its line."""
    torch.set_float32_matmul_precision(job.precision)
    print(f"\n{job.name}, {job.device}, physical batches of {job.rows()}\n")
    print(f"Padding, apart: {100 * padding(job):.0f} % of the rows at a sampling rate of 1/50.")
    most_lost = GOALS[job.name][2]
    print(
        f"Signal lost to allowances: at most {100 * most_lost:.1f} % wanted.\n" if most_lost and not job.small else ""
    )
    found: dict[str, dict[str, Any]] = {}
    columns = (
        "",
        "ms per step",
        "ratio (at most)",
        "to recorded",
        "GB",
        "memory (at most)",
        "at the first step",
        "lost (most)",
        "drawing, ms",
    )
    with ResultTable(
        f"training-gpu-{job.name}",
        f"Training steps of {job.name} on {job.device}, physical batches of {job.rows()}",
        columns,
        peers="the fastest non-private loop of the run; Opacus where it can be imported",
        command=f"python -m bench.dpsgd_gpu --jobs {job.name}",
        machine=this_machine(torch.cuda.get_device_name() if job.device == "cuda" else ""),
    ) as lines:
        for name in names:
            if ("channels last" in name and len(job.layouts()) == 1) or ("recorded" in name and job.device == "cpu"):
                continue
            try:
                found[name] = measured(job, CASES[name])
            except ImportError as error:
                lines.add(name, f"skipped: {error}", *[""] * 7)
                continue
            except torch.OutOfMemoryError:
                lines.add(name, "out of memory", *[""] * 7)
                continue
            lines.add(*cells(job, name, found))
            print(json.dumps({"case": name, "job": job.name, **found[name]}), file=sys.stderr, flush=True)


def cells(job: Job, name: str, found: dict[str, dict[str, Any]]) -> list[str]:
    own, recorded = found[name], found.get("non-private, recorded")
    loops = [each for other, each in found.items() if other.startswith("non-private") and "recorded" not in other]
    base = min(loops or [own], key=lambda each: each["ms"])
    most, most_memory = goal_of(job, name)
    share = "" if own["lost"] is None else f"{100 * own['lost']:.2f} % ({100 * own['most lost']:.2f} %)"
    memory = f"{own['GB'] / loops[0]['GB']:.2f}" if loops and loops[0]["GB"] else ""
    beside = f"{own['ms'] / recorded['ms']:.2f}" if recorded and "recorded" in name else ""
    return [
        name,
        f"{own['ms']:.1f}",
        f"{own['ms'] / base['ms']:.2f}" + (f" ({most})" if most else ""),
        beside,
        "" if name == "non-private, recorded" else f"{own['GB']:.1f}",  # it took its memory before the measurement
        "" if name == "non-private, recorded" else memory + (f" ({most_memory})" if most_memory else ""),
        f"{own['first GB'] / loops[0]['first GB']:.2f}" if loops and loops[0]["first GB"] else "",
        share,
        f"{own['drawing']:.1f}",
    ]


def profiled(job: Job) -> None:
    """What the GPU spends a private step on."""
    torch.set_float32_matmul_precision(job.precision)
    for clipping in ("per_layer", "global"):
        case = private(job, clipping)
        for _ in range(3):
            case.prepare()
            case.step()
        case.prepare()
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
            case.step()
            torch.cuda.synchronize()
        print(f"\n{job.name}, {clipping}\n")
        print(profile.key_averages().table(sort_by="cuda_time_total", row_limit=20, max_name_column_width=70))


def profiled_on_the_host(job: Job) -> None:
    """What the host spends private steps on: ordinary ones, between two trials of the model."""
    torch.set_float32_matmul_precision(job.precision)
    for clipping in ("per_layer", "global"):
        case, profile = private(job, clipping), cProfile.Profile()
        for at in range(2, 30):
            case.prepare()
            if at > 17:  # the model was tried at steps 8 and 16, and will be at 32
                profile.enable()
            case.step()
            profile.disable()
            wait_for(job)
        print(f"\n{job.name}, {clipping}, 12 steps\n")
        pstats.Stats(profile).sort_stats("tottime").print_stats(40)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--small", action="store_true", help="small models")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--large", action="store_true", help="a Llama of 1.2 billion weights, whole and by adapters")
    parser.add_argument("--jobs", default=";".join(USUAL), help="with ; between, for example 32x256;resnet")
    parser.add_argument("--cases", default=";".join(CASES), help="names, with ; between")
    parser.add_argument("--profile", action="store_true", help="only what the GPU spends a private step on")
    parser.add_argument("--host", action="store_true", help="only what the host spends private steps on")
    given = parser.parse_args()
    if given.device == "cuda" and not torch.cuda.is_available():
        print("No GPU here: nothing was measured. --device cpu --small shows that it runs.")
        return
    if peers := os.environ.get("INID_BENCH_PEERS"):
        sys.path.insert(0, peers)
    warnings.simplefilter("ignore")
    if given.large:
        given.jobs, given.cases = ";".join(LARGE), ";".join(LARGE_CASES)
    for name in given.jobs.split(";"):
        common = (name, given.device, given.small, given.rounds)
        job = ResNetJob(*common, precision="high", bound=1.0) if name == "resnet" else Job(*common)
        if name in SHAPES:
            job = HuggingFaceJob(*common)
        if name in LARGE:
            job = LargeJob(*common)
        if given.profile or given.host:
            (profiled if given.profile else profiled_on_the_host)(job)
        else:
            table(job, given.cases.split(";"))


if __name__ == "__main__":
    main()
