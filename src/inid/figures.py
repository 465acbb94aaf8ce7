"""The pictures of plans, comparisons, compositions and results: one style, drawn with matplotlib when it is asked for.

Colours are those of Okabe and Ito, which readers with any colour vision can tell apart; every series also has a marker
of its own. Nothing here reads data: a picture shows public plans, or answers that are private already.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from inid.arguments import Floats
from inid.errors import ArgumentError, MissingExtraError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
BLUE = COLOURS[0]
MOST_LABELS = 40  # beyond, names would overlap
_MARKERS = "osD^vP"
_STYLE: dict[Any, Any] = {
    "font.size": 9.0,
    "axes.titlesize": 10.0,
    "axes.grid": True,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "svg.hashsalt": "inid",
    "svg.fonttype": "none",
}


@contextmanager
def _style() -> Iterator[Any]:
    try:
        import matplotlib as mpl
        from matplotlib import pyplot as plt
    except ImportError:
        raise MissingExtraError("plots need matplotlib: run pip install '.[plot]' in inid's checkout.") from None
    # Not rc_context: the first figure loads the backend, and a notebook's then shows every figure by a setting that
    # rc_context would take back.
    before = {name: mpl.rcParams[name] for name in _STYLE}
    mpl.rcParams.update(_STYLE)
    try:
        yield plt
    finally:
        mpl.rcParams.update(before)


def new_axes(ax: "Axes | None", width: float = 6.0, height: float = 3.6) -> "Axes":
    """The axes to draw on: the user's own, or those of a new figure in the library's style."""
    if ax is not None:
        if not hasattr(ax, "plot"):
            raise ArgumentError(
                f"ax must be axes of matplotlib, got {type(ax).__name__}: leave it out for a new figure."
            )
        return ax
    return panels(1, width, height).axes[0]


def panels(count: int, width: float = 6.0, height: float = 3.6) -> "Figure":
    """A figure with so many axes below each other, each as high as stated."""
    with _style() as plt:
        figure, _ = plt.subplots(count, 1, figsize=(width, height * count), layout="constrained", squeeze=False)
    return figure  # type: ignore[no-any-return]


def compare_errors(
    ax: "Axes",
    labels: Sequence[str],
    errors: Sequence[float] | Floats,
    baselines: Mapping[str, Sequence[float] | Floats],
    tolerance: Sequence[float | None] | None = None,
) -> None:
    """Standard deviations of many numbers under a plan, beside baselines and tolerances, on a logarithmic axis."""
    places = np.arange(len(labels))[::-1]
    series = {"this plan": errors, **baselines}
    for number, (name, values) in enumerate(series.items()):
        size = 7 if number == 0 else 5
        face = COLOURS[number] if number == 0 else "white"
        ax.plot(
            np.asarray(values, dtype=float), places, linestyle="", marker=_MARKERS[number], markersize=size,
            color=COLOURS[number], markerfacecolor=face, label=name,
        )  # fmt: skip
    if tolerance is not None and any(value is not None for value in tolerance):
        targets = np.array([np.nan if value is None else value for value in tolerance], dtype=float)
        ax.plot(targets, places, linestyle="", marker="|", markersize=12, color="black", label="tolerance")
    ax.set_yticks(places, labels)
    ax.set(xscale="log", xlabel="expected error (standard deviation)")
    ax.figure.legend(loc="outside upper center", ncols=4) if len(ax.figure.axes) == 1 else ax.legend()


def curve(ax: "Axes", x: Floats, y: Floats, **labels: Any) -> None:
    """One line, with the names of its axes."""
    ax.plot(x, y, color=BLUE)
    ax.set(**labels)


def intervals(ax: "Axes", labels: Sequence[str], ranges: Sequence[tuple[float, float, float]], title: str) -> None:
    """Estimates with their intervals (estimate, lower, upper), one line each."""
    places = np.arange(len(labels))[::-1]
    estimate, lower, upper = (np.array(values, dtype=float) for values in zip(*ranges, strict=True))
    ax.hlines(places, lower, upper, color=BLUE, linewidth=2)
    ax.plot(estimate, places, linestyle="", marker="o", markersize=4, color=BLUE)
    ax.set_yticks(places, labels)
    ax.set_ylim(-0.7, len(labels) - 0.3)
    ax.set_title(title, loc="left")
