"""Pictures of a composition: its privacy curve, and its trade-off function."""

from typing import TYPE_CHECKING, Literal

import numpy as np

from inid import figures
from inid.accounting.composition import Composition
from inid.arguments import Floats, choice

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_composition", "trade_off"]

_SMALLEST = 1e-10
_POINTS = 60


def plot_composition(
    made: Composition, kind: Literal["curve", "trade_off"] = "curve", ax: "Axes | None" = None
) -> "Axes":
    """Delta over epsilon ("curve"), or the errors of every test for one person ("trade_off")."""
    choice("kind", kind, ("curve", "trade_off"))
    axes = figures.new_axes(ax, width=4.6 if kind == "trade_off" else 6.0, height=3.8)
    epsilon = np.linspace(0.0, max(made.epsilon(_SMALLEST), 1e-3), _POINTS)
    delta = np.asarray(made.delta(epsilon), dtype=float)
    if kind == "curve":
        figures.curve(axes, epsilon, np.maximum(delta, 1e-300), xlabel="epsilon", ylabel="delta", yscale="log")
        axes.set_ylim(_SMALLEST, 1.5)
        return axes
    level = np.linspace(0.0, 1.0, 401)
    figures.curve(
        axes, level, trade_off(level, epsilon, delta),
        xlabel="false alarms of a test for one person", ylabel="least share of misses",
    )  # fmt: skip
    axes.plot([0, 1], [1, 0], color="#999999", linestyle="--", linewidth=1, label="nothing can be learned")
    axes.set_aspect("equal")
    axes.legend()
    return axes


def trade_off(level: Floats, epsilon: Floats, delta: Floats) -> Floats:
    """A lower bound on the misses of any test with given false alarms, from points of a privacy curve.

    Statement: (epsilon, delta)-DP means that misses are at least 1 - delta - e^epsilon a and e^-epsilon (1 - delta - a)
    for a share a of false alarms; several points hold together, so the largest of these bounds holds (Dong, Roth and Su
    2022, Proposition 6). With certified deltas the bound is certified up to the rounding of this formula.

    >>> trade_off(np.array([0.0, 0.5]), np.array([0.0]), np.array([0.1])).round(3)
    array([0.9, 0.4])
    """
    a, power = level[:, None], np.exp(epsilon)[None, :]
    bounds = np.maximum(1 - delta - power * a, (1 - delta - a) / power)
    least: Floats = np.maximum(bounds.max(axis=1), 0.0)
    return least
