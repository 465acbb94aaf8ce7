"""Pictures of a plan and of its comparison."""

from typing import TYPE_CHECKING

import numpy as np

from inid import figures
from inid.planning.comparison import Comparison
from inid.planning.noise_plan import NoisePlan
from inid.planning.plan import plan

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_comparison", "plot_plan"]

_NAMES = {"optimal": "optimal", "iid": "i.i.d.", "spr": "equal split"}


def plot_plan(made: NoisePlan, ax: "Axes | None" = None) -> "Axes":
    """The standard deviation of each coordinate's noise, beside an equal split and i.i.d. noise of the same promise."""
    others = {
        _NAMES[allocation]: plan(
            made.sensitivity, made.stated, mechanism=made.mechanism, allocation=allocation, weights=made.weights,
            order=made.order,
        ).std
        for allocation in ("spr", "iid")
    }  # fmt: skip
    if made.dimension > figures.MOST_LABELS:
        return _plot_profile(made, others, ax)
    labels = made.sensitivity.labels
    names = labels if labels and len(labels) == made.dimension else [str(at) for at in range(made.dimension)]
    axes = figures.new_axes(ax, height=1.4 + 0.24 * made.dimension)
    figures.errors_beside(axes, names, made.std, others)
    return axes


def _plot_profile(made: NoisePlan, others: dict[str, np.ndarray], ax: "Axes | None") -> "Axes":
    """Many coordinates: standard deviations in the order of the plan's own, as lines."""
    axes = figures.new_axes(ax)
    order = np.argsort(made.std)
    for colour, (name, values) in zip(figures.COLOURS, {"this plan": made.std, **others}.items(), strict=False):
        axes.plot(np.arange(1, made.dimension + 1), values[order], color=colour, label=name)
    axes.set(yscale="log", xlabel="coordinates, by this plan's error", ylabel="expected error (standard deviation)")
    axes.legend()
    return axes


def plot_comparison(made: Comparison, ax: "Axes | None" = None) -> "Axes":
    """The expected error of every mechanism and allocation, relative to the plan's."""
    axes = figures.new_axes(ax, height=1.2 + 0.3 * len(made))
    names = [f"{row.mechanism}, {_NAMES[row.allocation]}" for row in made]
    places = np.arange(len(made))[::-1]
    chosen = [(row.mechanism, row.allocation) == made.chosen for row in made]
    colours = [figures.BLUE if own else "#9bbcd1" for own in chosen]
    axes.barh(places, [row.ratio for row in made], color=colours, height=0.62)
    for place, row in zip(places, made, strict=True):
        axes.annotate(f" {row.ratio:.3g}", (row.ratio, float(place)), va="center", fontsize=8)
    axes.set_yticks(places, names)
    axes.set(xlabel="expected error, relative to the plan's", xscale="log" if _far_apart(made) else "linear")
    axes.margins(x=0.12)
    return axes


def _far_apart(made: Comparison) -> bool:
    """Whether the errors differ so much that only logarithms show them."""
    ratios = [row.ratio for row in made]
    return max(ratios) > 20 * min(ratios)
