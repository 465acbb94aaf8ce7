"""make_private(): a model, an optimizer and a data loader become private together."""

import hashlib
from typing import Any, Literal, NamedTuple, cast

import torch
from torch import nn
from torch.utils.data import DataLoader

from inid import arguments
from inid.dpsgd.accountant import Accountant, Mechanism, noise_multiplier_for
from inid.dpsgd.adaptive import Adaptive
from inid.dpsgd.clipped_sums import MARGIN, Clipping
from inid.dpsgd.distributed import Processes
from inid.dpsgd.optimizer import PrivateOptimizer
from inid.dpsgd.parameter_groups import group_parameters, share_thresholds, total_threshold
from inid.dpsgd.per_example_gradients import is_private
from inid.dpsgd.poisson_loader import PoissonLoader
from inid.dpsgd.step_noise import Allocation, Recipe, Source
from inid.dpsgd.validation import check_module
from inid.errors import ArgumentError

__all__ = ["PrivateTraining", "make_private"]


class PrivateTraining(NamedTuple):
    """What `make_private` returns."""

    module: nn.Module
    optimizer: PrivateOptimizer
    data_loader: PoissonLoader
    accountant: Accountant


def make_private(
    *,
    module: nn.Module,
    optimizer: torch.optim.Optimizer,
    data_loader: "DataLoader[Any]",
    noise_multiplier: float | None = None,
    target_epsilon: float | None = None,
    target_delta: float | None = None,
    epochs: int | None = None,
    max_grad_norm: float | list[float] = 1.0,
    clipping: Clipping = "global",
    allocation: Allocation = "optimal",
    mechanism: Mechanism = "gaussian",
    groups: list[list[str]] | None = None,
    thresholds: Literal["flat", "sqrt_size", "adaptive"] | Adaptive = "flat",
    total: float | None = None,
    noise: Source = "torch",
    loss_reduction: Literal["mean", "sum"] = "mean",
    max_physical_batch_size: int | None = None,
    accountant: Accountant | None = None,
) -> PrivateTraining:
    """Make training private: clip each example's gradient by groups, add the least noise that keeps the promise.

    Write the training loop as before (zero_grad, forward, backward, step), over the returned loader. Every step is a
    release about a Poisson sample of the examples: neighbours differ by one example added or removed.

    Args:
        module: The model; its layers must not mix examples. It gets hooks and stays the same object.
        optimizer: Any torch optimizer over the model's parameters.
        data_loader: A DataLoader with a batch_size: batch_size / len(dataset) is the sampling rate.
        noise_multiplier: 1/mu (Gaussian) or 1/epsilon (Laplace) of one step before sampling, the same for every
            clipping and allocation: equal multipliers are equal privacy. Or leave it out and pass the next three.
        target_epsilon: What the run may cost, with `target_delta`, after `epochs`.
        target_delta: See `target_epsilon`.
        epochs: See `target_epsilon`.
        max_grad_norm: The norm of an example's whole gradient, shared among the groups; or one threshold per group.
        clipping: "global" (one norm for all), "per_layer" (by groups), or "elementwise" (the paper's: each entry by
            itself).
        allocation: "optimal", or the baselines "spr" and "iid".
        mechanism: "gaussian" clips in the l2 norm, "laplace" in the l1 norm.
        groups: Names of parameters or modules, one list per group; by default one group per module with parameters.
        thresholds: "flat" (C/sqrt(L) each for L groups; C/L in l1), "sqrt_size" (by the root of a group's size), or
            "adaptive" (they follow private quantiles; see `Adaptive`).
        total: A threshold for the whole gradient, applied before the groups' own: the noise then never exceeds that of
            global clipping, and groups that rarely reach their share of the whole get less.
        noise: "torch" (fast generators with keys from the operating system, floating point) or "exact" (exact sums and
            noise of the exact law, as in `inid.release`; slower).
        loss_reduction: How the loss adds up over the batch: "mean" or "sum". A mean must divide by the number of
            examples: with class weights, `ignore_index` or masks torch divides by a number that depends on all
            examples, so use a sum there.
        max_physical_batch_size: The most examples to hold at a time; larger batches come in parts.
        accountant: One that has counted before, to go on counting in another stage of training.

    Returns:
        A named tuple (module, optimizer, data_loader, accountant).

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
    ...         nn.functional.cross_entropy(private.module(x), y).backward()
    ...         private.optimizer.step()
    >>> private.accountant.get_epsilon(delta=1e-3) <= 3.0
    True
    """
    check_module(module)
    if is_private(module):
        raise ArgumentError("module is private already: call detach() of its private optimizer first.")
    if accountant is not None and not isinstance(accountant, Accountant):
        raise ArgumentError(f"accountant must be an Accountant, got {type(accountant).__name__}: pass one, or nothing.")
    arguments.choice("clipping", clipping, ("global", "per_layer", "elementwise"))
    arguments.choice("allocation", allocation, ("optimal", "spr", "iid"))
    arguments.choice("mechanism", mechanism, ("gaussian", "laplace"))
    arguments.choice("noise", noise, ("torch", "exact"))
    arguments.choice("loss_reduction", loss_reduction, ("mean", "sum"))
    if max_physical_batch_size is not None:
        max_physical_batch_size = arguments.integer(
            "max_physical_batch_size", max_physical_batch_size, least=1, cure="pass how many examples fit into memory"
        )
    adaptive, whole = _adaptive(thresholds, clipping), _total(total, clipping)
    if groups is not None and clipping == "global":
        raise ArgumentError("groups go with per_layer or elementwise clipping, got global: leave them out.")
    made = group_parameters(module, groups, together=clipping == "global")
    _check_parameters(module, optimizer)
    sizes = tuple(group.size for group in made)
    norm = 1 if mechanism == "laplace" else 2
    rule = thresholds if isinstance(thresholds, str) else "flat"
    shared = share_thresholds(max_grad_norm, sizes, norm, rule)
    processes = Processes()
    loader = PoissonLoader(
        data_loader, max_physical_batch_size=max_physical_batch_size, rank=processes.rank, world=processes.world
    )
    multiplier = _multiplier(noise_multiplier, target_epsilon, target_delta, epochs, loader, mechanism)
    level = 1 / multiplier
    if adaptive is not None:
        level = adaptive.split(level, mechanism)[0]
    indices = getattr(data_loader.dataset, "indices", None)
    seen = None if indices is None else hashlib.sha256(repr(list(indices)).encode()).hexdigest()
    sampled = (len(loader.dataset), loader.sample_rate, seen)
    processes.agree(
        (sampled, multiplier, shared, whole, clipping, allocation, mechanism, noise, loss_reduction, adaptive)
    )
    processes.align(module)
    accountant = Accountant() if accountant is None else accountant
    planned = None if epochs is None else accountant.steps + loader.steps * int(epochs)
    private = PrivateOptimizer(
        optimizer,
        module=module,
        groups=made,
        recipe=Recipe(clipping, sizes, mechanism, allocation, whole, level),
        noise_multiplier=multiplier,
        thresholds=shared,
        adaptive=adaptive,
        loader=loader,
        accountant=accountant,
        source=noise,
        mean=loss_reduction == "mean",
        processes=processes,
        planned=planned,
    )
    return PrivateTraining(module, private, loader, accountant)


