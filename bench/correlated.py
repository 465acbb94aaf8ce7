"""Correlated noise beside independent noise: accuracy at the same promise, and the time of a step.

Accuracy: softmax regression on fixed features of CIFAR-10 (96 random filters, which nothing is fitted to), 10,000
images, batches of 100, 5 epochs, delta 1e-5, momentum 0.9, five seeds each; learning rates are chosen on one half of
the test images by a seed of its own, accuracies are those on the other. Time: one thread, processor time, interleaved.

    python -m bench.correlated            accuracy and time on a CPU
    python -m bench.correlated --time     time alone; with --device cuda on a GPU (bench.dpsgd_gpu has larger models)
    python -m bench.correlated --strategies    strategies beside those of jax-privacy, from INID_BENCH_PYTHON
"""

import argparse
import io
import os
import statistics
import subprocess
import time
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from bench._result_table import ResultTable
from inid import dpsgd

EXAMPLES, BATCH, EPOCHS, DELTA, RATES, SEEDS = 10_000, 100, 5, 1e-5, (1.0, 2.0), range(5)
ROUNDS = 30


def pictures(grid: np.ndarray) -> Tensor:
    from PIL import Image

    whole = np.asarray(Image.open(io.BytesIO(grid.tobytes())))
    return torch.tensor(whole.reshape(100, 32, 100, 32, 3).transpose(0, 2, 4, 1, 3).reshape(10_000, 3, 32, 32))


def features(images: Tensor) -> Tensor:
    """Of length 1, from filters that are drawn once."""
    draw = torch.Generator().manual_seed(0)
    filters = functional.interpolate(torch.randn(80, 3, 3, 3, generator=draw), size=6, mode="bilinear")
    filters = filters - filters.mean((2, 3), keepdim=True)
    filters = filters / filters.flatten(1).norm(dim=1)[:, None, None, None]
    parts = []
    for some in images.split(500):
        found = functional.conv2d(some.float() / 255 - 0.48, filters, stride=3)
        both = torch.cat([functional.relu(found - 0.05), functional.relu(-found - 0.05)], 1)
        pooled = functional.group_norm(functional.adaptive_avg_pool2d(both, 3).flatten(1), 16)
        parts.append(pooled / pooled.norm(dim=1, keepdim=True))
    return torch.cat(parts)


def trained(data: TensorDataset, epsilon: float, correlation: str | None, rate: float, seed: int) -> nn.Linear:
    torch.manual_seed(seed)
    model = nn.Linear(data.tensors[0].shape[1], 10, bias=False)
    nn.init.zeros_(model.weight)
    private = dpsgd.make_private(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=rate, momentum=0.9),
        data_loader=DataLoader(data, batch_size=BATCH),
        target_epsilon=epsilon,
        target_delta=DELTA,
        epochs=EPOCHS,
        correlation=correlation,
    )
    for _ in range(EPOCHS):
        for x, y in private.data_loader:
            private.optimizer.zero_grad()
            private.backward(functional.cross_entropy, private.module(x), y)
            private.optimizer.step()
    private.optimizer.detach()
    return model


