"""A plan beside its baselines, so that the gain, or that there is none, can be seen."""

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, get_args

import numpy as np

from inid import figures
from inid.errors import MissingExtraError, RangeError
from inid.mechanisms import NoiseName
from inid.planning.noise_plan import NoisePlan, aligned
from inid.planning.plan import plan
from inid.planning.staircase_plan import StaircasePlan, grid_steps, serves, staircase_plan
from inid.promises import PureDP
from inid.sets import Allocation

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

_NOTHING = 1.001  # a gain below 0.1 % is called none


@dataclass(frozen=True)
class ComparisonRow:
    """One way to keep the promise: its error, the error in decibels (10 log10), and its ratio to the plan's error."""

    mechanism: NoiseName
    allocation: str
    error: float
    decibel: float
    ratio: float


@dataclass(frozen=True)
class Comparison:
    """The rows optimal, iid and spr for each mechanism that can keep the promise; prints as a table."""

    rows: tuple[ComparisonRow, ...]
    chosen: tuple[str, str]

    def __iter__(self) -> Iterator[ComparisonRow]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def row(self, mechanism: str, allocation: str) -> ComparisonRow:
        """The row of one mechanism and allocation."""
        return next(row for row in self.rows if (row.mechanism, row.allocation) == (mechanism, allocation))

    def to_frame(self) -> "pd.DataFrame":
        """The rows as a pandas data frame, one column per field and one that marks the plan's own row.

        Raises:
            MissingExtraError: pandas is not installed.

        >>> import inid
        >>> p = inid.plan(inid.Sensitivity.box([1.0, 3.0]), inid.PureDP(epsilon=0.5))
        >>> list(p.compare().to_frame().columns)
        ['mechanism', 'allocation', 'error', 'decibel', 'ratio', 'chosen']
        """
        try:
            import pandas as pd
        except ImportError:
            raise MissingExtraError("to_frame needs pandas: run pip install pandas.") from None
        lines = [asdict(row) | {"chosen": (row.mechanism, row.allocation) == self.chosen} for row in self.rows]
        return pd.DataFrame(lines)

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Draw the error of every row as a bar, relative to the plan's; `ax` as for `NoisePlan.plot`.

        >>> import inid
        >>> inid.plan(inid.Sensitivity.box([1.0, 3.0]), inid.PureDP(epsilon=0.5)).compare().plot().get_xlabel()
        "expected error, relative to the plan's"
        """
        return plot_comparison(self, ax)

    @property
    def remark(self) -> str | None:
        """A sentence when a baseline is already optimal for the plan's mechanism, else None.

        >>> import inid
        >>> inid.plan(inid.Sensitivity.box([2.0, 2.0]), inid.GaussianDP(mu=1.0)).compare().remark
        'Nothing to gain: i.i.d. noise and an equal split are already optimal here.'
        """
        optimal = self.row(self.chosen[0], "optimal").decibel
        names = {"iid": "i.i.d. noise", "spr": "an equal split"}
        limit = optimal + 10 * math.log10(_NOTHING)
        equal = [name for key, name in names.items() if self.row(self.chosen[0], key).decibel <= limit]
        if not equal:
            return None
        return f"Nothing to gain: {' and '.join(equal)} {'are' if len(equal) > 1 else 'is'} already optimal here."

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        cells = [["mechanism", "allocation", "error", "dB", "ratio", ""]]
        for row in self.rows:
            mark = "*" if (row.mechanism, row.allocation) == self.chosen else ""
            numbers = f"{row.error:.4g}", f"{row.decibel:.2f}", f"{row.ratio:.3f}"
            cells.append([row.mechanism, row.allocation, *numbers, mark])
        return "\n".join(aligned(cells, left=2) + ([self.remark] if self.remark else []))


def compare(chosen: NoisePlan, *, joint: bool = True) -> Comparison:
    """The plan's baselines under the same promise, weights and order; with noise that is drawn jointly, or without."""
    mechanisms: tuple[NoiseName, ...] = ("laplace",) if isinstance(chosen.stated, PureDP) else ("gaussian", "laplace")
    if isinstance(chosen, StaircasePlan) or (joint and serves(chosen.sensitivity, chosen.stated, chosen.order)):
        mechanisms += ("staircase",)
    lines = []
    for mechanism in mechanisms:
        for allocation in get_args(Allocation):
            try:
                other = _other(chosen, mechanism, allocation)
            except RangeError:
                if mechanism != "staircase":
                    raise
                continue  # a sensitivity near the ends of the floats, where this noise is not planned
            log = other.log2_error
            ratio = 1.0 if log == chosen.log2_error else 2.0 ** min(log - chosen.log2_error, 1023.0)
            error = 2.0 ** min(log, 1023.999) if log > -1022 else 0.0
            lines.append(ComparisonRow(mechanism, allocation, error, 10 * math.log10(2) * log, ratio))
    return Comparison(tuple(lines), (chosen.mechanism, chosen.allocation))


