"""`inid verify`: prove again what a plan, a release record or a ledger promises."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from inid.accounting import CompositionProof, verify_record
from inid.cli import reading
from inid.cli.ledgers import is_file, open_existing
from inid.cli.options import Settings, Speech, argument
from inid.cli.speaking import Voice
from inid.errors import ArgumentError, RecordError
from inid.planning import Certificate, NoisePlan

__all__ = ["VerifyOptions", "verify"]

_SQLITE = b"SQLite format 3\x00"


@dataclass(frozen=True, kw_only=True)
class VerifyOptions(Speech, Settings):
    """The options of `inid verify`."""

    file: object = argument(
        "FILE", "A plan or a release record (JSON), or a ledger: a file or a postgresql:// address."
    )


def verify(options: VerifyOptions) -> None:
    """Prove what is in a file again, from its own numbers; exit 4 when the proof fails."""
    voice = Voice(options)
    name = reading.word("FILE", options.file)
    if name is None:
        raise ArgumentError("a file is missing: name a plan, a release record or a ledger.")
    if not is_file(name):
        return _ledger(voice, name, reading.word("--name", options.name) or "default")
    path = Path(name)
    if not path.exists():
        raise ArgumentError(f"there is no file {path}.")
    content = path.read_bytes()
    if content.startswith(_SQLITE):
        return _ledger(voice, name, reading.word("--name", options.name) or "default")
    kind, certificate = _proved(path, content)
    voice.document({"command": "verify", "kind": kind, "verified": True, "certificate": certificate.to_dict()})
    voice.say(f"The {kind} in {path} holds.")
    voice.say(str(certificate))
    return None


def _proved(path: Path, content: bytes) -> tuple[str, Certificate | CompositionProof]:
    try:
        record: Any = json.loads(content)
    except (ValueError, RecursionError):
        raise RecordError(f"{path} is neither JSON nor a ledger.") from None
    if isinstance(record, dict) and "plan" in record and "certificate" in record:
        return ("release" if "values" in record or "results" in record else "plan"), verify_record(record)
    return "plan", NoisePlan.from_dict(record).verify()


def _ledger(voice: Voice, address: str, name: str) -> None:
    with open_existing(address, name) as ledger:
        records = ledger.history()
        proofs = [verify_record(record) for record in records]
        shown = str(ledger)
    voice.document(
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
    voice.say(f"The ledger holds: {count} chain unbroken, every plan proved again.")
    voice.say(shown)
