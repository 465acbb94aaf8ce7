"""make_private(): a model, an optimizer and a data loader become private together."""

import hashlib
import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal, cast

import torch
from torch import nn
from torch.utils.data import DataLoader

from inid import arguments
from inid.accounting import Ledger
from inid.accounting.training_runs import Mechanism, Segment
from inid.dpsgd.accountant import Accountant, ChargedRun, noise_multiplier_for
from inid.dpsgd.adam import AdamBC
from inid.dpsgd.grad_sample.clipped_sums import MARGIN, ClippingKind
from inid.dpsgd.grad_sample.wrapped_forward import is_private
from inid.dpsgd.independence.validation import check_module
from inid.dpsgd.noise.banded import Banded
from inid.dpsgd.noise.correlated_noise import CorrelatedRun
from inid.dpsgd.noise.step_noise import Recipe, Source
from inid.dpsgd.noise.training_plan import chosen_correlation
from inid.dpsgd.optimizer import PrivateOptimizer
from inid.dpsgd.options import Clipping, Noise, Sampling, explained
from inid.dpsgd.parallel import Processes
from inid.dpsgd.private_training import PrivateTraining
from inid.dpsgd.sampling.poisson_loader import PoissonLoader
from inid.dpsgd.sharded_parameters import is_sharded
from inid.dpsgd.thresholds import group_parameters, share_thresholds
from inid.errors import ArgumentError
from inid.noise import current_source


