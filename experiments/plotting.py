"""The manner of all plots: colours that everybody can tell apart, one marker per line, a caption with the settings."""

import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import matplotlib as mpl

mpl.use("Agg")

from matplotlib import pyplot as plt
from matplotlib.ticker import NullLocator

from experiments.claims import Figure
from experiments.study import Study

__all__ = ["BLACK", "COLOURS", "drawing", "line_styles", "whole_number_axis"]

# Okabe and Ito's palette, which readers with any colour vision can tell apart, without its yellow.
BLACK = "#000000"
COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"]
_MARKERS = "osD^vP"
_STYLE = {
    "font.size": 9.0,
    "axes.titlesize": 9.5,
    "axes.grid": True,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "lines.linewidth": 1.5,
    "lines.markersize": 4.0,
    "legend.frameon": False,
    "legend.fontsize": 8.0,
    "svg.hashsalt": "inid",  # the same numbers give the same file
    "svg.fonttype": "none",
}


def line_styles(number: int) -> dict[str, Any]:
    """Colour and marker of line number 0, 1, ..."""
    return {"color": COLOURS[number % len(COLOURS)], "marker": _MARKERS[number % len(_MARKERS)]}


def whole_number_axis(ax: Any, label: str = "dimension K") -> None:
    """Whole numbers on a logarithmic axis, so that the small ones can be told apart."""
    ax.set(xscale="log", xlabel=label)
    low, high = ax.get_xlim()
    ax.set_xticks([k for k in (1, 2, 3, 5, 10, 20, 50, 100) if low <= k <= high], minor=False)
    ax.xaxis.set_major_formatter("{x:.0f}")
    ax.xaxis.set_minor_locator(NullLocator())


@contextmanager
def drawing(
    study: Study, name: str, caption: str, panels: int = 1, width: float = 4.3, height: float = 3.4
) -> Iterator[tuple[Any, Figure]]:
    """Axes to draw on, saved as SVG and PNG with the caption below at the end.

    Args:
        study: Whose folder is used.
        name: The file name without its ending.
        caption: The settings; shown under the plot.
        panels: How many axes, side by side.
        width: The width of one, in inches.
        height: The height of all, with caption and legend.
    """
    with mpl.rc_context(_STYLE):
        figure, axes = plt.subplots(1, panels, figsize=(width * panels, height), layout="constrained", squeeze=False)
        yield (axes[0] if panels > 1 else axes[0, 0]), Figure(name, caption)
        text = "\n".join(textwrap.wrap(caption, round(width * panels * 17.5)))
        figure.supxlabel(text, fontsize=7.5, color="#444444", x=0.02, ha="left")
        figure.savefig(study.folder / f"{name}.svg", metadata={"Date": None})
        figure.savefig(study.folder / f"{name}.png", dpi=90, metadata={"Software": None})
        plt.close(figure)
