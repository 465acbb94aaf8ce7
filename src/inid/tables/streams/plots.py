"""The picture of a stream: totals with their bands, beside those of independent noise."""

from typing import TYPE_CHECKING

import numpy as np
from scipy.special import ndtri

from inid import figures
from inid.errors import ArgumentError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from inid.tables.streams.stream import Stream

__all__ = ["plot_totals"]

_MOST_NAMES = 16


def plot_totals(stream: "Stream", ax: "Axes | None" = None) -> "Axes":
    """The totals so far of the first line of the answers, with their intervals, and how wide independent noise is."""
    totals = [made for made in stream.results if made.what == "total"]
    if not totals:
        raise ArgumentError("nothing of this stream was released yet: release a period first.")
    axes = figures.new_axes(ax)
    places = np.array([stream.periods.index(made.last) for made in totals])
    lines = [made.rows[0] for made in totals]
    middle, low, high = (np.array([getattr(row, name) for row in lines]) for name in ("estimate", "lower", "upper"))
    z = float(ndtri((1 + stream.level) / 2))
    error = dict(stream.plan.statistics).get(_label(lines[0].statistic, lines[0].column), 0.0)
    alone = z * error * stream.plan.errors("totals", independent=True)[places]
    axes.fill_between(places, middle - alone, middle + alone, color="#dddddd", label="independent noise")
    axes.fill_between(places, low, high, color=figures.BLUE, alpha=0.35, label=f"{100 * stream.level:.4g} % interval")
    axes.plot(places, middle, color=figures.BLUE, marker="o", markersize=3, label="total so far")
    step = -(-len(stream.periods) // _MOST_NAMES)
    shown = range(0, len(stream.periods), step)
    axes.set_xticks(list(shown), [stream.periods[at] for at in shown], rotation=45, ha="right")
    name = _label(lines[0].statistic, lines[0].column)
    axes.set_ylabel(f"{name}, {lines[0].groups}" if lines[0].groups else name)
    axes.legend(loc="upper left")
    return axes


def _label(statistic: str, column: str) -> str:
    return f"{statistic}({column})" if column else statistic