def _other(chosen: NoisePlan, mechanism: NoiseName, allocation: Allocation) -> NoisePlan:
    """A plan of another kind for the same numbers; whole numbers stay whole."""
    if (mechanism, allocation) == (chosen.mechanism, chosen.allocation):
        return chosen
    facts: dict[str, Any] = {"allocation": allocation, "weights": chosen.weights, "order": chosen.order}
    if mechanism == "staircase" and isinstance(chosen, StaircasePlan):
        steps = None if np.array_equal(chosen.grid, grid_steps(chosen.boxes.limits)) else chosen.grid
        return staircase_plan(chosen.sensitivity, chosen.stated, steps=steps, **facts)
    return plan(chosen.sensitivity, chosen.stated, mechanism=mechanism, **facts)


_NAMES = {"optimal": "optimal", "iid": "i.i.d.", "spr": "equal split"}


def plot_plan(noise_plan: NoisePlan, ax: "Axes | None" = None) -> "Axes":
    """The standard deviation of each coordinate's noise, beside an equal split and i.i.d. noise of the same promise."""
    others = {
        _NAMES[allocation]: plan(
            noise_plan.sensitivity, noise_plan.stated, mechanism=noise_plan.mechanism, allocation=allocation,
            weights=noise_plan.weights, order=noise_plan.order,
        ).std
        for allocation in ("spr", "iid")
    }  # fmt: skip
    if noise_plan.dimension > figures.MOST_LABELS:
        return _plot_profile(noise_plan, others, ax)
    labels = noise_plan.sensitivity.labels
    names = (
        labels if labels and len(labels) == noise_plan.dimension else [str(at) for at in range(noise_plan.dimension)]
    )
    axes = figures.new_axes(ax, height=1.4 + 0.24 * noise_plan.dimension)
    figures.compare_errors(axes, names, noise_plan.std, others)
    return axes


def _plot_profile(plan: NoisePlan, others: dict[str, np.ndarray], ax: "Axes | None") -> "Axes":
    """Many coordinates: standard deviations in the order of the plan's own, as lines."""
    axes = figures.new_axes(ax)
    order = np.argsort(plan.std)
    for colour, (name, values) in zip(figures.COLOURS, {"this plan": plan.std, **others}.items(), strict=False):
        axes.plot(np.arange(1, plan.dimension + 1), values[order], color=colour, label=name)
    axes.set(yscale="log", xlabel="coordinates, by this plan's error", ylabel="expected error (standard deviation)")
    axes.legend()
    return axes


def plot_comparison(comparison: Comparison, ax: "Axes | None" = None) -> "Axes":
    """The expected error of every mechanism and allocation, relative to the plan's."""
    axes = figures.new_axes(ax, height=1.2 + 0.3 * len(comparison))
    names = [f"{row.mechanism}, {_NAMES[row.allocation]}" for row in comparison]
    places = np.arange(len(comparison))[::-1]
    chosen = [(row.mechanism, row.allocation) == comparison.chosen for row in comparison]
    colours = [figures.BLUE if is_chosen else "#9bbcd1" for is_chosen in chosen]
    axes.barh(places, [row.ratio for row in comparison], color=colours, height=0.62)
    for place, row in zip(places, comparison, strict=True):
        axes.annotate(f" {row.ratio:.3g}", (row.ratio, float(place)), va="center", fontsize=8)
    axes.set_yticks(places, names)
    axes.set(xlabel="expected error, relative to the plan's", xscale="log" if _far_apart(comparison) else "linear")
    axes.margins(x=0.12)
    return axes


def _far_apart(comparison: Comparison) -> bool:
    """Whether the errors differ so much that only logarithms show them."""
    ratios = [row.ratio for row in comparison]
    return max(ratios) > 20 * min(ratios)
