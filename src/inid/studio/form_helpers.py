"""Helpers of the form: bands of numbers, public lists of codes, new ledgers.

A list of codes comes from outside the table, an office's classification say. A file with the columns of the table
itself is no such list, and is refused by its names alone.
"""

import csv
import io
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from difflib import get_close_matches
from itertools import pairwise
from pathlib import Path
from typing import Any

from inid.accounting import Ledger
from inid.arguments import shown
from inid.errors import ArgumentError
from inid.jobs import read_budget
from inid.jobs.ledgers import make_ledger
from inid.schema import key
from inid.schema.values import Number, entries_of, number_text
from inid.studio.folder import Folder, is_text
from inid.studio.form import field_name
from inid.studio.live import Planner

_MOST = 1_000  # bands
_MOST_COMPUTED = 36  # bands of a computed column: a formula has at most 200 parts
OUTSIDE = "outside"  # the key of rows beyond the bands: in no list of values, so that they count as other


@dataclass(frozen=True)
class Bands:
    """Bands of one column."""

    column: str
    edges: tuple[Decimal, ...]
    integral: bool

    @property
    def values(self) -> list[str]:
        """What each band is called."""
        return [self._called(low, high) for low, high in pairwise(self.edges)]

    def _called(self, low: Decimal, high: Decimal) -> str:
        if not self.integral:
            return f"{_text(low)} to below {_text(high)}"
        last = high - 1
        between = " to " if low < 0 else "-"
        return _text(low) if last == low else f"{_text(low)}{between}{_text(last)}"

    @property
    def formula(self) -> str:
        """The formula of a computed column that holds the band of each row."""
        formula = repr(OUTSIDE)
        pairs = zip([OUTSIDE, *self.values], self.edges, strict=True)
        for name, edge in reversed(list(pairs)):
            formula = f"when(col({self.column!r}) < {_text(edge)}, {name!r}, {formula})"
        return formula

    @property
    def name(self) -> str:
        """What the computed column is called."""
        return f"{self.column} band"


def make_bands(
    column: object,
    *,
    edges: object = "",
    lower: object = "",
    upper: object = "",
    width: object = "",
    integral: object = False,
    computed: bool = False,
) -> Bands:
    """Bands from their edges, or of one width between two ends."""
    if not isinstance(column, str) or not column:
        raise ArgumentError("a column is missing: choose the column that has bands.")
    listed = entries_of(edges) if isinstance(edges, str) else []
    bounds = [_number("Edges", one) for one in listed] or _steps(lower, upper, width)
    if len(bounds) < 2 or any(low >= high for low, high in pairwise(bounds)):
        raise ArgumentError("Edges do not fit: state two or more numbers, the smaller ones first.")
    most = _MOST_COMPUTED if computed else _MOST
    if len(bounds) > most + 1:
        raise ArgumentError(f"{len(bounds) - 1:,} bands are too many: make them wider, at most {most:,}.")
    if integral is True and any(edge != int(edge) for edge in bounds):
        raise ArgumentError("Edges of whole numbers are whole numbers: write them without decimals, or untick it.")
    return Bands(column, tuple(bounds), integral is True)


def _steps(lower: object, upper: object, width: object) -> Sequence[Decimal]:
    low, high, step = _number("From", lower), _number("To", upper), _number("Width", width)
    if not (low < high and step > 0):
        raise ArgumentError("Bands do not fit: From must be below To, and Width above 0.")
    if (high - low) / step > 2 * _MOST:
        raise ArgumentError(f"there are too many bands: make them wider, at most {_MOST:,}.")
    bounds = [low]
    while bounds[-1] + step < high:
        bounds.append(bounds[-1] + step)
    return [*bounds, high]


def _number(name: str, value: object) -> Decimal:
    if not isinstance(value, str) or not value.strip():
        raise ArgumentError(f"{name} is missing: write a number, or list the edges.")
    number = Number().read(name, value.strip())
    if abs(Decimal(number)) > 10**15:
        raise ArgumentError(f"{name} does not fit, got {shown(value)}: write a number below 10^15.")
    return Decimal(number)


def _text(edge: Decimal) -> str:
    return format(edge.normalize(), "f") if edge else number_text(0)


_SEPARATORS = ("\t", ";", "|", ",")
_MOST_COLUMNS = 100
_MOST_CODES = 2**16
_MOST_COMPARED = 2_000  # near spellings are looked for one by one
_NEAR = 0.6  # of 1, as `difflib` measures it


@dataclass(frozen=True)
class ListColumn:
    """One column of a file of codes."""

    name: str
    values: tuple[str, ...]


