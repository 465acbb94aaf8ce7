"""The type of a stream's periods: names, or the first and the last year, month or day."""

import datetime as dt
import re
from collections.abc import Callable
from typing import Any

from inid.arguments import shown
from inid.errors import ArgumentError
from inid.schema.values import ValueType

__all__ = ["Periods"]

_MOST = 100_000


class Periods(ValueType):
    """The names of periods: a list, or the first and the last year, month or day.

    >>> Periods().read("--periods", "2027-11:2028-02")
    ['2027-11', '2027-12', '2028-01', '2028-02']
    >>> len(Periods().read("--periods", "2028-01-01:2028-12-31")), Periods().read("--periods", "north, south")
    (366, ['north', 'south'])
    """

    words = "list of names; or the first and the last year, month or day, as text"

    def read(self, name: str, value: Any) -> list[str]:
        cure = "pass names such as 2027-Q1,2027-Q2, or a range of years, months or days such as 2027-01:2027-12"
        if isinstance(value, list):
            return [str(one) for one in value]
        if not isinstance(value, str):
            raise ArgumentError(f"{name} is missing: {cure}.")
        first, colon, last = (part.strip() for part in value.partition(":"))
        if not colon:
            return [part.strip() for part in value.split(",")]
        for pattern, count, written in _RANGES:
            if re.fullmatch(pattern, first) and re.fullmatch(pattern, last):
                try:
                    begin, end = count(first), count(last)
                    if begin <= end < begin + _MOST:
                        return [written(at) for at in range(begin, end + 1)]
                except ValueError:
                    pass
        raise ArgumentError(f"{name} does not fit, got {shown(value)}: {cure}.")


def _month(text: str) -> int:
    day = dt.date.fromisoformat(f"{text}-01")
    return 12 * day.year + day.month - 1


_RANGES: tuple[tuple[str, Callable[[str], int], Callable[[int], str]], ...] = (
    (
        r"\d{4}-\d{2}-\d{2}",
        lambda text: dt.date.fromisoformat(text).toordinal(),
        lambda at: str(dt.date.fromordinal(at)),
    ),
    (r"\d{4}-\d{2}", _month, lambda at: f"{at // 12:04}-{at % 12 + 1:02}"),
    (r"\d{4}", int, str),
)
