"""What is asked of a column whose keys nobody listed."""

from dataclasses import dataclass
from typing import Literal

from inid.arguments import choice, decimal_float, integer
from inid.errors import ArgumentError
from inid.tables.facts import Key

__all__ = ["KINDS", "Discovered", "discover"]

KINDS: dict[str, Key] = {"str": "", "int": 0, "bool": False}  # a key of each kind


@dataclass(frozen=True)
class Discovered:
    """A column whose keys are to be found. Made by `discover`.

    Attributes:
        max_keys_per_person: The most keys that count of one person.
        delta: The probability with which a key that only one person has may appear.
        kind: What the keys are: "str", "int" or "bool".
    """

    max_keys_per_person: int
    delta: float
    kind: str


def discover(max_keys_per_person: int = 1, *, delta: float, kind: Literal["str", "int", "bool"] = "str") -> Discovered:
    """Find the keys of a column: `t.query(count=True, by={"zip": tables.discover(delta=1e-8)})`.

    Every key that is there gets a noisy count, of rows (`count=True`) or of people (`count_distinct=True`), and appears
    with it where it reaches a threshold. A key that only one person has stays hidden, but for the probability delta,
    which is taken from a ledger's reserve (`Ledger.open(..., reserve=1e-7)`), or is part of the one promise of a ledger
    that is spent at once.

    *When not to use it.* Where a public list exists (postcodes, diagnoses, products), state it: known keys need no
    threshold, and small ones are counted too. Keys that few people have are never found.

    Args:
        max_keys_per_person: With a `Person`, how many keys of theirs count: those with the most of their rows, and of
            equal ones the first in order. More hide less of people with many keys, and raise the threshold.
        delta: A probability far below one in the number of people.
        kind: What the keys are: "str", "int" for whole numbers, or "bool"; values of another kind are left out, like
            missing ones. (The values of a column do not decide it, since one person's value could.)

    Raises:
        ArgumentError: An argument is malformed.

    >>> discover(max_keys_per_person=3, delta=1e-8)
    Discovered(max_keys_per_person=3, delta=1e-08, kind='str')
    """
    number = integer("max_keys_per_person", max_keys_per_person, least=1, cure="pass how many keys of one person count")
    cure = "pass a small probability, such as delta=1e-8"
    taken = decimal_float("delta", delta, above=0, cure=cure)
    if not taken < 1:
        raise ArgumentError(f"delta must be below 1, got {taken!r}: {cure}.")
    return Discovered(number, taken, choice("kind", kind, tuple(KINDS)))