def read_code_list(text: str, table: Collection[str] = ()) -> list[ListColumn]:
    """The columns of a CSV file of codes."""
    if not is_text(text):
        raise ArgumentError("the file is not a text: bring a list of codes as a CSV file in UTF-8.")
    first = text.removeprefix("\ufeff").lstrip().partition("\n")[0]
    separator = max(_SEPARATORS, key=first.count)
    try:
        lines = csv.reader(io.StringIO(text.removeprefix("\ufeff")), delimiter=separator)
        cells = [[cell.strip() for cell in row] for row in lines if any(cell.strip() for cell in row)]
    except csv.Error:
        raise ArgumentError("the file does not parse as CSV: bring one code per line.") from None
    if not cells:
        raise ArgumentError("the file holds no codes: bring one code per line.")
    if len(cells) > _MOST_CODES or max(map(len, cells)) > _MOST_COLUMNS:
        raise ArgumentError(
            f"the file is too long for a list of codes: at most {_MOST_CODES:,} lines of {_MOST_COLUMNS} columns."
        )
    names = cells[0]
    if len(names) > 1 and set(names) <= set(table):
        raise ArgumentError(
            "the file has the columns of the table itself. Codes are public knowledge and are never read off the "
            "table: bring a list from elsewhere, a classification say."
        )
    return [
        ListColumn(name, tuple(dict.fromkeys(row[at] for row in cells[1:] if at < len(row) and row[at])))
        for at, name in enumerate(names)
    ]


@dataclass(frozen=True)
class Comparison:
    """Two lists beside each other."""

    agree: int
    only_here: tuple[str, ...]
    only_there: tuple[str, ...]
    near: tuple[tuple[str, str], ...]


def compare_lists(here: Sequence[str], there: Sequence[str]) -> Comparison:
    """Two public lists of codes: what agrees, what does not, and which spellings are near each other."""
    ours, other = dict.fromkeys(here), dict.fromkeys(there)
    only_here, only_there = [code for code in ours if code not in other], [code for code in other if code not in ours]
    left = {code.casefold(): code for code in reversed(only_there[:_MOST_COMPARED])}
    near: list[tuple[str, str]] = []
    for code in only_here[:_MOST_COMPARED]:
        near += [(code, left.pop(match)) for match in get_close_matches(code.casefold(), left, 1, _NEAR)]
    return Comparison(len(ours) - len(only_here), tuple(only_here), tuple(only_there), tuple(near))


_LEDGER_KEYS = ("epsilon", "delta", "mu", "rho", "name", "unit", "currency", "reserve")


class FormHelpers:
    """The page's helpers for lists, bands and ledgers of one folder."""

    def __init__(self, folder: Folder, planner: Planner) -> None:
        self._folder = folder
        self._planner = planner

    def codes(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """The columns of a file of codes, which the browser read and nobody keeps."""
        table = body.get("table")
        names = [column.name for column in self._planner.columns(table)] if table else []
        result = read_code_list(_body_text(body, "text"), names)
        return {"columns": [{"name": one.name, "values": list(one.values)} for one in result]}

    def compare(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Two public lists beside each other."""
        here, there = (_words(_body_text(body, name)) for name in ("here", "there"))
        if not here or not there:
            raise ArgumentError("a list is empty: fill in both.")
        result = compare_lists(here, there)
        return {
            "agree": result.agree,
            "here": list(result.only_here),
            "there": list(result.only_there),
            "near": [list(pair) for pair in result.near],
        }

    def bands(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Bands of a column: edges of a histogram, and a computed column with its public values."""
        computed = body.get("computed") is True
        fields = {name: body.get(name) for name in ("edges", "lower", "upper", "width", "integral")}
        bands = make_bands(body.get("column"), **fields, computed=computed)
        texts = key("domains").type.to_field({bands.name: bands.values})
        edges = key("histogram").type.to_field({bands.column: [float(edge) for edge in bands.edges]})
        shown = {"name": bands.name, "names": bands.values, "text": texts[bands.name], "edges": edges[bands.column]}
        return shown | ({"formula": bands.formula} if computed else {})

    def ledger_names(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """The names of the ledgers in one file or database."""
        address = self._folder.ledger(body.get("ledger"))
        return {"names": list(Ledger.names(address))}

    def new_ledger(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Make a ledger, as `inid ledger create` does."""
        if not all(isinstance(value, str) for value in body.values()):
            raise ArgumentError("the fields of a ledger are texts: fill them in again.")
        values = {name: body.get(name, "").strip() or None for name in (*_LEDGER_KEYS, "ledger")}
        file = values["ledger"] or ""
        file = file if Path(file).suffix else f"{file}.db"
        total = read_budget({name: values[name] for name in ("epsilon", "delta", "mu", "rho")}, field_name)
        if total is None:
            raise ArgumentError("a total is missing: state Epsilon, with or without Delta, for all releases together.")
        settings = {name: key(name).of(values, field_name) for name in ("unit", "currency", "reserve")}
        settings = {name: value for name, value in settings.items() if value is not None}
        if "reserve" in settings:
            settings["reserve"] = float(settings["reserve"])
        name = key("name").of(values, field_name) or "default"
        make_ledger(self._folder.ledger(file), name, total, **settings).close()
        return {"ledger": file, "name": name}


def _body_text(body: Mapping[str, Any], name: str) -> str:
    text = body.get(name)
    if not isinstance(text, str):
        raise ArgumentError("a list is a text: paste it again.")
    return text


def _words(text: str) -> list[str]:
    """The entries of a field of public values, as texts."""
    return [str(code) for code in key("domains").type.from_field("", {"list": text}).get("list", [])]