def _adaptive(thresholds: object, clipping: str) -> Adaptive | None:
    if isinstance(thresholds, Adaptive):
        adaptive = thresholds
    elif arguments.choice("thresholds", thresholds, ("flat", "sqrt_size", "adaptive")) == "adaptive":
        adaptive = Adaptive()
    else:
        return None
    if clipping == "elementwise":
        raise ArgumentError(
            "thresholds must be fixed for element-wise clipping, which has no norms to follow: use per_layer clipping."
        )
    return adaptive


def _total(total: object, clipping: str) -> float | None:
    if total is None:
        return None
    if clipping != "per_layer":
        raise ArgumentError(f"total goes with per_layer clipping, got {clipping}: leave it out.")
    return total_threshold(total)


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
    held = {p for group in optimizer.param_groups for p in group["params"]}
    if not {p for p in held if p.requires_grad} <= known:
        raise ArgumentError("optimizer holds parameters that are not the module's: make it with module.parameters().")
    if not known <= held:
        raise ArgumentError(
            "optimizer does not hold all trainable parameters: add them, or freeze what is not to be trained with "
            "requires_grad_(False)."
        )


def _multiplier(
    noise_multiplier: object,
    target_epsilon: object,
    target_delta: object,
    epochs: object,
    loader: PoissonLoader,
    mechanism: Mechanism,
) -> float:
    targets = (target_epsilon, target_delta, epochs)
    if noise_multiplier is not None:
        if any(target is not None for target in targets):
            raise ArgumentError("pass either noise_multiplier, or target_epsilon, target_delta and epochs, not both.")
        return arguments.real(
            "noise_multiplier",
            noise_multiplier,
            above=0,
            cure="pass 1/mu of one step, for example noise_multiplier=1.0",
        )
    if any(target is None for target in targets):
        raise ArgumentError("pass noise_multiplier, or all of target_epsilon, target_delta and epochs.")
    return noise_multiplier_for(
        target_epsilon=cast("float", target_epsilon),
        target_delta=cast("float", target_delta),
        sample_rate=loader.sample_rate,
        steps=loader.steps * arguments.integer("epochs", epochs, least=1, cure="pass how often to go over the data"),
        mechanism=mechanism,
    )
