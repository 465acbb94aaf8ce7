"""Raking: released counts by groups are fitted to public totals, one column after the other, after the release.

Post-processing of released numbers and public ones: it costs nothing. This is where calibration belongs: weights that
are calibrated before a release depend on everybody's data, so no bound on one person's weight holds.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from inid.arguments import Floats, real, shown
from inid.errors import ArgumentError
from inid.tables.facts import Key
from inid.tables.result import Result

_ROUNDS = 1_000
_NEAR = 1e-9  # of a total: the fit has come to rest
_APART = 1e-6  # relative difference of totals that are those of the same people


def rake(result: Result, totals: Mapping[str, Mapping[Key, float]]) -> Any:
    """Fit released counts by groups to public totals of each column (iterative proportional fitting).

    Counts, weighted or not, are multiplied by factors, one for each key of each column, so that their sums over the
    other columns are the public totals. Counts below 0 are 0 first. The fitted counts have no intervals: they are
    biased where noise was cut off.

    Args:
        result: A release of counts by groups, `t.statistics(count=True, by=...)`.
        totals: By column of `by` the public total of each of its keys: {"sex": {"F": 2.1e6, "M": 1.9e6}}.

    Returns:
        A frame of the kind of the table: the keys, the released count, the fitted one ("raked"), and their ratio
        ("factor"), by which other numbers of the group can be multiplied.

    Raises:
        ArgumentError: The result has no counts by these columns, a total is missing or negative, totals of two columns
            differ in their sums, or a group that should have people has a count of 0 throughout.

    >>> import inid, pandas
    >>> from inid import tables
    >>> frame = pandas.DataFrame({"sex": ["F"] * 500 + ["M"] * 300})
    >>> q = tables.Table(frame).statistics(count=True, by={"sex": ["F", "M"]})
    >>> fitted = tables.rake(q.release(q.plan(inid.PureDP(1.0))), {"sex": {"F": 51_000, "M": 49_000}})
    >>> fitted["raked"].round().tolist()
    [51000.0, 49000.0]
    """
    counted = [row for row in result.answers if row.statistic == "count" and row.keys]
    if not counted:
        raise ArgumentError("rake fits counts by groups: release t.statistics(count=True, by={...}) first.")
    columns = list(counted[0].keys)
    levels = {column: list(dict.fromkeys(row.keys[column] for row in counted)) for column in columns}
    margins = _read_totals(totals, levels)
    counts = np.maximum(
        np.array([row.estimate for row in counted]).reshape([len(levels[name]) for name in columns]), 0.0
    )
    raked = _fitted(counts, {columns.index(name): margin for name, margin in margins.items()}).ravel()
    released = counts.ravel()
    factors = np.divide(raked, released, out=np.ones_like(raked), where=released > 0)
    keys = {name: [row.keys[name] for row in counted] for name in columns}
    numbers = {"count": released.tolist(), "raked": raked.tolist(), "factor": factors.tolist()}
    return result.source.answer(keys | numbers)


def _read_totals(totals: object, levels: Mapping[str, list[Key | float]]) -> dict[str, Floats]:
    cure = "for example totals={'sex': {'F': 2_100_000, 'M': 1_900_000}}"
    if not (isinstance(totals, Mapping) and totals):
        raise ArgumentError(f"totals must be a dictionary by column, got {shown(totals)}: {cure}.")
    margins: dict[str, Floats] = {}
    for column, stated in totals.items():
        if column not in levels:
            raise ArgumentError(f"totals name {shown(column)}, by which nothing was counted: use {', '.join(levels)}.")
        if not isinstance(stated, Mapping) or set(stated) != set(levels[column]):
            raise ArgumentError(f"totals[{column!r}] must have one number for each key of the release: {cure}.")
        numbers = [real(f"totals[{column!r}][{key!r}]", stated[key], least=0, cure=cure) for key in levels[column]]
        margins[column] = np.array(numbers)
    sums = [float(margin.sum()) for margin in margins.values()]
    if not min(sums) > 0 or max(sums) - min(sums) > _APART * max(sums):
        raise ArgumentError("the totals of all columns must have one sum above 0, that of the same people: check them.")
    return {name: margin * (sums[0] / one) for (name, margin), one in zip(margins.items(), sums, strict=True)}


def _fitted(counts: Floats, margins: Mapping[int, Floats]) -> Floats:
    """Iterative proportional fitting (Deming and Stephan 1940)."""
    cells = counts.copy()
    for _ in range(_ROUNDS):
        worst = 0.0
        for axis, margin in margins.items():
            others = tuple(at for at in range(cells.ndim) if at != axis)
            sums = cells.sum(axis=others)
            if ((sums == 0) & (margin > 0)).any():
                raise ArgumentError(
                    "a key whose public total is above 0 has released counts of 0 in all groups, so that no factor "
                    "fits: rake over fewer columns, or release with less noise."
                )
            factor = np.divide(margin, sums, out=np.zeros_like(sums), where=sums > 0)
            worst = max(worst, float(np.max(np.abs(sums - margin))))
            cells *= np.expand_dims(factor, others)
        if worst <= _NEAR * float(counts.sum() + max(m.sum() for m in margins.values())):
            break
    return cells
