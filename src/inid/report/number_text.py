"""Numbers as people write them: a few digits, thousands apart, as many places as the noise leaves any meaning to."""

import math

__all__ = ["plain_number", "plain_ratio", "rounded_interval"]


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
