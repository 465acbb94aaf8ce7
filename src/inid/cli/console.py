"""What the command prints: tables for people, JSON for machines, notes and failures on the error stream; exit codes."""

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from enum import IntEnum
from typing import Any

import typer
from rich import box
from rich.console import Console as RichConsole
from rich.table import Table
from rich.text import Text

from inid.accounting.admission import NoRoomError
from inid.errors import GuaranteeError, InidError, RecordError
from inid.jobs.ledgers import UnansweredError
from inid.planning.noise_plan import aligned
from inid.report import Estimate, PlanLine, PlanSummary
from inid.report.wording import plain_number, plain_ratio, rounded_interval
from inid.schema.error_messages import sentence_of
from inid.schema.values import Switch
from inid.tables import EngineError
from inid.tables.engines.watching import watched


class ExitCode(IntEnum):
    """What the command's exit status says; documented in docs/reference/exit-codes.md.

    A release was charged where it is 0 or 6; where it is 130 or 143 the message says so; else nothing was charged.
    """

    FINE = 0
    UNEXPECTED = 1
    USAGE = 2
    REFUSED = 3
    UNPROVED = 4
    FILES = 5
    UNANSWERED = 6
    INTERRUPTED = 130
    TERMINATED = 143


class CommandError(InidError):
    """An error whose exit code is known where it happens."""

    def __init__(self, message: str, exit_code: ExitCode) -> None:
        super().__init__(message)
        self.exit_code = exit_code


def outcome(error: Exception) -> tuple[str, ExitCode]:
    """The sentence and the exit code of an error."""
    return sentence_of(error, "command"), _code(error)


def _code(error: Exception) -> ExitCode:
    if isinstance(error, CommandError):
        return error.exit_code
    if isinstance(error, UnansweredError):
        return ExitCode.UNANSWERED
    if isinstance(error, (GuaranteeError, RecordError)):
        return ExitCode.UNPROVED
    if isinstance(error, (EngineError, OSError)):
        return ExitCode.FILES
    if isinstance(error, NoRoomError):
        return ExitCode.REFUSED
    return ExitCode.USAGE if isinstance(error, InidError) else ExitCode.UNEXPECTED


_BEYOND = 1 + 1e-9  # an error that is the tolerance, but for rounding, is not beyond it
_MOST_LINES = 60  # of a plan of single numbers; of one of tables, the worst
_WORST = 20


def one_line(text: str) -> str:
    """A text without line breaks or other control characters, which could forge lines or steer a terminal."""
    return "".join(
        mark if mark.isprintable() else mark.encode("unicode_escape", "backslashreplace").decode("ascii")
        for mark in text
    )


class OutputClosedError(Exception):
    """Whoever read the standard output has closed it, as `head` does: nothing more can be printed."""


@contextmanager
def _output() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise OutputClosedError from None


