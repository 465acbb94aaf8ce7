"""What the command prints: tables for people, JSON for machines, notes on the error stream."""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import typer
from rich import box
from rich.console import Console as RichConsole
from rich.table import Table
from rich.text import Text

from inid.jobs import values as check
from inid.planning.text import aligned

__all__ = ["Console", "one_line"]


def one_line(text: str) -> str:
    r"""A text without line breaks or other control characters, which could forge lines or steer a terminal.

    >>> print(one_line("fine"), one_line("a\nb\x1b[2J"))
    fine a\nb\x1b[2J
    """
    return "".join(
        mark if mark.isprintable() else mark.encode("unicode_escape", "backslashreplace").decode("ascii")
        for mark in text
    )


class Console:
    """Where one run of a command prints, and how."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self.json = check.switch("--json", values.get("json"))
        self.quiet = check.switch("--quiet", values.get("quiet"))
        self._terminal = sys.stdout.isatty()

    @property
    def prints(self) -> bool:
        """Whether people read the standard output."""
        return not (self.json or self.quiet)

    def document(self, content: dict[str, Any]) -> None:
        """The whole answer for a machine; printed only under --json."""
        if self.json:
            typer.echo(json.dumps(content, indent=2, allow_nan=False))

    def note(self, text: str) -> None:
        """Something worth knowing beside the answer; on the error stream, also under --json."""
        if not self.quiet:
            typer.echo(one_line(text), err=True)

    def line(self, text: str = "") -> None:
        """A line of the answer for people."""
        if self.prints:
            typer.echo(one_line(text))

    def lines(self, text: str) -> None:
        """Several lines of the answer for people."""
        for line in text.split("\n"):
            self.line(line)

    def table(self, rows: Sequence[Sequence[str]], left: int, *, strong: Sequence[int] = ()) -> None:
        """Rows of cells, the first of them the heading; the first `left` columns are flush left.

        Args:
            rows: The cells.
            left: How many columns hold words; the others hold numbers.
            strong: Which rows (the heading is 0) to set off where the terminal can.
        """
        if not self.prints:
            return
        shown = [[one_line(cell) for cell in row] for row in rows]
        if not self._terminal:
            for line in aligned(shown, left):
                typer.echo(line)
            return
        drawn = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style="bold")
        for at, name in enumerate(shown[0]):
            drawn.add_column(Text(name), justify="left" if at < left else "right", no_wrap=True)
        for at, row in enumerate(shown[1:], start=1):
            drawn.add_row(*(Text(cell) for cell in row), style="bold" if at in strong else None)
        # A number broken in two or cut short would be a wrong number: a wide table goes beyond a narrow terminal.
        needed = RichConsole(width=10_000).measure(drawn).maximum
        RichConsole(width=max(needed, RichConsole().width)).print(drawn)

    @contextmanager
    def working(self, what: str) -> Iterator[None]:
        """A spinner while something takes time; only on a terminal."""
        if self.prints and sys.stderr.isatty():
            with RichConsole(stderr=True).status(what):
                yield
        else:
            yield
