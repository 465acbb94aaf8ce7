"""Training by several processes: each clips its own examples, the sums are added, noise is drawn once.

**Equal datasets.** Each process trains on the positions that are dealt to it. Where a process has its examples in
another order, one of them can be dealt to two, and counts twice: so processes compare digests of some examples.

**Sharded parameters** live in pieces on several processes (`torch.distributed.fsdp.fully_shard`). Every process runs
the whole network over examples of its own, so an example's gradient, and its norm, are whole in one process: clipping
needs nobody else, by layers or globally. What is shared is the clipped sum. As soon as a group is clipped its sums are
added over the processes, in their own precision, and each process keeps the piece that belongs to its shard. In a step
each process draws the noise of its own piece from a key of its own; what several processes hold (parameters left out of
the sharding, and the replicas of hybrid sharding) gets one draw for all of them.

Tensor parallelism splits one example's gradient instead, and with it the norm: it is refused.
"""

import hashlib
import secrets
from bisect import bisect_right
from collections.abc import Callable, Collection, Sequence
from itertools import accumulate
from typing import Any, Protocol, TypeVar, cast

import numpy as np
import torch
from torch import Tensor, distributed, nn
from torch._utils import _unflatten_dense_tensors  # as torch's own data parallel does
from torch.utils import _pytree as pytree

from inid.dpsgd.grad_sample.clipped_sums import GroupGrads, Rule, Sums
from inid.dpsgd.seeding import seeded
from inid.dpsgd.sharded_parameters import is_sharded
from inid.errors import ArgumentError, GuaranteeError, InidError

Result = TypeVar("Result")


class Processes:
    """The processes that train together; one alone without torch.distributed."""

    def __init__(self) -> None:
        together = distributed.is_available() and distributed.is_initialized()
        self.rank = distributed.get_rank() if together else 0
        self.world = distributed.get_world_size() if together else 1

    def check(self) -> None:
        """Refuse processes that were joined after `make_private`: each would draw, and add noise, for itself alone."""
        if Processes().world != self.world:
            raise GuaranteeError(
                f"make_private saw {self.world} process(es) of torch.distributed, and now there are "
                f"{Processes().world}, which would train on the same examples and count them once: call make_private "
                "in every process after init_process_group (in a framework, from its setup hook)."
            )

    def agree(self, settings: object) -> None:
        """Refuse settings that differ between processes: one would clip by other thresholds than the noise is for."""
        if not self.all_have(settings):
            raise _differs()

    def all_have(self, value: object) -> bool:
        """Whether a value is the same in all processes."""
        values = [value] * self.world
        if self.world > 1:
            distributed.all_gather_object(values, value)
        return all(each == value for each in values)

    def agree_on_examples(self, dataset: Any) -> None:
        """Refuse a dataset that is another, or in another order, in another process, as far as some examples show."""
        if self.world > 1:
            key = self.on_first(lambda: secrets.token_bytes(16))
            digests: list[Any] = [None] * self.world
            distributed.all_gather_object(digests, example_digests(dataset, key))
            if any(len({*same} - {None}) > 1 for same in zip(*digests, strict=True)):
                raise _differs()

    def anywhere(self, flag: bool) -> bool:
        """Whether something was seen in one of the processes."""
        flags = [flag] * self.world
        if self.world > 1:
            distributed.all_gather_object(flags, flag)
        return any(flags)

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
        tensor = make().to(like) if self.rank == 0 else torch.empty_like(like)
        distributed.broadcast(tensor, 0)
        return tensor


def _differs() -> ArgumentError:
    return ArgumentError(
        "make_private was called with other settings, or another dataset, in another process: pass the same in all, "
        "the dataset in the same order."
    )


_LOOKED_AT = 16


def example_digests(dataset: Any, key: bytes) -> list[str | None]:
    """Keyed digests of some examples: the first, the last, and some between that follow from their number.

    One that cannot be read here, or is another each time (by chance that no seed fixes), has none.
    """
    size = len(dataset)
    between = np.random.default_rng(size).choice(size, min(size, _LOOKED_AT), replace=False)
    return [_digest(dataset, at, key) for at in sorted({0, size - 1, *between.tolist()})]


def _digest(dataset: Any, at: int, key: bytes) -> str | None:
    digests = set()
    for _ in range(2):
        hashed = hashlib.blake2b(key=key)
        try:
            with seeded(at):
                example = dataset[at]
        except Exception:  # noqa: BLE001 - the dataset's own: it may be readable in workers alone
            return None
        for leaf in pytree.tree_leaves(example):
            hashed.update(_bytes(leaf))
        digests.add(hashed.hexdigest())
    return digests.pop() if len(digests) == 1 else None


