"""The record of a publication: one file that holds the charge and the record of every part, and how it is verified.

    {"inid_publication": 1, "rules": 1, "names": [...], "charge": {...}, "results": {name: record}, "digest": "..."}

What it proves beyond each part's own record: the parts are the very ones that were charged, in this order, with the
probabilities that found keys take, and together they keep the promise.
"""

from collections.abc import Mapping
from fractions import Fraction
from typing import TYPE_CHECKING, Any, get_args

from inid.accounting import JointCharge, JointProof
from inid.accounting.amounts import Currency
from inid.errors import GuaranteeError, RecordError
from inid.numbers.decimals import decimal_fraction, decimal_up
from inid.planning import NoisePlan
from inid.promises import GaussianDP
from inid.tables.record import RULES, check_digest, record_digest

if TYPE_CHECKING:
    from inid.tables.publication.result import PublicationResult

__all__ = ["is_publication", "publication_record", "verify_publication"]

_VERSION = 1
_KEYS = {"inid_publication", "rules", "names", "charge", "results", "digest"}
_CURRENCIES: tuple[Currency, ...] = tuple(c for c in get_args(Currency) if c != "renyi")


def publication_record(
    result: "PublicationResult", combine: Mapping[str, Mapping[str, Any]] | None = None
) -> dict[str, Any]:
    """A JSON-safe record that `verify_publication` checks; with combinations of cells, by query and name."""
    record = {
        "inid_publication": _VERSION,
        "rules": RULES,
        "names": list(result),
        "charge": result.plan.charge.to_dict(),
        "results": {name: made.to_dict(combine=(combine or {}).get(name)) for name, made in result.items()},
    }
    return record | {"digest": record_digest(record)}


def is_publication(record: object) -> bool:
    """Whether a record is one of a publication."""
    return isinstance(record, Mapping) and "inid_publication" in record


def verify_publication(record: Mapping[str, Any]) -> JointProof:
    """Check a publication again from its record alone.

    Returns:
        The proof of all parts, made anew.

    Raises:
        RecordError: The record does not parse, was changed since its digest was made, or holds an answer that its noisy
            numbers do not give.
        GuaranteeError: The parts do not keep the promise, are not those of the charge, or a part's plan is not for its
            question.
    """
    from inid.tables.verification import proved

    results, charged = _parts(record)
    found = []
    for name, own in results.items():
        try:
            found.append(proved(own))
        except RecordError as error:
            raise RecordError(f"{name}: {error}") from None
        except GuaranteeError as error:
            raise GuaranteeError(f"{name}: {error}") from None
    noises: list[NoisePlan | GaussianDP] = [release.plan for own in found for release in own.releases]
    taken = sum((decimal_fraction(own.question.delta) for own in found), Fraction(0))
    for at, (noise, part) in enumerate(zip(noises, charged.parts, strict=False)):
        if isinstance(noise, NoisePlan) and isinstance(part, GaussianDP) and noise.budget == part:
            noises[at] = part  # noise that followed from earlier answers was charged by its promise
    charge = JointCharge(
        charged.promise, tuple(noises), charged.neighbours, decimal_up(taken, "delta") if taken else 0.0
    )
    if charge.to_dict() != charged.to_dict():
        raise GuaranteeError("the parts of the publication are not those that were charged: the record was changed.")
    return charge.proof(_CURRENCIES, None)


def _parts(record: Mapping[str, Any]) -> tuple[dict[str, Any], JointCharge]:
    """The record of each part, and the charge; whatever does not parse is the record's fault."""
    try:
        check_digest(record)
        if record.keys() != _KEYS or record["inid_publication"] is True or record["inid_publication"] != _VERSION:
            raise RecordError("the record is no publication of a format that this version knows.")
        if record["rules"] is True or record["rules"] != RULES:
            raise RecordError("the record names rules that this version does not know: use the version that made it.")
        results = {name: record["results"][name] for name in record["names"]}  # in the order of the charge
        if (
            not results
            or results.keys() != record["results"].keys()
            or not all(isinstance(own, Mapping) and "release" in own for own in results.values())
        ):
            raise RecordError("the record of the publication does not hold the record of each part.")
    except (KeyError, TypeError, ValueError, AttributeError):
        raise RecordError("the record of the publication does not parse: it is not whole, or was changed.") from None
    return results, JointCharge.from_dict(record["charge"])
