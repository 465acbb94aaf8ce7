"""The picture of a stream: totals with their bands, beside those of independent noise."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import ndtri

from inid import figures
from inid.arguments import Floats
from inid.errors import ArgumentError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from inid.tables.streams.stream import Stream

__all__ = ["TotalBands", "plot_totals", "total_bands"]

_MOST_NAMES = 16


@dataclass(frozen=True, eq=False)
class TotalBands:
    """The totals so far of the first line of the answers.

    Attributes:
        name: Of which statistic.
        places: The numbers of the periods after which they are.
        middle: The totals.
        low: The lower ends of their intervals.
        high: The upper ends.
        alone: Half the width that intervals of independent noise would have.
    """

    name: str
    places: list[int]
    middle: Floats
    low: Floats
    high: Floats
    alone: Floats


def total_bands(stream: "Stream") -> TotalBands:
    """What a picture of the totals is made of.

    Raises:
        ArgumentError: Nothing was released yet.
    """
    totals = [made for made in stream.results if made.what == "total"]
    if not totals:
        raise ArgumentError("nothing of this stream was released yet: release a period first.")
    places = [stream.periods.index(made.last) for made in totals]
    lines = [made.rows[0] for made in totals]
    middle, low, high = (np.array([getattr(row, name) for row in lines]) for name in ("estimate", "lower", "upper"))
    name = f"{lines[0].statistic}({lines[0].column})" if lines[0].column else lines[0].statistic
    z = float(ndtri((1 + stream.level) / 2))
    alone = z * dict(stream.plan.statistics).get(name, 0.0) * stream.plan.errors("totals", independent=True)[places]
    return TotalBands(f"{name}, {lines[0].groups}" if lines[0].groups else name, places, middle, low, high, alone)


def plot_totals(stream: "Stream", ax: "Axes | None" = None) -> "Axes":
    """The totals so far of the first line of the answers, with their intervals, and how wide independent noise is."""
    bands = total_bands(stream)
    axes, places, middle = figures.new_axes(ax), bands.places, bands.middle
    axes.fill_between(places, middle - bands.alone, middle + bands.alone, color="#dddddd", label="independent noise")
    interval = f"{100 * stream.level:.4g} % interval"
    axes.fill_between(places, bands.low, bands.high, color=figures.BLUE, alpha=0.35, label=interval)
    axes.plot(places, middle, color=figures.BLUE, marker="o", markersize=3, label="total so far")
    step = -(-len(stream.periods) // _MOST_NAMES)
    shown = range(0, len(stream.periods), step)
    axes.set_xticks(list(shown), [stream.periods[at] for at in shown], rotation=45, ha="right")
    axes.set_ylabel(bands.name)
    axes.legend(loc="upper left")
    return axes
