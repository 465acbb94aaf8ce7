"""The error that is tolerable in each statistic by tables, from what the user stated."""

from collections.abc import Mapping

import numpy as np

from inid.arguments import Floats, listed, real, shown
from inid.errors import ArgumentError, Words
from inid.tables.questions.marginals.question import MarginalsQuestion
from inid.tables.questions.marginals.table_statistics import TableStatistic

__all__ = ["named_tolerances", "read_tolerances"]

_CURE = "for example tolerance={('race',): 5, 'mean(income)': 500}"


def read_tolerances(question: MarginalsQuestion, tolerance: object) -> Floats:
    """One tolerance per statistic; where none is stated, what one person at a bound moves it by.

    That is 1 for a count, half the width of the bounds for a sum, and that over the guessed rows of a cell for a mean.
    Keys are a table of counts (a tuple of columns, or the one column), "count", "mean(income)" (all its tables), or a
    pair of the two, ("mean(income)", ("sex",)); the pair counts where several fit.

    Raises:
        ArgumentError: It is malformed, or a key fits nothing that is asked.
    """
    counts = len(question.tables)
    numbers = question.statistics[counts:] if question.summed else ()
    found = np.append(np.ones(counts), [_usual(question, statistic) for statistic in numbers])
    return np.array(
        [usual if own is None else own for usual, own in zip(found, named_tolerances(question, tolerance), strict=True)]
    )


def named_tolerances(question: MarginalsQuestion, tolerance: object) -> list[float | None]:
    """The stated tolerance of each statistic by a table; None where nobody named it.

    Raises:
        ArgumentError: See `read_tolerances`.
    """
    found: list[float | None] = [None] * question.asked
    if tolerance is None:
        return found
    if not isinstance(tolerance, Mapping):
        raise ArgumentError(f"tolerance must be a dictionary by table, got {shown(tolerance)}: {_CURE}.")
    names: dict[str, list[int]] = {}
    tables: dict[tuple[str, frozenset[str]], int] = {}
    for at, statistic in enumerate(question.statistics):
        names.setdefault(statistic.name, []).append(at)
        tables[statistic.name, frozenset(statistic.table)] = at
    read = {key: real(f"tolerance[{key!r}]", value, above=0, cure=_CURE) for key, value in tolerance.items()}
    for key in sorted(read, key=lambda key: not (isinstance(key, str) and key in names)):  # whole statistics first
        if isinstance(key, str) and key in names:
            for at in names[key]:
                found[at] = read[key]
            continue
        place = _pair(key)
        if place not in tables:
            raise ArgumentError(
                f"tolerance names {shown(key)}, which is no asked table: {_CURE}.",
                code="tolerance_unknown",
                key=Words(_text(key)),
                known=Words(listed([_text((own.name, own.table)) for own in question.statistics])),
            )
        found[tables[place]] = read[key]
    return found


def _text(key: object) -> str:
    """A key as commands and files write it: sex*age, or mean(income) by sex*age."""
    if isinstance(key, tuple) and len(key) == 2 and isinstance(key[1], tuple):
        name, table = key
        return "*".join(table) if name == "count" else f"{name} by {'*'.join(table)}" if table else str(name)
    return "*".join(map(str, key)) if isinstance(key, tuple) else str(key)


def _pair(key: object) -> tuple[str, frozenset[str]] | None:
    if isinstance(key, str):
        return "count", frozenset([key])
    if not isinstance(key, tuple):
        return None
    if len(key) == 2 and isinstance(key[0], str) and isinstance(key[1], tuple):
        return key[0], frozenset(key[1])
    return ("count", frozenset(key)) if all(isinstance(column, str) for column in key) else None


def _usual(question: MarginalsQuestion, statistic: TableStatistic) -> float:
    """The tolerance of a mean or a sum for which none is stated."""
    half = question.summed[statistic.column].grid.half
    return half / question.cell_rows(statistic.table) if statistic.kind == "mean" else half
