"""A plan beside its baselines, so that the gain, or that there is none, can be seen."""

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from inid.errors import MissingExtraError
from inid.mechanisms import MechanismName
from inid.planning.noise_plan import NoisePlan
from inid.planning.plan import plan
from inid.planning.text import aligned
from inid.promises import PureDP

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

__all__ = ["Comparison", "ComparisonRow", "compare"]

_NOTHING = 1.001  # a gain below 0.1 % is called none


@dataclass(frozen=True)
class ComparisonRow:
    """One way to keep the promise: its error, the error in decibels (10 log10), and its ratio to the plan's error."""

    mechanism: MechanismName
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
        rows = [asdict(row) | {"chosen": (row.mechanism, row.allocation) == self.chosen} for row in self.rows]
        return pd.DataFrame(rows)

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Draw the error of every row as a bar, relative to the plan's; `ax` as for `NoisePlan.plot`.

        >>> import inid
        >>> inid.plan(inid.Sensitivity.box([1.0, 3.0]), inid.PureDP(epsilon=0.5)).compare().plot().get_xlabel()
        "expected error, relative to the plan's"
        """
        from inid.planning.plots import plot_comparison

        return plot_comparison(self, ax)

    @property
    def remark(self) -> str | None:
        """A sentence when a baseline is already optimal for the plan's mechanism, else None.

        >>> import inid
        >>> inid.plan(inid.Sensitivity.box([2.0, 2.0]), inid.PureDP(epsilon=1.0)).compare().remark
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


def compare(made: NoisePlan) -> Comparison:
    """The plan's baselines under the same promise, weights and order."""
    mechanisms: tuple[MechanismName, ...] = ("laplace",) if isinstance(made.stated, PureDP) else ("gaussian", "laplace")
    rows = []
    for mechanism in mechanisms:
        for allocation in ("optimal", "iid", "spr"):
            other = plan(
                made.sensitivity,
                made.stated,
                mechanism=mechanism,
                allocation=allocation,
                weights=made.weights,
                order=made.order,
            )
            log = other.log2_error
            ratio = 1.0 if log == made.log2_error else 2.0 ** min(log - made.log2_error, 1023.0)
            error = 2.0 ** min(log, 1023.999) if log > -1022 else 0.0
            rows.append(ComparisonRow(mechanism, allocation, error, 10 * math.log10(2) * log, ratio))
    return Comparison(tuple(rows), (made.mechanism, made.allocation))
