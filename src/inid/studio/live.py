"""Planning what the page asks, as fast as it asks: the same plans as `inid plan`, on tables that stay open."""

import json
import math
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from types import MappingProxyType
from typing import Any

from inid.errors import ArgumentError, InidError
from inid.jobs import Job, PlannedJob, plan_job
from inid.jobs.ledgers import LedgerPreview, preview
from inid.report import PlanSummary
from inid.studio.folder import ROWS_FILE, Folder
from inid.studio.form import field_name, job_values
from inid.tables.engines import CsvDialect, Engine, is_csv, open_table, possible_separators

_SIZES = ("0.01", "0.03", "0.1", "0.3", "1", "3", "10")
_OPEN_TABLES = 4
_KEPT = 16  # plans and curves
_OUTPUTS = {"out": "result.csv", "record": "record.json", "report": "report.html"}
_KINDS = {"String": "text", "Categorical": "text", "Enum": "text", "Boolean": "yes or no", "Date": "date"}


@dataclass(frozen=True)
class Column:
    """The name of a column and what it may hold, in a word."""

    name: str
    kind: str

    @property
    def is_text(self) -> bool:
        """Whether it is known to hold texts, which have no limits and no mean; a CSV file says nothing about it."""
        return self.kind == "text"


@dataclass(frozen=True)
class LivePlan:
    """What the page asks, planned."""

    job: Job
    planned: PlannedJob
    ledger: LedgerPreview | None


@dataclass(frozen=True)
class Curve:
    """The typical error of the plan and of the equal split over the size of the promise."""

    key: str
    points: tuple[tuple[float, float, float], ...]


