"""The noise of a step: a plan over the groups, and draws by it."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from inid.accounting.training_runs import Mechanism
from inid.dpsgd.grad_sample.clipped_sums import ClippingKind
from inid.noise import add_noise, current_source
from inid.planning import NoisePlan, plan_independent
from inid.promises import GaussianDP, PureDP
from inid.sets import Neighbours, Sensitivity

Allocation = Literal["optimal", "spr", "iid"]
Source = Literal["torch", "exact"]

# Clipped gradients are cut to this part of their noise's scale before they are summed exactly: fine enough to change
# nothing that the noise does not hide, coarse enough that a sum of 10^8 gradients stays below 2^53 steps.
QUANTUM = 2.0**-16


@dataclass(frozen=True)
class Recipe:
    """What a step's noise depends on besides the thresholds."""

    clipping: ClippingKind
    sizes: tuple[int, ...]
    mechanism: Mechanism
    allocation: Allocation
    total: float | None
    level: float
    neighbours: Neighbours = "zero_out"
    names: tuple[str, ...] | None = None
    stability: float | None = None

    def plan(self, thresholds: Sequence[float]) -> NoisePlan:
        """The plan for gradients clipped at these thresholds."""
        sensitivity = self.sensitivity(thresholds)
        budget = GaussianDP(mu=self.level) if self.mechanism == "gaussian" else PureDP(epsilon=self.level)
        return plan_independent(sensitivity, budget, mechanism=self.mechanism, allocation=self.allocation)

    def sensitivity(self, thresholds: Sequence[float]) -> Sensitivity:
        """How far one example can move the clipped sums."""
        norm, relation = 2 if self.mechanism == "gaussian" else 1, self.neighbours
        if self.clipping == "elementwise":
            bounds = element_bounds(thresholds, self.sizes, norm)
            return Sensitivity.box(bounds, counts=self.sizes, labels=self.names, neighbours=relation)
        if len(self.sizes) == 1:
            radius = {f"l{norm}": thresholds[0]}
            return Sensitivity.ball(dimension=self.sizes[0], neighbours=relation, **radius)
        limits: dict[str, Any] = {f"l{norm}": list(thresholds)}
        return Sensitivity.groups(sizes=self.sizes, total=self.total, labels=self.names, neighbours=relation, **limits)


def element_bounds(thresholds: Sequence[float], sizes: Sequence[int], norm: int) -> list[float]:
    """What an entry is held to so that a whole group stays within its threshold (the paper's element-wise clipping)."""
    return [c / (math.sqrt(size) if norm == 2 else size) for c, size in zip(thresholds, sizes, strict=True)]


def quanta_of(noise_plan: NoisePlan) -> list[float]:
    """A power of two for every run of a plan, well below its scale."""
    return [2.0 ** math.floor(math.log2(scale)) * QUANTUM for scale, _ in noise_plan.runs]


def add_planned_noise(
    sums: Tensor, noise_plan: NoisePlan, source: Source, counts: Sequence[int] | None = None
) -> Tensor:
    """Sums with the plan's noise: exact, or by the generators of torch and NumPy."""
    return recorded(sums, noise_plan, counts, partial(_noisy, sums, noise_plan, source, counts))


def recorded(sums: Tensor, noise_plan: NoisePlan, counts: Sequence[int] | None, draw: Callable[[], Tensor]) -> Tensor:
    """What `draw` makes of the sums; a recorder, where there is one, notes the sums and their plan."""
    recorder = current_source().recorder
    if recorder is None:
        return draw()
    scales = _written_out(noise_plan, counts)
    noisy: Tensor = recorder.drawn(noise_plan.mechanism, sums, scales, lambda _: draw(), claim=noise_plan)
    return noisy


def _noisy(sums: Tensor, noise_plan: NoisePlan, source: Source, counts: Sequence[int] | None) -> Tensor:
    if source == "exact":
        noisy = add_noise(sums.double().cpu().numpy(), _written_out(noise_plan, counts), noise_plan.mechanism)
        return torch.from_numpy(noisy).to(sums.device)
    if current_source().silent:
        return sums.clone()
    return add_scaled(standard_noise(sums, noise_plan.mechanism), sums, noise_plan, counts)


def _written_out(noise_plan: NoisePlan, counts: Sequence[int] | None) -> NDArray[np.float64]:
    """The scale of every entry; of long runs much faster than `noise_plan.scales`."""
    here = [count for _, count in noise_plan.runs] if counts is None else counts
    scales, start = np.empty(sum(here)), 0
    for (scale, _), count in zip(noise_plan.runs, here, strict=True):
        scales[start : start + count] = scale
        start += count
    return scales


def add_scaled(noise: Tensor, sums: Tensor, noise_plan: NoisePlan, counts: Sequence[int] | None = None) -> Tensor:
    """Noise of scale 1, which is written over, times the plan's scales, and the sums."""
    # Scaled where it lies, run by run: a vector of scales would be as long as the model, and held all the while.
    runs = (
        noise_plan.runs
        if counts is None
        else [(run[0], here) for run, here in zip(noise_plan.runs, counts, strict=True)]
    )
    up = 1.0 if sums.dtype == torch.float64 else 1 + 2.0**-22  # not below the plan's in less precision than its own
    pieces = torch.split(noise, [count for _, count in runs])
    torch._foreach_mul_(pieces, [scale * up for scale, _ in runs])  # as torch's own optimizers do
    return noise.add_(sums)


def standard_noise(like: Tensor, mechanism: str) -> Tensor:
    """Noise of scale 1, from a generator with a fresh key: 63 bits on a GPU, 128 elsewhere."""
    if like.is_cuda:
        generator = torch.Generator(like.device).manual_seed(current_source().bits(63))
        if mechanism == "gaussian":
            return _two_normals(like, generator)
        one, other = (torch.empty_like(like).exponential_(generator=generator) for _ in range(2))
        return one - other
    # torch's generator takes no more than 32 bits of a seed on a CPU, which can be guessed; NumPy's takes a real key.
    draw = np.random.Generator(np.random.Philox(key=current_source().bits(128)))
    kind = np.float64 if like.dtype == torch.float64 else np.float32
    if mechanism == "gaussian":
        noise = draw.standard_normal(like.numel(), dtype=kind)
    else:
        noise = draw.standard_exponential(like.numel(), dtype=kind) - draw.standard_exponential(
            like.numel(), dtype=kind
        )
    return torch.from_numpy(noise)


def _two_normals(like: Tensor, generator: torch.Generator) -> Tensor:
    """Standard normal noise as the sum of two draws, over the root of two.

    A GPU makes a draw in float32 of 32 random bits, which ends at sqrt(2 log 2^33) = 6.76. What lies beyond, only a
    neighbour can release, and does with probability Q(6.76 - mu) where it was drawn: at mu = 2, a rate of 0.01 and
    1,000 steps that is a delta of 1e-5 of its own. Sums of two end at 9.56: 2e-13. (NumPy's draws end at 8.2.)
    """
    one, other = (torch.empty_like(like).normal_(generator=generator) for _ in range(2))
    return one.add_(other).mul_(math.sqrt(0.5))
