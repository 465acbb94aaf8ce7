"""Releases of the page: each is asked for once, charged once, and written to files before it is shown.

A release has a random token, made when the page asks what it would spend. Pressing the button sends the token: whoever
comes second with the same one (a double click, a reload, a second tab) gets the same release. The order of events:

    1. a folder named by the token is made, with the job in it    the only step that a second server cannot repeat
    2. the ledger is charged, with the token in the label
    3. the results are written beside the job

The first step happens once per token: from then on, whatever fails and however it fails, the token charges nothing any
more. What became of it is read from the folder: with a record the release is whole; while its lock is held it runs;
without either, the ledger's history says whether the charge stands. The system lets go of a lock when its process ends,
however it ends: a lock file that nobody holds was left by a crash.
"""

import json
import secrets
import warnings
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock
from typing import Any

from inid.accounting.file_locks import LockError, file_lock
from inid.errors import ArgumentError, InidError
from inid.jobs import Job, ReleasedJob, read_toml, release_job
from inid.jobs.ledgers import UnansweredError, open_existing, stored_settings
from inid.jobs.outputs import FOR_SPREADSHEETS, frame_as_csv, write_atomically
from inid.jobs.questions import TableQuestion
from inid.jobs.released_job import PublishedBefore, read_published
from inid.schema.error_messages import sentence_of
from inid.schema.values import whole
from inid.studio.folder import RELEASES, ROWS_FILE, Folder
from inid.studio.form import field_name, question_in_words
from inid.studio.live import LivePlan
from inid.tables import synthetic_rows

_RUNNING = ".running"  # the lock file of a release
_PATIENCE = 5.0  # seconds: `is_running` of another process holds the lock for a moment


@contextmanager
def running(place: Path) -> Iterator[None]:
    """Hold the lock of the release in this folder, so that every process sees that it runs."""
    path = place / _RUNNING
    path.touch(mode=0o600)
    with ExitStack() as stack:
        stack.callback(path.unlink, missing_ok=True)
        with suppress(OSError):  # a system without such locks: other processes see a release without results
            stack.enter_context(file_lock(path, alone=True, timeout=_PATIENCE))
        yield


def is_running(place: Path) -> bool:
    """Whether some process is at work on the release of this folder."""
    try:
        with file_lock(place / _RUNNING, alone=True, timeout=0.0):
            return False
    except LockError:
        return True
    except OSError:  # there is no such file
        return False


FILES = {
    "result.csv": "text/csv; charset=utf-8",
    "spreadsheet.csv": "text/csv; charset=utf-8",
    "spreadsheet-decimal-comma.csv": "text/csv; charset=utf-8",
    "record.json": "application/json",
    "report.html": "text/html; charset=utf-8",
    "job.toml": "application/toml",
    "command.sh": "text/x-shellscript; charset=utf-8",
    "script.py": "text/x-python; charset=utf-8",
    "notebook.ipynb": "application/x-ipynb+json",
}
DOWNLOADS = FILES | {ROWS_FILE: FILES["result.csv"]}
_FAILURE = "failure.txt"
_PREPARED = 64  # tokens that were made and not used


@dataclass(frozen=True)
class Outcome:
    """What became of a release."""

    token: str
    state: str
    text: str
    when: str
    files: tuple[str, ...] = ()
    released: ReleasedJob | None = None
    question: str = ""
    makes_rows: bool = False


@dataclass
class _Entry:
    live: LivePlan
    lock: Lock = field(default_factory=Lock)  # held while it runs
    place: Path | None = None  # its folder, once it has begun: from then on it is never begun again
    outcome: Outcome | None = None


