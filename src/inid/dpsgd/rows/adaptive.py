"""Thresholds that follow private quantiles of the gradients' norms (Andrew et al. 2021; He et al. 2022)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from inid import arguments
from inid.dpsgd.accountant import Mechanism
from inid.dpsgd.noise.step_noise import Source, add_planned_noise
from inid.dpsgd.rows.clipped_sums import LEAST, MOST
from inid.errors import ArgumentError
from inid.planning import plan
from inid.promises import GaussianDP, PureDP
from inid.sets import Sensitivity

__all__ = ["Adaptive"]


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
        """What of a step's mu or epsilon goes to the gradients and what to the counts, rounded towards privacy."""
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
        """New thresholds after a noisy look at how many examples were within the old ones.

        Args:
            thresholds: The old ones.
            inside: Per group the sum over the batch of 1/2 for an example within its threshold and -1/2 for another.
            examples: The expected size of the batch.
            level: The counts' mu or epsilon.
            mechanism: The noise.
            source: Where it comes from.
        """
        # One example moves every entry by 1/2.
        sensitivity = Sensitivity.box([0.5], counts=[len(thresholds)])
        budget = GaussianDP(mu=level) if mechanism == "gaussian" else PureDP(epsilon=level)
        noisy = add_planned_noise(inside.cpu(), plan(sensitivity, budget, mechanism=mechanism), source)
        fractions = (noisy / examples + 0.5).clamp(0, 1).tolist()
        moved = [c * math.exp(-self.rate * (f - self.quantile)) for c, f in zip(thresholds, fractions, strict=True)]
        if self.normalise:
            old, new = (_norm(each, mechanism) for each in (thresholds, moved))
            moved = [c * old / new for c in moved]
        return [min(max(c, LEAST), MOST) for c in moved]


def _norm(thresholds: Sequence[float], mechanism: Mechanism) -> float:
    values = torch.tensor(thresholds, dtype=torch.float64, device="cpu")
    return float(torch.linalg.vector_norm(values, ord=1 if mechanism == "laplace" else 2))
