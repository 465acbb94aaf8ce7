"""Budgets that several releases share.

A `Ledger` is charged before each release and refuses what does not fit its total; `verify_record` checks a charge, or
a release, from its record alone. Start reading in `ledger`, then `rules` (what a history may cost) and `costs`
(what a plan costs). `compose` and `subsample` give the exact curve of releases that are all fixed in advance, and
`exchange` exchanges them with dp_accounting.
"""

from inid.accounting.amounts import Spending
from inid.accounting.composition import Composition, compose, subsample
from inid.accounting.composition_records import CompositionProof
from inid.accounting.joint_charges import JointCharge, JointProof
from inid.accounting.ledger import Ledger
from inid.accounting.records import Receipt, Record, verify_record

__all__ = [
    "Composition",
    "CompositionProof",
    "JointCharge",
    "JointProof",
    "Ledger",
    "Receipt",
    "Record",
    "Spending",
    "compose",
    "subsample",
    "verify_record",
]