class Planner:
    """Plans for one folder; tables that were opened, and curves that were drawn, are kept for the next time."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._lock = Lock()
        self._tables: OrderedDict[tuple[str, str], tuple[tuple[int, ...], Engine]] = OrderedDict()
        self._plans: OrderedDict[str, PlannedJob] = OrderedDict()
        self._curves: OrderedDict[str, Curve] = OrderedDict()

    def plan(self, form: object, *, fresh: bool = False) -> LivePlan:
        """Plan a form."""
        values = job_values(form)
        job, opened = self._written(values), self._opened(values)
        planned = self._planned(opened, fresh=fresh)
        ledger = None
        if opened.ledger.ledger is not None:
            ledger = preview(opened.ledger.ledger, opened.ledger.name or "default", planned.charge, planned.delta)
        return LivePlan(job, planned, ledger)

    def columns(self, table: object, file: Mapping[str, Any] = MappingProxyType({})) -> list[Column]:
        """The names and types of a table's columns, and no value; of a CSV file the types that the user states."""
        source = self._source(self._folder.table(table), file)
        return [Column(name, "" if source.text else _kind(kind)) for name, kind in source.schema.items()]

    def written(self, table: object, file: Mapping[str, Any] = MappingProxyType({})) -> list[tuple[str, str]]:
        """How a CSV file is written, term by term, as its first line says it; of any other table nothing."""
        path = self._folder.table(table)
        return self._source(path, file).written if is_csv(path) else []

    def separators(self, table: object) -> dict[str, tuple[str, ...]]:
        """What may separate the names in the first line of a CSV file, and the names that each makes."""
        return possible_separators(self._folder.table(table))

    def curve(self, form: object, is_current: Callable[[], bool]) -> Curve | None:
        """The error at a few sizes of the promise; None where it has no size, or is no longer wanted."""
        values = job_values(form)
        key = next((key for key in ("epsilon", "mu", "rho") if key in values), None)
        if key is None:
            return None
        others = {name: value for name, value in values.items() if name not in (key, "ledger", "label", "level")}
        known = json.dumps([key, others, self._stamp(values)], sort_keys=True, default=str)
        curve = self._curves.get(known)
        if curve is None:
            points = []
            for size in _SIZES:
                if not is_current():
                    return None
                try:
                    summary = self._planned(self._opened(others | {key: size}), fresh=False).summary
                except InidError:  # this size cannot be planned: the curve has a point less
                    continue
                points.append((float(size), typical_error(summary), typical_error(summary, "spr")))
            curve = Curve(key, tuple(points))
            self._keep(self._curves, known, curve)
        return curve

    def _written(self, values: Mapping[str, Any]) -> Job:
        """The job for files and scripts: results go to files beside it."""
        shown = dict(values)
        if "ledger" in shown:
            shown["ledger"] = self._folder.shown_ledger(shown["ledger"])
        if "table" not in shown:
            return Job.from_dict(shown, field_name)
        if isinstance(questions := shown.get("question"), Mapping):
            shown["question"] = {name: options | _rows_file(options) for name, options in questions.items()}
        return Job.from_dict(shown | _OUTPUTS | _rows_file(shown), field_name)

    def _opened(self, values: Mapping[str, Any]) -> Job:
        return Job.from_dict(self._folder.with_paths(values), field_name)

    def _planned(self, job: Job, *, fresh: bool) -> PlannedJob:
        table = getattr(job.question, "table", None)
        if fresh or job.ledger.ledger is not None:  # whose relation and part are read anew
            return plan_job(
                job, field_name, None if fresh or table is None else self._source(table, job.question.file_facts)
            )
        known = json.dumps([job.to_dict(), None if table is None else _stamp(table)], default=str)
        planned = self._plans.get(known)
        if planned is None:
            planned = plan_job(job, field_name, None if table is None else self._source(table, job.question.file_facts))
            self._keep(self._plans, known, planned)
        return planned

    def _keep(self, place: OrderedDict[str, Any], known: str, value: object) -> None:
        with self._lock:
            place[known] = value
            while len(place) > _KEPT:
                place.popitem(last=False)

    def _source(self, path: str, file: Mapping[str, Any]) -> Engine:
        stamp, known = _stamp(path), (path, json.dumps(dict(file), sort_keys=True))
        with self._lock:
            cached = self._tables.get(known)
            if cached is None or cached[0] != stamp:
                dialect = CsvDialect.read(**file) if is_csv(path) or file else None
                cached = (stamp, open_table(path, dialect=dialect))
                self._tables[known] = cached
            self._tables.move_to_end(known)
            while len(self._tables) > _OPEN_TABLES:
                self._tables.popitem(last=False)
            return cached[1]

    def _stamp(self, values: Mapping[str, Any]) -> tuple[int, ...]:
        return _stamp(self._folder.table(values["table"])) if "table" in values else ()


def _rows_file(question: Mapping[str, Any]) -> dict[str, str]:
    """Where the written job puts rows, if it asks for them."""
    return {"rows_out": ROWS_FILE} if question.get("synthetic") else {}


def typical_error(summary: PlanSummary, baseline: str | None = None) -> float:
    """The root mean square of the numbers' errors, in units of their tolerances where these are stated."""
    errors = [line.deviation if baseline is None else line.baselines[baseline] for line in summary.lines]
    units = [line.tolerance or 1.0 for line in summary.lines]
    ratios = [error / unit for error, unit in zip(errors, units, strict=True)]
    return math.hypot(*ratios) / math.sqrt(len(ratios))


def _stamp(path: str) -> tuple[int, ...]:
    try:
        status = Path(path).stat()
    except OSError:
        raise ArgumentError(f"there is no file {path!r}: it was moved or removed; choose another table.") from None
    return (status.st_ino, status.st_size, status.st_mtime_ns)


def _kind(kind: Any) -> str:
    """A column's type in a word.

    >>> import narwhals
    >>> _kind(narwhals.Int64()), _kind(narwhals.String()), _kind(narwhals.Datetime())
    ('number', 'text', 'datetime')
    """
    name = type(kind).__name__ if not isinstance(kind, type) else kind.__name__
    if getattr(kind, "is_numeric", lambda: False)():
        return "number"
    return _KINDS.get(name, name.lower())
