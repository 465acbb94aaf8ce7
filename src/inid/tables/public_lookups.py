"""Columns of a small public table, looked up by a key: formulas of the column that holds the key, for every engine."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from inid.arguments import shown
from inid.errors import ArgumentError
from inid.tables.engines import optional
from inid.tables.expressions import Arithmetic, Branch, Condition, Constant, Expression, Member, Word, as_value, col
from inid.tables.facts import Key, as_listed, read_keys

__all__ = ["lookups"]

_MOST = 45  # values of one column: an expression has 200 parts
_NOTHING = Arithmetic("/", Constant(0.0), Constant(0.0))  # missing


def lookups(public: object, on: str, otherwise: str) -> tuple[dict[str, Expression], dict[str, Any], dict[str, Any]]:
    """The formula of each column of a public table but its key, with public bounds and domains.

    Args:
        public: The table: a frame, or lists by column.
        on: The column that holds the key, here and there.
        otherwise: The text of rows whose key is not there.

    Raises:
        ArgumentError: It is no such table, a key is there twice, or there are too many values.
    """
    columns = _columns(public)
    if on not in columns:
        raise ArgumentError(f"with_public looks up {shown(on)}, which is no column of the public table.")
    keys = read_keys(f"the public table's {on!r}", columns.pop(on))
    if not columns:
        raise ArgumentError("the public table has no column beside its key: add one.")
    made: dict[str, Expression] = {}
    bounds: dict[str, Any] = {}
    domains: dict[str, Any] = {}
    for name, values in columns.items():
        grouped = _grouped(name, keys, as_listed(values))
        if all(isinstance(value, bool) for value in grouped):
            made[name] = _truth(on, grouped)
        elif all(isinstance(value, str) for value in grouped):
            made[name] = _chosen(on, grouped, Word(otherwise))
            domains[name] = list(grouped)
        else:
            made[name] = _chosen(on, grouped, _NOTHING)
            if min(grouped) < max(grouped):
                bounds[name] = (float(min(grouped)), float(max(grouped)))
    return made, bounds, domains


def _columns(public: object) -> dict[str, Any]:
    if isinstance(public, Mapping):
        return dict(public)
    nw = optional("narwhals")
    try:
        return dict(nw.from_native(public, eager_only=True).to_dict(as_series=False))
    except TypeError:
        raise ArgumentError(
            f"with_public takes a small table in memory, got a {type(public).__name__}: pass a pandas, Polars or "
            "PyArrow table, or lists by column; tables of a database are joined by Ibis."
        ) from None


def _grouped(name: str, keys: Sequence[Key], values: object) -> dict[Any, list[Key]]:
    """The keys of each value; a missing value has none."""
    if not isinstance(values, list) or len(values) != len(keys):
        raise ArgumentError(f"the public table's {name!r} must be a list as long as its keys.")
    grouped: dict[Any, list[Key]] = {}
    for key, value in zip(keys, values, strict=True):
        if value is None or (isinstance(value, float) and math.isnan(value)):
            continue
        if not isinstance(value, (str, bool, int, float)):
            raise ArgumentError(
                f"the public table's {name!r} holds a {type(value).__name__}: use numbers, texts, truths."
            )
        grouped.setdefault(value, []).append(key)
    kinds = {bool if isinstance(value, bool) else str if isinstance(value, str) else float for value in grouped}
    if len(kinds) != 1:
        raise ArgumentError(f"the public table's {name!r} must hold values of one kind, and one at least.")
    if len(grouped) > _MOST:
        raise ArgumentError(
            f"the public table's {name!r} has {len(grouped)} different values, and at most {_MOST} are looked up here: "
            "round or group them, or join the tables in a database, by Ibis."
        )
    return grouped


def _chosen(on: str, grouped: Mapping[Any, list[Key]], rest: Expression) -> Expression:
    made = rest
    for value, keys in reversed(list(grouped.items())):
        made = Branch(Member(col(on), tuple(keys)), as_value(value), made)
    return made


def _truth(on: str, grouped: Mapping[Any, list[Key]]) -> Condition:
    """Whether the key is one of those with a true value; false where it is not there."""
    if True not in grouped:
        raise ArgumentError("a column of the public table is false throughout: leave it out.")
    return Member(col(on), tuple(grouped[True]))
