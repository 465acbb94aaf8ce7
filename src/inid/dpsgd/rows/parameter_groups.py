"""Which parameters are clipped together, and how much of the norm each group may have."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from torch import nn

from inid import arguments
from inid.arguments import shown
from inid.dpsgd.rows.clipped_sums import LEAST, MOST
from inid.errors import ArgumentError

__all__ = ["Group", "group_parameters", "share_thresholds", "total_threshold"]


@dataclass(frozen=True, eq=False)
class Group:
    """Parameters that share a threshold.

    Attributes:
        name: The module's name, or the first of several names.
        parameters: Name and parameter, in the order of the module.
        size: How many numbers they hold.
    """

    name: str
    parameters: tuple[tuple[str, nn.Parameter], ...]
    size: int


def group_parameters(module: nn.Module, groups: object, *, together: bool) -> list[Group]:
    """Divide a module's trainable parameters into groups.

    Args:
        module: The model.
        groups: None for one group per module that owns parameters, or a sequence of groups, each a sequence of names
            of parameters or modules, that covers every trainable parameter once.
        together: One group of all, whatever `groups` says.

    Raises:
        ArgumentError: Nothing to train, an unknown name, or a parameter in no group or in two.

    >>> model = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1))
    >>> [group.name for group in group_parameters(model, None, together=False)]
    ['0', '2']
    """
    trained = {name: p for name, p in module.named_parameters() if p.requires_grad}
    if not trained:
        raise ArgumentError("module has no trainable parameter: set requires_grad=True on what is to be trained.")
    if together:
        return [_group("all", trained, list(trained))]
    if groups is None:
        owners: dict[str, list[str]] = {}
        for name in trained:
            owners.setdefault(name.rpartition(".")[0] or "(root)", []).append(name)
        return [_group(owner, trained, names) for owner, names in owners.items()]
    return _chosen(module, trained, groups)


def _chosen(module: nn.Module, trained: dict[str, nn.Parameter], groups: object) -> list[Group]:
    cure = "pass lists of names from module.named_parameters() or module.named_modules()"
    if isinstance(groups, str) or not isinstance(groups, Sequence) or not groups:
        raise ArgumentError(f"groups must be a sequence of groups, got {shown(groups)}: {cure}.")
    known = {name for name, _ in module.named_modules()}
    left = dict.fromkeys(trained)
    made = []
    for at, members in enumerate(groups):
        if isinstance(members, str) or not isinstance(members, Sequence) or not members:
            raise ArgumentError(f"groups[{at}] must be a sequence of names, got {shown(members)}: {cure}.")
        names = []
        for member in members:
            if not isinstance(member, str) or (member not in trained and member not in known):
                raise ArgumentError(f"groups[{at}] holds {shown(member)}, which names nothing trainable: {cure}.")
            own = [name for name in trained if name == member or name.startswith(f"{member}.")]
            for name in own:
                if name not in left:
                    raise ArgumentError(f"groups[{at}] holds {name}, which is in a group already: name it once.")
                del left[name]
            names += own
        if not names:
            raise ArgumentError(f"groups[{at}] holds no trainable parameter: leave it out.")
        made.append(_group(str(members[0]), trained, names))
    if left:
        raise ArgumentError(f"groups leave out {next(iter(left))} and {len(left) - 1} more: cover every parameter.")
    return made


def _group(name: str, trained: dict[str, nn.Parameter], names: list[str]) -> Group:
    members = tuple((each, trained[each]) for each in names)
    return Group(name, members, sum(p.numel() for _, p in members))


def share_thresholds(max_grad_norm: object, sizes: Sequence[int], norm: int, rule: str) -> list[float]:
    """Each group's threshold.

    Args:
        max_grad_norm: The total norm to share, or one threshold per group.
        sizes: How many numbers each group holds.
        norm: 1 or 2, the norm in which gradients are measured.
        rule: "flat" for equal thresholds, "sqrt_size" for thresholds that grow with the root of the size.

    Raises:
        ArgumentError: A threshold is not a positive number, or there is not one per group.

    >>> share_thresholds(1.0, [100, 100, 100, 100], 2, "flat"), share_thresholds(1.0, [9, 16], 2, "sqrt_size")
    ([0.5, 0.5, 0.5, 0.5], [0.6, 0.8])
    """
    cure = "pass the total norm as a number, or a list with one threshold per group"
    if isinstance(max_grad_norm, (list, tuple)):
        given = arguments.array("max_grad_norm", max_grad_norm, positive=True, length=len(sizes), cure=cure)
        return [_in_range("max_grad_norm", float(threshold)) for threshold in given]
    total = arguments.real("max_grad_norm", max_grad_norm, above=0, cure=cure)
    roots = [math.sqrt(size) if rule == "sqrt_size" else 1.0 for size in sizes]
    whole = sum(roots) if norm == 1 else math.sqrt(sum(root * root for root in roots))
    return [_in_range("max_grad_norm", total * root / whole) for root in roots]


def total_threshold(total: object) -> float:
    """The threshold of the whole gradient.

    Raises:
        ArgumentError: It is not a positive number.
    """
    return _in_range("total", arguments.real("total", total, above=0, cure="pass the norm of an example's gradient"))


def _in_range(name: str, threshold: float) -> float:
    if not LEAST <= threshold <= MOST:
        raise ArgumentError(
            f"{name} must give thresholds between 2^-40 and 2^40, got {threshold!r}: scale the loss instead."
        )
    return threshold