def accuracy() -> None:
    folder = Path(os.environ.get("INID_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))
    held = np.load(folder / "cifar10_jpeg94.npz", allow_pickle=False)
    labels = torch.tensor(held["y_train"][:EXAMPLES].astype(np.int64))
    data = TensorDataset(features(pictures(held["train_0"])), labels)
    x, y = features(pictures(held["test_0"])), torch.tensor(held["y_test"].astype(np.int64))

    def percent(model: nn.Linear, part: slice) -> float:
        with torch.no_grad():
            return 100 * float((model(x[part]).argmax(1) == y[part]).float().mean())

    lines = ResultTable(
        "training-correlated-accuracy",
        "Softmax regression on fixed features of CIFAR-10 (JPEG): accuracy with correlated and independent noise",
        ("epsilon", "noise", "learning rate", "accuracy, %", "standard error"),
        peers="independent noise (DP-SGD)",
        command="python -m bench.correlated",
    )
    for epsilon in (3.0, 8.0):
        for correlation in (None, "auto"):
            tried = {rate: percent(trained(data, epsilon, correlation, rate, 100), slice(5000)) for rate in RATES}
            best = max(tried, key=lambda rate: tried[rate])
            found = [percent(trained(data, epsilon, correlation, best, seed), slice(5000, None)) for seed in SEEDS]
            error = statistics.stdev(found) / len(found) ** 0.5
            name = "correlated" if correlation else "independent"
            lines.add(f"{epsilon:g}", name, f"{best:g}", f"{statistics.mean(found):.2f}", f"{error:.2f}")
    lines.write()


def step_time(device: str, width: int) -> None:
    """The step with 16 bands over that without, alternating, in one process."""
    cases = {}
    for name, correlation in (("independent", None), ("16 bands", dpsgd.Banded(16))):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU()).to(device)
        data = TensorDataset(torch.randn(64 * 64, width, device=device))
        private = dpsgd.make_private(
            module=model,
            optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
            data_loader=DataLoader(data, batch_size=64),
            noise_multiplier=1.0,
            steps=ROUNDS + 20,
            correlation=correlation,
        )
        cases[name] = (private, iter(private.data_loader), [])
    for at in range(ROUNDS + 20):
        for private, batches, took in cases.values():
            (x,) = next(batches)
            private.optimizer.zero_grad()
            private.backward(lambda row: row.square().mean(), private.module(x))
            _wait(device)
            start = time.perf_counter() if device == "cuda" else time.process_time()
            private.optimizer.step()
            _wait(device)
            spent = (time.perf_counter() if device == "cuda" else time.process_time()) - start
            if at >= 20:
                took.append(spent)
    parameters = sum(p.numel() for p in cases["16 bands"][0].module.parameters())
    one, other = (statistics.median(took) for _, _, took in cases.values())
    print(f"optimizer.step() of {parameters:,} parameters on {device}: {1e3 * one:.2f} ms independent, ", end="")
    print(f"{1e3 * other:.2f} ms with 16 bands: {other / one:.2f} times")


THEIRS = """
import sys, time
import jax
jax.config.update("jax_enable_x64", True)
from jax_privacy.matrix_factorization import toeplitz
for line in sys.stdin:
    bands, steps = map(int, line.split())
    start = time.perf_counter()
    c = toeplitz.optimize_banded_toeplitz(steps, bands)
    c = c / (c * c).sum() ** 0.5
    took = time.perf_counter() - start
    print(float(toeplitz.per_query_error(strategy_coef=c, n=steps).mean()) ** 0.5, took, flush=True)
"""


def strategies() -> None:
    """The error of our strategies over that of jax-privacy's, and the seconds that both take, in one run."""
    python = os.environ.get("INID_BENCH_PYTHON")
    if not python or subprocess.run([python, "-c", "import jax_privacy"], capture_output=True, check=False).returncode:
        print("jax-privacy: skipped, INID_BENCH_PYTHON names no interpreter that has it.")
        return
    cases = [(2, 100), (4, 200), (16, 500), (32, 500), (16, 2000), (64, 1000)]
    lines = "".join(f"{bands} {steps}\n" for bands, steps in cases)
    found = subprocess.run([python, "-c", THEIRS], input=lines, capture_output=True, text=True, check=True).stdout
    dpsgd.Banded(2).coefficients(50)  # what the first one loads
    print("bands  steps  error, ours / theirs  seconds, ours  theirs")
    for (bands, steps), line in zip(cases, found.splitlines(), strict=True):
        error, took = map(float, line.split())
        start = time.perf_counter()
        own = dpsgd.Banded(bands)
        own.coefficients(steps)
        seconds = time.perf_counter() - start
        print(f"{bands:5d}  {steps:5d}  {own.error(steps) / error:20.8f}  {seconds:13.3f}  {took:6.3f}")


def _wait(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--time", action="store_true", help="the time of a step alone")
    parser.add_argument("--device", default="cpu", choices=("cuda", "cpu"))
    parser.add_argument("--strategies", action="store_true", help="strategies beside those of jax-privacy alone")
    asked = parser.parse_args()
    if asked.strategies:
        strategies()
        return
    torch.set_num_threads(1)
    step_time(asked.device, 4096 if asked.device == "cuda" else 512)
    if not asked.time:
        accuracy()


if __name__ == "__main__":
    main()
