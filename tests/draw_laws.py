"""The laws of a step's draw, in rationals: who is drawn, and who stands where."""

from collections import Counter
from fractions import Fraction
from itertools import combinations, permutations

__all__ = ["RATE", "placed", "redrawn", "with_surplus_dropped"]

RATE = Fraction(1, 3)


def poisson(count):
    """The probability of every draw from so many positions."""
    return {
        frozenset(drawn): RATE**size * (1 - RATE) ** (count - size)
        for size in range(count + 1)
        for drawn in combinations(range(count), size)
    }


def redrawn(count, places):
    """The law of the first draw that fits."""
    fitting = {drawn: p for drawn, p in poisson(count).items() if len(drawn) <= places}
    return {drawn: p / sum(fitting.values()) for drawn, p in fitting.items()}


def with_surplus_dropped(count, places):
    """The broken twin: of a draw that does not fit, a random part is kept."""
    law = Counter()
    for drawn, p in poisson(count).items():
        kept = list(combinations(drawn, min(len(drawn), places)))
        for each in kept:
            law[frozenset(each)] += p / len(kept)
    return law


def placed(law, places):
    """The law of who stands where: every injection of a draw into the places is as likely as the others."""
    found = Counter()
    for drawn, p in law.items():
        ways = list(permutations(range(places), len(drawn)))
        for way in ways:
            found[frozenset(zip(sorted(drawn), way, strict=True))] += p / len(ways)
    return found
