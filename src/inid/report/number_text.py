"""Numbers as people write them: a few digits, thousands apart, as many places as the noise leaves any meaning to."""

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

__all__ = ["Digits", "digits_for", "plain_number", "plain_ratio", "rounded_interval", "spent_and_left"]

Three = tuple[float | None, float | None, float | None]
_MOST_DIGITS = 4  # of a number with decimals: 38.64, not 38.6421


def plain_number(value: float, digits: int = 5) -> str:
    """A number with a few digits, thousands apart, and no exponent where it can be helped.

    >>> plain_number(1234567.8), plain_number(0.00012345678), plain_number(12.0), plain_number(float("nan"))
    ('1,234,568', '0.00012346', '12', 'nan')
    """
    if value == 0 or not abs(value) < 1e15:
        return f"{value:g}"
    if abs(value) >= 10 ** (digits - 1):
        return f"{value:,.0f}"
    if abs(value) < 1e-5:
        return f"{value:.{digits}g}"
    rounded = f"{value:.{digits}g}"
    return rounded if "e" not in rounded else f"{value:f}"


def spent_and_left(share: Fraction) -> tuple[str, str]:
    """What is spent and what is left: in percent, the first rounded up, or as fractions where percent say no third.

    >>> spent_and_left(Fraction(1, 3)), spent_and_left(Fraction(1, 4)), spent_and_left(Fraction(1421, 10_000))
    (('1/3', '2/3'), ('25 %', '75 %'), ('15 %', '85 %'))
    >>> spent_and_left(Fraction(2, 3) - Fraction(1, 10**9)), spent_and_left(Fraction(1))
    (('2/3', '1/3'), ('100 %', '0 %'))
    """
    for parts in (100, 3, 6, 7, 9, 11, 12):
        near, unit = round(share * parts), " %" if parts == 100 else f"/{parts}"
        if abs(share * parts - near) < Fraction(1, 10**6):
            return f"{near}{unit}", f"{parts - near}{unit}"
    percent = min(math.ceil(100 * share), 100)
    return f"{percent} %", f"{100 - percent} %"


def plain_ratio(ratio: float) -> str:
    """A ratio with three digits.

    >>> plain_ratio(1.0), plain_ratio(185.2), plain_ratio(36_912_345.0), plain_ratio(3.5e12)
    ('1.00', '185', '36,900,000', '3.5e+12')
    """
    if ratio < 100:
        return f"{ratio:.2f}"
    return f"{float(f'{ratio:.3g}'):,.0f}" if ratio < 1e9 else f"{ratio:.2g}"


def rounded_interval(estimate: float | None, lower: float | None, upper: float | None) -> tuple[str, str, str]:
    """An estimate and the ends of its interval, rounded to two digits of the interval's half width.

    Three whole numbers stay whole.

    >>> rounded_interval(38.123456, 37.27, 38.98)
    ('38.12', '37.27', '38.98')
    >>> rounded_interval(194.0, 191.0, 198.0)
    ('194', '191', '198')
    >>> rounded_interval(12345678.9, 12300000.0, 12400000.0)
    ('12,345,679', '12,300,000', '12,400,000')
    >>> rounded_interval(None, None, None), rounded_interval(17.0, None, None)
    (('-', '-', '-'), ('17', '-', '-'))
    """
    if estimate is None or lower is None or upper is None:
        return "-" if estimate is None else plain_number(estimate), "-", "-"
    if all(abs(value) < 2**53 and value == int(value) for value in (estimate, lower, upper)):
        return f"{estimate:,.0f}", f"{lower:,.0f}", f"{upper:,.0f}"
    half = (upper - lower) / 2
    if not 0 < half < 1e300:
        return f"{estimate:.6g}", f"{lower:.6g}", f"{upper:.6g}"
    places = min(max(0, 1 - math.floor(math.log10(half))), 12)
    return f"{estimate:,.{places}f}", f"{lower:,.{places}f}", f"{upper:,.{places}f}"


@dataclass(frozen=True)
class Digits:
    """How the numbers of one table are printed: with equally many decimals, or as shares in percent.

    Attributes:
        places: The number of decimals; None where nothing is known of the noise, for a few digits of each.
        percent: Whether they are shares.
        whole: Whether the estimates are whole numbers, while the ends of intervals may have decimals.
    """

    places: int | None
    percent: bool = False
    whole: bool = False

    def three(self, numbers: Three) -> tuple[str, str, str]:
        """An estimate and the ends of its interval, which are rounded outwards; a dash for what is not there.

        >>> Digits(1).three((38.642, 38.251, 39.033)), Digits(0).three((-0.2, -3.4, None))
        (('38.6', '38.2', '39.1'), ('0', '-4', '-'))
        """
        middle, low, high = numbers
        places = 0 if self.whole else self.places
        return self._one(middle, round, places), self._one(low, math.floor), self._one(high, math.ceil)

    def _one(self, number: float | None, way: Callable[[float], int], places: int | None = -1) -> str:
        if number is None:
            return "-"
        x, places = 100 * number if self.percent else number, self.places if places == -1 else places
        if places is not None:
            unit = 10.0**places
            near = round(x * unit)
            exact = abs(x * unit - near) <= 1e-9 * max(1.0, abs(near))  # 0.1 + 0.2 is no reason to go one up
            x = (near if exact else way(x * unit)) / unit + 0.0
        text = plain_number(x) if places is None else f"{x:,.{places}f}"
        return f"{text} %" if self.percent else text


def digits_for(rows: Sequence[Three], *, whole: bool = False, percent: bool = False, levels: bool = False) -> Digits:
    """As many decimals as the noise of most of these numbers leaves any meaning to, and four digits at most.

    Args:
        rows: Estimates with the ends of their intervals.
        whole: Whether they are counts, which have no decimals.
        percent: Whether they are shares.
        levels: Whether they are values of a column, which are often whole: 35, not 35.000.

    >>> digits_for([(38.6421, 38.6391, 38.6450)]).places, digits_for([(35.0, 35.0, 36.0)]).places
    (2, 0)
    """
    known = [row for row in rows if None not in row]
    finite = [(a or 0.0, b or 0.0, c or 0.0) for a, b, c in known]
    if whole or (finite and all(abs(x) < 2**53 and x == int(x) for row in finite for x in row)):
        return Digits(0, percent)
    factor = 100 if percent else 1
    halves = [factor * (high - low) / 2 for _, low, high in finite]
    largest = max((factor * abs(x) for row in finite for x in row), default=0.0)
    half = statistics.median(halves) if halves else 0.0
    if not 0 < half < 1e300 or not 0 < largest < 1e300:
        return Digits(None, percent)
    useful, most = 1 - math.floor(math.log10(half)), _MOST_DIGITS - 1 - levels - math.floor(math.log10(largest))
    even = levels and all(middle == int(middle) for middle, _, _ in finite)
    return Digits(min(max(0, useful), max(0, most), 12), percent, even)
