"""What a column is used for in a query."""

from typing import Any, Literal

from inid.tables.engines.guarded import optional

__all__ = ["Role", "is_text"]

Role = Literal["number", "str", "int", "bool", "day", "year", "person", "order", "raw"]


def is_text(kind: Any) -> bool:
    """Whether a column of this type holds texts, which categories are too.

    Categories sort by their positions, which may depend on everybody's values, and some texts have a collation that
    takes "ann" for "Ann": people and orders are told apart by the letters alone.
    """
    nw = optional("narwhals")
    return kind in (nw.String, nw.Categorical) or isinstance(kind, nw.Enum)
