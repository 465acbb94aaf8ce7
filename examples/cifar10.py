"""Train ResNet-20, or a wide residual network, on CIFAR-10 with differential privacy.

    python examples/cifar10.py --epochs 100 --device cuda --bf16
    python examples/cifar10.py --epochs 1 --limit 2000 --batch-size 200       # a taste, on a CPU
    python examples/cifar10.py --augmentations 8 --average 0.999 --batch-size 4000 --max-physical-batch-size 2048
    python examples/cifar10.py --clipping per_layer --thresholds adaptive --quantile 0.98 --total 1

A progress bar shows loss, epsilon and the test accuracy every few epochs; `--checkpoint` keeps the run then, and a run
that finds its checkpoint goes on where it stopped, with its count of what was spent. The images come from torchvision
(which downloads them) or from the file `cifar10_jpeg94.npz` in the folder INID_DATA.
"""

import argparse
import contextlib
import json
import math
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from cifar10_images import augmented, load, synthetic
from inid import dpsgd
from inid.testing import unsafe_seed
from wide_resnet import WideResNet


class Block(nn.Module):
    """Two convolutions around which the input passes unchanged, or thinned out and padded with empty channels."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.first_norm = nn.GroupNorm(8, outputs)
        self.second = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.second_norm = nn.GroupNorm(8, outputs)
        self.stride, self.spare = stride, (outputs - inputs) // 2

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = functional.relu(self.first_norm(self.first(x)))
        y = self.second_norm(self.second(y))
        if self.spare:
            x = functional.pad(x[:, :, :: self.stride, :: self.stride], (0, 0, 0, 0, self.spare, self.spare))
        return functional.relu(x + y)


class ResNet20(nn.Module):
    """The network of He et al. (2016) for CIFAR-10 with group instead of batch normalisation: 269,722 parameters."""

    def __init__(self, classes: int = 10) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 16, 3, 1, 1, bias=False)
        self.norm = nn.GroupNorm(8, 16)
        widths = [
            (16, 16, 1),
            (16, 16, 1),
            (16, 16, 1),
            (16, 32, 2),
            (32, 32, 1),
            (32, 32, 1),
            (32, 64, 2),
            (64, 64, 1),
            (64, 64, 1),
        ]
        self.blocks = nn.Sequential(*(Block(*width) for width in widths))
        self.last = nn.Linear(64, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.blocks(functional.relu(self.norm(self.first(x))))
        return self.last(x.mean((2, 3)))


class Views(nn.Module):
    """A network that sees its images moved and mirrored while it is trained: views are made inside the model."""

    def __init__(self, network: nn.Module, pixels: int) -> None:
        super().__init__()
        self.network, self.pixels = network, pixels

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.network(augmented(x, self.pixels) if self.training else x)


NETWORKS = {"resnet20": ResNet20, "wrn16-4": WideResNet}


@torch.no_grad()
def accuracy(model: nn.Module, data: TensorDataset, *, mirrored: bool = False) -> float:
    """The fraction of images that are classified right, by themselves or by the mean with their mirror images."""
    images, labels = data.tensors
    model.eval()
    hits = torch.zeros((), dtype=torch.int64, device=images.device)
    for x, y in zip(images.split(1000), labels.split(1000), strict=True):
        scores = model(x).softmax(1)
        if mirrored:
            scores += model(x.flip(3)).softmax(1)
        hits += (scores.argmax(1) == y).sum()
    model.train()
    return int(hits) / len(labels)


def train(options: argparse.Namespace) -> dict[str, object]:
    """Train as the options say and return a record of the run."""
    device = torch.device(options.device)
    folder = Path(os.environ["INID_DATA"]) if "INID_DATA" in os.environ else None
    sets = synthetic(options.limit or 1000, 500) if options.synthetic else load(folder)
    tensors = [[tensor[: options.limit].to(device) for tensor in each.tensors] for each in sets]
    if options.validation:
        kept = len(tensors[0][0]) - options.validation
        tensors = [[tensor[:kept] for tensor in tensors[0]], [tensor[kept:] for tensor in tensors[0]]]
    data, test = (TensorDataset(*each) for each in tensors)
    torch.set_float32_matmul_precision("high")  # on a GPU products round like convolutions, which do so by default
    torch.manual_seed(options.seed)
    model = NETWORKS[options.network]().to(device)
    model = Views(model, options.shift) if options.augmentations > 1 else model
    thresholds = options.thresholds
    if thresholds == "adaptive":
        thresholds = dpsgd.Adaptive(quantile=options.quantile, rate=options.quantile_rate, normalise=options.normalise)
    private = dpsgd.make_private(
        module=model,
        optimizer=torch.optim.SGD(_by_rate(model, options), lr=options.lr, momentum=options.momentum),
        data_loader=DataLoader(data, batch_size=options.batch_size),
        **_promise(options, len(data)),
        clipping=dpsgd.Clipping(
            kind=options.clipping, max_grad_norm=options.max_grad_norm, thresholds=thresholds, total=options.total
        ),
        sampling=dpsgd.Sampling(
            max_physical_batch_size=options.max_physical_batch_size, augmentations=options.augmentations
        ),
        noise=dpsgd.Noise(source=options.noise, mechanism=options.mechanism, allocation=options.allocation),
    )
    average = dpsgd.ParameterAverage(private, options.average) if options.average else None
    per_epoch = private.data_loader.steps
    schedule = _schedule(options, private.optimizer, per_epoch)
    done = _resume(options.checkpoint, model, private.optimizer, schedule, average)
    backward = _backward(private, options)
    filters = [layer.weight for layer in model.modules() if isinstance(layer, nn.Conv2d)]
    _adjust(filters, options)
    began, began_at = time.perf_counter(), done
    while done < options.epochs and time.perf_counter() - began < (options.seconds or math.inf):
        loss = _epoch(private, backward, schedule, filters, options)
        done += 1
        # What an epoch has cost and how good it is takes as long as some steps: it is not asked every time.
        if done % options.every == 0 or done == options.epochs:
            _keep(options.checkpoint, model, private.optimizer, schedule, done, average)
            if not options.quiet:
                right = accuracy(average.module() if average else model, test)
                _show(done, options.epochs, loss, _spent(private, options.delta), right)
    if device.type == "cuda":
        torch.cuda.synchronize()
    _keep(options.checkpoint, model, private.optimizer, schedule, done, average)
    steps = max(1, (done - began_at) * per_epoch)
    milliseconds = 1000 * (time.perf_counter() - began) / steps
    tested = average.module() if average else model
    return {
        "accuracy": accuracy(tested, test),
        "accuracy_mirrored": accuracy(tested, test, mirrored=True),
        "epsilon": _spent(private, options.delta),
        "steps": private.accountant.steps,
        "epochs_done": done,
        "private": private.accountant.private,
        "noise_multiplier": private.accountant.history[-1].noise_multiplier,
        "milliseconds_per_step": milliseconds,
        "thresholds": private.optimizer.thresholds,
    }


def _promise(options: argparse.Namespace, examples: int) -> dict[str, float]:
    """The noise, or the promise that it has to keep.

    Pure promises (a delta of 0) are for Laplace noise: Poisson samples of rate q turn a step of epsilon e into one of
    log(1 + q (exp(e) - 1)), and epsilons add up over the steps.
    """
    if options.noise_multiplier:
        return {"noise_multiplier": options.noise_multiplier}
    if options.delta:
        return {"target_epsilon": options.epsilon, "target_delta": options.delta, "epochs": options.epochs}
    rate = options.batch_size / examples
    steps = options.epochs * max(1, round(1 / rate))
    return {"noise_multiplier": 1 / math.log1p(math.expm1(options.epsilon / steps) / rate)}


def _spent(private: dpsgd.PrivateTraining, delta: float) -> float:
    """The epsilon that the run has spent at this delta."""
    if delta:
        return private.accountant.get_epsilon(delta)
    history = private.accountant.history
    return sum(each.steps * math.log1p(each.sample_rate * math.expm1(1 / each.noise_multiplier)) for each in history)


def _by_rate(model: nn.Module, options: argparse.Namespace) -> list[dict[str, object]]:
    """The parameters: filters, which may have a learning rate of their own, and the others."""
    filters = [layer.weight for layer in model.modules() if isinstance(layer, nn.Conv2d)]
    others = [parameter for parameter in model.parameters() if parameter.ndim != 4]
    rate = options.lr if options.filter_lr is None else options.filter_lr
    return [{"params": filters, "lr": rate}, {"params": others, "lr": options.lr}]


@torch.no_grad()
def _adjust(filters: list[torch.Tensor], options: argparse.Namespace) -> None:
    """Take from every filter its mean, and bring its entries to one size, as asked.

    Whatever is done to parameters between steps costs no privacy. A normalisation follows, so that the size of a filter
    changes nothing but how far a step turns it: noise makes filters grow, and later steps turn them less and less.
    """
    for each in filters:
        if options.centre:
            each.sub_(each.mean((1, 2, 3), keepdim=True))
        if options.filter_size:
            each.mul_(options.filter_size / each.square().mean((1, 2, 3), keepdim=True).sqrt())


def _epoch(
    private: dpsgd.PrivateTraining,
    backward: Callable[..., torch.Tensor],
    schedule: object,
    filters: list[torch.Tensor],
    options: argparse.Namespace,
) -> float:
    total, count, drawn = torch.zeros((), device=options.device), 0, private.data_loader.drawn
    for x, y in private.data_loader:
        private.optimizer.zero_grad()
        losses = backward(x, y)
        private.optimizer.step()
        if drawn.complete:
            schedule.step()
            _adjust(filters, options)
        total += torch.where(drawn.mask.to(x.device), losses, 0).sum()  # without padding
        count += drawn.examples * drawn.views
    return float(total) / max(count, 1)


def _backward(private: dpsgd.PrivateTraining, options: argparse.Namespace) -> Callable[..., torch.Tensor]:
    """What runs a forward and its backward on a physical batch and returns the losses of its rows."""
    rows: list[torch.Tensor] = []

    def loss(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        with torch.autocast(x.device.type, dtype=torch.bfloat16, enabled=options.bf16):
            outputs = private.module(x)
            losses = functional.cross_entropy(outputs.detach(), y, reduction="none")
            if not rows or len(rows[0]) != len(losses):
                rows[:] = [torch.empty_like(losses)]
            rows[0].copy_(losses)  # at one place, where replays write too
            return private.loss(functional.cross_entropy, outputs, y)

    recorded = dpsgd.captured_backward(private, loss) if options.recorded else None

    def run(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        if recorded is None:
            loss(x, y).backward()
        else:
            recorded(x, y)
        return rows[0]

    return run


def _schedule(options: argparse.Namespace, optimizer: dpsgd.PrivateOptimizer, per_epoch: int) -> object:
    whole = options.epochs * per_epoch
    shapes = {"constant": lambda _: 1.0, "cosine": lambda step: 0.5 * (1 + math.cos(math.pi * min(step / whole, 1)))}
    return torch.optim.lr_scheduler.LambdaLR(optimizer, shapes[options.schedule])


def _resume(
    path: Path | None,
    model: nn.Module,
    optimizer: dpsgd.PrivateOptimizer,
    schedule: object,
    average: dpsgd.ParameterAverage | None,
) -> int:
    if path is None or not path.exists():
        return 0
    state = torch.load(path, weights_only=True)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    schedule.load_state_dict(state["schedule"])
    if average is not None:
        average.load_state_dict(state["average"])
    print(f"going on after epoch {state['epoch']} of {path}")
    return state["epoch"]


def _keep(
    path: Path | None,
    model: nn.Module,
    optimizer: dpsgd.PrivateOptimizer,
    schedule: object,
    epoch: int,
    average: dpsgd.ParameterAverage | None,
) -> None:
    if path is None:
        return
    state = {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "schedule": schedule.state_dict(),
        "epoch": epoch,
        "average": None if average is None else average.state_dict(),
    }
    beside = path.with_suffix(".part")
    torch.save(state, beside)
    beside.replace(path)  # a crash leaves the old checkpoint whole


def _show(epoch: int, epochs: int, loss: float, epsilon: float, right: float) -> None:
    bar = "#" * (30 * epoch // epochs)
    print(
        f"\r[{bar:<30}] {epoch}/{epochs}  loss {loss:.3f}  epsilon {epsilon:.2f}  accuracy {100 * right:.2f} %",
        end="\n" if epoch == epochs or not sys.stdout.isatty() else "",
        flush=True,
    )


class _Help(argparse.ArgumentDefaultsHelpFormatter, argparse.RawDescriptionHelpFormatter):
    """Shows defaults, and the lines above as they are."""


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=_Help)
    add = parser.add_argument
    add("--network", choices=tuple(NETWORKS), default="resnet20", help="what is trained")
    add("--epochs", type=int, default=100, help="how often to go over the images")
    add("--seconds", type=float, default=None, help="stop after the epoch in which so many have passed")
    add("--every", type=int, default=1, help="test, ask for epsilon and keep the run after so many epochs")
    add("--batch-size", type=int, default=1000, help="expected; batches are Poisson samples")
    add("--max-physical-batch-size", type=int, default=None, help="how many rows the network sees at a time")
    add("--augmentations", type=int, default=1, help="views of each image, moved and mirrored, that are averaged")
    add("--shift", type=int, default=4, help="views are moved by up to so many pixels")
    add("--average", type=float, default=None, help="test a moving average of the parameters with this decay: 0.999")
    add("--epsilon", type=float, default=8.0, help="what the run may cost")
    add("--delta", type=float, default=1e-5, help="what the run may cost; 0 is for Laplace noise")
    add("--noise-multiplier", type=float, default=None, help="instead of --epsilon")
    add("--lr", type=float, default=1.0, help="the learning rate")
    add("--momentum", type=float, default=0.9, help="of stochastic gradient descent")
    add("--filter-lr", type=float, default=None, help="the learning rate of filters, where it is another")
    add("--centre", action="store_true", help="keep the mean of every filter at 0")
    add("--filter-size", type=float, default=None, help="keep the root mean square of a filter's entries there: 0.1")
    add("--schedule", choices=("constant", "cosine"), default="constant", help="of the learning rate")
    add("--max-grad-norm", type=float, default=1.0, help="the norm of an image's whole gradient")
    add("--total", type=float, default=None, help="a threshold for the whole gradient, before the layers' own")
    add(
        "--clipping", choices=("global", "per_layer", "elementwise"), default="global", help="how gradients are clipped"
    )
    add("--allocation", choices=("optimal", "spr", "iid"), default="optimal", help="of the noise among the layers")
    add("--mechanism", choices=("gaussian", "laplace"), default="gaussian", help="the noise")
    add("--thresholds", choices=("flat", "sqrt_size", "adaptive"), default="flat", help="how the layers share the norm")
    add("--quantile", type=float, default=0.5, help="of gradients within their threshold, when it is adaptive")
    add("--quantile-rate", type=float, default=0.2, help="how fast adaptive thresholds move")
    add("--normalise", action="store_true", help="keep the norm of adaptive thresholds at --max-grad-norm")
    add("--noise", choices=("torch", "exact"), default="torch", help="where it comes from")
    add("--device", default="cuda" if torch.cuda.is_available() else "cpu", help="where to train")
    add("--bf16", action="store_true", help="compute in bfloat16 where torch's autocast does")
    add("--recorded", action="store_true", help="replay a CUDA graph of forward and backward: fixed thresholds only")
    add("--seed", type=int, default=0, help="of the initial weights")
    add("--unsafe-noise-seed", type=int, default=None, help="make the noise repeatable, and the run not private")
    add("--checkpoint", type=Path, default=None, help="where to keep the run, and where to go on from")
    add("--record", type=Path, default=None, help="append the options and the result to this file, a JSON line per run")
    add("--validation", type=int, default=0, help="hold out this many training images and test on them, to tune")
    add("--limit", type=int, default=None, help="use only the first images")
    add("--synthetic", action="store_true", help="made-up images, to try the script")
    add("--quiet", action="store_true", help="print nothing but the result")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> None:
    """Train and print the result."""
    options = parse(arguments)
    seeded = options.unsafe_noise_seed
    with contextlib.nullcontext() if seeded is None else unsafe_seed(seeded):
        result = train(options)
    if options.record is not None:
        settings = {key: str(value) if isinstance(value, Path) else value for key, value in vars(options).items()}
        with options.record.open("a") as file:
            file.write(json.dumps({**settings, **result}) + "\n")
    print(
        f"accuracy {100 * result['accuracy']:.2f} % at epsilon {result['epsilon']:.3f}, delta {options.delta:g} "
        f"({result['steps']} steps, {result['milliseconds_per_step']:.1f} ms each)"
    )


if __name__ == "__main__":
    main()
