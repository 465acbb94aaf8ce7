"""Modules that mix examples, found by name before training begins, and replaced where there is a plain substitute."""

import copy

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.instancenorm import _InstanceNorm
from torch.nn.parallel import DataParallel, DistributedDataParallel
from torch.nn.parameter import UninitializedParameter
from torch.nn.utils.prune import BasePruningMethod

from inid.dpsgd.sharded_parameters import split_otherwise
from inid.errors import ArgumentError


def validate(module: nn.Module) -> list[str]:
    """Everything about a model that private training would refuse by name, each with its cure.

    What mixes examples in code rather than in a module is found when training begins, on made-up examples.

    >>> validate(nn.Sequential(nn.Linear(2, 2), nn.GroupNorm(1, 2)))
    []
    >>> print(*validate(nn.Sequential(nn.Linear(2, 2), nn.Softmax(dim=0))))
    module '1' (Softmax) normalises over the examples, or may: pass dim=-1, or the dimension you mean.
    """
    if not isinstance(module, nn.Module):
        raise ArgumentError(f"module must be a torch.nn.Module, got {type(module).__name__}: pass your model.")
    if isinstance(module, (DataParallel, DistributedDataParallel)):
        parallel = (
            "module must be the model itself, not wrapped in data parallel: pass model.module; make_private adds up "
            "the clipped gradients of all processes of torch.distributed itself."
        )
        return [parallel]
    split = [
        f"parameter {name!r} is split over some processes, or as tensor parallelism does it, so that an example's "
        "gradient and its norm are in several of them: shard the model with torch.distributed.fsdp.fully_shard, over "
        "all processes."
        for name in split_otherwise(module)
    ]
    return split + [
        f"module {name!r} ({type(part).__name__}) {problem}."
        for name, part in module.named_modules()
        for problem in _problems(part)
    ]


def check_module(module: nn.Module) -> None:
    """Refuse a model in which one example's gradient depends on other examples.

    >>> check_module(nn.Sequential(nn.Linear(2, 2), nn.GroupNorm(1, 2)))
    """
    problems = validate(module)
    if problems:
        more = f" ({len(problems) - 1} more: dpsgd.validate(model) lists them.)" if len(problems) > 1 else ""
        raise ArgumentError(problems[0] + more)


def fix(module: nn.Module) -> nn.Module:
    """A copy of a model with group instead of batch normalisation and without running statistics.

    Make the optimizer anew: the copy has parameters of its own. What has no plain substitute stays, and `validate`
    names it. Weights and biases of the normalisations are kept. Groups have four channels or more; `BatchNorm1d`
    becomes one group, in which all channels are normalised together.

    >>> type(fix(nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8)))[1]).__name__
    'GroupNorm'
    """
    fixed = copy.deepcopy(module)
    if isinstance(fixed, _BatchNorm):
        return _group_norm(fixed)
    for parent in list(fixed.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, _BatchNorm) and child.num_features:
                setattr(parent, name, _group_norm(child))
            elif isinstance(child, _InstanceNorm):
                child.track_running_stats = False
                child.running_mean = child.running_var = child.num_batches_tracked = None
    return fixed


def _group_norm(batch_norm: _BatchNorm) -> nn.GroupNorm:
    channels = batch_norm.num_features
    replacement = nn.GroupNorm(_groups(batch_norm), channels, eps=batch_norm.eps, affine=batch_norm.affine)
    if batch_norm.affine:
        replacement.weight, replacement.bias = batch_norm.weight, batch_norm.bias
    return replacement


def _problems(part: nn.Module) -> list[str]:
    problems = []
    if isinstance(part, _BatchNorm) and (part.training or part.running_mean is None):
        problems.append(
            "normalises over the batch, so one example changes the gradients of the others: replace it by "
            f"nn.GroupNorm({_groups(part)}, {part.num_features}), or call dpsgd.fix(model); or keep the "
            "statistics of public data by its eval(), also after train() of the model"
        )
    if isinstance(part, _InstanceNorm) and part.track_running_stats:
        problems.append("keeps running statistics of the examples without noise: pass track_running_stats=False")
    if getattr(part, "batch_first", True) is False:
        problems.append("has the examples in its second dimension: pass batch_first=True")
    if isinstance(part, (nn.Embedding, nn.EmbeddingBag)) and part.max_norm is not None:
        problems.append("rescales the lines that a batch looks up, without noise: leave max_norm out")
    if isinstance(part, (nn.Embedding, nn.EmbeddingBag)) and part.sparse:
        problems.append("makes sparse gradients, which cannot be clipped by example: leave sparse out")
    if isinstance(part, (nn.Softmax, nn.LogSoftmax, nn.Softmin)) and part.dim in {None, 0}:
        problems.append("normalises over the examples, or may: pass dim=-1, or the dimension you mean")
    if isinstance(part, torch.jit.ScriptModule):
        problems.append("runs as compiled code, in which layers cannot be reached: pass the module before torch.jit")
    if type(part).__name__ == "FullyShardedDataParallel":
        problems.append("flattens the parameters of several layers into one: use torch.distributed.fsdp.fully_shard")
    problems += [
        "makes its weight before its forward, where its gradient cannot be clipped by example: use torch.nn.utils."
        + _MADE_BEFORE.get(type(hook).__name__, "parametrize with the mask")
        for hook in part._forward_pre_hooks.values()  # noqa: SLF001 - no other way
        if type(hook).__name__ in _MADE_BEFORE or isinstance(hook, BasePruningMethod)
    ]
    if any(isinstance(p, UninitializedParameter) for p in part.parameters(recurse=False)):
        problems.append("has no shape yet: run the model once on an example of your own making")
    return problems


_CHANNELS = 4  # of a group, at least
_MADE_BEFORE = {"WeightNorm": "parametrizations.weight_norm", "SpectralNorm": "parametrizations.spectral_norm"}


def _groups(batch_norm: _BatchNorm) -> int:
    """How many groups take the place of a batch normalisation: 8, 4 or 2 of four channels or more, or one.

    A channel alone is centred over its pixels, so that a mean over them is 0 whatever the example; and without pixels,
    as after a linear layer, the few channels of a group would be almost all that there is to tell examples apart.
    """
    channels = batch_norm.num_features
    if isinstance(batch_norm, nn.BatchNorm1d):
        return 1
    return next((groups for groups in (8, 4, 2) if channels % groups == 0 and channels // groups >= _CHANNELS), 1)
