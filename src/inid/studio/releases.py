"""Releases of the page: each is asked for once, charged once, and written to files before it is shown.

A release has a random token, made when the page asks what it would spend. Pressing the button sends the token: whoever
comes second with the same one (a double click, a reload, a second tab) gets the same release. The order of events:

    1. a folder named by the token is made, with the job in it    the only step that a second server cannot repeat
    2. the ledger is charged, with the token in the label
    3. the results are written beside the job

So after a crash the folder says what happened: with a record the release is whole; without one, the ledger's history
says whether the charge stands. Neither is ever charged again.
"""

import json
import secrets
from collections import OrderedDict
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock

from inid.errors import ArgumentError, InidError
from inid.jobs import Job, ReleasedJob, read_toml, release_job
from inid.jobs.failures import sentence_of
from inid.jobs.ledgers import open_existing, stored_settings
from inid.jobs.result_files import as_csv, write_whole
from inid.jobs.stored_record import PublishedBefore, read_published
from inid.report import page
from inid.studio.folder import RELEASES, Folder
from inid.studio.form import field_name
from inid.studio.live import LivePlan
from inid.tables import EngineError

__all__ = ["FILES", "Outcome", "Releases"]

FILES = {
    "result.csv": "text/csv; charset=utf-8",
    "record.json": "application/json",
    "report.html": "text/html; charset=utf-8",
    "job.toml": "application/toml",
    "command.sh": "text/x-shellscript; charset=utf-8",
    "script.py": "text/x-python; charset=utf-8",
}
_FAILURE = "failure.txt"
_PREPARED = 64  # tokens that were made and not used


@dataclass(frozen=True)
class Outcome:
    """What became of a release.

    Attributes:
        token: Its token.
        state: "done", "refused" (nothing was charged), "failed" (after the charge, which stands), "charged" (it was
            interrupted after the charge, which stands) or "uncharged" (it was interrupted before).
        text: A sentence about it; empty where it is done.
        when: When it was asked for.
        files: The names of its files.
        released: The release, where this process made it.
    """

    token: str
    state: str
    text: str
    when: str
    files: tuple[str, ...] = ()
    released: ReleasedJob | None = None


