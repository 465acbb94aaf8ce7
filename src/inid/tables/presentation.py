"""Answers as people read them: one column per key, labels instead of codes, whole counts, what is too noisy, and plots.

All of it is post-processing of released numbers: it costs nothing and reveals nothing more.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from inid import figures
from inid.arguments import real, shown
from inid.errors import ArgumentError
from inid.planning.text import aligned
from inid.report import PlanSummary
from inid.tables.facts import Key

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from inid.tables.result import Row

__all__ = [
    "COUNTED",
    "FIXED",
    "NUMBERS",
    "KeyLabels",
    "Labels",
    "Words",
    "answer_columns",
    "label_columns",
    "labelled",
    "named_columns",
    "noisy_rows",
    "plot_rows",
    "plot_summary",
    "read_labels",
    "read_rows_are",
    "read_too_noisy",
    "short_table",
    "whole_count",
    "whole_rows",
]

KeyLabels = Mapping[str, Mapping[Key, str]]
Labels = Mapping[str, str | Mapping[Key, str] | tuple[str, Mapping[Key, str]]]
COUNTED = ("count", "count_distinct", "histogram")
NUMBERS = ("estimate", "lower", "upper", "std", "scale")  # `scale` for one more version
FIXED = ("statistic", "column", *NUMBERS, "too_noisy")  # no key has such a column
_SHOWN = 20


@dataclass(frozen=True)
class Words:
    """What columns and their keys are called.

    Attributes:
        columns: The name of each column that has another one than its own.
        keys: What its keys are called, by column.
    """

    columns: Mapping[str, str] = field(default_factory=dict)
    keys: KeyLabels = field(default_factory=dict)

    def of(self, keyed: Iterable[str]) -> "Words":
        """The same for an answer of which these columns have keys."""
        own = set(keyed)
        return Words(self.columns, {column: words for column, words in self.keys.items() if column in own})


def read_labels(labels: object, keyed: Iterable[str], named: Iterable[str] = ()) -> Words:
    """What the user calls columns and keys: a text for a column, a dictionary for its keys, a pair for both.

    Args:
        labels: What the user stated.
        keyed: The columns whose keys can have labels; where there are none, since nothing was found, any is taken.
        named: Other columns, which can have a name.

    Raises:
        ArgumentError: It is malformed, or names another column.
    """
    if labels is None:
        return Words()
    cure = "for example labels={'sex': {1: 'male', 2: 'female'}}"
    if not isinstance(labels, Mapping):
        raise ArgumentError(f"labels must be a dictionary by column, got {shown(labels)}: {cure}.")
    names: dict[str, str] = {}
    keys: dict[str, dict[Key, str]] = {}
    for column, stated in labels.items():
        name, words = stated if isinstance(stated, tuple) and len(stated) == 2 else (None, stated)
        if isinstance(stated, str):
            name, words = stated, {}
        texts = isinstance(words, Mapping) and all(isinstance(word, str) for word in words.values())
        if not texts or not (name is None or isinstance(name, str)):
            raise ArgumentError(
                f"labels of {shown(column)} must be a text, a dictionary from keys to texts, or a pair of both: {cure}."
            )
        names |= {} if name is None else {column: name}
        keys |= {column: dict(words)} if words else {}
    columns = sorted(set(keyed))
    for column in keys:
        if columns and column not in columns:
            raise ArgumentError(f"labels name {shown(column)}, which has no keys here: use {', '.join(columns)}.")
    known = sorted({*columns, *named})
    for column in names:
        if columns and column not in known:
            raise ArgumentError(f"labels name {shown(column)}, which is no column here: use {', '.join(known)}.")
    return Words(names, keys)


def read_rows_are(rows_are: object) -> str | None:
    """What the user calls the rows of a table.

    Raises:
        ArgumentError: It is no text.
    """
    if rows_are is None or (isinstance(rows_are, str) and rows_are.strip()):
        return rows_are
    raise ArgumentError(f"rows_are must be a word in the plural, got {shown(rows_are)}: for example 'people'.")


def label_columns(rows: Iterable["Row"]) -> set[str]:
    """The columns whose keys can have labels."""
    return {_column(name, row) for row in rows for name in row.keys}


def named_columns(rows: Iterable["Row"]) -> set[str]:
    """The columns that answers are about, which can have a name."""
    return {name for row in rows for name in row.column.split(",") if name}


def labelled(key: Any, column: str, labels: KeyLabels) -> Any:
    """What a key is called; itself without a label. Keys that became texts have the label of what they were.

    >>> labelled(1, "sex", {"sex": {1: "male"}}), labelled("1", "sex", {"sex": {1: "male"}}), labelled(3, "sex", {})
    ('male', 'male', 3)
    """
    words = labels.get(column, {})
    if key in words and not isinstance(key, bool):
        return words[key]
    return {str(known): word for known, word in words.items()}.get(str(key), key)


def whole_count(estimate: float, lower: float, upper: float) -> tuple[float, float, float]:
    """A count as a whole number of at least 0, with its interval: the exact count is one, so the ends round inwards.

    An interval without such a number says nothing of the count, which may be anything from 0 on.

    >>> whole_count(-1.3, -4.2, 1.6), whole_count(7.6, 5.2, 10.0), whole_count(-7.6, -9.0, -6.2)
    ((0.0, 0.0, 1.0), (8.0, 6.0, 10.0), (0.0, 0.0, inf))
    """
    low, high = max(math.ceil(lower), 0), math.floor(upper)
    if high < low:
        return float(max(round(estimate), 0)), 0.0, math.inf
    return float(min(max(round(estimate), low), high)), float(low), float(high)


def whole_rows(rows: Iterable["Row"]) -> tuple["Row", ...]:
    """The same answers with counts as whole numbers of at least 0."""
    found = []
    for row in rows:
        three = row.estimate, row.lower, row.upper
        if row.statistic in COUNTED and all(map(math.isfinite, three)):
            estimate, lower, upper = whole_count(*three)
            found.append(row._replace(estimate=estimate, lower=lower, upper=upper))
        else:
            found.append(row)
    return tuple(found)


def read_too_noisy(share: object) -> float:
    """The share of an estimate beyond which its interval is too wide.

    Raises:
        ArgumentError: It is no positive number.
    """
    return real("too_noisy", share, above=0, cure="pass a share of the estimate, such as 0.3")


def noisy_rows(rows: Iterable["Row"], too_noisy: object) -> list[bool]:
    """Which answers are too noisy to publish: their interval is wider than a share of the estimate.

    Raises:
        ArgumentError: The share is no positive number.
    """
    share = read_too_noisy(too_noisy)
    return [not row.upper - row.lower <= share * abs(row.estimate) for row in rows]


def answer_columns(
    rows: Sequence["Row"],
    labels: object = None,
    keys: Iterable[str] = (),
    first: Mapping[str, list[Any]] = MappingProxyType({}),
) -> dict[str, list[Any]]:
    """The answers column by column: statistic, column, one column per key, estimate, lower, upper, std (and scale).

    A key that not every answer has is a text, empty where there is none: engines take one type in a column.

    Args:
        rows: The answers.
        labels: What keys are called, by column; columns keep their names, by which programs find them.
        keys: Columns that are there even without an answer.
        first: Columns that stand before all others.

    Raises:
        ArgumentError: The labels are malformed.
    """
    words = read_labels(labels, label_columns(rows) if labels else (), named_columns(rows)).keys
    columns: dict[str, list[Any]] = {**first, **{name: [getattr(row, name) for row in rows] for name in FIXED[:2]}}
    for name in dict.fromkeys([*keys, *(name for row in rows for name in row.keys)]):
        found = [labelled(row.keys[name], _column(name, row), words) if name in row.keys else "" for row in rows]
        mixed = len({type(key) for key in found}) > 1
        columns[f"{name}_key" if name in (*FIXED, *first) else name] = [str(key) for key in found] if mixed else found
    numbers = [row.to_dict() for row in rows]
    return columns | {name: [parts[name] for parts in numbers] for name in NUMBERS}


def _column(name: str, row: "Row") -> str:
    """The column whose labels a key has: the cell of a histogram is one of its own column."""
    return row.column if name == "cell" and row.statistic == "histogram" else name


def short_table(rows: Sequence["Row"], head: str, level: float) -> str:
    """The first answers as a text."""
    found = answer_columns(rows[:_SHOWN])
    words = [name for name in found if name not in NUMBERS and any(value != "" for value in found[name])]
    table = [[*words, "estimate", f"{100 * level:.4g}% interval"]]
    for at in range(len(found["estimate"])):
        estimate, lower, upper = (found[name][at] for name in NUMBERS[:3])
        ends = f"[{lower:.6g}, {upper:.6g}]"
        table.append([*(str(found[name][at]) for name in words), f"{estimate:.6g}", ends])
    more = len(rows) - _SHOWN
    lines = aligned(table, left=len(words))
    return "\n".join([head, *lines, *([f"... and {more} more"] if more > 0 else [])])


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


def plot_rows(rows: Iterable["Row"]) -> "Figure":
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
