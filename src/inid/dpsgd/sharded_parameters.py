"""How to tell parameters that live in pieces on several processes, and how they came to."""

from typing import cast

from torch import Tensor, distributed, nn

if distributed.is_available():
    from torch.distributed.fsdp import FSDPModule
    from torch.distributed.tensor import DTensor
    from torch.distributed.tensor.placement_types import Replicate, Shard


def is_sharded(parameter: Tensor) -> bool:
    """Whether a parameter lives in pieces on several processes."""
    return distributed.is_available() and isinstance(parameter, DTensor)


def own_class(layer: nn.Module) -> type[nn.Module]:
    """The class of a layer; sharding makes a subclass of it, which computes the same."""
    kind = type(layer)
    if distributed.is_available() and issubclass(kind, FSDPModule):
        return cast("type[nn.Module]", kind.__mro__[2])
    return kind


def put_away(module: nn.Module) -> None:
    """Drop what has been put together of the shards of a model's parts, to be put together anew when they run."""
    for part in _sharded_parts(module):
        cast("FSDPModule", part).reshard()


def put_root_together(module: nn.Module) -> None:
    """Put the parameters together that a sharded model holds itself, as its hooks do before its forward."""
    if distributed.is_available() and isinstance(module, FSDPModule):
        module.unshard()


def split_otherwise(module: nn.Module) -> list[str]:
    """The names of parameters that are split in another way than by `fully_shard` over all processes.

    That splits one dimension over the last dimension of a mesh of all processes, and repeats over the others.
    """
    if not distributed.is_available():
        return []
    names = []
    for prefix, layer in module.named_modules():
        for name, parameter in layer.named_parameters(prefix, recurse=False):
            if not isinstance(parameter, DTensor):
                continue
            managed = any(isinstance(module.get_submodule(each), FSDPModule) for each in _ancestors(prefix))
            *others, last = parameter.placements
            plain = type(last) is Shard and all(isinstance(each, Replicate) for each in others)
            if not managed or not plain or parameter.device_mesh.size() != distributed.get_world_size():
                names.append(name)
    return names


def _sharded_parts(module: nn.Module) -> list[nn.Module]:
    """The parts of a model, without itself, that are put together of shards when they run."""
    if not distributed.is_available():
        return []
    return [part for part in module.modules() if part is not module and isinstance(part, FSDPModule)]


def _ancestors(name: str) -> list[str]:
    parts = name.split(".") if name else []
    return [".".join(parts[:length]) for length in range(len(parts) + 1)]