class Console:
    """Where one run of a command prints, and how."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self.json = Switch().read("--json", values.get("json"))
        self.quiet = Switch().read("--quiet", values.get("quiet"))
        self._terminal = sys.stdout is not None and sys.stdout.isatty()

    @property
    def prints(self) -> bool:
        """Whether people read the standard output."""
        return not (self.json or self.quiet)

    def document(self, content: dict[str, Any]) -> None:
        """The whole answer for a machine; printed only under --json."""
        if self.json:
            self.text(json.dumps(content, indent=2, allow_nan=False) + "\n")

    def text(self, content: str) -> None:
        """Lines as they are, whoever reads them."""
        with _output():
            typer.echo(content, nl=False)

    def note(self, text: str) -> None:
        """Something worth knowing beside the answer; on the error stream, also under --json."""
        if not self.quiet:
            with suppress(OSError):  # nobody reads it: no reason to give up what it is about
                typer.echo(one_line(text), err=True)

    def line(self, text: str = "") -> None:
        """A line of the answer for people."""
        if self.prints:
            self.text(one_line(text) + "\n")

    def lines(self, text: str) -> None:
        """Several lines of the answer for people."""
        for line in text.split("\n"):
            self.line(line)

    def table(self, lines: Sequence[Sequence[str]], left: int, *, strong: Sequence[int] = ()) -> None:
        """Rows of cells, the first of them the heading; the first `left` columns are flush left."""
        if not self.prints:
            return
        cells = [[one_line(cell) for cell in line] for line in lines]
        if not self._terminal:
            self.text("".join(f"{line}\n" for line in aligned(cells, left)))
            return
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style="bold")
        for at, name in enumerate(cells[0]):
            table.add_column(Text(name), justify="left" if at < left else "right", no_wrap=True)
        for at, line in enumerate(cells[1:], start=1):
            table.add_row(*(Text(cell) for cell in line), style="bold" if at in strong else None)
        # A number broken in two or cut short would be a wrong number: a wide table goes beyond a narrow terminal.
        needed = RichConsole(width=10_000).measure(table).maximum
        with _output():
            RichConsole(width=max(needed, RichConsole().width)).print(table)

    @contextmanager
    def working(self, what: str) -> Iterator[None]:
        """A spinner and the time it has taken, while something takes time; only on a terminal.

        With several statements of a database it says which of them runs.
        """
        if not (self.prints and sys.stderr.isatty()):
            yield
            return
        from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        columns = SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn()
        with Progress(*columns, console=RichConsole(stderr=True), transient=True) as progress:
            task = progress.add_task(what, total=None)

            def report(at: int, of: int) -> None:
                if of > 1:
                    progress.update(task, description=f"{what}: statement {at} of {of}")

            with watched(report):
                yield


def print_plan(console: Console, plan: PlanSummary) -> None:
    """One line per number."""
    noise = plan.noise
    console.line(
        f"{str(noise.mechanism).capitalize()} noise, {noise.allocation} allocation, {plan.dimension} noisy numbers"
    )
    console.line(f"promise: {plan.budget}, neighbours: {noise.sensitivity.neighbours}")
    if plan.rows is not None:
        guess = "; state your own guess with --rows" if plan.guessed else ""
        spread = f", in {plan.spread}" if plan.spread else ""
        console.line(f"errors for {plan.rows:,} rows in all{spread}{guess}")
    console.line()
    kinds: list[tuple[str, Callable[[PlanLine], float | None]]] = [
        ("cells", lambda line: line.cells),
        ("sensitivity", lambda line: line.sensitivity),
        ("scale", lambda line: line.scale),
        ("tolerance", lambda line: line.tolerance),
        ("std of noise", lambda line: line.deviation),
        ("worst group", lambda line: line.largest if line.by_group else None),
        ("equal split", lambda line: line.baselines["spr"]),
    ]
    columns = [(name, read) for name, read in kinds if any(read(line) is not None for line in plan.lines)]
    table = [["number" if plan.rows is None else "statistic", *(name for name, _ in columns), "share"]]
    for line in _shown_lines(plan):
        beyond = line.tolerance is not None and line.largest > line.tolerance * _BEYOND
        marked = "worst group" if line.by_group else "std of noise"
        cells = [_cell(read(line)) + ("*" if beyond and name == marked else "") for name, read in columns]
        table.append([line.label, *cells, f"{line.share:.2%}"])
    console.table(table, left=1)
    if any(cell.endswith("*") for row in table[1:] for cell in row[1:]):
        console.line("* more than the tolerance")
    if len(plan.lines) > _MOST_LINES:
        console.line(_left_out(plan))
    for sentence in plan.inside:
        console.line(sentence)


def _shown_lines(plan: PlanSummary) -> Sequence[PlanLine]:
    """All lines; where there are too many, the tables whose noise is largest beside their tolerance, or the first."""
    if len(plan.lines) <= _MOST_LINES:
        return plan.lines
    if plan.lines[0].cells is None:
        return plan.lines[:_MOST_LINES]
    return sorted(plan.lines, key=lambda line: -line.deviation / (line.tolerance or 1.0))[:_WORST]


def _left_out(plan: PlanSummary) -> str:
    if plan.lines[0].cells is None:
        return f"... and {len(plan.lines) - _MOST_LINES} more"
    stds = [line.deviation for line in plan.lines]
    ends = f"{plain_number(min(stds))} to {plain_number(max(stds))}"
    return f"... the worst {_WORST} of {len(stds)} tables; std of noise {ends}"


def print_gain(console: Console, plan: PlanSummary) -> None:
    """What was gained against the baselines, in a sentence or two; that nothing was, if so."""
    for sentence in (plan.remark, plan.gain):
        if sentence:
            console.line(sentence)


def print_comparison(console: Console, plan: PlanSummary) -> None:
    """Every way to keep the promise, and a sentence when there is nothing to gain."""
    lines = [["mechanism", "allocation", "error", "dB", "ratio", ""]]
    chosen: list[int] = []
    for at, way in enumerate(plan.comparison, start=1):
        mine = (way.mechanism, way.allocation) == plan.comparison.chosen
        chosen += [at] if mine else []
        numbers = f"{way.error:.4g}", f"{way.decibel:.2f}", plain_ratio(way.ratio)
        lines.append([str(way.mechanism), way.allocation, *numbers, "*" if mine else ""])
    console.table(lines, left=2, strong=chosen)
    if plan.remark:
        console.line(plan.remark)


def _cell(value: float | None) -> str:
    return "" if value is None else plain_number(value)


def print_estimates(console: Console, estimates: Sequence[Estimate], level: float, *, most: int | None) -> None:
    """The estimates as a table; columns that are empty are left out, and rows after the first `most`."""
    words = [name for name in ("statistic", "column") if any(getattr(number, name) for number in estimates)]
    keys = list(dict.fromkeys(name for number in estimates for name in number.keys))
    flagged = any(number.too_noisy for number in estimates)
    lines = [[*words, *keys, "estimate", f"{100 * level:.4g}% lower", "upper", *([""] if flagged else [])]]
    lines += [
        [
            *(getattr(number, name) for name in words),
            *(str(number.keys.get(name, "")) for name in keys),
            *rounded_interval(number.estimate, number.lower, number.upper),
            *(["too noisy" if number.too_noisy else ""] if flagged else []),
        ]
        for number in estimates[:most]
    ]
    console.table(lines, left=len(words) + len(keys))
    if most is not None and len(estimates) > most:
        console.line(f"... and {len(estimates) - most} more in the file.")
