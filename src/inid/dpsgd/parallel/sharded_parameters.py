"""How to tell parameters that live in pieces on several processes, and how they came to."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import cast

from torch import Tensor, distributed, nn

if distributed.is_available():
    from torch.distributed.fsdp import FSDPModule
    from torch.distributed.tensor import DTensor
    from torch.distributed.tensor.placement_types import Replicate, Shard

__all__ = ["is_sharded", "own_class", "put_away", "split_otherwise", "while_whole"]


def is_sharded(parameter: Tensor) -> bool:
    """Whether a parameter lives in pieces on several processes."""
    return distributed.is_available() and isinstance(parameter, DTensor)


def own_class(layer: nn.Module) -> type[nn.Module]:
    """The class of a layer; sharding makes a subclass of it, which computes the same.

    >>> own_class(nn.Linear(1, 1)).__name__
    'Linear'
    """
    kind = type(layer)
    if distributed.is_available() and issubclass(kind, FSDPModule):
        return cast("type[nn.Module]", kind.__mro__[2])
    return kind


def put_away(module: nn.Module) -> None:
    """Drop what has been put together of the shards of a model's parts, to be put together anew when they run."""
    for part in _sharded_parts(module):
        cast("FSDPModule", part).reshard()


@contextmanager
def while_whole(module: nn.Module, change: Callable[[list[Tensor]], AbstractContextManager[None]]) -> Iterator[None]:
    """Enter a context with the parameters of each part of a model from when they are put together until it has run.

    Args:
        module: The model, which is running: its own parameters are whole already, and are not among those.
        change: Makes the context of the parameters of a part.
    """
    inside: dict[nn.Module, ExitStack] = {}

    def enter(part: nn.Module, _: object) -> None:
        leave(part)
        inside[part] = ExitStack()
        inside[part].enter_context(change([each for each in part.parameters() if not is_sharded(each)]))

    def leave(part: nn.Module, *_: object) -> None:
        if part in inside:
            inside.pop(part).close()

    # After sharding's own hook that puts a part together, and before the one that takes it apart.
    parts = _sharded_parts(module)
    hooks = [part.register_forward_pre_hook(enter) for part in parts]
    hooks += [part.register_forward_hook(leave, prepend=True) for part in parts]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
        for part in list(inside):
            leave(part)


def split_otherwise(module: nn.Module) -> list[str]:
    """The names of parameters that are split in another way than by `fully_shard` over all processes.

    That splits one dimension over the last dimension of a mesh of all processes, and repeats over the others.

    >>> split_otherwise(nn.Linear(1, 1))
    []
    """
    if not distributed.is_available():
        return []
    found = []
    for prefix, layer in module.named_modules():
        for name, parameter in layer.named_parameters(prefix, recurse=False):
            if not isinstance(parameter, DTensor):
                continue
            managed = any(isinstance(module.get_submodule(each), FSDPModule) for each in _ancestors(prefix))
            *others, last = parameter.placements
            plain = type(last) is Shard and all(isinstance(each, Replicate) for each in others)
            if not managed or not plain or parameter.device_mesh.size() != distributed.get_world_size():
                found.append(name)
    return found


def _sharded_parts(module: nn.Module) -> list[nn.Module]:
    """The parts of a model, without itself, that are put together of shards when they run."""
    if not distributed.is_available():
        return []
    return [part for part in module.modules() if part is not module and isinstance(part, FSDPModule)]


def _ancestors(name: str) -> list[str]:
    parts = name.split(".") if name else []
    return [".".join(parts[:length]) for length in range(len(parts) + 1)]