@explained
def make_private(
    *,
    module: nn.Module,
    optimizer: torch.optim.Optimizer,
    data_loader: "DataLoader[Any]",
    noise_multiplier: float | None = None,
    target_epsilon: float | None = None,
    target_delta: float | None = None,
    epochs: int | None = None,
    steps: int | None = None,
    max_grad_norm: float | Sequence[float] = 1.0,
    clipping: ClippingKind | Clipping = "global",
    sampling: Sampling | None = None,
    noise: Source | Noise = "torch",
    correlation: Literal["auto"] | Banded | None = None,
    ledger: Ledger | None = None,
) -> PrivateTraining:
    """Make training private: clip each example's gradient by groups, add the least noise that keeps the promise.

    Write the training loop as before (zero_grad, forward, backward, step), over the returned loader. Every step is a
    release about a Poisson sample of the examples. Neighbours differ by one example that becomes nothing: the number of
    examples is public, since the sampling rate is made of it (see `Sampling`).

    Args:
        module: The model; its layers must not mix examples. It stays the same object, with a wrapped forward.
        optimizer: Any torch optimizer over the model's parameters.
        data_loader: A DataLoader with a batch_size: batch_size / len(dataset) is the sampling rate.
        noise_multiplier: 1/mu (Gaussian) or 1/epsilon (Laplace) of one step before sampling, the same for every
            clipping and allocation: equal multipliers are equal privacy. Or leave it out and pass the next three.
        target_epsilon: What the run may cost, with `target_delta`, after `epochs`.
        target_delta: See `target_epsilon`.
        epochs: How often the run goes over the data. Needed for `target_epsilon` and for a ledger.
        steps: How many steps the run has, instead of `epochs`: one iteration over the loader then makes all of them.
        max_grad_norm: The norm of an example's whole gradient, shared among the groups; or one threshold per group.
        clipping: "global" (one norm for all), "automatic" (every gradient is divided by its norm), "per_layer" (by
            groups) or "elementwise" (each entry by itself); or a `Clipping`, which says more.
        sampling: A `Sampling`: which examples a step draws, and how they come as batches.
        noise: "torch" (fast generators) or "exact" (noise of the exact law); or a `Noise`, which says more.
        correlation: None (noise is independent in every step), "auto" or `Banded(bands)`: noise takes back part of that
            of earlier steps, so that the sums of gradients have less at the same promise. Examples are drawn in groups
            that take turns, the run is charged for all its `steps` or `epochs`, and noise is Gaussian. "auto" takes
            the strategy of least noise, or none where it has not 5 % less; see docs/dpsgd/correlated.md.
        ledger: What pays for the run: once, as a whole, before its first step. Needs `epochs` or `steps`.

    Returns:
        A named tuple (module, optimizer, data_loader, accountant); `print(private.summary())` says what is promised.

    Raises:
        ArgumentError: An argument is malformed, or the model mixes examples; nothing has been changed.
        BudgetError: No noise keeps the target.

    >>> from torch.utils.data import TensorDataset
    >>> data = TensorDataset(torch.randn(64, 5), torch.randint(0, 2, (64,)))
    >>> model = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 2))
    >>> private = make_private(
    ...     module=model,
    ...     optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
    ...     data_loader=DataLoader(data, batch_size=16),
    ...     target_epsilon=3.0, target_delta=1e-3, epochs=2,
    ... )
    >>> for epoch in range(2):
    ...     for x, y in private.data_loader:
    ...         private.optimizer.zero_grad()
    ...         loss = private.backward(nn.functional.cross_entropy, private.module(x), y)
    ...         private.optimizer.step()
    >>> private.accountant.get_epsilon(delta=1e-3) <= 3.0
    True
    """
    check_module(module)
    if is_private(module):
        raise ArgumentError(
            "module, or a part of it, is private already: call detach() of its private optimizer first."
        )
    clip, draw = Clipping.of(clipping, max_grad_norm), Sampling() if sampling is None else sampling
    law = noise if isinstance(noise, Noise) else Noise(source=noise)
    if not isinstance(draw, Sampling):
        raise ArgumentError(f"sampling must be a dpsgd.Sampling, got {type(draw).__name__}: make one, or leave it out.")
    mechanism = law.mechanism
    if clip.loss_reduction == "mean" and not draw.pad_batches:
        raise ArgumentError(
            "a mean over a batch that is not padded divides by the secret number of drawn examples, which changes how "
            'everybody\'s gradient is rounded: pass Clipping(loss_reduction="sum") and a summed loss, or leave '
            "pad_batches out."
        )
    stability = clip.stability if clip.kind == "automatic" else None
    groups = group_parameters(module, clip.groups, together=clip.together)
    _check_parameters(module, optimizer)
    sizes, names = tuple(group.size for group in groups), tuple(group.name for group in groups)
    norm = 1 if mechanism == "laplace" else 2
    shared = share_thresholds(clip.max_grad_norm, sizes, norm, clip.shared_by)
    processes = Processes()
    sharded = any(map(is_sharded, module.parameters()))
    if sharded and not draw.pad_batches:
        raise ArgumentError(
            "the processes of a sharded model run it together, each as often as the others, if need be over padding "
            "alone: leave pad_batches out."
        )
    relation = _relation(draw.neighbours, ledger, draw.sample_rate, steps)
    processes.agree((relation, correlation))  # before some of them wait for a key that others do not ask for
    deals = relation == "add_remove" and processes.world > 1
    loader = PoissonLoader(
        data_loader,
        max_physical_batch_size=draw.max_physical_batch_size,
        augmentations=draw.augmentations,
        padded=draw.pad_batches,
        units=draw.units(_size(data_loader)),
        sample_rate=draw.sample_rate,
        steps=None if steps is None else arguments.integer("steps", steps, least=1, cure="pass the number of steps"),
        neighbours=relation,
        rank=processes.rank,
        world=processes.world,
        key=processes.on_first(lambda: current_source().bits(128)) if deals else None,
    )
    accountant = Accountant() if law.accountant is None else law.accountant
    length = _length(epochs, steps, loader)
    multiplier = _multiplier(noise_multiplier, target_epsilon, target_delta, length, loader, mechanism, accountant)
    _warn_of_delta(target_delta, loader)
    chosen = chosen_correlation(
        correlation,
        mechanism=mechanism,
        exact=law.source == "exact",
        adaptive=clip.adaptive is not None,
        steps=length,
        sample_rate=loader.plain_rate,
        noise_multiplier=None if noise_multiplier is None else multiplier,
        target=None if target_epsilon is None or target_delta is None else (target_epsilon, target_delta),
        accountant=accountant,
        bytes_held=sum(sizes) * (8 if law.source == "exact" else next(module.parameters()).element_size()),
    )
    multiplier = multiplier if chosen is None else chosen.noise_multiplier
    one_pass = Segment(mechanism, multiplier, loader.sample_rate, loader.steps, relation)
    run = None if length is None else replace(one_pass, steps=length)
    correlated_run = CorrelatedRun.of(
        chosen, run, loader, processes, exact=law.source == "exact", before=accountant.steps
    )
    if chosen is not None and isinstance(optimizer, AdamBC):
        raise ArgumentError(
            "AdamBC takes off the variance of noise that is independent in every step: leave correlation out, or pass "
            "torch.optim.Adam."
        )
    level = 1 / multiplier
    if clip.adaptive is not None:
        level = clip.adaptive.split(level, mechanism)[0]
    charged = None if ledger is None else _charged(ledger, run, correlated_run, law.label, processes)
    indices = getattr(data_loader.dataset, "indices", None)
    digest = None if indices is None else hashlib.sha256(repr([int(at) for at in indices]).encode()).hexdigest()
    # Examples are dealt out by these: processes that differ in one of them could both hold an example.
    sampled = (len(loader.dataset), loader.unit_digest, loader.sample_rate, digest, loader.expected_batch_size)
    processes.agree(
        (
            sampled,
            multiplier,
            shared,
            clip.total,
            clip.kind,
            stability,
            law.allocation,
            mechanism,
            law.source,
            clip.loss_reduction,
            clip.adaptive,
            draw.augmentations,
            # Which parameters share a threshold, in which order; a frozen one is in no group.
            [[(name, tuple(parameter.shape)) for name, parameter in group.parameters] for group in groups],
            # A sharded model is run by all processes together, and tried on as many rows.
            (loader.physical_batches, loader.physical_batch_size) if sharded else None,
        )
    )
    processes.agree_on_examples(loader.dataset)
    processes.align(module)
    retain_malloc()
    private = PrivateOptimizer(
        optimizer,
        module=module,
        groups=groups,
        recipe=Recipe(clip.kind, sizes, mechanism, law.allocation, clip.total, level, relation, names, stability),
        noise_multiplier=multiplier,
        thresholds=shared,
        adaptive=clip.adaptive,
        loader=loader,
        accountant=accountant,
        source=law.source,
        mean=clip.loss_reduction == "mean",
        processes=processes,
        planned=None if length is None else accountant.steps + length,
        runs=(*accountant.history, one_pass if run is None else run if correlated_run is None else correlated_run.run),
        target_delta=target_delta,
        example=draw.example,
        charged=charged,
        correlation=chosen,
        correlated=correlated_run,
    )
    return PrivateTraining(module, private, loader, accountant)


