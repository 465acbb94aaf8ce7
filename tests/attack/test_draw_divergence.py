"""What a draw tells, worked out in rationals: no more than Poisson sampling, to somebody who sees all the others.

The step releases who else was drawn, where they stand, and, with noise, whether one example was drawn. Hockey-stick
divergences between the neighbours must not exceed those of Poisson sampling alone, at any factor, either way.
"""

import subprocess
import sys
from collections import Counter
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from scipy import stats
from torch.utils.data import DataLoader

from draw_laws import RATE, placed, redrawn, with_surplus_dropped
from inid.dpsgd.sampling import PoissonLoader, partition_examples
from inid.errors import ArgumentError
from inid.noise import SharedSource

FACTORS = [Fraction(9, 10), 1, Fraction(11, 10), Fraction(3, 2), 2, Fraction(5, 2), 3]
TRUTH = Fraction(3, 4)  # how often the noisy bit is right


def divergence(one, other, factor):
    return sum(max(one[each] - factor * other[each], 0) for each in one)


def released(law, hidden):
    """(The others, the noisy bit) under a law of (the others, whether the example was drawn); hidden: it is nothing."""
    found = Counter()
    for (others, drawn), p in law.items():
        for bit in (False, True):
            found[others, bit] += p * (TRUTH if bit == (drawn and not hidden) else 1 - TRUTH)
    return found


def others_and(example, law):
    """The law of (who else stands where, whether the example is drawn)."""
    found = Counter()
    for standing, p in law.items():
        others = frozenset(pair for pair in standing if pair[0] != example)
        found[others, others != standing] += p
    return found


def within_poisson(one, other):
    """Whether two releases are as close as those of Poisson sampling, either way, at all factors."""
    sampled = {(None, True): RATE, (None, False): 1 - RATE}
    pair = [released(sampled, hidden=hidden) for hidden in (False, True)]
    return all(
        divergence(*mine, factor) <= divergence(*theirs, factor)
        for factor in FACTORS
        for mine, theirs in (((one, other), pair), ((other, one), pair[::-1]))
    )


@pytest.mark.parametrize("places", [1, 2, 3, 4])
def test_redrawing_and_places_tell_no_more_than_poisson_sampling(places):
    law = others_and(2, placed(redrawn(4, places), places))
    assert within_poisson(released(law, hidden=False), released(law, hidden=True))


@pytest.mark.parametrize("places", [1, 2, 3])
def test_twins_tell_more(places):
    """A draw whose surplus is dropped; and one from as many positions as there are people."""
    dropped = others_and(2, placed(with_surplus_dropped(4, places), places))
    assert not within_poisson(released(dropped, hidden=False), released(dropped, hidden=True))
    four, three = (others_and(3, placed(redrawn(count, places), places)) for count in (4, 3))
    assert not within_poisson(released(four, hidden=False), released(three, hidden=True))


# Two processes of three positions and two places, five examples of which one is the second: an empty position is -1.

PEOPLE = [0, 1, 2, 3, 4, -1]
WITHOUT = [0, 2, 3, 4, -1, -2]


def shared(held, example):
    """The law of (which of the others is whose, and who of them is drawn; whether the example is)."""
    found = Counter()
    own = redrawn(3, 2)
    whose = frozenset((each, rank) for rank in (0, 1) for each in held[rank] if each >= 0 and each != example)
    for first, p in own.items():
        for second, q in own.items():
            drawn = {held[0][at] for at in first} | {held[1][at] for at in second}
            found[(whose, frozenset(each for each in drawn if each >= 0 and each != example)), example in drawn] += (
                p * q
            )
    return found


def at_random(people):
    """The law where positions are dealt out at random."""
    found = Counter()
    for first in combinations(range(6), 3):
        held = [[people[at] for at in first], [people[at] for at in range(6) if at not in first]]
        for each, p in shared(held, 1).items():
            found[each] += p / 20
    return found


def without_whose(law):
    """Somebody who does not see which process draws whom."""
    found = Counter()
    for ((_, others), drawn), p in law.items():
        found[others, drawn] += p
    return found


def test_dealt_at_random_one_example_less_changes_nothing_for_the_others():
    with_it, without = released(at_random(PEOPLE), hidden=False), released(at_random(WITHOUT), hidden=True)
    assert within_poisson(with_it, without)


def test_twin_dealt_in_order_tells_for_certain():
    """0, 2 and 4 are too many for the places of one process, whose they are while the second example is there."""
    laws = [without_whose(shared([people[0::2], people[1::2]], 1)) for people in (PEOPLE, WITHOUT)]
    assert sum(p for (others, _), p in laws[0].items() if {0, 2, 4} <= others) == 0
    assert sum(p for (others, _), p in laws[1].items() if {0, 2, 4} <= others) > Fraction(1, 50)
    assert not within_poisson(released(laws[0], hidden=False), released(laws[1], hidden=True))


def test_positions_are_dealt_out_uniformly_and_each_once():
    splits = Counter()
    for key in range(4000):
        one, other = (partition_examples(5, 3, rank=rank, world=2, key=key).tolist() for rank in (0, 1))
        assert sorted(one + other) == [-1, 0, 1, 2, 3, 4]
        splits[frozenset(one)] += 1
    assert len(splits) == 20
    assert stats.chisquare(list(splits.values())).pvalue > 1e-6


def test_twin_dealt_by_words_of_their_own_two_processes_hold_one_example():
    """Who is held twice moves the sum by twice his threshold."""
    doubled = 0
    for key in range(100):
        held = [
            example for rank in (0, 1) for example in partition_examples(5, 3, rank=rank, world=2, key=2 * key + rank)
        ]
        doubled += max(Counter(each for each in held if each >= 0).values()) > 1
    assert doubled > 80


def test_positions_are_dealt_by_the_source_of_noise_alone(monkeypatch):
    """One word for each position is drawn from it, and these decide alone."""
    asked = []

    def counted(source, out):
        asked.append((type(source), out.size))
        return filled(source, out)

    filled = SharedSource.fill
    monkeypatch.setattr(SharedSource, "fill", counted)
    partition_examples(5, 3, rank=0, world=2, key=9)
    assert asked == [(SharedSource, 6)]
    reversed_words = np.arange(6, dtype=np.uint64)[::-1]
    monkeypatch.setattr(SharedSource, "fill", lambda _, out: np.copyto(out, reversed_words) or out)
    assert [partition_examples(5, 3, rank=rank, world=2, key=9).tolist() for rank in (0, 1)] == [[-1, 3, 1], [4, 2, 0]]


def test_processes_deal_equally_and_another_key_deals_otherwise():
    script = (
        "from inid.dpsgd.sampling import partition_examples; "
        "print(*partition_examples(900, 500, rank=1, world=2, key=2**127 + 5))"
    )
    other = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    mine, others = (partition_examples(900, 500, rank=1, world=2, key=2**127 + at).tolist() for at in (5, 6))
    assert [int(each) for each in other.split()] == mine != others


@pytest.mark.parametrize("key", [None, 3, 2**64 - 1])
def test_a_secret_number_of_examples_is_dealt_out_by_a_key_that_nobody_guesses(key):
    options = {"neighbours": "add_remove", "sample_rate": 0.5, "steps": 1, "rank": 0, "world": 2}
    with pytest.raises(ArgumentError, match="dealt out"):
        PoissonLoader(DataLoader(list(range(5)), batch_size=2), key=key, **options)
    assert PoissonLoader(DataLoader(list(range(5)), batch_size=2), key=2**127, **options).physical_batches == 1
