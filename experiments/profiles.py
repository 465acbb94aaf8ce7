"""The five sensitivity profiles of Section V, and what the paper plots of them."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

import inid
from experiments.claims import Figure
from experiments.plotting import BLACK, drawing, line_styles, whole_number_axis
from experiments.study import Study

__all__ = ["NAMES", "Curves", "decibel", "mse", "profile"]

NAMES = ("uniform", "linear", "quadratic", "exponential", "one-hot")


def profile(name: str, dimension: int, norm: int) -> np.ndarray:
    """lambda_i = 1, i, i^2, e^i, or one coordinate alone, scaled to l1 or l2 norm 1."""
    index = np.arange(1.0, dimension + 1)
    shapes = {
        "uniform": np.ones(dimension),
        "linear": index,
        "quadratic": index**2,
        "exponential": np.exp(index - dimension),
        "one-hot": (index == dimension).astype(float),
    }
    return shapes[name] / np.linalg.norm(shapes[name], norm)


def mse(sensitivity: np.ndarray, budget: inid.Budget, mechanism: str, allocation: str = "optimal") -> float:
    """The total variance of the planned noise on a box."""
    return inid.plan(inid.Sensitivity.box(sensitivity), budget, mechanism=mechanism, allocation=allocation).mse


def decibel(ratio: float) -> float:
    """Ten times the decimal logarithm."""
    return 10 * math.log10(ratio)


@dataclass(frozen=True)
class Curves:
    """The two panels of Figures 1 and 3, in dB: against epsilon at K = 20, and against K at epsilon = 0.5."""

    epsilons: Sequence[float]
    sizes: Sequence[int]
    by_epsilon: dict[str, list[float]]
    same: list[float]
    by_size: dict[str, list[float]]

    @classmethod
    def of(cls, study: Study, error: Callable[..., float]) -> "Curves":
        """From error(name, dimension, epsilon, allocation); also written as a CSV file."""
        epsilons = study.pick([0.1, 0.2, 0.3, 0.5, 0.75, 1.0, 1.5, 2.0, 2.5, 3.0], [0.1, 0.5, 3.0])
        sizes = study.pick([*range(1, 11), 12, 15, 20, 25, 30, 40, 50], [1, 2, 3, 10, 20])
        by_epsilon = {name: [decibel(error(name, 20, e)) for e in epsilons] for name in NAMES}
        by_size = {name: [decibel(error(name, k)) for k in sizes] for name in NAMES}
        rows = [["a", name, 20, e, v] for name in NAMES for e, v in zip(epsilons, by_epsilon[name], strict=True)]
        rows += [["b", name, k, 0.5, v] for name in NAMES for k, v in zip(sizes, by_size[name], strict=True)]
        study.table(study.name, ["panel", "profile", "K", "epsilon", "mse_db"], rows)
        same = [decibel(error("linear", 20, e, "iid")) for e in epsilons]
        return cls(epsilons, sizes, by_epsilon, same, by_size)

    def gains(self, name: str) -> list[float]:
        """The reduction over i.i.d. noise at each epsilon, in dB."""
        return [iid - ours for iid, ours in zip(self.same, self.by_epsilon[name], strict=True)]

    def draw(self, study: Study, caption: str) -> Figure:
        """Both panels."""
        with drawing(study, study.name, caption, panels=2) as (axes, figure):
            for number, name in enumerate(NAMES):
                axes[0].plot(self.epsilons, self.by_epsilon[name], label=name, **line_styles(number))
                axes[1].plot(self.sizes, self.by_size[name], label=name, **line_styles(number))
            axes[0].plot(self.epsilons, self.same, color=BLACK, linestyle="--", label="i.i.d., any profile")
            axes[0].set(title="(a)", xlabel="epsilon", ylabel="MSE, dB")
            axes[1].set(title="(b)", ylabel="MSE, dB")
            whole_number_axis(axes[1])
            axes[0].legend()
        return figure
