"""What the command says: tables for people, JSON for machines, notes on the error stream."""

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import typer
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from inid.cli import reading
from inid.cli.options import Speech
from inid.planning.text import aligned

__all__ = ["Voice", "plain_number", "plain_ratio"]


def plain_number(value: float, digits: int = 5) -> str:
    """A number as people write it: a few digits, thousands apart, no exponent where it can be helped.

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
    """A ratio as people write it.

    >>> plain_ratio(1.0), plain_ratio(185.2), plain_ratio(36_912_345.0), plain_ratio(3.5e12)
    ('1.00', '185', '36,900,000', '3.5e+12')
    """
    if ratio < 100:
        return f"{ratio:.2f}"
    return f"{float(f'{ratio:.3g}'):,.0f}" if ratio < 1e9 else f"{ratio:.2g}"


class Voice:
    """Where one run of a command says things, and how."""

    def __init__(self, options: Speech) -> None:
        self.json = reading.switch("json", options.json)
        self.quiet = reading.switch("quiet", options.quiet)
        self._fancy = sys.stdout.isatty()

    @property
    def talks(self) -> bool:
        """Whether people read this."""
        return not (self.json or self.quiet)

    def document(self, content: dict[str, Any]) -> None:
        """The whole answer for a machine; said only under --json."""
        if self.json:
            typer.echo(json.dumps(content, indent=2, allow_nan=False))

    def note(self, text: str) -> None:
        """Something worth knowing beside the answer; on the error stream, also under --json."""
        if not self.quiet:
            typer.echo(text, err=True)

    def say(self, text: str = "") -> None:
        """A line of the answer for people."""
        if self.talks:
            typer.echo(text)

    def table(self, rows: Sequence[Sequence[str]], left: int, *, strong: Sequence[int] = ()) -> None:
        """Rows of cells, the first of them the heading; the first `left` columns are flush left.

        Args:
            rows: The cells.
            left: How many columns hold words; the others hold numbers.
            strong: Which rows (the heading is 0) to set off where the terminal can.
        """
        if not self.talks:
            return
        if not self._fancy:
            for line in aligned([list(row) for row in rows], left):
                typer.echo(line)
            return
        drawn = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style="bold")
        for at, name in enumerate(rows[0]):
            drawn.add_column(Text(name), justify="left" if at < left else "right", no_wrap=True)
        for at, row in enumerate(rows[1:], start=1):
            drawn.add_row(*(Text(cell) for cell in row), style="bold" if at in strong else None)
        # A number broken in two or cut short would be a wrong number: a wide table goes beyond a narrow terminal.
        needed = Console(width=10_000).measure(drawn).maximum
        Console(width=max(needed, Console().width)).print(drawn)

    @contextmanager
    def working(self, what: str) -> Iterator[None]:
        """A spinner while something takes time; only on a terminal."""
        if self.talks and sys.stderr.isatty():
            with Console(stderr=True).status(what):
                yield
        else:
            yield
