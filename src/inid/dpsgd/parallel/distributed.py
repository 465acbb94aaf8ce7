"""Data parallel training: every process clips its own examples, the sums are added, noise is drawn once."""

import secrets
from collections.abc import Callable
from typing import Any, TypeVar, cast

import torch
from torch import Tensor, distributed, nn

from inid.dpsgd.parallel.dataset_digest import example_digests
from inid.dpsgd.parallel.sharded_parameters import is_sharded
from inid.errors import ArgumentError, GuaranteeError, InidError

__all__ = ["Processes"]

Result = TypeVar("Result")


class Processes:
    """The processes that train together; one alone without torch.distributed.

    Attributes:
        rank: This process' number.
        world: How many there are.
    """

    def __init__(self) -> None:
        together = distributed.is_available() and distributed.is_initialized()
        self.rank = distributed.get_rank() if together else 0
        self.world = distributed.get_world_size() if together else 1

    def check(self) -> None:
        """Refuse processes that were joined after `make_private`: each would draw, and add noise, for itself alone.

        Raises:
            GuaranteeError: There are more or fewer of them than there were.
        """
        if Processes().world != self.world:
            raise GuaranteeError(
                f"make_private saw {self.world} process(es) of torch.distributed, and now there are "
                f"{Processes().world}, which would train on the same examples and count them once: call make_private "
                "in every process after init_process_group (in a framework, from its setup hook)."
            )

    def agree(self, settings: object) -> None:
        """Refuse settings that differ between processes: one would clip by other thresholds than the noise is for.

        Raises:
            ArgumentError: They differ; every process raises.
        """
        if not self.all_have(settings):
            raise _differs()

    def all_have(self, value: object) -> bool:
        """Whether a value is the same in all processes."""
        found = [value] * self.world
        if self.world > 1:
            distributed.all_gather_object(found, value)
        return all(each == value for each in found)

    def agree_on_examples(self, dataset: Any) -> None:
        """Refuse a dataset that is another, or in another order, in another process, as far as some examples show.

        Raises:
            ArgumentError: They differ; every process raises.
        """
        if self.world > 1:
            key = self.on_first(lambda: secrets.token_bytes(16))
            found: list[Any] = [None] * self.world
            distributed.all_gather_object(found, example_digests(dataset, key))
            if any(len({*same} - {None}) > 1 for same in zip(*found, strict=True)):
                raise _differs()

    def anywhere(self, seen: bool) -> bool:
        """Whether something was seen in one of the processes."""
        found = [seen] * self.world
        if self.world > 1:
            distributed.all_gather_object(found, seen)
        return any(found)

    def align(self, module: nn.Module) -> None:
        """Give every process the parameters and buffers of the first; shards are each process' own."""
        if self.world > 1:
            for tensor in [*module.parameters(), *module.buffers()]:
                if not is_sharded(tensor):
                    distributed.broadcast(tensor.detach(), 0)

    def total(self, tensor: Tensor) -> Tensor:
        """The sum of a tensor over all processes."""
        if self.world > 1:
            distributed.all_reduce(tensor)
        return tensor

    def on_first(self, work: Callable[[], Result]) -> Result:
        """What a function returns, or raises, in the first process: for all of them."""
        if self.world == 1:
            return work()
        outcome: list[Any] = [None]
        if self.rank == 0:
            try:
                outcome = [work()]
            except InidError as error:
                outcome = [error]
        distributed.broadcast_object_list(outcome, 0)
        if isinstance(outcome[0], InidError):
            raise outcome[0]
        return cast("Result", outcome[0])

    def once(self, make: Callable[[], Tensor], like: Tensor) -> Tensor:
        """What the first process makes, for all of them: noise is drawn once."""
        if self.world == 1:
            return make()
        made = make().to(like) if self.rank == 0 else torch.empty_like(like)
        distributed.broadcast(made, 0)
        return made


def _differs() -> ArgumentError:
    return ArgumentError(
        "make_private was called with other settings, or another dataset, in another process: pass the same in all, "
        "the dataset in the same order."
    )
