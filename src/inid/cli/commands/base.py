"""What every command consists of."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from inid.schema import Key

__all__ = ["Command", "Values"]

Values = dict[str, Any]


@dataclass(frozen=True)
class Command:
    """One command of the command line.

    Attributes:
        name: Its name.
        run: What it does with the values of its options.
        options: Its options, in the order of its help.
        text: Its help.
        examples: Example lines, all of which run.
    """

    name: str
    run: Callable[[Values], None]
    options: tuple[Key, ...]
    text: str
    examples: str
