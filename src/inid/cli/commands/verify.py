"""`inid verify`: prove again what a plan, a release record or a ledger promises."""

import json
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from inid.accounting import CompositionProof, JointCharge, JointProof, TrainingRecord, verify_record
from inid.accounting.stores import is_file
from inid.cli.console import Console
from inid.cli.options import COMMON, Command, Values, argument
from inid.errors import ArgumentError, RecordError
from inid.jobs.ledgers import open_existing
from inid.planning import Certificate, NoisePlan
from inid.releasing import check_release
from inid.schema import key
from inid.tables import verify_result
from inid.tables.streams.results import is_stream_record
from inid.tables.verification import is_publication

_FILE = argument(
    "file", "FILE", "A plan, a release or training record (JSON), or a ledger: a file or a postgresql:// address."
)

_CURE = "name what inid plan --out or inid release --record wrote, or a ledger"
_SQLITE = b"SQLite format 3\x00"
_PROVED = {
    "plan": "The noise of this plan keeps its promise.",
    "release": "Its noise keeps the promise, its plan covers the question, and every estimate and interval follows "
    "from its noisy sums. This cannot prove that the noise was random, which table the sums are of, or "
    "that a ledger was charged. Compare the digest with the published one.",
    "publication": "In every part the noise keeps its part of the promise, the plan covers the question, and every "
    "estimate and interval follows from the noisy numbers. The parts are those that were charged, "
    "and together they keep the promise. This cannot prove that the noise was random, which table "
    "the numbers are of, or that a ledger was charged. Compare the digest with the published one.",
    "stream": "The noise keeps the promise over all periods, its plan covers the question, and every estimate and "
    "interval of a period and of a total follows from its noisy numbers. This cannot prove that the noise was random, "
    "which rows the numbers are of, or that a ledger was charged. Compare the digest with the published one.",
    "training record": "The recorded steps cost no more than the promise says. This cannot prove that the run went so, "
    "that the noise was random, which data it saw, or that a ledger was charged. Compare the digest with the published "
    "one.",
    "noisy values": "The noise of this release keeps its promise. The record holds noisy values only, and cannot prove "
    "that they were not changed.",
}


class _Proved(NamedTuple):
    """What was proved: the kind of record, its proof made anew, its digest, and the rules that it names."""

    kind: str
    certificate: Certificate | CompositionProof | JointProof | TrainingRecord
    digest: str | None = None
    rules: int | None = None


def verify(values: Values) -> None:
    """Prove what is in a file again, from its own numbers; exit 4 when the proof fails."""
    console = Console(values)
    address = _FILE.of(values)
    if address is None:
        raise ArgumentError("a file is missing: name a plan, a release record or a ledger.")
    name = key("name").of(values) or "default"
    if not is_file(address):
        return _ledger(console, address, name)
    path = Path(address)
    if not path.exists():
        raise ArgumentError(f"there is no file {str(path)!r}.")
    content = path.read_bytes()
    if content.startswith(_SQLITE):
        return _ledger(console, address, name)
    try:
        kind, certificate, digest, rules = _proved(path, content)
    except RecursionError:
        raise RecordError(f"{path} is neither a plan nor a record: it is nested too deeply.") from None
    document = {"command": "verify", "kind": kind, "verified": True, "certificate": certificate.to_dict()}
    if digest:
        document |= {"digest": digest} if rules is None else {"digest": digest, "rules": rules}
    console.document(document)
    console.line(f"The {kind} in {path} holds.")
    console.line(_PROVED[kind])
    if rules is not None:
        console.line(f"rules: {rules}")
    if digest:
        console.line(f"digest: {digest}")
    console.lines(str(certificate))
    return None


def read_json(path: Path, content: bytes) -> Any:
    """What a file of JSON holds, in which no name stands twice."""
    try:
        return json.loads(content, object_pairs_hook=partial(_distinct_names, path))
    except ValueError:
        if content.lstrip().startswith(b"{"):
            raise RecordError(f"{path} is no whole record: it was cut, or changed.") from None
        raise ArgumentError(f"{path} is neither a record nor a ledger: {_CURE}.") from None


def _proved(path: Path, content: bytes) -> _Proved:
    """What a file holds, proved anew."""
    record = read_json(path, content)
    if is_publication(record):
        return _Proved("publication", verify_result(record), str(record.get("digest")), record.get("rules"))
    if is_stream_record(record):
        return _Proved("stream", verify_result(record), str(record.get("digest")), record.get("rules"))
    if isinstance(record, dict) and "inid_training" in record:
        training = TrainingRecord.from_dict(record)
        training.verify()
        return _Proved("training record", training, str(record["digest"]))
    known = {"plan", "release", "noise", "scales", "inid", "inid_parts"}
    if not isinstance(record, dict) or not known & record.keys():
        raise ArgumentError(f"{path} is neither a record nor a ledger: {_CURE}.")
    if "inid_parts" in record:
        return _Proved("plan", JointCharge.from_dict(record).proof(("epsilon", "mu_squared"), None))
    if not {"plan", "release"} & record.keys():
        of_query = "noise" in record and "scales" not in record
        return _Proved("plan", NoisePlan.from_dict(record["noise"] if of_query else record).verify())
    if "question" in record or "results" in record or "release" in record:
        if not {"question", "digest"} <= record.keys():
            raise RecordError(
                f"the estimates in {path} cannot be checked: it lacks the question or the digest. It was cut, or "
                "changed."
            )
        return _Proved("release", verify_result(record), str(record["digest"]), record.get("rules"))
    if {"values", "inid_release"} & record.keys():
        check_release(record)
        return _Proved("noisy values", verify_record(record))
    return _Proved("plan", verify_record(record))


def _distinct_names(path: Path, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON in which no name stands twice: its readers might take either value, the digest covers one."""
    content = dict(pairs)
    if len(content) != len(pairs):
        raise RecordError(f"{path} was changed: a name stands twice in one of its objects.")
    return content


def _ledger(console: Console, address: str, name: str) -> None:
    with open_existing(address, name) as ledger:
        records, proofs, text = ledger.history(), ledger.verify(), str(ledger)
    console.document(
        {
            "command": "verify",
            "kind": "ledger",
            "verified": True,
            "charges": [
                {"id": record.id, "label": record.label, "certificate": proof.to_dict()}
                for record, proof in zip(records, proofs, strict=True)
            ],
        }
    )
    count = "1 charge, its" if len(records) == 1 else f"{len(records)} charges, their"
    console.line(
        f"The ledger holds: {count} chain unbroken, every plan proved again, and together they keep its total."
    )
    console.lines(text)


VERIFY = Command(
    "verify",
    verify,
    (_FILE, key("name"), *COMMON),
    """Prove a plan, a record or a ledger again.

    Everything is derived again from the stored numbers: the promise from the noise, and for a release every
    estimate and interval from its noisy sums. Exit code 4 says that the proof failed.
    """,
    """
  inid verify plan.json
  inid verify budget.db
""",
)
