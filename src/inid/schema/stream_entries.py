"""The keys of streams, in the order of help."""

from inid.schema.key import Key, register
from inid.schema.number_types import whole
from inid.schema.periods import Periods
from inid.schema.values import Choice

__all__: list[str] = []

register(
    Key(
        "periods",
        Periods(),
        "A:B",
        "The first and last year, month or day (2027-01:2027-12), or names with commas.",
        "stream",
        "Periods",
        "stream",
        "2027-01:2027-12",
        "The first and the last year, month or day, with a colon between them; or names with commas. They are public, "
        "and never change.",
    ),
    Key(
        "contributes",
        whole("every"),
        "K",
        "In how many periods one person counts at most (default: 1), or every.",
        "stream",
        "Periods per person",
        "contributes",
        "1; a number, or every",
        "In how many periods one person counts at most. Where rows belong to people, a secret list in the stream's "
        "file keeps count; a row by itself is in one period, or state every.",
    ),
    Key(
        "want",
        Choice({"totals": "totals", "windows": "windows", "periods": "single periods"}, "totals"),
        "WORD",
        "What is to be accurate: totals (the default), windows or periods.",
        "stream",
        "What is to be accurate",
        "stream",
    ),
    Key(
        "window",
        whole(),
        "N",
        "With --want windows: how many periods a window has.",
        "stream",
        "Periods in a window",
        "stream",
        "for example 3",
    ),
)
