"""The types of numbers: each is kept as the decimal that was written, because a promise is that decimal."""

import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import Any, ClassVar

from inid.schema.values import Names, ValueType, is_list, wrong_value

__all__ = ["OFF", "Number", "Numbers", "Part", "Whole", "positive", "probability", "read_float", "whole"]


@dataclass(frozen=True)
class Number(ValueType):
    """One number exactly as it was written.

    Attributes:
        wanted: What it should be, in words.
        fits: Which numbers these are; all by default.
        instead: A word that may stand in its place.
        words: What a file holds, for the reference.
    """

    wanted: str = "a number such as 1 or 1e-6"
    fits: Callable[[Decimal], bool] = lambda _: True
    instead: str | None = None
    words: str = "number"
    field: str = "number"
    is_number: ClassVar[bool] = True

    def read(self, name: str, value: Any) -> Any:
        """An integer, a decimal or the text of one.

        >>> Number().read("epsilon", "0.1"), Number().read("epsilon", 0.1), Number().read("epsilon", 1)
        (Decimal('0.1'), Decimal('0.1'), 1)
        """
        if value is None or (self.instead is not None and value == self.instead):
            return value
        found: int | Decimal | None = None
        if isinstance(value, (int, Decimal)) and not isinstance(value, bool):
            found = value
        elif isinstance(value, (str, float)):
            with suppress(InvalidOperation):
                found = Decimal(value if isinstance(value, str) else repr(value))
        if found is None or not Decimal(found).is_finite() or not self.fits(Decimal(found)):
            raise wrong_value(name, value, f"pass {self.wanted}")
        return found


OFF = "off"


def positive(example: str, instead: str | None = None) -> Number:
    """A number above 0, also as a float, or a word that stands in its place."""
    or_word = "" if instead is None else f", or {instead}"
    words = "number" if instead is None else f'number, or `"{instead}"`'
    return Number(f"a number above 0, such as {example}{or_word}", lambda x: 0 < float(x) < math.inf, instead, words)


def probability(example: str) -> Number:
    """A number between 0 and 1; a text that would be 0 or 1 as a float is refused as well."""
    wanted = f"a probability between 0 and 1, such as {example}"
    return Number(wanted, lambda x: 0 < float(x) < 1, words="probability")


class Whole(Number):
    """One whole number."""

    def read(self, name: str, value: Any) -> Any:
        found = super().read(name, value)
        return int(found) if isinstance(found, Decimal) else found


def whole(instead: str | None = None) -> Number:
    """How many: a whole number, or a word that stands for one."""
    fits: Callable[[Decimal], bool] = lambda x: 1 <= x <= 2**40 and x == int(x)  # noqa: E731 - one of several numbers
    return Whole("a whole number from 1 to 2^40", fits, instead, "whole number", "whole")


@dataclass(frozen=True)
class Part(ValueType):
    """A part of a whole as it was written, "1/3", 0.25 or "rest".

    Attributes:
        rest: Whether all that is left can be asked for.
        words: What a file holds, for the reference.
    """

    rest: bool = True
    words: str = 'text, `"1/3"` or `"rest"`'

    def read(self, name: str, value: Any) -> str | None:
        """A part above 0 and at most 1.

        >>> Part().read("part", "1/3"), Part().read("part", Decimal("0.25"))
        ('1/3', '0.25')
        """
        if value is None:
            return None
        text = value if isinstance(value, str) else str(Number().read(name, value))
        with suppress(ValueError, ZeroDivisionError):
            if (self.rest and text == "rest") or 0 < Fraction(text) <= 1:
                return text
        cure = "pass a part above 0 and at most 1, such as 1/3"
        raise wrong_value(name, value, f'{cure}, or "rest"' if self.rest else cure)


@dataclass(frozen=True)
class Numbers(Names):
    """A list of numbers."""

    words: str = "list of numbers"
    is_number: ClassVar[bool] = True

    def read(self, name: str, value: Any) -> tuple[float, ...]:
        """Numbers, or one alone.

        >>> Numbers().read("sensitivity", [1, "3", 40])
        (1.0, 3.0, 40.0)
        """
        if value is None:
            return ()
        return tuple(read_float(name, entry) for entry in (value if is_list(value) else [value]))


def read_float(name: str, value: object) -> float:
    """One number as a float.

    Raises:
        ArgumentError: It is no finite number.
    """
    found = Number().read(name, value)
    if found is None or not math.isfinite(float(found)):
        raise wrong_value(name, value, "pass a number such as 1 or 0.5")
    return float(found)
