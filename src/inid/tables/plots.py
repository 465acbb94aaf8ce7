"""Pictures of what a plan of a table expects, and of what was released."""

from collections.abc import Iterable
from itertools import groupby
from typing import TYPE_CHECKING

from inid import figures
from inid.report import PlanSummary
from inid.tables.published import Row

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["plot_rows", "plot_summary"]

_MOST_PANELS = 12


def plot_summary(summary: PlanSummary, ax: "Axes | None" = None) -> "Axes":
    """The expected error of each statistic beside an equal split and its tolerance; of many, the worst forty."""
    lines = sorted(summary.lines, key=lambda line: -line.deviation / (line.tolerance or line.deviation))
    kept = {line.label for line in lines[: figures.MOST_LABELS]}
    shown = [line for line in summary.lines if line.label in kept][: figures.MOST_LABELS]
    axes = figures.new_axes(ax, height=1.4 + 0.24 * len(shown))
    equal = {"equal split": [line.baselines["spr"] for line in shown]}
    deviations, tolerances = [line.deviation for line in shown], [line.tolerance for line in shown]
    figures.errors_beside(axes, [line.label for line in shown], deviations, equal, tolerances)
    return axes


def plot_rows(rows: Iterable[Row]) -> "Figure":
    """Estimates with their intervals, one panel per statistic and column, up to twelve panels of forty lines."""
    parts = [list(part) for _, part in groupby(rows, key=lambda row: (row.statistic, row.column))][:_MOST_PANELS]
    longest = max(min(len(part), figures.MOST_LABELS) for part in parts)
    figure = figures.panels(len(parts), height=0.9 + 0.2 * longest)
    for axes, part in zip(figure.axes, parts, strict=True):
        shown = part[: figures.MOST_LABELS]
        title = f"{shown[0].statistic} of {shown[0].column}" if shown[0].column else shown[0].statistic
        labels = [row.groups or "all" for row in shown]
        figures.intervals(axes, labels, [(row.estimate, row.lower, row.upper) for row in shown], title)
    return figure
