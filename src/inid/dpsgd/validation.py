"""Modules that mix examples, refused by name before training begins."""

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.instancenorm import _InstanceNorm
from torch.nn.parallel import DataParallel, DistributedDataParallel
from torch.nn.parameter import UninitializedParameter

from inid.errors import ArgumentError

__all__ = ["check_module"]


def check_module(module: nn.Module) -> None:
    """Refuse a model in which one example's gradient depends on other examples.

    Raises:
        ArgumentError: Names the module and the cure.

    >>> check_module(nn.Sequential(nn.Linear(2, 2), nn.GroupNorm(1, 2)))
    """
    if not isinstance(module, nn.Module):
        raise ArgumentError(f"module must be a torch.nn.Module, got {type(module).__name__}: pass your model.")
    if isinstance(module, (DataParallel, DistributedDataParallel)):
        raise ArgumentError(
            "module must be the model itself, not wrapped in data parallel: pass model.module; make_private adds up "
            "the clipped gradients of all processes of torch.distributed itself."
        )
    for name, part in module.named_modules():
        where = f"module {name!r} ({type(part).__name__})"
        if isinstance(part, _BatchNorm):
            raise ArgumentError(
                f"{where} normalises over the batch, so one example changes the gradients of the others: replace it by "
                f"GroupNorm, for example nn.GroupNorm({_divisor(part.num_features)}, {part.num_features})."
            )
        if isinstance(part, _InstanceNorm) and part.track_running_stats:
            raise ArgumentError(
                f"{where} keeps running statistics of the examples without noise: pass track_running_stats=False."
            )
        if getattr(part, "batch_first", True) is False:
            raise ArgumentError(
                f"{where} has the examples in its second dimension, and could take positions for examples: pass "
                "batch_first=True."
            )
        if isinstance(part, (nn.Embedding, nn.EmbeddingBag)) and part.max_norm is not None:
            raise ArgumentError(f"{where} rescales the lines that a batch looks up, without noise: leave max_norm out.")
        if isinstance(part, (nn.Softmax, nn.LogSoftmax, nn.Softmin)) and part.dim in {None, 0}:
            raise ArgumentError(
                f"{where} normalises over the examples, or may: pass dim=-1, or the dimension you mean."
            )
        if isinstance(part, (nn.Embedding, nn.EmbeddingBag)) and part.sparse:
            raise ArgumentError(
                f"{where} makes sparse gradients, which cannot be clipped by example: leave sparse out."
            )
        if any(isinstance(p, UninitializedParameter) for p in part.parameters(recurse=False)):
            raise ArgumentError(f"{where} has no shape yet: run the model once on an example of your own making.")


def _divisor(channels: int) -> int:
    return next((groups for groups in (8, 4, 2) if channels % groups == 0), 1)
