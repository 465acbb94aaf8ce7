"""Bands of numbers, such as ages 15-29, 30-49 and 50-64: edges of a histogram, or a computed column with its values."""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import pairwise

from inid.arguments import shown
from inid.errors import ArgumentError
from inid.schema.number_types import Number
from inid.schema.values import entries_of, number_text

__all__ = ["Bands", "make_bands"]

_MOST = 1_000  # bands
_MOST_COMPUTED = 36  # bands of a computed column: a formula has at most 200 parts
OUTSIDE = "outside"  # the key of rows beyond the bands: in no list of values, so that they count as other


@dataclass(frozen=True)
class Bands:
    """Bands of one column.

    Attributes:
        column: The column.
        edges: Where they begin, and where the last one ends.
        whole: Whether the column holds whole numbers, so that 15 to below 30 is called 15-29.
    """

    column: str
    edges: tuple[Decimal, ...]
    whole: bool

    @property
    def values(self) -> list[str]:
        """What each band is called.

        >>> make_bands("age", edges="15, 30, 50, 65", whole=True).values
        ['15-29', '30-49', '50-64']
        >>> make_bands("pay", edges="0, 0.5, 1").values
        ['0 to below 0.5', '0.5 to below 1']
        """
        return [self._called(low, high) for low, high in pairwise(self.edges)]

    def _called(self, low: Decimal, high: Decimal) -> str:
        if not self.whole:
            return f"{_text(low)} to below {_text(high)}"
        last = high - 1
        between = " to " if low < 0 else "-"
        return _text(low) if last == low else f"{_text(low)}{between}{_text(last)}"

    @property
    def formula(self) -> str:
        """The formula of a computed column that holds the band of each row.

        >>> make_bands("age", edges="15, 30", whole=True).formula
        "when(col('age') < 15, 'outside', when(col('age') < 30, '15-29', 'outside'))"
        """
        made = repr(OUTSIDE)
        pairs = zip([OUTSIDE, *self.values], self.edges, strict=True)
        for name, edge in reversed(list(pairs)):
            made = f"when(col({self.column!r}) < {_text(edge)}, {name!r}, {made})"
        return made

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
    whole: object = False,
    computed: bool = False,
) -> Bands:
    """Bands from their edges, or of one width between two ends.

    Args:
        column: The column.
        edges: Where the bands begin, and where the last one ends; empty to count them by width.
        lower: Where the first band begins.
        upper: Where the last one ends.
        width: How wide each is; the last one may be narrower.
        whole: Whether the column holds whole numbers.
        computed: Whether they become a computed column, which has fewer.

    Raises:
        ArgumentError: The column or a number is missing or malformed, or there are too many bands.

    >>> make_bands("age", lower="0", upper="50", width="20").edges
    (Decimal('0'), Decimal('20'), Decimal('40'), Decimal('50'))
    """
    if not isinstance(column, str) or not column:
        raise ArgumentError("a column is missing: choose the column that has bands.")
    listed = entries_of(edges) if isinstance(edges, str) else []
    found = [_number("Edges", one) for one in listed] or _steps(lower, upper, width)
    if len(found) < 2 or any(low >= high for low, high in pairwise(found)):
        raise ArgumentError("Edges do not fit: state two or more numbers, the smaller ones first.")
    most = _MOST_COMPUTED if computed else _MOST
    if len(found) > most + 1:
        raise ArgumentError(f"{len(found) - 1:,} bands are too many: make them wider, at most {most:,}.")
    if whole is True and any(edge != int(edge) for edge in found):
        raise ArgumentError("Edges of whole numbers are whole numbers: write them without decimals, or untick it.")
    return Bands(column, tuple(found), whole is True)


def _steps(lower: object, upper: object, width: object) -> Sequence[Decimal]:
    low, high, step = _number("From", lower), _number("To", upper), _number("Width", width)
    if not (low < high and step > 0):
        raise ArgumentError("Bands do not fit: From must be below To, and Width above 0.")
    if (high - low) / step > 2 * _MOST:
        raise ArgumentError(f"there are too many bands: make them wider, at most {_MOST:,}.")
    found = [low]
    while found[-1] + step < high:
        found.append(found[-1] + step)
    return [*found, high]


def _number(name: str, value: object) -> Decimal:
    if not isinstance(value, str) or not value.strip():
        raise ArgumentError(f"{name} is missing: write a number, or list the edges.")
    found = Number().read(name, value.strip())
    if abs(Decimal(found)) > 10**15:
        raise ArgumentError(f"{name} does not fit, got {shown(value)}: write a number below 10^15.")
    return Decimal(found)


def _text(edge: Decimal) -> str:
    return format(edge.normalize(), "f") if edge else number_text(0)