def _relation(
    neighbours: object, ledger: object, sample_rate: object, steps: object
) -> Literal["zero_out", "add_remove"]:
    if ledger is not None and not isinstance(ledger, Ledger):
        raise ArgumentError(f"ledger must be an inid.Ledger, got {type(ledger).__name__}: open one, or leave it out.")
    asked = neighbours if neighbours is not None else "zero_out" if ledger is None else ledger.neighbours
    if asked == "replace":
        raise ArgumentError(
            'neighbours="replace" is not accounted for under Poisson sampling: pass neighbours="zero_out".'
            if neighbours is not None
            else 'the ledger counts neighbours="replace", for which Poisson sampling is not accounted: open one with '
            'neighbours="zero_out".'
        )
    if arguments.choice("neighbours", asked, ("zero_out", "add_remove")) == "zero_out":
        return "zero_out"
    if sample_rate is None or steps is None:
        raise ArgumentError(
            'neighbours="add_remove" keeps the number of examples secret, so rate and steps cannot be made of it: pass '
            'Sampling(sample_rate=...) and steps=, or neighbours="zero_out" (and a ledger that counts it).'
        )
    return "add_remove"


def _size(data_loader: Any) -> int:
    """How many examples a loader has; one without a dataset is refused later, by its own message."""
    dataset: Any = getattr(data_loader, "dataset", None)
    return len(dataset) if hasattr(dataset, "__len__") else 0


def _warn_of_delta(delta: object, loader: PoissonLoader) -> None:
    """Say that a delta of one in as many as there are examples promises little to each of them."""
    count = loader.units
    if count is not None and isinstance(delta, (int, float)) and delta > 1 / count:
        warnings.warn(
            f"target_delta={delta:g} is above one in {count}, the number of {loader.plural}: a mechanism that "
            f"publishes a random {loader.unit} as it is keeps such a promise. Pass a smaller one, such as a tenth.",
            stacklevel=3,
        )


