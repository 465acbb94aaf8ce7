"""Tables of measured figures, one Markdown file each in results/bench: title, date, machine, peers, command, table.

A benchmark adds its lines one by one; they are printed as they come, and the file is written at the end. `make bench`
therefore replaces what was recorded: look at `git diff results/bench` before you keep it. INID_BENCH_RESULTS names
another folder.
"""

import datetime as dt
import os
import platform
from pathlib import Path
from types import TracebackType
from typing import Self

FOLDER = Path(__file__).resolve().parents[1] / "results" / "bench"


def this_machine(device: str = "") -> str:
    """The processor and the number of cores of this machine, or the named device."""
    if device:
        return device
    cpuinfo = Path("/proc/cpuinfo")
    names = [
        line.partition(":")[2].strip()
        for line in (cpuinfo.read_text(encoding="utf-8").splitlines() if cpuinfo.exists() else [])
        if line.startswith("model name")
    ]
    return f"{names[0] if names else platform.machine()}, {os.cpu_count()} cores"


class ResultTable:
    """A table that is printed line by line and written to results/bench when its `with` block ends without an error."""

    def __init__(
        self,
        name: str,
        title: str,
        columns: tuple[str, ...],
        *,
        peers: str,
        command: str,
        date: str | None = None,
        machine: str | None = None,
    ) -> None:
        self.name, self.title, self.columns = name, title, columns
        self.facts = {
            "date": date or dt.datetime.now(tz=dt.UTC).date().isoformat(),
            "machine": machine or this_machine(),
            "peers": peers,
            "command": command if command == "not recorded" else f"`{command}`",
        }
        self.lines: list[str] = []
        self.notes: list[str] = []

    def add(self, *cells: object) -> None:
        """Print one line of the table and keep it."""
        if len(cells) != len(self.columns):
            raise ValueError(f"{self.name} has {len(self.columns)} columns, got {len(cells)} cells.")
        self.lines.append(_line(cells))
        print(self.lines[-1], flush=True)

    def note(self, text: str) -> None:
        """Print a sentence and keep it below the table."""
        self.notes.append(text)
        print(text, flush=True)

    def text(self) -> str:
        """The file's text."""
        facts = "\n".join(f"- {key}: {value}" for key, value in self.facts.items())
        table = "\n".join([*self._head(), *self.lines])
        return "\n\n".join([f"# {self.title}", facts, table, *self.notes]) + "\n"

    def write(self) -> Path:
        """Write the file, and return its path."""
        folder = Path(os.environ.get("INID_BENCH_RESULTS", FOLDER))
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{self.name}.md"
        path.write_text(self.text(), encoding="utf-8")
        return path

    def __enter__(self) -> Self:
        """Print the title and the head of the table."""
        print(f"\n{self.title}\n", *self._head(), sep="\n", flush=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Write the file, unless the benchmark failed or measured nothing."""
        if kind is None and self.lines:
            print(f"\nwritten to {self.write()}", flush=True)

    def _head(self) -> list[str]:
        return [_line(self.columns), "|" + " --- |" * len(self.columns)]


def _line(cells: tuple[object, ...]) -> str:
    return "|" + "".join(f" {str(cell).replace('|', '/')} |" for cell in cells)