def _bytes(leaf: Any) -> bytes:
    if isinstance(leaf, Tensor) and leaf.layout == torch.strided:
        values = leaf.detach().resolve_conj().resolve_neg().cpu().contiguous()
        return f"{leaf.dtype} {tuple(leaf.shape)} ".encode() + values.reshape(-1).view(torch.uint8).numpy().tobytes()
    if isinstance(leaf, (np.ndarray, np.generic)) and not leaf.dtype.hasobject:
        return f"{leaf.dtype} {leaf.shape} ".encode() + leaf.tobytes()
    if isinstance(leaf, (bool, int, float, complex, str, bytes, type(None))):
        return f"{leaf!r} ".encode()
    if callable(getattr(leaf, "tobytes", None)):  # images
        return bytes(leaf.tobytes())
    return type(leaf).__name__.encode()


if distributed.is_available():
    from torch.distributed.tensor import DTensor, Partial
    from torch.distributed.tensor.placement_types import Replicate

AddNoise = Callable[
    [Tensor, list[int] | None], Tensor
]  # sums, and how many entries of each group they hold (None: all)


class Holding(Protocol):
    """Which part of the parameters, and so of the sums, a process holds."""

    def sums(self, sizes: Sequence[Sequence[int]], dtype: torch.dtype, device: torch.device) -> Sums:
        """Empty sums for groups of parameters of these sizes."""
        ...

    def noisy(self, sums: Tensor, add: AddNoise, used: Collection[nn.Parameter] | None) -> Tensor:
        """The sums over all processes, with noise; those of parameters that no layer has used may be left out."""
        ...

    def gradients(self, noisy: Tensor) -> list[Tensor | None]:
        """A flat tensor as gradients, one per parameter; None for one that was left out."""
        ...


class WholeParameters:
    """Every process holds all of every parameter: the sums are added in a step, and noise is drawn once.

    The sum of a parameter that no layer of the step uses is 0 whatever the examples are: it needs no noise, and the
    parameter has no gradient, as in any training. Which layers a step calls is public. (Several processes would first
    have to agree on it, and release all of them.)
    """

    def __init__(self, groups: Sequence[Sequence[nn.Parameter]], processes: Processes) -> None:
        self._groups, self._processes = groups, processes
        self._members = [parameter for group in groups for parameter in group]
        self._sizes = [parameter.numel() for parameter in self._members]
        self._used = self._members

    def sums(self, sizes: Sequence[Sequence[int]], dtype: torch.dtype, device: torch.device) -> Sums:
        """Empty sums."""
        return Sums(sizes, dtype, device)

    def noisy(self, sums: Tensor, add: AddNoise, used: Collection[nn.Parameter] | None) -> Tensor:
        """The sums over all processes, with noise that the first draws for all."""
        total = self._processes.total(sums)
        self._used = self._members
        if self._processes.world > 1 or not used or len(used) == len(self._members):
            return self._processes.once(lambda: add(total, None), total)
        self._used = [parameter for parameter in self._members if parameter in used]
        pieces = zip(torch.split(total, self._sizes), self._members, strict=True)
        counts = [sum(parameter.numel() for parameter in group if parameter in used) for group in self._groups]
        return add(torch.cat([piece for piece, parameter in pieces if parameter in used]), counts)

    def gradients(self, noisy: Tensor) -> list[Tensor | None]:
        """A flat tensor as gradients."""
        unflattened = _unflatten_dense_tensors(noisy, self._used)  # type: ignore[no-untyped-call]
        known = dict(zip(self._used, unflattened, strict=True))
        return [known.get(parameter) for parameter in self._members]


