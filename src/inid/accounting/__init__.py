"""Budgets that several releases share: a `Ledger` is charged before each release and refuses what does not fit.

Start reading in `ledger`, then `rules` (what a history may cost) and `costs` (what a plan costs).
"""

from inid.accounting.charges import Charge
from inid.accounting.composition import (
    Composition,
    CompositionProof,
    JointCharge,
    JointProof,
    compose,
    composition_from_dict,
    composition_to_dict,
    subsample,
    trade_off,
)
from inid.accounting.costs import Spending, costs, loss_costs
from inid.accounting.exchange import from_dp_event, to_dp_event
from inid.accounting.history import History
from inid.accounting.ledger import Ledger
from inid.accounting.records import Receipt, Record, make_entry, verify_record
from inid.accounting.rules import Settings, accepts, make_terms, terms_from_dict
from inid.accounting.stores import GRANTS, MemoryStore, place, read_address
from inid.accounting.training_runs import TrainingRecord

__all__ = [
    "Composition",
    "CompositionProof",
    "JointCharge",
    "JointProof",
    "Ledger",
    "Receipt",
    "Record",
    "Spending",
    "TrainingRecord",
    "compose",
    "subsample",
    "verify_record",
]
