"""A step in words and numbers: what each group of parameters may add, and what noise it gets."""

from collections.abc import Mapping, Sequence

from inid.planning import NoisePlan
from inid.planning.text import aligned

__all__ = ["step_summary"]


def step_summary(names: Sequence[str], thresholds: Sequence[float], made: NoisePlan, lost: Mapping[int, float]) -> str:
    """A table of the groups of a step.

    Args:
        names: The groups.
        thresholds: Their thresholds.
        made: The plan of the noise.
        lost: By how much the allowances for rounding typically shorten a clipped gradient, for the groups whose rows
            are not written down; it follows from shapes alone.

    >>> from inid import GaussianDP, Sensitivity, plan
    >>> noise = plan(Sensitivity.groups(sizes=[4, 1], l2=[1.0, 1.0]), GaussianDP(mu=1.0))
    >>> print(step_summary(["first", "last"], [1.0, 1.0], noise, {0: 0.053}))
    group  size  threshold  noise scale  signal lost
    first     4          1      1.22474        5.3 %
    last      1          1      1.73205         none
    """
    rows = [["group", "size", "threshold", "noise scale", "signal lost"]]
    for at, (name, threshold, (scale, size)) in enumerate(zip(names, thresholds, made.runs, strict=True)):
        shown = f"{100 * lost[at]:.2g} %" if lost.get(at) else "none"
        rows.append([name, f"{size:,}", f"{threshold:.6g}", f"{scale:.6g}", shown])
    return "\n".join(aligned(rows, left=1))