class Shards:
    """Every process holds a piece of the parameters."""

    def __init__(self, groups: Sequence[Sequence[nn.Parameter]]) -> None:
        self._groups = groups
        self._members = [parameter for group in groups for parameter in group]
        self._lengths = [_local(parameter).numel() for parameter in self._members]
        self._counts = [sum(_local(parameter).numel() for parameter in group) for group in groups]

    def sums(self, sizes: Sequence[Sequence[int]], dtype: torch.dtype, device: torch.device) -> Sums:
        """Empty sums that hold the pieces of this process."""
        return _ShardedSums(sizes, dtype, device, self._groups, self._counts)

    def noisy(self, sums: Tensor, add: AddNoise, used: Collection[nn.Parameter] | None) -> Tensor:  # noqa: ARG002 - see above
        """The pieces with noise: each process draws its own, and what several hold is the first one's of them."""
        noisy = add(sums, self._counts)
        for piece, parameter in zip(torch.split(noisy, self._lengths), self._members, strict=True):
            for first, group in _replicas(parameter):
                distributed.broadcast(piece, first, group=group)
        return noisy

    def gradients(self, noisy: Tensor) -> list[Tensor | None]:
        """A flat tensor of pieces as gradients, sharded as their parameters are."""
        pieces = torch.split(noisy, self._lengths)
        return [
            _sharded_like(parameter, piece.view_as(_local(parameter)))
            for piece, parameter in zip(pieces, self._members, strict=True)
        ]


class _ShardedSums(Sums):
    """Sums of which a process keeps its own pieces; a group is whole only while its gradients are being added."""

    def __init__(
        self,
        sizes: Sequence[Sequence[int]],
        dtype: torch.dtype,
        device: torch.device,
        groups: Sequence[Sequence[nn.Parameter]],
        counts: Sequence[int],
    ) -> None:
        super().__init__(sizes, dtype, device, size=sum(counts))
        self._groups, self._shard_starts = groups, [0, *accumulate(counts)]
        self._full_sums: dict[int, Tensor] = {}

    def add_group(self, at: int, grads: GroupGrads, scale: float, rule: Rule) -> None:
        """Clip the gradients of one group and add them, over all processes."""
        super().add_group(at, grads, scale, rule)
        self._reduce()

    def add_all(self, groups: dict[int, GroupGrads], scale: float, rule: Rule) -> None:
        """Clip the whole, then the groups, and add them, over all processes."""
        super().add_all(groups, scale, rule)
        self._reduce()

    def _place(self, first: int, last: int) -> Tensor:
        at = bisect_right(self._starts, first) - 1
        start, end = self._starts[at], self._starts[at + 1]
        full_sums = self._full_sums.get(at)
        if full_sums is None:
            full_sums = self._full_sums[at] = self.flat.new_zeros(end - start)
        return full_sums[first - start : last - start]

    def _reduce(self) -> None:
        for at in sorted(self._full_sums):
            full_sums, start = self._full_sums.pop(at), self._shard_starts[at]
            for piece, parameter in zip(torch.split(full_sums, list(self._sizes[at])), self._groups[at], strict=True):
                shard = _reduced(parameter, piece)
                self.flat[start : start + shard.numel()] += shard
                start += shard.numel()


def holding_of(groups: Sequence[Sequence[nn.Parameter]], processes: Processes) -> Holding:
    """How the processes hold these parameters."""
    members = [parameter for group in groups for parameter in group]
    return Shards(groups) if any(map(is_sharded, members)) else WholeParameters(groups, processes)


def _local(parameter: Tensor) -> Tensor:
    return cast("Any", parameter).to_local().detach() if is_sharded(parameter) else parameter.detach()


def _reduced(parameter: Tensor, sums: Tensor) -> Tensor:
    """The sum of a whole tensor over all processes: this process' piece of it, flat."""
    if not is_sharded(parameter):
        distributed.all_reduce(sums)
        return sums
    mesh, placements = cast("Any", parameter).device_mesh, cast("Any", parameter).placements
    partial = DTensor.from_local(sums.view(parameter.shape), mesh, [Partial("sum")] * mesh.ndim)
    return partial.redistribute(mesh, placements).to_local().flatten()


def _sharded_like(parameter: Tensor, piece: Tensor) -> Tensor:
    if not is_sharded(parameter):
        return piece
    parameter_like = cast("Any", parameter)
    sharded = DTensor.from_local(
        piece,
        parameter_like.device_mesh,
        parameter_like.placements,
        run_check=False,
        shape=parameter_like.shape,
        stride=parameter_like.stride(),
    )
    return cast("Tensor", sharded)


def _replicas(parameter: Tensor) -> list[tuple[int, Any]]:
    """The processes that hold the same piece as this one: the first of them, and their group."""
    if not is_sharded(parameter):
        return [(0, None)]
    sharded = cast("Any", parameter)
    groups = [
        sharded.device_mesh.get_group(at) for at, each in enumerate(sharded.placements) if isinstance(each, Replicate)
    ]
    return [(distributed.get_global_rank(group, 0), group) for group in groups]
