"""How an experiment runs: records that let it resume, seeds, progress, and the files it leaves.

Every random number of a record comes from its seed: noise by `inid.testing.unsafe_seed`, data by NumPy. The seed is
derived from the key, so it does not depend on the order in which records are made. A record, once written, is read
instead of made again; a changed setting changes the key.
"""

import csv
import json
import platform
import sys
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

import inid
from experiments.claims import Outcome
from experiments.datasets import Dataset, MissingDataError, load
from inid import testing

__all__ = ["Study"]

_DIGITS = 6  # kept of each number: results are the same whether they were just computed or read back


class Study:
    """One experiment's folder and settings.

    Args:
        name: The experiment.
        folder: Where everything goes.
        fast: Fewer runs and coarser grids, for minutes instead of an hour.
        synthetic: Stand-ins of the same shape instead of the datasets.
        quiet: No progress.

    Attributes:
        made: How many runs were made, not read from the records.
        read: How many were read from them.
        source: Where the data came from.
        seeds: Where random numbers came from.
    """

    def __init__(
        self, name: str, folder: Path, *, fast: bool = False, synthetic: bool = False, quiet: bool = False
    ) -> None:
        self.name, self.folder, self.fast, self.synthetic, self.quiet = name, folder, fast, synthetic, quiet
        self.made, self.read, self.source, self._real = 0, 0, "no data", True
        self.seeds = f'crc32("{name} " + key as JSON) + number of the run; both are in records.jsonl'
        folder.mkdir(parents=True, exist_ok=True)
        self._path = folder / "records.jsonl"
        self._known = self._read()
        self._bar: _Bar | None = None

    def pick(self, full: Any, fast: Any) -> Any:
        """The setting for a full or for a fast run."""
        return fast if self.fast else full

    def dataset(self, name: str) -> Dataset:
        """A dataset; a fast run takes its stand-in where it is missing, and says so.

        Raises:
            MissingDataError: It is missing and the run is a full one.
        """
        try:
            found = load(name, synthetic=self.synthetic)
        except MissingDataError as error:
            if not self.fast:
                raise
            print(f"{error}\nThis fast run goes on with the stand-in.", file=sys.stderr)
            found = load(name, synthetic=True)
        self.source, self._real = found.source, found.real
        return found

    def sample(self, count: int, trial: Callable[[int], Any], **key: Any) -> np.ndarray:
        """One number, or one row of numbers, for each of so many runs; from the records where they have them.

        Args:
            count: How many runs.
            trial: Takes a seed and returns a number or a list of numbers; noise drawn inside is seeded.
            key: All that the result depends on.
        """
        named = {name: _short(value) for name, value in key.items()}
        if not self._real:
            named["data"] = (
                self.source
            )  # records of stand-ins must not pass for those of the dataset, nor they for them
        text = json.dumps(named, sort_keys=True)
        seed = zlib.crc32(f"{self.name} {text}".encode())
        found = self._known.get(text, [])
        self.read += min(len(found), count)
        if len(found) < count:
            rows = list(found)
            for number in range(len(rows), count):
                with testing.unsafe_seed(seed + number):
                    rows.append(_rounded(trial(seed + number)))
                self.made += 1
                self._step(1)
            self._write(named, seed, len(found), rows[len(found) :])
            self._known[text] = found = rows
        else:
            self._step(count)
        return np.array(found[:count], dtype=float)

    @contextmanager
    def progress(self, what: str, total: int) -> Iterator[None]:
        """Show how many of `total` runs are done."""
        self._bar = None if self.quiet else _Bar(f"{self.name}: {what}", total)
        try:
            yield
        finally:
            if self._bar is not None:
                self._bar.close()
            self._bar = None

    def table(self, name: str, head: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        """Write a CSV file."""
        with (self.folder / f"{name}.csv").open("w", newline="") as file:
            out = csv.writer(file, lineterminator="\n")
            out.writerow(head)
            out.writerows([[f"{x:.10g}" if isinstance(x, float) else x for x in row] for row in rows])

    def finish(self, outcome: Outcome) -> None:
        """Write what was found, and under which versions."""
        _dump(self.folder / "outcome.json", outcome.to_dict())
        run = {
            "experiment": self.name,
            "configuration": "fast" if self.fast else "full",
            "data": self.source,
            "seeds": self.seeds,
            "inid": inid.__version__,
            "numpy": np.__version__,
            "python": platform.python_version(),
            "date": time.strftime("%Y-%m-%d"),
        }
        path, same = self.folder / "run.json", ("experiment", "configuration", "data", "seeds")
        before = json.loads(path.read_text()) if path.exists() else {}
        if self.made or any(before.get(name) != run[name] for name in same):
            _dump(path, run)  # a run that made nothing new leaves the date of the one that did

    def _step(self, count: int) -> None:
        if self._bar is not None:
            self._bar.step(count)

    def _read(self) -> dict[str, list[Any]]:
        known: dict[str, list[Any]] = {}
        if self._path.exists():
            lines = self._path.read_text().splitlines(keepends=True)
            whole = [line for line in lines if line.endswith("\n")]
            if len(whole) < len(lines):  # a run was stopped while it wrote
                self._path.write_text("".join(whole))
            for line in whole:
                record = json.loads(line)
                rows = known.setdefault(json.dumps(record["key"], sort_keys=True), [])
                if len(rows) == record["first"]:
                    rows.extend(record["values"])
        return known

    def _write(self, key: dict[str, Any], seed: int, first: int, values: list[Any]) -> None:
        record = {"key": key, "seed": seed, "first": first, "values": values}
        with self._path.open("a") as file:
            file.write(json.dumps(record, separators=(",", ":")) + "\n")


class _Bar:
    """Runs done, of how many, and the time left: one line on a terminal, a line now and then elsewhere."""

    def __init__(self, title: str, total: int) -> None:
        self._title, self._total, self._done, self._start = title, total, 0, time.monotonic()
        self._live, self._said = sys.stderr.isatty(), 0.0

    def step(self, count: int) -> None:
        self._done += count
        now = time.monotonic()
        if now - self._said >= (0.2 if self._live else 30.0):
            self._said = now
            self._show(now, "\r" if self._live else "\n")

    def close(self) -> None:
        self._show(time.monotonic(), "\n")

    def _show(self, now: float, end: str) -> None:
        share = min(self._done / max(self._total, 1), 1.0)
        left = (now - self._start) * (1 / share - 1) if share > 0 else 0.0
        bar = "#" * round(20 * share)
        text = f"{self._title} [{bar:<20}] {self._done}/{self._total}, {left:.0f} s left"
        print(f"{text:<79}", end=end, file=sys.stderr, flush=True)


def _dump(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n")


def _short(value: Any) -> Any:
    return float(f"{value:.6g}") if isinstance(value, float) else value


def _rounded(value: Any) -> Any:
    numbers = np.asarray(value, dtype=float)
    if numbers.ndim == 0:
        return float(f"{float(numbers):.{_DIGITS}g}")
    return [float(f"{x:.{_DIGITS}g}") for x in numbers]
