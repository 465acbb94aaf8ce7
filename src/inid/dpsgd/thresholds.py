"""Which parameters are clipped together, how much of the norm each group may have, and thresholds that adapt.

Adaptive thresholds follow private quantiles of the gradients' norms (Andrew et al. 2021; He et al. 2022).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from inid import arguments
from inid.accounting.training_runs import Mechanism
from inid.arguments import shown
from inid.dpsgd.grad_sample.clipped_sums import LEAST, MOST
from inid.dpsgd.noise.step_noise import Source, add_planned_noise
from inid.errors import ArgumentError
from inid.planning import plan_independent
from inid.promises import GaussianDP, PureDP
from inid.sets import Sensitivity


@dataclass(frozen=True, eq=False)
class Group:
    """Parameters that share a threshold."""

    name: str
    parameters: tuple[tuple[str, nn.Parameter], ...]
    size: int


def group_parameters(module: nn.Module, groups: object, *, together: bool) -> list[Group]:
    """Divide a module's trainable parameters into groups."""
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
    chosen = []
    for at, members in enumerate(groups):
        if isinstance(members, str) or not isinstance(members, Sequence) or not members:
            raise ArgumentError(f"groups[{at}] must be a sequence of names, got {shown(members)}: {cure}.")
        names = []
        for member in members:
            if not isinstance(member, str) or (member not in trained and member not in known):
                raise ArgumentError(f"groups[{at}] holds {shown(member)}, which names nothing trainable: {cure}.")
            matching = [name for name in trained if name == member or name.startswith(f"{member}.")]
            for name in matching:
                if name not in left:
                    raise ArgumentError(f"groups[{at}] holds {name}, which is in a group already: name it once.")
                del left[name]
            names += matching
        if not names:
            raise ArgumentError(f"groups[{at}] holds no trainable parameter: leave it out.")
        chosen.append(_group(str(members[0]), trained, names))
    if left:
        raise ArgumentError(f"groups leave out {next(iter(left))} and {len(left) - 1} more: cover every parameter.")
    return chosen


def _group(name: str, trained: dict[str, nn.Parameter], names: list[str]) -> Group:
    members = tuple((each, trained[each]) for each in names)
    return Group(name, members, sum(p.numel() for _, p in members))


def share_thresholds(max_grad_norm: object, sizes: Sequence[int], norm: int, rule: str) -> list[float]:
    """Each group's threshold."""
    cure = "pass the total norm as a number, or a list with one threshold per group"
    if isinstance(max_grad_norm, (list, tuple)):
        given = arguments.array("max_grad_norm", max_grad_norm, positive=True, length=len(sizes), cure=cure)
        return [_in_range("max_grad_norm", float(threshold)) for threshold in given]
    total = arguments.real("max_grad_norm", max_grad_norm, above=0, cure=cure)
    roots = [math.sqrt(size) if rule == "sqrt_size" else 1.0 for size in sizes]
    total_root = sum(roots) if norm == 1 else math.sqrt(sum(root * root for root in roots))
    return [_in_range("max_grad_norm", total * root / total_root) for root in roots]


def total_threshold(total: object) -> float:
    """The threshold of the whole gradient."""
    return _in_range("total", arguments.real("total", total, above=0, cure="pass the norm of an example's gradient"))


def stability_threshold(stability: object) -> float:
    """The norm below which automatic clipping lengthens gradients no further."""
    return _in_range("stability", arguments.real("stability", stability, above=0, cure="pass a norm such as 0.01"))


def _in_range(name: str, threshold: float) -> float:
    if not LEAST <= threshold <= MOST:
        raise ArgumentError(
            f"{name} must give thresholds between 2^-40 and 2^40, got {threshold!r}: scale the loss instead."
        )
    return threshold


@dataclass(frozen=True)
class Adaptive:
    """How thresholds adapt.

    In every step the number of examples within each threshold is released with noise, and the threshold is multiplied
    by exp(-rate * (fraction within - quantile)). The counts are released together with the gradients, from the same
    batch; their cost is `share` of the step's (of mu squared for Gaussian noise, of epsilon for Laplace noise), and the
    gradients get the rest, so that a step costs what its noise multiplier says.

    Attributes:
        quantile: The fraction of examples that should be within their threshold, group by group.
        rate: How fast thresholds move.
        share: The part of a step's budget that the counts take.
        normalise: Keep the norm of all thresholds at `max_grad_norm`: only their proportions follow the quantiles, and
            a learning rate means the same throughout.

    >>> Adaptive(quantile=0.5).rate
    0.2
    """

    quantile: float = 0.5
    rate: float = 0.2
    share: float = 0.01
    normalise: bool = False

    def __post_init__(self) -> None:
        for name, unbounded in (("quantile", False), ("rate", True), ("share", False)):
            value = arguments.real(name, getattr(self, name), above=0, cure=f"pass a number such as {name}=0.2")
            if not (unbounded or value < 1):
                raise ArgumentError(f"{name} must be below 1, got {value!r}: pass a fraction.")

    def split(self, level: float, mechanism: Mechanism) -> tuple[float, float]:
        """How a step's mu or epsilon is divided between gradients and counts, rounded towards privacy."""
        if mechanism == "laplace":
            counts = level * self.share
            return (level - counts) * (1 - 2.0**-50), counts * (1 - 2.0**-50)
        return level * math.sqrt(1 - self.share) * (1 - 2.0**-50), level * math.sqrt(self.share) * (1 - 2.0**-50)

    def moved(
        self,
        thresholds: Sequence[float],
        inside: Tensor,
        *,
        examples: float,
        level: float,
        mechanism: Mechanism,
        source: Source,
    ) -> list[float]:
        """New thresholds, from a noisy count of the examples within the old ones; `level` is its mu or epsilon."""
        # `inside` adds, per group, 1/2 for an example within its threshold and -1/2 for another: one moves each by 1/2.
        sensitivity = Sensitivity.box([0.5], counts=[len(thresholds)])
        budget = GaussianDP(mu=level) if mechanism == "gaussian" else PureDP(epsilon=level)
        noisy = add_planned_noise(inside.cpu(), plan_independent(sensitivity, budget, mechanism=mechanism), source)
        fractions = (noisy / examples + 0.5).clamp(0, 1).tolist()
        moved = [c * math.exp(-self.rate * (f - self.quantile)) for c, f in zip(thresholds, fractions, strict=True)]
        if self.normalise:
            old, new = (_norm(each, mechanism) for each in (thresholds, moved))
            moved = [c * old / new for c in moved]
        return [min(max(c, LEAST), MOST) for c in moved]


def _norm(thresholds: Sequence[float], mechanism: Mechanism) -> float:
    values = torch.tensor(thresholds, dtype=torch.float64, device="cpu")
    return float(torch.linalg.vector_norm(values, ord=1 if mechanism == "laplace" else 2))