@dataclass
class _Entry:
    live: LivePlan
    lock: Lock = field(default_factory=Lock)
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
            raise ArgumentError("a table is missing: numbers of stated sensitivities can be planned, not released.")
        token = secrets.token_hex(10)
        with self._lock:
            self._entries[token] = _Entry(live)
            waiting = [name for name, entry in self._entries.items() if entry.outcome is None]
            for name in waiting[:-_PREPARED]:
                del self._entries[name]
        return token

    def earlier(self, live: LivePlan) -> int:
        """How often exactly this job was released before."""
        text = live.job.to_toml()
        return sum((one / "job.toml").read_text(encoding="utf-8") == text for one in self._folders() if _whole(one))

    def run(self, token: object) -> Outcome:
        """Charge and publish, or say what became of it when that was done before.

        Raises:
            ArgumentError: There is no such token.
        """
        with self._lock:
            entry = self._entries.get(token) if isinstance(token, str) else None
        if entry is None:
            return self.outcome(token)
        assert isinstance(token, str)  # noqa: S101 - it was found among texts
        with entry.lock:
            if entry.outcome is None:
                entry.outcome = self._release(token, entry.live)
        return entry.outcome

    def outcome(self, token: object) -> Outcome:
        """What became of a release of this or an earlier process.

        Raises:
            ArgumentError: There is none of this token.
        """
        with self._lock:
            entry = self._entries.get(token) if isinstance(token, str) else None
        if entry is not None and entry.outcome is not None:
            return entry.outcome
        found = self._stored(token)
        if found is None:
            raise ArgumentError("this release is not known here: look at the plan again and release from there.")
        return self._read(found)

    def published(self, token: str) -> PublishedBefore:
        """The numbers of a release that an earlier process made, from its record, which is proved anew.

        Raises:
            ArgumentError: There is no such record.
            RecordError: It was changed.
            GuaranteeError: It does not keep its promise.
        """
        return read_published(json.loads(self.file(token, "record.json").read_text(encoding="utf-8")))

    def all(self) -> list[Outcome]:
        """Every release of the folder, newest first."""
        with self._lock:
            running = {name for name, entry in self._entries.items() if entry.lock.locked()}
            known = {name: entry.outcome for name, entry in self._entries.items() if entry.outcome is not None}
        found = [one for one in self._folders() if _token(one) not in running]
        return [known.get(_token(one)) or self._read(one) for one in found]

    def file(self, token: str, name: str) -> Path:
        """A file of a release.

        Raises:
            ArgumentError: There is none.
        """
        place = self._stored(token)
        if place is None or name not in FILES or not (place / name).is_file():
            raise ArgumentError("there is no such file.")
        return place / name

    def _release(self, token: str, live: LivePlan) -> Outcome:
        when = datetime.now(UTC)
        place = self._place / f"{when:%Y-%m-%d-%H%M%S}-{token}"
        shown = f"{when:%Y-%m-%d %H:%M:%S} UTC"
        place.mkdir(parents=True)
        write_whole(place / "job.toml", live.job.to_toml())
        try:
            released = release_job(_labelled(live, token).planned, named=field_name)
        except Exception as error:  # noqa: BLE001 - whatever it was, whether it was charged must be known
            return self._failed(place, token, shown, live, error)
        texts = {
            "result.csv": lambda: as_csv(released.estimates),
            "report.html": lambda: page(released.report()),
            "command.sh": lambda: live.job.to_command() + "\n",
            "script.py": live.job.to_python,
            "record.json": released.record_text,  # last: with it the release is whole
        }
        unwritten = []
        for name, text in texts.items():
            try:
                write_whole(place / name, text())
            except (OSError, InidError) as error:  # the numbers are shown all the same
                unwritten.append(f"{name} could not be written: {sentence_of(error)}")
        return Outcome(token, "done", " ".join(unwritten), shown, _files(place), released)

    def _failed(self, place: Path, token: str, when: str, live: LivePlan, error: Exception) -> Outcome:
        sentence = sentence_of(error)
        try:
            charge = _charge(live.planned.job, token)
        except InidError:
            charge = "Whether the ledger was charged cannot be read now; if it was, the charge"
        if charge is None and isinstance(error, InidError):
            (place / "job.toml").unlink()
            place.rmdir()
            return Outcome(token, "refused", sentence, when)
        if charge is not None and not isinstance(error, EngineError):
            sentence += f" {charge} stands: it is made before the table is read."
        write_whole(place / _FAILURE, sentence + "\n")
        return Outcome(token, "failed", sentence, when, _files(place))

    def _read(self, place: Path) -> Outcome:
        token, when, files = _token(place), _when(place), _files(place)
        if _whole(place):
            return Outcome(token, "done", "", when, files)
        if (place / _FAILURE).is_file():
            return Outcome(token, "failed", (place / _FAILURE).read_text(encoding="utf-8").strip(), when, files)
        try:
            charge = self._charge_of(place, token)
        except InidError as error:
            text = f"It was interrupted, and its ledger cannot be read: take it as charged. {sentence_of(error)}"
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
        """The charge of an interrupted release, if its ledger holds one.

        Raises:
            InidError: The ledger cannot be read.
        """
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
        found = [one for one in self._place.iterdir() if one.is_dir() and (one / "job.toml").is_file()]
        return sorted(found, key=lambda one: one.name, reverse=True)


def _labelled(live: LivePlan, token: str) -> LivePlan:
    """The same with the token in the label of the charge, by which it is found again."""
    job = live.planned.job
    label = f"{job.ledger.label} ({_mark(token)})" if job.ledger.label else _mark(token)
    named = replace(job, ledger=replace(job.ledger, label=label))
    return replace(live, planned=replace(live.planned, job=named))


def _mark(token: str) -> str:
    return f"studio {token}"


def _charge(job: Job, token: str) -> str | None:
    """The charge of a token in words, or None when its ledger holds none.

    Raises:
        InidError: The ledger cannot be read.
    """
    address, name = job.ledger.ledger, job.ledger.name or "default"
    if address is None or stored_settings(address, name) is None:
        return None
    with open_existing(address, name) as ledger:
        records = ledger.history()
    found = next((record for record in reversed(records) if _mark(token) in record.label), None)
    return None if found is None else f"Charge {found.id} of the ledger"


def _whole(place: Path) -> bool:
    try:
        return bool(json.loads((place / "record.json").read_text(encoding="utf-8"))["digest"])
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _files(place: Path) -> tuple[str, ...]:
    return tuple(name for name in FILES if (place / name).is_file())


def _token(place: Path) -> str:
    return place.name.rpartition("-")[2]


def _when(place: Path) -> str:
    day, _, rest = place.name.rpartition("-")[0].rpartition("-")
    return f"{day} {rest[:2]}:{rest[2:4]}:{rest[4:]} UTC"
