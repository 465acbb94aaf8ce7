"""What a column is used for in a query."""

from typing import Any, Literal

from inid.tables.engines.guarded import optional

__all__ = ["FIRST_DAY", "LAST_DAY", "IdKind", "Role", "is_text"]

# Years 1 to 9999, in days since 1970. Engines differ in what they do with dates beyond these: such a date is missing.
FIRST_DAY, LAST_DAY = -719_162, 2_932_896

IdKind = Literal["str", "int"]  # of people in a list
Role = Literal["number", "str", "int", "bool", "day", "year", "person", "order", "raw"]


def is_text(kind: Any) -> bool:
    """Whether a column of this type holds texts, which categories are too.

    Categories sort by their positions, which may depend on everybody's values, and some texts have a collation that
    takes "ann" for "Ann": people and orders are told apart by the letters alone.
    """
    nw = optional("narwhals")
    return kind in (nw.String, nw.Categorical) or isinstance(kind, nw.Enum)
