"""Parameters that live in pieces on several processes (`torch.distributed.fsdp.fully_shard`).

Every process runs the whole network over examples of its own, so an example's gradient, and its norm, are whole in one
process: clipping needs nobody else, by layers or globally. What is shared is the clipped sum. As soon as a group is
clipped its sums are added over the processes, in their own precision, and each process keeps the piece that belongs to
its shard. In a step each process draws the noise of its own piece from a key of its own; what several processes hold
(parameters left out of the sharding, and the replicas of hybrid sharding) gets one draw for all of them.

Tensor parallelism splits one example's gradient instead, and with it the norm: it is refused.
"""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any, Protocol, cast

import torch
from torch import Tensor, distributed, nn
from torch._utils import _unflatten_dense_tensors  # as torch's own data parallel does

from inid.dpsgd.parallel.distributed import Processes
from inid.dpsgd.parallel.sharded_parameters import is_sharded
from inid.dpsgd.rows.clipped_sums import GroupRows, Rule, Sums

if distributed.is_available():
    from torch.distributed.tensor import DTensor, Partial
    from torch.distributed.tensor.placement_types import Replicate

__all__ = ["Holding", "holding_of"]

AddNoise = Callable[
    [Tensor, list[int] | None], Tensor
]  # sums, and how many entries of each group they hold (None: all)


class Holding(Protocol):
    """Which part of the parameters, and so of the sums, a process holds."""

    def sums(self, sizes: Sequence[Sequence[int]], dtype: torch.dtype, device: torch.device) -> Sums:
        """Empty sums for groups of parameters of these sizes."""
        ...

    def noisy(self, sums: Tensor, add: AddNoise) -> Tensor:
        """The sums over all processes, with noise."""
        ...

    def gradients(self, noisy: Tensor) -> list[Tensor]:
        """A flat tensor as gradients, one per parameter."""
        ...


class WholeParameters:
    """Every process holds all of every parameter: the sums are added in a step, and noise is drawn once."""

    def __init__(self, members: list[nn.Parameter], processes: Processes) -> None:
        self._members, self._processes = members, processes

    def sums(self, sizes: Sequence[Sequence[int]], dtype: torch.dtype, device: torch.device) -> Sums:
        """Empty sums."""
        return Sums(sizes, dtype, device)

    def noisy(self, sums: Tensor, add: AddNoise) -> Tensor:
        """The sums over all processes, with noise that the first draws for all."""
        total = self._processes.total(sums)
        return self._processes.once(lambda: add(total, None), total)

    def gradients(self, noisy: Tensor) -> list[Tensor]:
        """A flat tensor as gradients."""
        return list(_unflatten_dense_tensors(noisy, self._members))  # type: ignore[no-untyped-call]


class Shards:
    """Every process holds a piece of the parameters.

    Args:
        groups: The parameters, group by group.
    """

    def __init__(self, groups: Sequence[Sequence[nn.Parameter]]) -> None:
        self._groups = groups
        self._members = [parameter for group in groups for parameter in group]
        self._lengths = [_local(parameter).numel() for parameter in self._members]
        self._counts = [sum(_local(parameter).numel() for parameter in group) for group in groups]

    def sums(self, sizes: Sequence[Sequence[int]], dtype: torch.dtype, device: torch.device) -> Sums:
        """Empty sums that hold the pieces of this process."""
        return _ShardedSums(sizes, dtype, device, self._groups, self._counts)

    def noisy(self, sums: Tensor, add: AddNoise) -> Tensor:
        """The pieces with noise: each process draws its own, and what several hold is the first one's of them."""
        noisy = add(sums, self._counts)
        for piece, parameter in zip(torch.split(noisy, self._lengths), self._members, strict=True):
            for first, group in _replicas(parameter):
                distributed.broadcast(piece, first, group=group)
        return noisy

    def gradients(self, noisy: Tensor) -> list[Tensor]:
        """A flat tensor of pieces as gradients, sharded as their parameters are."""
        pieces = torch.split(noisy, self._lengths)
        return [
            _sharded_like(parameter, piece.view_as(_local(parameter)))
            for piece, parameter in zip(pieces, self._members, strict=True)
        ]


class _ShardedSums(Sums):
    """Sums of which a process keeps its own pieces; a group is whole only while its rows are being added."""

    def __init__(
        self,
        sizes: Sequence[Sequence[int]],
        dtype: torch.dtype,
        device: torch.device,
        groups: Sequence[Sequence[nn.Parameter]],
        counts: Sequence[int],
    ) -> None:
        super().__init__(sizes, dtype, device, held=sum(counts))
        self._groups, self._held = groups, [0, *accumulate(counts)]
        self._whole: dict[int, Tensor] = {}

    def add_group(self, at: int, rows: GroupRows, scale: float, rule: Rule) -> None:
        """Clip the rows of one group and add them, over all processes."""
        super().add_group(at, rows, scale, rule)
        self._reduce()

    def add_all(self, groups: dict[int, GroupRows], scale: float, rule: Rule) -> None:
        """Clip the whole, then the groups, and add them, over all processes."""
        super().add_all(groups, scale, rule)
        self._reduce()

    def _place(self, first: int, last: int) -> Tensor:
        at = bisect_right(self._starts, first) - 1
        start, end = self._starts[at], self._starts[at + 1]
        whole = self._whole.get(at)
        if whole is None:
            whole = self._whole[at] = self.flat.new_zeros(end - start)
        return whole[first - start : last - start]

    def _reduce(self) -> None:
        for at in sorted(self._whole):
            whole, start = self._whole.pop(at), self._held[at]
            for piece, parameter in zip(torch.split(whole, list(self._sizes[at])), self._groups[at], strict=True):
                own = _reduced(parameter, piece)
                self.flat[start : start + own.numel()] += own
                start += own.numel()


def holding_of(groups: Sequence[Sequence[nn.Parameter]], processes: Processes) -> Holding:
    """How the processes hold these parameters."""
    members = [parameter for group in groups for parameter in group]
    return Shards(groups) if any(map(is_sharded, members)) else WholeParameters(members, processes)


def _local(parameter: Tensor) -> Tensor:
    return cast("Any", parameter).to_local().detach() if is_sharded(parameter) else parameter.detach()


def _reduced(parameter: Tensor, whole: Tensor) -> Tensor:
    """The sum of a whole tensor over all processes: this process' piece of it, flat."""
    if not is_sharded(parameter):
        distributed.all_reduce(whole)
        return whole
    mesh, placements = cast("Any", parameter).device_mesh, cast("Any", parameter).placements
    partial = DTensor.from_local(whole.view(parameter.shape), mesh, [Partial("sum")] * mesh.ndim)
    return partial.redistribute(mesh, placements).to_local().flatten()


def _sharded_like(parameter: Tensor, piece: Tensor) -> Tensor:
    if not is_sharded(parameter):
        return piece
    whole = cast("Any", parameter)
    made = DTensor.from_local(
        piece, whole.device_mesh, whole.placements, run_check=False, shape=whole.shape, stride=whole.stride()
    )
    return cast("Tensor", made)


def _replicas(parameter: Tensor) -> list[tuple[int, Any]]:
    """The processes that hold the same piece as this one: the first of them, and their group."""
    if not is_sharded(parameter):
        return [(0, None)]
    whole = cast("Any", parameter)
    groups = [
        whole.device_mesh.get_group(at) for at, each in enumerate(whole.placements) if isinstance(each, Replicate)
    ]
    return [(distributed.get_global_rank(group, 0), group) for group in groups]
