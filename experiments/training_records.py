"""Records of training on a GPU: one JSON object per line and run.

`examples/cifar10.py --record` appends them (clipping, allocation, mechanism, epsilon, delta, lr, epochs, seed,
thresholds, accuracy and its other options); to these may be added

    method          a name of its own; by default it follows from clipping, allocation and thresholds
    target_epsilon  what was promised; by default the next printed epsilon above the one that was spent
    tuning          true for runs that only served to choose the learning rate; so are those with images held out
    hardware, date, data, command
"""

import json
import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["TOLD", "Run", "read_runs"]

TOLD = ("learning rate", "epochs", "command", "hardware", "date")


@dataclass(frozen=True)
class Run:
    """One run of `examples/cifar10.py`.

    Attributes:
        method: The column it belongs to.
        promise: The noise, epsilon and delta.
        accuracy: On the test images, in percent.
        tuning: Whether it only served to choose a learning rate.
        told: What the page tells of it, see `TOLD`.
        seed: Of the initial weights.
        data: What it was trained on.
        multiplier: Its noise multiplier.
        quantile: That of thresholds that adapt, or nothing.
    """

    method: str
    promise: tuple[str, float, float]
    accuracy: float
    tuning: bool
    told: tuple[str, ...]
    seed: str
    data: str
    multiplier: float
    quantile: str


def _read(record: dict[str, Any]) -> Run:
    spent = float(record["epsilon"])
    above = [e for e in (5.0, 8.0) if 0.95 * e <= spent <= e * (1 + 1e-9)]
    epsilon = float(record.get("target_epsilon", above[0] if above else spent))
    accuracy = float(record["accuracy"])
    told = {name: str(record.get(name, "")) for name in TOLD}
    told["learning rate"] = f"{record['lr']:g}"
    told["command"] = re.sub(r" --seed \d+", "", str(record.get("command", _command(record))))
    return Run(
        str(record.get("method", _method(record))),
        (str(record["mechanism"]), epsilon, float(record["delta"])),
        100 * accuracy if accuracy <= 1 else accuracy,
        bool(record.get("tuning", record.get("validation"))),
        tuple(told.values()),
        str(record.get("seed", "")),
        str(record.get("data", "CIFAR-10")),
        float(record.get("noise_multiplier") or math.nan),
        f"{record['quantile']:g}" if "quantile" in record and not _flat(record) else "",
    )


def _method(record: dict[str, Any]) -> str:
    """The column that a run belongs to; thresholds other than equal, fixed ones make another one."""
    clipping, allocation, flat = record["clipping"], record["allocation"], _flat(record)
    if (clipping, allocation) == ("per_layer", "iid") and flat:
        allocation = "spr"  # noise in proportion to equal thresholds is the same everywhere
    names = {("per_layer", "spr"): "spr", ("elementwise", "optimal"): "elementwise", ("per_layer", "optimal"): "layers"}
    name = "global" if clipping == "global" else names.get((clipping, allocation), f"{clipping}, {allocation}")
    return name if flat else f"{name}, thresholds not flat"


def _flat(record: dict[str, Any]) -> bool:
    """Whether the thresholds were equal shares of the whole, and fixed; the record has them as they were at the end."""
    thresholds = record.get("thresholds", "flat")
    if not isinstance(thresholds, list):
        return bool(thresholds == "flat")
    groups, whole = len(thresholds), float(record.get("max_grad_norm", 1.0))
    return bool(
        np.allclose(thresholds, whole / (groups if record["mechanism"] == "laplace" else math.sqrt(groups)), rtol=1e-4)
    )


def _command(record: dict[str, Any]) -> str:
    """The command line, from the options in the record."""
    options = ("epochs", "clipping", "allocation", "mechanism", "lr", "schedule", "batch_size", "delta")
    words = [f"--{name.replace('_', '-')} {record[name]}" for name in options if name in record]
    return " ".join(["python examples/cifar10.py", *words])


def read_runs(folder: Path) -> list[Run]:
    """The runs that the *.jsonl files of a folder tell of, file by file."""
    paths = sorted(folder.glob("*.jsonl"))
    return [_read(json.loads(line)) for path in paths for line in path.read_text().splitlines() if line.strip()]