class Releases:
    """The releases of one folder, this process's and earlier ones."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._place = folder.root / RELEASES
        self._lock = Lock()
        self._entries: OrderedDict[str, _Entry] = OrderedDict()

    def prepare(self, live: LivePlan) -> str:
        """A token for a release of this plan; nothing is charged."""
        if live.planned.query is None:
            raise ArgumentError("a table is missing: without one, numbers can be planned but not released.")
        token = secrets.token_hex(10)
        with self._lock:
            self._entries[token] = _Entry(live)
            waiting = [name for name, entry in self._entries.items() if entry.place is None]
            for name in waiting[:-_PREPARED]:
                del self._entries[name]
        return token

    def earlier(self, live: LivePlan) -> int:
        """How often exactly this job was released before, or may have been: only what was never charged is left out."""
        text = live.job.to_toml()
        return sum(_job_text(one) == text and self._read(one).state != "uncharged" for one in self._folders())

    def run(self, token: object) -> Outcome:
        """Charge and publish, or say what became of it when that was done before."""
        entry = self._entry(token)
        if entry is None:
            return self.outcome(token)
        with entry.lock:
            if entry.outcome is None:
                entry.outcome = self._once(str(token), entry)
        return entry.outcome

    def outcome(self, token: object) -> Outcome:
        """What became of a release of this or another process; one that runs here is waited for."""
        entry = self._entry(token)
        if entry is not None:
            with entry.lock:
                if entry.outcome is not None:
                    return entry.outcome
        place = self._stored(token)
        if place is None:
            raise ArgumentError("this release is not known here: look at the plan again and release from there.")
        return self._read(place)

    def published(self, token: str) -> dict[str, PublishedBefore]:
        """The numbers of a release that an earlier process made, by question, from its record, which is proved anew."""
        return read_published(json.loads(self.file(token, "record.json").read_text(encoding="utf-8")))

    def all(self) -> list[Outcome]:
        """Every release of the folder, newest first."""
        with self._lock:
            running = {name for name, entry in self._entries.items() if entry.lock.locked()}
            known = {name: entry.outcome for name, entry in self._entries.items() if entry.outcome is not None}
        folders = [one for one in self._folders() if _token(one) not in running]
        return [replace(known.get(_token(one)) or self._read(one), question=_asked(one)) for one in folders]

    def file(self, token: str, name: str) -> Path:
        """A file of a release."""
        place = self._stored(token)
        if place is None or name not in DOWNLOADS or not (place / name).is_file():
            raise ArgumentError("there is no such file.")
        return place / name

    def _entry(self, token: object) -> _Entry | None:
        with self._lock:
            return self._entries.get(token) if isinstance(token, str) else None

    def _once(self, token: str, entry: _Entry) -> Outcome:
        """Begin a release that has not begun, and say what became of it, whatever happens after its beginning."""
        if entry.place is not None:
            return self._read(entry.place)
        place = self._place / f"{datetime.now(UTC):%Y-%m-%d-%H%M%S%f}-{token}"  # its name is its place in the list
        place.mkdir(parents=True)
        outcome = None
        try:
            with running(place):
                write_atomically(place / "job.toml", entry.live.job.to_toml())
                entry.place = place
                with suppress(Exception):  # the charge may have been made: what is on the disk counts
                    outcome = self._release(place, token, entry.live)
        except BaseException:
            if entry.place is None:
                _remove(place)
            raise
        if outcome is not None and outcome.state == "refused":
            _remove(place)
        return outcome or self._read(place)

    def _release(self, place: Path, token: str, live: LivePlan) -> Outcome:
        try:
            released = release_job(_labelled(live, token).planned, name_of=field_name)
        except Exception as error:  # noqa: BLE001 - whatever it was, whether it was charged must be known
            return self._failed(place, token, live, error)
        texts = {
            "result.csv": released.csv,
            "spreadsheet.csv": lambda: released.csv(FOR_SPREADSHEETS["point"]),
            "spreadsheet-decimal-comma.csv": lambda: released.csv(FOR_SPREADSHEETS["comma"]),
            "report.html": released.page,
            "command.sh": lambda: live.job.to_command() + "\n",
            "script.py": live.job.to_python,
            "notebook.ipynb": live.job.to_notebook,
            "record.json": released.record_text,  # last: with it the release is whole
        }
        unwritten = []
        for name, text in texts.items():
            try:
                write_atomically(place / name, text())
            except Exception as error:  # noqa: BLE001 - the numbers are paid for: they are shown all the same
                unwritten.append(f"{name} could not be written: {sentence_of(error, 'page')}")
        if unwritten:
            unwritten.append("The charge stands: keep the numbers that are shown here.")
        writes_rows = _makes_rows(live.job) and "record.json" in _files(place)
        return Outcome(
            token, "done", " ".join(unwritten), _when(place), _files(place), released, makes_rows=writes_rows
        )

    def _failed(self, place: Path, token: str, live: LivePlan, error: Exception) -> Outcome:
        sentence = sentence_of(error, "page")
        try:
            charge = _charge(live.planned.job, token)
        except Exception:  # noqa: BLE001 - it is not known then, and that is what is said
            charge = "Whether the ledger was charged cannot be read now; if it was, the charge"
        says_charge = isinstance(error, UnansweredError)  # it says itself what stands
        if charge is None and isinstance(error, InidError) and not says_charge:
            return Outcome(token, "refused", sentence, _when(place))
        if charge is not None and not says_charge:
            sentence += f" {charge} stands: it is made before the table is read."
        with suppress(Exception):  # without the file the ledger says it
            write_atomically(place / _FAILURE, sentence + "\n")
        return Outcome(token, "failed", sentence, _when(place), _files(place))

    def _read(self, place: Path) -> Outcome:
        token, when = _token(place), _when(place)
        if is_running(place):  # first: what is not there yet may come
            text = "It is running in another process: look again in a moment."
            return Outcome(token, "running", text, when)
        files = _files(place)
        if _whole(place):
            return Outcome(token, "done", "", when, files, makes_rows=_rows_asked(place))
        if (place / _FAILURE).is_file():
            text = (place / _FAILURE).read_text(encoding="utf-8", errors="replace")
            return Outcome(token, "failed", text.strip(), when, files)
        try:
            charge = self._charge_of(place, token)
        except Exception as error:  # noqa: BLE001 - it is not known then, and that is what is said
            text = (
                f"It was interrupted, and its ledger cannot be read: take it as charged. {sentence_of(error, 'page')}"
            )
            return Outcome(token, "charged", text, when, files)
        if charge is None:
            text = "It was interrupted before a ledger was charged: nothing was spent there, and nothing was published."
            return Outcome(token, "uncharged", text, when, files)
        text = (
            f"It was interrupted. {charge} stands, because it is made before the table is read; its numbers were never "
            "shown. It is not charged again: a new release is a new charge."
        )
        return Outcome(token, "charged", text, when, files)

    def _charge_of(self, place: Path, token: str) -> str | None:
        """The charge of an interrupted release, if its ledger holds one."""
        values = read_toml(place / "job.toml")
        if "ledger" in values:
            values["ledger"] = self._folder.opened_ledger(values["ledger"])
        return _charge(Job.from_dict(values), token)

    def _stored(self, token: object) -> Path | None:
        if not isinstance(token, str) or not token.isalnum():
            return None
        return next((one for one in self._folders() if _token(one) == token), None)

    def _folders(self) -> list[Path]:
        if not self._place.is_dir():
            return []
        folders = [one for one in self._place.iterdir() if one.is_dir() and (one / "job.toml").is_file()]
        return sorted(folders, key=lambda one: one.name, reverse=True)


def _labelled(live: LivePlan, token: str) -> LivePlan:
    """The same with the token in the label of the charge, by which it is found again."""
    job = live.planned.job
    label = f"{job.ledger.label} ({_mark(token)})" if job.ledger.label else _mark(token)
    labelled = replace(job, ledger=job.ledger.stating(label=label))
    return replace(live, planned=replace(live.planned, job=labelled))


def _mark(token: str) -> str:
    return f"studio {token}"


def _charge(job: Job, token: str) -> str | None:
    """The charge of a token in words, or None when its ledger holds none."""
    address, name = job.ledger.ledger, job.ledger.name or "default"
    if address is None or stored_settings(address, name) is None:
        return None
    with open_existing(address, name) as ledger:
        records = ledger.history()
    record = next((record for record in reversed(records) if _mark(token) in record.label), None)
    return None if record is None else f"Charge {record.id} of the ledger"


def _whole(place: Path) -> bool:
    try:
        return bool(json.loads((place / "record.json").read_text(encoding="utf-8"))["digest"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return False


def _files(place: Path) -> tuple[str, ...]:
    return tuple(name for name in DOWNLOADS if (place / name).is_file())


def _job_text(place: Path) -> str:
    try:
        return (place / "job.toml").read_text(encoding="utf-8")
    except (OSError, ValueError):  # it was removed just now, or is not ours
        return ""


def _asked(place: Path) -> str:
    try:
        return question_in_words(read_toml(place / "job.toml"))
    except (InidError, OSError, TypeError):  # it was removed just now, or is not ours
        return ""


def _makes_rows(job: Job) -> bool:
    questions = [part.question for part in job.parts.values() if isinstance(part.question, TableQuestion)]
    return sum(question.kind.makes_rows for question in questions) == 1


def _rows_asked(place: Path) -> bool:
    try:
        return _makes_rows(Job.from_dict(read_toml(place / "job.toml")))
    except (InidError, OSError, TypeError):  # as in _asked
        return False


def _remove(place: Path) -> None:
    """Take away the folder of a release that charged nothing; one that cannot be removed says the same."""
    with suppress(OSError):
        (place / "job.toml").unlink(missing_ok=True)
        place.rmdir()


def _token(place: Path) -> str:
    return place.name.rpartition("-")[2]


def _when(place: Path) -> str:
    day, _, rest = place.name.rpartition("-")[0].rpartition("-")
    return f"{day} {rest[:2]}:{rest[2:4]}:{rest[4:6]} UTC"


_MOST = 1_000_000  # a browser downloads them, and a spreadsheet opens them
_FIELD = "How many rows"


class _StoppedError(Exception):
    """Somebody pressed Stop."""


@dataclass
class _Work:
    token: object
    part: float = 0.0
    stopped: bool = False

    def report(self, part: float) -> None:
        self.part = part
        if self.stopped:
            raise _StoppedError


class SyntheticRowMaker:
    """Makes the rows of one folder's releases, one release at a time."""

    def __init__(self, releases: Releases) -> None:
        self._releases = releases
        self._busy = Lock()
        self._work: _Work | None = None

    def make(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Make rows and write them beside the record."""
        token, number = body.get("token"), _number(body.get("number"))
        record = self._releases.file(str(token), "record.json")
        if not self._releases.outcome(token).makes_rows:
            raise ArgumentError("this release did not ask for rows: ask for them in step 3, and release that.")
        if not self._busy.acquire(blocking=False):
            raise ArgumentError("rows are being made already: wait until they are there, or stop that.")
        try:
            self._work = work = _Work(token)
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always", UserWarning)
                synthetic = synthetic_rows(json.loads(record.read_text(encoding="utf-8")), number, progress=work.report)
            if synthetic.num_rows > _MOST:
                raise ArgumentError(
                    f"the table has about {synthetic.num_rows:,} rows: say {_FIELD}, at most {_MOST:,}."
                )
            write_atomically(record.with_name(ROWS_FILE), frame_as_csv(synthetic, harmless=True))
            words = [f"{synthetic.num_rows:,} rows are made. They follow from released numbers, and cost nothing."]
            words += [_sentence(str(one.message)) for one in caught if issubclass(one.category, UserWarning)]
            return {"text": " ".join(words), "there": True}
        except _StoppedError:
            there = record.with_name(ROWS_FILE).is_file()
            return {"text": "Stopped. What was released stays: rows can be made at any time.", "there": there}
        finally:
            self._work = None
            self._busy.release()

    def state(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """How far the rows of a release are."""
        work = self._work
        return {"part": work.part if work is not None and work.token == body.get("token") else 0.0}

    def stop(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Give up the rows of a release that are being made."""
        work = self._work
        if work is not None and work.token == body.get("token"):
            work.stopped = True
        return {}


def _number(text: object) -> int | None:
    if text is None or (isinstance(text, str) and not text.strip()):
        return None
    if not isinstance(text, str):
        raise ArgumentError(f"{_FIELD} does not fit: write a number, such as 1000, or leave it empty.")
    number = whole().read(_FIELD, text.strip())
    if not 1 <= int(number) <= _MOST:
        raise ArgumentError(f"{_FIELD} does not fit, got {text.strip()!r}: write a number from 1 to {_MOST:,}.")
    return int(number)


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]