def _length(epochs: object, steps: object, loader: PoissonLoader) -> int | None:
    """How many steps the run has, if that is known."""
    if epochs is not None and steps is not None:
        raise ArgumentError("pass either epochs or steps, not both.")
    if epochs is None:
        return None if steps is None else loader.steps
    return loader.steps * arguments.integer("epochs", epochs, least=1, cure="pass how often to go over the data")


def _charged(
    ledger: Ledger, run: Segment | None, correlated_run: CorrelatedRun | None, label: str, processes: Processes
) -> ChargedRun:
    if run is None:
        raise ArgumentError("a ledger pays for a run as a whole: pass epochs= or steps=.")
    if correlated_run is not None:
        return ChargedRun(ledger, correlated_run.run, label, processes, "rounds of turns")
    return ChargedRun(ledger, run, label, processes)


def _check_parameters(module: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    if not isinstance(optimizer, torch.optim.Optimizer) or isinstance(optimizer, PrivateOptimizer):
        raise ArgumentError(
            f"optimizer must be a torch optimizer, not yet private, got {type(optimizer).__name__}: make a new one."
        )
    if isinstance(optimizer, torch.optim.LBFGS):
        raise ArgumentError(
            "optimizer LBFGS evaluates the loss several times per step, and a private step uses its batch once: pass "
            "another optimizer, for example SGD."
        )
    trained = [p for p in module.parameters() if p.requires_grad]
    kinds = {(p.dtype, p.device) for p in trained}
    if len(kinds) > 1 or trained[0].dtype not in MARGIN:
        raise ArgumentError(
            "the trainable parameters must be float32 or float64, all of one type on one device: move the module first."
        )
    known = set(trained)
    optimized = {p for group in optimizer.param_groups for p in group["params"]}
    if not {p for p in optimized if p.requires_grad} <= known:
        raise ArgumentError("optimizer holds parameters that are not the module's: make it with module.parameters().")
    if not known <= optimized:
        raise ArgumentError(
            "optimizer does not hold all trainable parameters: add them, or freeze what is not to be trained with "
            "requires_grad_(False)."
        )


def _multiplier(
    noise_multiplier: object,
    target_epsilon: object,
    target_delta: object,
    length: int | None,
    loader: PoissonLoader,
    mechanism: Mechanism,
    accountant: Accountant,
) -> float:
    if noise_multiplier is not None:
        if target_epsilon is not None or target_delta is not None:
            raise ArgumentError("pass either noise_multiplier, or target_epsilon and target_delta, not both.")
        return arguments.real(
            "noise_multiplier",
            noise_multiplier,
            above=0,
            cure="pass 1/mu of one step, for example noise_multiplier=1.0",
        )
    if target_epsilon is None or target_delta is None or length is None:
        raise ArgumentError("pass noise_multiplier, or all of target_epsilon, target_delta and epochs (or steps).")
    return noise_multiplier_for(
        target_epsilon=cast("float", target_epsilon),
        target_delta=cast("float", target_delta),
        sample_rate=loader.sample_rate,
        steps=length,
        mechanism=mechanism,
        accountant=accountant,
    )


_MOST_LEARNT = 2**25  # bytes: glibc's DEFAULT_MMAP_THRESHOLD_MAX where addresses have 64 bits


def retain_malloc() -> None:
    """Let the process keep the memory that every step takes and gives back.

    The gradients of a step are tens of megabytes. glibc hands what is free at the end of its heap back to the system
    once it is more than twice the largest block that was mapped and freed so far, and the next step takes the same
    pages again, one fault each: of a small network's step on a CPU that was up to a fifth. So a block of nearly the
    largest size that glibc learns from is freed once. It is never written, and takes no memory; up to 64 MB that are
    free stay. Whoever has set glibc's thresholds keeps them, and where memory comes from elsewhere nothing happens.
    """
    torch.empty(_MOST_LEARNT - 2**16, dtype=torch.uint8, device="cpu")
